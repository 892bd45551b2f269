//! Which calls worked on inputs of equal size; only those can be expected to take equal time.

use std::collections::HashMap;
use std::fmt::Write;

use ellwand_profile::{Detail, Trace, Value};

/// Words that mark an argument as the size of an input, alone (`n`, `shape`) or as part of a name (`batch_size`, `Input
/// Dims`).
const WORDS: [&str; 25] = [
    "batch", "bytes", "channels", "cols", "columns", "count", "dim", "dims", "elements", "frames", "height", "items",
    "len", "length", "lengths", "pixels", "points", "rows", "samples", "shape", "shapes", "size", "sizes", "tokens",
    "width",
];
/// Names of sizes in formulas; as part of a longer name they mean nothing.
const LETTERS: [&str; 3] = ["k", "m", "n"];

/// The size of spans without any declaration.
const UNKNOWN: u32 = 0;

/// The declared input size of every span; equal numbers mean equal sizes.
pub(super) struct Inputs {
    numbers: Vec<Vec<u32>>,
    /// The declared sizes as text, by number.
    names: Vec<String>,
}

impl Inputs {
    /// The sizes that spans of a trace declare by counters and arguments. A span that declares none has the size of its
    /// parent, because its work is part of the parent's.
    pub(super) fn of(trace: &Trace) -> Self {
        let mut known: HashMap<String, u32> = HashMap::from([(String::new(), UNKNOWN)]);
        let mut names = vec![String::new()];
        let mut numbers = Vec::with_capacity(trace.lanes.len());
        for lane in &trace.lanes {
            let mut of_lane: Vec<u32> = Vec::with_capacity(lane.spans.len());
            for span in &lane.spans {
                let declared = lane.detail_of(span).map(declared).filter(|declared| !declared.is_empty());
                // A parent precedes its children; an outermost span has no place in the list.
                let around = of_lane.get(span.parent as usize).copied().unwrap_or(UNKNOWN);
                of_lane.push(declared.map_or(around, |declared| {
                    *known.entry(declared).or_insert_with_key(|declared| {
                        names.push(declared.clone());
                        names.len() as u32 - 1
                    })
                }));
            }
            numbers.push(of_lane);
        }
        Self { numbers, names }
    }

    /// The size of a span, given by its lane number and its index there.
    pub(super) fn size(&self, lane: usize, index: usize) -> u32 {
        self.numbers[lane][index]
    }

    /// The declared size, such as `n = 1024`; empty if none was declared.
    pub(super) fn name(&self, size: u32) -> &str {
        self.names.get(size as usize).map_or("", String::as_str)
    }
}

/// The declared size as text.
fn declared(detail: &Detail) -> String {
    let mut text = String::new();
    let mut add = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{name} = {value}", if text.is_empty() { "" } else { ", " });
    };
    let counters = &detail.counters;
    for (name, value) in [("bytes", counters.bytes), ("items", counters.items)] {
        if value > 0 {
            add(name, &value);
        }
    }
    if counters.flops != 0.0 {
        add("flops", &counters.flops);
    }
    for (name, value) in detail.args.iter().filter(|(name, _)| is_size(name)) {
        match value {
            Value::Int(value) => add(name, value),
            Value::Float(value) => add(name, value),
            Value::Bool(value) => add(name, value),
            Value::Text(value) => add(name, value),
        }
    }
    text
}

/// True if the name of an argument marks it as a size.
fn is_size(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_word = |word: &str| WORDS.contains(&word);
    LETTERS.contains(&name.as_str()) || name.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_arguments_are_recognised_by_their_names() {
        for name in ["n", "K", "shape", "batch_size", "Input Dims", "num-rows", "len"] {
            assert!(is_size(name), "{name}");
        }
        for name in ["request", "id", "n_th", "step", "name", "dimmed", "seed", ""] {
            assert!(!is_size(name), "{name}");
        }
    }
}
