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
        prompts: 0,
        prompt: Value::Null,
    };
    for line in io::stdin().lock().lines() {
        if let Ok(message) = serde_json::from_str(&line.unwrap()) {
            agent.hear(&message);
        }
    }
    if name == "stubborn" {
        std::thread::sleep(Duration::from_secs(120));
    }
}

const CAPABILITIES: &str = r#"{"sessionCapabilities":{"close":{},"dream":7}}"#;

struct Agent<'a> {
    name: &'a str,
    detail: &'a str,
    prompts: u32,
    /// The id of the prompt that is being worked on.
    prompt: Value,
}

impl Agent<'_> {
    fn hear(&mut self, message: &Value) {
        let id = &message["id"];
        match message["method"].as_str() {
            Some("initialize") => self.initialize(id),
            Some("session/new") => self.open(id, message),
            Some("session/prompt") => {
                self.prompts += 1;
                self.prompt = id.clone();
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
            let error = json!({"code": -32000, "message": "Authentication required"});
            return say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
        assert!(message["params"]["cwd"].as_str().unwrap().starts_with('/'));
        say(&json!({"jsonrpc": "2.0", "id": id, "result": {"sessionId": "s-1", "modes": {}}}));
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
            "garbage" => self.babble(),
            "permission" => self.ask(),
            "endless" => chunk("begun"),
            "thinks" if self.prompts > 1 => {}
            "crash" => {
                chunk("begun");
                eprintln!("loading\nout of memory");
                std::process::exit(3);
            }
            "forgets" if self.prompts > 1 => say(&json!({
                "jsonrpc": "2.0", "id": self.prompt,
                "error": {"code": -32603, "message": "Internal error", "data": {"details": "Session not found"}},
            })),
            "huge" => {
                print!("{{\"x\":\"");
                // The reader may go away first.
                let _gone = io::copy(&mut io::repeat(b'x').take(1 << 20), &mut io::stdout());
            }
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
        say(&json!({"jsonrpc": "2.0", "id": self.prompt, "result": {"stopReason": reason}}));
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
