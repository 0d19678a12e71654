//! One disk: a head that moves, and a queue.

use super::costs::{DISK_PAGE, NEAR_PAGES, SEEK_FAR, SEEK_NEAR};
use super::time::Time;

/// Where a page lies on the disk, in pages from its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Sector(pub(crate) u64);

/// What the disk is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transfer {
    /// Into memory.
    Read,
    /// Out of memory.
    Write,
}

/// A disk with one head. Requests are served in the order in which they come: whoever writes much at once hands over pieces, and
/// reads get their turn between them.
///
/// | field | legal values |
/// |---|---|
/// | `free_at` | when the last request accepted so far will be done |
/// | `head` | where the head will be then |
#[derive(Debug, Default)]
pub(crate) struct Disk {
    free_at: Time,
    head: u64,
    read: u64,
    written: u64,
    busy: u64,
}

impl Disk {
    /// Queues a request for neighbouring pages; says when it is done.
    pub(crate) fn submit(&mut self, what: Transfer, at: Sector, pages: u64, now: Time) -> Time {
        let start = self.free_at.max(now);
        let distance = at.0.abs_diff(self.head);
        let seek = match distance {
            // What lies just ahead passes under the head anyway.
            ahead if at.0 >= self.head && ahead <= SEEK_NEAR / DISK_PAGE => ahead * DISK_PAGE,
            near if near <= NEAR_PAGES => SEEK_NEAR,
            _ => SEEK_FAR,
        };
        let took = seek + pages * DISK_PAGE;
        match what {
            Transfer::Read => self.read += pages,
            Transfer::Write => self.written += pages,
        }
        self.busy += took;
        self.head = at.0 + pages;
        self.free_at = start.after(took);
        self.free_at
    }

    /// How long a request that comes now would wait for its turn, in nanoseconds.
    pub(crate) fn backlog(&self, now: Time) -> u64 {
        self.free_at.since(now)
    }

    /// Pages read so far, and written.
    pub(crate) fn transferred(&self) -> (u64, u64) {
        (self.read, self.written)
    }

    /// Nanoseconds of work accepted so far.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_follow_without_a_seek() {
        let mut disk = Disk::default();
        let far = disk.submit(Transfer::Read, Sector(1 << 20), 8, Time::START);
        assert_eq!(far.nanoseconds(), SEEK_FAR + 8 * DISK_PAGE);
        let next = disk.submit(Transfer::Read, Sector((1 << 20) + 8), 8, Time::START);
        assert_eq!(next.since(far), 8 * DISK_PAGE);
        let near = disk.submit(Transfer::Write, Sector(1 << 20), 1, Time::START);
        assert_eq!(near.since(next), SEEK_NEAR + DISK_PAGE);
        let ahead = disk.submit(Transfer::Read, Sector((1 << 20) + 3), 1, Time::START);
        assert_eq!(ahead.since(near), 3 * DISK_PAGE, "two pages pass by");
        assert_eq!((disk.transferred(), disk.busy()), ((17, 1), ahead.nanoseconds()));
    }

    #[test]
    fn an_idle_disk_begins_at_once() {
        let mut disk = Disk::default();
        let done = disk.submit(Transfer::Write, Sector(0), 1, Time::new(5));
        assert_eq!(done, Time::new(5 + DISK_PAGE));
        assert_eq!((disk.backlog(Time::new(5)), disk.backlog(done)), (DISK_PAGE, 0));
    }
}
