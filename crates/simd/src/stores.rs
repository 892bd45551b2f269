//! When to use non-temporal stores.
//!
//! An ordinary store first reads the line (write-allocate) and leaves it in the caches; a non-temporal store does
//! neither. Beyond the last-level cache, that saves a third of a copy's traffic; below, the next reader pays for it.
//! The threshold depends on the machine and on the number of threads: the measured value if there is one, else three
//! quarters of the last-level cache.

use std::sync::OnceLock;

/// Environment variable that overrides the threshold, in bytes.
pub const OVERRIDE: &str = "ELLWAND_NON_TEMPORAL_BYTES";

/// Returns the measured threshold of one thread or of all (true), if any.
static MEASURED: OnceLock<fn(bool) -> Option<u64>> = OnceLock::new();

/// The size from which non-temporal stores pay, and the origin of that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Bytes read and written by one call.
    pub bytes: u64,
    /// Origin of the number, in words.
    pub origin: &'static str,
}

/// Registers a function that returns the measured threshold: total bytes read and written above which non-temporal
/// stores pay, on one thread or on all (true). Only the first registration counts, and it is called once for each, when a
/// kernel first needs it.
pub fn measured_by(ask: fn(bool) -> Option<u64>) {
    let _ = MEASURED.set(ask);
}

/// The threshold of this machine for one thread, or for all.
#[must_use]
pub fn threshold(all_threads: bool) -> Threshold {
    static GIVEN: OnceLock<Option<u64>> = OnceLock::new();
    static KNOWN: [OnceLock<Option<u64>>; 2] = [const { OnceLock::new() }; 2];
    static CACHE: OnceLock<Option<u64>> = OnceLock::new();
    let given = *GIVEN.get_or_init(|| std::env::var(OVERRIDE).ok().and_then(|text| text.trim().parse().ok()));
    let known = &KNOWN[usize::from(all_threads)];
    let measured = *known.get_or_init(|| MEASURED.get().and_then(|ask| ask(all_threads)));
    let last_level = *CACHE.get_or_init(last_level_cache);
    choose(given, measured, last_level)
}

fn choose(given: Option<u64>, measured: Option<u64>, last_level: Option<u64>) -> Threshold {
    match (given, measured, last_level) {
        (Some(bytes), _, _) => Threshold { bytes, origin: "set by the environment" },
        (None, Some(bytes), _) => Threshold { bytes, origin: "measured on this machine" },
        (None, None, Some(cache)) => Threshold { bytes: cache / 4 * 3, origin: "3/4 of the last-level cache" },
        (None, None, None) => Threshold { bytes: 24 << 20, origin: "assumed: the caches are unknown" },
    }
}

/// Size in bytes of the largest cache that the system lists for the first CPU.
fn last_level_cache() -> Option<u64> {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    caches
        .filter_map(|cache| std::fs::read_to_string(cache.ok()?.path().join("size")).ok())
        .filter_map(|size| {
            let size = size.trim();
            match size.strip_suffix('K') {
                Some(kibi) => kibi.parse::<u64>().ok().map(|n| n << 10),
                None => size.strip_suffix('M')?.parse::<u64>().ok().map(|n| n << 20),
            }
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_threshold_overrides_the_measured_one_and_that_the_cache_size() {
        let all = choose(Some(1), Some(2), Some(4));
        assert_eq!((all.bytes, all.origin), (1, "set by the environment"));
        assert_eq!(choose(None, Some(2), Some(4)).bytes, 2);
        assert_eq!(choose(None, None, Some(32 << 20)).bytes, 24 << 20);
        assert_eq!(choose(None, None, None).origin, "assumed: the caches are unknown");
    }
}
