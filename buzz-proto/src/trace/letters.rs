//! Text without its words: letter for letter, as many bytes as before.
//!
//! A trim, a split by bytes, lines or letters, and a count of bytes find the same in the
//! replacement as in the text, and the replacement of a part is that part of the replacement.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::wire::OwnerCommand;

/// Text in which only white space stays.
pub(super) fn text(content: &str) -> String {
    content.chars().map(filler).collect()
}

/// Bytes of the same number that are neither JSON nor a part of it.
pub(super) fn unreadable(raw: &Bytes) -> Bytes {
    Bytes::from(alloc::vec![b'!'; raw.len()])
}

/// Replaces every string that is the value of a `content` key, at any depth, within its quotes,
/// unless it is an owner command. Works on the letters alone, so that broken JSON is redacted as
/// well.
pub(super) fn json(raw: &Bytes) -> Bytes {
    let mut out: Vec<u8> = Vec::with_capacity(raw.len());
    let mut rest: &[u8] = raw;
    let mut key_was_content = false;
    while let Some((letter, tail)) = rest.split_first() {
        if *letter != b'"' {
            if !matches!(letter, b':' | b' ' | b'\t' | b'\n' | b'\r') {
                key_was_content = false;
            }
            out.push(*letter);
            rest = tail;
            continue;
        }
        let (inside, tail) = tail.split_at(string_length(tail));
        out.push(b'"');
        if key_was_content {
            content(inside, &mut out);
        } else {
            out.extend_from_slice(inside);
        }
        // A value that happens to read `content` is no key, but then no colon follows it.
        key_was_content = !key_was_content && is_content_key(inside);
        rest = tail.strip_prefix(b"\"").unwrap_or(tail);
        if rest.len() < tail.len() {
            out.push(b'"');
        }
    }
    Bytes::from(out)
}

/// The letter that stands for another of as many bytes.
const fn filler(letter: char) -> char {
    if letter.is_whitespace() {
        return letter;
    }
    match letter.len_utf8() {
        1 => 'x',
        2 => '×',
        3 => '…',
        _ => '𝐱',
    }
}

fn is_content_key(inside: &[u8]) -> bool {
    inside == b"content" || (inside.contains(&b'\\') && unescaped(inside) == "content")
}

/// Owner commands decide actions; no text of a person does besides.
fn is_command(inside: &[u8]) -> bool {
    OwnerCommand::parse(&unescaped(inside)).is_some()
}

/// What stands between the quotes of a string, without escapes; empty when it is no string.
fn unescaped(inside: &[u8]) -> String {
    let quoted = [b"\"", inside, b"\""].concat();
    serde_json::from_slice(&quoted).unwrap_or_default()
}

/// Writes the inside of a string in its replaced form. Escapes of white space stay.
fn content(inside: &[u8], out: &mut Vec<u8>) {
    let Ok(mut rest) = core::str::from_utf8(inside) else {
        out.extend(core::iter::repeat_n(b'x', inside.len()));
        return;
    };
    if is_command(inside) {
        out.extend_from_slice(inside);
        return;
    }
    while let Some(letter) = rest.chars().next() {
        let length = match letter {
            '\\' => escape_length(rest),
            other => other.len_utf8(),
        };
        let (part, tail) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if letter == '\\' && is_space(part) {
            out.extend_from_slice(part.as_bytes());
        } else {
            out.extend_from_slice(text(part).as_bytes());
        }
        rest = tail;
    }
}

/// The bytes of the escape at the start of a text.
fn escape_length(text: &str) -> usize {
    if text.starts_with("\\u") { 6 } else { 2 }
}

fn is_space(escape: &str) -> bool {
    let meant = unescaped(escape.as_bytes());
    !meant.is_empty() && meant.trim().is_empty()
}

/// How far it is to the quote that ends a string, or to the end.
fn string_length(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().position(|letter| {
        let ends = *letter == b'"' && !escaped;
        escaped = *letter == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        let raw = Bytes::copy_from_slice(text.as_bytes());
        let once = json(&raw);
        assert_eq!(once.len(), raw.len());
        assert_eq!(json(&once), once);
        String::from_utf8(once.to_vec()).unwrap()
    }

    #[test]
    fn content_is_replaced_and_keeps_its_length() {
        let frame = r#"["EVENT","s",{"kind":9,"content":"say \"é\" \\","tags":[["p","a"]]}]"#;
        let expected = r#"["EVENT","s",{"kind":9,"content":"xxx xx×xx xx","tags":[["p","a"]]}]"#;
        assert_eq!(redacted(frame), expected);
    }

    #[test]
    fn escapes_keep_their_length_and_those_of_white_space_stay() {
        for (inside, expected) in [
            (r"a\nb\tc\rd", r"x\nx\tx\rx"),
            (r"\u00e9\ud83d\ude00", "xxxxxxxxxxxxxxxxxx"),
            (r"\u0020\u3000\u2028\f\b", r"\u0020\u3000\u2028\fxx"),
        ] {
            let whole = alloc::format!(r#"{{"content":"{inside}"}}"#);
            let expected = alloc::format!(r#"{{"content":"{expected}"}}"#);
            assert_eq!(redacted(&whole), expected);
        }
    }

    #[test]
    fn only_commands_stay() {
        for kept in [
            r#"{"content": "!cancel"}"#,
            r#"{"content":"\n!rotate "}"#,
            r#"{"content":"\u0021shutdown"}"#,
            r#"["content","kept"]"#,
        ] {
            assert_eq!(redacted(kept), kept);
        }
        for (whole, expected) in [
            ("!!! the password", "xxx xxx xxxxxxxx"),
            ("![diagram](a)", "xxxxxxxxxxxxx"),
            ("!cancel it", "xxxxxxx xx"),
            ("!cancelled", "xxxxxxxxxx"),
        ] {
            let whole = alloc::format!(r#"{{"content":"{whole}"}}"#);
            let expected = alloc::format!(r#"{{"content":"{expected}"}}"#);
            assert_eq!(redacted(&whole), expected);
        }
    }

    #[test]
    fn an_escaped_key_hides_nothing() {
        assert_eq!(
            redacted(r#"{"c\u006fntent":"secret"}"#),
            r#"{"c\u006fntent":"xxxxxx"}"#
        );
    }

    #[test]
    fn broken_text_is_replaced_too() {
        for (whole, expected) in [
            (r#"{"content":"half a secr"#, r#"{"content":"xxxx x xxxx"#),
            (r#"{"content":"half\u00"#, r#"{"content":"xxxxxxxx"#),
            (r#"{"content":"half\u€€€€"#, r#"{"content":"xxxxxx…………"#),
            (r#"{"content":"half\"#, r#"{"content":"xxxxx"#),
        ] {
            assert_eq!(redacted(whole), expected);
        }
    }

    #[test]
    fn text_keeps_its_white_space_and_the_bytes_of_each_letter() {
        assert_eq!(text("ab\ncé d€\u{3000}😀"), "xx\nx× x…\u{3000}𝐱");
        assert_eq!(text("!cancel"), "xxxxxxx");
        let all: String = ('\0'..=char::MAX).collect();
        let once = text(&all);
        assert_eq!(text(&once), once);
        let sizes = |text: &str| -> Vec<_> {
            let letters = text.chars();
            letters.map(|c| (c.len_utf8(), c.is_whitespace())).collect()
        };
        assert_eq!(sizes(&once), sizes(&all));
    }
}
