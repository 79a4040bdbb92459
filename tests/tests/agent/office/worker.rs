//! A worker in a process of its own, which does what the last message of a prompt says:
//!
//! - `wait FILE`: works, with a sign of life now and then, until there is such a file;
//! - `fail HOW FILE`: where there is no such file, makes it and fails so; else answers. Where the
//!   file is called `-`, it fails each time;
//! - anything else: answers at once.
//!
//! Its answer names its process, the session, what it was started as, and the message.
#![expect(
    clippy::print_stdout,
    reason = "a worker speaks on its standard streams"
)]

use std::fs;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// Where workers leave files, and what they were started as.
pub(crate) const FOLDER: &str = "TEST_WORKER_FOLDER";
pub(crate) const VERSION: &str = "TEST_WORKER_VERSION";

/// Bounds every wait, so that a failed test leaves nothing behind.
const PATIENCE: Duration = Duration::from_secs(120);
const SIGN_EVERY: Duration = Duration::from_millis(50);
const HUGE: u64 = 50_000_000;

/// Speaks until its input ends.
pub(crate) fn run(folder: &str) {
    // The test harness may have left a line without an end.
    println!();
    let folder = PathBuf::from(folder);
    note(&folder, "pids", &process::id().to_string());
    let (sender, messages) = channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if let Ok(message) = serde_json::from_str(&line.unwrap())
                && sender.send(message).is_err()
            {
                return;
            }
        }
    });
    let mut worker = Worker {
        folder,
        messages,
        sessions: 0,
    };
    while let Ok(message) = worker.messages.recv() {
        worker.hear(&message);
    }
}

struct Worker {
    folder: PathBuf,
    messages: Receiver<Value>,
    sessions: u32,
}

/// A prompt under way.
struct Prompt {
    id: Value,
    session: String,
    words: String,
}

impl Worker {
    fn hear(&mut self, message: &Value) {
        let id = &message["id"];
        match message["method"].as_str() {
            Some("initialize") => result(
                id,
                &json!({
                    "protocolVersion": 1,
                    "agentCapabilities": {"sessionCapabilities": {"close": {}}},
                }),
            ),
            Some("session/new") => {
                self.sessions += 1;
                let session = format!("{}-{}", process::id(), self.sessions);
                result(id, &json!({"sessionId": session}));
            }
            Some("session/close") => {
                let session = message["params"]["sessionId"].as_str().unwrap();
                note(&self.folder, "closed", session);
                result(id, &json!({}));
            }
            Some("session/prompt") => self.work(&Prompt::read(message)),
            Some(_) | None => {}
        }
    }

    fn work(&mut self, prompt: &Prompt) {
        let words: Vec<&str> = prompt.words.split(' ').collect();
        match words[..] {
            ["wait", file] => self.wait(prompt, file),
            ["fail", how, "-"] => self.fail(prompt, how),
            ["fail", how, file] if !self.folder.join(file).exists() => {
                note(&self.folder, file, how);
                self.fail(prompt, how);
            }
            _ => prompt.answer(),
        }
    }

    fn wait(&mut self, prompt: &Prompt, file: &str) {
        let path = self.folder.join(file);
        for _ in 0..PATIENCE.as_millis() / SIGN_EVERY.as_millis() {
            if path.exists() {
                return prompt.answer();
            }
            prompt.update("agent_thought_chunk", "hm");
            let Ok(message) = self.messages.recv_timeout(SIGN_EVERY) else {
                continue;
            };
            if message["method"] == "session/cancel" {
                return prompt.stop("cancelled");
            }
            self.hear(&message);
        }
    }

    fn fail(&self, prompt: &Prompt, how: &str) {
        match how {
            "exit" => process::exit(3),
            "half" => {
                print!(
                    r#"{{"jsonrpc":"2.0","id":{},"result":{{"stopRea"#,
                    prompt.id
                );
                io::stdout().flush().unwrap();
                process::exit(4);
            }
            "huge" => {
                print!(r#"{{"x":""#);
                // The reader goes away first.
                let _gone = io::copy(&mut io::repeat(b'x').take(HUGE), &mut io::stdout());
            }
            "bytes" => {
                io::stdout().write_all(b"\xff\xfe{\"half\":\n").unwrap();
                prompt.answer();
            }
            "reason" => {
                prompt.say();
                prompt.stop("went_fishing");
            }
            "twice" => {
                prompt.answer();
                prompt.answer();
            }
            "forget" => prompt.error(-32602, "Session not found", &Value::Null),
            "limit" => {
                let end = self.folder.join("limit-ends");
                let end = fs::read_to_string(end).unwrap();
                let end: u64 = end.trim().parse().unwrap();
                let data = json!({"type": "usage_limit_reached", "resets_at": end});
                prompt.error(-32603, "Internal error", &data);
            }
            "deaf" | "hang" => thread::sleep(PATIENCE),
            _ => panic!("there is no such failure: {how}"),
        }
    }
}

impl Prompt {
    fn read(message: &Value) -> Self {
        let params = &message["params"];
        let last = params["prompt"].as_array().unwrap().last().unwrap();
        let text = last["text"].as_str().unwrap();
        // Who said it stands in front, and an empty line between.
        let words = text.rsplit("\n\n").next().unwrap();
        Self {
            id: message["id"].clone(),
            session: params["sessionId"].as_str().unwrap().to_owned(),
            words: words.trim().to_owned(),
        }
    }

    fn answer(&self) {
        self.say();
        self.stop("end_turn");
    }

    fn say(&self) {
        let version = std::env::var(VERSION).unwrap_or_default();
        let said = format!(
            "{} {} {version} {}",
            process::id(),
            self.session,
            self.words
        );
        self.update("agent_message_chunk", &said);
    }

    fn update(&self, kind: &str, text: &str) {
        let content = json!({"type": "text", "text": text});
        let update = json!({"sessionUpdate": kind, "content": content});
        let params = json!({"sessionId": self.session, "update": update});
        say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    fn stop(&self, reason: &str) {
        result(&self.id, &json!({"stopReason": reason}));
    }

    fn error(&self, code: i32, message: &str, data: &Value) {
        let error = json!({"code": code, "message": message, "data": data});
        say(&json!({"jsonrpc": "2.0", "id": self.id, "error": error}));
    }
}

fn result(id: &Value, result: &Value) {
    say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn say(message: &Value) {
    println!("{message}");
}

/// Adds a line to a file.
fn note(folder: &Path, file: &str, line: &str) {
    let file = fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join(file));
    writeln!(file.unwrap(), "{line}").unwrap();
}
