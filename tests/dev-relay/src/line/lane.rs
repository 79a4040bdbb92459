//! One direction of one connection.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{Chance, Lane, State};

/// Bytes that are late or lost together.
const PIECE_BYTES_MAX: usize = 4 << 10;
/// Pieces under way at once.
const PIECES_MAX: usize = 64;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// A piece and when it arrives; without bytes the end.
type Piece = (Instant, Bytes);
type Pick = fn(&State) -> Lane;

/// Carries everything from one socket to another, until the end or an error.
pub(super) async fn carry(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    states: watch::Receiver<State>,
    pick: Pick,
    chance: Chance,
) -> io::Result<()> {
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    let taken = take(from, sender, (states.clone(), pick), chance);
    let given = give(to, pieces, (states, pick));
    tokio::try_join!(taken, given).map(|_| ())
}

async fn take(
    mut from: OwnedReadHalf,
    pieces: mpsc::Sender<Piece>,
    (mut states, pick): (watch::Receiver<State>, Pick),
    mut chance: Chance,
) -> io::Result<()> {
    let mut last = Instant::now();
    let mut buffer = vec![0; PIECE_BYTES_MAX];
    loop {
        until(&mut states, |state| !pick(state).is_unread).await?;
        let count = tokio::select! {
            count = from.read(&mut buffer) => count?,
            _ = states.changed() => continue,
        };
        let lane = pick(&states.borrow());
        let late = lane.delay + lane.resend * chance.losses(lane.loss);
        // What was sent before arrives before.
        last = last.max(Instant::now() + late);
        let piece = Bytes::copy_from_slice(&buffer[..count]);
        if pieces.send((last, piece)).await.is_err() || count == 0 {
            return Ok(());
        }
    }
}

async fn give(
    mut to: OwnedWriteHalf,
    mut pieces: mpsc::Receiver<Piece>,
    (mut states, pick): (watch::Receiver<State>, Pick),
) -> io::Result<()> {
    let mut head = Head::default();
    while let Some((at, piece)) = pieces.recv().await {
        tokio::time::sleep_until(at).await;
        let of_head = head.part_of(&piece);
        until(&mut states, |state| !pick(state).is_held).await?;
        to.write_all(&piece[..of_head]).await?;
        if of_head < piece.len() || piece.is_empty() {
            let is_free = |state: &State| !pick(state).is_held && !pick(state).is_held_after_head;
            until(&mut states, is_free).await?;
            to.write_all(&piece[of_head..]).await?;
        }
        if piece.is_empty() {
            to.shutdown().await?;
        }
    }
    Ok(())
}

/// Where the header of the first message of HTTP ends.
#[derive(Default)]
struct Head {
    matched: usize,
}

impl Head {
    /// How many bytes of the next piece belong to it.
    fn part_of(&mut self, piece: &[u8]) -> usize {
        for (place, byte) in piece.iter().enumerate() {
            if self.matched == END_OF_HEAD.len() {
                return place;
            }
            self.matched = match (*byte, self.matched) {
                (b'\r', 2) => 3,
                (b'\r', _) => 1,
                (b'\n', 1) => 2,
                (b'\n', 3) => 4,
                _ => 0,
            };
        }
        piece.len()
    }
}

async fn until(
    states: &mut watch::Receiver<State>,
    is_so: impl FnMut(&State) -> bool,
) -> io::Result<()> {
    let gone = |_| io::Error::from(io::ErrorKind::ConnectionAborted);
    states.wait_for(is_so).await.map(|_| ()).map_err(gone)
}
