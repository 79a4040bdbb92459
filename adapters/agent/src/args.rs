//! The command line.

mod sim;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::{BoolishValueParser, Resettable};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{
    Arg, ArgGroup, Args as ClapArgs, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    ValueEnum,
};

pub(crate) use sim::{FleetArgs, HoldArgs, OverloadArgs, Scenario, SimArgs, StormArgs};
pub(crate) use work::{During, Permission, SessionPolicy, WorkArgs};

const RUN: &str = "run";
/// The commands that take settings from the environment.
const WITH_VARIABLES: [&str; 2] = [RUN, "doctor"];

/// The exit codes, for the help.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done, or stopped as asked
  1  anything without a code of its own, a second Ctrl-C included
  2  an argument, variable or file that cannot be used
  3  the relay was not reached in time, at the start
  4  the relay refuses the key
  5  the worker's command is missing or does not speak ACP
  6  the trace cannot be read or replays differently
  7  the demo lost or duplicated a reply, or a simulation an event or a post
  8  another agent with the same key runs on the relay

People read stderr, programs read stdout (--json).";

const RUN_HELP: &str = "\
Everything after -- is the command of the worker: a program that speaks ACP on its standard input
and output. It is not given the key, and on Linux it cannot read it from this program either. It
runs as the same user, though, and may read what that user may: a key file, or the environment of
the process that started this one.

Environment, where no flag is given; an empty variable is none:
  BUZZ_RELAY_URL                   --relay
  BUZZ_PRIVATE_KEY                 the key, in place of --key-file: nsec1... or 64 hex digits
  BUZZ_AUTH_TAG                    the owner's attestation (NIP-OA), a JSON array; names the owner
  BUZZ_ACP_AGENT_COMMAND           the worker's program, where nothing stands after --
  BUZZ_ACP_AGENT_ARGS              its arguments, separated by commas
  BUZZ_ACP_AGENTS                  --workers
  BUZZ_ACP_AGENT_OWNER             --owner
  BUZZ_ACP_RESPOND_TO              --respond-to
  BUZZ_ACP_RESPOND_TO_ALLOWLIST    --allow, separated by commas
  BUZZ_ACP_SESSION_POLICY          --policy
  BUZZ_ACP_IDLE_TIMEOUT            --turn-idle
  BUZZ_ACP_MAX_TURN_DURATION       --turn-limit
  BUZZ_ACP_CONTEXT_MESSAGE_LIMIT   --context
  BUZZ_ACP_MULTIPLE_EVENT_HANDLING --during-turn
  BUZZ_ACP_NO_PRESENCE             --no-presence
  BUZZ_ACP_CHANNELS                --channel, separated by commas
  BUZZ_ACP_KINDS                   --kinds, separated by commas
  BUZZ_ACP_NO_MENTION_FILTER       --all-messages
  BUZZ_ACP_SYSTEM_PROMPT           --preamble
  BUZZ_STATE_DIR                   --state-dir
  RUST_LOG                         the log of the libraries on stderr, such as info
  NO_COLOR                         no colours

Once it was live the agent stays until it is told to stop (Ctrl-C, SIGTERM, SIGHUP, or its
owner's !shutdown), whatever the network does. Only a start that cannot succeed ends by itself:
  2  a setting cannot be used            4  the relay refuses the key
  3  the relay was not reached in time   5  the worker's command is missing or does not speak ACP
  8  another agent with the same key runs on the relay";

const DOCTOR_HELP: &str = "\
Takes the flags and variables of run. Checked in this order, a line each on stderr: settings, DNS,
connection, TLS, upgrade to a WebSocket, the relay's document (NIP-11), this machine's clock, login,
membership in channels, a subscription, whether the key may write, and the worker's command. Each
line says what came back and, where something is wrong, what to do. With --json each is an object on
stdout. No message is said and nothing is kept; where the agent is in a channel it shows there for a
moment that it is typing.

Exit codes: 0 when nothing failed (warnings do not count); else that of the first failure:
  1  the clock is off, or the key is in no channel      4  the relay refuses the key or what it asks
  2  a setting cannot be used                           5  the worker's command does not speak ACP
  3  the relay cannot be reached or does not answer";

/// An agent on a Buzz relay, and tools around it.
#[derive(Debug, Parser)]
#[command(name = "buzz-agent", version, after_help = EXIT_CODES)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArgs),
    Run(Box<RunArgs>),
    /// Whether an agent could run: takes what run takes, and says what to mend.
    #[command(after_help = DOCTOR_HELP)]
    Doctor(Box<RunArgs>),
    Keygen(KeygenArgs),
    Replay(ReplayArgs),
    Sim(SimArgs),
    /// A worker that answers with what it was asked.
    #[command(hide = true)]
    EchoWorker,
}

impl Args {
    /// Reads the command line and the environment, where an empty variable is none.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let mut command = Self::command();
        for name in WITH_VARIABLES {
            command = command.mut_subcommand(name, |run| {
                run.mut_args(|arg| match variable(&arg) {
                    Some(_) => arg,
                    None => arg.env(Resettable::Reset),
                })
            });
        }
        let matches = command.clone().try_get_matches()?;
        let mut args = Self::from_arg_matches(&matches)?;
        if let Command::Run(run) | Command::Doctor(run) = &mut args.command
            && let Some((name, given)) = matches.subcommand()
        {
            let known = command.find_subcommand(name).into_iter();
            let known = known.flat_map(clap::Command::get_arguments);
            run.variables = known
                .filter_map(|arg| Some((arg, variable(arg)?)))
                .filter(|(arg, _)| {
                    given.value_source(arg.get_id().as_str()) == Some(ValueSource::EnvVariable)
                })
                .filter_map(|(arg, name)| Some((format!("--{}", arg.get_long()?), name)))
                .collect();
        }
        Ok(args)
    }
}

impl RunArgs {
    /// The flag, or the variable where its value comes from there.
    pub(crate) fn name_of<'a>(&'a self, flag: &'a str) -> &'a str {
        self.variables.get(flag).map_or(flag, String::as_str)
    }
}

/// The variable whose value is wrong, if it was not a flag's.
pub(crate) fn variable_of(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(invalid)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = invalid.split_whitespace().next()?;
    let is_given = std::env::args_os().skip(1).any(|arg| {
        let arg = arg.to_string_lossy();
        arg.split('=').next() == Some(flag)
    });
    let command = Args::command();
    let arg = command
        .find_subcommand(RUN)?
        .get_arguments()
        .find(|arg| arg.get_long() == flag.strip_prefix("--"))?;
    variable(arg).filter(|_| !is_given)
}

/// The name of an argument's variable, if that is set and not empty.
fn variable(arg: &Arg) -> Option<String> {
    let name = arg.get_env()?;
    let is_set = std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_set.then(|| name.to_string_lossy().into_owned())
}

impl Command {
    /// Whether machine output is wanted.
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Demo(args) => args.json,
            Self::Run(args) | Self::Doctor(args) => args.json,
            Self::Keygen(args) => args.json,
            Self::Replay(args) => args.json,
            Self::Sim(args) => args.is_json(),
            Self::EchoWorker => false,
        }
    }
}

/// The whole thing on loopback, with a verdict: a relay, an agent and a crowd that mentions it.
#[derive(Debug, ClapArgs)]
pub(crate) struct DemoArgs {
    /// Figures as one JSON object, the last line on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// People in the crowd.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(crate) users: u16,
    /// Mentions by each of them.
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) mentions: u16,
    /// Where chance comes from; drawn when not given.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Record what the machine is told and what it orders.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

/// An agent on a relay until it is told to stop.
#[derive(Debug, ClapArgs)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArgs {
    /// The relay, wss:// or ws://.
    #[arg(long, value_name = "URL", env = "BUZZ_RELAY_URL", hide_env = true)]
    pub(crate) relay: String,
    /// A file with the agent's private key; else the variable BUZZ_PRIVATE_KEY.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// A channel to stay in, repeatable; without any, those that the relay's roster names.
    #[arg(long, value_name = "UUID", value_delimiter = ',')]
    #[arg(env = "BUZZ_ACP_CHANNELS", hide_env = true)]
    pub(crate) channel: Vec<String>,
    /// The human who owns the agent, npub1... or hex: may always address it and may command it.
    #[arg(
        long,
        value_name = "KEY",
        env = "BUZZ_ACP_AGENT_OWNER",
        hide_env = true
    )]
    pub(crate) owner: Option<String>,
    /// Who is answered.
    #[arg(long, value_enum, default_value_t = Respond::OwnerOnly)]
    #[arg(env = "BUZZ_ACP_RESPOND_TO", hide_env = true)]
    pub(crate) respond_to: Respond,
    /// Who is answered besides the owner under allowlist, npub1... or hex, repeatable.
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    #[arg(env = "BUZZ_ACP_RESPOND_TO_ALLOWLIST", hide_env = true)]
    pub(crate) allow: Vec<String>,
    /// Answer every message, not only those that mention the agent.
    #[arg(long, value_parser = BoolishValueParser::new())]
    #[arg(env = "BUZZ_ACP_NO_MENTION_FILTER", hide_env = true)]
    pub(crate) all_messages: bool,
    /// Kinds of events that are answered, separated by commas [default: 9,46010,40007].
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    #[arg(env = "BUZZ_ACP_KINDS", hide_env = true)]
    pub(crate) kinds: Vec<u32>,
    /// Record what the machine is told and what it orders; what people wrote is left out. A trace
    /// of that name is kept beside it as FILE.1 to FILE.9.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Record what people wrote, too.
    #[arg(long, requires = "trace")]
    pub(crate) trace_whole: bool,
    /// Trust the certificates of this PEM file besides.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust whom the system trusts, rather than the bundled authorities.
    #[arg(long)]
    pub(crate) system_roots: bool,
    /// What sockets, timers and workers run on; the answers are the same.
    #[arg(long, value_enum, default_value_t = RuntimeChoice::Tokio)]
    #[arg(env = "BUZZ_RUNTIME", hide_env = true)]
    pub(crate) runtime: RuntimeChoice,
    /// End if the relay was not reached by then, at the start; 0 tries for ever.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) give_up_after: u64,
    /// What running turns and unsent replies get when the agent is told to stop.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) grace: u64,
    /// Where the agent keeps what it has done, so that a restart neither loses a message nor
    /// answers it again [default: $XDG_STATE_HOME/buzz-agent, else ~/.local/state/buzz-agent].
    /// One agent at a time can use what it keeps.
    #[arg(long, value_name = "DIR", env = "BUZZ_STATE_DIR", hide_env = true)]
    pub(crate) state_dir: Option<PathBuf>,
    /// Keep nothing: what is said while the agent does not run is never answered.
    #[arg(long)]
    pub(crate) no_state: bool,
    /// Text in front of the first prompt of each session.
    #[arg(
        long,
        value_name = "TEXT",
        env = "BUZZ_ACP_SYSTEM_PROMPT",
        hide_env = true
    )]
    pub(crate) preamble: Option<String>,
    /// The directory in which workers run.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) cwd: PathBuf,
    /// Each fact as a line of JSON on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// The worker's program and its arguments.
    #[arg(last = true, value_name = "COMMAND", help_heading = "Arguments")]
    pub(crate) command: Vec<String>,
    /// Flags whose values come from variables, and the names of those.
    #[arg(skip)]
    variables: BTreeMap<String, String>,
}

/// An asynchronous runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeChoice {
    /// tokio.
    Tokio,
    /// async-std.
    AsyncStd,
}

/// A new key.
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("place").required(true).args(["out", "stdout"]))]
pub(crate) struct KeygenArgs {
    /// Write the private key to a new file that you alone may read.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print the private key.
    #[arg(long)]
    pub(crate) stdout: bool,
    /// One JSON object on stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Feeds a recorded trace to the machine and compares the orders.
#[derive(Debug, ClapArgs)]
pub(crate) struct ReplayArgs {
    /// The trace, as `run --trace` writes it.
    pub(crate) trace: PathBuf,
    /// Only say what differs.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Each call as a line of JSON on stdout, the verdict last.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Respond {
    /// The owner.
    OwnerOnly,
    /// Those of --allow as well, outside of direct messages.
    Allowlist,
    /// Everyone; in direct messages the owner.
    Anyone,
    /// Nobody.
    Nobody,
}
