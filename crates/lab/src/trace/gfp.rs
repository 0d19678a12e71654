//! Request flags as text, as `show_gfp_flags()` of Linux prints them.

use std::fmt;

use pageblock_frame::Gfp;

use super::text::hexadecimal;
use crate::ParseError;

const EXPECTED: &str = "a request flag such as `GFP_KERNEL` or `__GFP_ZERO`";

/// Reads request flags: names joined by `|`, `none`, or bits in hexadecimal where the kernel that printed them had no
/// name.
///
/// Names of kernels from 3.x on are known. Flags that do not matter here (lock checking, memory tags, charging
/// details) are accepted and dropped, as are hexadecimal bits without a meaning of ours.
///
/// # Errors
/// The first name that no kernel is known to print.
///
/// ```
/// use pageblock_frame::Gfp;
/// use pageblock_lab::trace::parse_gfp;
/// assert_eq!(parse_gfp(b"GFP_NOFS|__GFP_HIGHMEM|__GFP_NOLOCKDEP"), Ok(Gfp::NOFS | Gfp::HIGHMEM));
/// assert_eq!(parse_gfp(b"none"), Ok(Gfp::empty()));
/// assert!(parse_gfp(b"GFP_KERNEL|__GFP_BOGUS").is_err());
/// ```
pub fn parse_gfp(text: &[u8]) -> Result<Gfp, ParseError> {
    let mut flags = Gfp::empty();
    let mut removed = Gfp::empty();
    for name in text.split(|&byte| byte == b'|') {
        match name {
            [b'0', b'x', digits @ ..] => {
                let bits = hexadecimal(digits).ok_or_else(|| ParseError::syntax(EXPECTED, name))?;
                flags |= Gfp::from_bits_truncate(bits as u32);
            }
            // Up to 4.3, kswapd was woken unless a flag said otherwise.
            b"GFP_NO_KSWAPD" | b"__GFP_NO_KSWAPD" => removed |= Gfp::KSWAPD_RECLAIM,
            _ => {
                let known = composite(name).or_else(|| single(name)).or_else(|| irrelevant(name));
                flags |= known.ok_or_else(|| ParseError::syntax(EXPECTED, name))?;
            }
        }
    }
    Ok(flags - removed)
}

fn composite(name: &[u8]) -> Option<Gfp> {
    Some(match name {
        b"GFP_TRANSHUGE" => Gfp::TRANSHUGE,
        b"GFP_TRANSHUGE_LIGHT" => Gfp::TRANSHUGE_LIGHT,
        b"GFP_HIGHUSER_MOVABLE" => Gfp::HIGHUSER_MOVABLE,
        b"GFP_HIGHUSER" => Gfp::HIGHUSER,
        b"GFP_USER" => Gfp::USER,
        b"GFP_KERNEL_ACCOUNT" => Gfp::KERNEL_ACCOUNT,
        b"GFP_KERNEL" => Gfp::KERNEL,
        b"GFP_TEMPORARY" => Gfp::KERNEL.union(Gfp::RECLAIMABLE),
        b"GFP_NOFS" => Gfp::NOFS,
        b"GFP_ATOMIC" => Gfp::ATOMIC,
        b"GFP_NOIO" => Gfp::NOIO,
        b"GFP_NOWAIT" => Gfp::NOWAIT,
        b"GFP_DMA" => Gfp::DMA,
        b"GFP_DMA32" => Gfp::DMA32,
        b"none" => Gfp::empty(),
        _ => return None,
    })
}

/// A single flag. Before 4.6 these were printed without the leading underscores.
fn single(name: &[u8]) -> Option<Gfp> {
    let bare = name.strip_prefix(b"__").unwrap_or(name).strip_prefix(b"GFP_")?;
    Some(match bare {
        b"DMA" => Gfp::DMA,
        b"HIGHMEM" => Gfp::HIGHMEM,
        b"DMA32" => Gfp::DMA32,
        b"MOVABLE" => Gfp::MOVABLE,
        b"RECLAIMABLE" => Gfp::RECLAIMABLE,
        b"HIGH" => Gfp::HIGH,
        b"IO" => Gfp::IO,
        b"FS" => Gfp::FS,
        b"ZERO" => Gfp::ZERO,
        b"ATOMIC" => Gfp::ATOMIC_BIT,
        b"DIRECT_RECLAIM" => Gfp::DIRECT_RECLAIM,
        b"KSWAPD_RECLAIM" => Gfp::KSWAPD_RECLAIM,
        // Up to 4.3 one flag stood for both kinds of reclaim.
        b"RECLAIM" | b"WAIT" => Gfp::RECLAIM,
        b"WRITE" => Gfp::WRITE,
        b"NOWARN" => Gfp::NOWARN,
        b"RETRY_MAYFAIL" | b"REPEAT" => Gfp::RETRY_MAYFAIL,
        b"NOFAIL" => Gfp::NOFAIL,
        b"NORETRY" => Gfp::NORETRY,
        b"MEMALLOC" => Gfp::MEMALLOC,
        b"COMP" => Gfp::COMP,
        b"NOMEMALLOC" => Gfp::NOMEMALLOC,
        b"HARDWALL" => Gfp::HARDWALL,
        b"THISNODE" => Gfp::THISNODE,
        b"ACCOUNT" => Gfp::ACCOUNT,
        b"ZEROTAGS" => Gfp::ZEROTAGS,
        _ => return None,
    })
}

/// Flags of some kernel that say nothing about where frames come from.
fn irrelevant(name: &[u8]) -> Option<Gfp> {
    let bare = name.strip_prefix(b"__").unwrap_or(name).strip_prefix(b"GFP_")?;
    let known = [
        &b"NOLOCKDEP"[..],
        b"NO_OBJ_EXT",
        b"SKIP_ZERO",
        b"SKIP_KASAN",
        b"SKIP_KASAN_POISON",
        b"SKIP_KASAN_UNPOISON",
        b"COLD",
        b"OTHER_NODE",
        b"NOTRACK",
        b"UNUSED",
    ];
    known.contains(&bare).then(Gfp::empty)
}

/// Request flags as text that [`parse_gfp`] reads back: Linux's own, combinations first.
///
/// ```
/// use pageblock_frame::Gfp;
/// use pageblock_lab::trace::GfpText;
/// assert_eq!(GfpText(Gfp::KERNEL | Gfp::ZERO | Gfp::COMP).to_string(), "GFP_KERNEL|__GFP_ZERO|__GFP_COMP");
/// assert_eq!(GfpText(Gfp::empty()).to_string(), "none");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GfpText(pub Gfp);

/// Combinations, in the order in which they are tried.
const COMPOSITES: [(Gfp, &str); 13] = [
    (Gfp::TRANSHUGE, "GFP_TRANSHUGE"),
    (Gfp::TRANSHUGE_LIGHT, "GFP_TRANSHUGE_LIGHT"),
    (Gfp::HIGHUSER_MOVABLE, "GFP_HIGHUSER_MOVABLE"),
    (Gfp::HIGHUSER, "GFP_HIGHUSER"),
    (Gfp::USER, "GFP_USER"),
    (Gfp::KERNEL_ACCOUNT, "GFP_KERNEL_ACCOUNT"),
    (Gfp::KERNEL, "GFP_KERNEL"),
    (Gfp::NOFS, "GFP_NOFS"),
    (Gfp::ATOMIC, "GFP_ATOMIC"),
    (Gfp::NOIO, "GFP_NOIO"),
    (Gfp::NOWAIT, "GFP_NOWAIT"),
    (Gfp::DMA, "GFP_DMA"),
    (Gfp::DMA32, "GFP_DMA32"),
];

/// Single flags, ascending by bit.
const SINGLES: [(Gfp, &str); 24] = [
    (Gfp::DMA, "__GFP_DMA"),
    (Gfp::HIGHMEM, "__GFP_HIGHMEM"),
    (Gfp::DMA32, "__GFP_DMA32"),
    (Gfp::MOVABLE, "__GFP_MOVABLE"),
    (Gfp::RECLAIMABLE, "__GFP_RECLAIMABLE"),
    (Gfp::HIGH, "__GFP_HIGH"),
    (Gfp::IO, "__GFP_IO"),
    (Gfp::FS, "__GFP_FS"),
    (Gfp::ZERO, "__GFP_ZERO"),
    (Gfp::ATOMIC_BIT, "__GFP_ATOMIC"),
    (Gfp::DIRECT_RECLAIM, "__GFP_DIRECT_RECLAIM"),
    (Gfp::KSWAPD_RECLAIM, "__GFP_KSWAPD_RECLAIM"),
    (Gfp::WRITE, "__GFP_WRITE"),
    (Gfp::NOWARN, "__GFP_NOWARN"),
    (Gfp::RETRY_MAYFAIL, "__GFP_RETRY_MAYFAIL"),
    (Gfp::NOFAIL, "__GFP_NOFAIL"),
    (Gfp::NORETRY, "__GFP_NORETRY"),
    (Gfp::MEMALLOC, "__GFP_MEMALLOC"),
    (Gfp::COMP, "__GFP_COMP"),
    (Gfp::NOMEMALLOC, "__GFP_NOMEMALLOC"),
    (Gfp::HARDWALL, "__GFP_HARDWALL"),
    (Gfp::THISNODE, "__GFP_THISNODE"),
    (Gfp::ACCOUNT, "__GFP_ACCOUNT"),
    (Gfp::ZEROTAGS, "__GFP_ZEROTAGS"),
];

impl fmt::Display for GfpText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let mut rest = self.0;
        let mut separator = "";
        for (flags, name) in COMPOSITES.iter().chain(&SINGLES) {
            if rest.contains(*flags) {
                write!(f, "{separator}{name}")?;
                separator = "|";
                rest -= *flags;
            }
        }
        if rest.is_empty() { Ok(()) } else { write!(f, "{separator}{:#x}", rest.bits()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_flags_reads_back() {
        for bits in (0..1u32 << 24).step_by(997) {
            let flags = Gfp::from_bits_truncate(bits);
            let text = GfpText(flags).to_string();
            assert_eq!(parse_gfp(text.as_bytes()), Ok(flags), "{text}");
        }
    }

    #[test]
    fn old_kernels() {
        assert_eq!(parse_gfp(b"GFP_WAIT|GFP_IO|GFP_NO_KSWAPD"), Ok(Gfp::DIRECT_RECLAIM | Gfp::IO));
        assert_eq!(parse_gfp(b"GFP_KERNEL|GFP_REPEAT"), Ok(Gfp::KERNEL | Gfp::RETRY_MAYFAIL));
    }

    #[test]
    fn unknown_bits_are_dropped_and_unknown_names_refused() {
        assert_eq!(parse_gfp(b"GFP_KERNEL|0x8000008"), Ok(Gfp::KERNEL | Gfp::MOVABLE));
        for bad in [&b""[..], b"GFP_KERNEL|", b"|GFP_KERNEL", b"gfp_kernel", b"__GFP_", b"0xg", b"GFP_KERNEL GFP_DMA"] {
            assert!(parse_gfp(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
