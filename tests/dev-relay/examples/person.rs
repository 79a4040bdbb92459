#![allow(clippy::all, missing_docs)]
use buzz_dev_relay::client::{Client, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use serde_json::json;
const CH: &str = "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501";
#[tokio::main]
async fn main() {
    let a: Vec<String> = std::env::args().collect();
    let keys = Keys::from_secret(&"11".repeat(32)).unwrap();
    if a[1] == "pub" { println!("{}", keys.public()); return; }
    let (url, agent) = (&a[2], &a[3]);
    let mut c = Client::connect(url, &keys).await.unwrap();
    match a[1].as_str() {
        "setup" => {
            let e = keys.sign_event(9007, vec![tag("h", CH), tag("name", "room"), tag("visibility","private"), tag("channel_type","stream")], "", unix_now());
            println!("{:?}", c.publish(&e).await.unwrap());
            let e = keys.sign_event(9000, vec![tag("h", CH), tag("p", agent), tag("role","bot")], "", unix_now());
            println!("{:?}", c.publish(&e).await.unwrap());
        }
        "say" => {
            let e = keys.sign_event(9, vec![tag("h", CH), tag("p", agent)], &a[4], unix_now());
            println!("{} {:?}", e.id, c.publish(&e).await.unwrap());
        }
        "say_at" => {
            let e = keys.sign_event(9, vec![tag("h", CH), tag("p", agent)], &a[4], (unix_now() as i64 + a[5].parse::<i64>().unwrap()) as u64);
            println!("{} {:?}", e.id, c.publish(&e).await.unwrap());
        }
        _ => {
            let h = c.history("x", json!({"kinds":[9],"#h":[CH],"limit":500})).await.unwrap();
            for e in h { println!("{} {} {} {:?} {:?}", e.created_at, &e.id[..8], &e.pubkey[..6], e.content, e.tags.iter().filter(|t| t[0]=="e").map(|t| &t[1][..8]).collect::<Vec<_>>()); }
        }
    }
}
