//! Single calls, redacted.

use buzz_proto::action::Action;
use buzz_proto::ids::{JobId, Ticket};
use buzz_proto::input::Input;
use buzz_proto::time::MonoTime;
use buzz_proto::trace::{Privacy, Recorder};
use buzz_proto::wire::Draft;
use buzz_proto::{publish, relay, schedule};
use buzz_sim::toy::{self, START, Toy};

use crate::redacted::{answer, assert_holds_no_words, assert_is_redacted, quoted};

#[test]
fn an_answer_with_what_is_no_event_stays_so() {
    let event = Toy::new(1).json().to_string();
    let spoilt = event.replace("message 1", "lanterns \\ud800");
    for body in [format!("[{event},{spoilt}]"), "[\"lanterns\"]".to_owned()] {
        let input = Input::Relay(relay::Input::Answered {
            ticket: Ticket(1),
            answer: answer(&body),
        });
        let line = Recorder::new(Privacy::Redacted).call(MonoTime::ZERO, &input, &[]);
        assert!(line.contains(&"!".repeat(body.len())), "{line}");
    }
}

#[test]
fn of_what_a_relay_tells_of_itself_stays_what_decides_actions() {
    let key = toy::key(0xc3);
    let limit = r#""limitation":{"max_limit":60}"#;
    for (told, kept) in [
        (
            r#""limitation":{"max_limit":60,"note":"lanterns"}"#.to_owned(),
            limit.to_owned(),
        ),
        (
            format!(r#""self":"{key}","limitation":{{"max_limit":60}}"#),
            format!(r#"{limit},"self":"{key}""#),
        ),
        (
            format!(r#""self":"{key}","limitation":"lanterns""#),
            format!(r#""self":"{key}""#),
        ),
        (format!(r#""self":"lanterns",{limit}"#), limit.to_owned()),
        (r#""limitation":{"max_limit":0}"#.to_owned(), String::new()),
    ] {
        let body = format!(r#"{{"name":"lanterns",{told}}}"#);
        let input = Input::Relay(relay::Input::Answered {
            ticket: Ticket(1),
            answer: answer(&body),
        });
        let line = Recorder::new(Privacy::Redacted).call(MonoTime::ZERO, &input, &[]);
        let kept = format!("{{{kept}}}");
        assert!(line.contains(&quoted(&kept)), "{line}");
        assert_holds_no_words(&line);
        assert_is_redacted(&line);
    }
}

#[test]
fn a_job_of_the_scheduler_is_redacted() {
    let draft = Draft {
        kind: 9,
        created_at: START,
        tags: Vec::new(),
        content: "lanterns".to_owned(),
    };
    let submit = publish::Command::Submit {
        job: JobId(1),
        class: publish::Class::Durable,
        route: publish::Route::Post,
        body: publish::Body::SignWhenSent(draft),
        ttl: None,
    };
    let order = Action::Schedule(schedule::Action::Publish(submit));
    let line = Recorder::new(Privacy::Redacted).call(MonoTime::ZERO, &Input::Tick, &[order]);
    assert!(line.contains("xxxxxxxx") && !line.contains("lanterns"));
}
