//! What a rule reports.

use std::fmt;

/// One breach of a house rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path from the root of the workspace, with forward slashes.
    pub(crate) path: String,
    /// Line, counted from 1.
    pub(crate) line: usize,
    /// What is wrong, why it matters and what to do.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Panics with one line per finding, in order of place.
///
/// # Panics
/// When there is a finding.
pub(crate) fn fail_on(mut findings: Vec<Finding>) {
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    let list: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(
        list.is_empty(),
        "{} findings:\n{}",
        list.len(),
        list.join("\n")
    );
}

#[test]
#[should_panic(expected = "2 findings:\na.rs:3: first\nb.rs:1: second")]
fn findings_fail_with_place_and_reason_in_order() {
    fail_on(vec![
        Finding::new("b.rs", 1, "second"),
        Finding::new("a.rs", 3, "first"),
    ]);
}

#[test]
fn no_findings_pass() {
    fail_on(Vec::new());
}
