//! Poison and page owner, on a machine with memory behind its frames.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;
use std::sync::OnceLock;

use pageblock::{Config, FrameTable, Gfp, Order, OwnerMark, PageAllocator, PageOwners, Platform, Region, SiteUsage};

const BYTES: usize = 16 << 20;

#[derive(Debug)]
struct Ram<const N: usize>;

// SAFETY: each machine is one test's, which is one thread without interrupts; the memory is there for ever.
unsafe impl<const N: usize> Platform for Ram<N> {
    const MAX_CPUS: usize = 1;

    fn phys_to_virt(pa: u64) -> NonNull<u8> {
        static STARTS: [OnceLock<usize>; 4] = [const { OnceLock::new() }; 4];
        let layout = Layout::from_size_align(BYTES, 4096).unwrap();
        // SAFETY: not of size 0; never freed.
        let start = *STARTS[N].get_or_init(|| unsafe { alloc_zeroed(layout) }.expose_provenance());
        NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(start + pa as usize)).unwrap()
    }
}

fn boot<const N: usize>() -> &'static PageAllocator<Ram<N>> {
    let frames = Box::leak(Box::new(PageAllocator::new()));
    // SAFETY: the memory is this machine's alone.
    unsafe { frames.init([Region::usable(0..BYTES as u64)], &Config::new()) }.unwrap();
    frames
}

#[test]
fn a_write_after_free_is_found() {
    let frames = boot::<0>();
    let order = Order::new(2).unwrap();
    let mut block = frames.alloc_order(order, Gfp::KERNEL).unwrap();
    block.bytes_mut().fill(core::mem::MaybeUninit::new(7));
    let (pfn, stale) = (block.pfn(), block.as_ptr());
    drop(block);
    drop(frames.alloc_order(order, Gfp::KERNEL).unwrap());
    assert_eq!(frames.poison_damage(), None);
    // SAFETY: a mistake, but of the memory behind it nothing else is a user.
    unsafe { stale.add(2 * 4096 + 80).write(1) };
    let again = frames.alloc_at(pfn, order).unwrap();
    let damage = frames.poison_damage().unwrap();
    assert_eq!((damage.blocks, damage.first), (1, again.phys() + 2 * 4096 + 80));
    drop(again);
    // What asks for zeroes does not care; and the next owner finds poison again.
    // SAFETY: as above.
    unsafe { stale.write(1) };
    drop(frames.request().order(order).zeroed().alloc().unwrap());
    drop(frames.alloc_at(pfn, order).unwrap());
    assert_eq!(frames.poison_damage().unwrap().blocks, 1);
}

#[test]
fn a_wrong_free_poisons_nothing() {
    let frames = boot::<1>();
    let mut block = frames.alloc_order(Order::new(1).unwrap(), Gfp::KERNEL | Gfp::ZERO).unwrap();
    // SAFETY: refused, because the block's order is another.
    unsafe { frames.free(block.pfn(), Order::ZERO) }.unwrap_err();
    // SAFETY: all bytes were zeroed.
    assert!(block.bytes_mut().iter().all(|byte| unsafe { byte.assume_init() } == 0));
}

#[test]
fn every_way_to_allocate_names_its_line() {
    static OWNERS: PageOwners = PageOwners::new();
    let frames = boot::<2>();
    let table = Box::leak(Box::new(frames.frame_table(|_| OwnerMark::default()).unwrap()));
    assert!(frames.track_owners(&OWNERS, table));
    assert!(!frames.track_owners(&OWNERS, table));
    let before = OWNERS.mark();
    let first = line!();
    let one = frames.alloc(Gfp::KERNEL).unwrap();
    let two = frames.request().order(Order::new(3).unwrap()).alloc().unwrap();
    let three = frames.request().contiguous(3).unwrap();
    let four = frames.alloc_exact(5, Gfp::KERNEL).unwrap();
    let five = frames.request().contiguous(1100).unwrap();
    let six = frames.alloc_order(Order::ZERO, Gfp::ATOMIC).unwrap();
    let mut seven = [pageblock::Pfn::new(0); 3];
    frames.alloc_bulk(Gfp::KERNEL, &mut seven).unwrap();
    let last = line!();
    let parts: Vec<_> = two.split(Order::ZERO).unwrap().collect();
    let mut lines = std::collections::BTreeMap::new();
    frames.held_since(before, OWNERS.mark(), |block| {
        *lines.entry(block.location.unwrap().line()).or_insert(0) += block.order.frames();
    });
    let expected = [1, 8, 3, 5, 1100, 1, 3];
    assert_eq!(lines.values().copied().collect::<Vec<u64>>(), expected, "{lines:?}");
    assert!(lines.keys().all(|line| (first..last).contains(line)), "{lines:?}");
    let mut top = [SiteUsage::default(); 2];
    assert_eq!(frames.top_sites(&mut top), 2);
    // The table itself was allocated before it was there.
    assert_eq!((top[0].frames, top[0].location.map(|at| at.line())), (1100, Some(first + 5)));
    assert_eq!(top[1].location, None);
    assert!(top[0].to_string().contains("diagnosis.rs"));
    drop((one, parts, three, four, five, six));
}

#[test]
fn a_table_for_each_frame_is_made_of_frames() {
    let frames = boot::<3>();
    let free = frames.stats().free;
    let table: FrameTable<u64> = frames.frame_table(|pfn| pfn.as_u64() * 3).unwrap();
    assert_eq!(table.pfns(), frames.span());
    assert_eq!(frames.stats().free, free - FrameTable::<u64>::bytes(frames.span()).div_ceil(4096) as u64);
    assert!((0..4096).all(|pfn| table.get(pageblock::Pfn::new(pfn)) == Some(&(pfn * 3))));
    assert_eq!(table.get(pageblock::Pfn::new(4096)), None);
}
