//! Random calls of mlock and munlock, in every form, over areas that share pages, against an oracle that knows only
//! which page of which area is locked.

use crate::common::{BASE, FRAMES, Machine, PAGES, frame, nodes, tables};
use pageblock_frame::{DescFlags, Pfn};
use pageblock_lru::{LruEvent, Pagevecs, Unevictable};
use pageblock_mlock::{
    AreaState, Cause, Context, FaultError, MarkError, SpanError, Steps, Stopped, Vpn, mlock, munlock,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Layout {
    /// For each page: none, or (area's number, frame, present).
    pages: Vec<Option<(u8, usize, bool)>>,
    special: u8,
    files: Vec<bool>,
    pool: usize,
    refused: Option<u64>,
}

#[derive(Clone, Debug)]
enum Op {
    Lock { start: u64, length: u64, form: u8 },
    Unlock { start: u64, length: u64, form: u8 },
    Isolate { frame: usize },
    PutBack,
}

fn layout() -> impl Strategy<Value = Layout> {
    // A few areas in address order, a hole here and there; few frames, so that areas share.
    let page = prop_oneof![1 => Just(None), 12 => (0..30_usize, prop::bool::weighted(0.8)).prop_map(Some)];
    (
        prop::collection::vec(page, PAGES as usize),
        prop::collection::vec(6..24_u64, 8),
        0..9_u8,
        prop::collection::vec(prop::bool::weighted(0.3), 30),
        0..FRAMES,
        prop::option::weighted(0.1, 0..PAGES),
    )
        .prop_map(|(pages, lengths, special, files, pool, refused)| {
            let ids: Vec<u8> =
                lengths.iter().enumerate().flat_map(|(id, length)| vec![id as u8; *length as usize]).collect();
            let number = |at: usize| ids.get(at).copied().unwrap_or(7);
            let pages = pages.iter().enumerate().map(|(at, page)| page.map(|(frame, here)| (number(at), frame, here)));
            Layout { pages: pages.collect(), special, files, pool: pool.min(40), refused }
        })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let bytes = PAGES * 4096;
    let range = (0..bytes + 8192, prop_oneof![4 => 0..bytes / 3, 1 => Just(0_u64), 1 => (u64::MAX - 9000)..u64::MAX]);
    let op = prop_oneof![
        4 => (range.clone(), 0..9_u8).prop_map(|((start, length), form)| Op::Lock { start, length, form }),
        5 => (range, 0..9_u8).prop_map(|((start, length), form)| Op::Unlock { start, length, form }),
        2 => (0..30_usize).prop_map(|frame| Op::Isolate { frame }),
        2 => Just(Op::PutBack),
    ];
    prop::collection::vec(op, 1..24)
}

fn steps(form: u8) -> Steps {
    if form == 8 { Steps::default() } else { Steps::first(form) }
}

/// What is locked, by page of the address space.
struct Oracle {
    state: Vec<Option<(u8, AreaState)>>,
    present: Vec<bool>,
    pool: usize,
    refused: Option<u64>,
}

impl Oracle {
    /// The pages `first..end` of a call, or the error that comes before any of them.
    fn range(start: u64, length: u64) -> Result<(u64, u64), Stopped> {
        let address = BASE * 4096 + start;
        let wraps = Stopped { cause: Cause::Range(SpanError::Wraps), pages: 0 };
        let last = (address % 4096).checked_add(length).ok_or(wraps)?;
        let end = (address / 4096).checked_add(last.div_ceil(4096)).ok_or(wraps)?;
        if end >= 1 << 52 { Err(wraps) } else { Ok((address / 4096 - BASE, end - BASE)) }
    }

    /// Page by page: the state changes up to the first bad page.
    fn mark(&mut self, first: u64, end: u64, state: AreaState) -> Result<u64, Stopped> {
        let mut at = first;
        while at < end {
            let vpn = Vpn::new(BASE + at);
            let stopped = |cause| Stopped { cause, pages: at - first };
            let here = self.state.get(at as usize).copied().flatten();
            let Some(area) = here else { return Err(stopped(Cause::Hole { at: vpn })) };
            let same = |page: &u64| self.state.get(*page as usize).copied().flatten() == Some(area);
            let stop = (at..end).find(|page| !same(page)).unwrap_or(end);
            if area.1 != AreaState::Special && area.1 != state {
                if self.refused.is_some_and(|page| (at..stop).contains(&page)) {
                    return Err(stopped(Cause::Mark { at: vpn, error: MarkError::TooManyAreas }));
                }
                (at..stop).for_each(|page| self.state[page as usize] = Some((area.0, state)));
            }
            at = stop;
        }
        Ok(end - first)
    }

    fn lock(&mut self, start: u64, length: u64) -> Result<u64, Stopped> {
        let (first, end) = Self::range(start, length)?;
        self.mark(first, end, AreaState::Locked)?;
        for at in first..end {
            let locked = self.state[at as usize].is_some_and(|area| area.1 == AreaState::Locked);
            if locked && !self.present[at as usize] {
                let cause = Cause::Fault { at: Vpn::new(BASE + at), error: FaultError::NoMemory };
                self.pool = self.pool.checked_sub(1).ok_or(Stopped { cause, pages: end - first })?;
                self.present[at as usize] = true;
            }
        }
        Ok(end - first)
    }

    fn unlock(&mut self, start: u64, length: u64) -> Result<u64, Stopped> {
        let (first, end) = Self::range(start, length)?;
        self.mark(first, end, AreaState::Unlocked)
    }
}

/// Builds the machine that the layout describes.
fn build(machine: &Machine<'_>, layout: &Layout) -> Oracle {
    let mut present = vec![false; PAGES as usize];
    for (number, file) in layout.files.iter().enumerate().filter(|(_, file)| **file).map(|(n, f)| (n, *f)) {
        let page = machine.lrus().page(frame(number)).unwrap();
        page.set_flags(if file { DescFlags::FILE } else { DescFlags::empty() });
        page.store_refs(1); // the page cache's
        assert!(machine.lrus().of(frame(number)).unwrap().add(frame(number)));
    }
    let special = |id: u8| if id == layout.special { AreaState::Special } else { AreaState::Unlocked };
    for (at, (id, number, here)) in layout.pages.iter().enumerate().filter_map(|(at, page)| Some((at, (*page)?))) {
        machine.area(id, at as u64..at as u64 + 1, special(id));
        if here {
            machine.map(at as u64, frame(number));
            present[at] = true;
        }
    }
    machine.pool.lock().unwrap().extend((0..layout.pool).map(|spare| frame(40 + spare)));
    *machine.refused.lock().unwrap() = layout.refused.map(|page| Vpn::new(BASE + page));
    let state = layout.pages.iter().map(|page| page.map(|(id, ..)| (id, special(id)))).collect();
    Oracle { state, present, pool: layout.pool, refused: layout.refused }
}

fn run(machine: &Machine<'_>, oracle: &mut Oracle, op: &Op, off: &mut Vec<Pfn>) {
    let mut vecs = Pagevecs::<14>::new();
    let address = |start: u64| BASE * 4096 + start;
    let context = |vecs, form| Context::new(machine.lrus(), vecs).with_steps(steps(form));
    match *op {
        Op::Lock { start, length, form } => {
            let result = mlock(machine, address(start), length, &mut context(&mut vecs, form));
            assert_eq!(result, oracle.lock(start, length));
        }
        Op::Unlock { start, length, form } => {
            let result = munlock(machine, address(start), length, &mut context(&mut vecs, form));
            assert_eq!(result, oracle.unlock(start, length));
        }
        Op::Isolate { frame: number } => {
            let pfn = frame(number);
            if machine.lrus().of(pfn).unwrap().isolate(pfn).is_ok() {
                off.push(pfn);
            }
        }
        Op::PutBack => {
            for pfn in off.drain(..) {
                assert!(!machine.lrus().of(pfn).unwrap().put_back(pfn));
            }
        }
    }
    vecs.drain(machine.lrus(), &mut |_| unreachable!("every page is mapped"));
}

/// `pgmlocked` is what was unlocked since, one way or the other, and what is still locked.
fn events(machine: &Machine<'_>) -> (u64, u64) {
    let lrus = machine.lrus();
    let cleared = [LruEvent::Munlocked, LruEvent::Stranded, LruEvent::Cleared].map(|event| lrus.event(event));
    (lrus.event(LruEvent::Mlocked), cleared.iter().sum::<u64>() + machine.mlocked().len() as u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_form_keeps_the_triples(layout in layout(), ops in ops()) {
        let tables = tables(FRAMES);
        let nodes = nodes(&tables, Unevictable::Linked);
        let machine = Machine::new(&nodes);
        let mut oracle = build(&machine, &layout);
        let mut off = Vec::new();
        machine.check(&off);
        for op in &ops {
            run(&machine, &mut oracle, op, &mut off);
            let slots = machine.slots.lock().unwrap().clone();
            let states: Vec<_> = slots.iter().map(|slot| slot.map(|slot| (slot.id, slot.state))).collect();
            prop_assert_eq!(&states, &oracle.state);
            machine.check(&off);
            // The posted forms count a page anew that another area keeps locked.
            let (set, cleared) = events(&machine);
            prop_assert!(set >= cleared);
        }
        prop_assert!(machine.freed.lock().unwrap().is_empty());
    }

    #[test]
    fn the_default_counts_every_change_of_the_flag_once(layout in layout(), ops in ops()) {
        let tables = tables(FRAMES);
        let nodes = nodes(&tables, Unevictable::Linked);
        let machine = Machine::new(&nodes);
        let mut oracle = build(&machine, &layout);
        let mut off = Vec::new();
        for op in &ops {
            let op = match op.clone() {
                Op::Lock { start, length, .. } => Op::Lock { start, length, form: 8 },
                Op::Unlock { start, length, .. } => Op::Unlock { start, length, form: 8 },
                op => op,
            };
            run(&machine, &mut oracle, &op, &mut off);
            let (set, cleared) = events(&machine);
            prop_assert_eq!(set, cleared);
        }
    }

    #[test]
    fn everything_unlocked_leaves_nothing_behind(layout in layout(), ops in ops(), form in 0..9_u8) {
        let tables = tables(FRAMES);
        let nodes = nodes(&tables, Unevictable::Linked);
        let machine = Machine::new(&nodes);
        let mut oracle = build(&machine, &Layout { refused: None, ..layout });
        let mut off = Vec::new();
        for op in &ops {
            run(&machine, &mut oracle, op, &mut off);
        }
        run(&machine, &mut oracle, &Op::PutBack, &mut off);
        for page in 0..PAGES {
            run(&machine, &mut oracle, &Op::Unlock { start: page * 4096, length: 4096, form }, &mut off);
        }
        machine.check(&[]);
        prop_assert_eq!(machine.lrus().nr_mlock(), 0);
        prop_assert_eq!(machine.mlocked(), Vec::<Pfn>::new());
    }
}
