//! The codes of an array with everything needed for decoding, in memory and as bytes.
//!
//! Bytes, little-endian: magic "EWLQ" · version u16 · lattice u8 (0 Z2, 1 D4, 2 E8) · flags u8 (bit 0 centred, bits 1-2
//! overload mode: 0 none, 1 flag, 2 retry) · q u16 · levels u8 · cap u8 · beta f32 · alpha f64 · axes u8 · 7 zero bytes
//! · extent u64 per axis · vectors u64 · lengths u64 of three sections · then those sections. Version 1 holds the arrays
//! as they are packed, version 2 with the side information entropy-coded ([`super::storage`]); the smaller is written.

use ellwand_core::InputError;

use super::layout::Layout;
use super::params::{Codec, Lattice, Overload, Params};
use super::storage::{self, Arrays, Storage};
use super::{CodesMut, Method};

const MAGIC: [u8; 4] = *b"EWLQ";
/// The version of files with packed sections, and of files with coded ones.
static VERSIONS: [(u16, Storage); 2] = [(1, Storage::Packed), (2, Storage::Entropy)];
/// Size of the header before the extents, in bytes.
const FIXED: usize = 32;
/// Largest number of axes.
const MAX_AXES: usize = 32;

/// The codes of one array.
#[derive(Debug, Clone)]
pub struct Codes {
    codec: Codec,
    layout: Layout,
    arrays: Arrays,
}

impl Codes {
    /// Encodes an array of any shape with at least one axis; row tails are padded with zeros.
    ///
    /// # Errors
    /// If the length of `x` does not match the shape.
    pub fn encode(codec: &Codec, method: Method, x: &[f32], shape: &[usize]) -> Result<Codes, InputError> {
        let layout = Layout::new(shape, codec.dimension())?;
        let n = layout.vectors();
        let mut packed = vec![0; codec.packed_len(n)];
        let mut overload = codec.has_overload().then(|| vec![0; n]);
        let mut retries = codec.has_retries().then(|| vec![0; n]);
        let out = CodesMut { packed: &mut packed, overload: overload.as_deref_mut(), retries: retries.as_deref_mut() };
        if layout.is_exact() && x.len() == layout.values() {
            codec.encode(method, x, out)?;
        } else {
            codec.encode(method, &layout.pad(x)?, out)?;
        }
        Ok(Codes { codec: codec.clone(), layout, arrays: Arrays { packed, overload, retries } })
    }

    /// Assembles codes that an implementation has computed.
    pub(super) fn from_parts(
        codec: &Codec,
        layout: &Layout,
        packed: &[u8],
        overload: Option<&[u8]>,
        retries: Option<&[u8]>,
    ) -> Codes {
        Codes {
            codec: codec.clone(),
            layout: layout.clone(),
            arrays: Arrays {
                packed: packed.to_vec(),
                overload: overload.map(<[u8]>::to_vec),
                retries: retries.map(<[u8]>::to_vec),
            },
        }
    }

    /// Decodes the array in its original shape.
    ///
    /// # Errors
    /// If a code is invalid, which only damaged bytes can cause.
    pub fn decode(&self, method: Method) -> Result<Vec<f32>, InputError> {
        self.decode_coarse(method, self.codec.levels())
    }

    /// Decodes the array from its `depth` coarsest levels only.
    ///
    /// # Errors
    /// If `depth` is not in 1..=M, or a code is invalid.
    pub fn decode_coarse(&self, method: Method, depth: usize) -> Result<Vec<f32>, InputError> {
        let mut out = vec![0.0; self.layout.vectors() * self.codec.dimension()];
        self.codec.decode_coarse(method, &self.arrays.packed, self.arrays.retries.as_deref(), depth, &mut out)?;
        if self.layout.is_exact() { Ok(out) } else { self.layout.trim(&out) }
    }

    /// The codec of these codes.
    pub fn codec(&self) -> &Codec {
        &self.codec
    }

    /// Shape of the array and its division into vectors.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Packed level indices.
    pub fn packed(&self) -> &[u8] {
        &self.arrays.packed
    }

    /// 1 for each vector outside the codebook, in the mode retry even after all retries; absent in the mode none.
    pub fn overload(&self) -> Option<&[u8]> {
        self.arrays.overload.as_deref()
    }

    /// Number of retries of each vector, in the mode retry.
    pub fn retries(&self) -> Option<&[u8]> {
        self.arrays.retries.as_deref()
    }

    /// Bits of the codes in a file, without its header: those of the smaller of both forms.
    pub fn stored_bits(&self) -> u64 {
        self.smaller().1.iter().map(|section| 8 * section.len() as u64).sum()
    }

    /// Serialises the codes to bytes for a file: packed, or entropy-coded where that is smaller.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (storage, sections) = self.smaller();
        self.written(storage, &sections)
    }

    /// Serialises the codes in one form.
    #[cfg(test)]
    pub(super) fn to_bytes_as(&self, storage: Storage) -> Vec<u8> {
        self.written(storage, &self.sections(storage).unwrap())
    }

    fn sections(&self, storage: Storage) -> Result<[Vec<u8>; 3], InputError> {
        storage::sections(storage, &self.codec, self.layout.vectors(), &self.arrays)
    }

    /// The smaller form. Arrays that are not valid codes, such as poisoned ones, are packed.
    fn smaller(&self) -> (Storage, [Vec<u8>; 3]) {
        let bytes = |sections: &[Vec<u8>; 3]| sections.iter().map(Vec::len).sum::<usize>();
        let packed = [Storage::Packed, Storage::Entropy].map(|storage| self.sections(storage));
        match packed {
            [Ok(packed), Ok(coded)] if bytes(&coded) < bytes(&packed) => (Storage::Entropy, coded),
            [packed, _] => (Storage::Packed, packed.unwrap_or_default()),
        }
    }

    fn written(&self, storage: Storage, sections: &[Vec<u8>; 3]) -> Vec<u8> {
        let params = self.codec.params();
        let (mode, alpha, cap) = match params.overload {
            Overload::None => (0, 0.0, 0),
            Overload::Flag => (1, 0.0, 0),
            Overload::Retry { alpha, cap } => (2, alpha, cap),
        };
        let lattice = match params.lattice {
            Lattice::Z2 => 0,
            Lattice::D4 => 1,
            Lattice::E8 => 2,
        };
        let version = VERSIONS.iter().find(|(_, known)| *known == storage).map_or(0, |(version, _)| *version);
        let mut bytes = Vec::with_capacity(FIXED + 64 + sections.iter().map(Vec::len).sum::<usize>());
        bytes.extend(MAGIC);
        bytes.extend(version.to_le_bytes());
        bytes.extend([lattice, u8::from(params.centred) | mode << 1]);
        bytes.extend((params.q as u16).to_le_bytes());
        bytes.extend([params.levels as u8, cap]);
        bytes.extend(params.beta.to_le_bytes());
        bytes.extend(alpha.to_le_bytes());
        bytes.push(self.layout.shape().len() as u8);
        bytes.extend([0; 7]);
        let counts = std::iter::once(self.layout.vectors()).chain(sections.iter().map(Vec::len));
        for count in self.layout.shape().iter().copied().chain(counts) {
            bytes.extend((count as u64).to_le_bytes());
        }
        sections.iter().for_each(|section| bytes.extend(section));
        bytes
    }

    /// Parses bytes. Every length is checked against the data before any allocation.
    ///
    /// # Errors
    /// If a field is invalid; the error names it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Codes, InputError> {
        let mut from = Cursor { bytes, at: 0 };
        if from.take::<4>("magic")? != MAGIC {
            return Err(bad("the file does not begin with \"EWLQ\""));
        }
        let version = u16::from_le_bytes(from.take("version")?);
        let Some((_, storage)) = VERSIONS.iter().find(|(known, _)| *known == version) else {
            let most = VERSIONS.map(|(version, _)| version)[VERSIONS.len() - 1];
            return Err(bad(&format!(
                "version {version} is too new (this program reads up to {most}); update the program"
            )));
        };
        let [lattice, flags] = from.take("lattice")?;
        let lattice = match lattice {
            0 => Lattice::Z2,
            1 => Lattice::D4,
            2 => Lattice::E8,
            other => return Err(bad(&format!("lattice number {other}, expected 0 (Z2), 1 (D4) or 2 (E8)"))),
        };
        let q = u32::from(u16::from_le_bytes(from.take("q")?));
        let [levels, cap] = from.take("levels")?;
        let beta = f32::from_le_bytes(from.take("beta")?);
        let alpha = f64::from_le_bytes(from.take("alpha")?);
        let overload = match (flags >> 1, alpha.to_bits(), cap) {
            (0, 0, 0) => Overload::None,
            (1, 0, 0) => Overload::Flag,
            (2, _, _) => Overload::Retry { alpha, cap },
            _ => {
                return Err(bad(&format!(
                    "flags {flags:#04x} with alpha {alpha} and cap {cap} are not a valid overload mode"
                )));
            }
        };
        let params = Params { lattice, q, levels: u32::from(levels), beta, centred: flags & 1 == 1, overload };
        let [axes] = from.take("axes")?;
        if from.take::<7>("reserved")? != [0; 7] || usize::from(axes) > MAX_AXES {
            return Err(bad(&format!(
                "{axes} axes with the reserved bytes used, expected at most {MAX_AXES} and zeros"
            )));
        }
        let shape: Vec<usize> = (0..axes).map(|_| from.count("extent")).collect::<Result<_, _>>()?;
        let layout = Layout::new(&shape, lattice.dimension())?;
        // Checked last, because centring a new code takes time.
        let codec = Codec::new(params)?;
        let n = layout.vectors();
        let implied = storage::lengths(*storage, &codec, n);
        let mut lengths = [0; 3];
        let got = from.count("vectors")?;
        if got != n {
            return Err(bad(&format!("length of vectors is {got}, but the header implies {n}")));
        }
        for ((what, length), implied) in ["packed", "overload", "retries"].into_iter().zip(&mut lengths).zip(implied) {
            *length = from.count(what)?;
            if let Some(implied) = implied.filter(|implied| implied != length) {
                return Err(bad(&format!("length of {what} is {length}, but the header implies {implied}")));
            }
        }
        let total = lengths.iter().try_fold(0usize, |sum, &length| sum.checked_add(length));
        let left = bytes.len() - from.at;
        if total != Some(left) {
            let total = total.map_or("too many".to_owned(), |total| total.to_string());
            return Err(bad(&format!(
                "{left} bytes follow the header, expected {total}; the file is cut or has a tail"
            )));
        }
        let mut sections = [&[][..]; 3];
        for (section, length) in sections.iter_mut().zip(lengths) {
            *section = &bytes[from.at..from.at + length];
            from.at += length;
        }
        let arrays = storage::read(*storage, &codec, n, sections)?;
        codec.check_retries(arrays.retries.as_deref().unwrap_or_default())?;
        Ok(Codes { codec, layout, arrays })
    }
}

pub(super) fn bad(problem: &str) -> InputError {
    InputError::new("codes", problem, "a complete code file as encoding writes it (codes.npy)")
}

/// Reads fields from the front of a slice.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], InputError> {
        let field = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        self.at += N;
        field.copied().ok_or_else(|| bad(&format!("the file ends inside the header, at {what}")))
    }

    fn count(&mut self, what: &str) -> Result<usize, InputError> {
        let count = u64::from_le_bytes(self.take(what)?);
        usize::try_from(count).map_err(|_| bad(&format!("{what} is {count}, more than this machine can address")))
    }
}
