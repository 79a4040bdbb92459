//! Rules of the state machine alone.

use proc_macro2::{Delimiter, Spacing, TokenTree};

use crate::finding::Finding;
use crate::rust_file::{RustFile, group, is_ident, is_punct, line_of};

const CORE: &str = "buzz-proto/src/";
const WIRE: &str = "buzz-proto/src/wire/";
const TIME: &str = "buzz-proto/src/time.rs";

/// How relays begin or phrase a refusal (NIP-01, NIP-42 and the relay's own).
const PEER_WORDS: [&str; 10] = [
    "auth-required",
    "rate-limited",
    "restricted",
    "duplicate",
    "blocked:",
    "invalid:",
    "pow:",
    "already authenticated",
    "not a channel member",
    "access revoked",
];

/// Comparisons of `now` with a time. Only a guard that is asked through `Now::reached` arms the
/// wake-up; a bare comparison is a deadline that nobody scheduled.
pub(crate) fn bare_time_comparisons(file: &RustFile) -> Vec<Finding> {
    if !file.path.starts_with(CORE) || file.path == TIME {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for sequence in &file.sequences {
        for (at, token) in sequence.iter().enumerate() {
            let is_present = is_ident(Some(token), "now") && line_of(token) < file.tests_from;
            if is_present && (compared_after(sequence, at) || compared_before(sequence, at)) {
                let what = "compares the present with a time: ask `now.reached(at, Why::…)`, \
                            which arms the wake-up when the answer is no";
                findings.push(file.finding(line_of(token), what));
            }
        }
    }
    findings
}

/// String literals that begin with words of a peer, outside the folder that decodes them.
pub(crate) fn peer_words_outside_wire(file: &RustFile) -> Vec<Finding> {
    if !file.path.starts_with(CORE) || file.path.starts_with(WIRE) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for token in file.sequences.iter().flatten() {
        let TokenTree::Literal(literal) = token else {
            continue;
        };
        let literal = literal.to_string();
        let content = literal.split_once('"').map_or("", |(_, content)| content);
        let word = PEER_WORDS.iter().find(|word| content.starts_with(**word));
        if let Some(word) = word
            && line_of(token) < file.tests_from
        {
            let what = format!("matches the peer's `{word}`: text is classified in {WIRE} only");
            findings.push(file.finding(line_of(token), what));
        }
    }
    findings
}

/// `now >= at`, `now.time() < at`, `now.since(at) > limit`.
fn compared_after(sequence: &[TokenTree], now: usize) -> bool {
    let mut at = now + 1;
    while is_punct(sequence.get(at), '.') {
        at += 2;
        if group(sequence.get(at), Delimiter::Parenthesis).is_some() {
            at += 1;
        }
    }
    let Some(TokenTree::Punct(first)) = sequence.get(at) else {
        return false;
    };
    let joined = first.spacing() == Spacing::Joint;
    let second_is = |sign| joined && is_punct(sequence.get(at + 1), sign);
    match first.as_char() {
        sign @ ('<' | '>') => !second_is(sign),
        '=' | '!' => second_is('='),
        _ => false,
    }
}

/// `at <= now`, `at > self.now.time()`, `at == *now`.
fn compared_before(sequence: &[TokenTree], now: usize) -> bool {
    let mut before = sequence.get(..now).unwrap_or_default();
    if let [rest @ .., owner, dot] = before
        && is_punct(Some(dot), '.')
        && is_ident(Some(owner), "self")
    {
        before = rest;
    }
    while let [rest @ .., last] = before
        && (is_punct(Some(last), '&') || is_punct(Some(last), '*'))
    {
        before = rest;
    }
    let [rest @ .., TokenTree::Punct(last)] = before else {
        return false;
    };
    let joined = match rest.last() {
        Some(TokenTree::Punct(punct)) if punct.spacing() == Spacing::Joint => Some(punct.as_char()),
        _ => None,
    };
    match last.as_char() {
        '<' => joined != Some('<'),
        // The arrows of arms and return types end like a comparison.
        '>' => !matches!(joined, Some('=' | '-' | '>')),
        '=' => matches!(joined, Some('<' | '>' | '=' | '!')),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&RustFile) -> Vec<Finding>, path: &str, text: &str) -> usize {
        rule(&RustFile::parse(path, text).expect("the fixture is Rust")).len()
    }

    #[test]
    fn every_form_of_a_bare_comparison_is_found() {
        let forms = [
            "now >= at",
            "now.time() >= at",
            "now.time() < at",
            "self.now > at",
            "now == at",
            "now.time().saturating_since(since) > limit",
            "at <= now",
            "at < now.time()",
            "at > self.now.time()",
            "at != *now",
            "assert!(at > now)",
        ];
        for form in forms {
            let text = format!("fn f() {{ if {form} {{ g(); }} }}");
            let found = check(bare_time_comparisons, "buzz-proto/src/relay/link.rs", &text);
            assert_eq!(found, 1, "{form}");
        }
    }

    #[test]
    fn what_only_looks_like_a_comparison_is_left_alone() {
        let forms = [
            "fn f(now: &mut Now) -> Option<MonoTime> { now.reached(at, Why::Hold) }",
            "fn f() { match x { A => now, B => now.time() } }",
            "fn f() { self.last = now; self.at = now.time(); }",
            "fn f() { a = now << 2; let b: Vec<Now> = c(now); }",
            "// now >= at\nfn f() { g(\"now >= at\"); }",
        ];
        for form in forms {
            let found = check(bare_time_comparisons, "buzz-proto/src/relay/link.rs", form);
            assert_eq!(found, 0, "{form}");
        }
    }

    #[test]
    fn time_itself_tests_and_other_crates_may_compare() {
        let text = "fn f() { now >= at }";
        let in_tests = format!("#[cfg(test)]\nmod tests {{ {text} }}");

        assert_eq!(check(bare_time_comparisons, TIME, text), 0);
        assert_eq!(
            check(bare_time_comparisons, "tests/sim/src/sim.rs", text),
            0
        );
        assert_eq!(
            check(bare_time_comparisons, "buzz-proto/src/gate.rs", &in_tests),
            0
        );
    }

    #[test]
    fn words_of_peers_are_found_outside_wire_only() {
        let words = [
            "\"rate-limited: slow\"",
            "b\"auth-required\"",
            "r#\"restricted\"#",
        ];
        for word in words {
            let text = format!("fn f() {{ reason.starts_with({word}); }}");
            let outside = check(
                peer_words_outside_wire,
                "buzz-proto/src/relay/auth.rs",
                &text,
            );
            let inside = check(
                peer_words_outside_wire,
                "buzz-proto/src/wire/reason.rs",
                &text,
            );
            assert_eq!((outside, inside), (1, 0), "{word}");
        }
    }

    #[test]
    fn words_of_peers_in_comments_and_tests_are_left_alone() {
        let text = "/// \"restricted\"\nfn f() {}\n#[cfg(test)]\nmod tests { const A: &str = \"restricted\"; }";

        assert_eq!(
            check(
                peer_words_outside_wire,
                "buzz-proto/src/relay/auth.rs",
                text
            ),
            0
        );
    }
}
