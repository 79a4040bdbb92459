//! Rules of size and naming.

use proc_macro2::{Delimiter, TokenTree};

use crate::finding::Finding;
use crate::rust_file::{RustFile, group, is_ident, is_punct, line_of};

/// Past this a file holds a second idea; splitting later is what mostly fails.
const FILE_LINES_MAX: usize = 400;
/// The threshold of the compiler's own lint, which an attribute can switch off and this cannot.
const FUNCTION_LINES_MAX: usize = 70;
/// The formatter leaves long strings and comments alone.
const LINE_CHARS_MAX: usize = 120;

/// Code lines of a file, its trailing test module not counted.
pub(crate) fn long_file(file: &RustFile) -> Vec<Finding> {
    let lines = file.code_lines(1..file.tests_from);
    if lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    let what = format!("{lines} lines of code, at most {FILE_LINES_MAX}: cut it by idea");
    vec![file.finding(1, what)]
}

/// Code lines between the braces of each function.
pub(crate) fn long_functions(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in functions(file) {
        let lines = file.code_lines(function.first_line..function.last_line);
        if lines > FUNCTION_LINES_MAX {
            let what = format!(
                "`{}` has {lines} lines of code, at most {FUNCTION_LINES_MAX}: name its parts",
                function.name
            );
            findings.push(file.finding(function.line, what));
        }
    }
    findings
}

pub(crate) fn wide_lines(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in file.lines.iter().zip(1..) {
        let width = line.whole.chars().count();
        if width > LINE_CHARS_MAX {
            let what = format!("{width} characters, at most {LINE_CHARS_MAX}: break the line");
            findings.push(file.finding(number, what));
        }
    }
    findings
}

/// Functions and files whose name says nothing.
pub(crate) fn vague_names(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in functions(file) {
        if ["get_", "do_"]
            .iter()
            .any(|prefix| function.name.starts_with(prefix))
        {
            let what = format!("`{}`: drop the prefix, it adds nothing", function.name);
            findings.push(file.finding(function.line, what));
        }
    }
    let stem = file
        .path
        .rsplit('/')
        .next()
        .and_then(|name| name.strip_suffix(".rs"));
    if let Some(stem @ ("util" | "utils" | "misc" | "manager" | "helpers")) = stem {
        let what = format!("`{stem}` names no idea: call the file by what it holds");
        findings.push(file.finding(1, what));
    }
    findings
}

struct Function {
    name: String,
    line: usize,
    /// The first line after the opening brace.
    first_line: usize,
    /// The line of the closing brace.
    last_line: usize,
}

fn functions(file: &RustFile) -> Vec<Function> {
    let mut functions = Vec::new();
    for sequence in &file.sequences {
        for (at, token) in sequence.iter().enumerate() {
            let Some(TokenTree::Ident(name)) = sequence.get(at + 1) else {
                continue;
            };
            if !is_ident(Some(token), "fn") {
                continue;
            }
            let after = sequence.get(at + 2..).unwrap_or_default();
            let line = line_of(token);
            let (first_line, last_line) = body(after).unwrap_or((line, line));
            functions.push(Function {
                name: name.to_string(),
                line,
                first_line,
                last_line,
            });
        }
    }
    functions
}

/// The lines inside the braces; nothing for a declaration without a body.
fn body(after_name: &[TokenTree]) -> Option<(usize, usize)> {
    for token in after_name {
        if is_punct(Some(token), ';') {
            return None;
        }
        if let Some(body) = group(Some(token), Delimiter::Brace) {
            return Some((
                body.span_open().start().line + 1,
                body.span_close().start().line,
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&RustFile) -> Vec<Finding>, text: &str) -> Vec<String> {
        let file = RustFile::parse("a.rs", text).expect("the fixture is Rust");
        rule(&file).iter().map(Finding::to_string).collect()
    }

    fn function_of(lines: usize) -> String {
        format!(
            "// a comment\nfn f() {{\n{}}}\n",
            "    g();\n    // why\n\n".repeat(lines)
        )
    }

    #[test]
    fn a_file_past_the_limit_is_found_and_one_at_it_is_not() {
        let at_limit = "const A: u8 = 0;\n// why\n\n".repeat(FILE_LINES_MAX);
        let past = format!("{at_limit}const B: u8 = 0;\n");

        assert_eq!(check(long_file, &at_limit), Vec::<String>::new());
        assert_eq!(
            check(long_file, &past),
            ["a.rs:1: 401 lines of code, at most 400: cut it by idea"]
        );
    }

    #[test]
    fn trailing_tests_do_not_make_a_file_long_but_leading_ones_do() {
        let module = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "use a;\n".repeat(450));

        assert_eq!(check(long_file, &module), Vec::<String>::new());
        assert_eq!(check(long_file, &format!("{module}fn f() {{}}\n")).len(), 1);
    }

    #[test]
    fn a_function_past_the_limit_is_found_wherever_it_stands() {
        let past = function_of(FUNCTION_LINES_MAX + 1);
        let expected = "`f` has 71 lines of code, at most 70: name its parts";

        assert_eq!(
            check(long_functions, &function_of(FUNCTION_LINES_MAX)),
            Vec::<String>::new()
        );
        assert_eq!(
            check(long_functions, &past),
            [format!("a.rs:2: {expected}")]
        );
        assert_eq!(
            check(long_functions, &format!("impl A {{\n{past}}}")),
            [format!("a.rs:3: {expected}")]
        );
        assert_eq!(
            check(long_functions, &format!("quickcheck! {{\n{past}}}")),
            [format!("a.rs:3: {expected}")]
        );
    }

    #[test]
    fn a_declaration_and_a_function_pointer_have_no_length() {
        let text = format!(
            "trait T {{ fn f(&self); }}\ntype P = fn(u8);\nstruct S {{\n{}}}\n",
            "a: u8,\n".repeat(80)
        );

        assert_eq!(check(long_functions, &text), Vec::<String>::new());
    }

    #[test]
    fn a_wide_line_is_found_by_characters_not_bytes() {
        let wide = format!("// {}\n", "é".repeat(118));
        let fits = format!("// {}\n", "é".repeat(117));

        assert_eq!(
            check(wide_lines, &wide),
            ["a.rs:1: 121 characters, at most 120: break the line"]
        );
        assert_eq!(check(wide_lines, &fits), Vec::<String>::new());
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        assert_eq!(
            check(vague_names, "impl A {\n    pub fn get_name(&self) {}\n}\n"),
            ["a.rs:2: `get_name`: drop the prefix, it adds nothing"]
        );
        assert_eq!(check(vague_names, "fn do_it() {}").len(), 1);
        assert_eq!(
            check(vague_names, "fn get() { map.get_mut(0); }"),
            Vec::<String>::new()
        );
        let file = RustFile::parse("src/util.rs", "").expect("an empty file is Rust");
        assert_eq!(vague_names(&file).len(), 1);
    }
}
