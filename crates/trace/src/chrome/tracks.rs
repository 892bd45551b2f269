//! Quantities over time: counter events, and the PyTorch profiler's memory marks.

use std::collections::HashMap;

use ellwand_profile::Track;

use super::events::shifted;
use super::scalar::{Args, number};
use crate::read::{MAX_POINTS, shortened};

/// Maximum number of tracks per file.
const MAX_TRACKS: usize = 4096;

/// The tracks of a file, with times as in spans under construction.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    pub(crate) tracks: Vec<Track>,
    known: HashMap<String, usize>,
    points: usize,
    pub(crate) dropped: u64,
}

impl Tracks {
    /// A counter event: one series per argument. Our own export uses the unit as the argument's name.
    pub(crate) fn counter(&mut self, at: i64, name: &str, args: &Args) {
        let series: Vec<(&str, f64)> =
            args.0.iter().filter_map(|(key, value)| Some((key.as_str(), number(value)?))).collect();
        for (key, value) in &series {
            let unit = match *key {
                "bytes" => "B",
                "B" | "W" | "%" | "MHz" | "C" | "°C" => key,
                _ => "",
            };
            let plain = !unit.is_empty() || series.len() == 1 && matches!(*key, "value" | "");
            let name = if plain { name.to_string() } else { format!("{name}.{key}") };
            self.push(&name, unit, at, *value);
        }
    }

    /// A `[memory]` mark: the bytes that a device's allocator holds after an allocation.
    pub(crate) fn memory(&mut self, at: i64, args: &mut Args) {
        let device = match (args.take_number("Device Type"), args.take_number("Device Id")) {
            (Some(0.0), _) => "cpu".to_string(),
            (Some(1.0), Some(number)) => format!("cuda:{number}"),
            (kind, number) => format!("device {}:{}", kind.unwrap_or(-1.0), number.unwrap_or(-1.0)),
        };
        for (name, what) in [("Total Allocated", "allocated"), ("Total Reserved", "reserved")] {
            if let Some(value) = args.take_number(name) {
                self.push(&format!("{what}, {device}"), "B", at, value);
            }
        }
    }

    fn push(&mut self, name: &str, unit: &str, at: i64, value: f64) {
        let name = shortened(name, 200);
        let full = self.points >= MAX_POINTS || self.tracks.len() >= MAX_TRACKS && !self.known.contains_key(&name);
        if full {
            self.dropped += 1;
            return;
        }
        let tracks = &mut self.tracks;
        let index = *self.known.entry(name).or_insert_with_key(|name| {
            tracks.push(Track { name: name.clone(), unit: unit.to_string(), points: Vec::new() });
            tracks.len() - 1
        });
        if let Some(track) = tracks.get_mut(index) {
            track.points.push((shifted(at), value));
            self.points += 1;
        }
    }
}
