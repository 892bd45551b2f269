//! Codes given by the user: a code file, digits or packed bytes. They are checked and packed.

use ellwand_core::{Case, Fit, InputError, Tensor, Tensors};

use super::Codes;
use super::params::{Codec, Overload};

/// Packed codes from `packed` or `digits`, and the number of vectors.
pub(super) fn given_codes(
    codec: &Codec,
    given: &Tensors,
    batch: usize,
    fit: Fit,
) -> Result<(Tensor, usize), InputError> {
    let bits = codec.vector_bits();
    let few = |have: usize| {
        InputError::new("packed", format!("it holds {have} vectors, the case asks for {batch}"), "at least as many")
    };
    if given.find("digits").is_some() {
        let digits = given.get("digits")?;
        let vector = codec.levels() * codec.dimension();
        let expected = format!("[N, {}, {}]", codec.levels(), codec.dimension());
        if digits.shape().len() != 3 || digits.shape()[1..] != [codec.levels(), codec.dimension()] || digits.is_empty()
        {
            return Err(InputError::new("digits", format!("its shape is {:?}", digits.shape()), expected));
        }
        let all = given.u8("digits")?;
        let have = all.len() / vector;
        let n = if fit == Fit::Whole { have } else { batch };
        let wanted = all.get(..n * vector).ok_or_else(|| few(have))?;
        let packed = codec.pack(wanted)?;
        return Ok((Tensor::vector(&packed[..]), n));
    }
    if given.find("packed").is_none() {
        return Err(InputError::new("digits", "neither digits nor packed was given", "one of the two arrays"));
    }
    let all = given.u8("packed")?;
    let have = all.len() * 8 / bits;
    // The last byte may have room for more vectors; retries or overload give the actual number.
    let counted = ["retries", "overload"].iter().find_map(|name| given.find(name)).map(Tensor::len);
    let least = (0..=have).rev().take_while(|n| codec.packed_len(*n) == all.len()).last().unwrap_or(have);
    if fit == Fit::Whole && counted.is_none() && least < have {
        return Err(InputError::new(
            "packed",
            format!("{} bytes may hold {least} to {have} vectors of {bits} bits", all.len()),
            "codes.npy, which holds the number of vectors, or digits, overload or retries in addition",
        ));
    }
    let have = counted.map_or(have, |counted| counted.min(have));
    let n = if fit == Fit::Whole { have } else { batch };
    if n == 0 || (fit == Fit::Whole && codec.packed_len(n) != all.len()) {
        let problem = format!("{} bytes are not a whole number of vectors of {bits} bits", all.len());
        return Err(InputError::new(
            "packed",
            problem,
            "the bytes that encoding wrote, with the same lattice, q and levels",
        ));
    }
    let wanted = all.get(..codec.packed_len(n)).ok_or_else(|| few(have))?;
    let mut packed = wanted.to_vec();
    if let (Some(last), rest @ 1..) = (packed.last_mut(), n * bits % 8) {
        *last &= (1u8 << rest) - 1;
    }
    Ok((Tensor::vector(&packed[..]), n))
}

/// Decoding inputs from `codes`, a self-contained code file: its header sets the axes of the case, and the decoded
/// array has the shape of the original.
pub(super) fn from_code_file(case: &Case, bytes: &[u8]) -> Result<(Case, Tensors), InputError> {
    let codes = Codes::from_bytes(bytes)?;
    let params = codes.codec().params();
    let overload = match params.overload {
        Overload::None => "none",
        Overload::Flag => "flag",
        Overload::RETRY => "retry",
        Overload::Retry { alpha, cap } => {
            let problem = format!("its retries use alpha = {alpha}, cap = {cap}");
            return Err(InputError::new("codes", problem, "alpha = 1/3 and cap = 16, which this workload decodes"));
        }
    };
    let mut case = case.clone();
    case.set("lattice", params.lattice.name());
    case.set("q", i64::from(params.q));
    case.set("levels", i64::from(params.levels));
    case.set("overload", overload);
    case.set("centred", params.centred);
    case.set("beta", f64::from(params.beta));
    case.set("batch", codes.layout().vectors() as i64);
    // Damaged codes are detected here, not in an implementation.
    codes.codec().digits(codes.packed(), codes.layout().vectors())?;
    let shape: Vec<u64> = codes.layout().shape().iter().map(|&extent| extent as u64).collect();
    let mut inputs = Tensors::new()
        .with("packed", Tensor::vector(codes.packed()))
        .with("beta", Tensor::scalar(f64::from(params.beta)))
        .with("shape", Tensor::vector(&shape[..]));
    if let Some(retries) = codes.retries() {
        inputs.insert("retries", Tensor::vector(retries));
    }
    Ok((case, inputs))
}
