//! Prints times of ours, the peers and the floors as a table, each against the floor with a state byte and one thread.
//! `ratios [LOOP…]`; without names all loops: pair0, pair3, pair9, mix, bulk, random, remote.

use pageblock_benches::allocators::{Bitmap, BuddySystem, OurZone};
use pageblock_benches::floor::Floor;
use pageblock_benches::machine::Machine;
use pageblock_benches::ratios::{Before, Freeing, Times, bulk, mix, pair, remote};
use pageblock_benches::two::{Locked, PerCpuDepot, Shared};
use pageblock_testkit::conformance::peers::{FrameAlloc, Summary};

/// A loop on one allocator: its lines.
type Loop = fn(&'static str) -> Vec<Line>;

struct Line {
    group: &'static str,
    name: &'static str,
    times: Times,
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    println!("| loop | allocator | ns alone | ns beside another | beside/alone | alone/floor |");
    println!("|---|---|---:|---:|---:|---:|");
    for (name, loops) in ALL {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let lines: Vec<Line> = loops.iter().flat_map(|of| of(name)).collect();
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
    // A depot or a bare stack keeps nothing of what was before.
    if S::NAME == <Machine as Shared>::NAME {
        lines.push(Line { group, name: "pageblock, fresh", times: pair::<S, ORDER>(Before::Nothing) });
    }
    lines
}

fn mixes<S: Shared>(group: &'static str) -> Vec<Line> {
    vec![Line { group, name: S::NAME, times: mix::<S>() }]
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

/// The floors serve single frames only.
macro_rules! every {
    ($($loop:tt)*) => {
        &[
            $($loop)*::<Floor<false>>, $($loop)*::<Floor<true>>, $($loop)*::<Machine>, $($loop)*::<OurZone>,
            $($loop)*::<FrameAlloc<Summary>>, $($loop)*::<FrameAlloc<PerCpuDepot>>,
            $($loop)*::<Locked<BuddySystem>>, $($loop)*::<Locked<Bitmap>>,
        ]
    };
}

const ALL: [(&str, &[Loop]); 7] = [
    (
        "pair0",
        &[
            pairs::<Floor<false>, 0>,
            pairs::<Floor<true>, 0>,
            pairs::<Machine, 0>,
            pairs::<OurZone, 0>,
            pairs::<FrameAlloc<Summary>, 0>,
            pairs::<FrameAlloc<PerCpuDepot>, 0>,
            pairs::<Locked<BuddySystem>, 0>,
            pairs::<Locked<Bitmap>, 0>,
        ],
    ),
    (
        "pair3",
        &[
            pairs::<Machine, 3>,
            pairs::<OurZone, 3>,
            pairs::<FrameAlloc<Summary>, 3>,
            pairs::<FrameAlloc<PerCpuDepot>, 3>,
            pairs::<Locked<BuddySystem>, 3>,
            pairs::<Locked<Bitmap>, 3>,
        ],
    ),
    (
        "pair9",
        &[
            pairs::<Machine, 9>,
            pairs::<OurZone, 9>,
            pairs::<FrameAlloc<Summary>, 9>,
            pairs::<FrameAlloc<PerCpuDepot>, 9>,
            pairs::<Locked<BuddySystem>, 9>,
        ],
    ),
    (
        "mix",
        &[
            mixes::<Machine>,
            mixes::<OurZone>,
            mixes::<FrameAlloc<Summary>>,
            mixes::<FrameAlloc<PerCpuDepot>>,
            mixes::<Locked<BuddySystem>>,
        ],
    ),
    ("bulk", every!(in_order)),
    ("random", every!(at_random)),
    (
        "remote",
        &[
            by_another::<Machine>,
            by_another::<OurZone>,
            by_another::<FrameAlloc<Summary>>,
            by_another::<FrameAlloc<PerCpuDepot>>,
            by_another::<Locked<BuddySystem>>,
            by_another::<Locked<Bitmap>>,
        ],
    ),
];
