//! Notes as one line for people.

use core::fmt;

use crate::note::Note;

/// Writes one line.
pub(crate) fn write(note: &Note, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(note.kind())
}
