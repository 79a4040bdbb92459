//! Connections that end while what was lost is being read.

use crate::hall::Hall;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_end_in_the_middle_of_a_page_lose_and_repeat_nothing() {
    let mut hall = Hall::open(3).await;
    let mut agent = hall.agent(256, None).await;
    let mut said = hall.mentions(0, 320).await;
    agent
        .until(|relay| relay.lost == 64 && relay.verifying == 0)
        .await;
    hall.cut_pages();

    let cuts = async {
        hall.disconnect_in_page(1).await;
        let meanwhile = hall.mentions(0, 100).await;
        hall.disconnect_in_page(2).await;
        hall.cut_no_more();
        meanwhile
    };
    let (mut taken, meanwhile) = tokio::join!(agent.take(420), cuts);

    said.extend(meanwhile);
    let said: Vec<_> = said.into_iter().collect();
    taken.sort_unstable();
    assert_eq!(taken, said);
    agent.until(|relay| relay.subscriptions_live == 3).await;
    let live = hall.mentions(1, 1).await;
    assert!(live.contains(&agent.take(1).await[0]));
    assert_eq!(hall.logins(), 3);
    agent.end().await;
}
