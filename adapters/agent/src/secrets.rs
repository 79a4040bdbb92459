//! Keys in places where they must not be.

use std::ffi::OsString;

use crate::exit::Failure;

/// Names under which people try to pass a key.
const FLAGS: [&str; 5] = [
    "--private-key",
    "--secret-key",
    "--secret",
    "--nsec",
    "--key",
];
/// What a secret key begins with in its text form (NIP-19).
const NSEC: &str = "nsec1";
/// After the prefix come 58 letters; one with a typing error is close to a secret, too.
const NSEC_LETTERS_MIN: usize = 40;
/// A key has 64 hex digits; no id that may be shown has half as many in a row.
const HEX_DIGITS_MIN: usize = 32;
const REPLACEMENT: &str = "(a key)";

/// Whether these arguments hold a secret key or try to: everybody on the machine can read them.
pub(crate) fn are_in(args: impl Iterator<Item = OsString>) -> bool {
    let mut is_ours = true;
    for arg in args {
        let arg = arg.to_string_lossy().to_ascii_lowercase();
        is_ours &= arg != "--";
        let name = arg.split('=').next().unwrap_or_default();
        if (is_ours && FLAGS.contains(&name)) || first_nsec(&arg).is_some() {
            return true;
        }
    }
    false
}

/// Why the program ends when there is one.
pub(crate) fn refusal() -> Failure {
    Failure::settings(
        "a private key is never taken from the command line, where every user of this machine can \
         read it: use --key-file FILE or the variable BUZZ_PRIVATE_KEY, and replace a key that was \
         given this way",
    )
}

/// The text without anything that may be a secret key.
pub(crate) fn scrubbed(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_alphanumeric()) {
        let (between, word_on) = rest.split_at(start);
        let end = word_on.find(|letter: char| !letter.is_ascii_alphanumeric());
        let (word, after) = word_on.split_at(end.unwrap_or(word_on.len()));
        clean.push_str(between);
        clean.push_str(if may_be_secret(word) {
            REPLACEMENT
        } else {
            word
        });
        rest = after;
    }
    clean.push_str(rest);
    clean
}

fn may_be_secret(word: &str) -> bool {
    let is_hex = word.len() >= HEX_DIGITS_MIN && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex || first_nsec(&word.to_ascii_lowercase()).is_some()
}

/// Where in a text of lower-case letters something begins that looks like a secret key.
fn first_nsec(text: &str) -> Option<usize> {
    text.match_indices(NSEC).map(|(at, _)| at).find(|at| {
        let letters = text.bytes().skip(at + NSEC.len());
        letters.take_while(u8::is_ascii_alphanumeric).count() >= NSEC_LETTERS_MIN
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(args: &[&str]) -> bool {
        are_in(args.iter().map(OsString::from))
    }

    #[test]
    fn a_key_among_the_arguments_is_found_wherever_it_stands() {
        let nsec = format!("nsec1{}", "q".repeat(58));
        assert!(found_in(&["run", "--owner", &nsec]));
        assert!(found_in(&["run", &format!("--anything={nsec}")]));
        assert!(found_in(&["run", "--", "worker", &nsec.to_uppercase()]));
        assert!(found_in(&["run", "--private-key", "x"]));
        assert!(found_in(&["run", "--nsec=x"]));
    }

    #[test]
    fn public_keys_and_flags_of_the_worker_are_no_secrets() {
        let npub = format!("npub1{}", "q".repeat(58));
        assert!(!found_in(&[
            "run",
            "--owner",
            &npub,
            "--key-file",
            "nsec1.key"
        ]));
        assert!(!found_in(&["run", "--", "worker", "--key", "x"]));
    }

    #[test]
    fn what_may_be_a_key_is_left_out_of_a_text() {
        let text = format!("bad '{}' and nsec1{}, ok", "0a".repeat(32), "q".repeat(58));
        assert_eq!(scrubbed(&text), "bad '(a key)' and (a key), ok");
        let harmless = "channel 0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501 für alle: é";
        assert_eq!(scrubbed(harmless), harmless);
    }
}
