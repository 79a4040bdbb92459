#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| buzz_sim::fuzz::retry_hint(bytes));
