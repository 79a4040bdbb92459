//! A recorded trace, fed to the machine again.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use buzz_proto::action::Action;
use buzz_proto::input::Input;
use buzz_proto::time::MonoTime;
use buzz_proto::trace::{Replay, Replayed};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::ReplayArgs;
use crate::exit::{Exit, Failure};
use crate::ui::{Look, Ui};

/// The settings take a few kilobytes: a file that begins with a longer line is something else.
const HEAD_BYTES_MAX: u64 = 1 << 20;
/// The largest frame, each byte of it escaped, as a fact and again in the orders.
const LINE_BYTES_MAX: u64 = 256 << 20;
/// How much of an order that differs is shown, beginning a little before the difference.
const SHOWN_CHARS: usize = 300;
const SHOWN_BEFORE: usize = 60;

/// Replays the trace to its end, or to the first order that differs.
pub(crate) fn run(args: &ReplayArgs, ui: Ui) -> Result<(), Failure> {
    let mut lines = Lines::open(&args.trace)?;
    let head = lines.next(HEAD_BYTES_MAX)?;
    let head = head.ok_or_else(|| lines.failure("it is empty, so it is no trace"))?;
    let mut replay = Replay::new(&head.text)
        .map_err(|error| lines.failure(format_args!("it is no trace: {error}")))?;
    let mut tally = Tally::default();
    while let Some(line) = lines.next(LINE_BYTES_MAX)? {
        let step = match replay.step(&line.text) {
            Ok(step) => step,
            Err(_) if !line.is_whole => {
                let (number, calls) = (lines.number, tally.calls);
                return Err(lines.failure(format_args!(
                    "line {number} is cut off, as when the recording program is killed; the \
                     {calls} calls before it replay as recorded"
                )));
            }
            Err(error) => return Err(lines.failure(error)),
        };
        tell(&step, args.quiet, ui);
        if let Some(place) = step.difference() {
            return Err(lines.failure(difference(&step, place, ui)));
        }
        tally.add(&step);
    }
    tally.tell(ui);
    Ok(())
}

#[derive(Default)]
struct Tally {
    calls: u64,
    /// Calls whose recorded orders were compared.
    compared: u64,
    last: MonoTime,
}

impl Tally {
    fn add(&mut self, step: &Replayed) {
        self.calls = self.calls.saturating_add(1);
        self.compared = self
            .compared
            .saturating_add(u64::from(step.recorded.is_some()));
        self.last = step.now;
    }

    fn tell(&self, ui: Ui) {
        let Self {
            calls,
            compared,
            last,
        } = self;
        ui.json(&json!({"equal": true, "calls": calls, "compared": compared}));
        let verdict = match compared {
            0 => "the trace holds no orders to compare".to_owned(),
            _ => format!("the orders of {compared} are the same as recorded"),
        };
        ui.styled(
            Look::Good,
            format_args!("{calls} calls over {last}: {verdict}"),
        );
    }
}

fn tell(step: &Replayed, is_quiet: bool, ui: Ui) {
    let fact = kind(&step.input);
    let orders: Vec<_> = step.actions.iter().map(kind).collect();
    if !is_quiet {
        let (line, now) = (step.line, step.now);
        let orders = if orders.is_empty() {
            "nothing".to_owned()
        } else {
            orders.join(", ")
        };
        ui.line(format_args!("{line:>6} {now:>11}  {fact} → {orders}"));
        for action in &step.actions {
            if let Action::Note(note) = action {
                ui.styled(Look::Faint, format_args!("{:>20}{note}", ""));
            }
        }
    }
    ui.json(&json!({"line": step.line, "t": step.now, "in": fact, "out": orders}));
}

/// Shows the first order that differs; gives the sentence about it.
fn difference(step: &Replayed, place: usize, ui: Ui) -> String {
    let recorded = step.recorded.as_deref().unwrap_or_default().get(place);
    let (recorded, replayed) = (text(recorded), text(step.actions.get(place)));
    let same = recorded
        .chars()
        .zip(replayed.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let (line, number) = (step.line, place.saturating_add(1));
    ui.line(format_args!(
        "at {}, order {number} after {}:",
        step.now,
        kind(&step.input)
    ));
    ui.line(format_args!("  recorded  {}", window(&recorded, same)));
    ui.line(format_args!("  replayed  {}", window(&replayed, same)));
    ui.json(&json!({
        "equal": false, "line": line, "order": number, "recorded": recorded, "replayed": replayed,
    }));
    format!("line {line} replays differently, at order {number}")
}

fn text(order: Option<&Action>) -> String {
    let text = order.map(|order| serde_json::to_string(order).unwrap_or_default());
    text.unwrap_or_else(|| "nothing".to_owned())
}

/// A part of a long text, from a little before the character `at`.
fn window(text: &str, at: usize) -> String {
    let start = if text.chars().count() > SHOWN_CHARS {
        at.saturating_sub(SHOWN_BEFORE)
    } else {
        0
    };
    let mut rest = text.chars().skip(start);
    let mut shown: String = rest.by_ref().take(SHOWN_CHARS).collect();
    if start > 0 {
        shown.insert(0, '…');
    }
    if rest.next().is_some() {
        shown.push('…');
    }
    shown
}

/// The name of a fact or an order: its part, and its variant.
fn kind(value: &impl Kind) -> String {
    let Ok(value) = serde_json::to_value(value) else {
        return String::new();
    };
    let (name, inner) = variant(&value);
    let is_part = matches!(name, "Relay" | "Publish" | "Schedule");
    match inner.map(variant) {
        Some((inner, _)) if is_part => format!("{name}.{inner}"),
        Some(_) | None => name.to_owned(),
    }
}

/// What the machine takes or gives: enums, externally tagged.
trait Kind: Serialize {}
impl Kind for Input {}
impl Kind for Action {}

fn variant(value: &Value) -> (&str, Option<&Value>) {
    if let Value::Object(object) = value
        && let Some((name, inner)) = object.iter().next()
    {
        return (name, Some(inner));
    }
    (value.as_str().unwrap_or_default(), None)
}

/// The lines of a file, each within a limit.
struct Lines<'a> {
    path: &'a Path,
    file: BufReader<File>,
    /// The last line read, counted from one.
    number: u64,
}

struct Line {
    text: String,
    /// Whether it ended before the file did.
    is_whole: bool,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        let opened = File::open(path).and_then(|file| {
            if file.metadata()?.is_dir() {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            Ok(file)
        });
        match opened {
            Ok(file) => Ok(Self {
                path,
                file: BufReader::new(file),
                number: 0,
            }),
            Err(error) => Err(failure(path, format_args!("it cannot be read: {error}"))),
        }
    }

    fn next(&mut self, bytes_max: u64) -> Result<Option<Line>, Failure> {
        self.number = self.number.saturating_add(1);
        let number = self.number;
        let mut bytes = Vec::new();
        let mut limited = self.file.by_ref().take(bytes_max);
        let read = limited.read_until(b'\n', &mut bytes);
        let is_full = limited.limit() == 0;
        read.map_err(|error| self.failure(format_args!("it cannot be read: {error}")))?;
        let is_whole = bytes.ends_with(b"\n");
        if is_full && !is_whole {
            return Err(self.failure(format_args!("line {number} is too long, so it is no trace")));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| {
            self.failure(format_args!("line {number} is no text, so it is no trace"))
        })?;
        Ok(Some(Line { text, is_whole }))
    }

    fn failure(&self, text: impl std::fmt::Display) -> Failure {
        failure(self.path, text)
    }
}

fn failure(path: &Path, text: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Trace, format!("{}: {text}", path.display()))
}
