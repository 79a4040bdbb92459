//! `demo`: a relay, a crowd and an agent with two workers, all in one process tree on loopback.
//!
//! Nothing is simulated but the people: the relay speaks real WebSocket and HTTP with its real
//! quotas, the workers are child processes that speak ACP, and the figures are counted from what
//! the crowd's own connections received and can read back from the relay.

mod crowd;
mod diary;
mod score;

use std::time::{Duration, Instant};

use buzz_adapters::acp::AcpSettings;
use buzz_adapters::connect::Handle;
use buzz_adapters::keys::SecretKey;
use buzz_adapters::tls::{Roots, Tls};
use buzz_adapters::tokio::Tokio;
use buzz_adapters::url::RelayUrl;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::{DevRelay, Options};
use buzz_proto::config::{Config, Consumer};
use buzz_proto::trace::Privacy;
use buzz_proto::{publish, relay, schedule};

use self::crowd::{Crowd, Plan};
use self::diary::Diary;
use self::score::Score;
use crate::agent::Parts;
use crate::args::DemoArgs;
use crate::exit::{Exit, Failure};
use crate::fault;
use crate::settings::draw_seed;
use crate::trace_file::start_trace;
use crate::ui::Ui;

/// Channels the crowd talks in.
const CHANNELS: [&str; 3] = [
    "6f1d2c3b-4a59-4e68-8f70-8192a3b4c5d6",
    "7a2e3d4c-5b6a-4f79-9081-92a3b4c5d6e7",
    "8b3f4e5d-6c7b-4081-a192-a3b4c5d6e7f8",
];
const WORKERS: u16 = 2;
/// Running turns and unpublished replies at the end.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the demonstration. The exit code says whether everything owed was answered or accounted
/// for, once.
pub(crate) async fn run(args: &DemoArgs, ui: Ui) -> Result<Exit, Failure> {
    let diary = Diary::start(ui)?;
    let result = show(args, &diary, ui).await;
    if !result.as_ref().is_ok_and(Score::is_clean) {
        diary.show(ui);
    }
    let score = result?;
    for (name, count, meaning) in score.rows() {
        ui.line(format_args!("{name:>10} {count:>5}  {meaning}"));
    }
    ui.line(format_args!(
        "{:>10} {:>5.1}  in all",
        "seconds", score.seconds
    ));
    ui.json(&score);
    Ok(if score.is_clean() {
        Exit::Done
    } else {
        Exit::Lost
    })
}

async fn show(args: &DemoArgs, diary: &Diary, ui: Ui) -> Result<Score, Failure> {
    let started = Instant::now();
    let relay = DevRelay::start(Options::default())
        .await
        .map_err(Failure::other)?;
    let key = SecretKey::generate().map_err(Failure::other)?;
    let crowd = Crowd::gather(&relay, Plan::of(args), key.public_key()).await?;
    open_channels(&relay, &crowd, &key.public_key().to_string())?;
    ui.line(format_args!(
        "relay at {}, {WORKERS} workers, {} people",
        relay.url(),
        args.users
    ));
    let mut agent = start_agent(&relay, key, args, diary.clone())?;
    let tally = tokio::select! {
        tally = crowd.talk(ui) => tally?,
        fault = fault::happened() => return Err(fault),
    };
    agent.shutdown(GRACE);
    agent.ended().await;
    relay.shutdown().await;
    Ok(tally.score(started.elapsed().as_secs_f64()))
}

fn open_channels(relay: &DevRelay, crowd: &Crowd, agent: &str) -> Result<(), Failure> {
    let (visibility, kind) = (Visibility::Private, ChannelKind::Stream);
    let owner = crowd.owner();
    for channel in CHANNELS {
        relay
            .create_channel(channel, "demo", visibility, kind, owner)
            .map_err(Failure::other)?;
        for member in crowd.members() {
            relay
                .add_member(channel, member, Role::Member, owner)
                .map_err(Failure::other)?;
        }
        relay
            .add_member(channel, agent, Role::Bot, owner)
            .map_err(Failure::other)?;
    }
    Ok(())
}

fn start_agent(
    relay: &DevRelay,
    key: SecretKey,
    args: &DemoArgs,
    diary: Diary,
) -> Result<Handle<Tokio>, Failure> {
    let url = RelayUrl::parse(&relay.url()).map_err(Failure::other)?;
    let mut workers = schedule::Config::new(WORKERS);
    workers.respond_to = schedule::RespondTo::Anyone;
    let config = Config {
        seed: args.seed.map_or_else(draw_seed, Ok)?,
        me: key.public_key(),
        relay: relay::Config::new(&relay.url()),
        publish: publish::Config::default(),
        consumer: Consumer::Workers(Box::new(workers)),
    };
    let program = std::env::current_exe().map_err(Failure::other)?;
    let mut worker = AcpSettings::new(program.to_string_lossy());
    worker.args = vec!["echo-worker".into()];
    let trace = args.trace.as_deref();
    let record = trace
        .map(|path| start_trace(path, Privacy::Redacted))
        .transpose()?;
    let parts = Parts {
        config,
        url,
        tls: Tls::new(Roots::Bundled, None).map_err(Failure::other)?,
        key,
        attestation: None,
        worker,
        keeper: None,
        record,
    };
    parts.start::<Tokio>(|_| {}, move |report| diary.take(report))
}
