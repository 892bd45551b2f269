//! Decoding: checks the arguments, then calls one of the implementations.

use super::encode::present;
use super::error::{LatticeError, length};
use super::params::Codec;
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
    ) -> Result<(), LatticeError> {
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
    ) -> Result<(), LatticeError> {
        let n = self.vectors_in(out.len())?;
        if !(1..=self.levels()).contains(&depth) {
            let help = "keep at least one level and at most all of them";
            return Err(LatticeError::Length { what: "depth", expected: self.levels(), got: depth, help });
        }
        let help = "pass the packed codes of exactly the vectors that the output holds";
        length("packed", packed.len(), self.packed_len(n), help)?;
        present("retries", self.has_retries(), retries.is_some())?;
        if let Some(retries) = retries {
            length("retries", retries.len(), n, help)?;
            self.check_retries(retries)?;
        }
        let request = Request { packed, retries, depth };
        match method {
            Method::Reference => reference::decode(self, packed, retries, depth, out),
            Method::Scalar => scalar_decode(self, &request, out),
            Method::Simd(isa) => simd::decode(self, isa, &request, out),
            Method::Parallel(isa) => parallel::decode(self, isa, &request, out),
        }
    }

    /// Rejects retry counts above the cap: encoding never writes them, and they have no scale.
    pub(super) fn check_retries(&self, retries: &[u8]) -> Result<(), LatticeError> {
        let cap = (self.scales().len() - 1) as u8;
        let largest = retries.iter().fold(0, |largest, &t| t.max(largest));
        if largest > cap {
            let vector = retries.iter().position(|&t| t > cap).unwrap_or(0);
            return Err(LatticeError::Retries { vector, retries: retries[vector], cap });
        }
        Ok(())
    }
}
