//! What a relay is asked, in order, each question only if the one before it was answered.

use std::time::{Duration, Instant};

use buzz_adapters::clock::Clock;
use buzz_adapters::dial;
use buzz_adapters::http::{HttpClient, Limits};
use buzz_adapters::keys::npub;
use buzz_adapters::sign::{Attestation, LocalSigner, auth_draft, http_auth};
use buzz_adapters::tls::Tls;
use buzz_adapters::tokio::Tokio;
use buzz_adapters::url::RelayUrl;
use buzz_proto::ids::{ChannelId, PubKey};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::{self, Draft, Event, Filter};
use bytes::Bytes;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::finding::{Chart, Finding};
use super::judge::{advice_of, clock, described};
use super::line::{Line, NoAnswer};
use crate::exit::Exit;

/// What the agent's machine gives each of these, too.
const RESOLVE: Duration = Duration::from_secs(10);
const DIAL: Duration = Duration::from_secs(30);
const CHALLENGE: Duration = Duration::from_secs(3);
const LOGIN: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(15);
const BODY_BYTES_MAX: usize = 8 << 20;
/// The lists of members of channels (NIP-29), the sign of typing and the presence of a Buzz relay.
const MEMBERS: u32 = 39_002;
const TYPING: u32 = 20_002;
const PRESENCE: u32 = 20_001;

/// Who asks, and of which relay.
pub(super) struct Examination {
    pub(super) url: RelayUrl,
    pub(super) tls: Tls,
    pub(super) signer: LocalSigner,
    pub(super) me: PubKey,
    pub(super) attestation: Option<Attestation>,
    /// The channels that were given; none where the roster names them.
    pub(super) channels: Vec<ChannelId>,
    pub(super) kinds: Vec<u32>,
}

impl Examination {
    /// Makes all checks of the relay, until one fails that others build on.
    pub(super) async fn make(&self, chart: &mut Chart) {
        if !chart.tell(&self.resolve().await) {
            return;
        }
        let Some((mut line, date)) = self.dial(chart).await else {
            return;
        };
        let http = HttpClient::new(self.url.clone(), self.tls.clone());
        let told = self.document(&http, chart).await;
        let date = date.or(told);
        chart.tell(&clock(date, Clock::wall()));
        if !chart.tell(&self.log_in(&mut line).await) {
            return;
        }
        let (finding, channels) = self.membership(&http, &mut line).await;
        chart.tell(&finding);
        let channel = self.channels.first().or_else(|| channels.first()).copied();
        chart.tell(&self.subscribe(&mut line, channel).await);
        chart.tell(&self.publish(&mut line, channel).await);
    }

    async fn resolve(&self) -> Finding {
        const CHECK: &str = "dns";
        const ADVICE: &str = "check the relay's name and this machine's DNS";
        // A proxy resolves the relay's name itself.
        let (host, port) = match self.url.proxy() {
            Some(proxy) => (proxy.host(), proxy.port()),
            None => (self.url.host(), self.url.port()),
        };
        let found = timeout(RESOLVE, lookup_host((host, port))).await;
        match found {
            Ok(Ok(addresses)) => {
                let mut all: Vec<_> = addresses.map(|address| address.ip().to_string()).collect();
                all.dedup();
                Finding::good(CHECK, format!("{host} is {}", all.join(", ")))
            }
            Ok(Err(error)) => {
                let found = format!("{host} cannot be resolved: {error}");
                Finding::bad(CHECK, found, ADVICE, Exit::Unreachable)
            }
            Err(_) => {
                let found = format!("{host} was not resolved within {} s", RESOLVE.as_secs());
                Finding::bad(CHECK, found, ADVICE, Exit::Unreachable)
            }
        }
    }

    /// Connection, TLS and upgrade are one dial, as the agent's are.
    async fn dial(&self, chart: &mut Chart) -> Option<(Line, Option<UnixTime>)> {
        let begun = Instant::now();
        let dialed = timeout(DIAL, dial::connect::<Tokio>(&self.url, &self.tls)).await;
        let milliseconds = begun.elapsed().as_millis();
        let address = self.url.authority();
        let way = match self.url.proxy() {
            Some(proxy) => format!(", through the proxy {proxy}"),
            None => String::new(),
        };
        let connected = format!("{address} takes connections{way}");
        let connected = Finding::good("connection", connected);
        match dialed {
            Ok(Ok((socket, date))) => {
                chart.tell(&connected);
                chart.tell(&self.secured());
                let found = format!("a WebSocket after {milliseconds} ms");
                chart.tell(&Finding::good("upgrade", found));
                return Some((Line::new(socket), date));
            }
            Ok(Err(error)) => {
                let found = error.to_string();
                let (check, advice) = advice_of(&error);
                if check != "connection" {
                    chart.tell(&connected);
                }
                if check == "upgrade" {
                    chart.tell(&self.secured());
                }
                chart.tell(&Finding::bad(check, found, advice, Exit::Unreachable));
            }
            Err(_) => {
                let found = format!("{address} did not answer within {} s", DIAL.as_secs());
                let advice = "check that the relay runs, and firewalls on the way";
                chart.tell(&Finding::bad(
                    "connection",
                    found,
                    advice,
                    Exit::Unreachable,
                ));
            }
        }
        None
    }

    fn secured(&self) -> Finding {
        const CHECK: &str = "tls";
        let is_local = matches!(self.url.host(), "localhost" | "127.0.0.1" | "::1");
        if self.url.is_secure() {
            return Finding::good(CHECK, "the relay's certificate is trusted");
        }
        if is_local {
            return Finding::good(CHECK, "none, and none needed on this machine");
        }
        let found = "none: others on the way can read and change what is said";
        Finding::doubtful(CHECK, found, "use wss:// where the relay has it")
    }

    /// What the relay tells of itself. Gives the date of its answer.
    async fn document(&self, http: &HttpClient<Tokio>, chart: &mut Chart) -> Option<UnixTime> {
        const CHECK: &str = "document";
        const ADVICE: &str = "nothing: the agent works without, a little later at each connection";
        let answer = http.get("", "application/nostr+json", call_limits()).await;
        let (finding, date) = match answer {
            Ok(answer) if answer.status == 200 => {
                let finding = match described(&answer.body) {
                    Some(found) => Finding::good(CHECK, found),
                    None => Finding::doubtful(CHECK, "an answer that is none (NIP-11)", ADVICE),
                };
                (finding, answer.date)
            }
            Ok(answer) => {
                let found = format!("none: HTTP status {}", answer.status);
                (Finding::doubtful(CHECK, found, ADVICE), answer.date)
            }
            Err(error) => (Finding::doubtful(CHECK, error.to_string(), ADVICE), None),
        };
        chart.tell(&finding);
        date
    }

    async fn log_in(&self, line: &mut Line) -> Finding {
        const CHECK: &str = "login";
        let challenge = match line.challenge(CHALLENGE).await {
            Ok(challenge) => challenge,
            Err(NoAnswer::Silent(_)) => return Finding::good(CHECK, "the relay asks for none"),
            Err(error @ NoAnswer::Closed(_)) => {
                let advice = "the relay may be shutting down: try again in a minute";
                return Finding::bad(CHECK, error.to_string(), advice, Exit::Unreachable);
            }
        };
        let draft = auth_draft(
            &self.url.relay_tag(),
            &challenge,
            self.attestation.as_ref(),
            Clock::wall(),
        );
        let Some((id, raw)) = self.signed(&draft) else {
            return unsigned(CHECK);
        };
        line.send(wire::auth(&raw));
        let me = npub(&self.me);
        match line.receipt(id, LOGIN).await {
            Ok((true, _)) => Finding::good(CHECK, format!("the relay knows {me}")),
            Ok((false, reason)) => {
                let found = format!("the relay refuses {me}: {}", reason.text);
                let advice = "have its operator add this key, and check clock and URL";
                Finding::bad(CHECK, found, advice, Exit::Refused)
            }
            Err(NoAnswer::Silent(_)) => Finding::doubtful(
                CHECK,
                "no answer to the login; some relays give none",
                "nothing, if what follows works",
            ),
            Err(error @ NoAnswer::Closed(_)) => {
                let advice = "have its operator add this key";
                Finding::bad(CHECK, error.to_string(), advice, Exit::Refused)
            }
        }
    }

    /// The channels whose lists of members name this key.
    async fn membership(
        &self,
        http: &HttpClient<Tokio>,
        line: &mut Line,
    ) -> (Finding, Vec<ChannelId>) {
        const CHECK: &str = "membership";
        let filter = Filter {
            kinds: [MEMBERS].into_iter().collect(),
            mention: Some(self.me),
            ..Filter::default()
        };
        let (way, found) = match self.query(http, &filter).await {
            Some(events) => ("/query", Ok(Ok(events))),
            None => ("the socket", line.stored(&filter, ANSWER).await),
        };
        let events = match found {
            Ok(Ok(events)) => events,
            Ok(Err(reason)) => {
                let found = format!("the relay does not tell: {}", reason.text);
                return (Finding::doubtful(CHECK, found, self.untold()), Vec::new());
            }
            Err(error) => {
                let finding = Finding::doubtful(CHECK, error.to_string(), self.untold());
                return (finding, Vec::new());
            }
        };
        let channels: Vec<ChannelId> = events.iter().filter_map(described_channel).collect();
        (self.member_of(&channels, way), channels)
    }

    /// What to do where the relay does not tell of membership.
    const fn untold(&self) -> &'static str {
        if self.channels.is_empty() {
            "name the channels with --channel"
        } else {
            "nothing, if what follows works"
        }
    }

    fn member_of(&self, channels: &[ChannelId], way: &str) -> Finding {
        const CHECK: &str = "membership";
        let count = channels.len();
        let missing = self
            .channels
            .iter()
            .filter(|given| !channels.contains(given));
        let missing: Vec<String> = missing.map(ToString::to_string).collect();
        let me = npub(&self.me);
        if self.channels.is_empty() && channels.is_empty() {
            let found = format!("{me} is in no channel, by {way}");
            let advice = "add this key to a channel, or name one with --channel";
            return Finding::bad(CHECK, found, advice, Exit::Other);
        }
        if !missing.is_empty() && count > 0 {
            let found = format!("{me} is not in {}, by {way}", missing.join(", "));
            return Finding::doubtful(CHECK, found, "add this key to it");
        }
        if count == 0 {
            let found = format!(
                "{way} names no members; channels given: {}",
                self.channels.len()
            );
            return Finding::good(CHECK, found);
        }
        Finding::good(CHECK, format!("channels: {count}, by {way}"))
    }

    /// The events of a query, where the relay has the route.
    async fn query(&self, http: &HttpClient<Tokio>, filter: &Filter) -> Option<Vec<Event>> {
        let body = wire::query(std::slice::from_ref(filter));
        let url = self.url.http("/query");
        let authorization = http_auth(&self.signer, &url, "POST", Some(&body), Clock::wall())
            .await
            .ok()?;
        let owner = self.attestation.as_ref().map(Attestation::header);
        let mut headers = vec![("authorization", authorization.as_str())];
        headers.extend(owner.as_deref().map(|owner| ("x-auth-tag", owner)));
        let answer = http
            .post("/query", &headers, body, call_limits())
            .await
            .ok()?;
        let answer = (answer.status == 200).then_some(answer)?;
        Some(
            wire::decode_events(&answer.body, BODY_BYTES_MAX)
                .ok()?
                .events,
        )
    }

    async fn subscribe(&self, line: &mut Line, channel: Option<ChannelId>) -> Finding {
        const CHECK: &str = "subscription";
        let kinds = self.kinds.iter().copied().collect();
        let filter = Filter {
            kinds,
            channel,
            mention: channel.is_none().then_some(self.me),
            limit: Some(1),
            ..Filter::default()
        };
        let place = channel.map_or_else(|| "mentions".to_owned(), |channel| channel.to_string());
        match line.stored(&filter, ANSWER).await {
            Ok(Ok(_)) => Finding::good(CHECK, format!("{place}: confirmed")),
            Ok(Err(reason)) => {
                let found = format!("{place}: {}", reason.text);
                let advice = "add this key to the channel";
                Finding::bad(CHECK, found, advice, Exit::Refused)
            }
            Err(error) => {
                let found = format!("{place}: {error}");
                let advice = "the relay is overloaded or deaf: try again, or tell its operator";
                Finding::bad(CHECK, found, advice, Exit::Unreachable)
            }
        }
    }

    /// Sends what nobody keeps: a sign of typing in a channel, or of absence.
    async fn publish(&self, line: &mut Line, channel: Option<ChannelId>) -> Finding {
        const CHECK: &str = "publishing";
        let place = channel.map_or_else(|| "the relay".to_owned(), |channel| channel.to_string());
        let draft = Draft {
            kind: channel.map_or(PRESENCE, |_| TYPING),
            created_at: Clock::wall(),
            tags: channel
                .map(|channel| vec!["h".to_owned(), channel.to_string()])
                .into_iter()
                .collect(),
            content: channel.map_or("offline", |_| "").to_owned(),
        };
        let Some((id, raw)) = self.signed(&draft) else {
            return unsigned(CHECK);
        };
        line.send(wire::event(&raw));
        match line.receipt(id, ANSWER).await {
            Ok((true, _)) => Finding::good(CHECK, format!("{place} takes what this key says")),
            Ok((false, reason)) => {
                let found = format!("{place} refuses what this key says: {}", reason.text);
                let advice = "have this key allowed to write there";
                Finding::bad(CHECK, found, advice, Exit::Refused)
            }
            Err(error) => {
                let advice = "try again, or tell the relay's operator";
                Finding::bad(CHECK, error.to_string(), advice, Exit::Unreachable)
            }
        }
    }

    fn signed(&self, draft: &Draft) -> Option<(buzz_proto::ids::EventId, Bytes)> {
        let raw = self.signer.sign_now(draft).ok()?;
        let id = Event::decode(raw.clone()).ok()?.id();
        Some((id, raw))
    }
}

fn unsigned(check: &'static str) -> Finding {
    let found = "nothing can be signed: the system has no random numbers";
    Finding::bad(check, found, "check /dev/urandom", Exit::Other)
}

fn described_channel(event: &Event) -> Option<ChannelId> {
    let mut tags = event.tags();
    tags.find(|tag| tag.name() == "d")?.value(1)?.parse().ok()
}

const fn call_limits() -> Limits {
    Limits {
        time_max: ANSWER,
        body_bytes_max: BODY_BYTES_MAX,
    }
}
