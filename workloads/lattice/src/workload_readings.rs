//! Readings from the outputs of the coding workloads: error, rate, use of the levels.

use ellwand_core::{Better, Case, InputError, Reading, Tensors};
use ellwand_simd::isa::Isa;

use super::layout::Layout;
use super::params::{Codec, Overload, Params};
use super::quality::Quality;
use super::scalar_rival::scalar_rival;
use super::workload as shared;
use super::workload_code::Task;
use super::{Codes, CodesMut, Method};

/// The readings of one measurement; empty if the original values are unknown.
pub(super) fn readings(task: Task, case: &Case, inputs: &Tensors, outputs: &Tensors) -> Vec<Reading> {
    let Ok((codec, quality, stored)) = quality(task, case, inputs, outputs) else { return Vec::new() };
    let values = inputs.f32(if task == Task::Decode { "original" } else { "x" }).unwrap_or_default();
    let rival = scalar_rival(values, quality.rate);
    list(&codec, quality, stored, rival)
}

/// The code, error and rate of the result, and the bits per value of its code file without the header; an error if the original
/// values are unknown.
fn quality(task: Task, case: &Case, inputs: &Tensors, outputs: &Tensors) -> Result<(Codec, Quality, f64), InputError> {
    let codec = shared::codec(case, inputs)?;
    let x = inputs.get(if task == Task::Decode { "original" } else { "x" })?;
    let layout = Layout::new(x.shape(), codec.dimension())?;
    let padded = layout.pad(x.f32()?)?;
    let codes = if task == Task::Decode { inputs } else { outputs };
    let packed = codes.u8("packed")?;
    let retries = if codec.has_retries() { Some(codes.u8("retries")?) } else { None };
    let mut decoded = vec![0.0; padded.len()];
    codec.decode(Method::Simd(Isa::best()), packed, retries, &mut decoded)?;
    // Flags come from encoding again, because not all modes and tasks have them.
    let flagging = match codec.has_retries() {
        true => codec.clone(),
        false => Codec::new(Params { overload: Overload::Flag, ..*codec.params() })?,
    };
    let mut flags = vec![0; layout.vectors()];
    let mut ignored = (vec![0; packed.len()], flagging.has_retries().then(|| vec![0; layout.vectors()]));
    let out = CodesMut { packed: &mut ignored.0, overload: Some(&mut flags), retries: ignored.1.as_deref_mut() };
    flagging.encode(Method::Simd(Isa::best()), &padded, out)?;
    let mut quality = Quality::of(&codec, &padded, packed, &flags, retries, &decoded);
    let marks = codec.has_overload().then_some(&flags[..]);
    let stored = Codes::from_parts(&codec, &layout, packed, marks, retries).stored_bits();
    if !layout.is_exact() {
        let (seen, values) = (layout.values() as f64, padded.len() as f64);
        let trimmed = layout.trim(&decoded)?;
        quality.power *= values / seen;
        let errors = x.f32()?.iter().zip(trimmed).map(|(&x, y)| (f64::from(x) - f64::from(y)).powi(2));
        let errors: Vec<f64> = errors.collect();
        quality.mse = errors.iter().sum::<f64>() / seen;
        // Padding is not a value, not even in vectors inside the codebook.
        let marks: Vec<f32> = flags.iter().flat_map(|flag| vec![f32::from(*flag); codec.dimension()]).collect();
        let marks = layout.trim(&marks)?;
        let inside = errors.iter().zip(marks).filter(|(_, mark)| *mark == 0.0).map(|(error, _)| *error);
        let (count, sum) = inside.fold((0.0, 0.0), |(count, sum), error| (count + 1.0, sum + error));
        quality.mse_inside = sum / count;
        quality.packed_rate *= values / seen;
        quality.payload_rate *= values / seen;
        quality.rate *= values / seen;
    }
    Ok((codec, quality, stored as f64 / layout.values().max(1) as f64))
}

fn list(codec: &Codec, quality: Quality, stored: f64, rival: Option<(f64, u32)>) -> Vec<Reading> {
    use Better::{Higher, Lower, Neither};
    let mut list = vec![
        Reading::measured("mse", "MSE", "", Lower, quality.mse, "mean squared error per value"),
        Reading::measured(
            "mse-inside",
            "MSE inside",
            "",
            Lower,
            quality.mse_inside,
            "mean squared error per value of the vectors inside the codebook: the error without wrapped vectors",
        ),
        Reading::derived("snr", "SNR", "dB", Higher, quality.snr_db(), "10 log10 of power over mean squared error"),
        Reading::measured(
            "overload-rate",
            "overload",
            "1",
            Lower,
            quality.overload_rate,
            match codec.has_retries() {
                true => "share of vectors outside the codebook at the first scale, which needed a retry",
                false => "share of vectors outside the codebook",
            },
        ),
    ];
    if codec.has_retries() {
        let lost = "share of vectors outside the codebook even after all retries; the output overload marks them";
        list.push(Reading::measured("lost-rate", "lost", "1", Lower, quality.lost_rate, lost));
        let about = "entropy H(T) of the retry counts per vector";
        list.push(Reading::measured("retry-entropy", "H(T)", "bits", Lower, quality.retry_entropy, about));
    }
    for (level, &used) in quality.level_use.iter().enumerate() {
        let (id, title) = (format!("level-{level}-used"), format!("level {level} used"));
        let about = "share of vectors with a non-zero digit at this level (0 is the finest)";
        list.push(Reading::measured(&id, &title, "1", Neither, used, about));
    }
    list.extend(rates(codec, &quality, stored));
    if let Some((snr, levels)) = rival {
        let about = "SNR of a saturating uniform scalar quantizer at its best step on the same values, with no fewer bits than the rate";
        list.push(Reading::measured("scalar-snr", "scalar SNR", "dB", Neither, snr, about));
        let about = "rate of that scalar quantizer: log2 of its levels";
        list.push(Reading::derived("scalar-rate", "scalar rate", "bits/dim", Neither, f64::from(levels).log2(), about));
    }
    // The first readings are the last that a narrow table drops.
    const FIRST: [&str; 8] =
        ["snr", "scalar-snr", "rate", "scalar-rate", "stored-rate", "compression", "overload-rate", "mse"];
    list.sort_by_key(|reading| FIRST.iter().position(|id| *id == reading.id).unwrap_or(FIRST.len()));
    list.retain(|reading| reading.value.is_none_or(f64::is_finite));
    list
}

fn rates(codec: &Codec, quality: &Quality, stored: f64) -> [Reading; 7] {
    use Better::{Higher, Lower, Neither};
    [
        Reading::derived("payload-rate", "payload", "bits/dim", Lower, quality.payload_rate, "M log2 q"),
        Reading::derived(
            "rate",
            "rate",
            "bits/dim",
            Lower,
            quality.rate,
            "payload and the entropy of all side information: M log2 q + (H(T) + H(flag))/d",
        ),
        Reading::derived(
            "stored-rate",
            "stored",
            "bits/dim",
            Lower,
            stored,
            "size of the code file of `apply` without its header (about 80 bytes, which matter below some thousand vectors); side information is entropy-coded if that is smaller",
        ),
        Reading::derived(
            "packed-rate",
            "packed",
            "bits/dim",
            Lower,
            quality.packed_rate,
            "size with random access to vectors: packed codes, 1 bit per vector for overload, 8 for retries",
        ),
        Reading::derived(
            "compression",
            "compression",
            "x",
            Higher,
            32.0 / stored,
            "32-bit input over stored bits, without the header of a code file",
        ),
        Reading::derived(
            "bound-distance",
            "MSE 2^2R",
            "",
            Lower,
            quality.distance_to_bound(),
            "MSE / power * 2^(2 rate): 1 is the limit for a normal source",
        ),
        Reading::measured(
            "beta",
            "beta",
            "",
            Neither,
            f64::from(codec.params().beta),
            "scale of the finest lattice that was used",
        ),
    ]
}
