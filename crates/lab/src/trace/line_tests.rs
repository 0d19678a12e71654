use pageblock_frame::Gfp;
use proptest::prelude::*;

use super::*;

fn ok(line: &str) -> Record {
    parse_line(line.as_bytes()).unwrap().unwrap()
}

fn refused(line: &str) -> String {
    parse_line(line.as_bytes()).unwrap_err().to_string()
}

#[test]
fn heads_of_all_shapes() {
    for (line, pid, cpu, micros) in [
        ("            bash-1234  [001] d.h.  12.345678: mm_page_free: pfn=1 order=0", 1234, 1, 12_345_678),
        ("<idle>-0 [063] d.s3. 1.000000: mm_page_free: pfn=1 order=0", 0, 63, 1_000_000),
        ("my - odd [9] name-7 [000] .... 2.5: mm_page_free: pfn=1 order=0", 7, 0, 2_500_000),
        ("a b-8 [002] 3.000001: mm_page_free: pfn=1 order=0", 8, 2, 3_000_001),
        ("tar-9 (  77) [002] .N..1 3.000001234: mm_page_free: pfn=1 order=0", 9, 2, 3_000_001),
        ("tar-9 [002] ..... 77123: kmem:mm_page_free: pfn=1 order=0\r", 9, 2, 77123),
    ] {
        let record = ok(line);
        assert_eq!((record.pid, record.cpu, record.micros), (pid, cpu, micros), "{line}");
        assert_eq!(record.event, Event::Free { pfn: Pfn::new(1), order: Order::ZERO }, "{line}");
    }
}

#[test]
fn malformed_heads() {
    for line in [
        "hello",
        "bash-1 [000]",
        "bash-1 [000] .....",
        "bash-1 [x] ..... 1.0: mm_page_free: pfn=1 order=0",
        "bash [000] ..... 1.0: mm_page_free: pfn=1 order=0",
        "bash-1 [000] ..... 1.0 mm_page_free: pfn=1 order=0",
        "bash-1 [000] ..... 1.0: mm_page_free pfn=1 order=0",
        "bash-1 [000] ..... 1.: mm_page_free: pfn=1 order=0",
    ] {
        assert!(refused(line).starts_with("expected `task-pid [cpu] flags timestamp: event:`, found"), "{line}");
    }
}

#[test]
fn malformed_fields_are_named() {
    for (text, expected) in [
        ("mm_page_free: order=0", "expected `pfn=`, found `order=0`"),
        ("mm_page_free: pfn=0x1", "expected `order=`, found `pfn=0x1`"),
        ("mm_page_free: pfn=0xzz order=0", "expected a frame number below 2^32, found `0xzz`"),
        ("mm_page_free: pfn=0x100000000 order=0", "expected a frame number below 2^32, found `0x100000000`"),
        ("mm_page_free: pfn=1 order=16", "expected an order from 0 to 15, found `16`"),
        ("mm_page_free: pfn=1 order", "expected `key=value`, found `order`"),
        ("mm_page_free:", "expected `pfn=`, found the end of the line"),
        ("mm_page_pcpu_drain: pfn=1 order=1 migratetype=9", "expected a migrate type from 0 to 7, found `9`"),
        ("mm_page_alloc: pfn=1 order=1 migratetype=0", "expected `gfp_flags=`, found `pfn=1 order=1 migratetype=0`"),
        (
            "mm_page_alloc: pfn=1 order=1 migratetype=0 gfp_flags=GFP_KERNEL|BAD",
            "expected a request flag such as `GFP_KERNEL` or `__GFP_ZERO`, found `BAD`",
        ),
        ("mm_compaction_migratepages: nr_migrated=3", "expected nr_failed=, found `nr_migrated=3`"),
        (
            "mm_compaction_try_to_compact_pages: order=9 gfp_mask=GFP_KERNEL priority=3",
            "expected `priority=` from 0 to 2, found `order=9 gfp_mask=GFP_KERNEL priority=3`",
        ),
    ] {
        assert_eq!(refused(&format!("a-1 [000] ..... 1.0: {text}")), expected);
    }
}

#[test]
fn failed_allocations() {
    let failed = |page: &str| {
        let line = format!("a-1 [000] .... 1.0: mm_page_alloc: {page} order=9 migratetype=1 gfp_flags=GFP_TRANSHUGE");
        let Event::Alloc(alloc) = ok(&line).event else { panic!("{line}") };
        alloc.pfn.is_none()
    };
    assert!(failed("page=NULL pfn=0") && failed("page=(null) pfn=0") && failed("pfn=0x0"));
    assert!(!failed("page=00000000f00f pfn=0") && !failed("pfn=0x200"));
}

#[test]
fn losses_are_errors() {
    assert_eq!(
        refused("# entries-in-buffer/entries-written: 205/1000   #P:2"),
        "expected a complete recording, found that 795 events were lost"
    );
    assert_eq!(parse_line(b"# entries-in-buffer/entries-written: 205/205   #P:2"), Ok(None));
    assert_eq!(parse_line(b"CPU:1 [LOST 12 EVENTS]"), Err(ParseError::Lost { events: Some(12) }));
    assert_eq!(parse_line(b"CPU:1 [LOST EVENTS]"), Err(ParseError::Lost { events: None }));
    assert_eq!(parse_line(b"##### CPU 1 buffer started ####"), Ok(None));
}

#[test]
fn compaction_of_both_eras() {
    let taken = |text: &str| ok(&format!("a-1 [000] ..... 1.0: mm_compaction_{text}")).event;
    let expected = Event::Compaction(Compaction::IsolateFree { scanned: 20, taken: 1 });
    assert_eq!(taken("isolate_freepages: nr_scanned=20 nr_taken=1"), expected);
    assert_eq!(taken("fast_isolate_freepages: range=(0x2f9000 ~ 0x4ba000) nr_scanned=20 nr_taken=1"), expected);
    let text = "finished: node=0 zone=Normal   order=9 ret=continue";
    assert_eq!(taken(text), Event::Compaction(Compaction::Decision));
    let gfp = Gfp::TRANSHUGE | Gfp::NORETRY;
    let asked = |priority| Event::Compaction(Compaction::TryToCompact { order: PAGEBLOCK_ORDER, gfp, priority });
    let text = "try_to_compact_pages: order=9 gfp_mask=GFP_TRANSHUGE|__GFP_NORETRY";
    assert_eq!(taken(&format!("{text} priority=1")), asked(1));
    assert_eq!(taken(&format!("{text} mode=0")), asked(2));
    let woken = |limit| Event::Compaction(Compaction::KcompactdWake { node: 1, order: PAGEBLOCK_ORDER, limit });
    assert_eq!(taken("kcompactd_wake: nid=1 order=9 classzone_idx=DMA32   "), woken(ZoneKind::Dma32));
    assert_eq!(taken("kcompactd_wake: nid=1 order=9 highest_zoneidx=HighMem"), woken(ZoneKind::Movable));
}

fn any_event() -> impl Strategy<Value = Event> {
    let pfn = || (1..MAX_PFN).prop_map(Pfn::new);
    let order = || (0u8..16).prop_map(|order| Order::new(order).unwrap());
    // A block begins at a multiple of its frames; `parse_line` refuses another.
    let block = move || {
        let aligned = |(pfn, order): (Pfn, Order)| (Pfn::new(pfn.as_u64() & !(order.frames() - 1)), order);
        (pfn(), order()).prop_map(aligned).prop_filter("frame 0 stands for none", |(pfn, _)| pfn.as_u64() != 0)
    };
    let kind = || 0u8..=7;
    let moved =
        move || (pfn(), order(), kind()).prop_map(|(pfn, order, migrate_type)| ListMove { pfn, order, migrate_type });
    let gfp = (0u32..1 << 24).prop_map(Gfp::from_bits_truncate);
    prop_oneof![
        (block(), any::<bool>(), kind(), gfp).prop_map(|((pfn, order), served, migrate_type, gfp)| {
            Event::Alloc(Allocation { pfn: served.then_some(pfn), order, migrate_type, gfp })
        }),
        block().prop_map(|(pfn, order)| Event::Free { pfn, order }),
        pfn().prop_map(|pfn| Event::FreeBatched { pfn }),
        moved().prop_map(Event::ZoneLocked),
        moved().prop_map(Event::PcpuDrain),
        (pfn(), order(), order(), order(), kind(), kind(), any::<bool>()).prop_map(
            |(pfn, alloc_order, fallback_order, pageblock_order, wanted, from, change_ownership)| Event::Extfrag(
                Extfrag { pfn, alloc_order, fallback_order, pageblock_order, wanted, from, change_ownership }
            )
        ),
        (any::<u64>(), any::<u64>())
            .prop_map(|(migrated, failed)| Event::Compaction(Compaction::Migrate { migrated, failed })),
        (proptest::option::of((pfn(), pfn())), any::<u64>(), any::<u64>()).prop_map(|(range, scanned, taken)| {
            let range = range.map(|(start, end)| PfnRange::new(start, end));
            Event::Compaction(Compaction::IsolateMigrate { range, scanned, taken })
        }),
        Just(Event::Compaction(Compaction::Begin)),
        Just(Event::Other),
    ]
}

proptest! {
    #[test]
    fn records_read_back(event in any_event(), cpu in 0u32..4096, pid: u32, micros in 0u64..1 << 50) {
        let record = Record { cpu, pid, micros, event };
        prop_assert_eq!(parse_line(record.to_string().as_bytes()), Ok(Some(record)));
    }

    #[test]
    fn no_bytes_make_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_line(&line);
    }

    #[test]
    fn no_damage_makes_it_panic(event in any_event(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let record = Record { cpu: 1, pid: 2, micros: 3, event };
        let mut line = record.to_string().into_bytes();
        let place = at.index(line.len());
        line[place] = byte;
        let _ = parse_line(&line);
        line.truncate(cut.index(line.len()));
        let _ = parse_line(&line);
    }
}
