//! The serial console: `print!` and `println!` for every CPU and every interrupt.

use core::fmt::{self, Write};

use pageblock_frame::sync::Lock;
use uart_16550::{Config, Uart16550, backend::PioBackend};

use crate::platform::Kernel;

/// The first serial port of a PC.
const COM1: u16 = 0x3f8;

/// A serial port as a text sink.
struct Console(Uart16550<PioBackend>);

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.send_bytes_exact(text.as_bytes());
        Ok(())
    }
}

static CONSOLE: Lock<Option<Console>> = Lock::new(None);

/// Sets up the serial port. A machine without one stays silent.
pub fn init() {
    // SAFETY: COM1 is where every PC has its first serial port, and only this module touches it.
    if let Ok(mut uart) = unsafe { Uart16550::new_port(COM1) }
        && uart.init(Config::default()).is_ok()
    {
        *CONSOLE.lock_irq::<Kernel>() = Some(Console(uart));
    }
}

/// Prints formatted text; use the macros.
pub fn print(args: fmt::Arguments<'_>) {
    if let Some(console) = CONSOLE.lock_irq::<Kernel>().as_mut() {
        // A sink that cannot fail fails only by a `Display` that does; no caller could be told.
        let _ = console.write_fmt(args);
    }
}

/// Prints although the lock may be held by the code that just failed: a message beats a tidy line.
pub fn print_emergency(args: fmt::Arguments<'_>) {
    for _ in 0..1_000_000 {
        if let Some(mut console) = CONSOLE.try_lock() {
            if let Some(console) = console.as_mut() {
                let _ = console.write_fmt(args);
            }
            return;
        }
        core::hint::spin_loop();
    }
    // SAFETY: as in `init`; the holder of the lock will not go on.
    if let Ok(uart) = unsafe { Uart16550::new_port(COM1) } {
        let _ = Console(uart).write_fmt(args);
    }
}

/// One received byte, if there is one.
pub fn try_read() -> Option<u8> {
    CONSOLE.lock_irq::<Kernel>().as_mut()?.0.try_receive_byte().ok()
}

/// Prints to the serial console.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::console::print(format_args!($($arg)*)) };
}

/// Prints a line to the serial console.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($arg:tt)*) => { $crate::console::print(format_args!("{}\n", format_args!($($arg)*))) };
}
