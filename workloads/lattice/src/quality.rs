//! The quality of a code on data: error, rate with all side information, use of the levels.

use ellwand_core::InputError;
use ellwand_simd::isa::Isa;

use super::bits::BitReader;
use super::params::{Codec, Overload, Params};
use super::{CodesMut, Method};

/// Error and rate of encoded data. Rates are in bits per dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct Quality {
    /// Mean squared error per value.
    pub mse: f64,
    /// Mean squared error per value of the vectors inside the codebook; NaN if there are none.
    pub mse_inside: f64,
    /// Mean square of the values.
    pub power: f64,
    /// Share of vectors outside the codebook (at the first scale, in the mode retry).
    pub overload_rate: f64,
    /// Share of vectors outside the codebook even after all retries; otherwise equal to `overload_rate`.
    pub lost_rate: f64,
    /// Share of vectors with a non-zero digit at each level, the finest first.
    pub level_use: Vec<f64>,
    /// Entropy of the retry counts, bits per vector; 0 without retries.
    pub retry_entropy: f64,
    /// Entropy of the overload flags, bits per vector; 0 in the mode none, which has no flags.
    pub flag_entropy: f64,
    /// Payload in bits per dimension, M log2 q.
    pub payload_rate: f64,
    /// M log2 q + (H(T) + H(flag))/d: the rate with an entropy coder.
    pub rate: f64,
    /// Bits without an entropy coder: packed codes, one bit per vector for overload and one byte for retries.
    pub packed_rate: f64,
}

impl Quality {
    /// Signal-to-noise ratio in dB.
    pub fn snr_db(&self) -> f64 {
        10.0 * (self.power / self.mse).log10()
    }

    /// MSE / power * 2^(2R): 1 is the rate-distortion bound of a Gaussian source.
    pub fn distance_to_bound(&self) -> f64 {
        self.mse / self.power * (2.0 * self.rate).exp2()
    }

    /// Encodes and decodes whole vectors and evaluates the result. In the mode none, encodes once more with flags to
    /// find the overload rate.
    ///
    /// # Errors
    /// If `x` is not a whole number of vectors.
    pub fn measure(codec: &Codec, x: &[f32]) -> Result<Quality, InputError> {
        let n = codec.vectors_in(x.len())?;
        let method = Method::Simd(Isa::best());
        let mut packed = vec![0; codec.packed_len(n)];
        let mut overload = vec![0; n];
        let mut retries = codec.has_retries().then(|| vec![0; n]);
        let flagging = match codec.has_overload() {
            true => codec.clone(),
            false => Codec::new(Params { overload: Overload::Flag, ..*codec.params() })?,
        };
        let out = CodesMut { packed: &mut packed, overload: Some(&mut overload), retries: retries.as_deref_mut() };
        flagging.encode(method, x, out)?;
        let mut decoded = vec![0.0; x.len()];
        codec.decode(method, &packed, retries.as_deref(), &mut decoded)?;
        Ok(Quality::of(codec, x, &packed, &overload, retries.as_deref(), &decoded))
    }

    /// As [`Quality::measure`], from existing codes and decoded values.
    pub fn of(
        codec: &Codec,
        x: &[f32],
        packed: &[u8],
        overload: &[u8],
        retries: Option<&[u8]>,
        decoded: &[f32],
    ) -> Quality {
        let d = codec.dimension();
        let n = x.len() / d;
        let per = |count: usize| if n == 0 { 0.0 } else { count as f64 / n as f64 };
        let mean = |sum: f64| if x.is_empty() { 0.0 } else { sum / x.len() as f64 };
        let mse = mean(x.iter().zip(decoded).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum());
        let inside: Vec<f64> = x
            .chunks_exact(d)
            .zip(decoded.chunks_exact(d))
            .zip(overload)
            .filter(|(_, flag)| **flag == 0)
            .flat_map(|((x, y), _)| x.iter().zip(y).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)))
            .collect();
        let mse_inside = inside.iter().sum::<f64>() / inside.len() as f64;
        let power = mean(x.iter().map(|&x| f64::from(x).powi(2)).sum());
        let lost_rate = per(overload.iter().filter(|&&flag| flag != 0).count());
        let overload_rate = match retries {
            Some(retries) => per(retries.iter().filter(|&&t| t > 0).count()),
            None => lost_rate,
        };
        let mut used = vec![0usize; codec.levels()];
        let mut reader = BitReader::new(packed);
        for _ in 0..n {
            for level in &mut used {
                *level += usize::from(reader.get(codec.level_bits()) != 0);
            }
        }
        let retry_entropy = retries.map_or(0.0, entropy);
        let flag_entropy = if codec.has_overload() { entropy(overload) } else { 0.0 };
        let payload_rate = codec.levels() as f64 * f64::from(codec.q()).log2();
        let side_bits = n * (usize::from(codec.has_overload()) + 8 * usize::from(retries.is_some()));
        let bits = (8 * codec.packed_len(n) + side_bits) as f64;
        Quality {
            mse,
            mse_inside,
            power,
            overload_rate,
            lost_rate,
            level_use: used.into_iter().map(per).collect(),
            retry_entropy,
            flag_entropy,
            payload_rate,
            rate: payload_rate + (retry_entropy + flag_entropy) / d as f64,
            packed_rate: bits / (n.max(1) * d) as f64,
        }
    }
}

/// Empirical entropy of bytes, bits per byte.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u64; 256];
    bytes.iter().for_each(|&b| counts[usize::from(b)] += 1);
    let n = bytes.len() as f64;
    counts.iter().filter(|&&c| c > 0).map(|&c| c as f64 / n).map(|p| -p * p.log2()).sum::<f64>().max(0.0)
}

/// Number of vectors that the search for a scale evaluates.
const SAMPLE: usize = 4096;

/// The smallest scale worth trying for data of unit power: the ball of the codebook then just holds a typical vector
/// (Kaplan and Ordentlich): q^-M / sqrt(NSM det^(2/d)) * sqrt(d / (d + 2)).
pub fn smallest_scale(codec_params: &Params) -> f64 {
    let d = codec_params.lattice.dimension() as f64;
    let side = f64::from(codec_params.q).powi(codec_params.levels as i32);
    (d / (d + 2.0)).sqrt() / (side * codec_params.lattice.second_moment().sqrt())
}

/// Chooses beta for the data: the scale with the least MSE * 2^(2R) on the grid beta_min (1 + 0.05 k), in units of the
/// data's root mean square, evaluated on up to 4096 vectors spread evenly over the data. The grid has 40 points with
/// retries; without them overload is costly, and it extends twice as far. If every grid point loses more than the whole
/// power of the data, as with q = 2 and many levels, it continues by factors of 1.1. Ignores `params.beta`. Data without power get
/// beta = 1.
///
/// # Errors
/// If `x` is not a whole number of vectors, or no scale in range fits.
pub fn choose_beta(params: &Params, x: &[f32]) -> Result<f32, InputError> {
    let d = params.lattice.dimension();
    let probe = Codec::new(Params { beta: 1.0, ..*params })?;
    let n = probe.vectors_in(x.len())?;
    let step = n.div_ceil(SAMPLE).max(1);
    let sample: Vec<f32> = x.chunks_exact(d).step_by(step).flatten().copied().collect();
    let power = sample.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / sample.len().max(1) as f64;
    let rms = power.sqrt();
    if rms == 0.0 || !rms.is_finite() {
        return Ok(1.0);
    }
    let smallest = rms * smallest_scale(params);
    let points: usize = if probe.has_retries() { 40 } else { 80 };
    // Whether it loses more than the power of the data, cost, scale.
    let mut best: Option<(bool, f64, f32)> = None;
    let grid = (0..points).map(|k| smallest * (1.0 + 0.05 * k as f64));
    let end = smallest * (1.0 + 0.05 * points as f64);
    let further = (0..).map(|k| end * 1.1_f64.powi(k)).take_while(|beta| *beta < 4.0 * rms);
    for (k, beta) in grid.chain(further).enumerate() {
        if k == points && best.is_some_and(|(loses, ..)| !loses) {
            break;
        }
        let beta = beta as f32;
        // Only the scale can be out of range: `probe` has the other parameters.
        let Ok(codec) = Codec::new(Params { beta, ..*params }) else { continue };
        let quality = Quality::measure(&codec, &sample)?;
        let (loses, cost) = (quality.mse > power, quality.mse * (2.0 * quality.rate).exp2());
        if best.is_none_or(|(lost, least, _)| (loses, cost) < (lost, least)) {
            best = Some((loses, cost, beta));
        }
    }
    best.map(|(.., beta)| beta).ok_or_else(|| {
        let problem = format!("a root mean square of {rms:e} leaves no scale between 1e-30 and 1e30");
        InputError::new("x", problem, "data scaled to a root mean square near 1")
    })
}
