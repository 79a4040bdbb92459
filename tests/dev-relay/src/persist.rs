//! A copy of events and channels in an SQLite file, so that a restart keeps them.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, params};

use crate::keys::Keys;
use crate::rules::channels::Channel;
use crate::rules::event::{Event, Filed};
use crate::rules::store::{Change, Store};

/// An open file.
#[derive(Debug)]
pub(crate) struct Disk {
    connection: Connection,
}

/// What a file held.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) store: Store,
    pub(crate) channels: Vec<Channel>,
    pub(crate) keys: Option<Keys>,
}

impl Disk {
    /// Opens or creates the file and reads it.
    pub(crate) fn open(path: &Path) -> rusqlite::Result<(Self, Loaded)> {
        let connection = Connection::open(path)?;
        // Losing the last moments in a power cut is fine for development; waiting for the disk on
        // each message is not.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = OFF;
             CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, channel TEXT, json TEXT);
             CREATE TABLE IF NOT EXISTS deleted (id TEXT PRIMARY KEY);
             CREATE TABLE IF NOT EXISTS channels (id TEXT PRIMARY KEY, json TEXT);
             CREATE TABLE IF NOT EXISTS keys (name TEXT PRIMARY KEY, secret TEXT);",
        )?;
        let disk = Self { connection };
        let loaded = disk.load()?;
        Ok((disk, loaded))
    }

    /// Keeps the relay's key, so that its signatures stay recognisable after a restart.
    pub(crate) fn keep_keys(&self, keys: &Keys) -> rusqlite::Result<()> {
        self.connection.execute(
            "INSERT OR REPLACE INTO keys (name, secret) VALUES ('relay', ?1)",
            params![keys.secret_hex()],
        )?;
        Ok(())
    }

    /// Repeats changes, all or none of them.
    pub(crate) fn apply(
        &mut self,
        changes: &[Change],
        channels: &[Channel],
    ) -> rusqlite::Result<()> {
        if changes.is_empty() && channels.is_empty() {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        for change in changes {
            match change {
                Change::Insert(filed) => transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO events (id, channel, json) VALUES (?1, ?2, ?3)",
                    )?
                    .execute(params![filed.event.id, filed.channel, filed.json])?,
                Change::Remove(id) => transaction
                    .prepare_cached("DELETE FROM events WHERE id = ?1")?
                    .execute(params![id])?,
                Change::Delete(id) => transaction
                    .prepare_cached("INSERT OR REPLACE INTO deleted (id) VALUES (?1)")?
                    .execute(params![id])?,
            };
        }
        for channel in channels {
            let json = serde_json::to_string(channel).unwrap_or_default();
            transaction
                .prepare_cached("INSERT OR REPLACE INTO channels (id, json) VALUES (?1, ?2)")?
                .execute(params![channel.id, json])?;
        }
        transaction.commit()
    }

    fn load(&self) -> rusqlite::Result<Loaded> {
        let mut store = Store::with_changes();
        self.rows("SELECT channel, json FROM events", |channel, json| {
            if let Some(event) = json.and_then(|json| serde_json::from_str::<Event>(&json).ok()) {
                store.insert(Arc::new(Filed::new(event, channel)));
            }
        })?;
        self.rows("SELECT id, NULL FROM deleted", |id, _| {
            store.mark_deleted(id.unwrap_or_default());
        })?;
        let mut channels = Vec::new();
        self.rows("SELECT id, json FROM channels", |_, json| {
            channels.extend(json.and_then(|json| serde_json::from_str::<Channel>(&json).ok()));
        })?;
        let mut keys = None;
        self.rows("SELECT name, secret FROM keys", |_, secret| {
            keys = secret.and_then(|secret| Keys::from_secret(&secret).ok());
        })?;
        // What was just read need not be written again.
        store.take_changes();
        Ok(Loaded {
            store,
            channels,
            keys,
        })
    }

    fn rows(
        &self,
        query: &str,
        mut each: impl FnMut(Option<String>, Option<String>),
    ) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            each(row.get(0)?, row.get(1)?);
        }
        Ok(())
    }
}
