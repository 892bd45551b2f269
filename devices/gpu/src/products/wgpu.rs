//! Matrix products in WGSL (`product.wgsl`), for `matmul` and for attention heads.

use super::{Masked, Place, Products, Sees};
use crate::{Arg, GpuError, Grid, Job, Source, wgsl};

/// The WGSL kernel.
pub static SOURCE: Source = wgsl!("product.wgsl", "../invocation.wgsl", "../portable.wgsl");

/// Rows and columns of C per workgroup.
const TILE: usize = 64;

/// Epilogue: applied to a product and its bias before the store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Then {
    /// The product is stored as it is.
    Nothing,
    /// GELU, tanh form.
    Gelu,
    /// Adds an array of C's layout.
    Add(Arg),
}

/// Converts an offset to the 32 bits of WGSL.
pub fn word(value: usize) -> Result<Arg, GpuError> {
    let too_large = |_| {
        GpuError::Absent(format!("an array of {value} elements is needed, but the kernels count only to {}", u32::MAX))
    };
    Ok(Arg::U32(u32::try_from(value).map_err(too_large)?))
}

impl Products {
    /// Appends the launch to a job. C must start at the start of its array.
    pub fn launch_wgpu(&self, job: &mut Job, then: Then) -> Result<(), GpuError> {
        let [m, n, k] = self.size;
        let batch = self.sequences * self.heads;
        // Unused bindings need an array too.
        let nothing = job.scratch(4)?;
        let (mask, lengths) = match (self.mask, self.sees) {
            (Masked::Not, _) | (_, Sees::All) => (0, nothing),
            (Masked::C, Sees::Causal) => (1, nothing),
            (Masked::C, Sees::Lengths(at)) => (2, at),
            (Masked::A, Sees::Causal) => (3, nothing),
            (Masked::A, Sees::Lengths(at)) => (4, at),
        };
        let (gelu, added) = match then {
            Then::Nothing => (false, None),
            Then::Gelu => (true, None),
            Then::Add(at) => (false, Some(at)),
        };
        let last = u32::from(self.bias.is_some()) | u32::from(gelu) << 1 | u32::from(added.is_some()) << 2;
        let sizes = [m, n, k, self.heads, self.group, usize::from(self.transposed)];
        let from = |place: Place| [place.start, place.batch, place.head, place.row];
        let whole = sizes.into_iter().chain(from(self.a)).chain(from(self.b)).chain(self.c.steps());
        let mut args = whole.map(word).collect::<Result<Vec<Arg>, _>>()?;
        args.push(Arg::F32(self.alpha));
        args.extend([last, mask, f32::NEG_INFINITY.to_bits()].map(Arg::U32));
        args.push(word(batch)?);
        args.extend([self.a.at, self.b.at, self.bias.unwrap_or(nothing), added.unwrap_or(nothing), lengths, self.c.at]);
        let groups = m.div_ceil(TILE) * n.div_ceil(TILE) * batch;
        job.launch(&SOURCE, "product", Grid::line(groups, 256), args)
    }
}
