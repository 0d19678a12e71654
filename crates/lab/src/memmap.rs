//! A machine's memory map as Linux shows it: `/proc/iomem`, or the e820 map in a boot log.

use std::path::Path;

use pageblock_frame::NodeId;
use pageblock_memmap::{Region, RegionKind};

use crate::trace::{LineSource, Words, hexadecimal};
use crate::{InputError, ParseError};

const IOMEM_LINE: &str = "`start-end : name` with hexadecimal addresses";
const E820_LINE: &str = "`BIOS-e820: [mem 0xstart-0xend] kind`";
const SRAT_LINE: &str = "`SRAT: Node n PXM n [mem 0xstart-0xend]`";
const E820_MARK: &str = "BIOS-e820:";
const SRAT_MARK: &str = "SRAT: Node ";

/// Reads a file, plain or zstd; which of the two formats it has is seen from its lines.
///
/// # Errors
/// The first malformed line with its number; no memory in the whole file; the file cannot be read.
pub fn load(path: &Path) -> Result<Vec<Region>, InputError> {
    let mut source = LineSource::open(path, "a memory map: /proc/iomem or a boot log with BIOS-e820 lines")?;
    let mut text = String::new();
    while let Some(line) = source.next_line()? {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    parse(path, &text)
}

/// Reads the text of a file called `path`.
///
/// ```
/// use pageblock_memmap::{MapOptions, RegionMap};
/// let log = "[    0.000000] BIOS-provided physical RAM map:\n\
///            [    0.000000] BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable\n";
/// let regions = pageblock_lab::memmap::parse("dmesg".as_ref(), log).unwrap();
/// let map: RegionMap = RegionMap::build(regions, &[], MapOptions::new()).unwrap();
/// assert_eq!(map.usable_frames(), 0x9f);
/// ```
///
/// # Errors
/// As [`load`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<Region>, InputError> {
    let mut regions = Vec::new();
    let is_log = text.contains(E820_MARK);
    let mut under_ram = false;
    for (number, line) in text.lines().enumerate() {
        let parsed = if is_log { log_line(line) } else { iomem_line(line, &mut under_ram) };
        regions.extend(parsed.map_err(|error| InputError::line(path, number as u64 + 1, error))?);
    }
    let usable = || regions.iter().filter(|region| region.kind == RegionKind::Usable);
    if usable().next().is_none() {
        let expected = "at least one `System RAM` line or one usable `BIOS-e820` line";
        return Err(InputError::content(path, expected));
    }
    if usable().all(|region| region.end.as_u64() <= 1) {
        return Err(InputError::content(path, "addresses; without root, Linux prints every one of /proc/iomem as 0"));
    }
    Ok(regions)
}

/// A line of a boot log: an entry of the firmware's map, a node's range, or something else.
fn log_line(line: &str) -> Result<Option<Region>, ParseError> {
    if let Some((_, entry)) = line.split_once(E820_MARK) {
        let (region, kind) = mem_range(entry, E820_LINE)?;
        if kind.is_empty() {
            return Err(ParseError::syntax(E820_LINE, entry.as_bytes()));
        }
        return Ok(Some(Region { kind: e820_kind(kind), ..region }));
    }
    let Some((_, entry)) = line.split_once(SRAT_MARK) else { return Ok(None) };
    let fault = || ParseError::syntax(SRAT_LINE, entry.as_bytes());
    let (head, _) = entry.split_once("[mem").ok_or_else(fault)?;
    let node = head.split_ascii_whitespace().next().and_then(|number| number.parse().ok()).ok_or_else(fault)?;
    let (region, _) = mem_range(&entry[head.len()..], SRAT_LINE)?;
    Ok(Some(Region { kind: RegionKind::Affinity, ..region }.with_node(NodeId::new(node))))
}

/// `[mem 0xstart-0xend]`, the end being the last byte, and the text after it.
fn mem_range<'a>(text: &'a str, expected: &'static str) -> Result<(Region, &'a str), ParseError> {
    let fault = || ParseError::syntax(expected, text.as_bytes());
    let (range, rest) =
        text.trim_start().strip_prefix("[mem ").and_then(|text| text.split_once(']')).ok_or_else(fault)?;
    let (start, last) = range.split_once('-').ok_or_else(fault)?;
    let address = |text: &str| text.strip_prefix("0x").and_then(|digits| hexadecimal(digits.as_bytes()));
    let (start, last) = address(start).zip(address(last)).ok_or_else(fault)?;
    Ok((inclusive(start, last).ok_or_else(fault)?, rest.trim()))
}

/// The kind by the words of `e820_print_type()`; whatever is not known is left alone.
fn e820_kind(words: &str) -> RegionKind {
    match words {
        "usable" | "System RAM" => RegionKind::Usable,
        "ACPI data" => RegionKind::Reclaimable,
        _ => RegionKind::Reserved,
    }
}

/// A line of `/proc/iomem`; `None` for ranges that are no memory. `under_ram` says if the last line at the margin was
/// memory.
fn iomem_line(line: &str, under_ram: &mut bool) -> Result<Option<Region>, ParseError> {
    if line.trim().is_empty() {
        return Ok(None);
    }
    let fault = || ParseError::syntax(IOMEM_LINE, line.trim().as_bytes());
    let mut words = Words::new(line.as_bytes());
    let range = std::str::from_utf8(words.expect(IOMEM_LINE)?).map_err(|_| fault())?;
    let (start, last) = range.split_once('-').ok_or_else(fault)?;
    let (start, last) = hexadecimal(start.as_bytes()).zip(hexadecimal(last.as_bytes())).ok_or_else(fault)?;
    let region = inclusive(start, last).ok_or_else(fault)?;
    let name = words.next().filter(|colon| *colon == b":").and_then(|_| std::str::from_utf8(words.rest()).ok());
    let name = name.ok_or_else(fault)?;
    let is_nested = line.starts_with(' ');
    if !is_nested {
        *under_ram = name.starts_with("System RAM");
    }
    Ok(iomem_kind(name, is_nested && *under_ram).map(|kind| Region { kind, ..region }))
}

fn iomem_kind(name: &str, is_in_ram: bool) -> Option<RegionKind> {
    match name {
        "System RAM" | "System RAM (kmem)" => Some(RegionKind::Usable),
        "ACPI Tables" => Some(RegionKind::Reclaimable),
        "Crash kernel" => Some(RegionKind::Kernel),
        "Reserved" | "reserved" if is_in_ram => Some(RegionKind::Kernel),
        "Reserved" | "reserved" | "ACPI Non-volatile Storage" | "Unusable memory" => Some(RegionKind::Reserved),
        name if is_in_ram && name.starts_with("Kernel ") => Some(RegionKind::Kernel),
        _ => None,
    }
}

/// The bytes from `start` to `last`, both in it.
fn inclusive(start: u64, last: u64) -> Option<Region> {
    (start <= last).then(|| Region::new(start, last.saturating_add(1), RegionKind::Reserved))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(text: &str) -> Vec<(u64, u64, RegionKind, usize)> {
        let regions = parse("map".as_ref(), text).unwrap();
        let row = |region: &Region| (region.start.as_u64(), region.end.as_u64(), region.kind, region.node.index());
        regions.iter().map(row).collect()
    }

    fn refused(text: &str) -> String {
        parse("map".as_ref(), text).unwrap_err().to_string()
    }

    #[test]
    fn iomem_keeps_the_kernel_out_and_knows_nested_lines() {
        let text = "00000000-00000fff : Reserved\n\
                    00001000-0009fbff : System RAM\n\
                    000a0000-000bffff : PCI Bus 0000:00\n\
                    00100000-bfffffff : System RAM\n  \
                      01000000-01dfffff : Kernel code\n  \
                      02000000-02001fff : Reserved\n\
                    c0000000-c0000fff : ACPI Tables\n\
                    fec00000-fec003ff : IOAPIC 0\n  \
                      fec00000-fec00fff : Reserved\n";
        use RegionKind::{Kernel, Reclaimable, Reserved, Usable};
        assert_eq!(
            rows(text),
            [
                (0, 0x1000, Reserved, 0),
                (0x1000, 0x9_fc00, Usable, 0),
                (0x10_0000, 0xc000_0000, Usable, 0),
                (0x100_0000, 0x1e0_0000, Kernel, 0),
                (0x200_0000, 0x200_2000, Kernel, 0),
                (0xc000_0000, 0xc000_1000, Reclaimable, 0),
                (0xfec0_0000, 0xfec0_1000, Reserved, 0),
            ]
        );
    }

    #[test]
    fn boot_logs_with_and_without_timestamps_and_with_nodes() {
        let bare = "BIOS-provided physical RAM map:\n\
                    BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable\n\
                    BIOS-e820: [mem 0x000000000009fc00-0x000000000009ffff] reserved\n\
                    BIOS-e820: [mem 0x0000000000100000-0x00000000bfffffff] usable\n\
                    BIOS-e820: [mem 0x00000000c0000000-0x00000000c0000fff] ACPI data\n\
                    BIOS-e820: [mem 0x00000000c0001000-0x00000000c0001fff] ACPI NVS\n\
                    BIOS-e820: [mem 0x0000000100000000-0xffffffffffffffff] type 20\n\
                    e820: update [mem 0x00000000-0x00000fff] usable ==> reserved\n\
                    ACPI: SRAT: Node 1 PXM 1 [mem 0x80000000-0xbfffffff] hotplug\n";
        use RegionKind::{Affinity, Reclaimable, Reserved, Usable};
        let expected = [
            (0, 0x9_fc00, Usable, 0),
            (0x9_fc00, 0xa_0000, Reserved, 0),
            (0x10_0000, 0xc000_0000, Usable, 0),
            (0xc000_0000, 0xc000_1000, Reclaimable, 0),
            (0xc000_1000, 0xc000_2000, Reserved, 0),
            (0x1_0000_0000, u64::MAX, Reserved, 0),
            (0x8000_0000, 0xc000_0000, Affinity, 1),
        ];
        assert_eq!(rows(bare), expected);
        let stamped: String = bare.lines().map(|line| format!("<6>[    0.000000] {line}\n")).collect();
        assert_eq!(rows(&stamped), expected);
        let journal: String = bare.lines().map(|line| format!("Nov 21 06:00:00 host kernel: {line}\r\n")).collect();
        assert_eq!(rows(&journal), expected);
    }

    #[test]
    fn faults_carry_the_line_and_what_was_expected() {
        let expected = "map:2: expected `start-end : name` with hexadecimal addresses, found `00-zz : System RAM`";
        assert_eq!(refused("0-fff : System RAM\n  00-zz : System RAM\n"), expected);
        assert!(refused("0-fff System RAM\n").starts_with("map:1: expected `start-end : name`"));
        assert!(refused("2000-1000 : System RAM\n").starts_with("map:1: expected"));
        let broken = "\n[0.0] BIOS-e820: [mem 0x0-0x9fbff usable\n";
        assert!(refused(broken).starts_with("map:2: expected `BIOS-e820: [mem 0xstart-0xend] kind`, found"));
        assert!(refused("BIOS-e820: [mem 0x2000-0x1000] usable\n").starts_with("map:1: expected `BIOS-e820:"));
        assert!(refused("BIOS-e820: [mem 0x0-0x1000]\n").starts_with("map:1: expected `BIOS-e820:"));
        let node = "BIOS-e820: [mem 0x0-0xfff] usable\nSRAT: Node 300 PXM 1 [mem 0x0-0xfff]\n";
        assert!(refused(node).starts_with("map:2: expected `SRAT: Node n"));
    }

    #[test]
    fn a_map_without_memory_or_addresses_says_so() {
        assert!(refused("").starts_with("map: expected at least one `System RAM` line"));
        assert!(refused("0-fff : Reserved\n").starts_with("map: expected at least one"));
        assert!(refused("00000000-00000000 : System RAM\n").contains("without root"));
    }

    #[test]
    fn a_missing_or_binary_file_is_an_error() {
        let missing = load("no/such/file".as_ref()).unwrap_err().to_string();
        assert!(missing.starts_with("no/such/file: expected a memory map"), "{missing}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        std::fs::write(&path, [0xff, 0xfe, b'\n', 0]).unwrap();
        assert!(matches!(load(&path).unwrap_err(), InputError::Line { line: 1, .. }));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(BIOS-e820:|SRAT: Node |\\[mem |0x|[0-9a-f]{1,17}|-| : |System RAM|\\]|\n|.){0,40}") {
            if let Ok(regions) = parse("map".as_ref(), &text) {
                prop_assert!(regions.iter().all(|region| region.start <= region.end));
            }
        }
    }
}
