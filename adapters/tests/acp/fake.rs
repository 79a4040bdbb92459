//! An agent that behaves as its mode says. It runs in a process of its own.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an agent speaks on its standard streams"
)]

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::time::Duration;

use serde_json::{Value, json};

/// Speaks until its input ends; some modes then stay.
pub(crate) fn run(mode: &str) {
    // The test harness may have left a line without an end.
    println!();
    if mode == "echo" {
        return buzz_adapters::acp::echo::run(io::stdin().lock(), io::stdout()).unwrap();
    }
    let (name, detail) = mode.split_once(':').unwrap_or((mode, ""));
    let mut agent = Agent {
        name,
        detail,
        openings: Vec::new(),
        prompts: 0,
        prompt: Value::Null,
    };
    for line in io::stdin().lock().lines() {
        if let Ok(message) = serde_json::from_str(&line.unwrap()) {
            agent.hear(&message);
        }
    }
    if matches!(name, "stubborn" | "family") {
        std::thread::sleep(Duration::from_secs(120));
    }
}

const CAPABILITIES: &str = r#"{"sessionCapabilities":{"close":{},"dream":7}}"#;

struct Agent<'a> {
    name: &'a str,
    detail: &'a str,
    /// The ids of the requests for a session.
    openings: Vec<Value>,
    prompts: u32,
    /// The id of the prompt that is being worked on.
    prompt: Value,
}

impl Agent<'_> {
    fn hear(&mut self, message: &Value) {
        let id = &message["id"];
        match message["method"].as_str() {
            Some("initialize") => self.initialize(id),
            Some("session/new") => {
                self.openings.push(id.clone());
                self.open(id, message);
            }
            Some("session/prompt") => {
                self.prompts += 1;
                let last = std::mem::replace(&mut self.prompt, id.clone());
                if self.name == "twice" && !last.is_null() {
                    // Once more, in the middle of the next turn.
                    chunk("again ");
                    stopped(&last, "max_tokens");
                }
                self.work(message);
            }
            Some("session/cancel") if self.name == "endless" => {
                chunk("after cancel");
                self.stop("cancelled");
            }
            Some("session/close") => chunk("closed"),
            Some(_) => {}
            None => {
                chunk(&message["result"]["outcome"].to_string());
                chunk(&message["error"]["code"].to_string());
                self.stop("end_turn");
            }
        }
    }

    fn initialize(&self, id: &Value) {
        let version = match self.name {
            "mute" => return,
            "exits" => {
                eprintln!("no configuration");
                std::process::exit(7);
            }
            "later" => 2,
            "flood" => {
                for _ in 0..20_000 {
                    eprintln!("a line of a log that nobody asked for, again and again");
                }
                1
            }
            _ => 1,
        };
        // The id comes last, and there are fields of a later time.
        let result =
            format!(r#"{{"protocolVersion":{version},"agentCapabilities":{CAPABILITIES},"x":[]}}"#);
        println!(r#"{{"result":{result},"jsonrpc":"2.0","id":{id}}}"#);
    }

    fn open(&self, id: &Value, message: &Value) {
        if self.name == "gated" {
            // Bounded, so that a failed test leaves nothing behind.
            for _ in 0..3000 {
                if std::path::Path::new(self.detail).exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if self.name == "locked" {
            return println!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, self.detail);
        }
        if self.name == "late" {
            match self.openings.as_slice() {
                [first, second] => {
                    opened(first, "s-late");
                    opened(second, "s-1");
                }
                _ => return,
            }
            return;
        }
        assert!(message["params"]["cwd"].as_str().unwrap().starts_with('/'));
        opened(id, "s-1");
        update(&json!({"sessionUpdate": "available_commands_update", "availableCommands": []}));
        if self.name == "deaf" {
            std::thread::sleep(Duration::from_secs(120));
        }
    }

    #[expect(
        clippy::zombie_processes,
        reason = "the tool is left to whoever ends the agent"
    )]
    fn work(&self, message: &Value) {
        match self.name {
            "hangs" | "half" | "torn" | "twice" | "family" | "abandons" | "crash" | "huge" => {
                self.err()
            }
            "garbage" => self.babble(),
            "permission" => self.ask(),
            "endless" => chunk("begun"),
            "thinks" if self.prompts > 1 => {}
            "forgets" if self.prompts > 1 => say(&json!({
                "jsonrpc": "2.0", "id": self.prompt,
                "error": {"code": -32603, "message": "Internal error", "data": {"details": "Session not found"}},
            })),
            "answer" => println!(
                r#"{{"jsonrpc":"2.0","id":{},{}}}"#,
                self.prompt, self.detail
            ),
            "variables" => {
                for name in ["BUZZ_PRIVATE_KEY", "MY_NSEC", "HINT", "PLAIN"] {
                    chunk(&format!(
                        "{name}={} ",
                        std::env::var(name).unwrap_or_default()
                    ));
                }
                self.stop("end_turn");
            }
            "pids" => {
                chunk(&std::process::id().to_string());
                // A tool the agent runs; it does not hear of the agent's end.
                let tool = std::process::Command::new("sleep")
                    .arg("120")
                    .spawn()
                    .unwrap();
                chunk(&format!(" {}", tool.id()));
                self.stop("end_turn");
            }
            _ => {
                for block in message["params"]["prompt"].as_array().unwrap() {
                    chunk(&format!("<{}>", block["text"].as_str().unwrap()));
                }
                self.stop("end_turn");
            }
        }
    }

    fn err(&self) {
        match self.name {
            "hangs" => chunk("begun"),
            "half" => {
                chunk("begun");
                print!(
                    r#"{{"jsonrpc":"2.0","id":{},"result":{{"stopRea"#,
                    self.prompt
                );
                io::stdout().flush().unwrap();
                std::process::exit(4);
            }
            "torn" => {
                let half = r#""content":{"type":"text","text":"a\ud83d"}"#;
                tear(half.as_bytes());
                tear(b"\"content\":{\"type\":\"text\",\"text\":\"b\xff\"}");
                self.stop("end_turn");
            }
            "twice" => {
                chunk("done");
                self.stop("end_turn");
                self.stop("end_turn");
                self.stop("refusal");
            }
            "family" => {
                leave_children();
                chunk("begun");
            }
            "abandons" => {
                leave_children();
                chunk("begun");
                std::process::exit(5);
            }
            "crash" => {
                chunk("begun");
                eprintln!("loading\nout of memory");
                std::process::exit(3);
            }
            "huge" => {
                print!("{{\"x\":\"");
                let bytes = self.detail.parse().unwrap();
                // The reader may go away first.
                let _gone = io::copy(&mut io::repeat(b'x').take(bytes), &mut io::stdout());
            }
            _ => {}
        }
    }

    fn babble(&self) {
        println!("\n   \nStarting the model server...\n[1,2]\n7\n{{\"half\":");
        io::stdout().write_all(b"\xff\xfe\n").unwrap();
        println!("{}", "[".repeat(5000));
        say(&json!({"jsonrpc": "2.0", "id": 999, "result": {}}));
        say(&json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}}));
        say(&json!({"jsonrpc": "2.0", "method": "session/dream", "params": 7}));
        update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram"}}));
        update(
            &json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}),
        );
        update(&json!({"sessionUpdate": "tool_call_update", "content": [7]}));
        chunk("");
        // Same id as the prompt, but with a method: a request.
        say(
            &json!({"jsonrpc": "2.0", "id": self.prompt, "method": "fs/read_text_file", "params": {}}),
        );
    }

    fn ask(&self) {
        let options = json!([
            {"kind": "allow_always", "optionId": "reject_once", "name": "a"},
            {"kind": "beg_forgiveness", "optionId": "b", "name": "b"},
            {"kind": "reject_once", "optionId": "no", "name": "c"},
            {"kind": "allow_once", "optionId": "yes", "name": "d"},
        ]);
        let params =
            json!({"sessionId": "s-1", "toolCall": {"toolCallId": "t"}, "options": options});
        say(
            &json!({"jsonrpc": "2.0", "id": "p", "method": "session/request_permission", "params": params}),
        );
    }

    fn stop(&self, reason: &str) {
        stopped(&self.prompt, reason);
    }
}

fn opened(id: &Value, session: &str) {
    say(&json!({"jsonrpc": "2.0", "id": id, "result": {"sessionId": session, "modes": {}}}));
}

fn stopped(id: &Value, reason: &str) {
    say(&json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": reason}}));
}

/// A chunk whose content is not what JSON should be.
fn tear(content: &[u8]) {
    let mut line =
        br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":
        {"sessionUpdate":"agent_message_chunk","#
            .to_vec();
    line.retain(|byte| *byte != b'\n');
    line.extend_from_slice(content);
    line.extend_from_slice(b"}}}\n");
    io::stdout().write_all(&line).unwrap();
}

/// One that does not hear SIGTERM, and one that keeps the agent's output open.
#[expect(
    clippy::zombie_processes,
    reason = "they are left to whoever ends the agent"
)]
fn leave_children() {
    for script in [r#"trap "" TERM; sleep 120; sleep 120"#, "exec sleep 120"] {
        std::process::Command::new("sh")
            .args(["-c", script])
            .spawn()
            .unwrap();
    }
}

fn chunk(text: &str) {
    let content = json!({"type": "text", "text": text});
    update(&json!({"sessionUpdate": "agent_message_chunk", "content": content}));
}

fn update(update: &Value) {
    let params = json!({"sessionId": "s-1", "update": update});
    say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
}

fn say(message: &Value) {
    println!("{message}");
}
