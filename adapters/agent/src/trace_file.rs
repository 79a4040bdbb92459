//! The file of a trace.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use buzz_adapters::connect::RecordTo;
use buzz_proto::trace::Privacy;

use crate::exit::Failure;

/// What the first line of a trace begins with.
const BEGINNING: &[u8] = b"{\"v\":";
/// How many earlier traces are kept.
const COPIES_MAX: u32 = 9;

/// Creates the file. A trace that is there may be the only record of a fault, so it is kept under
/// a number; any other file is somebody's work and stays as it is.
///
/// # Errors
/// Names the path and why it cannot be used.
pub(crate) fn start_trace(path: &Path, privacy: Privacy) -> Result<RecordTo, Failure> {
    let refused = |why: &str| Failure::settings(format!("--trace {}: {why}", path.display()));
    let failed = |error: io::Error| refused(&error.to_string());
    if path.is_file() {
        let mut beginning = Vec::new();
        let file = File::open(path).map_err(failed)?;
        let length = BEGINNING.len().try_into().unwrap_or(u64::MAX);
        file.take(length)
            .read_to_end(&mut beginning)
            .map_err(failed)?;
        if beginning == BEGINNING {
            let kept = free_copy(path).ok_or_else(|| {
                refused(&format!(
                    "{COPIES_MAX} earlier traces are kept beside it: move some away"
                ))
            })?;
            fs::rename(path, kept).map_err(failed)?;
        } else if !beginning.is_empty() {
            return Err(refused("this is no trace and is not written over"));
        }
    }
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(path).map_err(failed)?;
    Ok(RecordTo { file, privacy })
}

/// Whether both paths name the same file that is there.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let one = one.canonicalize();
    one.is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// The first name that no earlier trace has.
fn free_copy(path: &Path) -> Option<PathBuf> {
    let numbered = |number: u32| {
        let mut name = OsString::from(path);
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let mut names = (1..=COPIES_MAX).map(numbered);
    names.find(|name| name.symlink_metadata().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_traces_are_kept_until_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        for number in 0..=COPIES_MAX {
            start_trace(&path, Privacy::Redacted).unwrap();
            fs::write(&path, format!("{{\"v\":1}} {number}")).unwrap();
        }

        let failure = start_trace(&path, Privacy::Redacted).unwrap_err();

        assert!(failure.text.contains("move some away"), "{}", failure.text);
        for (name, text) in [("trace.1", "{\"v\":1} 0"), ("trace.9", "{\"v\":1} 8")] {
            let kept = fs::read_to_string(folder.path().join(name)).unwrap();
            assert_eq!(kept, text);
        }
    }

    #[test]
    fn a_file_that_is_no_trace_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "mine").unwrap();

        let failure = start_trace(&path, Privacy::Redacted).unwrap_err();

        assert!(failure.text.contains("this is no trace"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
