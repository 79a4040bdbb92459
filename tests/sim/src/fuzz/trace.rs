//! Traces, as they might come from anywhere.

use buzz_proto::config::Config;
use buzz_proto::trace::{Privacy, Recorder, Replay};
use serde_json::Value;

/// Lines of a trace, the first of which holds the settings.
///
/// What can be replayed is recorded anew, whole and redacted, and each record replays to the same
/// orders.
pub fn trace(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else {
        return;
    };
    let mut lines = text.lines();
    let Some(head) = lines.next() else {
        return;
    };
    let Ok(mut replay) = Replay::new(head) else {
        return;
    };
    let Some(config) = settings(head) else {
        return;
    };
    let calls: Vec<_> = lines.map_while(|line| replay.step(line).ok()).collect();
    for privacy in [Privacy::Whole, Privacy::Redacted] {
        let recorder = Recorder::new(privacy);
        let mut again = Replay::new(&recorder.head(&config)).expect("a head that was written");
        for call in &calls {
            let line = recorder.call(call.now, &call.input, &call.actions);
            let step = again.step(&line).expect("a call that was written");
            assert_eq!(step.difference(), None, "{privacy:?}: {line}");
        }
    }
}

/// The settings alone.
fn settings(head: &str) -> Option<Config> {
    let head: Value = serde_json::from_str(head).ok()?;
    serde_json::from_value(head.get("config")?.clone()).ok()
}
