//! A whole agent in one file: it answers each mention with the words of the mention.
//!
//! `BUZZ_PRIVATE_KEY=nsec1... cargo run -p buzz-adapters --example echo_agent -- wss://relay.example`

use std::error::Error;
use std::sync::Arc;

use buzz_adapters::clock::Clock;
use buzz_adapters::connect::{Delivery, Setup, connect};
use buzz_adapters::keys::SecretKey;
use buzz_adapters::sign::{LocalSigner, Signer as _};
use buzz_adapters::tls::{Roots, Tls};
use buzz_adapters::tokio::Tokio;
use buzz_adapters::url::RelayUrl;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::EventId;
use buzz_proto::publish::{self, Class};
use buzz_proto::relay;
use buzz_proto::wire::{Draft, Event};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = RelayUrl::parse(&std::env::args().nth(1).ok_or("give the relay's URL")?)?;
    let key = SecretKey::from_env("BUZZ_PRIVATE_KEY").ok_or("set BUZZ_PRIVATE_KEY")??;
    let signer = LocalSigner::new(key);
    let setup = Setup {
        config: Config {
            seed: u64::from(std::process::id()),
            me: signer.public_key(),
            relay: relay::Config::new(&url.relay_tag()),
            publish: publish::Config::default(),
            consumer: Consumer::External { slots: 256 },
        },
        tls: Tls::new(Roots::Bundled, None)?,
        url,
        signer: Arc::new(signer),
        attestation: None,
        workers: None,
        keeper: None,
        record: None,
        // Notes also go to `tracing`.
        report: Box::new(|_| {}),
    };
    let (agent, mut events) = connect::<Tokio>(setup)?;
    while let Some(delivery) = events.next().await {
        if let Delivery::Event { event, .. } = delivery {
            agent.publish(echo(&event), Class::Durable, None).await?;
        }
    }
    Ok(())
}

/// A reply in the thread of the event (NIP-10), in its channel (NIP-29).
fn echo(event: &Event) -> Draft {
    let mark =
        |id: EventId, mark: &str| ["e", &id.to_string(), "", mark].map(String::from).to_vec();
    let root = event.thread().root;
    let mut tags: Vec<_> = root.map(|root| mark(root, "root")).into_iter().collect();
    tags.push(mark(event.id(), "reply"));
    if let Some(channel) = event.channel() {
        tags.push(vec!["h".into(), channel.to_string()]);
    }
    Draft {
        kind: 9,
        created_at: Clock::wall(),
        tags,
        content: event.content().into_owned(),
    }
}
