//! Words that do not belong in the project's texts.
//!
//! The words stand here in halves, so that this file passes its own rule.

use crate::files::TextFile;
use crate::finding::Finding;
use crate::rust_file::{Line, RustFile};

/// In which parts of which files a word is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Whole lines of every text file.
    Anything,
    /// Whole lines of all that people write by hand, recorded data left out.
    Written,
    /// Comments of Rust files, and documents.
    Prose,
}

struct Banned {
    word: &'static str,
    /// Only as a word of its own, in this spelling; else anywhere, in any case.
    exact: bool,
    place: Place,
    why: &'static str,
}

const TIMELESS: &str = "a text says what is so; what was so stands in the history";
const UNFINISHED: &str = "finish it, or leave it out and say so where users look";
const MACHINE: &str = "a path of one machine means nothing on another";
const REGISTRY: &str = "a registry is the package manager's concern";
const MAKING: &str = "the project speaks of itself, not of how it was made";

const BANNED: [Banned; 16] = [
    anywhere(concat!("no lon", "ger"), Place::Prose, TIMELESS),
    anywhere(concat!("instead of the ", "old"), Place::Prose, TIMELESS),
    exactly(concat!("TO", "DO"), UNFINISHED),
    exactly(concat!("FIX", "ME"), UNFINISHED),
    exactly(concat!("X", "XX"), UNFINISHED),
    anywhere(concat!("/wo", "rk/"), Place::Anything, MACHINE),
    anywhere(concat!("/fa", "rm/"), Place::Anything, MACHINE),
    anywhere(concat!("/tmp", "/h/"), Place::Anything, MACHINE),
    anywhere(concat!("crates", ".io"), Place::Anything, REGISTRY),
    anywhere(concat!("index.", "crates"), Place::Anything, REGISTRY),
    anywhere(concat!("py", "pi.org"), Place::Anything, REGISTRY),
    anywhere(concat!("npm", "js.org"), Place::Anything, REGISTRY),
    anywhere(concat!("registry.", "npmjs"), Place::Anything, REGISTRY),
    anywhere(concat!("sub", "agent"), Place::Written, MAKING),
    anywhere(concat!("tool ", "library"), Place::Written, MAKING),
    anywhere(concat!("this ", "session"), Place::Written, MAKING),
];

/// Groups of the numbered rules; the text gives the reason, not the number.
const RULE_GROUPS: [&str; 12] = [
    "LOSS", "PUB", "SUB", "LINK", "WIRE", "SCHED", "MEM", "TRUST", "ADAPT", "CLI", "PROOF", "OUT",
];
/// Groups so short that they are looked for only where people write sentences.
const SHORT_RULE_GROUPS: [&str; 2] = ["M", "D"];

/// Everything in one file that should be worded differently.
pub(crate) fn check(file: &TextFile) -> Vec<Finding> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    // Lock files are written by package managers and name their registries.
    if name.ends_with(".lock") || name.ends_with("-lock.json") {
        return Vec::new();
    }
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("rs") => check_rust(file),
        Some("json" | "jsonl" | "bin" | "log" | "pem") => check_lines(file, &[Place::Anything]),
        _ if file.path.starts_with("fuzz/corpus/") => check_lines(file, &[Place::Anything]),
        _ => check_lines(file, &[Place::Anything, Place::Written, Place::Prose]),
    }
}

const fn anywhere(word: &'static str, place: Place, why: &'static str) -> Banned {
    Banned {
        word,
        exact: false,
        place,
        why,
    }
}

const fn exactly(word: &'static str, why: &'static str) -> Banned {
    Banned {
        word,
        exact: true,
        place: Place::Written,
        why,
    }
}

fn check_lines(file: &TextFile, places: &[Place]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in file.text.lines().zip(1..) {
        let mut say = |what| findings.push(Finding::new(&file.path, number, what));
        banned(line, places).into_iter().for_each(&mut say);
        if places.contains(&Place::Prose) {
            rule_name(line, &RULE_GROUPS).into_iter().for_each(&mut say);
        }
        if file.path.ends_with(".md") {
            rule_name(line, &SHORT_RULE_GROUPS)
                .into_iter()
                .for_each(&mut say);
        }
    }
    findings
}

fn check_rust(file: &TextFile) -> Vec<Finding> {
    let Ok(rust) = RustFile::parse(&file.path, &file.text) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (line, number) in rust.lines.iter().zip(1..) {
        let Line {
            whole,
            code: _,
            strings,
            comments,
        } = line;
        let found = [
            banned(whole, &[Place::Anything, Place::Written]),
            banned(comments, &[Place::Prose]),
            rule_name(comments, &RULE_GROUPS),
            rule_name(comments, &SHORT_RULE_GROUPS),
            rule_name(strings, &RULE_GROUPS),
        ];
        findings.extend(
            found
                .into_iter()
                .flatten()
                .map(|what| rust.finding(number, what)),
        );
    }
    findings
}

fn banned(text: &str, places: &[Place]) -> Vec<String> {
    let lower = text.to_lowercase();
    let is_in = |banned: &&Banned| {
        let found = if banned.exact {
            has_word(text, banned.word)
        } else {
            lower.contains(banned.word)
        };
        found && places.contains(&banned.place)
    };
    BANNED
        .iter()
        .filter(is_in)
        .map(|found| format!("`{}`: {}", found.word, found.why))
        .collect()
}

fn has_word(text: &str, word: &str) -> bool {
    words(text).any(|candidate| candidate == word)
}

fn rule_name(text: &str, groups: &[&str]) -> Vec<String> {
    let is_rule = |word: &&str| {
        let group = word.trim_end_matches(|sign: char| sign.is_ascii_digit());
        let digits = word.len() - group.len();
        (1..=2).contains(&digits) && groups.contains(&group)
    };
    let say = |word| format!("`{word}` numbers a rule: give the reason itself");
    words(text).filter(is_rule).map(say).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !(sign.is_alphanumeric() || sign == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        })
        .len()
    }

    #[test]
    fn every_banned_word_is_found_in_a_document_and_in_a_comment() {
        for banned in &BANNED {
            let sentence = format!("// so {} it is\n", banned.word);
            assert!(
                found("docs/a.md", &sentence) > 0,
                "{} in a document",
                banned.word
            );
            assert!(found("a.rs", &sentence) > 0, "{} in a comment", banned.word);
        }
    }

    #[test]
    fn a_finding_names_file_line_word_and_reason() {
        let text = format!("fine\n{}\n", BANNED[2].word);

        let findings = check(&TextFile {
            path: "a.md".to_owned(),
            text,
        });

        let expected = format!("a.md:2: `{}`: {UNFINISHED}", BANNED[2].word);
        assert_eq!(
            findings.iter().map(Finding::to_string).collect::<Vec<_>>(),
            [expected]
        );
    }

    #[test]
    fn case_does_not_hide_a_phrase_and_a_longer_word_is_not_a_marker() {
        assert_eq!(found("a.md", concat!("No Lon", "ger")), 1);
        assert_eq!(
            found(
                "a.sh",
                concat!("mktemp a.XX", "XXXX; echo TOD", "OS; echo to", "do")
            ),
            0
        );
    }

    #[test]
    fn messages_may_tell_of_change_and_comments_may_not() {
        assert_eq!(
            found(
                "a.rs",
                concat!("const A: &str = \"no lon", "ger a member\";")
            ),
            0
        );
        assert_eq!(
            found("a.rs", concat!("/// It is no lon", "ger so.\nfn f() {}")),
            1
        );
    }

    #[test]
    fn data_is_searched_for_machine_paths_only() {
        assert_eq!(found("a.jsonl", concat!("\"TO", "DO no lon", "ger\"")), 0);
        assert_eq!(found("a.jsonl", concat!("\"/wo", "rk/x\"")), 1);
        assert_eq!(found("Cargo.lock", concat!("crates", ".io")), 0);
    }

    #[test]
    fn numbers_of_rules_are_found_in_comments_strings_and_documents() {
        assert_eq!(found("a.rs", concat!("// see LO", "SS3 and M", "6\n")), 2);
        assert_eq!(
            found("a.rs", concat!("const A: &str = \"PU", "B7 broken\";")),
            1
        );
        assert_eq!(found("a.md", concat!("`SCHE", "D11`, D", "4")), 2);
    }

    #[test]
    fn identifiers_and_other_numbers_are_not_rules() {
        assert_eq!(
            found(
                "a.rs",
                concat!(
                    "struct A<M",
                    "1>(M",
                    "1); const SU",
                    "B1: u8 = 0; // NIP-01"
                )
            ),
            0
        );
        assert_eq!(found("a.md", "H264, SHA256, OUT, MEM1000"), 0);
    }
}
