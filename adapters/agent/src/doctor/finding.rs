//! What a check found, in one line.

use serde_json::json;

use crate::exit::Exit;
use crate::secrets::scrubbed;
use crate::ui::{Look, Ui};

/// All checks, in their order.
pub(super) const CHECKS: [&str; 10] = [
    "dns",
    "connection",
    "tls",
    "upgrade",
    "document",
    "clock",
    "login",
    "membership",
    "subscription",
    "publishing",
];

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Good,
    /// An agent can run, though not as well as it could.
    Doubtful,
    Bad,
    /// A check before it has failed.
    Skipped,
}

/// What was checked, what came back, and what to do.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    check: &'static str,
    outcome: Outcome,
    found: String,
    advice: Option<String>,
    /// How the program ends because of it.
    exit: Exit,
}

impl Finding {
    pub(super) fn good(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            outcome: Outcome::Good,
            found: found.into(),
            advice: None,
            exit: Exit::Done,
        }
    }

    pub(super) fn doubtful(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            outcome: Outcome::Doubtful,
            advice: Some(advice.into()),
            ..Self::good(check, found)
        }
    }

    pub(super) fn bad(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
        exit: Exit,
    ) -> Self {
        Self {
            outcome: Outcome::Bad,
            exit,
            ..Self::doubtful(check, found, advice)
        }
    }

    fn skipped(check: &'static str) -> Self {
        Self {
            outcome: Outcome::Skipped,
            ..Self::good(check, "not checked, because one before it failed")
        }
    }

    /// Whether there is nothing to do.
    #[cfg(test)]
    pub(super) fn is_good(&self) -> bool {
        self.outcome == Outcome::Good
    }

    fn tell(&self, ui: Ui) {
        let (word, look) = match self.outcome {
            Outcome::Good => ("ok", Look::Good),
            Outcome::Doubtful => ("warn", Look::Plain),
            Outcome::Bad => ("FAIL", Look::Bad),
            Outcome::Skipped => ("skip", Look::Faint),
        };
        let (check, found) = (self.check, scrubbed(&self.found));
        let advice = self.advice.as_deref().map(scrubbed);
        ui.json(&json!({
            "check": check,
            "outcome": word.to_lowercase(),
            "found": found,
            "advice": advice,
        }));
        let advice = advice.map(|advice| format!(" → {advice}"));
        let advice = advice.unwrap_or_default();
        ui.styled(
            look,
            format_args!("{word:<4}  {check:<12}  {found}{advice}"),
        );
    }
}

/// Tells findings as they come.
#[derive(Debug)]
pub(super) struct Chart {
    ui: Ui,
    told: Vec<&'static str>,
    /// The end that the first bad finding leads to.
    exit: Option<Exit>,
}

impl Chart {
    pub(super) const fn new(ui: Ui) -> Self {
        Self {
            ui,
            told: Vec::new(),
            exit: None,
        }
    }

    /// Whether it was not bad.
    pub(super) fn tell(&mut self, finding: &Finding) -> bool {
        self.told.push(finding.check);
        finding.tell(self.ui);
        let is_bad = finding.outcome == Outcome::Bad;
        if is_bad {
            self.exit.get_or_insert(finding.exit);
        }
        !is_bad
    }

    /// Checks of the relay that nothing was told of could not be made.
    pub(super) fn skip_rest(&self) {
        let skipped = CHECKS
            .into_iter()
            .filter(|check| !self.told.contains(check));
        let skipped: Vec<_> = skipped.collect();
        for check in skipped {
            Finding::skipped(check).tell(self.ui);
        }
    }

    pub(super) fn exit(&self) -> Exit {
        self.exit.unwrap_or(Exit::Done)
    }
}
