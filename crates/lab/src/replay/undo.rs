//! The proof that no frame was lost: account for all of them, then undo the trace and compare with the start.

use pageblock_frame::{Order, Pfn, PfnRange};

use super::cpu::{Recorded as Cpu, enter};
use super::linux::{FIRST, START};
use super::machine::Machine;
use super::ours::Ours;
use super::outcome::Live;
use super::plan::{NONE, Planner};

/// Which frames were held at the start, one bit a frame.
#[derive(Debug)]
pub(crate) struct Held {
    words: Vec<u64>,
}

impl Held {
    /// The frames that the planner's model says were held at the start.
    pub(crate) fn new(planner: &Planner) -> Self {
        let frames = planner.linux.frames();
        let mut words = vec![0; frames.div_ceil(64) as usize];
        for pfn in (0..frames).filter(|&pfn| planner.linux.owner(pfn) == START) {
            words[(pfn / 64) as usize] |= 1 << (pfn % 64);
        }
        Self { words }
    }

    fn frames(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at as u64 * 64 + bit)
        })
    }

    /// Takes a frame that is being freed out of the set; false if it was not in it.
    #[inline]
    pub(crate) fn release(&mut self, pfn: u64) -> bool {
        let Some(word) = self.words.get_mut((pfn / 64) as usize) else { return false };
        let was = *word >> (pfn % 64) & 1 != 0;
        *word &= !(1 << (pfn % 64));
        was
    }

    /// Number of frames.
    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Blocks held at the end.
pub(crate) fn live(planner: &Planner, held: &Held, most_frames: u64) -> Live {
    let frames = planner.live().map(|(_, block)| u64::from(block.left)).sum();
    Live { blocks: planner.live().count() as u64, frames, most_frames, start_frames: held.count() }
}

/// Every frame is free, or of a live block that we gave, or held since the start.
pub(crate) fn accounted(planner: &Planner, machine: &Machine, held: &Held) -> Result<(), String> {
    machine.check()?;
    let places = machine.seat.places.borrow();
    let given: u64 = planner
        .live()
        .filter(|(number, _)| places.of_block(*number) != NONE)
        .map(|(_, block)| u64::from(block.left))
        .sum();
    let (free, start, managed) = (machine.free_frames(), held.count(), machine.managed());
    if free + given + start == managed {
        Ok(())
    } else {
        Err(format!("{free} frames are free, {given} held by the trace and {start} since the start, of {managed}"))
    }
}

/// The state of our machine before the first operation.
#[derive(Debug)]
pub(crate) struct Initial {
    maps: Vec<[u64; 8]>,
    held: Held,
    free: u64,
}

impl Initial {
    /// Takes it down.
    pub(crate) fn new(planner: &Planner, machine: &Machine) -> Self {
        Self { maps: machine.maps(), held: Held::new(planner), free: machine.free_frames() }
    }

    /// Frees the trace's allocations, takes back at their place the frames that it freed, and compares.
    pub(crate) fn restore(&self, planner: &Planner, ours: &mut Ours, held: &Held) -> Result<(), String> {
        enter(&ours.machine.seat);
        free_trace(planner, &ours.machine)?;
        let moved = ours.free_moved_start().map_err(|error| format!("a frame that was moved: {error}"))?;
        let machine = &ours.machine;
        machine.drain();
        let gone = self.held.frames().filter(|&pfn| !held.contains(pfn)).map(Pfn::new);
        for pfn in gone.chain(moved) {
            let zone = machine.zone_of(pfn).ok_or_else(|| format!("frame {pfn} has no zone"))?;
            zone.alloc_at::<Cpu>(pfn, Order::ZERO).map_err(|error| format!("frame {pfn}: {error}"))?;
            machine.seat.places.borrow_mut().occupancy.take(pfn.as_u64(), 1);
        }
        machine.check()?;
        if machine.free_frames() != self.free {
            return Err(format!(
                "{} frames are free after undoing everything, {} at the start",
                machine.free_frames(),
                self.free
            ));
        }
        match self.maps.iter().zip(machine.maps()).position(|(before, after)| *before != after) {
            Some(block) => Err(format!("pageblock {block} is not as it was at the start")),
            None => Ok(()),
        }
    }
}

impl Held {
    /// True if the frame is in the set.
    fn contains(&self, pfn: u64) -> bool {
        self.words.get((pfn / 64) as usize).is_some_and(|word| word >> (pfn % 64) & 1 != 0)
    }
}

/// Frees every frame that a live block of the trace still holds in our machine.
fn free_trace(planner: &Planner, machine: &Machine) -> Result<(), String> {
    for (number, block) in planner.live() {
        let first = machine.seat.places.borrow().of_block(number);
        if first == NONE {
            continue;
        }
        for offset in 0..block.order.frames() {
            if block.linux == NONE || planner.linux.owner(u64::from(block.linux) + offset) == FIRST + number {
                let pfn = Pfn::new(u64::from(first) + offset);
                let freed = machine.free_range(PfnRange::from_len(pfn, 1));
                freed.map_err(|error| format!("frame {pfn} of a live block: {error}"))?;
            }
        }
    }
    Ok(())
}
