//! What a fuzzer runs: each body takes any bytes and panics when something that must hold does not.
//!
//! The fuzz targets call these, and a suite plays the corpus that is kept with them on any compiler.

mod machine;
mod retry_hint;
mod trace;
mod wire;

pub use machine::machine;
pub use retry_hint::retry_hint;
pub use trace::trace;
pub use wire::wire;

/// A body.
pub type Body = fn(&[u8]);

/// Every target, by the name of its folder in the corpus.
pub const TARGETS: [(&str, Body); 4] = [
    ("machine", machine),
    ("retry_hint", retry_hint),
    ("trace", trace),
    ("wire", wire),
];
