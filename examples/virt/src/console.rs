//! Text on the board's serial port.

use core::fmt::{self, Write};

/// The serial port.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(crate::machine::put);
        Ok(())
    }
}

/// Prints a line. One CPU at a time.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => {{
        use core::fmt::Write;
        let _ = writeln!($crate::console::Console, $($text)*);
    }};
}
