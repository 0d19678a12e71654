//! `iomem`: which frames are memory.

use std::path::Path;

use pageblock_frame::{PfnRange, PhysAddr};
use pageblock_memmap::{Region, RegionKind};

use crate::{InputError, memmap};

/// The frames that lie wholly within memory, ascending.
///
/// ```
/// use pageblock_frame::Pfn;
/// use pageblock_lab::state::Iomem;
/// let text = "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n  00001000-00001fff : Kernel code\n";
/// let map = Iomem::parse("iomem".as_ref(), text).unwrap();
/// assert_eq!((map.ram[0].start, map.ram[0].end), (Pfn::new(1), Pfn::new(0x9f)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Iomem {
    /// Memory, by frame.
    pub ram: Vec<PfnRange>,
}

impl Iomem {
    /// Reads the text of a file called `path`: `/proc/iomem`, or a boot log with its e820 lines.
    ///
    /// # Errors
    /// The first malformed line; no memory at all.
    pub fn parse(path: &Path, text: &str) -> Result<Self, InputError> {
        Ok(Self::of(&memmap::parse(path, text)?))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Iomem::parse`], and if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        Ok(Self::of(&memmap::load(path)?))
    }

    fn of(regions: &[Region]) -> Self {
        let usable = regions.iter().filter(|region| region.kind == RegionKind::Usable);
        let frames = |region: &Region| {
            PfnRange::new(
                PhysAddr::new(region.start.as_u64()).pfn_ceil(),
                PhysAddr::new(region.end.as_u64()).pfn_floor(),
            )
        };
        let mut ram: Vec<_> = usable.map(frames).filter(|range| !range.is_empty()).collect();
        ram.sort_unstable_by_key(|range| range.start);
        ram.dedup_by(|next, range| {
            let joins = next.start <= range.end;
            if joins {
                range.end = range.end.max(next.end);
            }
            joins
        });
        Self { ram }
    }
}
