//! The memory map of a tree.

use pageblock_frame::NodeId;

use super::nodes::{Nodes, Status};
use super::tokens::be64;
use super::{Cells, DeviceTree, Loaded, is_memory, is_reserved, number};
use crate::region::{PhysRange, Region, RegionKind};

/// The regions of a tree: one walk over its nodes, then the list of reservations, then blob, kernel and ramdisk. One
/// loop and a few words rather than adapters, since a boot stack holds it.
#[derive(Clone, Debug)]
pub(super) struct Regions<'a> {
    tree: DeviceTree<'a>,
    loaded: Loaded,
    nodes: Nodes<'a>,
    memory: Cells,
    reserved: Cells,
    /// The rest of the node's `reg`, and how its entries are written.
    reg: &'a [u8],
    cells: Cells,
    kind: RegionKind,
    numa: NodeId,
    /// Of those loaded, the one that is next.
    next_loaded: u8,
}

impl<'a> Regions<'a> {
    pub(super) fn new(tree: DeviceTree<'a>, loaded: Loaded) -> Self {
        let (memory, reserved) = (tree.memory_cells(), tree.reserved_cells());
        let (kind, numa) = (RegionKind::Reserved, NodeId::default());
        Self {
            tree,
            loaded,
            nodes: tree.nodes(),
            memory,
            reserved,
            reg: &[],
            cells: memory,
            kind,
            numa,
            next_loaded: 0,
        }
    }

    /// The next entry of the node's `reg`; `None` after the last. An entry that would end beyond the address space ends
    /// with it, and one of no bytes is a region of no bytes.
    fn entry(&mut self) -> Option<Region> {
        let split = self.cells.address as usize * 4;
        let (entry, rest) = self.reg.split_at_checked(split + self.cells.size as usize * 4)?;
        self.reg = rest;
        let (address, size) = entry.split_at_checked(split)?;
        let (start, len) = (number(address)?, number(size)?);
        Some(Region::new(start, start.saturating_add(len), self.kind).with_node(self.numa))
    }

    /// Goes on to the next node with regions; false after the last.
    fn advance(&mut self) -> bool {
        for node in self.nodes.by_ref() {
            let (kind, cells) = if is_memory(&node) {
                (RegionKind::Usable, self.memory)
            } else if is_reserved(&node) {
                (RegionKind::Reserved, self.reserved)
            } else {
                continue;
            };
            if node.status() == Status::Okay {
                (self.kind, self.cells) = (kind, cells);
                self.numa = if kind == RegionKind::Usable { node.numa() } else { NodeId::default() };
                self.reg = node.property(b"reg").unwrap_or_default();
                return true;
            }
        }
        false
    }

    /// The next entry of the list of reservations, then the blob, the kernel and the initial ramdisk.
    fn outside(&mut self) -> Option<Region> {
        if let Some((entry, rest)) = self.tree.reservations.split_at_checked(16) {
            self.tree.reservations = rest;
            let (start, len) = (be64(entry, 0)?, be64(entry, 8)?);
            return Some(Region::new(start, start.saturating_add(len), RegionKind::Reserved));
        }
        self.next_loaded = self.next_loaded.saturating_add(1);
        let blob = self.loaded.blob.as_u64();
        let bytes = match self.next_loaded {
            1 => PhysRange::from(blob..blob.saturating_add(self.tree.len as u64)),
            2 => self.loaded.kernel,
            3 => self.tree.initrd()?,
            _ => return None,
        };
        Some(Region::new(bytes.start, bytes.end, RegionKind::Kernel))
    }
}

impl Iterator for Regions<'_> {
    type Item = Region;

    fn next(&mut self) -> Option<Region> {
        loop {
            if let Some(region) = self.entry() {
                return Some(region);
            }
            if !self.advance() {
                return self.outside();
            }
        }
    }
}
