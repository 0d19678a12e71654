//! A replay as counters over time, in the trace-event format that ui.perfetto.dev opens.

use serde_json::{Value, json};

use crate::replay::{Outcome, Sample};

/// A counter and where its values stand, one a machine.
type Counter = (&'static str, fn(&Sample) -> &[u64]);

const COUNTERS: [Counter; 3] = [
    ("whole pageblocks", |sample| &sample.free_pageblocks),
    ("free frames", |sample| &sample.free_frames),
    ("fallbacks so far", |sample| &sample.fallbacks),
];

/// One process a machine, Linux first, and in each a track a counter.
pub(crate) fn perfetto(outcome: &Outcome) -> String {
    let mut events: Vec<Value> = Vec::new();
    for (pid, name) in (1..).zip(outcome.names()) {
        events.push(json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}));
        events.push(json!({"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}));
        for sample in &outcome.samples {
            for (counter, of) in COUNTERS {
                if let Some(value) = of(sample).get(pid - 1) {
                    events.push(json!({
                        "ph": "C", "pid": pid, "ts": sample.micros, "name": counter, "args": {"value": value},
                    }));
                }
            }
        }
    }
    let mut text =
        json!({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"trace": outcome.trace}}).to_string();
    text.push('\n');
    text
}
