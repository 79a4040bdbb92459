//! How a relay that stores events answers requests for them.

use buzz_proto::ids::Ticket;
use buzz_proto::relay::{HttpAnswer, Input};
use buzz_proto::time::MonoTime;
use buzz_proto::wire::{Event, Filter};

use super::{Answer, Bench, Request};
use crate::toy::{self, Toy};

impl Bench {
    pub(super) fn answer(&mut self, at: MonoTime, text: &str, facts: &mut Vec<Input>) {
        let Some(request) = self.note_request(at, text) else {
            return self.welcome(text, facts);
        };
        let (name, filter) = (request.name.clone(), request.filter.clone());
        let answer = if request.is_page() {
            self.page.clone()
        } else {
            let place = request.channel();
            self.live.insert(place, name.clone());
            let own = self.history_of.get(&place);
            own.unwrap_or(&self.history).clone()
        };
        if self.is_silent {
            return;
        }
        let mut found = self.find(&filter);
        let conn = self.script.conn();
        let mut say = |text| facts.push(Input::Frame { conn, text });
        match answer {
            Answer::Empty => return say(toy::eose(&name)),
            Answer::Closed(reason) => return say(toy::closed(&name, reason)),
            Answer::Cut(count) => found.truncate(count),
            Answer::Whole => {}
        }
        for event in &found {
            say(toy::event_frame(&name, event));
        }
        if answer == Answer::Whole {
            say(toy::eose(&name));
        }
    }

    pub(super) fn answer_query(
        &mut self,
        at: MonoTime,
        ticket: Ticket,
        filters: &[Filter],
    ) -> Input {
        let mut found = Vec::new();
        for filter in filters {
            self.requests.push(Request {
                at,
                name: "/query".to_owned(),
                filter: filter.clone(),
                conn: self.script.conn(),
                held: self.held(),
            });
            found.extend(self.find(filter));
        }
        let status = if self.has_query { 200 } else { 404 };
        let answer = HttpAnswer {
            status,
            retry_after: None,
            date: None,
            body: toy::events(&found),
        };
        Input::Answered { ticket, answer }
    }

    /// What is stored and matches, newest first, as a relay sends it.
    fn find(&self, filter: &Filter) -> Vec<Toy> {
        let mut found: Vec<(Event, &Toy)> = self
            .stored
            .values()
            .map(|toy| (toy.event(), toy))
            .filter(|(event, _)| filter.matches(event))
            .filter(|(event, _)| match (filter.until, filter.before_id) {
                (Some(until), Some(before)) if self.pages_within_seconds => {
                    event.created_at() < until || event.id() > before
                }
                _ => true,
            })
            .collect();
        found.sort_by_key(|(event, _)| (std::cmp::Reverse(event.created_at()), event.id()));
        let limit = filter.limit.map_or(usize::MAX, |limit| limit as usize);
        found
            .into_iter()
            .take(limit)
            .map(|(_, toy)| toy.clone())
            .collect()
    }
}
