//! Watermark boost: what a mixing of migrate types does to its zone.

use pageblock::{BoostRule, Config, Experiment, Gfp, MigrateType, Platform, Zone, ZoneKind, ZoneLimits, ZoneSpreading};

use crate::machine::{Booted, MIB, boot_on, memory, order, zone};
use crate::pressed::{self, Pressed};

pub(crate) const SINGLE: Config = Config::new()
    .zones(ZoneLimits::single())
    .spreading(ZoneSpreading::On)
    .min_free_kbytes(Some(1024))
    .per_cpu_lists(None);

/// Boots a machine whose pageblocks all have movable residents and, between them, one free frame in eight: whatever is
/// not movable has to mix.
pub(crate) fn mixed_up<P: Platform>(config: &Config) -> (Booted<P>, &'static Zone<'static>) {
    let frames = boot_on::<P>(&memory(64 * MIB), config).unwrap();
    let normal = zone(&frames, 0, ZoneKind::Normal);
    for at in (0..normal.managed()).filter(|at| at % 8 != 0) {
        let _ = frames.alloc_at(normal.span().start.add(at), order(0)).unwrap().into_raw();
    }
    (frames, normal)
}

fn mix<P: Platform>(frames: &Booted<P>, gfp: Gfp) {
    let _ = frames.alloc(gfp).unwrap().into_raw();
}

#[test]
fn a_mixing_boosts_by_a_pageblock_and_wakes_kswapd_once() {
    let (frames, normal) = mixed_up::<Pressed>(&SINGLE);
    pressed::wakes();
    mix(&frames, Gfp::KERNEL);
    assert_eq!((normal.boost(), pressed::wakes()), (512, 1));
    let events = frames.events();
    assert_eq!((events.fragmenting(), events.boosts, events.claims), (1, 1, 0));
    assert_eq!(events.by_type[MigrateType::Unmovable.index()][MigrateType::Movable.index()], 1);
    // The pageblock that is mixed now serves on without another event.
    mix(&frames, Gfp::KERNEL);
    assert_eq!((normal.boost(), pressed::wakes()), (512, 0));
    mix(&frames, Gfp::KERNEL | Gfp::RECLAIMABLE);
    assert_eq!(frames.events().boosts, 2);
    assert_eq!(normal.boost(), normal.boost_rule().cap(normal.watermarks().high, 0, normal.managed()).min(1024));
}

#[test]
fn who_may_not_wake_kswapd_leaves_that_to_the_next() {
    let (frames, normal) = mixed_up::<Pressed>(&SINGLE);
    pressed::wakes();
    mix(&frames, Gfp::KERNEL.difference(Gfp::KSWAPD_RECLAIM));
    assert_eq!((normal.boost(), pressed::wakes()), (512, 0));
    mix(&frames, Gfp::KERNEL);
    assert_eq!((normal.boost(), pressed::wakes()), (512, 1));

    let (frames, normal) = mixed_up::<Pressed>(&SINGLE.experiment(Experiment::Boost(BoostRule::posted())));
    pressed::wakes();
    mix(&frames, Gfp::KERNEL.difference(Gfp::KSWAPD_RECLAIM));
    assert_eq!((normal.boost(), pressed::wakes()), (512, 1), "as posted, the wake asks nobody");
}

#[test]
fn kswapd_takes_off_what_it_saw() {
    let (frames, normal) = mixed_up::<Pressed>(&SINGLE);
    mix(&frames, Gfp::KERNEL);
    let seen = normal.boost();
    normal.set_boost(seen + 100); // boosted again meanwhile
    normal.lower_boost(seen);
    assert_eq!(normal.boost(), 100);
    normal.lower_boost(seen);
    assert_eq!(normal.boost(), 0);
}

#[test]
fn nothing_is_boosted_where_nothing_could_be_reclaimed_or_the_factor_is_0() {
    let (frames, normal) = mixed_up::<pageblock_testkit::host::Host<62>>(&SINGLE);
    mix(&frames, Gfp::KERNEL);
    assert_eq!((normal.boost(), frames.events().fragmenting(), frames.events().boosts), (0, 1, 0));
    let (frames, normal) = mixed_up::<Pressed>(&SINGLE.experiment(Experiment::Boost(BoostRule::off())));
    pressed::wakes();
    mix(&frames, Gfp::KERNEL);
    assert_eq!((normal.boost(), pressed::wakes()), (0, 0));
}

#[test]
fn the_posted_cap_grows_with_the_boost() {
    let boosted = |rule: BoostRule| {
        let (frames, normal) =
            mixed_up::<Pressed>(&SINGLE.experiment(Experiment::Boost(rule)).min_free_kbytes(Some(512)));
        // Alternating types, each of which has to look for a new victim when its pageblock is used up.
        for i in 0..400 {
            let types = if i % 2 == 0 { Gfp::empty() } else { Gfp::RECLAIMABLE };
            mix(&frames, Gfp::ATOMIC | types);
        }
        (normal.boost(), frames.events().boosts)
    };
    let (corrected, events) = boosted(BoostRule::new());
    assert!(events > 4, "{events}");
    assert_eq!(corrected, 512);
    let (posted, events) = boosted(BoostRule::posted());
    assert_eq!(posted, 512 * events);
}

#[test]
fn what_is_boosted_serves_at_last_though_nothing_is_kept_apart() {
    let config = SINGLE.spreading(ZoneSpreading::Off);
    let (frames, normal) = mixed_up::<pageblock_testkit::host::Host<62>>(&config);
    let marks = normal.watermarks();
    assert!(normal.free_frames() > marks.min + 64);
    assert!(frames.alloc(Gfp::KERNEL).is_ok());
    normal.set_boost(normal.free_frames());
    assert!(frames.alloc(Gfp::KERNEL | Gfp::NORETRY).is_ok(), "free above the mark that is not boosted");
}
