//! Plays chaos with many seeds, and prints the figures of those that are not clean.
//!
//! `cargo run --release -p buzz-sim --example chaos -- 1 300 150`: seeds from 1 to 299, with 150
//! troubles each. The exit code is 1 when one of them was not clean.

#![expect(clippy::print_stdout, reason = "figures are machine output")]

use std::error::Error;
use std::process::ExitCode;

use buzz_sim::scenario::chaos::Chaos;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let numbers: Result<Vec<u64>, _> = std::env::args().skip(1).map(|it| it.parse()).collect();
    let [first, end, troubles] = numbers?[..] else {
        return Err("three numbers are needed: first seed, end of the seeds, troubles".into());
    };
    let troubles = u32::try_from(troubles)?;
    let mut unclean = 0_u32;
    for seed in first..end {
        let figures = Chaos { seed, troubles }.play()?;
        if !figures.is_clean() {
            unclean = unclean.saturating_add(1);
            println!("{}", serde_json::to_string(&figures)?);
        }
    }
    println!("{unclean} of {} are not clean", end.saturating_sub(first));
    Ok(ExitCode::from(u8::from(unclean > 0)))
}
