//! One request, built step by step.

use pageblock_frame::{Gfp, NodeId, Order, PAGE_SHIFT, Platform, ZoneKind};

use crate::PageAllocator;
use crate::error::AllocError;
use crate::frames::Frames;
use crate::inner::Inner;

/// A request for frames. Without a step it is for one frame with [`Gfp::KERNEL`], which is [`PageAllocator::alloc`]'s.
///
/// ```
/// # use pageblock::{Config, Gfp, NodeId, Order, PageAllocator, Region};
/// # use pageblock::hosted::Simulated;
/// # let frames = PageAllocator::<Simulated>::new();
/// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
/// # frames.init_simulated([Region::usable(0..64 << 20)], &Config::new(), storage).unwrap();
/// let ring = frames.request().order(Order::new(4).unwrap()).below(16 << 20).zeroed().alloc()?;
/// assert!(ring.phys() + ring.bytes() <= 16 << 20);
/// let huge = frames.request().order(Order::HUGE).gfp(Gfp::USER).node(NodeId::new(0)).alloc()?;
/// assert_eq!(huge.order(), Order::HUGE);
/// let aligned = frames.request().align(Order::new(3).unwrap()).alloc()?;
/// assert_eq!((aligned.order(), aligned.pfn().as_u64() % 8), (Order::ZERO, 0));
/// let run = frames.request().contiguous(700)?;
/// assert_eq!(run.pfns().len(), 700);
/// # Ok::<(), pageblock::AllocError>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is allocated before `alloc`"]
pub struct RequestBuilder<'a, P: Platform> {
    pub(crate) allocator: &'a PageAllocator<P>,
    order: Order,
    pub(crate) align: Order,
    gfp: Gfp,
    pub(crate) node: Option<NodeId>,
    /// First address that the frames may not have.
    limit: u64,
}

impl<P: Platform> PageAllocator<P> {
    /// Begins a request.
    pub const fn request(&self) -> RequestBuilder<'_, P> {
        RequestBuilder {
            allocator: self,
            order: Order::ZERO,
            align: Order::ZERO,
            gfp: Gfp::KERNEL,
            node: None,
            limit: u64::MAX,
        }
    }
}

impl<'a, P: Platform> RequestBuilder<'a, P> {
    /// For a block of this order.
    pub const fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// With these flags instead of [`Gfp::KERNEL`].
    pub const fn gfp(self, gfp: Gfp) -> Self {
        Self { gfp, ..self }
    }

    /// From this node, or the nearest to it that has frames; with [`Gfp::THISNODE`] from it only.
    pub const fn node(self, node: NodeId) -> Self {
        Self { node: Some(node), ..self }
    }

    /// Aligned to a block of this order, if that is larger than its own.
    pub const fn align(self, align: Order) -> Self {
        Self { align, ..self }
    }

    /// From zones that end at this physical address or below it.
    pub const fn below(self, address: u64) -> Self {
        Self { limit: address, ..self }
    }

    /// Filled with zeroes.
    pub const fn zeroed(self) -> Self {
        Self { gfp: self.gfp.union(Gfp::ZERO), ..self }
    }

    /// Allocates the block.
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed.
    #[cfg_attr(feature = "page_owner", track_caller)]
    pub fn alloc(self) -> Result<Frames<'a, P>, AllocError> {
        let size = self.order.max(self.align);
        let block = self.block(size)?;
        if size == self.order {
            return Ok(block);
        }
        let Ok(mut parts) = block.split(self.order) else { return Err(AllocError::OutOfMemory) };
        let first = parts.next();
        // Should a hook unwind out of this, the first part is freed as well, which a value under way to the caller is not.
        drop(parts);
        first.ok_or(AllocError::OutOfMemory)
    }

    /// The flags, with those that keep the request below its limit.
    pub(crate) fn flags(&self) -> Result<Gfp, AllocError> {
        let inner = self.allocator.inner()?;
        Ok(if self.limit == u64::MAX { self.gfp } else { self.gfp.union(zone_below(inner, self.limit)?) })
    }

    #[cfg_attr(feature = "page_owner", track_caller)]
    pub(crate) fn block(&self, order: Order) -> Result<Frames<'a, P>, AllocError> {
        let gfp = self.flags()?;
        match self.node {
            Some(node) => self.allocator.alloc_on(node, order, gfp),
            None => self.allocator.alloc_order(order, gfp),
        }
    }
}

/// The flags that keep a request in zones which end at this address or below it.
fn zone_below<P: Platform>(inner: &Inner<P>, limit: u64) -> Result<Gfp, AllocError> {
    let end = |kinds: ZoneKind| {
        let zones = inner.zones.iter().filter(|zone| zone.kind() <= kinds);
        zones.map(|zone| zone.span().end.as_u64()).max().unwrap_or(0)
    };
    let choices = [(ZoneKind::Movable, Gfp::empty()), (ZoneKind::Dma32, Gfp::DMA32), (ZoneKind::Dma, Gfp::DMA)];
    let fits = choices.into_iter().find(|(kinds, _)| (1..=limit >> PAGE_SHIFT).contains(&end(*kinds)));
    fits.map(|(_, gfp)| gfp).ok_or(AllocError::OutOfMemory)
}
