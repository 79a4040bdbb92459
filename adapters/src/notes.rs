//! Notes as lines of [`tracing`], for programs that collect these; the report is the same in full.

use buzz_proto::note::{Note, Weight};

/// Writes a note. What is lost or broken is a warning, what belongs to the work is information,
/// and what only explains the machine is for debugging.
pub(crate) fn trace(note: &Note) {
    let kind = note.kind();
    // The level of a line is part of its code.
    match note.weight() {
        Weight::Trouble => tracing::warn!(kind, "{note}"),
        Weight::Work => tracing::info!(kind, "{note}"),
        Weight::Detail => tracing::debug!(kind, "{note}"),
    }
}
