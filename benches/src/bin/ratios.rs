//! Prints times of ours, the peers and the floors as a table, each against the floor with a state byte and one thread.
//! `ratios [--ours] [LOOP…]`; without names all loops: pair0, pair3, pair4, pair9, mix, folios, bulk, random, remote.
//! With `--ours` without the peers.

use pageblock_benches::allocators::{Bitmap, BuddySystem};
use pageblock_benches::floor::Floor;
use pageblock_benches::loads::Orders;
use pageblock_benches::machine::Machine;
use pageblock_benches::ratios::{Before, Freeing, Times, bulk, mix, pair, remote};
use pageblock_benches::two::{Locked, PerCpuDepot, Shared};
use pageblock_testkit::conformance::peers::{FrameAlloc, Summary};

/// A loop on one allocator: the allocator's name, and the maker of the lines.
type Loop = (&'static str, fn(&'static str) -> Vec<Line>);

struct Line {
    group: &'static str,
    name: &'static str,
    times: Times,
}

fn main() {
    let (options, wanted): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|arg| arg == "--ours");
    let ours = [
        <Machine as Shared>::NAME,
        <Machine<2, false> as Shared>::NAME,
        <Floor<false> as Shared>::NAME,
        <Floor<true> as Shared>::NAME,
        <Floor<true, true> as Shared>::NAME,
    ];
    println!("| loop | allocator | ns alone | ns beside another | beside/alone | alone/floor |");
    println!("|---|---|---:|---:|---:|---:|");
    for (name, loops) in ALL {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let lines: Vec<Line> = loops
                .iter()
                .filter(|(allocator, _)| options.is_empty() || ours.contains(allocator))
                .flat_map(|(_, of)| of(name))
                .collect();
            print(&lines);
        }
    }
}

fn print(lines: &[Line]) {
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    for Line { group, name, times } in lines {
        let floor = lines.iter().find(|line| line.group == *group && line.name == <Floor<true> as Shared>::NAME);
        let against = floor.map(|floor| times.alone / floor.times.alone);
        let (alone, beside) = (Some(times.alone), times.beside);
        let [alone, beside, ratio, against] = [alone, beside, times.ratio(), against].map(number);
        println!("| {group} | {name} | {alone} | {beside} | {ratio} | {against} |");
    }
}

fn pairs<S: Shared, const ORDER: u8>(group: &'static str) -> Vec<Line> {
    let mut lines = vec![Line { group, name: S::NAME, times: pair::<S, ORDER>(Before::Work) }];
    // A depot or a bare stack keeps nothing of earlier steps.
    if S::NAME == <Machine as Shared>::NAME {
        lines.push(Line { group, name: "pageblock, fresh", times: pair::<S, ORDER>(Before::Nothing) });
    }
    lines
}

fn mixes<S: Shared>(group: &'static str) -> Vec<Line> {
    vec![Line { group, name: S::NAME, times: mix::<S>(Orders::Small) }]
}

fn folios<S: Shared>(group: &'static str) -> Vec<Line> {
    vec![Line { group, name: S::NAME, times: mix::<S>(Orders::Folios) }]
}

fn in_order<S: Shared>(_: &'static str) -> Vec<Line> {
    let [alloc, free] = bulk::<S>(Freeing::InOrder);
    vec![
        Line { group: "bulk, alloc", name: S::NAME, times: alloc },
        Line { group: "bulk, free in order", name: S::NAME, times: free },
    ]
}

fn at_random<S: Shared>(_: &'static str) -> Vec<Line> {
    let [_, free] = bulk::<S>(Freeing::Random);
    vec![Line { group: "bulk, free in random order", name: S::NAME, times: free }]
}

fn by_another<S: Shared>(_: &'static str) -> Vec<Line> {
    let times = Times { alone: remote::<S>(), beside: None };
    vec![Line { group: "bulk, free by another thread", name: S::NAME, times }]
}

/// A loop, perhaps of one order, on each of these.
macro_rules! on {
    ($loop:ident $order:literal: $($allocator:ty),*) => {
        &[$((<$allocator as Shared>::NAME, $loop::<$allocator, $order>)),*]
    };
    ($loop:ident: $($allocator:ty),*) => {
        &[$((<$allocator as Shared>::NAME, $loop::<$allocator>)),*]
    };
}

type Core = FrameAlloc<Summary>;
type Depot = FrameAlloc<PerCpuDepot>;
type Buddies = Locked<BuddySystem>;
type Bits = Locked<Bitmap>;

/// The floors serve single frames only, the bitmap no pageblocks.
const ALL: [(&str, &[Loop]); 9] = [
    (
        "pair0",
        on!(pairs 0: Floor<false>, Floor<true>, Floor<true, true>, Machine, Machine<2, false>, Core, Depot, Buddies, Bits),
    ),
    ("pair3", on!(pairs 3: Machine, Machine<2, false>, Core, Depot, Buddies, Bits)),
    ("pair9", on!(pairs 9: Machine, Machine<2, false>, Core, Depot, Buddies)),
    ("pair4", on!(pairs 4: Machine, Machine<2, false>, Core, Depot, Buddies)),
    ("mix", on!(mixes: Machine, Core, Depot, Buddies)),
    ("folios", on!(folios: Machine, Core, Depot, Buddies)),
    ("bulk", on!(in_order: Floor<false>, Floor<true>, Machine, Core, Depot, Buddies, Bits)),
    ("random", on!(at_random: Floor<false>, Floor<true>, Machine, Core, Depot, Buddies, Bits)),
    ("remote", on!(by_another: Machine, Core, Depot, Buddies, Bits)),
];
