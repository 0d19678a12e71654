//! Recorded traces of Linux, replayed through any allocator: which frames were in use at the start, then every
//! allocation and free, on the CPU that made it, without migrate types.
//!
//! Traces are those of the tree and of the folder that `PAGEBLOCK_TRACES` names. The parsed form of one is kept beside
//! the program.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;

use crate::Frames;
use crate::machine::become_cpu;

/// Frames of a pageblock, and its order.
const PAGEBLOCK: u32 = 512;
const PAGEBLOCK_ORDER: u8 = 9;

/// Events of a block of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// It is in use when the recording begins.
    Held,
    /// A pageblock is in use, as one block.
    HeldWhole,
    Alloc,
    Free,
}

/// One event; of `Held` ones `count` frames follow each other, else it is the order.
#[derive(Clone, Copy, Debug)]
struct Event {
    pfn: u32,
    count: u32,
    kind: Kind,
    cpu: u8,
}

impl Event {
    fn to_bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..4].copy_from_slice(&self.pfn.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes[9] = self.cpu;
        bytes
    }

    fn from_bytes(bytes: [u8; 10]) -> Self {
        let [p0, p1, p2, p3, c0, c1, c2, c3, kind, cpu] = bytes;
        let kind = match kind {
            0 => Kind::Held,
            1 => Kind::HeldWhole,
            2 => Kind::Alloc,
            _ => Kind::Free,
        };
        Self { pfn: u32::from_le_bytes([p0, p1, p2, p3]), count: u32::from_le_bytes([c0, c1, c2, c3]), kind, cpu }
    }
}

/// A recording.
#[derive(Debug)]
pub struct Trace {
    /// Frames of memory that are not reserved.
    frames: u32,
    events: Vec<Event>,
}

/// Names and folders of the recordings that there are.
#[must_use]
pub fn found() -> Vec<(String, PathBuf)> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../traces");
    let roots = [Some(tree), std::env::var_os("PAGEBLOCK_TRACES").map(PathBuf::from)];
    let folders = roots.into_iter().flatten().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
    let mut found: Vec<_> = folders
        .map(|folder| (folder.file_name().to_string_lossy().into_owned(), folder.path()))
        .filter(|(_, folder)| {
            folder.join("trace.txt.zst").exists() && folder.join("before/kpageflags.rle.zst").exists()
        })
        .collect();
    found.sort();
    found.dedup_by(|one, other| one.0 == other.0);
    found
}

impl Trace {
    /// Reads the recording in a folder, or its kept form.
    ///
    /// # Errors
    /// The file that cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let name = folder.file_name().unwrap_or_default();
        let kept = std::env::current_exe()?.with_file_name("traces").join(name);
        if let Ok(bytes) = fs::read(&kept) {
            return Ok(Self::new(bytes.as_chunks().0.iter().map(|&bytes| Event::from_bytes(bytes)).collect()));
        }
        let mut events = Vec::new();
        lines(&folder.join("before/kpageflags.rle.zst"), |line| events.extend(held(line)))?;
        lines(&folder.join("trace.txt.zst"), |line| events.extend(event(line)))?;
        fs::create_dir_all(kept.with_file_name(""))?;
        fs::write(kept, events.iter().flat_map(|event| event.to_bytes()).collect::<Vec<u8>>())?;
        Ok(Self::new(events))
    }

    fn new(mut events: Vec<Event>) -> Self {
        // Free memory is a held run of CPU 1: it counts as memory, and nothing is allocated for it.
        let is_start = |event: &&Event| matches!(event.kind, Kind::Held | Kind::HeldWhole);
        let frames = events.iter().filter(is_start).map(|run| run.count).sum();
        events.retain(|event| event.kind != Kind::Held || event.cpu == 0);
        Self { frames, events }
    }

    /// Allocations and frees.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.events.iter().filter(|event| matches!(event.kind, Kind::Alloc | Kind::Free)).count()
    }
}

/// Gives every line of a compressed text to `each`.
fn lines(path: &Path, mut each: impl FnMut(&str)) -> io::Result<()> {
    let mut file = BufReader::new(fs::File::open(path)?);
    while !file.fill_buf()?.is_empty() {
        let mut text = BufReader::new(StreamingDecoder::new(file.by_ref()).map_err(io::Error::other)?);
        let mut line = String::new();
        while text.read_line(&mut line)? > 0 {
            each(&line);
            line.clear();
        }
    }
    Ok(())
}

/// A run of `kpageflags.rle`: first frame, count, class. Nothing if it is reserved.
fn held(line: &str) -> Option<Event> {
    let mut words = line.split_ascii_whitespace();
    let pfn = u32::from_str_radix(words.next()?, 16).ok()?;
    let count = words.next()?.parse().ok()?;
    match words.next()? {
        "R" => None,
        "F" => Some(Event { pfn, count, kind: Kind::Held, cpu: 1 }),
        "B" if pfn.is_multiple_of(PAGEBLOCK) && count >= PAGEBLOCK => {
            Some(Event { pfn, count, kind: Kind::HeldWhole, cpu: 0 })
        }
        _ => Some(Event { pfn, count, kind: Kind::Held, cpu: 0 }),
    }
}

/// An event of an allocation or a free.
fn event(line: &str) -> Option<Event> {
    let (kind, rest) = if let Some(place) = line.find(" mm_page_alloc: pfn=0x") {
        (Kind::Alloc, line.split_at(place))
    } else {
        (Kind::Free, line.split_at(line.find(" mm_page_free: pfn=0x")?))
    };
    let (head, tail) = rest;
    let cpu = head.split_once('[')?.1.split_once(']')?.0.parse().ok()?;
    let (pfn, order) = tail.split_once("pfn=0x")?.1.split_once(" order=")?;
    let order = order.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Event { pfn: u32::from_str_radix(pfn, 16).ok()?, count: order, kind, cpu })
}

/// A block that the replay holds.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    ours: u64,
    order: u8,
    /// Frames that the trace has not freed.
    left: u32,
}

/// A replay on an allocator. A block is freed when the last of its frames is.
#[derive(Debug)]
pub struct Replay<A> {
    /// The allocator.
    pub allocator: A,
    /// The block of each of the trace's frames, plus 1.
    owners: Vec<u32>,
    blocks: Vec<Block>,
    vacant: Vec<u32>,
    /// Requests that were refused.
    pub refused: u64,
    /// Those of them for whole pageblocks.
    pub refused_pageblocks: u64,
}

impl<A: Frames> Replay<A> {
    /// A machine with as much memory, all of it free.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let most = trace.events.iter().map(|event| event.pfn + event.count.max(1 << 10)).max().unwrap_or(0);
        Self {
            allocator: A::new(trace.frames.into()),
            owners: vec![0; most as usize],
            blocks: Vec::new(),
            vacant: Vec::new(),
            refused: 0,
            refused_pageblocks: 0,
        }
    }

    /// Does all of it.
    pub fn run(&mut self, trace: &Trace) {
        for &Event { pfn, count, kind, cpu } in &trace.events {
            become_cpu(u32::from(cpu & 1));
            match kind {
                Kind::Held => (pfn..pfn + count).for_each(|pfn| self.alloc(pfn, 0)),
                Kind::HeldWhole => {
                    let whole = count / PAGEBLOCK * PAGEBLOCK;
                    (pfn..pfn + whole).step_by(PAGEBLOCK as usize).for_each(|pfn| self.alloc(pfn, PAGEBLOCK_ORDER));
                    (pfn + whole..pfn + count).for_each(|pfn| self.alloc(pfn, 0));
                }
                Kind::Alloc => self.alloc(pfn, count as u8),
                Kind::Free => self.free(pfn, count as u8),
            }
        }
        become_cpu(0);
    }

    fn alloc(&mut self, pfn: u32, order: u8) {
        // Frames that the trace allocates were free: frames that it seems to hold went without an event.
        self.free(pfn, order);
        let Some(ours) = self.allocator.alloc(order) else {
            self.refused += 1;
            self.refused_pageblocks += u64::from(order == PAGEBLOCK_ORDER);
            return;
        };
        let block = Block { ours, order, left: 1 << order };
        let place = self.vacant.pop().unwrap_or(self.blocks.len() as u32);
        match self.blocks.get_mut(place as usize) {
            Some(vacant) => *vacant = block,
            None => self.blocks.push(block),
        }
        if let Some(owners) = self.owners.get_mut(pfn as usize..(pfn as usize) + (1 << order)) {
            owners.fill(place + 1);
        }
    }

    fn free(&mut self, pfn: u32, order: u8) {
        let Some(owners) = self.owners.get_mut(pfn as usize..(pfn as usize) + (1 << order)) else { return };
        for owner in owners {
            let Some(place) = core::mem::take(owner).checked_sub(1) else { continue };
            let Some(block) = self.blocks.get_mut(place as usize) else { continue };
            block.left -= 1;
            if block.left == 0 {
                self.allocator.free(block.ours, block.order);
                self.vacant.push(place);
            }
        }
    }
}
