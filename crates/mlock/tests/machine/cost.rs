//! What each step costs where it can be counted from outside, and where tables and zones cut the batches.

use pageblock_frame::Pfn;
use pageblock_lru::{LruList, Pagevecs, Unevictable};
use pageblock_mlock::{
    Accounting, AddressSpace, AreaState, Context, Entry, FaultError, Levels, LockedArea, MarkError, PageTable,
    SoftTableGuard, Span, Steps, Table, Vpn, Walk, mlock_pages, munlock_pages,
};

use crate::common::{BASE, FRAMES, Machine, frame, nodes, tables};

/// Walks of an unlock of `pages` pages that were locked; every `stride`th frame, so that 1 alternates between the
/// nodes.
fn walks(steps: Steps, pages: u64, stride: usize) -> u64 {
    let tables = tables(FRAMES);
    let nodes = nodes(&tables, Unevictable::Linked);
    let machine = Machine::new(&nodes);
    machine.area(0, 24..24 + pages, AreaState::Unlocked); // from the start of a table
    (0..pages).for_each(|at| machine.map(24 + at, frame(at as usize * stride)));
    let span = Span::new(Vpn::new(BASE + 24), Vpn::new(BASE + 24 + pages));
    let mut vecs = Pagevecs::<14>::new();
    let mut context = Context::new(machine.lrus(), &mut vecs).with_steps(steps);
    mlock_pages(&machine, span, &mut context);
    *machine.walks.lock().unwrap() = 0;
    munlock_pages(&machine, span, &mut context);
    vecs.drain(machine.lrus(), &mut |_| unreachable!());
    assert_eq!(machine.lrus().nr_mlock(), 0);
    assert_eq!(machine.mlocked(), Vec::<Pfn>::new());
    *machine.walks.lock().unwrap()
}

#[test]
fn page_table_round_trips_follow_the_cost_table() {
    for patches in 0..7 {
        assert_eq!(walks(Steps::first(patches), 28, 2), 28, "a walk a page");
    }
    assert_eq!(walks(Steps::first(7), 28, 2), 2, "one hold of the lock for each vector of 14");
    let merged = Steps::linux_3_12(Accounting::Exact);
    assert_eq!(walks(merged, 28, 2), 4, "a walk and a locked look-up for each vector");
    assert_eq!(walks(Steps::default(), 28, 2), 1, "one hold of the table's lock");
    // Nodes alternate: one page a vector.
    assert_eq!(walks(Steps::first(6), 28, 1), 28);
    assert_eq!(walks(Steps::first(7), 28, 1), 28);
    assert_eq!(walks(merged, 28, 1), 56, "both round trips for every page");
    assert_eq!(walks(Steps::default(), 28, 1), 1, "the other zone waits in the bitmap");
}

#[test]
fn pages_of_each_zone_end_up_on_their_own_list_in_address_order() {
    for steps in [Steps::first(0), Steps::first(2), Steps::first(4), Steps::first(5), Steps::first(7), Steps::default()]
    {
        let tables = tables(FRAMES);
        let nodes = nodes(&tables, Unevictable::Linked);
        let machine = Machine::new(&nodes);
        machine.area(0, 0..60, AreaState::Unlocked);
        (0..60).for_each(|at| machine.map(at, frame(at as usize)));
        let span = Span::new(Vpn::new(BASE), Vpn::new(BASE + 60));
        let mut vecs = Pagevecs::<14>::new();
        let mut context = Context::new(machine.lrus(), &mut vecs).with_steps(steps);
        mlock_pages(&machine, span, &mut context);
        assert!(nodes.iter().all(|lru| lru.frames(LruList::Unevictable) == 30));
        munlock_pages(&machine, span, &mut context);
        vecs.drain(machine.lrus(), &mut |_| unreachable!());
        machine.check(&[]);
        for lru in &nodes {
            let mut pages = arrayvec::ArrayVec::<Pfn, 64>::new();
            lru.isolate_tail(LruList::InactiveAnon, 64, &mut pages);
            let expected: Vec<Pfn> = (0..30).map(|index| lru.pfn_of(index)).collect();
            assert_eq!(pages.as_slice(), expected, "{steps:?}");
            lru.put_back_all(&mut pages);
        }
    }
}

/// A machine whose lowest level is folded away: tables of 16 pages, which end elsewhere than 512 would say. Its guard
/// refuses to be asked for pages of another table.
struct Folded<'a>(Machine<'a>);

struct FoldedGuard<'a> {
    table: SoftTableGuard<'a>,
    number: u64,
}

impl Table for FoldedGuard<'_> {
    fn entry(&self, at: Vpn) -> Entry {
        assert_eq!(at.as_u64() / 16, self.number, "{at} is in another table");
        self.table.entry(at)
    }
}

impl PageTable for Folded<'_> {
    const LEVELS: Levels = Levels::new([0, 4, 0, 9]);
    type Table<'b>
        = FoldedGuard<'b>
    where
        Self: 'b;

    fn walk(&self, at: Vpn) -> Walk<FoldedGuard<'_>> {
        match self.0.walk(at) {
            Walk::Table(table) => Walk::Table(FoldedGuard { table, number: at.as_u64() / 16 }),
            Walk::Absent(_) | Walk::Huge(..) => Walk::Absent(Self::LEVELS.table_end(at)),
        }
    }
}

impl AddressSpace for Folded<'_> {
    fn area(&self, at: Vpn) -> Option<LockedArea> {
        AddressSpace::area(&self.0, at)
    }

    fn mark(&self, part: Span, state: AreaState) -> Result<(), MarkError> {
        self.0.mark(part, state)
    }

    fn fault_in(&self, at: Vpn) -> Result<(), FaultError> {
        self.0.fault_in(at)
    }

    fn locked_by_any(&self, pfn: Pfn) -> bool {
        self.0.locked_by_any(pfn)
    }

    fn free(&self, pfn: Pfn) {
        self.0.free(pfn);
    }
}

#[test]
fn no_form_reads_past_the_end_of_a_table_with_folded_levels() {
    for steps in (0..8).map(Steps::first).chain([Steps::default()]) {
        let tables = tables(FRAMES);
        let nodes = nodes(&tables, Unevictable::Linked);
        let machine = Folded(Machine::new(&nodes));
        machine.0.area(0, 3..60, AreaState::Unlocked);
        (3..60).for_each(|at| machine.0.map(at, frame(at as usize)));
        let mut vecs = Pagevecs::<14>::new();
        let mut context = Context::new(machine.0.lrus(), &mut vecs).with_steps(steps);
        let (address, length) = ((BASE + 3) * 4096, 57 * 4096);
        assert_eq!(pageblock_mlock::mlock(&machine, address, length, &mut context), Ok(57));
        assert_eq!(machine.0.lrus().nr_mlock(), 57);
        assert_eq!(pageblock_mlock::munlock(&machine, address, length, &mut context), Ok(57));
        vecs.drain(machine.0.lrus(), &mut |_| unreachable!());
        machine.0.check(&[]);
        assert_eq!(machine.0.lrus().nr_mlock(), 0);
    }
}
