//! When to store past the caches.
//!
//! An ordinary store reads the line first (write-allocate) and leaves it in the caches; a non-temporal one does neither. Past
//! the last level that saves a third of a copy's traffic; below it the next reader pays. The crossing is a property of the
//! machine: measured where someone measured it, else three quarters of the last-level cache.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Environment variable that overrides the threshold, in bytes.
pub const OVERRIDE: &str = "ELLWAND_NON_TEMPORAL_BYTES";

/// 0 means that nothing was measured.
static MEASURED: AtomicU64 = AtomicU64::new(0);

/// From where on non-temporal stores pay, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Bytes read and written by one call.
    pub bytes: u64,
    /// Where the number comes from, in words.
    pub origin: &'static str,
}

/// Tells the kernels of this process from how many bytes, read and written together, non-temporal stores were measured to
/// pay. 0 forgets it.
pub fn measured(bytes: u64) {
    MEASURED.store(bytes, Relaxed);
}

/// The threshold of this machine.
#[must_use]
pub fn threshold() -> Threshold {
    static GIVEN: OnceLock<Option<u64>> = OnceLock::new();
    static CACHE: OnceLock<Option<u64>> = OnceLock::new();
    let given = *GIVEN.get_or_init(|| std::env::var(OVERRIDE).ok().and_then(|text| text.trim().parse().ok()));
    let last_level = *CACHE.get_or_init(last_level_cache);
    choose(given, MEASURED.load(Relaxed), last_level)
}

fn choose(given: Option<u64>, measured: u64, last_level: Option<u64>) -> Threshold {
    match (given, measured, last_level) {
        (Some(bytes), _, _) => Threshold { bytes, origin: "as the environment says" },
        (None, 1.., _) => Threshold { bytes: measured, origin: "measured on this machine" },
        (None, 0, Some(cache)) => Threshold { bytes: cache / 4 * 3, origin: "3/4 of the last-level cache" },
        (None, 0, None) => Threshold { bytes: 24 << 20, origin: "assumed: the caches are unknown" },
    }
}

/// Bytes of the largest cache that the system lists for the first processor.
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
    fn what_was_given_beats_what_was_measured_beats_the_cache() {
        let all = choose(Some(1), 2, Some(4));
        assert_eq!((all.bytes, all.origin), (1, "as the environment says"));
        assert_eq!(choose(None, 2, Some(4)).bytes, 2);
        assert_eq!(choose(None, 0, Some(32 << 20)).bytes, 24 << 20);
        assert_eq!(choose(None, 0, None).origin, "assumed: the caches are unknown");
    }
}
