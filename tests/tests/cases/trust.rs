//! Who may say what: forged events, forged notices, and a relay whose key is not known yet.

use buzz_proto::relay::Action;
use buzz_proto::time::MonoTime;
use buzz_sim::relay::given;
use buzz_sim::toy::{self, Toy, channel, key};

use crate::house::{House, Roster};
use crate::player::{Case, dated};
use crate::transcript::when;

const A: u8 = 1;
const C: u8 = 3;

fn documents(house: &House) -> Vec<MonoTime> {
    when(house, |action| matches!(action, Action::Inform { .. }))
}

#[test]
fn block_buzz_7010_a_forged_copy_changes_nothing_and_the_true_event_is_delivered() {
    Case::new(|| {
        let mut house = House::with(given(&[A]));
        house.forged.insert(toy::id(7));
        house.begin()
    })
    .at(1000, |house| {
        let order = Toy::mention(7, channel(A))
            .content("!shutdown")
            .dated(dated(1));
        house.say_in(A, &order);
    })
    .must(1000, |house| assert!(house.delivered.is_empty()))
    .at(2000, |house| {
        house.forged.clear();
        house.bring(A, &Toy::mention(7, channel(A)).dated(dated(1)));
    })
    .must(2000, |house| assert_eq!(house.delivered, [toy::id(7)]))
    .finally(|house| assert_eq!(house.delivered, [toy::id(7)]))
    .play();
}

#[test]
fn nousresearch_hermes_agent_75356_only_a_notice_of_the_relay_to_us_is_one() {
    let other = key(0x77).to_string();
    let place = channel(C).to_string();
    let forgeries = [
        // Another kind, for somebody else, by somebody else.
        Toy::mention(20, channel(C)),
        Toy::new(21)
            .kind(44_100)
            .tag(&["h", &place])
            .tag(&["p", &other]),
        Toy::notice(22, 44_100, channel(C)).author(key(0x33)),
    ];
    for forgery in forgeries {
        Case::new(|| House::in_channels(&[A]))
            .at(5000, move |house| {
                house.notify(&forgery.clone().dated(dated(5)))
            })
            .never(|house| {
                assert!(house.asked_for(C).is_empty());
                assert!(house.left_at(A).is_empty());
            })
            .finally(|house| assert!(house.is_live(A)))
            .play();
    }
}

#[test]
fn block_buzz_6953_a_relay_whose_key_could_not_be_learned_is_asked_again_by_itself() {
    Case::new(|| {
        let mut house = House::new();
        house.documents = [None, None, Some(0xb2)].into();
        house.rosters = [Roster::Names(&[A])].into();
        house.begin()
    })
    .must(59_000, |house| assert_eq!(documents(house).len(), 1))
    .must(61_000, |house| assert_eq!(documents(house).len(), 2))
    .must(181_000, |house| assert_eq!(documents(house).len(), 3))
    .at(200_000, |house| {
        let forged = Toy::notice(30, 44_100, channel(C)).author(key(0x33));
        house.notify(&forged.dated(house.present()));
    })
    // Nothing waits for it a second time.
    .must(200_000, |house| assert!(house.is_live(A)))
    .never(|house| assert!(house.asked_for(C).is_empty()))
    .finally(|house| assert!(house.is_live(A)))
    .play();
}
