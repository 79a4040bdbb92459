//! A name that cannot be resolved for a while.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use buzz_adapters::connect::Report;
use buzz_adapters::dial::DialError;
use buzz_adapters::runtime::Runtime;
use buzz_adapters::tokio::{Stream, Tokio};

use super::hasten;
use crate::support::{Scene, external};

/// The first questions for a name have no answer.
const UNANSWERED: usize = 4;

static QUESTIONS: AtomicUsize = AtomicUsize::new(0);

/// Tokio with a resolver that has a gap.
struct Gap;

impl Runtime for Gap {
    type Stream = Stream;

    async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if QUESTIONS.fetch_add(1, Ordering::Relaxed) < UNANSWERED {
            return Err(io::Error::other("no answer from the name server"));
        }
        Tokio::resolve(host, port).await
    }

    async fn connect(address: SocketAddr) -> io::Result<Stream> {
        Tokio::connect(address).await
    }

    fn sleep(span: Duration) -> impl Future<Output = ()> + Send + 'static {
        Tokio::sleep(span)
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        Tokio::spawn(task);
    }

    async fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        Tokio::spawn_blocking(work).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_cannot_be_resolved_for_a_while_is_asked_for_by_the_ladder() {
    let mut scene = Scene::open().await;
    let (sender, failures) = std::sync::mpsc::channel();
    let said = scene.mention("before the name is known", Vec::new()).await;

    let mut agent = scene.agent_on::<Gap>(external(16), |setup| {
        hasten(setup);
        setup.config.relay.look_back = Duration::from_secs(60);
        setup.report = Box::new(move |report| {
            if let Report::DialFailed(error) = report {
                let _over = sender.send(matches!(error, DialError::Resolve(_)));
            }
        });
    });

    assert_eq!(agent.take(1).await, [said.id]);
    agent.end().await;
    let failures: Vec<_> = failures.try_iter().collect();
    assert_eq!(failures, [true; UNANSWERED]);
}
