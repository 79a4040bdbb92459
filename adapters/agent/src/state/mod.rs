//! What an agent keeps for its next life: one file for each relay and key, in one folder.
//!
//! A file is written as a whole or not at all, and read as a whole or not at all. Beside it lies a
//! lock that its agent holds for as long as it lives.

mod disk;
mod document;

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use buzz_adapters::clock::Clock;
use buzz_adapters::keep::Keeper;
use buzz_adapters::url::RelayUrl;
use buzz_proto::ids::PubKey;
use buzz_proto::relay::{Record, Sub};
use sha2::{Digest as _, Sha256};

use self::document::Owner;
use crate::exit::{Exit, Failure};
use crate::ui::Ui;

/// A process that was being started when the agent was killed has the lock until it runs its own
/// program, which takes an instant.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Far more than all records that are kept at a time.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Files put aside within one second.
const ASIDE_MAX: u32 = 99;
/// Letters of a file's name that tell the relay.
const HOST_CHARS_MAX: usize = 64;

/// The records of one agent, and the lock that makes them its own.
#[derive(Debug)]
pub(crate) struct State {
    owner: Owner,
    place: Place,
    /// As they stand in the file.
    records: BTreeMap<Sub, Record>,
    _lock: File,
}

impl State {
    /// Takes the state in `folder` of an agent with this key on this relay, and reads it. One that
    /// cannot be read is put aside, with a warning.
    ///
    /// # Errors
    /// Another agent has it, or nothing can be kept in that folder.
    pub(crate) fn open(
        folder: &Path,
        url: &RelayUrl,
        key: PubKey,
        ui: Ui,
    ) -> Result<Self, Failure> {
        let unusable = |error: io::Error| {
            Failure::settings(format!(
                "nothing can be kept in {}: {error}; give another --state-dir, or --no-state",
                folder.display()
            ))
        };
        let folder = std::path::absolute(folder).map_err(unusable)?;
        disk::make_folder(&folder).map_err(unusable)?;
        if is_open_to_others(&folder) {
            ui.warn(format_args!(
                "others may write into {0}: run chmod go-w {0}",
                folder.display()
            ));
        }
        let place = Place::of(&folder, url, &key);
        let lock = disk::open_lock(&place.lock).map_err(unusable)?;
        match lock_soon(&lock) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(taken(url, &place)),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        disk::remove(&place.fresh).map_err(unusable)?;
        let owner = Owner {
            relay: url.relay_tag(),
            key,
        };
        let records = read(&place, &owner, ui)?;
        Ok(Self {
            owner,
            place,
            records,
            _lock: lock,
        })
    }

    /// What the life before left.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.values().cloned().collect()
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.place.file
    }
}

impl Keeper for State {
    fn keep(&mut self, records: Vec<Record>, forgotten: Vec<Sub>) -> io::Result<()> {
        let mut next = self.records.clone();
        for sub in forgotten {
            next.remove(&sub);
        }
        next.extend(records.into_iter().map(|record| (record.sub, record)));
        let text = document::encode(&self.owner, &next)?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "the records are larger than {FILE_BYTES_MAX} bytes"
            )));
        }
        let replaced = disk::replace(&self.place.file, &self.place.fresh, |file| {
            file.write_all(&text)
        });
        replaced.map_err(|error| {
            let folder = self.place.file.parent().unwrap_or(&self.place.file);
            let text = format!("nothing can be written into {}: {error}", folder.display());
            io::Error::new(error.kind(), text)
        })?;
        self.records = next;
        Ok(())
    }
}

/// Where the state of agents lies if nobody says where.
///
/// # Errors
/// The environment names no home.
pub(crate) fn usual_folder() -> Result<PathBuf, Failure> {
    let absolute = |name| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let states = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")));
    let folder = states.map(|states| states.join("buzz-agent"));
    folder.ok_or_else(|| {
        Failure::settings(
            "there is no home in which to keep what the agent has done: give --state-dir DIR, \
             or --no-state",
        )
    })
}

/// The paths of one state.
#[derive(Debug)]
struct Place {
    file: PathBuf,
    fresh: PathBuf,
    lock: PathBuf,
}

impl Place {
    /// A digest tells apart what the readable part of the name does not. The query is no part of
    /// it: it holds tokens, and a new token does not make another relay.
    fn of(folder: &Path, url: &RelayUrl, key: &PubKey) -> Self {
        let websocket = url.websocket();
        let address = websocket.split('?').next().unwrap_or_default();
        let mut digest = Sha256::new();
        digest.update(address.trim_end_matches('/'));
        digest.update([0]);
        digest.update(key.0);
        let digest: String = digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let plain = |letter: char| letter.is_ascii_alphanumeric() || ".-".contains(letter);
        let host = url.host().chars().take(HOST_CHARS_MAX);
        let host: String = host
            .map(|letter| if plain(letter) { letter } else { '_' })
            .collect();
        let stem = format!("{host}-{:.8}-{digest:.16}", key.to_string());
        let path = |ending: &str| folder.join(format!("{stem}.{ending}"));
        Self {
            file: path("json"),
            fresh: path("new"),
            lock: path("lock"),
        }
    }

    /// Names under which a file that means nothing is kept.
    fn asides(&self) -> impl Iterator<Item = PathBuf> {
        let now = Clock::wall().0;
        (1..=ASIDE_MAX).map(move |number| {
            let mut name = self.file.clone().into_os_string();
            name.push(format!(".corrupt-{now}"));
            if number > 1 {
                name.push(format!("-{number}"));
            }
            name.into()
        })
    }
}

/// The records of the file. One that cannot be read is put aside: it may be the only trace of what
/// was lost, and the first write must not destroy it.
fn read(place: &Place, owner: &Owner, ui: Ui) -> Result<BTreeMap<Sub, Record>, Failure> {
    let why = match disk::read(&place.file, FILE_BYTES_MAX) {
        Ok(text) => match document::decode(&text, owner) {
            Ok(records) => return Ok(records),
            Err(unusable) => unusable.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => error.to_string(),
    };
    let file = place.file.display();
    let aside = disk::move_aside(&place.file, place.asides()).map_err(|error| {
        Failure::settings(format!(
            "the state {file} cannot be used ({why}) and not be put aside ({error}): move it away"
        ))
    })?;
    ui.warn(format_args!(
        "the state {file} cannot be used: {why}; it is kept as {}, and the agent starts as for \
         the first time",
        aside.display()
    ));
    Ok(BTreeMap::new())
}

fn taken(url: &RelayUrl, place: &Place) -> Failure {
    let lock = place.lock.display();
    let text = format!(
        "another agent with this key runs on {url} (it holds {lock}): end that one first, or both \
         would answer"
    );
    Failure::new(Exit::Taken, text)
}

fn is_open_to_others(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & 0o022 != 0)
}

/// Takes the lock, if it is free or soon is.
fn lock_soon(lock: &File) -> Result<(), TryLockError> {
    for _ in 1..LOCK_TRIES {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            result @ (Ok(()) | Err(TryLockError::Error(_))) => return result,
        }
    }
    lock.try_lock()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use buzz_proto::ids::ChannelId;
    use buzz_proto::time::UnixTime;
    use tempfile::TempDir;

    use super::*;

    const URL: &str = "wss://relay.example";
    const CHANNEL: Sub = Sub::Channel(ChannelId([9; 16]));

    fn open(folder: &TempDir) -> Result<State, Failure> {
        open_for(folder, &url(URL), 1)
    }

    fn open_for(folder: &TempDir, url: &RelayUrl, key: u8) -> Result<State, Failure> {
        // Keys that look alike where a name shows them.
        let mut bytes = [1; 32];
        bytes[31] = key;
        State::open(folder.path(), url, PubKey(bytes), Ui::new(false))
    }

    fn url(text: &str) -> RelayUrl {
        RelayUrl::parse(text).unwrap()
    }

    fn record(sub: Sub, settled: u64) -> Record {
        Record {
            sub,
            settled: UnixTime(settled),
            done: Vec::new(),
            started: Vec::new(),
        }
    }

    /// The names in a folder that end like this.
    fn names(folder: &TempDir, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| is_meant(name)).collect()
    }

    #[test]
    fn the_next_life_gets_what_the_last_batches_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = open(&folder).unwrap();
        assert_eq!(state.records(), []);

        let first = vec![record(Sub::Membership, 1), record(CHANNEL, 2)];
        state.keep(first, Vec::new()).unwrap();
        state
            .keep(vec![record(Sub::Membership, 3)], vec![CHANNEL])
            .unwrap();
        drop(state);

        assert_eq!(
            open(&folder).unwrap().records(),
            [record(Sub::Membership, 3)]
        );
    }

    #[test]
    fn a_batch_that_cannot_be_written_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = open(&folder).unwrap();
        state.keep(vec![record(CHANNEL, 1)], Vec::new()).unwrap();

        fs::create_dir(&state.place.fresh).unwrap();
        let error = state
            .keep(vec![record(Sub::Membership, 2)], vec![CHANNEL])
            .unwrap_err();
        let place = format!("nothing can be written into {}: ", folder.path().display());
        assert!(error.to_string().starts_with(&place), "{error}");
        fs::remove_dir(&state.place.fresh).unwrap();

        assert_eq!(state.records(), [record(CHANNEL, 1)]);
        drop(state);
        let mut state = open(&folder).unwrap();
        assert_eq!(state.records(), [record(CHANNEL, 1)]);
        state.keep(vec![record(CHANNEL, 2)], Vec::new()).unwrap();
    }

    #[test]
    fn an_agent_has_its_state_for_itself_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let state = open(&folder).unwrap();

        let refused = open(&folder).unwrap_err();
        assert_eq!(refused.exit, Exit::Taken);
        let started = "another agent with this key runs on wss://relay.example (it holds ";
        assert!(refused.text.starts_with(started), "{}", refused.text);

        drop(state);
        open(&folder).unwrap();
    }

    #[test]
    fn every_relay_and_every_key_has_a_state_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let others = [
            (URL, 2),
            ("ws://relay.example", 1),
            ("wss://relay.example:4430", 1),
            ("wss://relay.example/community", 1),
            ("wss://relay.examples", 1),
        ];
        let first = open(&folder).unwrap();
        let states = others.map(|(text, key)| open_for(&folder, &url(text), key).unwrap());
        assert_eq!(names(&folder, |name| name.ends_with(".lock")).len(), 6);
        drop((first, states));
    }

    #[test]
    fn another_spelling_or_token_is_the_same_relay_and_no_token_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        for text in [
            "wss://relay.example/a?token=hunter2",
            "https://Relay.Example:443/a/?token=hunter3",
        ] {
            let mut state = open_for(&folder, &url(text), 1).unwrap();
            state.keep(Vec::new(), Vec::new()).unwrap();
        }
        let files = names(&folder, |name| name.ends_with(".json"));
        assert_eq!(files.len(), 1);
        assert!(files[0].starts_with("relay.example-01010101-"), "{files:?}");
        let text = fs::read_to_string(folder.path().join(&files[0])).unwrap();
        assert!(!text.contains("hunter"), "{text}");
    }

    #[test]
    fn what_cannot_be_read_is_put_aside_each_time_and_never_believed() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = open(&folder).unwrap();
        state.keep(vec![record(CHANNEL, 1)], Vec::new()).unwrap();
        let path = state.path().to_owned();
        drop(state);
        let good = fs::read_to_string(&path).unwrap();
        let unusable = [
            good[..good.len() / 2].to_owned(),
            good.replace("\"version\":1", "\"version\":2"),
            good.replace("\"settled\"", "\"x\":1,\"settled\""),
        ];

        for text in &unusable {
            fs::write(&path, text).unwrap();
            assert_eq!(open(&folder).unwrap().records(), []);
            assert!(!path.exists());
        }

        let aside = names(&folder, |name| name.contains(".json.corrupt-"));
        let texts = aside
            .iter()
            .map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
        let (mut kept, mut unusable) = (texts.collect::<Vec<_>>(), Vec::from(unusable));
        kept.sort();
        unusable.sort();
        assert_eq!(kept, unusable);
    }

    #[test]
    fn what_a_killed_agent_was_writing_is_removed_and_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = open(&folder).unwrap();
        state.keep(vec![record(CHANNEL, 1)], Vec::new()).unwrap();
        let fresh = state.place.fresh.clone();
        drop(state);
        fs::write(&fresh, "{\"version\":1,").unwrap();

        let state = open(&folder).unwrap();

        assert_eq!(state.records(), [record(CHANNEL, 1)]);
        assert!(!fresh.exists());
    }

    #[test]
    fn nobody_else_may_read_what_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = open(&folder).unwrap();
        state.keep(Vec::new(), Vec::new()).unwrap();

        for path in [&state.place.file, &state.place.lock] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    }
}
