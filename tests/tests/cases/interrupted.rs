//! Whatever ends the wait or the turn of a thread, in whichever phase it is: its messages are run,
//! discarded or handed back, and nothing is resumed that is gone.

use std::collections::BTreeSet;
use std::time::Duration;

use buzz_proto::note::Note;
use buzz_proto::relay::{ChannelKind, ChannelState, Disposal};
use buzz_proto::schedule::{Command, FailureClass, Input, Session, SessionRef, Want};
use buzz_sim::toy::channel;

use crate::crew::{BERT, CARA, Conduct, Crew, ROOM, begun, ends_of, noted, settings};
use crate::hold::{T, owner_of_all_with};
use crate::player::Case;

/// When it happens.
const THEN: u64 = 2000;
/// The message it happens to.
const IT: u64 = 10;
/// One that comes to the same thread meanwhile.
const NEXT: u64 = 11;
/// One that comes afterwards.
const LATER: u64 = 12;
/// Messages that keep workers busy.
const BUSY: [u64; 2] = [20, 21];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Every worker is busy, that of the session with something else.
    Waiting,
    /// The worker of the session is busy, another one is idle.
    Held,
    /// It rests before another attempt.
    BackingOff,
    /// Its session opens.
    Opening,
    /// It is worked on.
    Running,
    /// It was cancelled, and its worker has not said so yet.
    Cancelling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Rotated,
    Removed,
    /// No turn for so long that the session is let go, or the worker does not know it.
    Evicted,
    /// All workers end.
    Crashed,
    /// Workers are replaced by those of another command.
    Renewed,
    ShutDown,
}

const PHASES: [Phase; 6] = [
    Phase::Waiting,
    Phase::Held,
    Phase::BackingOff,
    Phase::Opening,
    Phase::Running,
    Phase::Cancelling,
];
const EVENTS: [Event; 6] = [
    Event::Rotated,
    Event::Removed,
    Event::Evicted,
    Event::Crashed,
    Event::Renewed,
    Event::ShutDown,
];

/// The thread with its message in that phase.
fn brought_to(phase: Phase) -> Case<Crew> {
    let case = Case::new(move || {
        let mut config = settings(2);
        if phase == Phase::Waiting {
            config.limits.session_idle = Duration::from_secs(5);
        }
        let mut crew = owner_of_all_with(config);
        if phase == Phase::Opening {
            crew.control(ROOM, Want::StopAndRotate);
        }
        crew.begins()
    });
    let case = match phase {
        Phase::Waiting => case
            .at(0, |crew| crew.say(BUSY[0], BERT))
            .at(1, |crew| crew.say(BUSY[1], CARA))
            .at(2, |crew| crew.say_in(IT, T)),
        Phase::Held => case
            .at(0, |crew| crew.say(BUSY[0], BERT))
            .at(2, |crew| crew.say_in(IT, T)),
        Phase::BackingOff => case
            .at(2, |crew| crew.say_in(IT, T))
            .at(3, |crew| crew.fails(IT, FailureClass::Transient)),
        Phase::Opening => case
            .at(1, |crew| crew.opens = Conduct::ByHand)
            .at(2, |crew| crew.say_in(IT, T)),
        Phase::Running => case.at(2, |crew| crew.say_in(IT, T)),
        Phase::Cancelling => case
            .at(1, |crew| crew.cancels = Conduct::ByHand)
            .at(2, |crew| crew.say_in(IT, T))
            .at(3, |crew| crew.control(ROOM, Want::Stop)),
    };
    case.at(1000, |crew| crew.say_in(NEXT, T))
        .must(1000, move |crew| expect_phase(crew, phase))
}

fn expect_phase(crew: &Crew, phase: Phase) {
    let view = crew.script.part().view();
    let found = (view.held, view.resting, crew.is_at(IT));
    let wanted = match phase {
        Phase::Waiting | Phase::Held => (1, 0, false),
        Phase::BackingOff => (0, 1, false),
        Phase::Opening | Phase::Running | Phase::Cancelling => (0, 0, true),
    };
    assert_eq!(found, wanted, "{phase:?}");
}

fn happens(crew: &mut Crew, phase: Phase, event: Event) {
    match event {
        Event::Rotated => crew.control(ROOM, Want::StopAndRotate),
        Event::Removed => {
            let (channel, state) = (channel(ROOM), ChannelState::Left);
            crew.feed(Input::Channel { channel, state });
        }
        Event::Evicted if phase == Phase::Waiting => crew.run_for(Duration::from_secs(10)),
        Event::Evicted => crew.fails(IT, FailureClass::SessionGone),
        Event::Crashed => {
            crew.exits(0);
            crew.exits(1);
        }
        Event::Renewed => crew.feed(Input::Command(Command::Renew)),
        Event::ShutDown => {
            let grace = Duration::from_secs(20);
            crew.feed(Input::Command(Command::Shutdown { grace }));
        }
    }
}

/// What becomes of the message, and of the one that came meanwhile; nothing where it is owed to the
/// next life.
const fn outcomes(phase: Phase, event: Event) -> [Option<Disposal>; 2] {
    let (answered, discarded) = (Some(Disposal::Accepted), Some(Disposal::Discarded));
    let is_begun = !matches!(phase, Phase::Waiting | Phase::Held);
    let is_cancelled = matches!(phase, Phase::Cancelling);
    match event {
        Event::Removed => [discarded, discarded],
        Event::ShutDown if is_cancelled => [discarded, None],
        Event::ShutDown => [None, None],
        Event::Rotated if is_begun => [discarded, answered],
        Event::Evicted | Event::Crashed | Event::Renewed if is_cancelled => [discarded, answered],
        Event::Rotated | Event::Evicted | Event::Crashed | Event::Renewed => [answered, answered],
    }
}

/// How many messages of the thread were handed back.
fn handed_back(crew: &Crew) -> usize {
    let all = noted(crew).into_iter();
    let counts = all.filter_map(|(_, note)| {
        let Note::HandedBack { scope, count } = note else {
            return None;
        };
        (scope.channel() == channel(ROOM)).then_some(count as usize)
    });
    counts.sum()
}

/// No turn that begins afterwards is one in a session of before.
fn nothing_old_is_resumed(crew: &Crew, told: &str) {
    let later: Vec<Session> = begun(crew)
        .into_iter()
        .filter(|begun| begun.at >= THEN && !begun.batch.iter().any(|n| BUSY.contains(n)))
        .map(|begun| begun.session)
        .collect();
    let new: BTreeSet<SessionRef> = later
        .iter()
        .filter(|session| matches!(session, Session::Fresh(_)))
        .map(|session| session.reference())
        .collect();
    let is_new = |session: &Session| new.contains(&session.reference());
    assert!(later.iter().all(is_new), "{told}: {later:?}");
}

fn play(phase: Phase, event: Event) {
    let told = format!("{phase:?}, {event:?}");
    let in_the_end = told.clone();
    let is_lost = event != Event::ShutDown;
    let case = brought_to(phase)
        .at(THEN, move |crew| happens(crew, phase, event))
        .at(THEN + 1, |crew| crew.opens = Conduct::Works)
        .at(THEN + 60_000, |crew| {
            let kind = ChannelKind::Stream;
            let (channel, state) = (channel(ROOM), ChannelState::Joined { kind });
            crew.feed(Input::Channel { channel, state });
        });
    let case = if is_lost {
        case.at(THEN + 70_000, |crew| crew.say_in(LATER, T))
            .never(move |crew| nothing_old_is_resumed(crew, &told))
            .finally(|crew| assert_eq!(ends_of(crew, LATER)[0].1, Disposal::Accepted))
    } else {
        case.finally(|crew| {
            let view = crew.script.part().view();
            assert!(crew.is_over() && view.running == 0, "{view:?}");
        })
    };
    case.finally(move |crew| {
        let wanted = outcomes(phase, event);
        for (n, wanted) in [IT, NEXT].into_iter().zip(wanted) {
            let found: Vec<Disposal> = ends_of(crew, n).into_iter().map(|(_, how)| how).collect();
            assert_eq!(found, Vec::from_iter(wanted), "{in_the_end}: {n}");
        }
        let owed = wanted.iter().filter(|wanted| wanted.is_none()).count();
        assert_eq!(handed_back(crew), owed, "{in_the_end}");
    })
    .play();
}

/// A session can be lost where it is used, or where it lies idle for long.
const fn can_happen(phase: Phase, event: Event) -> bool {
    let is_in_use = matches!(phase, Phase::Running | Phase::Waiting);
    is_in_use || !matches!(event, Event::Evicted)
}

#[test]
fn block_buzz_4369_whatever_happens_in_whichever_phase_nothing_is_stranded_or_resumed_stale() {
    for phase in PHASES {
        for event in EVENTS {
            if can_happen(phase, event) {
                play(phase, event);
            }
        }
    }
}
