//! When to store past the caches.
//!
//! An ordinary store reads the line first (write-allocate) and leaves it in the caches; a non-temporal one does neither. Past
//! the last level that saves a third of a copy's traffic; below it the next reader pays. The crossing is a property of the
//! machine: measured where someone measured it, else three quarters of the last-level cache.

use std::sync::OnceLock;

/// Environment variable that overrides the threshold, in bytes.
pub const OVERRIDE: &str = "ELLWAND_NON_TEMPORAL_BYTES";

/// Says what was measured, if anything was.
static MEASURED: OnceLock<fn() -> Option<u64>> = OnceLock::new();

/// From where on non-temporal stores pay, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Bytes read and written by one call.
    pub bytes: u64,
    /// Where the number comes from, in words.
    pub origin: &'static str,
}

/// Tells the kernels of this process whom to ask from how many bytes, read and written together, non-temporal stores were
/// measured to pay. The first to be named is asked, once, when a kernel wants to know: most never do.
pub fn measured_by(ask: fn() -> Option<u64>) {
    let _ = MEASURED.set(ask);
}

/// The threshold of this machine.
#[must_use]
pub fn threshold() -> Threshold {
    static GIVEN: OnceLock<Option<u64>> = OnceLock::new();
    static KNOWN: OnceLock<Option<u64>> = OnceLock::new();
    static CACHE: OnceLock<Option<u64>> = OnceLock::new();
    let given = *GIVEN.get_or_init(|| std::env::var(OVERRIDE).ok().and_then(|text| text.trim().parse().ok()));
    let measured = *KNOWN.get_or_init(|| MEASURED.get().and_then(|ask| ask()));
    let last_level = *CACHE.get_or_init(last_level_cache);
    choose(given, measured, last_level)
}

fn choose(given: Option<u64>, measured: Option<u64>, last_level: Option<u64>) -> Threshold {
    match (given, measured, last_level) {
        (Some(bytes), _, _) => Threshold { bytes, origin: "as the environment says" },
        (None, Some(bytes), _) => Threshold { bytes, origin: "measured on this machine" },
        (None, None, Some(cache)) => Threshold { bytes: cache / 4 * 3, origin: "3/4 of the last-level cache" },
        (None, None, None) => Threshold { bytes: 24 << 20, origin: "assumed: the caches are unknown" },
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
        let all = choose(Some(1), Some(2), Some(4));
        assert_eq!((all.bytes, all.origin), (1, "as the environment says"));
        assert_eq!(choose(None, Some(2), Some(4)).bytes, 2);
        assert_eq!(choose(None, None, Some(32 << 20)).bytes, 24 << 20);
        assert_eq!(choose(None, None, None).origin, "assumed: the caches are unknown");
    }
}
