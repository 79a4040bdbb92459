#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| buzz_sim::fuzz::trace(bytes));
