//! Decoding: checks the arguments, then calls one of the implementations.

use ellwand_core::InputError;

use super::encode::present;
use super::params::{Codec, length};
use super::scalar_decode::{Request, scalar_decode};
use super::{Method, parallel, reference, simd};

impl Codec {
    /// Decodes packed codes into whole vectors (f32 [N, d], row-major). `retries` holds one byte per vector if and only
    /// if the overload mode is retry.
    ///
    /// # Errors
    /// If a buffer has the wrong length, retries are missing or superfluous, or a code is invalid.
    pub fn decode(
        &self,
        method: Method,
        packed: &[u8],
        retries: Option<&[u8]>,
        out: &mut [f32],
    ) -> Result<(), InputError> {
        self.decode_coarse(method, packed, retries, self.levels(), out)
    }

    /// Decodes only the `depth` coarsest levels, as if the finer digits were zero.
    ///
    /// # Errors
    /// As for [`Codec::decode`], and if `depth` is not in 1..=M.
    pub fn decode_coarse(
        &self,
        method: Method,
        packed: &[u8],
        retries: Option<&[u8]>,
        depth: usize,
        out: &mut [f32],
    ) -> Result<(), InputError> {
        let n = self.vectors_in(out.len())?;
        if !(1..=self.levels()).contains(&depth) {
            let expected = format!("1 to {} levels", self.levels());
            return Err(InputError::setting("depth", format!("{depth} is out of range"), expected));
        }
        let help = "pass the packed codes of exactly the vectors that the output holds";
        length("packed", packed.len(), self.packed_len(n), help)?;
        present("retries", self.has_retries(), retries.is_some())?;
        if let Some(retries) = retries {
            length("retries", retries.len(), n, help)?;
            self.check_retries(retries)?;
        }
        let request = Request { packed, retries, first: 0, depth };
        match method {
            Method::Reference => reference::decode(self, packed, retries, depth, out),
            Method::Scalar => scalar_decode(self, &request, out),
            Method::Simd(isa) => simd::decode(self, isa, &request, out),
            Method::Parallel(isa) => parallel::decode(self, isa, &request, out),
        }
    }

    /// Rejects retry counts above the cap: encoding never writes them, and they have no scale.
    pub(super) fn check_retries(&self, retries: &[u8]) -> Result<(), InputError> {
        let cap = (self.scales().len() - 1) as u8;
        let largest = retries.iter().fold(0, |largest, &t| t.max(largest));
        if largest > cap {
            let vector = retries.iter().position(|&t| t > cap).unwrap_or(0);
            let problem = format!("vector {vector} has {}, above the cap {cap}", retries[vector]);
            return Err(InputError::new("retries", problem, "the retries that encoding wrote"));
        }
        Ok(())
    }

    /// The error of a level index that is no point, which exists only if q is not a power of two. Level 0 is the finest.
    #[cold]
    pub(super) fn invalid_index(&self, vector: usize, level: usize, index: u64) -> InputError {
        let limit = self.level_points();
        let problem = format!("index {index} of vector {vector}, level {level} is not below q^d = {limit}");
        InputError::new("packed", problem, "the bytes that encoding wrote, with the same lattice, q and levels")
    }
}
