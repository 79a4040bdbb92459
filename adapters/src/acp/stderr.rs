//! The end of what a worker wrote on standard error: often the only word about why it ended.

use buzz_proto::wire::{EXCERPT_BYTES_MAX, Excerpt};

/// The most bytes that are kept.
const TAIL_BYTES_MAX: usize = 4 << 10;

/// A longer line is shown in parts.
const LINE_BYTES_MAX: usize = 1 << 10;

/// Keeps the end, and hands on whole lines.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: Vec<u8>,
    line: Vec<u8>,
}

impl Tail {
    /// Takes what was read; `show` is called for each line that became whole.
    pub(super) fn add(&mut self, bytes: &[u8], mut show: impl FnMut(&[u8])) {
        let from = bytes.len().saturating_sub(TAIL_BYTES_MAX);
        self.kept.extend_from_slice(&bytes[from..]);
        let excess = self.kept.len().saturating_sub(TAIL_BYTES_MAX);
        self.kept.drain(..excess);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            for piece in part.chunks(LINE_BYTES_MAX) {
                self.line.extend_from_slice(piece);
                if piece.ends_with(b"\n") || self.line.len() >= LINE_BYTES_MAX {
                    show(self.line.trim_ascii_end());
                    self.line.clear();
                }
            }
        }
    }

    /// The last lines, joined by ` / `, as many as an excerpt holds; the last one alone may be cut.
    pub(super) fn excerpt(&self) -> Excerpt {
        let text = String::from_utf8_lossy(&self.kept);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut shown = String::new();
        for line in lines.rev() {
            if shown.is_empty() {
                line.clone_into(&mut shown);
                continue;
            }
            let joined = format!("{line} / {shown}");
            if joined.len() > EXCERPT_BYTES_MAX {
                break;
            }
            shown = joined;
        }
        Excerpt::new(&shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_joined() {
        let mut tail = Tail::default();
        let mut shown = Vec::new();

        tail.add(&[b'x'; 9000], |line| shown.push(line.to_vec()));
        tail.add(b"\nfirst\nsec", |line| shown.push(line.to_vec()));
        tail.add(b"ond\n", |line| shown.push(line.to_vec()));

        assert_eq!(tail.excerpt().as_str(), "first / second");
        assert_eq!(shown.last().map(Vec::as_slice), Some(&b"second"[..]));
        assert_eq!(tail.kept.len(), TAIL_BYTES_MAX);
    }
}
