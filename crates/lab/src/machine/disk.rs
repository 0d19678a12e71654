//! One disk: a head that moves, and queues from which an elevator picks its next request.
//!
//! Each actor that reads has a queue, and all writing has one, as in CFQ, the elevator of the series' kernels. Queues
//! take turns. A reader's turn lasts a slice of time and, since it asks for the next piece only when it has the last,
//! the disk waits for that a moment rather than move its head away. A reader at random places gets one request a turn,
//! and is not waited for; of several such readers the one that is next under the moving head comes first, as in a
//! drive's own queue. Writing gets a slice in each round.
//!
//! One request is served at a time: [`decide`](Disk::decide) names the disk's present action and its end,
//! [`finish`](Disk::finish) is to be called then.

use std::collections::{BTreeMap, VecDeque};

use pageblock_frame::Pfn;

use super::costs::{DISK_PAGE, HALF_TURN, NEAR_PAGES, SEEK_NEAR, SEEK_TRACK, SLICE_IDLE, SLICE_LEAST, SLICE_READ};
use super::costs::{DISK_THIRD, FLASH_PAGE, FLASH_READ, SEEK_THIRD, SLICE_ROUND, SLICE_WRITE};
use super::loading::Run;
use super::schedule::ActorId;
use super::time::Time;

/// Where a page lies on the disk, in pages from its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Sector(pub(crate) u64);

/// Kind of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Drive {
    /// Platters and a head that moves.
    #[default]
    Spinning,
    /// Flash memory: all places are equally near.
    Flash,
}

impl Drive {
    /// Time that a request takes, from the head's place.
    fn takes(self, head: u64, request: &Request) -> u64 {
        match (self, request.what) {
            (Self::Spinning, _) => seek(head, request.at.0) + request.pages * DISK_PAGE,
            (Self::Flash, Transfer::Read) => FLASH_READ + request.pages * FLASH_PAGE,
            (Self::Flash, Transfer::Write) => request.pages * DISK_PAGE,
        }
    }
}

/// A request to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transfer {
    /// Into memory.
    Read,
    /// Out of memory.
    Write,
}

/// A request for neighbouring pages.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) what: Transfer,
    pub(crate) at: Sector,
    pub(crate) pages: u64,
    /// The actor that asks, and waits for the end; none, if no actor waits.
    pub(crate) owner: Option<ActorId>,
    /// Frames that are being written.
    pub(crate) frames: Vec<Pfn>,
    /// Pages of a file that are read ahead: the owner does not wait for the end.
    pub(crate) loads: Option<Run>,
}

/// Owner of a queue: a reader, or all writing together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    Reader(Option<ActorId>),
    Writing,
}

/// Requests of a queue, by place; and whether they lie near one another.
#[derive(Debug, Default)]
struct Queue {
    requests: BTreeMap<(u64, u64), Request>,
    /// Where the last one that came ended.
    end: u64,
    /// One bit for each of the last 32: it was not near the one before.
    far: u32,
}

/// Bits of [`Queue::far`] from which places count as random, and how far apart that is (`CFQQ_SEEKY`, 800 sectors).
const RANDOM: u32 = 5;
const APART: u64 = 100;

impl Queue {
    fn push(&mut self, request: Request, number: u64) {
        let place = request.at.0;
        self.far = self.far << 1 | u32::from(place.abs_diff(self.end) > APART);
        self.end = place + request.pages;
        self.requests.insert((place, number), request);
    }

    fn is_random(&self) -> bool {
        self.far.count_ones() >= RANDOM
    }

    /// The place of the request that the head meets first on its way up, or that it begins anew with.
    fn next(&self, head: u64) -> Option<(u64, u64)> {
        let ahead = self.requests.range((head, 0)..).next();
        ahead.or_else(|| self.requests.iter().next()).map(|(place, _)| *place)
    }
}

/// The queue that has its turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    key: Key,
    ends: Time,
    /// When its last request was done, or when it began.
    idle_since: Time,
}

/// The disk's present action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Busy {
    /// Until then.
    pub(crate) until: Time,
    /// To be handed to [`finish`](Disk::finish).
    pub(crate) number: u64,
}

/// A disk with one head.
///
/// | field | legal values |
/// |---|---|
/// | `head` | where the head is, or will be after `serving` |
/// | `queues` | one for each actor that ever read, and one for writing |
/// | `round` | queues with requests, but for that of `turn`: in the order of their turns |
/// | `serving` | the present request and its end; then nothing else is done |
/// | `number` | the last that [`decide`](Self::decide) gave out; older ones are void |
#[derive(Debug, Default)]
pub(crate) struct Disk {
    drive: Drive,
    head: u64,
    queues: BTreeMap<Key, Queue>,
    round: VecDeque<Key>,
    turn: Option<Turn>,
    serving: Option<(Request, Time)>,
    number: u64,
    requests: u64,
    read: u64,
    written: u64,
    busy: u64,
}

impl Disk {
    /// A disk without requests.
    pub(crate) fn new(drive: Drive) -> Self {
        Self { drive, ..Self::default() }
    }

    /// Queues a request. [`decide`](Self::decide) is to be called after it.
    pub(crate) fn submit(&mut self, request: Request) {
        match request.what {
            Transfer::Read => self.read += request.pages,
            Transfer::Write => self.written += request.pages,
        }
        let key = match request.what {
            Transfer::Read => Key::Reader(request.owner),
            Transfer::Write => Key::Writing,
        };
        self.requests += 1;
        self.queues.entry(key).or_default().push(request, self.requests);
        if self.turn.is_none_or(|turn| turn.key != key) && !self.round.contains(&key) {
            self.round.push_back(key);
        }
    }

    /// The disk's action from now on, if that is news: serve a request, or wait a moment for the reader in turn.
    pub(crate) fn decide(&mut self, now: Time) -> Option<Busy> {
        if self.serving.is_some() {
            return None;
        }
        while let Some(turn) = self.turn {
            let queue = self.queues.entry(turn.key).or_default();
            let more = !queue.requests.is_empty();
            let patient = turn.key != Key::Writing && !queue.is_random();
            let waits_until = turn.idle_since.after(SLICE_IDLE).min(turn.ends);
            if more && now < turn.ends {
                let place = queue.next(self.head)?;
                return self.serve(turn.key, place, now);
            }
            if !more && patient && now < waits_until {
                // No other queue: there is nothing to do but to wait for a request.
                return if self.round.is_empty() { None } else { Some(self.busy_until(waits_until)) };
            }
            self.turn = None;
            if more {
                self.round.push_back(turn.key);
            }
        }
        let key = self.next_turn()?;
        let ends = now.after(self.slice(key));
        self.turn = Some(Turn { key, ends, idle_since: now });
        let place = self.queues.get(&key)?.next(self.head)?;
        self.serve(key, place, now)
    }

    /// Takes the queue with the next turn out of the round. Of those that read at random places it is the one that the
    /// head meets first.
    fn next_turn(&mut self) -> Option<Key> {
        let queue = |key: &Key| self.queues.get(key);
        let is_random = |key: &Key| *key != Key::Writing && queue(key).is_some_and(Queue::is_random);
        let first = *self.round.front()?;
        let best = if is_random(&first) {
            let places = self.round.iter().filter(|key| is_random(key)).filter_map(|key| {
                let (place, _) = queue(key)?.next(self.head)?;
                Some((place < self.head, place, *key))
            });
            places.min().map_or(first, |(_, _, key)| key)
        } else {
            first
        };
        self.round.retain(|key| *key != best);
        Some(best)
    }

    /// How long a turn lasts: readers share a round's time (`low_latency`), down to twice the time that one is waited
    /// for.
    fn slice(&self, key: Key) -> u64 {
        if key == Key::Writing {
            return SLICE_WRITE;
        }
        let readers = 1 + self.round.iter().filter(|key| **key != Key::Writing).count() as u64;
        SLICE_READ.min((SLICE_ROUND / readers).max(SLICE_LEAST))
    }

    fn serve(&mut self, key: Key, place: (u64, u64), now: Time) -> Option<Busy> {
        let request = self.queues.get_mut(&key)?.requests.remove(&place)?;
        let took = self.drive.takes(self.head, &request);
        self.busy += took;
        self.head = request.at.0 + request.pages;
        let until = now.after(took);
        self.serving = Some((request, until));
        Some(self.busy_until(until))
    }

    fn busy_until(&mut self, until: Time) -> Busy {
        self.number += 1;
        Busy { until, number: self.number }
    }

    /// The time that [`decide`](Self::decide) named has come: returns the request that is done now, if any. Another
    /// decision is due.
    pub(crate) fn finish(&mut self, number: u64) -> Option<Request> {
        if number != self.number {
            return None;
        }
        let (request, until) = self.serving.take()?;
        if let Some(turn) = &mut self.turn {
            turn.idle_since = until;
        }
        Some(request)
    }

    /// Pages read so far, and written, those that wait included.
    pub(crate) fn transferred(&self) -> (u64, u64) {
        (self.read, self.written)
    }

    /// Nanoseconds of work so far.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }
}

/// Time until the head is at a place.
fn seek(head: u64, to: u64) -> u64 {
    match head.abs_diff(to) {
        // A place just ahead passes under the head anyway.
        ahead if to >= head && ahead <= SEEK_NEAR / DISK_PAGE => ahead * DISK_PAGE,
        near if near <= NEAR_PAGES => SEEK_NEAR,
        far => {
            // The arm speeds up and slows down: its time goes with the root of the way, and beyond a third of the disk
            // hardly grows.
            let permille = (far.min(DISK_THIRD) * 1_000_000 / DISK_THIRD).isqrt();
            SEEK_TRACK + (SEEK_THIRD - SEEK_TRACK) * permille / 1000 + HALF_TURN
        }
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
