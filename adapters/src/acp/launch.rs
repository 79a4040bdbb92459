//! The start of a worker process, and the group it lives in.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::AcpSettings;

/// The process group of a worker, as its task and its pool know it.
#[derive(Clone, Default)]
pub(super) struct Group(Arc<Mutex<Option<Pid>>>);

impl Group {
    /// Its first process has this number.
    pub(super) fn lead(&self, id: Option<u32>) {
        let leader = id.and_then(|id| i32::try_from(id).ok());
        *self.leader() = leader.map(Pid::from_raw);
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(leader) = *self.leader() {
            // Nobody left to signal is what is hoped for.
            let _nobody = killpg(leader, signal);
        }
    }

    /// Once all are gone the id may come to belong to others.
    pub(super) fn disarm(&self) {
        *self.leader() = None;
    }

    fn leader(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What starts a worker: in a group of its own, and without keys.
pub(super) fn command(settings: &AcpSettings) -> Command {
    // The path would otherwise be looked for in the new working directory.
    let program = Path::new(&settings.command);
    let absolute = (program.components().count() > 1).then(|| std::path::absolute(program));
    let program = match absolute {
        Some(Ok(absolute)) => absolute,
        Some(Err(_)) | None => program.to_path_buf(),
    };
    let mut command = Command::new(program);
    command
        .args(&settings.args)
        .current_dir(&settings.cwd)
        .process_group(0);
    for (name, value) in std::env::vars_os() {
        if holds_key(&name, &value) {
            command.env_remove(name);
        }
    }
    for (name, value) in &settings.env {
        if holds_key(name, value) {
            tracing::warn!(
                ?name,
                "a variable that seems to hold a key is not given to workers"
            );
            continue;
        }
        command.env(name, value);
    }
    command
}

/// Whether a variable looks as if it held a Nostr key or the agent's credentials.
fn holds_key(name: &OsStr, value: &OsStr) -> bool {
    const SECRET: &[u8] = b"nsec1";
    let name = name.to_string_lossy().to_ascii_uppercase();
    let value = value.as_encoded_bytes().to_ascii_lowercase();
    name.ends_with("PRIVATE_KEY")
        || name.ends_with("NSEC")
        || name == "BUZZ_AUTH_TAG"
        || value.windows(SECRET.len()).any(|part| part == SECRET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_hold_keys_are_known_by_name_or_value() {
        let holds = |name: &str, value: &str| holds_key(OsStr::new(name), OsStr::new(value));
        for name in [
            "BUZZ_PRIVATE_KEY",
            "BUZZ_ACP_PRIVATE_KEY",
            "NOSTR_PRIVATE_KEY",
            "agent_private_key",
            "AGENT_NSEC",
            "BUZZ_AUTH_TAG",
        ] {
            assert!(holds(name, "x"), "{name}");
        }
        assert!(holds("ARGS", "--key NSEC1abc"));
        assert!(!holds("ANTHROPIC_API_KEY", "x"));
        assert!(!holds("PATH", "/usr/bin"));
    }
}
