//! The parameters of a code: lattice, nesting ratio, levels, scale, centring and overload handling.

use ellwand_core::InputError;

use super::centre;
use super::tables::Tables;

/// Largest codebook side: q^M may not exceed 2^20, so that every intermediate stays exact in i32.
pub const MAX_SIDE: u64 = 1 << 20;

/// Largest number of values in one vector.
pub const MAX_DIMENSION: usize = 8;

ellwand_core::words! {
    /// A lattice with a fast nearest-point algorithm.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Lattice {
        /// The square lattice.
        Z2 = "Z2",
        /// Integer 4-vectors with even sum.
        D4 = "D4",
        /// D8 and its translate by (1/2)^8; points are stored doubled, as integers.
        E8 = "E8",
    }
    /// The name in flags and records.
    fn name;
}

impl Lattice {
    /// Number of values in one vector.
    pub fn dimension(self) -> usize {
        match self {
            Lattice::Z2 => 2,
            Lattice::D4 => 4,
            Lattice::E8 => 8,
        }
    }

    /// Integer steps per lattice unit: 2 for E8, whose points are stored doubled, otherwise 1.
    pub fn scale(self) -> u32 {
        match self {
            Lattice::E8 => 2,
            _ => 1,
        }
    }

    /// Volume of a cell in lattice units.
    pub fn determinant(self) -> f64 {
        match self {
            Lattice::D4 => 2.0,
            _ => 1.0,
        }
    }

    /// Normalized second moment of the Voronoi cell (Conway and Sloane, chapter 21).
    pub fn normalized_second_moment(self) -> f64 {
        match self {
            Lattice::Z2 => 1.0 / 12.0,
            Lattice::D4 => 13.0 / (120.0 * std::f64::consts::SQRT_2),
            Lattice::E8 => 929.0 / 12960.0,
        }
    }

    /// Mean squared error per dimension of the unscaled lattice: NSM * det^(2/d).
    pub fn second_moment(self) -> f64 {
        self.normalized_second_moment() * self.determinant().powf(2.0 / self.dimension() as f64)
    }

    /// Largest distance of any point from the lattice, in lattice units.
    pub fn covering_radius(self) -> f64 {
        match self {
            Lattice::Z2 => std::f64::consts::FRAC_1_SQRT_2,
            Lattice::D4 | Lattice::E8 => 1.0,
        }
    }
}

impl std::fmt::Display for Lattice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Lattice {
    type Err = InputError;

    fn from_str(given: &str) -> Result<Self, InputError> {
        let known = Lattice::ALL.into_iter().find(|l| l.name().eq_ignore_ascii_case(given));
        known.ok_or_else(|| {
            InputError::setting("lattice", format!("'{given}' is unknown"), "one of Z2, D4, E8")
                .near(given, Lattice::ALL.map(Lattice::name))
        })
    }
}

/// How vectors outside the codebook are handled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Overload {
    /// They wrap around silently.
    None,
    /// They wrap around and are marked, with one byte per vector.
    Flag,
    /// Each is tried at beta * 2^(alpha t), t = 0, 1, .. until it fits; t is stored.
    Retry {
        /// Octaves of scale per retry.
        alpha: f64,
        /// Largest t; a vector that does not fit even then keeps its code for t = cap and is marked.
        cap: u8,
    },
}

impl Overload {
    /// The ramp of Kaplan and Ordentlich, alpha = 1/3, with a cap of 16.
    pub const RETRY: Overload = Overload::Retry { alpha: 1.0 / 3.0, cap: 16 };

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Overload::None => "none",
            Overload::Flag => "flag",
            Overload::Retry { .. } => "retry",
        }
    }
}

/// The parameters of a code, as the user chooses them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// The lattice to use.
    pub lattice: Lattice,
    /// Nesting ratio, 2..=256; a level carries log2 q bits per dimension.
    pub q: u32,
    /// Number of levels M >= 1, with q^M <= 2^20; level 0 is the finest.
    pub levels: u32,
    /// Scale of the finest lattice, in units of the data.
    pub beta: f32,
    /// True if the codebook is shifted to have its mean at the origin.
    pub centred: bool,
    /// How vectors outside the codebook are handled.
    pub overload: Overload,
}

/// A validated code with everything precomputed that its implementations need.
#[derive(Debug, Clone)]
pub struct Codec {
    params: Params,
    inverse_scales: Vec<f32>,
    scales: Vec<f32>,
    shift: [f32; MAX_DIMENSION],
    level_points: u128,
    level_bits: u32,
    tables: Tables,
}

impl Codec {
    /// Validates the parameters and computes scales and centring.
    ///
    /// # Errors
    /// If a parameter is out of range; the error names it.
    pub fn new(params: Params) -> Result<Codec, InputError> {
        let Params { lattice, q, levels, beta, centred, overload } = params;
        if !(2..=256).contains(&q) {
            return Err(InputError::setting("q", format!("{q} is out of range"), "a whole number from 2 to 256"));
        }
        let most = MAX_SIDE.ilog(u64::from(q));
        if !(1..=most).contains(&levels) {
            let problem = format!("{levels} with q = {q} is out of range");
            let expected = format!("1 to {most} levels for this q, so that q^M is at most 2^20 = 1048576");
            return Err(InputError::setting("levels", problem, expected));
        }
        let (alpha, cap) = match overload {
            Overload::Retry { alpha, cap } => {
                if !(alpha > 0.0 && alpha <= 4.0 && (1..=64).contains(&cap)) {
                    let problem = format!("alpha = {alpha}, cap = {cap} is out of range");
                    return Err(InputError::new("retry ramp", problem, "0 < alpha <= 4 and 1 <= cap <= 64")
                        .help("the usual choice is alpha = 1/3, cap = 16"));
                }
                (alpha, cap)
            }
            _ => (0.0, 0),
        };
        let exact = |t: u8| f64::from(beta) * (alpha * f64::from(t)).exp2();
        let scales: Vec<f32> = (0..=cap).map(|t| exact(t) as f32).collect();
        let inverse_scales: Vec<f32> = (0..=cap).map(|t| exact(t).recip() as f32).collect();
        if beta <= 0.0 || !scales.iter().chain(&inverse_scales).all(|s| s.is_normal()) {
            return Err(beta_out_of_range(f64::from(beta)));
        }
        let level_points = u128::from(q).pow(lattice.dimension() as u32);
        let level_bits = u128::BITS - (level_points - 1).leading_zeros();
        let shift = if centred { centre::shift(lattice, q, levels) } else { [0.0; MAX_DIMENSION] };
        Ok(Codec { params, inverse_scales, scales, shift, level_points, level_bits, tables: Tables::default() })
    }

    /// The parameters of the code.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The lattice of the code.
    pub fn lattice(&self) -> Lattice {
        self.params.lattice
    }

    /// Number of values in one vector.
    pub fn dimension(&self) -> usize {
        self.params.lattice.dimension()
    }

    /// Nesting ratio q.
    pub fn q(&self) -> u32 {
        self.params.q
    }

    /// Number of levels M.
    pub fn levels(&self) -> usize {
        self.params.levels as usize
    }

    /// The scales beta * 2^(alpha t) for t = 0..=cap, rounded to f32 once.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// The inverse scales 1 / (beta * 2^(alpha t)) for t = 0..=cap, rounded to f32 once.
    pub fn inverse_scales(&self) -> &[f32] {
        &self.inverse_scales
    }

    /// The centring constant of each coordinate, in lattice units: added before quantizing and subtracted after
    /// decoding. Zero if the code is not centred; adding zeros changes no code and no decoded bit, so implementations
    /// need not check.
    pub fn shift(&self) -> &[f32; MAX_DIMENSION] {
        &self.shift
    }

    /// Tables that decoding keeps between calls.
    pub(super) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Number of points of one level, q^d.
    pub fn level_points(&self) -> u128 {
        self.level_points
    }

    /// Bits of one packed level index: those needed for q^d - 1.
    pub fn level_bits(&self) -> u32 {
        self.level_bits
    }

    /// Packed bits per vector.
    pub fn vector_bits(&self) -> usize {
        self.level_bits as usize * self.levels()
    }

    /// Size of the packed codes of n vectors in bytes.
    pub fn packed_len(&self, vectors: usize) -> usize {
        let bits = vectors as u128 * self.vector_bits() as u128;
        usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX)
    }

    /// True if the codes have one overload byte per vector.
    pub fn has_overload(&self) -> bool {
        self.params.overload != Overload::None
    }

    /// True if the codes have one retry byte per vector.
    pub fn has_retries(&self) -> bool {
        matches!(self.params.overload, Overload::Retry { .. })
    }

    /// Number of vectors in a buffer of `values` values.
    ///
    /// # Errors
    /// If the buffer is not a whole number of vectors.
    pub fn vectors_in(&self, values: usize) -> Result<usize, InputError> {
        let d = self.dimension();
        let help = "pass whole vectors, or encode through `Codes`, which pads row tails";
        length("x", values, values.next_multiple_of(d), help)?;
        Ok(values / d)
    }
}

/// Refuses a scale that is not positive, finite and normal for all retries.
pub(super) fn beta_out_of_range(given: f64) -> InputError {
    InputError::setting("beta", format!("{given:e} is out of range"), "a scale between 1e-30 and 1e30, or auto")
}

/// Refuses an array of another length.
pub(super) fn length(what: &str, got: usize, expected: usize, help: &str) -> Result<(), InputError> {
    if got == expected {
        return Ok(());
    }
    Err(InputError::new(what, format!("it has {got} elements"), expected.to_string()).help(help))
}
