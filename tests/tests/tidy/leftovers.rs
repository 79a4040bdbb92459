//! Unfinished code, tests that do not run, and lint exceptions without a reason.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::finding::Finding;
use crate::rust_file::{RustFile, group, is_ident, is_punct, line_of};

/// Panicking placeholders, switched-off tests, and lint exceptions that do not say why.
pub(crate) fn leftovers(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for sequence in &file.sequences {
        for (at, token) in sequence.iter().enumerate() {
            let next = sequence.get(at + 1);
            let what = if let TokenTree::Ident(name) = token {
                placeholder(&name.to_string(), next)
            } else if is_punct(Some(token), '#') {
                let skipped = usize::from(is_punct(next, '!'));
                attribute(sequence.get(at + 1 + skipped))
            } else {
                None
            };
            findings.extend(what.map(|what| file.finding(line_of(token), what)));
        }
    }
    findings
}

fn placeholder(name: &str, next: Option<&TokenTree>) -> Option<String> {
    let is_placeholder = matches!(name, "todo" | "unimplemented") && is_punct(next, '!');
    is_placeholder.then(|| format!("`{name}` panics at run time: finish it or leave it out"))
}

fn attribute(token: Option<&TokenTree>) -> Option<String> {
    let inside = group(token, Delimiter::Bracket)?.stream();
    if is_ident(inside.clone().into_iter().next().as_ref(), "ignore") {
        return Some("a test that does not run proves nothing: mend it or remove it".to_owned());
    }
    lacks_reason(inside).then(|| {
        "a lint exception without `reason = \"…\"`: say why, so that it can be judged".to_owned()
    })
}

/// Looks inside `cfg_attr` too.
fn lacks_reason(attribute: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = attribute.into_iter().collect();
    tokens.iter().enumerate().any(|(at, token)| {
        let Some(list) = group(tokens.get(at + 1), Delimiter::Parenthesis) else {
            return false;
        };
        if is_ident(Some(token), "allow") || is_ident(Some(token), "expect") {
            return !list
                .stream()
                .into_iter()
                .any(|inner| is_ident(Some(&inner), "reason"));
        }
        lacks_reason(list.stream())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<usize> {
        let file = RustFile::parse("a.rs", text).expect("the fixture is Rust");
        leftovers(&file)
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn placeholders_are_found_and_words_like_them_are_not() {
        assert_eq!(check(concat!("fn f() {\n    to", "do!()\n}\n")), [2]);
        assert_eq!(
            check(concat!("fn f() { unimple", "mented!(\"x\") }\n")),
            [1]
        );
        assert_eq!(check("fn f() { let todo = 1; todo == 1 }\n"), []);
    }

    #[test]
    fn ignored_tests_are_found_with_and_without_a_reason() {
        assert_eq!(check(concat!("#[test]\n#[ign", "ore]\nfn f() {}\n")), [2]);
        assert_eq!(check(concat!("#[ign", "ore = \"slow\"]\nfn f() {}\n")), [1]);
    }

    #[test]
    fn a_lint_exception_needs_a_reason_in_every_form() {
        assert_eq!(check("#[allow(dead_code)]\nfn f() {}\n"), [1]);
        assert_eq!(check("#![allow(dead_code)]\n"), [1]);
        assert_eq!(check("#[expect(\n    dead_code\n)]\nfn f() {}\n"), [1]);
        assert_eq!(
            check("#[cfg_attr(test, allow(dead_code))]\nfn f() {}\n"),
            [1]
        );
        assert_eq!(
            check("#[allow(dead_code, reason = \"used by a feature\")]\nfn f() {}\n"),
            []
        );
        assert_eq!(check("fn f() { option.expect(\"present\") }\n"), []);
    }
}
