//! Frames that the map of frames says were held, but that were free when the recording began.
//!
//! The map takes a while to read, and frames on per-CPU lists look like kernel memory in it. A frame that the trace
//! allocates before it frees it was free all the time. To know these before the first event, the trace is read twice.

use std::fs;
use std::path::Path;

use super::engine::{BATCH, Pass, Progress};
use super::linux::{Linux, START};
use crate::InputError;
use crate::trace::{Event, Strictness, TraceReader};

/// Facts in the trace about the time before its first event.
#[derive(Debug)]
pub(crate) struct Early {
    /// Frames that were freed after the map was read, in the order in which the trace allocates them.
    pub(crate) freed: Vec<u64>,
    /// One bit a frame: the trace allocates it before it frees it.
    pub(crate) allocated: Vec<u64>,
}

/// Looks through the trace. It shows nothing if it is not a file that can be read twice.
pub(crate) fn look(
    (trace, strictness): (&Path, Strictness),
    linux: &Linux,
    progress: Progress<'_>,
) -> Result<Early, InputError> {
    let words = linux.frames().div_ceil(64) as usize;
    let mut found = Early { freed: Vec::new(), allocated: vec![0; words] };
    if !fs::metadata(trace).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(found);
    }
    let mut reader = TraceReader::open(trace, strictness)?;
    let mut seen = vec![0u64; words];
    let mut records = 0;
    while let Some(record) = reader.next_record()? {
        let (first, order, allocated) = match record.event {
            Event::Alloc(alloc) => match alloc.pfn {
                Some(pfn) => (pfn.as_u64(), alloc.order, true),
                None => continue,
            },
            Event::Free { pfn, order } => (pfn.as_u64(), order, false),
            _ => continue,
        };
        for frame in first..(first + order.frames()).min(linux.frames()) {
            let (word, bit) = (&mut seen[(frame / 64) as usize], 1 << (frame % 64));
            if *word & bit == 0 && allocated {
                found.allocated[(frame / 64) as usize] |= bit;
                if linux.owner(frame) == START {
                    found.freed.push(frame);
                }
            }
            *word |= bit;
        }
        records += 1;
        if records % BATCH == 0 {
            let (bytes, size) = reader.progress();
            progress(Pass::Look, bytes, size);
        }
    }
    Ok(found)
}
