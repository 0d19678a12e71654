//! What a newcomer reads first: two sentences and six lines of table.

use std::fmt::Write;

use crate::output::Console;
use crate::replay::{Outcome, Side};

use super::tables::{plain, trimmed};

/// Points by which two shares must differ for one to be called the better.
const DRAW: f64 = 0.5;

/// Two sentences and a table of six lines.
pub(crate) fn verdict(outcome: &Outcome, console: &Console) -> String {
    let mut text = String::new();
    for line in wrapped(&sentences(outcome).join(" ")) {
        let _ = writeln!(text, "{}", console.bold(&line));
    }
    let _ = writeln!(text, "\n{}", table(outcome));
    text
}

/// What was replayed, and how both ended. Frames on Linux's per-CPU lists are counted as free, and as merged with their neighbours, since
/// ours has none on lists: that is the best that can be said of Linux.
pub(crate) fn sentences(outcome: &Outcome) -> [String; 2] {
    let counts = &outcome.event_counts;
    let (ours, linux) = (share(&outcome.ours), share(&outcome.linux_by_events));
    let first = format!(
        "{} requests and {} frees, recorded on a real Linux in {:.0} s, were made again.",
        grouped(counts.alloc + counts.alloc_failed),
        grouped(counts.free),
        outcome.recorded_seconds
    );
    let end = if ours > linux + DRAW {
        format!("At the end {ours:.1} % of free memory lies in whole pageblocks; Linux had {linux:.1} %.")
    } else if ours < linux - DRAW {
        format!("Linux ended better, with {linux:.1} % of free memory in whole pageblocks; here it is {ours:.1} %.")
    } else {
        format!("It is a draw: {ours:.1} % of free memory lies in whole pageblocks, and {linux:.1} % in Linux.")
    };
    [first, end]
}

/// Part of the free frames that lie in wholly free pageblocks, in percent.
pub(crate) fn share(side: &Side) -> f64 {
    let whole = side.free_pageblocks * pageblock_frame::PAGEBLOCK_FRAMES;
    100.0 * whole.min(side.free_frames) as f64 / side.free_frames.max(1) as f64
}

fn table(outcome: &Outcome) -> String {
    let mut table = plain(["", "start", "Linux", "ours"].map(str::to_owned), 1);
    let sides = [&outcome.start, &outcome.linux_by_events, &outcome.ours];
    let mut row = |name: &str, of: &dyn Fn(&Side) -> String| {
        table.add_row([name.to_owned()].into_iter().chain(sides.map(of)));
    };
    row("free memory in whole pageblocks, %", &|side| format!("{:.1}", share(side)));
    row("whole pageblocks", &|side| grouped(side.free_pageblocks));
    row("free frames", &|side| grouped(side.free_frames));
    row("pageblocks of mixed types", &|side| grouped(side.mixed_pageblocks));
    row("fallbacks to another type", &|side| grouped(side.fallbacks));
    let refused = ["requests not served", "", &grouped(outcome.event_counts.alloc_failed), &grouped(outcome.refused)];
    table.add_row(refused.map(str::to_owned));
    trimmed(&table)
}

/// A number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Lines of at most 80 columns.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > 80 {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_lines_an_end() {
        assert_eq!([7, 1_000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
        let lines = wrapped(&"word ".repeat(40));
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() <= 80));
    }

    #[test]
    fn a_share_is_of_free_memory() {
        let side = Side { free_frames: 2048, free_pageblocks: 3, ..Side::default() };
        assert_eq!(share(&side), 75.0);
        assert_eq!(share(&Side::default()), 0.0);
    }
}
