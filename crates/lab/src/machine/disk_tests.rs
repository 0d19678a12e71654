use super::*;
use crate::machine::costs::{MILLISECOND, SECOND};

fn read(owner: u32, at: u64, pages: u64) -> Request {
    let owner = Some(ActorId::of(owner));
    Request { what: Transfer::Read, at: Sector(at), pages, owner, frames: Vec::new(), loads: None }
}

fn write(at: u64, pages: u64) -> Request {
    Request { what: Transfer::Write, owner: None, ..read(0, at, pages) }
}

/// Lets readers ask for the next piece as soon as they have the last, until a time; the readers served, in order, with
/// times, and pages of each.
fn readers(disk: &mut Disk, count: u32, mut place: impl FnMut(u32, u64) -> u64, until: Time) -> Vec<(u32, Time)> {
    let mut asked = vec![0; count as usize];
    let mut now = Time::START;
    let mut served = Vec::new();
    for owner in 0..count {
        disk.submit(read(owner, place(owner, 0), 32));
    }
    while now < until {
        let busy = disk.decide(now).unwrap();
        now = busy.until;
        let Some(done) = disk.finish(busy.number) else { continue };
        let owner = done.owner.unwrap().number();
        served.push((owner, now));
        asked[owner as usize] += 1;
        disk.submit(read(owner, place(owner, asked[owner as usize]), 32));
    }
    served
}

#[test]
fn neighbours_follow_without_a_seek() {
    let mut disk = Disk::default();
    let mut one = |request: Request, now: Time| {
        disk.submit(request);
        let busy = disk.decide(now).unwrap();
        assert!(disk.finish(busy.number).is_some());
        busy.until.since(now)
    };
    let far = SEEK_TRACK + (SEEK_THIRD - SEEK_TRACK) + HALF_TURN;
    assert_eq!(one(read(1, DISK_THIRD, 8), Time::START), far + 8 * DISK_PAGE);
    let later = Time::new(SECOND);
    assert_eq!(one(read(1, DISK_THIRD + 8, 8), later), 8 * DISK_PAGE);
    assert_eq!(one(read(1, DISK_THIRD, 1), later), SEEK_NEAR + DISK_PAGE);
    assert_eq!(one(read(1, DISK_THIRD + 3, 1), later), 3 * DISK_PAGE, "two pages pass by");
    assert_eq!(disk.transferred(), (18, 0));
}

/// A flash disk is as fast everywhere, and faster at reading a page anywhere than a spinning one is next to its head.
#[test]
fn flash_does_not_seek() {
    let (mut disk, mut now) = (Disk::new(Drive::Flash), Time::START);
    let mut one = |request: Request| {
        // Later than any reader waits for a next request.
        now = now.after(SECOND);
        disk.submit(request);
        let busy = disk.decide(now).unwrap();
        assert!(disk.finish(busy.number).is_some());
        busy.until.since(now)
    };
    let near = one(read(1, 0, 1));
    assert_eq!([one(read(1, DISK_THIRD, 1)), one(read(2, 7, 1))], [near; 2]);
    assert!(near < DISK_PAGE && one(read(1, 9, 8)) < 8 * near, "{near}");
    assert_eq!(one(write(DISK_THIRD, 8)), 8 * DISK_PAGE);
}

#[test]
fn seeks_grow_with_the_way() {
    let times: Vec<u64> =
        [NEAR_PAGES, 4 * NEAR_PAGES, DISK_THIRD / 4, DISK_THIRD, 2 * DISK_THIRD].map(|way| seek(0, way)).to_vec();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
    assert_eq!(times[3], times[4]);
    assert_eq!(seek(DISK_THIRD, 0), times[3]);
}

/// Each has the disk to itself for its slice, and the slices share a round: half of the time goes to neither's seeks.
#[test]
fn sequential_readers_take_turns_and_stay_fast() {
    for (count, slice, least) in [(1, 100, 99), (2, 100, 92), (4, 75, 90), (16, 18, 70)] {
        let mut disk = Disk::default();
        let until = Time::new(3 * SECOND);
        let served = readers(&mut disk, count, |owner, piece| u64::from(owner) * 100_000 + piece * 32, until);
        let pages = served.len() as u64 * 32;
        let percent = 100 * pages * DISK_PAGE / (3 * SECOND);
        assert!(percent >= least, "{count} readers: {percent} % of the disk");
        let turns = served.windows(2).filter(|pair| pair[0].0 != pair[1].0).count() as u64;
        let most = 3_000 / slice + 1;
        assert!(turns <= most, "{count} readers: {turns} turns, {most} slices");
        let each = |owner| served.iter().filter(|(who, _)| *who == owner).count();
        assert!((0..count).all(|owner| each(owner) * count as usize * 2 > served.len()), "nobody is left out");
    }
}

/// Places far apart: no reader is waited for, and of those that ask the next on the way is served.
#[test]
fn random_readers_are_served_in_the_order_of_places() {
    let scatter = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let places = |owner: u32, piece: u64| scatter(u64::from(owner) + piece * 1000 + 1) % 4_000_000;
    let pages = |count| {
        let mut disk = Disk::default();
        readers(&mut disk, count, places, Time::new(10 * SECOND)).len()
    };
    let (one, many) = (pages(1), pages(16));
    assert!(many * 100 > one * 102, "{many} of 16, {one} of one");
    let mut disk = Disk::default();
    for owner in 0..8 {
        // Random by the requests before.
        for piece in 0..8 {
            disk.submit(read(owner, 1_000_000 * (piece + 1), 1));
        }
    }
    let mut last = 0;
    let mut now = Time::START;
    for _ in 0..8 {
        let busy = disk.decide(now).unwrap();
        now = busy.until;
        let at = disk.finish(busy.number).unwrap().at.0;
        assert!(at >= last, "upwards: {at} after {last}");
        last = at;
    }
}

#[test]
fn who_reads_on_is_waited_for_a_moment_and_writing_gets_its_turn() {
    let mut disk = Disk::default();
    disk.submit(read(1, 0, 32));
    let busy = disk.decide(Time::START).unwrap();
    disk.submit(write(1_000_000, 256));
    assert_eq!(disk.decide(Time::START), None, "one at a time");
    assert!(disk.finish(busy.number).is_some());
    let waiting = disk.decide(busy.until).unwrap();
    assert_eq!(waiting.until, busy.until.after(SLICE_IDLE), "the reader may come back");
    disk.submit(read(1, 32, 32));
    let again = disk.decide(busy.until.after(MILLISECOND)).unwrap();
    assert_eq!(again.until, busy.until.after(MILLISECOND + 32 * DISK_PAGE));
    assert!(disk.finish(waiting.number).is_none(), "the wait is over");
    assert!(disk.finish(again.number).is_some());
    let waiting = disk.decide(again.until).unwrap();
    assert!(disk.finish(waiting.number).is_none());
    let writing = disk.decide(waiting.until).unwrap();
    assert_eq!(disk.finish(writing.number).unwrap().what, Transfer::Write, "it did not come back");
    assert_eq!(disk.decide(writing.until), None, "nothing to do");
}
