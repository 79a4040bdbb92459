//! Files that are replaced as a whole or not at all, in a folder of our own.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The owner alone may read and write.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Makes a folder and those above it, all for the owner alone, and lasting. What is there stays as
/// it is.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let Some(above) = folder.parent() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    make_folder(above)?;
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        // Another agent may have made it just now.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        result => result.and_then(|()| sync_folder(above)),
    }
}

/// Opens a file to lock it; its content means nothing.
pub(super) fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(FILE_MODE).open(path)
}

/// The whole of a file that has at most `bytes_max` bytes.
pub(super) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Whoever opens a pipe waits for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = Vec::new();
    let mut file = File::open(path)?.take(bytes_max.saturating_add(1));
    let length = file.read_to_end(&mut text)?;
    if u64::try_from(length).unwrap_or(u64::MAX) > bytes_max {
        return Err(io::Error::other(format!(
            "it is larger than {bytes_max} bytes"
        )));
    }
    Ok(text)
}

/// Puts what `write` writes in the place of the file at `path`, by way of `fresh` in the same
/// folder. Whatever fails or ends the process meanwhile, `path` has its former content or all of
/// the new one; what is left at `fresh` means nothing.
pub(super) fn replace(
    path: &Path,
    fresh: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    remove(fresh)?;
    let mut options = File::options();
    options.write(true).create_new(true).mode(FILE_MODE);
    let mut file = options.open(fresh)?;
    let result = write(&mut file)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(fresh, path));
    if result.is_err() {
        // A full disk has better use for it, and the failure itself says more.
        let _left = remove(fresh);
    }
    result?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Gives a file the first of these names that nothing in its folder has.
pub(super) fn move_aside(
    path: &Path,
    mut names: impl Iterator<Item = PathBuf>,
) -> io::Result<PathBuf> {
    let name = names.find(|name| name.symlink_metadata().is_err());
    let name = name.ok_or_else(|| io::Error::other("every name for it is taken"))?;
    fs::rename(path, &name)?;
    path.parent().map_or(Ok(()), sync_folder)?;
    Ok(name)
}

/// Removes a file, if there is one.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// A name in a folder lasts only when the folder is written, too.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    struct Place {
        folder: TempDir,
        path: PathBuf,
        fresh: PathBuf,
    }

    /// A folder with a file in it.
    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let fresh = folder.path().join("state.new");
        fs::write(&path, "former").unwrap();
        Place {
            folder,
            path,
            fresh,
        }
    }

    impl Place {
        fn replace(&self, text: &str) -> io::Result<()> {
            replace(&self.path, &self.fresh, |file| {
                file.write_all(text.as_bytes())
            })
        }

        fn content(&self) -> String {
            fs::read_to_string(&self.path).unwrap()
        }
    }

    #[test]
    fn a_file_is_replaced_by_one_that_its_owner_alone_may_read() {
        let place = place();

        place.replace("new").unwrap();

        assert_eq!(place.content(), "new");
        let mode = fs::metadata(&place.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!place.fresh.exists());
    }

    #[test]
    fn a_write_that_fails_in_the_middle_leaves_the_former_file_and_nothing_else() {
        let place = place();

        let result = replace(&place.path, &place.fresh, |file| {
            file.write_all(b"ne")?;
            Err(io::Error::other("the disk is full"))
        });

        assert_eq!(result.unwrap_err().to_string(), "the disk is full");
        assert_eq!(place.content(), "former");
        assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_process_left_is_in_nobodys_way() {
        let place = place();
        fs::write(&place.fresh, "half of a mu").unwrap();

        place.replace("new").unwrap();

        assert_eq!(place.content(), "new");
        assert!(!place.fresh.exists());
    }

    #[test]
    fn a_place_that_cannot_be_written_keeps_the_former_file() {
        let place = place();
        fs::create_dir(&place.fresh).unwrap();

        place.replace("new").unwrap_err();

        assert_eq!(place.content(), "former");
    }

    #[test]
    fn folders_are_made_for_their_owner_alone() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("a").join("b");

        make_folder(&folder).unwrap();
        make_folder(&folder).unwrap();

        for folder in [above.path().join("a"), folder] {
            let mode = fs::metadata(folder).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }

    #[test]
    fn what_is_moved_aside_never_takes_the_place_of_another() {
        let place = place();
        let names = ["x", "y"].map(|name| place.folder.path().join(name));
        fs::write(&names[0], "earlier").unwrap();

        let moved = move_aside(&place.path, names.iter().cloned()).unwrap();

        assert_eq!(moved, names[1]);
        assert_eq!(fs::read_to_string(&names[0]).unwrap(), "earlier");
        assert_eq!(fs::read_to_string(&names[1]).unwrap(), "former");
        fs::write(&place.path, "third").unwrap();
        move_aside(&place.path, names.into_iter()).unwrap_err();
        assert_eq!(place.content(), "third");
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_nothing_else_is_read() {
        let place = place();
        assert_eq!(read(&place.path, 6).unwrap(), b"former");
        let large = read(&place.path, 5).unwrap_err();
        assert_eq!(large.to_string(), "it is larger than 5 bytes");
        let folder = read(place.folder.path(), 100).unwrap_err();
        assert_eq!(folder.to_string(), "it is no file");
    }
}
