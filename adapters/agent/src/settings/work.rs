//! Settings of the scheduler.

use std::time::Duration;

use buzz_proto::schedule::{Config, Policy};

use crate::args::{During, RunArgs, SessionPolicy};
use crate::exit::Failure;

/// What the scheduler gives a worker beyond what the worker's own side does: ending a process that
/// does not react takes seconds.
const START_MARGIN: Duration = Duration::from_secs(10);

/// The scheduler's settings, without who is answered.
///
/// # Errors
/// When one setting contradicts another.
pub(super) fn scheduler(args: &RunArgs) -> Result<Config, Failure> {
    let work = &args.work;
    at_most(
        args,
        ("--turn-idle", work.turn_idle),
        ("--turn-limit", work.turn_limit),
    )?;
    let (queue, queue_total) = (work.queue.into(), work.queue_total.into());
    at_most(args, ("--queue", queue), ("--queue-total", queue_total))?;
    let mut config = Config::new(work.workers);
    config.policy = match work.policy {
        SessionPolicy::Thread => Policy::Thread,
        SessionPolicy::Channel => Policy::Channel,
    };
    config.notices = !work.no_notices;
    config.cosmetics = !work.no_presence;
    config.marks = !work.no_marks;
    let limits = &mut config.limits;
    limits.hold = Duration::from_secs(work.hold);
    limits.turn_idle = Duration::from_secs(work.turn_idle);
    limits.turn_hard = Duration::from_secs(work.turn_limit);
    limits.cancel_grace = Duration::from_secs(work.cancel_grace);
    limits.attempts_max = work.attempts;
    limits.sessions_max = work.sessions;
    limits.session_idle = Duration::from_secs(work.session_idle);
    limits.batch_max = work.batch;
    limits.channel_max = work.queue;
    limits.total_max = work.queue_total;
    limits.context_max = work.context;
    // The worker's own side sees the silence first, and says what was awaited.
    limits.start = limits.start.saturating_add(START_MARGIN);
    limits.session_open = limits.session_open.saturating_add(START_MARGIN);
    Ok(config)
}

/// What is to be said of a setting that is accepted and has no effect.
pub(super) fn means_queue(args: &RunArgs) -> Option<String> {
    let asked = match args.work.during_turn {
        During::Queue => return None,
        During::Steer => "steer",
        During::Interrupt => "interrupt",
    };
    let name = args.name_of("--during-turn");
    Some(format!(
        "{name} {asked} means queue for now: what comes during a turn waits for its end"
    ))
}

/// What is bounded by another setting stands below it.
fn at_most(
    args: &RunArgs,
    (least, value): (&str, u64),
    (most, bound): (&str, u64),
) -> Result<(), Failure> {
    if value <= bound {
        return Ok(());
    }
    let (least, most) = (args.name_of(least), args.name_of(most));
    Err(Failure::settings(format!(
        "{least} is {value}, above {most}, which is {bound}: lower the one or raise the other"
    )))
}
