//! A bot in one file: it answers each mention with the words of the mention.
//!
//! `BUZZ_PRIVATE_KEY=nsec1... cargo run -p buzz-adapters --example echo_agent -- wss://relay.example`

use std::error::Error;
use std::sync::Arc;

use buzz_adapters::clock::Clock;
use buzz_adapters::connect::{Delivery, Setup, connect};
use buzz_adapters::keys::SecretKey;
use buzz_adapters::sign::LocalSigner;
use buzz_adapters::tokio::Tokio;
use buzz_adapters::url::RelayUrl;
use buzz_proto::publish::Class;
use buzz_proto::wire::Draft;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = RelayUrl::parse(&std::env::args().nth(1).ok_or("give the relay's URL")?)?;
    let key = SecretKey::from_env("BUZZ_PRIVATE_KEY").ok_or("set BUZZ_PRIVATE_KEY")??;
    let setup = Setup::new(url, Arc::new(LocalSigner::new(key)))?;
    let (agent, mut events) = connect::<Tokio>(setup)?;
    while let Some(delivery) = events.next().await {
        if let Delivery::Event { event, .. } = delivery {
            let answer = Draft::answer(&event, event.content(), Clock::wall());
            agent.publish(answer, Class::Durable, None).await?;
        }
    }
    Ok(())
}
