//! Reading many state bytes at once, for scanners; reading and writing the 64 of a word, for their owner.
//!
//! A scanner without ownership may see any recent value of each byte, so it does not matter whether neighbouring bytes
//! are read by one load or by many: one wide load is one of the outcomes that as many relaxed byte loads could have.
//! The language has no safe way to say so (atomic accesses of different sizes may not race), hence the load is an
//! instruction of its own where the target is known, and byte by byte elsewhere, under the model checker and under
//! Miri.

use crate::sync::{AtomicU8, Ordering};
use crate::{PAGEBLOCK_FRAMES, StateByte, StateView};

/// Frames of a pageblock.
const FRAMES: usize = PAGEBLOCK_FRAMES as usize;

/// Bits 7, 5 and 4: allocated, and the type. A movable head has 7 and 4 set and 5 clear (bit 6 is clear in every head
/// with bit 7).
#[cfg(test)]
const KIND: u8 = 0xb0;
/// Those bits of a movable head.
#[cfg(test)]
const MOVABLE: u8 = 0x90;
/// The high bit of every byte.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Eight bytes, the first in the low bits; 0 for those past the end.
#[inline]
pub(crate) fn load8(bytes: &[AtomicU8]) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    if let Some(bytes) = bytes.first_chunk::<8>() {
        let value: u64;
        // SAFETY: reads eight bytes that are borrowed, and initialised since they are atomics; has no other effect. It
        // reads as eight relaxed loads of the same bytes could.
        unsafe {
            core::arch::asm!(
                "mov {value}, qword ptr [{at}]",
                at = in(reg) bytes.as_ptr(),
                value = lateout(reg) value,
                options(nostack, preserves_flags, readonly),
            );
        }
        return value;
    }
    let mut value = 0;
    for (i, byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte.load(Ordering::Relaxed)) << (8 * i);
    }
    value
}

/// Makes eight bytes, which are the caller's, the eight of `value`, the first from the low bits.
#[inline]
pub(crate) fn store8(bytes: &[AtomicU8; 8], value: u64) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: writes eight bytes that are borrowed and, as atomics, in cells; has no other effect. It writes as eight
    // relaxed stores of the same bytes could.
    unsafe {
        core::arch::asm!(
            "mov qword ptr [{at}], {value}",
            at = in(reg) bytes.as_ptr(),
            value = in(reg) value,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    for (byte, part) in bytes.iter().zip(value.to_le_bytes()) {
        byte.store(part, Ordering::Relaxed);
    }
}

impl StateByte {
    /// Makes 64 frames the same. Only their owner may.
    #[inline]
    pub fn fill(self, frames: &[AtomicU8; 64]) {
        let value = u64::from_ne_bytes([self.raw(); 8]);
        for bytes in frames.as_chunks().0 {
            store8(bytes, value);
        }
    }

    /// True if each of 64 frames heads a block of this kind and order, of whatever type.
    #[must_use]
    #[inline]
    pub fn are_all(self, frames: &[AtomicU8; 64]) -> bool {
        let (kind, type_bits) = (u64::from_ne_bytes([self.without_type(); 8]), u64::from_ne_bytes([0x30; 8]));
        let differs = |found: u64, bytes: &[AtomicU8; 8]| found | (load8(bytes) & !type_bits) ^ kind;
        frames.as_chunks().0.iter().fold(0, differs) == 0
    }
}

/// The high bits of eight bytes as eight bits, the first byte's lowest.
#[inline]
const fn gather(high: u64) -> u64 {
    (high & HIGH).wrapping_mul(0x0002_0408_1020_4081) >> 56
}

/// High bit set in each byte that is a movable head.
#[inline]
const fn movable8(bytes: u64) -> u64 {
    bytes & (bytes << 3) & !(bytes << 2)
}

/// High bit set in each byte that is a head: at least 0x10.
#[inline]
const fn heads8(bytes: u64) -> u64 {
    bytes | (bytes << 1) | (bytes << 2) | (bytes << 3)
}

impl StateView<'_> {
    /// One bit for each of the 64 frames from `index` on that heads an allocated movable block. A hint, unless the
    /// caller owns them.
    #[must_use]
    #[inline]
    pub fn movable_heads(&self, index: u32) -> u64 {
        self.gather64(index, movable8)
    }

    /// One bit for each of the 64 frames from `index` on that heads any block: allocated, listed or isolated.
    #[must_use]
    #[inline]
    pub fn heads(&self, index: u32) -> u64 {
        self.gather64(index, heads8)
    }

    #[inline]
    fn gather64(&self, index: u32, high: impl Fn(u64) -> u64) -> u64 {
        let mut found = 0;
        for (i, bytes) in self.run(index, 64).chunks(8).enumerate() {
            found |= gather(high(load8(bytes))) << (8 * i);
        }
        found
    }

    /// The place of the first head in a pageblock of which no frame heads an allocated movable block; the pageblock's
    /// frames if none heads any. `None` if one does, or for the rest of a pageblock at the end. Reads sixteen bytes a
    /// load where it can.
    ///
    /// ```
    /// use pageblock_frame::{MigrateType, Order, StateByte, StateTable, sync::AtomicU8};
    /// let bytes: Vec<AtomicU8> = (0..1000).map(|_| AtomicU8::new(0)).collect();
    /// let table = StateTable::new(&bytes);
    /// table.set(9, StateByte::allocated(Order::ZERO, MigrateType::Unmovable));
    /// assert_eq!((table.immovable(0), table.immovable(1)), (Some(9), None));
    /// table.set(7, StateByte::allocated(Order::ZERO, MigrateType::Movable));
    /// assert_eq!(table.immovable(0), None);
    /// ```
    #[must_use]
    #[inline]
    pub fn immovable(&self, block: u32) -> Option<u32> {
        let Some(bytes) = self.block(block)? else { return Some(FRAMES as u32) };
        (!any_movable(bytes)).then(|| first_head(bytes))
    }
}

/// The place of the first of these frames that heads a block, which is nearly always the first; their number if none
/// does.
#[inline]
fn first_head(bytes: &[AtomicU8; FRAMES]) -> u32 {
    let is_head = |byte: &AtomicU8| StateByte::from_raw(byte.load(Ordering::Relaxed)).is_head();
    if is_head(&bytes[0]) { 0 } else { bytes.iter().position(is_head).unwrap_or(FRAMES) as u32 }
}

#[inline]
fn any_movable(bytes: &[AtomicU8; FRAMES]) -> bool {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(loom), not(miri)))]
    {
        // SAFETY: the crate is compiled for a target that has SSE2.
        unsafe { sse2::any_movable(bytes) }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(loom), not(miri))))]
    {
        bytes.as_chunks::<8>().0.iter().fold(0, |found, bytes| found | movable8(load8(bytes))) & HIGH != 0
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(loom), not(miri)))]
mod sse2 {
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_max_epu8, _mm_min_epu8, _mm_movemask_epi8, _mm_set1_epi8, _mm_setzero_si128,
        _mm_xor_si128,
    };

    use super::FRAMES;
    use crate::sync::AtomicU8;

    /// Sixteen bytes.
    ///
    /// # Safety
    /// The CPU has SSE2.
    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn load(bytes: &[AtomicU8; 16]) -> __m128i {
        let value;
        // SAFETY: reads the 16 borrowed bytes, which are initialised since they are atomics; has no other effect. It
        // reads as 16 relaxed loads of the same bytes could.
        unsafe {
            core::arch::asm!(
                "movdqu {value}, xmmword ptr [{at}]",
                at = in(reg) bytes.as_ptr(),
                value = lateout(xmm_reg) value,
                options(nostack, preserves_flags, readonly),
            );
        }
        value
    }

    /// The largest of the bytes in each place of sixteen: loads and comparisons are one instruction each.
    ///
    /// # Safety
    /// The CPU has SSE2, and `bytes` is aligned to 16 bytes.
    #[inline]
    #[target_feature(enable = "sse2")]
    unsafe fn largest(bytes: &[AtomicU8; FRAMES]) -> __m128i {
        let (even, odd): (__m128i, __m128i);
        // SAFETY: as for `load`; the caller vouches for the alignment that an operand in memory must have.
        unsafe {
            core::arch::asm!(
                "movdqa {even}, xmmword ptr [{at}]",
                "movdqa {odd}, xmmword ptr [{at} + 16]",
                ".set n, 32",
                ".rept 15",
                "pmaxub {even}, xmmword ptr [{at} + n]",
                "pmaxub {odd}, xmmword ptr [{at} + n + 16]",
                ".set n, n + 32",
                ".endr",
                at = in(reg) bytes.as_ptr(),
                even = out(xmm_reg) even,
                odd = out(xmm_reg) odd,
                options(nostack, preserves_flags, readonly),
            );
        }
        _mm_max_epu8(even, odd)
    }

    /// True if any of the bytes is that of a movable head.
    ///
    /// # Safety
    /// The CPU has SSE2.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) unsafe fn any_movable(bytes: &[AtomicU8; FRAMES]) -> bool {
        let (some, _) = bytes.as_chunks::<16>();
        // First whether any byte is as large as a movable head: blocks that the kernel holds for itself are not.
        let most = if bytes.as_ptr().addr().is_multiple_of(16) {
            // SAFETY: as for this function; the bytes are aligned.
            unsafe { largest(bytes) }
        } else {
            // SAFETY: as for this function.
            some.iter().fold(_mm_setzero_si128(), |most, bytes| _mm_max_epu8(most, unsafe { load(bytes) }))
        };
        let movable = _mm_set1_epi8(0x90_u8.cast_signed());
        if _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(most, movable), most)) == 0 {
            return false;
        }
        // A movable head is 0x90 to 0x9f: with those bits flipped 0 to 0x0f, and no other byte is.
        let mut least = _mm_set1_epi8(-1);
        for bytes in some {
            // SAFETY: as for this function.
            least = _mm_min_epu8(least, _mm_xor_si128(unsafe { load(bytes) }, movable));
        }
        let order = _mm_set1_epi8(0x0f);
        _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(least, order), least)) != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{FrameState, MigrateType, StateByte, StateTable};
    use std::vec::Vec;

    fn table(seed: u64, len: usize) -> Vec<AtomicU8> {
        let mut x = seed | 1;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        // Only bytes that the table of legal values has.
        (0..len)
            .map(|_| {
                let (kind, low) = (next() % 8, (next() % 16) as u8);
                let tagged = ((next() % 4) << 4) as u8 | low;
                AtomicU8::new(match kind {
                    0..3 => 0,
                    3 => low % 3,
                    4 => 0x10 | low,
                    5 => 0x40 | tagged,
                    _ => 0x80 | tagged,
                })
            })
            .collect()
    }

    #[test]
    fn sixty_four_frames_are_alike_only_if_each_is() {
        let frames: [AtomicU8; 64] = core::array::from_fn(|_| AtomicU8::new(7));
        let listed = |order, migrate_type| StateByte::listed(crate::Order::new(order).unwrap(), migrate_type);
        let (ours, others) = (listed(0, crate::MigrateType::Movable), listed(0, crate::MigrateType::Unmovable));
        ours.fill(&frames);
        assert!(frames.iter().all(|byte| byte.load(Ordering::Relaxed) == ours.raw()));
        assert!(
            ours.are_all(&frames)
                && others.are_all(&frames)
                && !listed(1, crate::MigrateType::Movable).are_all(&frames)
        );
        for place in 0..64 {
            for wrong in [StateByte::INSIDE, listed(1, crate::MigrateType::Movable), StateByte::HOLE] {
                frames[place].store(wrong.raw(), Ordering::Relaxed);
                assert!(!ours.are_all(&frames), "{place}");
            }
            frames[place].store(others.raw(), Ordering::Relaxed);
            assert!(ours.are_all(&frames), "{place}");
        }
    }

    #[test]
    fn wide_reads_agree_with_single_ones() {
        for (seed, len) in (1..200u64).zip([512usize, 511, 64, 63, 1, 0, 700, 128].into_iter().cycle()) {
            let bytes = table(seed, len);
            let table = StateTable::new(&bytes);
            let movable =
                |i: u32| matches!(table.get(i).decode(), FrameState::Allocated(_, Some(MigrateType::Movable)));
            for base in (0..len as u32 + 64).step_by(64) {
                let (mut heads, mut movables) = (0u64, 0u64);
                for i in 0..64 {
                    heads |= u64::from(table.get(base + i).is_head()) << i;
                    movables |= u64::from(movable(base + i)) << i;
                }
                assert_eq!(table.heads(base), heads);
                assert_eq!(table.movable_heads(base), movables);
            }
            let alike = (0..512).find(|&i| table.get(i).is_head()).unwrap_or(512);
            let expected = (len >= 512 && !(0..512).any(movable)).then_some(alike);
            assert_eq!((table.immovable(0), table.immovable(1)), (expected, None), "{len}");
        }
    }

    #[test]
    fn one_movable_head_anywhere_is_found_however_the_table_is_aligned() {
        let bytes: Vec<AtomicU8> = (0..512 + 16)
            .map(|_| AtomicU8::new(StateByte::allocated(crate::Order::ZERO, MigrateType::Unmovable).raw()))
            .collect();
        for shift in [0, 1, 8, 15] {
            let table = StateTable::new(&bytes[shift..shift + 512]);
            assert_eq!(table.immovable(0), Some(0));
            for at in 0..512 {
                let before = table.get(at);
                assert_ne!(before.raw() & KIND, MOVABLE);
                table.set(at, StateByte::allocated(crate::Order::LIMIT, MigrateType::Movable));
                assert_eq!(table.immovable(0), None);
                table.set(at, before);
            }
        }
    }
}
