//! Benchmarks of the state machine; they stand in `benches/`.
