//! A Rust file split into code, string literals and comments.
//!
//! The lexer is `proc_macro2`, which drops comments: whatever no token covers is comment or space.

use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

use crate::finding::Finding;

/// One line, each part with the others blanked out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) whole: String,
    pub(crate) code: String,
    pub(crate) strings: String,
    /// Comments and documentation.
    pub(crate) comments: String,
}

/// One Rust file as the rules see it.
pub(crate) struct RustFile {
    pub(crate) path: String,
    pub(crate) lines: Vec<Line>,
    /// Every run of neighbouring tokens: the file's own and that inside each pair of brackets.
    /// Documentation is left out.
    pub(crate) sequences: Vec<Vec<TokenTree>>,
    /// The first line of the test module that ends the file, or one past the last line.
    pub(crate) tests_from: usize,
}

impl RustFile {
    /// Splits `text`; an error is a finding that says where the lexer stopped.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, Finding> {
        let tokens = TokenStream::from_str(text).map_err(|error| {
            let what = format!("cannot be read as Rust ({error}), so no rule can look at it");
            Finding::new(path, error.span().start().line, what)
        })?;
        let mut kinds = vec![Kind::Comment; text.len()];
        let mut sequences = Vec::new();
        sort_tokens(tokens, text, &mut kinds, &mut sequences);
        let lines = split_lines(text, &kinds);
        let past_end = lines.len() + 1;
        let tests_from = sequences.last().and_then(|file| trailing_tests(file));
        Ok(Self {
            path: path.to_owned(),
            lines,
            sequences,
            tests_from: tests_from.unwrap_or(past_end),
        })
    }

    /// How many of these lines (counted from 1) hold code, not only comments or space.
    pub(crate) fn code_lines(&self, lines: Range<usize>) -> usize {
        let skipped = lines.start.saturating_sub(1);
        let wanted = lines.end.saturating_sub(lines.start);
        self.lines
            .iter()
            .skip(skipped)
            .take(wanted)
            .filter(|line| line.has_code())
            .count()
    }

    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding::new(&self.path, line, what)
    }
}

impl Line {
    fn has_code(&self) -> bool {
        !(self.code.trim().is_empty() && self.strings.trim().is_empty())
    }
}

/// The line on which a token starts.
pub(crate) fn line_of(token: &TokenTree) -> usize {
    token.span().start().line
}

/// Whether a token is this identifier or keyword.
pub(crate) fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

/// Whether a token is this punctuation character.
pub(crate) fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// The group, if the token is one with these brackets.
pub(crate) fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    String,
    Comment,
}

/// Marks what each byte is and collects the runs of tokens, inner ones before outer ones.
fn sort_tokens(
    tokens: TokenStream,
    text: &str,
    kinds: &mut [Kind],
    sequences: &mut Vec<Vec<TokenTree>>,
) {
    let mut sequence = Vec::new();
    for token in tokens {
        if is_documentation(&token, text) {
            continue;
        }
        match &token {
            TokenTree::Group(group) => {
                mark(kinds, group.span_open(), Kind::Code);
                mark(kinds, group.span_close(), Kind::Code);
                sort_tokens(group.stream(), text, kinds, sequences);
            }
            TokenTree::Literal(literal) => {
                let quoted = literal.to_string().contains('"');
                mark(
                    kinds,
                    literal.span(),
                    if quoted { Kind::String } else { Kind::Code },
                );
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => mark(kinds, token.span(), Kind::Code),
        }
        sequence.push(token);
    }
    sequences.push(sequence);
}

/// The lexer turns a documentation comment into an attribute whose tokens all span the comment.
fn is_documentation(token: &TokenTree, text: &str) -> bool {
    let start = text.get(token.span().byte_range()).unwrap_or_default();
    start.starts_with("//") || start.starts_with("/*")
}

fn mark(kinds: &mut [Kind], span: Span, kind: Kind) {
    if let Some(bytes) = kinds.get_mut(span.byte_range()) {
        bytes.fill(kind);
    }
}

fn split_lines(text: &str, kinds: &[Kind]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = Line::default();
    for ((_, sign), kind) in text.char_indices().map(|at| (at, kinds[at.0])) {
        if sign == '\n' {
            lines.push(std::mem::take(&mut line));
            continue;
        }
        let parts = [
            (&mut line.code, Kind::Code),
            (&mut line.strings, Kind::String),
            (&mut line.comments, Kind::Comment),
        ];
        for (part, wanted) in parts {
            part.push(if kind == wanted { sign } else { ' ' });
        }
        line.whole.push(sign);
    }
    if !line.whole.is_empty() {
        lines.push(line);
    }
    lines
}

/// The first line of `#[cfg(test)] mod name { … }` when nothing follows it.
fn trailing_tests(file: &[TokenTree]) -> Option<usize> {
    let [
        attributes @ ..,
        keyword,
        TokenTree::Ident(_),
        TokenTree::Group(body),
    ] = file
    else {
        return None;
    };
    if body.delimiter() != Delimiter::Brace || !is_ident(Some(keyword), "mod") {
        return None;
    }
    let mut rest = attributes;
    while let [before @ .., hash, TokenTree::Group(attribute)] = rest {
        if !is_punct(Some(hash), '#') {
            return None;
        }
        if attribute.stream().to_string().replace(' ', "") == "cfg(test)" {
            return Some(line_of(hash));
        }
        rest = before;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RustFile {
        RustFile::parse("a.rs", text).expect("the fixture is Rust")
    }

    #[test]
    fn a_line_is_split_into_code_strings_and_comments() {
        let file = parse("let a = \"// b\"; // c\n");

        let line = &file.lines[0];
        assert_eq!(line.code.trim_end(), "let a =       ;");
        assert_eq!(line.strings.trim(), "\"// b\"");
        assert_eq!(line.comments.trim(), "// c");
    }

    #[test]
    fn quotes_lifetimes_and_raw_strings_do_not_confuse_the_split() {
        let text = "fn f<'a>(x: &'a str) -> char { let _ = r#\"a \"/* b\"#; '\"' } /* c /* d */ */";

        let file = parse(text);

        assert_eq!(file.lines[0].comments.trim(), "/* c /* d */ */");
    }

    #[test]
    fn documentation_is_comment_and_not_code() {
        let file = parse("//! a\n/// b\nfn f() {}\n/** c */\nfn g() {}\n");

        assert_eq!(file.lines[1].comments.trim(), "/// b");
        assert_eq!(file.code_lines(1..6), 2);
    }

    #[test]
    fn only_a_test_module_that_ends_the_file_counts_as_its_tests() {
        let trailing = parse("fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n");
        let leading = parse("#[cfg(test)]\nmod tests {}\nfn f() {}\n");

        assert_eq!(trailing.tests_from, 2);
        assert_eq!(leading.tests_from, 4);
    }

    #[test]
    fn a_file_that_is_not_rust_is_a_finding() {
        let finding = RustFile::parse("a.rs", "fn f() {\n")
            .err()
            .expect("a bracket is missing");

        assert!(
            finding.to_string().contains("cannot be read as Rust"),
            "{finding}"
        );
    }
}
