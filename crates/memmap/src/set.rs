//! A set of numbers (bytes or frames) as sorted ranges in fixed room.

use arrayvec::ArrayVec;

use pageblock_frame::{PAGE_SHIFT, PAGE_SIZE};

/// The numbers `start..end`; never empty inside a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    pub(crate) const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    pub(crate) const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// These bytes' frames, whole ones only.
    pub(crate) const fn frames_inward(self) -> Self {
        let whole = self.start >> PAGE_SHIFT;
        let partial = self.start & (PAGE_SIZE - 1) != 0;
        Self { start: whole + partial as u64, end: self.end >> PAGE_SHIFT }
    }

    /// Every frame that one of these bytes is in.
    pub(crate) const fn frames_outward(self) -> Self {
        let whole = self.end >> PAGE_SHIFT;
        let partial = self.end & (PAGE_SIZE - 1) != 0;
        Self { start: self.start >> PAGE_SHIFT, end: whole + partial as u64 }
    }

    /// These frames' bytes.
    pub(crate) const fn bytes(self) -> Self {
        Self { start: self.start << PAGE_SHIFT, end: self.end << PAGE_SHIFT }
    }
}

/// There is no room for one more range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

/// A set of numbers.
///
/// # Invariants
/// The spans are not empty, ascend, and neither overlap nor touch.
#[derive(Clone, Debug)]
pub(crate) struct RangeSet<const N: usize> {
    spans: ArrayVec<Span, N>,
}

impl<const N: usize> RangeSet<N> {
    pub(crate) const fn new() -> Self {
        Self { spans: ArrayVec::new_const() }
    }

    pub(crate) fn clear(&mut self) {
        self.spans.clear();
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How many numbers are in the set.
    pub(crate) fn total(&self) -> u64 {
        self.spans.iter().map(|span| span.len()).sum()
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let next = self.spans.partition_point(|span| span.end <= number);
        self.spans.get(next).is_some_and(|span| span.start <= number)
    }

    pub(crate) fn overlaps(&self, range: Span) -> bool {
        let next = self.spans.partition_point(|span| span.end <= range.start);
        range.len() > 0 && self.spans.get(next).is_some_and(|span| span.start < range.end)
    }

    /// Adds the range; tells how many of its numbers were new.
    pub(crate) fn insert(&mut self, range: Span) -> Result<u64, Full> {
        if range.len() == 0 {
            return Ok(0);
        }
        // The spans that overlap the range or touch it.
        let first = self.spans.partition_point(|span| span.end < range.start);
        let after = self.spans.partition_point(|span| span.start <= range.end);
        let mut merged = range;
        let mut old = 0;
        for span in self.spans.get(first..after).unwrap_or_default() {
            merged = Span::new(merged.start.min(span.start), merged.end.max(span.end));
            old += span.len();
        }
        match self.spans.get_mut(first) {
            Some(span) if first < after => {
                *span = merged;
                self.spans.drain(first + 1..after);
            }
            _ => self.spans.try_insert(first, merged).map_err(|_| Full)?,
        }
        Ok(merged.len() - old)
    }

    /// Takes the range away; tells how many of its numbers were there.
    pub(crate) fn subtract(&mut self, range: Span) -> Result<u64, Full> {
        let before = self.total();
        let first = self.spans.partition_point(|span| span.end <= range.start);
        let after = self.spans.partition_point(|span| span.start < range.end);
        if range.len() == 0 || first >= after {
            return Ok(0);
        }
        let left = self.spans.get(first).map_or(range.start, |span| span.start.min(range.start));
        let right = self.spans.get(after - 1).map_or(range.end, |span| span.end.max(range.end));
        let keep_left = left < range.start;
        let keep_right = right > range.end;
        if keep_left && keep_right && after - first == 1 {
            self.spans.try_insert(first, Span::new(left, range.start)).map_err(|_| Full)?;
            if let Some(span) = self.spans.get_mut(first + 1) {
                span.start = range.end;
            }
            return Ok(before - self.total());
        }
        if keep_left && let Some(span) = self.spans.get_mut(first) {
            span.end = range.start;
        }
        if keep_right && let Some(span) = self.spans.get_mut(after - 1) {
            span.start = range.end;
        }
        let gone = first + usize::from(keep_left)..after - usize::from(keep_right);
        let mut place = 0..;
        self.spans.retain(|_| place.next().is_none_or(|place| !gone.contains(&place)));
        Ok(before - self.total())
    }

    /// Takes away every range of `others`; tells how many numbers were there.
    pub(crate) fn subtract_all(&mut self, others: impl IntoIterator<Item = Span>) -> Result<u64, Full> {
        others.into_iter().try_fold(0, |sum, span| Ok(sum + self.subtract(span)?))
    }

    /// From bytes to the whole frames in them.
    pub(crate) fn clip_to_frames(&mut self) {
        self.spans.retain(|span| {
            *span = span.frames_inward();
            span.len() > 0
        });
    }

    /// From bytes to all frames that they are in.
    pub(crate) fn grow_to_frames(&mut self) {
        // Spans of frames take no more room than the spans of bytes did, of which two may have become neighbours.
        let mut kept = 0_usize;
        for at in 0..self.spans.len() {
            let Some(frames) = self.spans.get(at).map(|span| span.frames_outward()) else { break };
            match kept.checked_sub(1).and_then(|last| self.spans.get_mut(last)) {
                Some(last) if frames.start <= last.end => last.end = last.end.max(frames.end),
                _ => {
                    if let Some(place) = self.spans.get_mut(kept) {
                        *place = frames;
                    }
                    kept += 1;
                }
            }
        }
        self.spans.truncate(kept);
    }

    /// True if the spans are as they should be.
    pub(crate) fn is_sound(&self) -> bool {
        self.spans.iter().all(|span| span.len() > 0)
            && self.spans.iter().zip(self.spans.iter().skip(1)).all(|(low, high)| low.end < high.start)
    }
}
