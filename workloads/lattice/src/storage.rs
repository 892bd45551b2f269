//! The sections of a code file: packed as in memory, or with the side information at its entropy.
//!
//! Packed: level indices, one bit per vector for overload, one byte per vector for retries. Entropy-coded: retries and overload
//! flags go through a range coder (crate `constriction`) with the frequencies of this file, and so do the digits if q is
//! no power of 2, whose indices do not fill their bits; other indices stay packed. The size is then that of the rate.

use constriction::stream::model::{ContiguousCategoricalEntropyModel, UniformModel};
use constriction::stream::queue::{DefaultRangeDecoder, DefaultRangeEncoder};
use constriction::stream::{Decode, Encode};
use ellwand_core::InputError;

use super::codes::bad;
use super::params::Codec;

/// How the sections of a file are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    Packed,
    Entropy,
}

/// The arrays of codes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arrays {
    pub(super) packed: Vec<u8>,
    /// One byte per vector.
    pub(super) overload: Option<Vec<u8>>,
    pub(super) retries: Option<Vec<u8>>,
}

/// Precision of the frequencies, in bits.
const PRECISION: usize = 16;
type Model = ContiguousCategoricalEntropyModel<u32, Vec<u32>, PRECISION>;
type Digits = UniformModel<u32, 24>;

/// True if the digits go through the range coder.
fn codes_digits(codec: &Codec) -> bool {
    !codec.q().is_power_of_two()
}

/// The three sections of a file: packed, overload and retries; or packed, frequencies and coded words.
pub(super) fn sections(
    storage: Storage,
    codec: &Codec,
    vectors: usize,
    arrays: &Arrays,
) -> Result<[Vec<u8>; 3], InputError> {
    let Arrays { packed, overload, retries } = arrays;
    if storage == Storage::Packed {
        let bits = overload.as_deref().map(to_bits).unwrap_or_default();
        return Ok([packed.clone(), bits, retries.clone().unwrap_or_default()]);
    }
    let digits = if codes_digits(codec) { codec.digits(packed, vectors)? } else { Vec::new() };
    let mut tables = Vec::new();
    let mut side = Vec::new();
    for values in [retries, overload].into_iter().flatten() {
        let weights = weights(values);
        tables.push(weights.len() as u8);
        tables.extend(weights.iter().skip(1).flat_map(|weight| (*weight as u16).to_le_bytes()));
        side.extend(model(&weights)?.map(|model| (values, model)));
    }
    let uniform = Digits::new(codec.q() as usize);
    let mut coder = DefaultRangeEncoder::new();
    for vector in 0..vectors {
        for (values, model) in &side {
            coder.encode_symbol(usize::from(values[vector]), model).map_err(|_| damaged())?;
        }
        let size = digits.len() / vectors;
        for digit in &digits[vector * size..(vector + 1) * size] {
            coder.encode_symbol(usize::from(*digit), uniform).map_err(|_| damaged())?;
        }
    }
    let words = if side.is_empty() && digits.is_empty() {
        Vec::new()
    } else {
        coder.into_compressed().map_err(|_| damaged())?
    };
    let packed = if codes_digits(codec) { Vec::new() } else { packed.clone() };
    Ok([packed, tables, words.iter().flat_map(|word| word.to_le_bytes()).collect()])
}

/// The section lengths that the header implies; `None` for lengths that depend on the data.
pub(super) fn lengths(storage: Storage, codec: &Codec, vectors: usize) -> [Option<usize>; 3] {
    match storage {
        Storage::Packed => [
            Some(codec.packed_len(vectors)),
            Some(if codec.has_overload() { vectors.div_ceil(8) } else { 0 }),
            Some(if codec.has_retries() { vectors } else { 0 }),
        ],
        Storage::Entropy if codes_digits(codec) => [Some(0), None, None],
        Storage::Entropy => [Some(codec.packed_len(vectors)), None, None],
    }
}

/// Reads the sections. Their lengths agree with [`lengths`].
pub(super) fn read(
    storage: Storage,
    codec: &Codec,
    vectors: usize,
    sections: [&[u8]; 3],
) -> Result<Arrays, InputError> {
    let [packed, second, third] = sections;
    if storage == Storage::Packed {
        return Ok(Arrays {
            packed: packed.to_vec(),
            overload: codec.has_overload().then(|| (0..vectors).map(|v| second[v / 8] >> (v % 8) & 1).collect()),
            retries: codec.has_retries().then(|| third.to_vec()),
        });
    }
    let size = if codes_digits(codec) { codec.levels() * codec.dimension() } else { 0 };
    // Digits are uniform, so their number bounds the words: a short file cannot request much memory.
    let least = 0.99 * (vectors as f64) * (size as f64) * f64::from(codec.q()).log2();
    if !third.len().is_multiple_of(4) || (8 * third.len() + 64) as f64 <= least {
        return Err(damaged());
    }
    let words: Vec<u32> = third.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let mut tables = second;
    let cap = codec.scales().len();
    let mut side = Vec::new();
    for (used, symbols) in [(codec.has_retries(), cap), (codec.has_overload(), 2)] {
        side.push(if used { Some((vec![0; vectors], model(&table(&mut tables, symbols)?)?)) } else { None });
    }
    if !tables.is_empty() {
        return Err(damaged());
    }
    let mut digits = vec![0; vectors * size];
    let uniform = Digits::new(codec.q() as usize);
    let coded = size > 0 || side.iter().flatten().any(|(_, model)| model.is_some());
    if coded {
        let mut decoder = DefaultRangeDecoder::from_compressed(words).map_err(|_| damaged())?;
        for vector in 0..vectors {
            for (values, model) in side.iter_mut().flatten() {
                if let Some(model) = model {
                    values[vector] = decoder.decode_symbol(&*model).map_err(|_| damaged())? as u8;
                }
            }
            for digit in &mut digits[vector * size..(vector + 1) * size] {
                *digit = decoder.decode_symbol(uniform).map_err(|_| damaged())? as u8;
            }
        }
        if !decoder.maybe_exhausted() {
            return Err(damaged());
        }
    } else if !words.is_empty() {
        return Err(damaged());
    }
    let packed = if codes_digits(codec) { codec.pack(&digits)? } else { packed.to_vec() };
    let mut side = side.into_iter().map(|side| side.map(|(values, _)| values));
    let (retries, overload) = (side.next().flatten(), side.next().flatten());
    Ok(Arrays { packed, overload, retries })
}

/// Frequencies of the values 0..=largest out of 2^16, none of them 0.
fn weights(values: &[u8]) -> Vec<u32> {
    let symbols = values.iter().copied().max().map_or(1, |most| usize::from(most) + 1);
    let mut counts = vec![0_u64; symbols];
    values.iter().for_each(|value| counts[usize::from(*value)] += 1);
    let total = values.len().max(1) as u64;
    let mut weights: Vec<u32> = counts.iter().map(|count| ((count << PRECISION) / total).max(1) as u32).collect();
    // The most frequent value absorbs rounding and the minimum counts of rare values.
    let most = (0..symbols).max_by_key(|symbol| counts[*symbol]).unwrap_or(0);
    let others: u32 = (0..symbols).filter(|symbol| *symbol != most).map(|symbol| weights[symbol]).sum();
    weights[most] = (1 << PRECISION) - others;
    weights
}

/// Reads the frequencies of up to `most` symbols from the front of a slice.
fn table(from: &mut &[u8], most: usize) -> Result<Vec<u32>, InputError> {
    let (&symbols, rest) = from.split_first().ok_or_else(damaged)?;
    let symbols = usize::from(symbols);
    if symbols == 0 || symbols > most || rest.len() < 2 * (symbols - 1) {
        return Err(damaged());
    }
    let (stored, rest) = rest.split_at(2 * (symbols - 1));
    *from = rest;
    let stored = stored.as_chunks::<2>().0.iter().map(|weight| u32::from(u16::from_le_bytes(*weight)));
    let mut weights: Vec<u32> = std::iter::once(0).chain(stored).collect();
    let others: u32 = weights.iter().sum();
    weights[0] = (1_u32 << PRECISION).checked_sub(others).ok_or_else(damaged)?;
    if weights.contains(&0) {
        return Err(damaged());
    }
    Ok(weights)
}

/// The model of these frequencies; `None` for a single symbol, which needs no bits.
fn model(weights: &[u32]) -> Result<Option<Model>, InputError> {
    if weights.len() < 2 {
        return Ok(None);
    }
    Model::from_nonzero_fixed_point_probabilities(weights, false).map(Some).map_err(|()| damaged())
}

fn to_bits(flags: &[u8]) -> Vec<u8> {
    flags.chunks(8).map(|byte| byte.iter().rev().fold(0, |bits, &flag| bits << 1 | flag)).collect()
}

fn damaged() -> InputError {
    bad("its entropy-coded part is damaged")
}
