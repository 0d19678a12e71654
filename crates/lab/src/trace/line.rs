//! One line of ftrace text.
//!
//! `task-pid [cpu] flags timestamp: event: key=value …`. A task's name may hold blanks, dashes and brackets; the column
//! of flags has four or five characters or is missing; frame numbers are hexadecimal or, from old kernels, decimal.
//! Fields are found by name, so that those that some kernels add do not matter.

use pageblock_frame::{MAX_PFN, Order, PAGEBLOCK_ORDER, Pfn, PfnRange, ZoneKind};

use super::text::{Words, decimal, number};
use super::{Allocation, Compaction, Event, Extfrag, ListMove, Record, parse_gfp};
use crate::ParseError;

const HEAD: &str = "`task-pid [cpu] flags timestamp: event:`";
/// Largest number of a migrate type that any kernel prints.
const MAX_TYPE: u64 = 7;

/// Reads one line. `None` for a blank line or a comment; an error that names the expected text otherwise.
///
/// # Errors
/// [`ParseError::Syntax`] for anything that is not a line of ftrace; [`ParseError::Lost`] where the recording says that
/// events were lost: a comment `# entries-in-buffer/entries-written: A/B` with A below B, or `[LOST n EVENTS]`.
///
/// ```
/// use pageblock_frame::{Gfp, Order, Pfn};
/// use pageblock_lab::trace::{Allocation, Event, parse_line};
/// let line = b"kworker/u4:1-31171 [000] .....  2367.332448: mm_page_alloc: page=00000000deadbeef pfn=0x102ed1 \
///     order=0 migratetype=0 gfp_flags=GFP_KERNEL|__GFP_ZERO";
/// let record = parse_line(line).unwrap().unwrap();
/// assert_eq!(record.event, Event::Alloc(Allocation {
///     pfn: Some(Pfn::new(0x102ed1)), order: Order::ZERO, migrate_type: 0, gfp: Gfp::KERNEL | Gfp::ZERO,
/// }));
/// assert_eq!(parse_line(b"# tracer: nop"), Ok(None));
/// assert!(parse_line(b"#  entries-in-buffer/entries-written: 10/12   #P:2").is_err());
/// ```
pub fn parse_line(line: &[u8]) -> Result<Option<Record>, ParseError> {
    let line = line.trim_ascii();
    match line.first() {
        None => return Ok(None),
        Some(b'#') => return comment(line).map(|()| None),
        Some(_) => {}
    }
    if let Some(error) = lost(line) {
        return Err(error);
    }
    let head = head(line).ok_or_else(|| ParseError::syntax(HEAD, line))?;
    let event = event(head.name, head.text)?;
    Ok(Some(Record { cpu: head.cpu, pid: head.pid, micros: head.micros, event }))
}

/// The numbers of events in the file and in the recording, from the header, if the line is that one.
pub(crate) fn entries(comment: &[u8]) -> Option<(u64, u64)> {
    let at = find(comment, b"entries-in-buffer/entries-written:")?;
    let mut words = Words::new(&comment[at..]);
    let numbers = words.nth(1)?;
    let slash = numbers.iter().position(|&byte| byte == b'/')?;
    Some((decimal(&numbers[..slash])?, decimal(&numbers[slash + 1..])?))
}

fn comment(line: &[u8]) -> Result<(), ParseError> {
    match entries(line) {
        Some((kept, written)) if kept < written => Err(ParseError::Lost { events: Some(written - kept) }),
        _ => Ok(()),
    }
}

/// `CPU:1 [LOST 1234 EVENTS]`, or without the number.
fn lost(line: &[u8]) -> Option<ParseError> {
    if !line.starts_with(b"CPU:") || !line.ends_with(b"EVENTS]") {
        return None;
    }
    let at = find(line, b"[LOST ")?;
    Some(ParseError::Lost { events: Words::new(&line[at + 6..]).next().and_then(decimal) })
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

struct Head<'a> {
    pid: u32,
    cpu: u32,
    micros: u64,
    name: &'a [u8],
    text: &'a [u8],
}

/// Finds ` [cpu] ` with a task before it and a timestamp after it.
fn head(line: &[u8]) -> Option<Head<'_>> {
    let mut from = 0;
    loop {
        let open = from + memchr::memchr(b'[', &line[from..])?;
        from = open + 1;
        let close = open + memchr::memchr(b']', &line[open..])?;
        let (Some(cpu), Some(pid)) = (decimal(&line[open + 1..close]), pid(&line[..open])) else { continue };
        if let Some((micros, name, text)) = after_cpu(&line[close + 1..]) {
            return Some(Head { pid, cpu: u32::try_from(cpu).ok()?, micros, name, text });
        }
    }
}

/// The number at the end of `task-pid`, which may be followed by the thread group in parentheses.
fn pid(task: &[u8]) -> Option<u32> {
    let mut task = task.trim_ascii_end();
    if task.last() == Some(&b')') {
        let open = task.iter().rposition(|&byte| byte == b'(')?;
        task = task[..open].trim_ascii_end();
    }
    let dash = task.iter().rposition(|&byte| byte == b'-')?;
    u32::try_from(decimal(&task[dash + 1..])?).ok()
}

/// `flags timestamp: event: text`, the flags being optional.
fn after_cpu(rest: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let mut words = Words::new(rest);
    let first = words.next()?;
    let micros = match timestamp(first) {
        Some(micros) => micros,
        None => timestamp(words.next()?)?,
    };
    let name = words.next()?.strip_suffix(b":")?;
    let name = name.iter().rposition(|&byte| byte == b':').map_or(name, |colon| &name[colon + 1..]);
    Some((micros, name, words.rest()))
}

/// `seconds.fraction:` in microseconds; without a point, a count.
fn timestamp(word: &[u8]) -> Option<u64> {
    let digits = word.strip_suffix(b":")?;
    let Some(point) = memchr::memchr(b'.', digits) else { return decimal(digits) };
    let (seconds, fraction) = (decimal(&digits[..point])?, &digits[point + 1..]);
    let value = decimal(fraction)?;
    let micros = match fraction.len() {
        length @ 1..=6 => value * 10u64.pow(6 - length as u32),
        length @ 7..=9 => value / 10u64.pow(length as u32 - 6),
        _ => return None,
    };
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

fn event(name: &[u8], text: &[u8]) -> Result<Event, ParseError> {
    Ok(match name {
        b"mm_page_alloc" => Event::Alloc(allocation(text)?),
        b"mm_page_free" | b"mm_page_free_direct" => {
            let fields = Fields::read(text)?;
            let (pfn, order) = (fields.pfn()?, fields.order()?);
            Event::Free { pfn: aligned(pfn, order, text)?, order }
        }
        b"mm_page_free_batched" | b"mm_pagevec_free" => Event::FreeBatched { pfn: Fields::read(text)?.pfn()? },
        b"mm_page_alloc_extfrag" => Event::Extfrag(extfrag(text)?),
        b"mm_page_alloc_zone_locked" => Event::ZoneLocked(list_move(text)?),
        b"mm_page_pcpu_drain" => Event::PcpuDrain(list_move(text)?),
        _ if name.starts_with(b"mm_compaction_") => Event::Compaction(compaction(&name[14..], text)?),
        _ => Event::Other,
    })
}

fn allocation(text: &[u8]) -> Result<Allocation, ParseError> {
    let fields = Fields::read(text)?;
    let pfn = fields.pfn()?;
    // Without `page=`, frame 0 can only mean that there is none: no kernel gives it out.
    let failed = match fields.page {
        Some(page) => matches!(page, b"NULL" | b"(null)"),
        None => pfn.as_u64() == 0,
    };
    let gfp = match fields.gfp {
        Some(gfp) => parse_gfp(gfp)?,
        None => return Err(ParseError::syntax("`gfp_flags=`", text)),
    };
    let migrate_type = fields.migrate_type()?;
    let order = fields.order()?;
    let pfn = if failed { None } else { Some(aligned(pfn, order, text)?) };
    Ok(Allocation { pfn, order, migrate_type, gfp })
}

/// A block's first frame: a multiple of its frames.
fn aligned(pfn: Pfn, order: Order, text: &[u8]) -> Result<Pfn, ParseError> {
    let whole = pfn.as_u64().is_multiple_of(order.frames());
    if whole { Ok(pfn) } else { Err(ParseError::syntax("`pfn=` aligned to `order=`", text)) }
}

fn extfrag(text: &[u8]) -> Result<Extfrag, ParseError> {
    let fields = Fields::read(text)?;
    Ok(Extfrag {
        pfn: fields.pfn()?,
        alloc_order: order(fields.need(fields.alloc_order, "`alloc_order=`")?)?,
        fallback_order: order(fields.need(fields.fallback_order, "`fallback_order=`")?)?,
        pageblock_order: fields.pageblock_order.map_or(Ok(PAGEBLOCK_ORDER), order)?,
        wanted: migrate_type(fields.need(fields.alloc_type, "`alloc_migratetype=`")?)?,
        from: migrate_type(fields.need(fields.fallback_type, "`fallback_migratetype=`")?)?,
        change_ownership: fields.change_ownership == Some(b"1"),
    })
}

fn list_move(text: &[u8]) -> Result<ListMove, ParseError> {
    let fields = Fields::read(text)?;
    Ok(ListMove { pfn: fields.pfn()?, order: fields.order()?, migrate_type: fields.migrate_type()? })
}

fn compaction(name: &[u8], text: &[u8]) -> Result<Compaction, ParseError> {
    let counted = |first: &'static str, second: &'static str| -> Result<(u64, u64), ParseError> {
        Ok((count(text, first)?, count(text, second)?))
    };
    Ok(match name {
        b"begin" => Compaction::Begin,
        b"end" => Compaction::End,
        b"migratepages" => {
            let (migrated, failed) = counted("nr_migrated=", "nr_failed=")?;
            Compaction::Migrate { migrated, failed }
        }
        b"isolate_migratepages" => {
            let (scanned, taken) = counted("nr_scanned=", "nr_taken=")?;
            Compaction::IsolateMigrate { range: range(text)?, scanned, taken }
        }
        b"isolate_freepages" | b"fast_isolate_freepages" => {
            let (scanned, taken) = counted("nr_scanned=", "nr_taken=")?;
            Compaction::IsolateFree { scanned, taken }
        }
        b"try_to_compact_pages" => Compaction::TryToCompact {
            order: order(value(text, "order=")?)?,
            gfp: parse_gfp(value(text, "gfp_mask=")?)?,
            priority: priority(text)?,
        },
        b"kcompactd_wake" => {
            let node = value(text, "nid=")?;
            let node = decimal(node).and_then(|node| u8::try_from(node).ok());
            Compaction::KcompactdWake {
                node: node.ok_or_else(|| ParseError::syntax("a node from 0 to 255", text))?,
                order: order(value(text, "order=")?)?,
                limit: zone_limit(text)?,
            }
        }
        b"kcompactd_sleep" => Compaction::KcompactdSleep,
        _ => Compaction::Decision,
    })
}

/// Before 4.8, a migration mode.
fn priority(text: &[u8]) -> Result<u8, ParseError> {
    let mode = value(text, "mode=").ok().and_then(decimal).map(|mode| 2u64.saturating_sub(mode));
    let priority = mode.or_else(|| value(text, "priority=").ok().and_then(decimal)).filter(|&priority| priority <= 2);
    priority.map(|priority| priority as u8).ok_or_else(|| ParseError::syntax("`priority=` from 0 to 2", text))
}

/// The highest zone; its field has had two names. On machines with a zone that others do not have, all of them.
fn zone_limit(text: &[u8]) -> Result<ZoneKind, ParseError> {
    let name = value(text, "classzone_idx=").or_else(|_| value(text, "highest_zoneidx="))?;
    let found = ZoneKind::ALL.into_iter().find(|kind| kind.name().as_bytes() == name);
    Ok(found.unwrap_or(ZoneKind::Movable))
}

/// `range=(0x1000 ~ 0x1200)`, which old kernels do not print.
fn range(text: &[u8]) -> Result<Option<PfnRange>, ParseError> {
    const EXPECTED: &str = "`range=(first ~ end)`";
    let Some(text) = text.strip_prefix(b"range=(") else { return Ok(None) };
    let malformed = || ParseError::syntax(EXPECTED, text);
    let mut words = Words::new(text.split(|&byte| byte == b')').next().unwrap_or_default());
    let bound = |word: Option<&[u8]>| word.and_then(number).filter(|&pfn| pfn <= MAX_PFN).ok_or_else(malformed);
    let start = bound(words.next())?;
    words.literal("~")?;
    Ok(Some(PfnRange::new(Pfn::new(start), Pfn::new(bound(words.next())?))))
}

/// The field that starts with `key`.
fn value<'a>(text: &'a [u8], key: &'static str) -> Result<&'a [u8], ParseError> {
    let value = Words::new(text).find_map(|word| word.strip_prefix(key.as_bytes()));
    value.ok_or_else(|| ParseError::syntax(key, text))
}

/// The number in it.
fn count(text: &[u8], key: &'static str) -> Result<u64, ParseError> {
    let value = value(text, key)?;
    decimal(value).ok_or_else(|| ParseError::syntax(key, value))
}

/// The fields of the `kmem` events, by name; those with other names are passed over.
#[derive(Clone, Copy, Default)]
struct Fields<'a> {
    text: &'a [u8],
    page: Option<&'a [u8]>,
    pfn: Option<&'a [u8]>,
    order: Option<&'a [u8]>,
    migrate_type: Option<&'a [u8]>,
    gfp: Option<&'a [u8]>,
    alloc_order: Option<&'a [u8]>,
    fallback_order: Option<&'a [u8]>,
    pageblock_order: Option<&'a [u8]>,
    alloc_type: Option<&'a [u8]>,
    fallback_type: Option<&'a [u8]>,
    change_ownership: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    #[inline]
    fn read(text: &'a [u8]) -> Result<Self, ParseError> {
        let mut fields = Self { text, ..Self::default() };
        for word in Words::new(text) {
            let Some(equals) = memchr::memchr(b'=', word) else {
                return Err(ParseError::syntax("`key=value`", word));
            };
            let value = Some(&word[equals + 1..]);
            match &word[..equals] {
                b"pfn" => fields.pfn = value,
                b"order" => fields.order = value,
                b"migratetype" => fields.migrate_type = value,
                b"gfp_flags" => fields.gfp = value,
                b"page" => fields.page = value,
                b"alloc_order" => fields.alloc_order = value,
                b"fallback_order" => fields.fallback_order = value,
                b"pageblock_order" => fields.pageblock_order = value,
                b"alloc_migratetype" => fields.alloc_type = value,
                b"fallback_migratetype" => fields.fallback_type = value,
                b"change_ownership" => fields.change_ownership = value,
                _ => {}
            }
        }
        Ok(fields)
    }

    #[inline]
    fn need(&self, value: Option<&'a [u8]>, key: &'static str) -> Result<&'a [u8], ParseError> {
        value.ok_or_else(|| ParseError::syntax(key, self.text))
    }

    #[inline]
    fn pfn(&self) -> Result<Pfn, ParseError> {
        let text = self.need(self.pfn, "`pfn=`")?;
        match number(text) {
            Some(pfn) if pfn < MAX_PFN => Ok(Pfn::new(pfn)),
            _ => Err(ParseError::syntax("a frame number below 2^32", text)),
        }
    }

    #[inline]
    fn order(&self) -> Result<Order, ParseError> {
        order(self.need(self.order, "`order=`")?)
    }

    #[inline]
    fn migrate_type(&self) -> Result<u8, ParseError> {
        migrate_type(self.need(self.migrate_type, "`migratetype=`")?)
    }
}

#[inline]
fn order(text: &[u8]) -> Result<Order, ParseError> {
    let value = decimal(text).and_then(|value| Order::new(u8::try_from(value).ok()?));
    value.ok_or_else(|| ParseError::syntax("an order from 0 to 15", text))
}

#[inline]
fn migrate_type(text: &[u8]) -> Result<u8, ParseError> {
    match decimal(text) {
        Some(value @ 0..=MAX_TYPE) => Ok(value as u8),
        _ => Err(ParseError::syntax("a migrate type from 0 to 7", text)),
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
