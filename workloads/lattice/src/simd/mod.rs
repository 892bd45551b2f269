//! Vector implementations and their selection at run time.
//!
//! The code is written once over [`lanes::Lanes`] and instantiated in functions that enable the instruction set.
//! Nothing here fuses a multiplication with an addition.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod bytes;
mod decode;
mod dots;
mod encode;
mod kind;
mod lanes;

use ellwand_core::InputError;

use super::encode::{CodesMut, scalar_encode};
use super::params::{Codec, Lattice};
use super::scalar_decode::{Request, scalar_decode};
use ellwand_simd::isa::{Isa, Set};
use ellwand_simd::lanes::dispatch;
use lanes::{Lanes, Portable};

/// Calls `$module::$name` with the lattice and the kind of divisor (true: a power of two) as type arguments.
macro_rules! by_lattice {
    ($module:ident :: $name:ident, $pow2:expr, $s:expr, $codec:expr, $($argument:expr),+) => {
        match ($codec.lattice(), $pow2) {
            (Lattice::Z2, true) => $module::$name::<_, kind::Z2, 2, true>($s, $codec, $($argument),+),
            (Lattice::Z2, false) => $module::$name::<_, kind::Z2, 2, false>($s, $codec, $($argument),+),
            (Lattice::D4, true) => $module::$name::<_, kind::D4, 4, true>($s, $codec, $($argument),+),
            (Lattice::D4, false) => $module::$name::<_, kind::D4, 4, false>($s, $codec, $($argument),+),
            (Lattice::E8, true) => $module::$name::<_, kind::E8, 8, true>($s, $codec, $($argument),+),
            (Lattice::E8, false) => $module::$name::<_, kind::E8, 8, false>($s, $codec, $($argument),+),
        }
    };
}

type Decoded = Result<(), InputError>;

#[cfg(target_arch = "x86_64")]
mod switched {
    //! The code with an instruction set enabled; calling it requires proof that the CPU has it. One function for each
    //! lattice and kind of divisor: with all in one, the compiler kept the constants of the loops on the stack.
    use super::kind::Kind;
    use super::lanes::Lanes;
    use super::*;

    macro_rules! switched {
        ($features:literal, $encode:ident, $decode:ident) => {
            #[target_feature(enable = $features)]
            pub(super) fn $encode<S: Lanes, K: Kind<D>, const D: usize, const POW2: bool>(
                s: S,
                codec: &Codec,
                x: &[f32],
                out: CodesMut<'_>,
            ) {
                encode::encode::<S, K, D, POW2>(s, codec, x, out);
            }

            #[target_feature(enable = $features)]
            pub(super) fn $decode<S: Lanes, K: Kind<D>, const D: usize, const POW2: bool>(
                s: S,
                codec: &Codec,
                request: &Request<'_>,
                out: &mut [f32],
            ) -> Decoded {
                decode::decode::<S, K, D, POW2>(s, codec, request, out)
            }
        };
    }
    switched!("avx512f,avx512bw,avx512dq,avx512vl,avx2", encode_avx512, decode_avx512);
    switched!("avx2", encode_avx2, decode_avx2);
}

/// True if so few vectors would leave all but an eighth of the lanes empty: one at a time takes half the time then.
pub(super) fn too_few(isa: Isa, vectors: usize) -> bool {
    let lanes = match isa.set() {
        Set::Avx512 => 16,
        Set::Avx2 => 8,
        Set::Baseline => Portable::LANES,
    };
    8 * vectors <= lanes
}

/// Encodes whole vectors; arguments are already checked.
pub(super) fn encode(codec: &Codec, isa: Isa, x: &[f32], out: CodesMut<'_>) {
    if too_few(isa, x.len() / codec.dimension()) {
        return scalar_encode(codec, x, out);
    }
    let pow2 = codec.q().is_power_of_two();
    match isa.set() {
        // SAFETY: an `Isa` of this set proves that it was detected.
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => unsafe { by_lattice!(switched::encode_avx512, pow2, avx512::Avx512::assume(), codec, x, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => unsafe { by_lattice!(switched::encode_avx2, pow2, avx2::Avx2::assume(), codec, x, out) },
        Set::Baseline => by_lattice!(encode::encode, pow2, Portable, codec, x, out),
    }
}

/// Decodes whole vectors; arguments are already checked.
pub(super) fn decode(codec: &Codec, isa: Isa, request: &Request<'_>, out: &mut [f32]) -> Decoded {
    if too_few(isa, out.len() / codec.dimension()) {
        return scalar_decode(codec, request, out);
    }
    let pow2 = codec.q().is_power_of_two() || codec.level_table().is_some();
    match isa.set() {
        // SAFETY: an `Isa` of this set proves that it was detected.
        #[cfg(target_arch = "x86_64")]
        Set::Avx512 => match codec.byte_table() {
            // SAFETY: as above, and VBMI has just been detected.
            Some(table) if is_x86_feature_detected!("avx512vbmi") => unsafe {
                match codec.lattice() {
                    Lattice::Z2 => bytes::decode::<2>(codec, table, request, out),
                    Lattice::D4 => bytes::decode::<4>(codec, table, request, out),
                    Lattice::E8 => bytes::decode::<8>(codec, table, request, out),
                }
            },
            // SAFETY: as above.
            _ => unsafe { by_lattice!(switched::decode_avx512, pow2, avx512::Avx512::assume(), codec, request, out) },
        },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Set::Avx2 => unsafe { by_lattice!(switched::decode_avx2, pow2, avx2::Avx2::assume(), codec, request, out) },
        Set::Baseline => by_lattice!(decode::decode, pow2, Portable, codec, request, out),
    }
}

/// Sum of products in f32; partial sums may be fused and are added in unspecified order.
pub(super) fn f32_dot(isa: Isa, a: &[f32], b: &[f32]) -> f32 {
    dispatch(isa, dots::F32 { a, b })
}

/// Sum of products of i16, modulo 2^32.
pub(super) fn i16_dot(isa: Isa, a: &[i16], b: &[i16]) -> i32 {
    dispatch(isa, dots::I16 { a, b })
}
