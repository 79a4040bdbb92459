//! Starts the development relay alone. The first line on standard output is its URL.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use buzz_dev_relay::rules::quota::Quotas;
use buzz_dev_relay::rules::{Auth, Generation, Settings};
use buzz_dev_relay::{DevRelay, Options, Storage};

/// A development relay on loopback that behaves like a Buzz relay.
#[derive(Debug, Parser)]
#[command(name = "buzz-dev-relay", version)]
struct Args {
    /// Port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 3000)]
    port: u16,
    /// Keep events and channels in this SQLite file.
    #[arg(long, value_name = "FILE")]
    sqlite: Option<PathBuf>,
    /// Ask for no authentication and apply no channel rules: a plain NIP-01 relay.
    #[arg(long)]
    no_auth: bool,
    /// Switch the quotas off.
    #[arg(long)]
    no_quotas: bool,
    /// Which generation of relay to play.
    #[arg(long, value_enum, default_value_t = Played::New2)]
    generation: Played,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Played {
    Old,
    New1,
    New2,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let relay = match DevRelay::start(options(args)).await {
        Ok(relay) => relay,
        Err(error) => {
            report(&format!("error: {error}"));
            return ExitCode::FAILURE;
        }
    };
    announce(&relay.url());
    report(&format!(
        "relay key {}; Ctrl-C stops it",
        relay.public_key()
    ));
    let outcome = tokio::signal::ctrl_c().await;
    report("relay restarting: closing connections with 1012");
    let stats = relay.stats();
    let failure = relay.storage_error();
    relay.shutdown().await;
    report(&format!(
        "{} connections, {} events accepted, {} refused",
        stats.connections, stats.accepted, stats.refused
    ));
    if let Some(error) = failure {
        report(&format!("error: the SQLite file is incomplete: {error}"));
        return ExitCode::FAILURE;
    }
    if outcome.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn options(args: Args) -> Options {
    let settings = Settings {
        generation: match args.generation {
            Played::Old => Generation::Old,
            Played::New1 => Generation::New1,
            Played::New2 => Generation::New2,
        },
        quotas: if args.no_quotas {
            Quotas::off()
        } else {
            Quotas::default()
        },
        auth: if args.no_auth {
            Auth::None
        } else {
            Auth::Required
        },
        ..Settings::default()
    };
    Options {
        addr: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), args.port),
        settings,
        storage: args.sqlite.map_or(Storage::Memory, Storage::Sqlite),
        ..Options::default()
    }
}

#[expect(clippy::print_stdout, reason = "the URL is this program's result")]
fn announce(url: &str) {
    println!("{url}");
}

#[expect(clippy::print_stderr, reason = "people read standard error")]
fn report(text: &str) {
    eprintln!("{text}");
}
