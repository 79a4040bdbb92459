//! From flags and environment to settings that cannot be wrong.

mod work;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use buzz_adapters::acp::{AcpSettings, Permissions};
use buzz_adapters::connect::RecordTo;
use buzz_adapters::keep::Keeper;
use buzz_adapters::keys::{SecretKey, npub, parse_public_key};
use buzz_adapters::proxy::Proxy;
use buzz_adapters::sign::Attestation;
use buzz_adapters::tls::{Roots, Tls};
use buzz_adapters::url::RelayUrl;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ChannelId, PubKey};
use buzz_proto::relay::Channels;
use buzz_proto::schedule::RespondTo;
use buzz_proto::trace::Privacy;
use buzz_proto::{publish, relay, schedule};

use crate::agent::Parts;
use crate::args::{Permission, Respond, RunArgs, RuntimeChoice};
use crate::exit::Failure;
use crate::state::{State, usual_folder};
use crate::trace_file::{is_same, start_trace};
use crate::ui::Ui;

const KEY_VARIABLE: &str = "BUZZ_PRIVATE_KEY";
const ATTESTATION_VARIABLE: &str = "BUZZ_AUTH_TAG";
const COMMAND_VARIABLE: &str = "BUZZ_ACP_AGENT_COMMAND";
const ARGS_VARIABLE: &str = "BUZZ_ACP_AGENT_ARGS";

/// All that an agent needs to run.
pub(crate) struct Settings {
    pub(crate) parts: Parts,
    pub(crate) runtime: RuntimeChoice,
    /// The relay must be reached by then, if there is a limit.
    pub(crate) give_up: Option<Duration>,
    pub(crate) grace: Duration,
    /// Where records are kept.
    state: Option<PathBuf>,
}

impl Settings {
    /// Reads everything; touches nothing but the state and the trace's file, and those last.
    ///
    /// # Errors
    /// Names the flag or variable that cannot be used, and what would do.
    pub(crate) fn read(args: RunArgs, ui: Ui) -> Result<Self, Failure> {
        let mut parts = Self::look(&args, ui)?;
        let state = read_state(&args, &parts.url, parts.config.me, ui)?;
        parts.config.relay.records = state.as_ref().map(State::records);
        let path = state.as_ref().map(|state| state.path().to_owned());
        parts.record = read_trace(&args)?;
        parts.keeper = state.map(|state| -> Box<dyn Keeper> { Box::new(state) });
        let give_up = (args.give_up_after > 0).then(|| Duration::from_secs(args.give_up_after));
        let grace = Duration::from_secs(args.grace);
        Ok(Self {
            parts,
            runtime: args.runtime,
            give_up,
            grace,
            state: path,
        })
    }

    /// Reads what needs no file of ours, and touches nothing.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn look(args: &RunArgs, ui: Ui) -> Result<Parts, Failure> {
        let url = RelayUrl::parse(&args.relay)
            .map_err(|error| Failure::settings(format!("{}: {error}", args.name_of("--relay"))))?;
        let proxy = Proxy::for_relay(&url, |name| std::env::var(name).ok())
            .map_err(|error| Failure::settings(format!("the proxy of the environment: {error}")))?;
        let url = url.through(proxy);
        let key = read_key(args.key_file.as_deref(), ui)?;
        let me = key.public_key();
        let attestation = read_attestation(&me)?;
        let owner = read_owner(args, attestation.as_ref(), &me)?;
        let scheduler = scheduler(args, owner)?;
        if let Some(word) = work::means_queue(args) {
            ui.warn(word);
        }
        let worker = read_worker(args, &scheduler.respond_to)?;
        let tls = read_tls(args)?;
        let config = Config {
            seed: draw_seed()?,
            me,
            relay: relay_part(args, &url)?,
            publish: publish::Config::default(),
            consumer: Consumer::Workers(Box::new(scheduler)),
        };
        config.validate().map_err(Failure::settings)?;
        Ok(Parts {
            config,
            url,
            tls,
            key,
            attestation,
            worker,
            keeper: None,
            record: None,
        })
    }

    /// Who runs, where, and for whom.
    pub(crate) fn summary(&self) -> String {
        let Parts {
            config,
            url,
            worker,
            ..
        } = &self.parts;
        let me = npub(&config.me);
        let Consumer::Workers(scheduler) = &config.consumer else {
            return format!("agent {me} on {url}");
        };
        let answers = match &scheduler.respond_to {
            RespondTo::OwnerOnly => "answers its owner".to_owned(),
            RespondTo::Allowlist(keys) => format!("answers its owner and {} more", keys.len()),
            RespondTo::Anyone => "answers everyone".to_owned(),
            RespondTo::Nobody => "answers nobody".to_owned(),
        };
        let (workers, command) = (scheduler.workers, &worker.command);
        let state = self.state.as_ref().map_or_else(
            || "no state is kept".to_owned(),
            |path| format!("state in {}", path.display()),
        );
        format!("agent {me} on {url}: {answers}, workers: {workers} × {command}, {state}")
    }
}

fn read_key(file: Option<&Path>, ui: Ui) -> Result<SecretKey, Failure> {
    if let Some(path) = file {
        let key = SecretKey::from_file(path).map_err(|error| {
            Failure::settings(format!("--key-file {}: {error}", path.display()))
        })?;
        if is_open_to_others(path) {
            ui.warn(format_args!(
                "others may read the key in {0}: run chmod 600 {0}",
                path.display()
            ));
        }
        return Ok(key);
    }
    // An empty variable is how people switch one off.
    let is_set = std::env::var_os(KEY_VARIABLE).is_some_and(|value| !value.is_empty());
    match SecretKey::from_env(KEY_VARIABLE).filter(|_| is_set) {
        Some(key) => key.map_err(|error| Failure::settings(format!("{KEY_VARIABLE}: {error}"))),
        None => Err(Failure::settings(format!(
            "the agent has no private key: give --key-file FILE or set {KEY_VARIABLE}; \
             buzz-agent keygen --out FILE makes one"
        ))),
    }
}

fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

fn read_attestation(me: &PubKey) -> Result<Option<Attestation>, Failure> {
    let Some(text) = variable(ATTESTATION_VARIABLE)? else {
        return Ok(None);
    };
    let attestation = Attestation::parse(&text)
        .map_err(|error| Failure::settings(format!("{ATTESTATION_VARIABLE}: {error}")))?;
    if !attestation.is_for(me) {
        return Err(Failure::settings(format!(
            "{ATTESTATION_VARIABLE} was not signed by its owner for this key, {}",
            npub(me)
        )));
    }
    Ok(Some(attestation))
}

fn read_owner(
    args: &RunArgs,
    attestation: Option<&Attestation>,
    me: &PubKey,
) -> Result<Option<PubKey>, Failure> {
    let name = args.name_of("--owner");
    let given = args.owner.as_deref().filter(|text| !text.is_empty());
    let given = given.map(|text| public_key(name, text));
    let given = given.transpose()?;
    let attested = attestation.map(Attestation::owner);
    if given.as_ref() == Some(me) {
        return Err(Failure::settings(format!(
            "{name} is the agent's own key, and an agent does not answer itself: \
             give the key of its human"
        )));
    }
    match (given, attested) {
        (Some(given), Some(attested)) if given != attested => Err(Failure::settings(format!(
            "{name} says {}, {ATTESTATION_VARIABLE} says {}: give one owner",
            npub(&given),
            npub(&attested)
        ))),
        (given, attested) => Ok(attested.or(given)),
    }
}

fn scheduler(args: &RunArgs, owner: Option<PubKey>) -> Result<schedule::Config, Failure> {
    let mut config = work::scheduler(args)?;
    config.respond_to = respond_to(args, owner)?;
    config.owner = owner;
    config.mention_only = !args.all_messages;
    if !args.kinds.is_empty() {
        config.kinds.clone_from(&args.kinds);
    }
    Ok(config)
}

fn respond_to(args: &RunArgs, owner: Option<PubKey>) -> Result<RespondTo, Failure> {
    let allowed = args.allow.iter().filter(|text| !text.is_empty());
    let allowed: Vec<_> = allowed
        .map(|text| public_key(args.name_of("--allow"), text))
        .collect::<Result<_, _>>()?;
    match args.respond_to {
        Respond::OwnerOnly if owner.is_none() => Err(Failure::settings(
            "the agent answers its owner only, and has none: give --owner KEY, \
             or --respond-to anyone",
        )),
        Respond::Allowlist if allowed.is_empty() => Err(Failure::settings(
            "--respond-to allowlist needs at least one --allow KEY",
        )),
        Respond::OwnerOnly | Respond::Anyone | Respond::Nobody if !allowed.is_empty() => {
            Err(Failure::settings(format!(
                "{} has a meaning under --respond-to allowlist alone",
                args.name_of("--allow")
            )))
        }
        Respond::OwnerOnly => Ok(RespondTo::OwnerOnly),
        Respond::Allowlist => Ok(RespondTo::Allowlist(allowed)),
        Respond::Anyone => Ok(RespondTo::Anyone),
        Respond::Nobody => Ok(RespondTo::Nobody),
    }
}

fn relay_part(args: &RunArgs, url: &RelayUrl) -> Result<relay::Config, Failure> {
    // Settings stand in traces, and people put tokens into paths and queries.
    let mut config = relay::Config::new(&url.relay_tag());
    let channels = args.channel.iter().filter(|text| !text.is_empty());
    let channels: Vec<ChannelId> = channels
        .map(|text| text.parse())
        .collect::<Result<_, _>>()
        .map_err(|_| {
            let name = args.name_of("--channel");
            Failure::settings(format!("{name}: a channel is a UUID with hyphens"))
        })?;
    if !channels.is_empty() {
        config.channels = Channels::Given(channels);
    }
    config.mention_only = !args.all_messages;
    if !args.kinds.is_empty() {
        config.read_kinds.clone_from(&args.kinds);
    }
    Ok(config)
}

fn read_worker(args: &RunArgs, respond_to: &RespondTo) -> Result<AcpSettings, Failure> {
    let (command, arguments) = match args.command.split_first() {
        Some((command, arguments)) => (command.clone(), arguments.to_vec()),
        None => {
            let command = variable(COMMAND_VARIABLE)?.ok_or_else(|| {
                Failure::settings(format!(
                    "there is no worker: give its command after --, or set {COMMAND_VARIABLE}"
                ))
            })?;
            let arguments = variable(ARGS_VARIABLE)?.unwrap_or_default();
            let arguments = arguments.split(',').filter(|text| !text.is_empty());
            (command, arguments.map(str::to_owned).collect())
        }
    };
    if command.is_empty() {
        return Err(Failure::settings("the worker's command after -- is empty"));
    }
    if !args.cwd.is_dir() {
        let path = args.cwd.display();
        return Err(Failure::settings(format!(
            "--cwd {path}: there is no such directory"
        )));
    }
    let mut worker = AcpSettings::new(command);
    worker.args = arguments;
    worker.cwd.clone_from(&args.cwd);
    worker.preamble = args.preamble.clone().filter(|text| !text.is_empty());
    worker.permissions = match (args.work.permissions, respond_to) {
        (Some(Permission::AllowOnce), _) | (None, RespondTo::OwnerOnly) => Permissions::AllowOnce,
        (Some(Permission::RejectOnce), _)
        | (None, RespondTo::Allowlist(_) | RespondTo::Anyone | RespondTo::Nobody) => {
            Permissions::RejectOnce
        }
    };
    Ok(worker)
}

fn read_state(
    args: &RunArgs,
    url: &RelayUrl,
    me: PubKey,
    ui: Ui,
) -> Result<Option<State>, Failure> {
    let flag = "--state-dir";
    if args.no_state {
        // A variable may be there for all agents of a machine; a flag is meant.
        if args.state_dir.is_some() && args.name_of(flag) == flag {
            return Err(Failure::settings(
                "--state-dir and --no-state contradict each other: give one of them",
            ));
        }
        return Ok(None);
    }
    let folder = args.state_dir.clone().map_or_else(usual_folder, Ok)?;
    State::open(&folder, url, me, ui).map(Some)
}

fn read_trace(args: &RunArgs) -> Result<Option<RecordTo>, Failure> {
    let Some(path) = args.trace.as_deref() else {
        return Ok(None);
    };
    let others = [("--key-file", &args.key_file), ("--ca", &args.ca)];
    for (flag, other) in others {
        if other.as_deref().is_some_and(|other| is_same(path, other)) {
            return Err(Failure::settings(format!(
                "--trace and {flag} name the same file, {}",
                path.display()
            )));
        }
    }
    let privacy = if args.trace_whole {
        Privacy::Whole
    } else {
        Privacy::Redacted
    };
    start_trace(path, privacy).map(Some)
}

fn read_tls(args: &RunArgs) -> Result<Tls, Failure> {
    let roots = if args.system_roots {
        Roots::System
    } else {
        Roots::Bundled
    };
    if let Some(path) = args.ca.as_deref() {
        let failed = |error| Failure::settings(format!("--ca {}: {error}", path.display()));
        File::open(path).map_err(failed)?;
    }
    Tls::new(roots, args.ca.as_deref()).map_err(|error| {
        let flag = if args.ca.is_some() { "--ca: " } else { "" };
        Failure::settings(format!("{flag}{error}"))
    })
}

fn public_key(flag: &str, text: &str) -> Result<PubKey, Failure> {
    parse_public_key(text).map_err(|error| Failure::settings(format!("{flag}: {error}")))
}

/// The value of a variable, none when it is empty.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    let Some(value) = std::env::var_os(name) else {
        return Ok(None);
    };
    let value = value.into_string();
    let value = value.map_err(|_| Failure::settings(format!("{name} is not UTF-8")))?;
    Ok(Some(value).filter(|text| !text.is_empty()))
}

pub(crate) fn draw_seed() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| Failure::other(format!("there is no random number: {error}")))
}
