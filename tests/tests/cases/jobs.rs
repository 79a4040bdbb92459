//! Jobs of a case: told apart by a number, which their text bears.

use std::time::Duration;

use buzz_proto::ids::JobId;
use buzz_proto::publish::{Body, Class, Command, LatestKey, Route};
use buzz_proto::schedule::Scope;
use buzz_proto::wire::{Draft, Event};
use buzz_sim::toy::channel;

use crate::player::TRAFFIC;
use crate::whole::Whole;

/// Whether no case speaks of it.
pub(crate) const fn is_of_traffic(job: u64) -> bool {
    job >= TRAFFIC
}

/// The job whose event this is.
pub(crate) fn job_of(event: &Event) -> Option<u64> {
    let content = event.content();
    content.strip_prefix("job ")?.parse().ok()
}

fn draft(whole: &Whole, job: u64, kind: u32) -> Draft {
    Draft {
        kind,
        created_at: whole.wall(),
        tags: Vec::new(),
        content: format!("job {job}"),
    }
}

impl Whole {
    /// A message is to be posted.
    pub(crate) fn post(&mut self, job: u64) {
        self.submit(job, Route::Post, None);
    }

    /// A message is to be posted within so many seconds.
    pub(crate) fn post_within(&mut self, job: u64, seconds: u64) {
        self.submit(job, Route::Post, Some(seconds));
    }

    /// A message is to be sent over the socket.
    pub(crate) fn send(&mut self, job: u64) {
        self.submit(job, Route::Socket, None);
    }

    /// A message is to be sent over the socket within so many seconds.
    pub(crate) fn send_within(&mut self, job: u64, seconds: u64) {
        self.submit(job, Route::Socket, Some(seconds));
    }

    fn submit(&mut self, job: u64, route: Route, seconds: Option<u64>) {
        let body = Body::SignWhenSent(draft(self, job, 9));
        self.submit_body(job, Class::Durable, route, body, seconds);
    }

    /// As [`post`](Self::post), of an event that the application has signed.
    pub(crate) fn post_signed(&mut self, job: u64) {
        let draft = draft(self, job, 9);
        let event = Event::decode(self.sign(&draft)).expect("an event");
        self.submit_body(job, Class::Durable, Route::Post, Body::Signed(event), None);
    }

    /// That somebody types in a channel is to be shown.
    pub(crate) fn type_in(&mut self, job: u64, place: u8, seconds: u64) {
        let key = LatestKey::Typing(Scope::Conversation(channel(place)));
        let body = Body::SignWhenSent(draft(self, job, 20_002));
        self.submit_body(job, Class::Latest(key), Route::Socket, body, Some(seconds));
    }

    fn submit_body(
        &mut self,
        job: u64,
        class: Class,
        route: Route,
        body: Body,
        seconds: Option<u64>,
    ) {
        self.publish(Command::Submit {
            job: JobId(job),
            class,
            route,
            body,
            ttl: seconds.map(Duration::from_secs),
        });
    }
}
