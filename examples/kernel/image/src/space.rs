//! An address space as a process has one: pages of the lower half that its frames can be moved from under.
//!
//! [`Space`] is one of this kernel's two owners of movable memory (`owners.rs` puts them together). A page on the move
//! is not present; a process that touches it meanwhile waits in the page-fault handler. The order is: mark the entry,
//! shoot the translation down on every CPU, copy, enter the new frame. So no write can go to the old frame after it was
//! copied.
//!
//! # Lock order
//! The space's lock, then shoot-downs. Nothing is allocated under it: an allocation may compact, and compaction comes
//! here.

use alloc::vec;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use pageblock_frame::migration::{Migrate, MigrateMode, Move, MoveError, PutBack, Refusal};
use pageblock_frame::sync::{AtomicBool, Lock, LockGuard, Ordering};
use pageblock_frame::{Order, PAGE_SIZE, Pfn};
use x86_64::VirtAddr;
use x86_64::instructions::interrupts;
use x86_64::structures::paging::{Mapper, Page, PageTableFlags, PhysFrame, Size4KiB};

use crate::arch::ipi;
use crate::arch::paging::{self, phys_ptr};
use crate::demo;
use crate::mm::{self, FRAMES};

/// Where the pages begin.
const BASE: u64 = 0x10_0000_0000;
/// Most pages: 1 GiB.
const MAX_PAGES: u64 = 1 << 18;
/// Pages that are unmapped with one shoot-down.
const BATCH: usize = 256;
const PRESENT: u64 = 1;
/// A bit that the processor leaves to software: the page is on the move.
const MOVING: u64 = 1 << 9;

/// Record of a frame: 0 if it is not ours, else the page's number plus 1 and two flags.
type Reverse = u32;
/// Lent to compaction.
const LENT: Reverse = 1 << 31;
/// Given up while it was lent.
const GONE: Reverse = 1 << 30;
const PAGE: Reverse = GONE - 1;

/// Both directions of the mapping.
pub struct Maps {
    /// By frame number.
    reverse: Vec<Reverse>,
    /// By page number; `None` where nothing is mapped.
    frames: Vec<Option<Pfn>>,
}

impl Maps {
    fn page_of(&self, pfn: Pfn) -> Option<u64> {
        let reverse = self.reverse.get(pfn.as_u64() as usize)?;
        (*reverse & PAGE).checked_sub(1).map(u64::from)
    }

    /// Takes a page's entry out. Its frame, unless there is none or it is lent.
    fn remove(&mut self, page: u64) -> Option<Pfn> {
        let pfn = self.frames.get_mut(page as usize)?.take()?;
        write(page, 0);
        let reverse = &mut self.reverse[pfn.as_u64() as usize];
        if *reverse & LENT != 0 {
            *reverse |= GONE;
            return None;
        }
        *reverse = 0;
        Some(pfn)
    }

    /// Marks the entry of a lent frame: a process that touches the page now waits.
    fn begin(&mut self, from: Pfn) -> Result<(), MoveError> {
        let page = self.page_of(from).ok_or(MoveError::Failed)?;
        let reverse = self.reverse.get_mut(from.as_u64() as usize).ok_or(MoveError::Failed)?;
        if *reverse & GONE != 0 {
            *reverse = 0;
            return Err(MoveError::Released);
        }
        write(page, MOVING);
        Ok(())
    }

    /// Copies a frame with a marked page, which no CPU can reach any more, and enters the new one.
    fn finish(&mut self, from: Pfn, to: Pfn) {
        let Some(page) = self.page_of(from) else { return };
        // SAFETY: no CPU can write to the old frame any more; the new one is not known to other CPUs.
        unsafe {
            let (source, target) = (phys_ptr::<u8>(from.as_u64() * PAGE_SIZE), phys_ptr(to.as_u64() * PAGE_SIZE));
            core::ptr::copy_nonoverlapping(source, target, PAGE_SIZE as usize);
        }
        self.reverse[from.as_u64() as usize] = 0;
        self.reverse[to.as_u64() as usize] = page as Reverse + 1;
        self.frames[page as usize] = Some(to);
        write(page, present(to));
    }
}

/// The space's tables, locked.
pub struct Tables<'a>(LockGuard<'a, Maps>);

impl Tables<'_> {
    /// The frame behind a page.
    pub fn frame(&self, page: u64) -> Option<Pfn> {
        *self.0.frames.get(page as usize)?
    }
}

/// The address space. There is one.
pub struct Space {
    maps: Lock<Maps>,
    /// Whether migration shoots translations down. Off, it is wrong: to see that the processes notice.
    pub shoot: AtomicBool,
}

/// The one there is.
pub static SPACE: Space =
    Space { maps: Lock::new(Maps { reverse: Vec::new(), frames: Vec::new() }), shoot: AtomicBool::new(true) };

/// The virtual address of a page.
pub fn address(page: u64) -> VirtAddr {
    VirtAddr::new(BASE + page * PAGE_SIZE)
}

/// The page's entry in the lowest table.
fn entry(page: u64) -> Option<*mut u64> {
    let address = address(page).as_u64();
    let mut table = paging::root_phys();
    for shift in [39, 30, 21] {
        let slot = phys_ptr::<u64>(table).wrapping_add((address >> shift & 511) as usize);
        // SAFETY: tables of the space are never taken down while it is in use, and are in the direct map.
        let value = unsafe { slot.read_volatile() };
        if value & PRESENT == 0 {
            return None;
        }
        table = value & 0xf_ffff_ffff_f000;
    }
    Some(phys_ptr::<u64>(table).wrapping_add((address >> 12 & 511) as usize))
}

fn read(page: u64) -> u64 {
    // SAFETY: an entry of the space's tables; aligned words are read at once.
    entry(page).map_or(0, |entry| unsafe { entry.read_volatile() })
}

fn write(page: u64, value: u64) {
    if let Some(entry) = entry(page) {
        // SAFETY: as in `read`; entries are written under the space's lock only.
        unsafe { entry.write_volatile(value) };
    }
}

/// Whether there is a table with an entry for the page.
pub fn has_table(page: u64) -> bool {
    page < MAX_PAGES && entry(page).is_some()
}

/// Whether a frame is behind the page, be it on the move.
pub fn is_mapped(page: u64) -> bool {
    read(page) != 0
}

/// The page-fault handler's part: true if the fault at `address` is over.
pub fn handle_fault(address: u64) -> bool {
    if !(BASE..BASE + MAX_PAGES * PAGE_SIZE).contains(&address) {
        return false;
    }
    let page = (address - BASE) / PAGE_SIZE;
    loop {
        let value = read(page);
        if value & PRESENT != 0 {
            return true;
        }
        if value & MOVING == 0 {
            return false;
        }
        // Sleeps until the mover's next shoot-down, which this CPU has to answer, or the timer's tick. Interrupts have
        // another stack than this exception, and their handlers touch no page of the space.
        interrupts::enable_and_hlt();
        interrupts::disable();
    }
}

impl Space {
    /// Makes room for `pages` pages of frames below `frame_end`, with all page tables.
    ///
    /// # Panics
    /// The heap or the memory for page tables does not suffice.
    pub fn open(&self, pages: u64, frame_end: Pfn) {
        assert!(pages <= MAX_PAGES, "the space has room for {MAX_PAGES} pages");
        let maps = Maps { reverse: vec![0; frame_end.as_u64() as usize], frames: vec![None; pages as usize] };
        *self.maps.lock() = maps;
        // SAFETY: only this CPU changes the tables' structure.
        let mut mapper = unsafe { paging::mapper() };
        for page in (0..pages).step_by(512).chain([pages - 1]) {
            // One page a table brings the tables into being; the entry is cleared again at once.
            if entry(page).is_none() {
                let frame = PhysFrame::containing_address(x86_64::PhysAddr::new(0));
                // SAFETY: never touched: cleared before other CPUs know of it.
                let mapped = unsafe {
                    let page = Page::<Size4KiB>::containing_address(address(page));
                    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::NO_EXECUTE;
                    mapper.map_to(page, frame, flags, &mut &FRAMES)
                };
                mapped.expect("memory for page tables").ignore();
                write(page, 0);
            }
        }
    }

    /// Takes the page tables down; nothing is mapped any more.
    ///
    /// # Panics
    /// A page is still mapped.
    pub fn close(&self) {
        let maps = core::mem::replace(&mut *self.maps.lock(), Maps { reverse: Vec::new(), frames: Vec::new() });
        assert!(maps.frames.iter().all(Option::is_none), "a page is still mapped");
        demo::clean_up(address(0), address(maps.frames.len() as u64));
    }

    /// Maps a frame that the caller gives up to the space.
    pub fn map(&self, page: u64, pfn: Pfn) {
        let mut maps = self.maps.lock();
        maps.frames[page as usize] = Some(pfn);
        maps.reverse[pfn.as_u64() as usize] = page as Reverse + 1;
        write(page, present(pfn));
    }

    /// Unmaps pages and calls `free` with the frame of each, which is the caller's from then on. No call for a page
    /// where nothing was mapped, nor for one with a lent frame: compaction frees that.
    pub fn unmap(&self, pages: impl Iterator<Item = u64>, mut free: impl FnMut(Pfn)) {
        let mut batch: ArrayVec<Pfn, BATCH> = ArrayVec::new();
        let mut pages = pages.peekable();
        while pages.peek().is_some() {
            let mut maps = self.maps.lock();
            while let Some(page) = pages.next_if(|_| !batch.is_full()) {
                batch.extend(maps.remove(page));
            }
            drop(maps);
            // One for all of them, before any other owner can have a frame.
            ipi::shootdown_all();
            batch.drain(..).for_each(&mut free);
        }
    }

    /// The page in front of a frame.
    pub fn page_behind(&self, pfn: Pfn) -> Option<u64> {
        self.maps.lock().page_of(pfn)
    }

    /// Keeps the entries as they are while the value lives.
    pub fn lock_tables(&self) -> Tables<'_> {
        Tables(self.maps.lock())
    }

    /// The frame behind a page.
    pub fn frame(&self, page: u64) -> Option<Pfn> {
        *self.maps.lock().frames.get(page as usize)?
    }
}

/// The entry of a mapped page.
const fn present(pfn: Pfn) -> u64 {
    let flags = PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE).union(PageTableFlags::NO_EXECUTE);
    (pfn.as_u64() * PAGE_SIZE) | flags.bits()
}

// SAFETY: an entry is changed under the lock of the maps, and no CPU has an old translation when the call answers `Ok`.
unsafe impl Migrate for Space {
    fn isolate(&self, pfn: Pfn, order: Order, _mode: MigrateMode) -> Result<(), Refusal> {
        let mut maps = self.maps.lock();
        let reverse = maps.reverse.get_mut(pfn.as_u64() as usize).ok_or(Refusal::Unknown)?;
        if *reverse == 0 || *reverse & LENT != 0 || order != Order::ZERO {
            return Err(Refusal::Unknown);
        }
        *reverse |= LENT;
        Ok(())
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        let mut one = [Move::new(from, to, order)];
        self.migrate_batch(&mut one, mode);
        one[0].outcome.unwrap_or(Err(MoveError::Failed))
    }

    fn migrate_batch(&self, moves: &mut [Move], _mode: MigrateMode) {
        let mut maps = self.maps.lock();
        for one in moves.iter_mut() {
            one.outcome = Some(maps.begin(one.from));
        }
        // One for all of them: from here on no CPU can write to an old frame.
        if self.shoot.load(Ordering::Relaxed) {
            ipi::shootdown_all();
        }
        for one in moves.iter().filter(|one| one.outcome == Some(Ok(()))) {
            maps.finish(one.from, one.to);
        }
    }

    fn put_back(&self, pfn: Pfn, _order: Order) -> PutBack {
        let mut maps = self.maps.lock();
        let Some(reverse) = maps.reverse.get_mut(pfn.as_u64() as usize) else { return PutBack::Kept };
        if *reverse & GONE != 0 {
            *reverse = 0;
            return PutBack::Released;
        }
        *reverse &= !LENT;
        PutBack::Kept
    }
}

/// Frees the frames that [`Space::unmap`] returned.
///
/// # Panics
/// The allocator refuses it.
pub fn free(pfn: Pfn) {
    if let Err(error) = mm::free(pfn, Order::ZERO) {
        panic!("free of page frame {pfn:?} refused: {error}");
    }
}
