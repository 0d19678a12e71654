//! Input, output and command lines that are not as they should be: a table of what the binary makes of each.
//!
//! Each ends with an exit status of its own, one message that says what was expected, no panic, and no byte that a
//! terminal would obey.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use tempfile::TempDir;

use crate::{fixture, pageblock};

/// The status and what was said; a signal, a panic or a control character is a failure of the test.
fn decent(name: &str, output: &Output) -> (i32, String) {
    let said = String::from_utf8(output.stderr.clone()).expect("text");
    let code = output.status.code().unwrap_or_else(|| panic!("{name}: ended by a signal: {said}"));
    assert!(!said.contains("panicked"), "{name}: {said}");
    for text in [&output.stdout, &output.stderr] {
        assert!(!text.iter().any(|byte| byte.is_ascii_control() && *byte != b'\n'), "{name}: raw bytes");
    }
    (code, said)
}

/// The recording's trace with one line changed.
fn with(from: &str, to: &str) -> Vec<u8> {
    let text = fs::read_to_string(fixture().join("trace.txt")).unwrap();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).into_bytes()
}

/// A page of bytes that are not text.
fn noise() -> Vec<u8> {
    let mut state = 88_172_645_463_325_252u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..4096).map(|_| next()).collect()
}

/// A trace that is refused, and what was expected.
struct Trace {
    name: &'static str,
    content: Vec<u8>,
    expected: &'static str,
    /// Refused with `--lenient` as well.
    hopeless: bool,
}

fn trace(name: &'static str, content: impl Into<Vec<u8>>, expected: &'static str, hopeless: bool) -> Trace {
    Trace { name, content: content.into(), expected, hopeless }
}

const NO_EVENTS: &str = "expected ftrace text with the events mm_page_alloc and mm_page_free";
const HEAD: &str = "expected `task-pid [cpu] flags timestamp: event:`";

fn unreadable() -> Vec<Trace> {
    let line = "tar-7 [000] ..... 1.0: ";
    vec![
        trace("empty", "", NO_EVENTS, true),
        trace("only ends of lines", "\n\n\n", NO_EVENTS, true),
        trace("only comments", "# tracer: nop\n#\n", NO_EVENTS, true),
        trace("foreign events", format!("{line}sched_switch: prev_comm=x\n"), NO_EVENTS, true),
        trace("noise", noise(), HEAD, true),
        trace("zeroes", vec![0; 200_000], "a line of at most 64 KiB", true),
        trace("escapes", "\x1b[31mred\x1b]0;title\x07\n", HEAD, true),
        trace("a byte order mark", "\u{feff}# tracer: nop\n", "\\u{feff}", true),
        trace("UTF-16", "#\0 \0t\0\n\0", "found `\\u{0}`", true),
        trace("gzip", b"\x1f\x8b\x08\0\0\0", "found a gzip file", true),
        trace("xz", b"\xfd7zXZ\0\0\x04", "found an xz file", true),
        trace("bzip2", b"BZh91AY&SY", "found a bzip2 file", true),
        trace("lz4", b"\x04\x22\x4d\x18\x64\x40", "found an lz4 file", true),
        trace("perf.data", b"PERFILE2\x68\0", "found a file of perf", true),
        trace("trace.dat", b"\x17\x08\x44tracing6\0", "found a file of trace-cmd", true),
        trace("a program", b"\x7fELF\x02\x01\x01", "found a program", true),
        trace("zstd of 3 bytes", b"\x28\xb5\x2f", "which is cut short", true),
        trace("zstd of 4 bytes", b"\x28\xb5\x2f\xfd", "which is cut short", true),
        trace(
            "damaged zstd",
            b"\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            "",
            true,
        ),
        trace("HTML", "<!DOCTYPE html>\n<html></html>\n", HEAD, true),
        trace("JSON", "{\"traceEvents\": []}\n", HEAD, true),
        trace("no order", format!("{line}mm_page_free: pfn=0x10\n"), "`order=`", true),
        trace("no frame", format!("{line}mm_page_free: order=0\n"), "`pfn=`", true),
        trace(
            "no flags",
            format!("{line}mm_page_alloc: page=1 pfn=0x10 order=0 migratetype=0\n"),
            "`gfp_flags=`",
            true,
        ),
    ]
}

fn malformed() -> Vec<Trace> {
    let (pfn, order) = ("pfn=0x1504 order=1", "an order from 0 to 15");
    vec![
        trace("an order that is a word", with(pfn, "pfn=0x1504 order=one"), order, false),
        trace("a large order", with(pfn, "pfn=0x1504 order=99"), order, false),
        trace("a negative order", with(pfn, "pfn=0x1504 order=-1"), order, false),
        trace("an order of 30 digits", with(pfn, &format!("pfn=0x1504 order={}", "9".repeat(30))), order, false),
        trace("the last frame number", with(pfn, "pfn=0xffffffffffffffff order=1"), "a frame number", false),
        trace(
            "a frame number of 30 digits",
            with(pfn, &format!("pfn=0x{} order=1", "f".repeat(30))),
            "a frame number",
            false,
        ),
        trace("a frame number that is a word", with(pfn, "pfn=frame order=1"), "a frame number", false),
        trace("a frame that is not aligned", with(pfn, "pfn=0x1505 order=1"), "`pfn=` aligned to `order=`", false),
        trace("an unknown flag", with("GFP_NOFS|", "GFP_NOFS|__GFP_\x1b[2J|"), "a request flag such as", false),
        trace("an unknown type", with("migratetype=", "migratetype=9"), "", false),
        trace("lost events", with("40/40", "40/100"), "found that 60 events were lost", false),
        trace(
            "lost events in between",
            with("              rm-103", "CPU:0 [LOST 7 EVENTS]\n rm-103"),
            "7 events were lost",
            false,
        ),
        trace("escapes in a name", with("              rm-103", "\x1b[31m\x07rm_103"), HEAD, false),
        trace("a line of words", with("              rm-103", "these are words\n rm-103"), HEAD, false),
    ]
}

#[test]
fn traces_that_cannot_be_replayed_are_refused_with_what_was_expected() {
    let directory = TempDir::new().unwrap();
    for one in unreadable().into_iter().chain(malformed()) {
        let path = directory.path().join("trace");
        fs::write(&path, &one.content).unwrap();
        for lenient in [false, true] {
            let mut command = pageblock();
            command.args(["replay", "-q"]).arg(&path).arg("--state").arg(fixture());
            let output = if lenient { command.arg("--lenient") } else { &mut command }.output().unwrap();
            let (code, said) = decent(one.name, &output);
            let refused = one.hopeless || !lenient;
            assert_eq!(code, i32::from(refused), "{}, lenient {lenient}: {said}", one.name);
            if refused && !lenient {
                assert!(said.contains("expected") && said.contains(one.expected), "{}: {said}", one.name);
                assert!(output.stdout.is_empty(), "{}", one.name);
            }
        }
        // The same through a pipe.
        let mut command = pageblock();
        command.args(["replay", "-q", "-", "--state"]).arg(fixture());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(&one.content);
        assert_eq!(decent(one.name, &child.wait_with_output().unwrap()).0, 1, "{}", one.name);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn states_that_are_damaged_are_refused() {
    let movable_first =
        b"Node 0, zone Movable\n pages free 5\n present 3999\n managed 3840\n spanned 4095\n start_pfn: 1\n\
        Node 0, zone DMA32\n pages free 5\n present 4096\n managed 4096\n spanned 4096\n start_pfn: 4096\n";
    let cases: [(&str, &[u8]); 45] = [
        ("kpageflags.rle", b""),
        ("zoneinfo", movable_first),
        ("iomem", b"\0\0\0"),
        ("iomem", b"zz-10 : System RAM\n"),
        ("iomem", b"10-0 : System RAM\n"),
        ("iomem", b"0-fffffffffffffffff : System RAM\n"),
        ("iomem", b"\x1f\x8b\x08"),
        ("iomem", b"00000000-00000fff : Reserved\n"),
        ("buddyinfo", b"Node x, zone DMA 1\n"),
        ("buddyinfo", b"Node 999, zone DMA 1\n"),
        ("buddyinfo", b"Node 0\n"),
        ("buddyinfo", b"Node 0, zone DMA -1\n"),
        ("buddyinfo", b"Node 0, zone DMA 99999999999999999999999\n"),
        ("buddyinfo", b"\x1b[31m\n"),
        ("buddyinfo", b"PERFILE2"),
        ("zoneinfo", b"Node 0, zone DMA\n  pages free -1\n"),
        ("zoneinfo", b"Node 0, zone DMA\n"),
        ("zoneinfo", b"pages free 1\n"),
        ("zoneinfo", b"Node 0, zone \x1b\n  pages free x\n"),
        ("zoneinfo", b"Node 0, zone DMA\n protection: 1, 2\n"),
        ("zoneinfo", b"Node 0, zone HighMem\n present 5\n start_pfn: 1\n spanned 5\n"),
        ("zoneinfo", b"\xff\xff\xff"),
        ("pagetypeinfo", b""),
        ("pagetypeinfo", b"Page block order: x\n"),
        ("pagetypeinfo", b"\x07\n"),
        ("pagetypeinfo", b"\x28\xb5\x2f\xfd\xff"),
        ("kpageflags.rle", b"0 16\n"),
        ("kpageflags.rle", b"x 16 R\n"),
        ("kpageflags.rle", b"0 16 Q\n"),
        ("kpageflags.rle", b"0 16 R extra\n"),
        ("kpageflags.rle", b"0 -5 R\n"),
        ("kpageflags.rle", b"ffffffffffffffff 16 F\n"),
        ("kpageflags.rle", b"0 18446744073709551615 F\n"),
        ("iomem", b""),
        ("iomem", b"0-1 System RAM\n"),
        ("iomem", b"\x1b[31m\n"),
        ("iomem", b"00000000-00000000 : System RAM\n"),
        ("buddyinfo", b""),
        ("buddyinfo", b"Node 0, zone DMA x\n"),
        ("zoneinfo", b""),
        ("zoneinfo", b"Node 0, zone DMA\n  pages free 99999999999999999999999\n"),
        ("pagetypeinfo", b"\xff\xfe\n"),
        ("kpageflags.rle", b"0 16 R\n8 8 F\n"),
        ("kpageflags.rle", b"0 ffffffffffffffffffff F\n"),
        ("kpageflags.rle", b"0 16 \x07\n"),
    ];
    for (name, content) in cases {
        let directory = TempDir::new().unwrap();
        for entry in fs::read_dir(fixture().join("before")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
        }
        fs::write(directory.path().join(name), content).unwrap();
        let mut command = pageblock();
        let output =
            command.args(["replay", "-q"]).arg(fixture().join("trace.txt")).arg("--state").arg(directory.path());
        let (code, said) = decent(name, &output.output().unwrap());
        assert_eq!(code, 1, "{name}: {said}");
        assert!(said.contains("expected"), "{name} of {content:?}: {said}");
    }
}

/// Frames that are memory, each beside one that is none.
fn many_regions() -> Vec<u8> {
    (0..3000).map(|at| at * 8192).flat_map(|at| format!("{at:x}-{:x} : System RAM\n", at + 4095).into_bytes()).collect()
}

#[test]
fn maps_that_are_none_are_refused() {
    let directory = TempDir::new().unwrap();
    let cases: [(&str, Vec<u8>); 23] = [
        ("more regions than a map has runs", many_regions()),
        ("a line of blanks", vec![b' '; 100_000]),
        ("memory above the largest frame number", b"00100000-3fffffffffff : System RAM\n".to_vec()),
        ("an e820 entry of all addresses", b"BIOS-e820: [mem 0x0-0xffffffffffffffff] usable\n".to_vec()),
        ("a file of perf", b"PERFILE2".to_vec()),
        ("zstd of 4 bytes", b"\x28\xb5\x2f\xfd".to_vec()),
        ("zeroes", vec![0; 4]),
        ("only ends of lines", b"\n\n\n".to_vec()),
        ("no memory", b"00000000-00000fff : Reserved\n".to_vec()),
        ("two bytes of memory", b"BIOS-e820: [mem 0x0-0x1] usable\n".to_vec()),
        ("too little memory", b"0-1ffff : System RAM\n".to_vec()),
        ("an entry of words", b"BIOS-e820: [mem zz] usable\n".to_vec()),
        ("all addresses", b"0-ffffffffffffffff : System RAM\n".to_vec()),
        ("an end before the start", b"10-0 : System RAM\n".to_vec()),
        ("JSON", b"{\"a\": 1}\n".to_vec()),
        ("HTML", b"<html>\n".to_vec()),
        ("empty", Vec::new()),
        ("noise", noise()),
        ("words", b"these are words\n".to_vec()),
        ("addresses without root", b"00000000-00000000 : System RAM\n00000000-00000000 : Reserved\n".to_vec()),
        ("gzip", b"\x1f\x8b\x08\0".to_vec()),
        ("escapes", b"\x1b]0;title\x07\n".to_vec()),
        ("a trace", fs::read(fixture().join("trace.txt")).unwrap()),
    ];
    for (name, content) in cases {
        let path = directory.path().join("map");
        fs::write(&path, content).unwrap();
        let (code, said) = decent(name, &pageblock().arg("map").arg(&path).output().unwrap());
        assert_eq!(code, 1, "{name}: {said}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn command_lines_that_are_wrong_are_status_2() {
    let cases: [(&[&str], &str); 59] = [
        (&["map", "a", "--reserve", "0xffffffffffffffff+1"], "leaves the address space"),
        (&["map", "a", "--reserve", "1+99999999999999999999"], "a number of bytes"),
        (&["map", "a", "--movable", "100%"], "a number of bytes"),
        (&["run", "--list", "extra"], "cannot be used"),
        (&["completions", "bash", "extra"], "unexpected argument"),
        (&["replay", "a", "--perfetto", ""], "<FILE>"),
        (&["replay", "a", "--rules"], "linux-6.18"),
        (&["replay", "a", "--rules", "linux-9.9"], "linux-6.18"),
        (&["replay", "a", "--rules", ""], "linux-6.18"),
        (&["replay", "a", "--rules", ","], "linux-6.18"),
        (&["replay", "a", "--rules", "default,"], "linux-6.18"),
        (&["replay", "a", "--out"], "<DIR>"),
        (&["replay", "a", "--out", ""], "<DIR>"),
        (&["replay", "a", "--state"], "<DIR>"),
        (&["replay", "a", "--perfetto"], "<FILE>"),
        (&["replay", ""], "<TRACE>"),
        (&["replay", "a", "--json=yes"], "unexpected value"),
        (&["replay", "a", "--lenient=1"], "unexpected value"),
        (&["replay", "a", "--color"], "always"),
        (&["-qq"], "cannot be used"),
        (&["-v", "-v"], "cannot be used"),
        (&["map", "a", "--reserve"], "<RANGE>"),
        (&["map", "a", "--reserve", "1M.."], "a number of bytes"),
        (&["map", "a", "--reserve", "..1M"], "a number of bytes"),
        (&["map", "a", "--reserve", "1..2..3"], "a number of bytes"),
        (&["map", "a", "--reserve", "0xzz..1"], "a number of bytes"),
        (&["map", "a", "--reserve", "1K..1Q"], "a number of bytes"),
        (&["map", "a", "--reserve-low", "1Q"], "a number of bytes"),
        (&["map", "a", "--movable", "1.5.5G"], "a number of bytes"),
        (&["map", "a", "--movable", "-1"], "unexpected argument"),
        (&["map", "a", "--cpus", "1.5"], "expected 1 to 8192"),
        (&["map", "a", "--cpus", "x"], "expected 1 to 8192"),
        (&["map", "a", "--cpus", ""], "expected 1 to 8192"),
        (&["pagetypeinfo"], "<TRACE>"),
        (&["zoneinfo"], "<TRACE>"),
        (&["vmstat"], "<TRACE>"),
        (&["extfrag"], "<TRACE>"),
        (&["vmstat", "a", "b"], "unexpected argument"),
        (&["help", "nothing"], "unrecognized"),
        (&["completions"], "<SHELL>"),
        (&["completions", "csh"], "zsh"),
        (&["run", "highalloc", "--jobs", "0"], "expected 1 to 1024"),
        (&["run", "highalloc", "--jobs", "99999999999999999999"], "expected 1 to 1024"),
        (&["repaly"], "replay"),
        (&["\x1b[31m"], "unrecognized"),
        (&["replay"], "<TRACE>"),
        (&["replay", "a", "b"], "unexpected"),
        (&["replay", "a", "--colour"], "unexpected"),
        (&["replay", "a", "--color", "mauve"], "always"),
        (&["replay", "a", "-q", "-v"], "cannot be used with"),
        (&["map"], "<FILE>"),
        (&["map", "a", "--cpus", "0"], "expected 1 to 8192"),
        (&["map", "a", "--cpus", "-3"], ""),
        (&["map", "a", "--cpus", "4294967295"], "expected 1 to 8192"),
        (&["map", "a", "--reserve", "5"], ""),
        (&["map", "a", "--reserve", "5M..1M"], ""),
        (&["map", "a", "--movable", "much"], "expected a number of bytes"),
        (&["map", "a", "--movable", "99999999999999999999999"], ""),
        (&["buddyinfo"], "<TRACE>"),
    ];
    for (words, expected) in cases {
        let (code, said) = decent(words[0], &pageblock().args(words).output().unwrap());
        assert_eq!(code, 2, "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

#[test]
fn files_that_are_not_there_or_cannot_be_written_are_named() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let trace = fixture().join("trace.txt");
    let (trace, file, folder) = (trace.to_str().unwrap(), file.to_str().unwrap(), directory.path().to_str().unwrap());
    let below = format!("{trace}/x");
    let full = directory.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let cases: [(&[&str], &str); 18] = [
        (&["replay", trace, "-q", "--perfetto", full.to_str().unwrap()], "full cannot be written"),
        (&["replay", trace, "--perfetto", "/"], "/ cannot be written"),
        (&["replay", trace, "--out", &below], "cannot be made"),
        (&["replay", trace, "--perfetto", "/nonexist/x"], "/nonexist/x cannot be written"),
        (&["replay", trace, "--perfetto", folder], "cannot be written"),
        (&["replay", "--", "--json"], "--json: expected a readable trace file"),
        (&["vmstat", trace, "--state", "/nonexist"], "/nonexist: expected a directory"),
        (&["zoneinfo", "/nonexist"], "/nonexist: expected a readable trace file"),
        (&["extfrag", folder], "found a directory"),
        (&["map", "/dev/null"], "expected at least one"),
        (&["replay", "/nonexist"], "/nonexist: expected a readable trace file"),
        (&["replay", folder], "found a directory"),
        (&["replay", trace, "--state", "/nonexist"], "/nonexist: expected a directory"),
        (&["replay", trace, "--state", file], "expected a directory"),
        (&["replay", trace, "--out", file], "cannot be made"),
        (&["replay", trace, "--out", "/proc/x"], "/proc/x cannot be made"),
        (&["map", "/nonexist"], "/nonexist: expected a memory map"),
        (&["map", folder], "expected a memory map"),
    ];
    for (words, expected) in cases {
        let (code, said) = decent(words[0], &pageblock().args(words).output().unwrap());
        assert_eq!(code, 1, "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

/// Commands that print something.
fn printing() -> Vec<Vec<String>> {
    let (trace, map) = (fixture().join("trace.txt"), fixture().join("before/iomem"));
    let (trace, map) = (trace.to_str().unwrap(), map.to_str().unwrap());
    let commands: [&[&str]; 15] = [
        &["zoneinfo", trace],
        &["vmstat", trace],
        &["extfrag", trace],
        &["replay", trace, "--rules", "linux-6.18,default"],
        &["completions", "bash"],
        &["man"],
        &["replay", trace],
        &["replay", "-v", trace],
        &["replay", trace, "--json"],
        &["buddyinfo", trace],
        &["pagetypeinfo", trace],
        &["map", map],
        &["map", map, "--json"],
        &["--help"],
        &["run", "--list"],
    ];
    commands.iter().map(|words| words.iter().map(|&word| word.to_owned()).collect()).collect()
}

#[test]
fn a_closed_pipe_ends_every_command_quietly() {
    for words in printing() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = pageblock().args(&words).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(decent(&words[0], &output), (0, String::new()), "{words:?}");
    }
}

#[test]
fn a_full_disk_is_a_fault_of_every_command() {
    for words in printing() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = pageblock().args(&words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let (code, said) = decent(&words[0], &output);
        assert_eq!(code, 1, "{words:?}: {said}");
        assert!(said.contains("standard output cannot be written"), "{words:?}: {said}");
    }
}

#[test]
fn nothing_is_written_where_nothing_was_asked_for() {
    let (here, temporary) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let run = |words: &[&str]| {
        let trace = fixture().join("trace.txt");
        let mut command = pageblock();
        command.current_dir(here.path()).env("TMPDIR", temporary.path()).arg("replay").arg(trace).args(words);
        let output = command.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let entries = |directory: &Path| fs::read_dir(directory).unwrap().count();
    run(&["--json"]);
    assert_eq!((entries(here.path()), entries(temporary.path())), (0, 0));
    let text = run(&[]);
    assert_eq!((entries(here.path()), entries(temporary.path())), (0, 1));
    let report = text.lines().last().unwrap().strip_prefix("Report: ").unwrap();
    assert!(Path::new(report).starts_with(temporary.path()) && Path::new(report).is_file());
    assert!(text.lines().all(|line| line.chars().count() <= 80 || line.starts_with("Report: ")), "{text}");
    fs::create_dir(here.path().join("target")).unwrap();
    assert!(run(&[]).ends_with("\nReport: target/report/index.html\n"));
}

#[test]
fn a_trace_for_perfetto_has_a_process_a_machine() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("trace.json");
    let mut command = pageblock();
    command.args(["replay", "-q", "--rules", "linux-6.1,default,linux-6.1"]).arg(fixture().join("trace.txt"));
    let output = command.arg("--out").arg(directory.path()).arg("--perfetto").arg(&file).output().unwrap();
    assert_eq!(decent("perfetto", &output).0, 0);
    let trace: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named: Vec<_> = events.iter().filter(|event| event["name"] == "process_name").collect();
    let names: Vec<_> = named.iter().map(|event| event["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Linux", "linux-6.1", "default"]);
    let last = events.iter().rev().find(|event| event["name"] == "free frames").unwrap();
    assert_eq!((&last["pid"], &last["args"]["value"], &last["ph"]), (&3.into(), &7045.into(), &"C".into()));
}
