//! Whether an agent could run with these settings: one check after the other, a line each.
//!
//! Nothing is kept and no message is said. The relay is spoken to as the agent would, with one
//! question at a time; to see whether it may write, the agent shows that it is typing.

mod finding;
mod judge;
mod line;
mod relay;
mod worker;

use buzz_adapters::sign::LocalSigner;
use buzz_proto::relay::Channels;

use self::finding::{Chart, Finding};
use self::relay::Examination;
use crate::agent::{Parts, start_runtime};
use crate::args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::settings::Settings;
use crate::ui::Ui;

/// Makes all checks; gives the exit of the first that failed.
pub(crate) fn run(args: &RunArgs, ui: Ui) -> Result<Exit, Failure> {
    let parts = Settings::look(args, ui)?;
    let runtime = start_runtime()?;
    Ok(runtime.block_on(examine(parts, ui)))
}

async fn examine(parts: Parts, ui: Ui) -> Exit {
    let Parts {
        config,
        url,
        tls,
        key,
        attestation,
        worker,
        ..
    } = parts;
    let mut chart = Chart::new(ui);
    let (me, found) = (
        config.me,
        format!("{url}, as {}", buzz_adapters::keys::npub(&config.me)),
    );
    chart.tell(&Finding::good("settings", found));
    let channels = match config.relay.channels {
        Channels::Given(channels) => channels,
        Channels::Roster => Vec::new(),
    };
    let examination = Examination {
        url,
        tls,
        signer: LocalSigner::new(key),
        me,
        attestation,
        channels,
        kinds: config.relay.read_kinds,
    };
    examination.make(&mut chart).await;
    chart.skip_rest();
    chart.tell(&worker::check(worker).await);
    chart.exit()
}
