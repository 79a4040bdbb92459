//! What an answer of a relay means, without asking anybody.

use buzz_adapters::dial::DialError;
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Excerpt;
use serde_json::Value;

use super::finding::Finding;
use crate::exit::Exit;

/// A login that is dated further from the relay's clock is refused.
const SKEW_MAX: u64 = 60;

/// Whose fault a failed dial is, and what to do.
pub(super) const fn advice_of(error: &DialError) -> (&'static str, &'static str) {
    match error {
        DialError::Certificate(_) => (
            "tls",
            "give the authority's certificate with --ca, or use --system-roots",
        ),
        DialError::Proxy(_) => (
            "connection",
            "check the proxy that the environment names (HTTPS_PROXY, http_proxy, ALL_PROXY), or \
             name the relay's host in NO_PROXY",
        ),
        DialError::Tls(_) => ("tls", "check that the port speaks TLS: ws:// is without"),
        DialError::Status { .. } => (
            "upgrade",
            "check path and name of the relay's URL, and proxies in front of it",
        ),
        DialError::NotWebSocket(_) | DialError::Url => {
            ("upgrade", "check that the URL is that of a Nostr relay")
        }
        // What is added later is about the connection, until it is told apart here.
        DialError::Resolve(_) | DialError::Io(_) | _ => (
            "connection",
            "check that the relay runs at this port, and firewalls on the way",
        ),
    }
}

/// Our clock against the relay's.
pub(super) fn clock(relay: Option<UnixTime>, ours: UnixTime) -> Finding {
    const CHECK: &str = "clock";
    let Some(relay) = relay else {
        let found = "the relay tells no time";
        let advice = "nothing, if this machine's clock is right";
        return Finding::doubtful(CHECK, found, advice);
    };
    let ahead = ours.saturating_since(relay).as_secs();
    let behind = relay.saturating_since(ours).as_secs();
    let (off, word) = if ahead > 0 {
        (ahead, "ahead of")
    } else {
        (behind, "behind")
    };
    if off > SKEW_MAX {
        let found = format!("{off} s {word} the relay's, which allows {SKEW_MAX}");
        return Finding::bad(CHECK, found, "set this machine's clock", Exit::Other);
    }
    Finding::good(CHECK, format!("{off} s {word} the relay's"))
}

/// Name, program and key, as far as they are told.
pub(super) fn described(body: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let document = document.as_object()?;
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let name = text("name").unwrap_or("a relay without a name");
    let program = text("software").map(|program| format!(", {program}"));
    let version = text("version").map(|version| format!(" {version}"));
    let key = match text("self") {
        Some(_) => "; it signs with a key that it names",
        None => "; it names no key of its own",
    };
    let (program, version) = (program.unwrap_or_default(), version.unwrap_or_default());
    let found = format!("{name}{program}{version}{key}");
    Some(Excerpt::new(&found).to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: UnixTime = UnixTime(1_800_000_000);

    #[test]
    fn a_clock_may_be_a_minute_off_either_way() {
        let second = Duration::from_secs(1);
        for (relay, is_good) in [
            (NOW, true),
            (NOW.after(60 * second), true),
            (NOW.before(60 * second), true),
            (NOW.after(61 * second), false),
            (NOW.before(61 * second), false),
        ] {
            assert_eq!(clock(Some(relay), NOW).is_good(), is_good, "{relay:?}");
        }
        assert!(!clock(None, NOW).is_good());
    }

    #[test]
    fn a_document_is_told_in_one_short_line_whatever_it_holds() {
        for body in ["", "[]", "7", "<html>"] {
            assert_eq!(described(body.as_bytes()), None, "{body}");
        }
        let long = format!(r#"{{"name":"{}","self":7}}"#, "x".repeat(10_000));
        let found = described(long.as_bytes()).expect("a document");
        assert!(found.len() <= 300 && !found.contains('\n'), "{found}");
        let named = described(br#"{"name":"a","software":"b","version":"1","self":"k"}"#);
        let told = "a, b 1; it signs with a key that it names";
        assert_eq!(named.as_deref(), Some(told));
    }
}
