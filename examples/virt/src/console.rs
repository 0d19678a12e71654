//! Text on the board's serial port.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};

/// The serial port.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(crate::machine::put);
        Ok(())
    }
}

/// Taken by the CPU that prints.
static PRINTING: AtomicBool = AtomicBool::new(false);

/// Prints a line, after those of other CPUs. A CPU that is interrupted or faults while it prints does not wait for
/// ever.
pub fn print_line(line: fmt::Arguments<'_>) {
    let taken = (0..10_000_000).any(|_| !PRINTING.swap(true, Ordering::Acquire));
    let _ = writeln!(Console, "{line}");
    if taken {
        PRINTING.store(false, Ordering::Release);
    }
}

/// Prints a line.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => { $crate::console::print_line(format_args!($($text)*)) };
}
