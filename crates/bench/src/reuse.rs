//! Detects a reused result. Every iteration gets the same input, so code that keeps the result of an earlier iteration
//! answers faster than it could read that input.

use ellwand_core::Work;
use ellwand_core::record::Measurement;
use ellwand_core::stats::median;

/// Maximum number of bytes that any core loads per second: two vectors of 64 bytes per cycle at 6 GHz.
const CORE_BYTES_PER_S: f64 = 2.0 * 64.0 * 6e9;

/// The remark on an implementation on the CPU whose iterations take `seconds`, if that is too short for all cores to
/// read what `work` requires.
pub fn remark(work: &Work, seconds: f64) -> Option<String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let rate = work.bytes_read as f64 / seconds;
    (seconds > 0.0 && rate > cores as f64 * CORE_BYTES_PER_S).then(|| {
        format!(
            "an iteration takes too little time to read its input ({:.0} GB/s): is it the result of an earlier \
             iteration? All get the same input",
            rate * 1e-9
        )
    })
}

/// The same for a finished measurement.
pub(crate) fn of(measurement: &Measurement) -> Option<String> {
    let walls: Vec<f64> = measurement.samples.iter().map(|s| s.wall_ns as f64 / s.iterations.max(1) as f64).collect();
    let seconds = 1e-9 * median(&walls)?;
    if measurement.device == "cpu" { remark(&measurement.work, seconds) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_cannot_have_been_read_is_remarked() {
        let work = Work::items("values", 1 << 20).bytes(4 << 20, 4);
        assert_eq!(remark(&work, 1e-4), None, "42 GB/s");
        let said = remark(&work, 2e-9 / 1000.0).unwrap();
        assert!(said.contains("the result of an earlier iteration"), "{said}");
        assert_eq!(remark(&Work::items("calls", 1), 1e-12), None, "it reads nothing");
    }
}
