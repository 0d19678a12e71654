//! Sizes and ranges on a command line.

use pageblock_memmap::PhysRange;

/// Bytes: decimal or `0x` hexadecimal, with `K`, `M`, `G` or `T` for powers of 1024, or the same as `KiB`, `MiB`….
///
/// ```
/// use pageblock_lab::commands::map::parse_size;
/// assert_eq!(parse_size("0x10K"), Ok(0x4000));
/// assert_eq!(parse_size("3G"), Ok(3 << 30));
/// assert_eq!(parse_size("512MiB"), Ok(512 << 20));
/// assert!(parse_size("3 apples").is_err());
/// ```
///
/// # Errors
/// The expectation, and the text found.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let short = text.strip_suffix("iB").filter(|rest| rest.ends_with(['K', 'M', 'G', 'T'])).unwrap_or(text);
    let shift = match short.as_bytes().last().map(u8::to_ascii_uppercase) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(b'T') => 40,
        _ => 0,
    };
    let digits = if shift > 0 { &short[..short.len() - 1] } else { short };
    let number = match digits.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        None if !digits.starts_with('+') => digits.parse().ok(),
        _ => None,
    };
    let bytes = number.and_then(|number: u64| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("expected a number of bytes with K, M, G or T or without, found `{text}`"))
}

/// Bytes of physical memory: `START..END` (the end is not in it) or `START+LENGTH`.
///
/// ```
/// use pageblock_lab::commands::map::parse_range;
/// assert_eq!(parse_range("1M..0x180000"), parse_range("1M+512K"));
/// assert!(parse_range("2M..1M").is_err());
/// ```
///
/// # Errors
/// The expectation, and the text found; a range that ends before it starts.
pub fn parse_range(text: &str) -> Result<PhysRange, String> {
    let (start, end) = if let Some((start, end)) = text.split_once("..") {
        (parse_size(start)?, parse_size(end)?)
    } else if let Some((start, len)) = text.split_once('+') {
        let start = parse_size(start)?;
        (start, start.checked_add(parse_size(len)?).ok_or("the range leaves the address space")?)
    } else {
        return Err(format!("expected START..END or START+LENGTH, found `{text}`"));
    };
    if end < start {
        return Err(format!("expected a range that does not end before it starts, found `{text}`"));
    }
    Ok(PhysRange::from(start..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let good = [("0", 0), ("4096", 4096), ("0xfff", 0xfff), ("2k", 2048), ("1T", 1 << 40), ("2MiB", 2 << 20)];
        for (text, bytes) in good {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "K", "0x", "-1", "+1", "0x+1", "1KB", "1iB", "1kiB", "0xiB", "KiB", "99999999999G", "1.5G", "ü"]
        {
            assert!(parse_size(bad).unwrap_err().starts_with("expected a number of bytes"), "{bad}");
        }
    }

    #[test]
    fn ranges() {
        assert_eq!(parse_range("0..0"), Ok(PhysRange::default()));
        for bad in ["", "5", "1..x", "x+1", "2..1", "0xffffffffffffffff+1"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}
