//! Lines of ftrace through the parser.

use pageblock_lab::trace::parse_line;

/// # Panics
/// If the parser does, or says two things about one line.
pub fn run(data: &[u8]) {
    for line in data.split(|&byte| byte == b'\n') {
        let first = parse_line(line);
        assert_eq!(first, parse_line(line));
        match first {
            Ok(Some(record)) => {
                // Blanks around a line mean nothing.
                let padded = [b"  ", line, b" \r"].concat();
                assert_eq!(parse_line(&padded), Ok(Some(record)), "{}", String::from_utf8_lossy(line));
            }
            Ok(None) => assert!(line.trim_ascii().first().is_none_or(|&byte| byte == b'#')),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
