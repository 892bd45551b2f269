//! Arrays as bytes, for processes of one program: a line of JSON about names, types and shapes, then the elements.

use std::io::{self, BufRead, Read, Write};

use crate::buffer::Buffer;
use crate::tensor::{Data, Dtype, Tensor, Tensors};

/// Name, element type and shape of an array.
type Entry = (String, String, Vec<usize>);

/// Most bytes of the line about the arrays.
const LONGEST_LINE: u64 = 1 << 20;
/// Bytes that are converted at once.
const BLOCK: usize = 1 << 13;

macro_rules! elements {
    ($($variant:ident $type:ty;)*) => {
        fn write_elements(data: &Data, out: &mut impl Write) -> io::Result<()> {
            let mut bytes = [0; BLOCK];
            match data { $(Data::$variant(v) => v.chunks(BLOCK / size_of::<$type>()).try_for_each(|part| {
                for (to, x) in bytes.as_chunks_mut().0.iter_mut().zip(part) {
                    *to = x.to_le_bytes();
                }
                out.write_all(&bytes[..size_of_val(part)])
            }),)* }
        }

        fn read_elements(dtype: Dtype, count: usize, input: &mut impl Read) -> io::Result<Data> {
            let mut bytes = [0; BLOCK];
            match dtype { $(Dtype::$variant => {
                let mut values = Buffer::filled(count, <$type>::default());
                for part in values.chunks_mut(BLOCK / size_of::<$type>()) {
                    input.read_exact(&mut bytes[..size_of_val(part)])?;
                    for (x, from) in part.iter_mut().zip(bytes.as_chunks().0) {
                        *x = <$type>::from_le_bytes(*from);
                    }
                }
                Ok(Data::$variant(values))
            })* }
        }

        fn dtype(name: &str) -> Option<Dtype> {
            [$(Dtype::$variant),*].into_iter().find(|dtype| dtype.name() == name)
        }
    };
}

elements! { F32 f32; F64 f64; I8 i8; I16 i16; I32 i32; I64 i64; U8 u8; U16 u16; U32 u32; U64 u64; }

/// A checksum of what is written.
struct Checked(crc32fast::Hasher);

impl Write for Checked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Tensors {
    /// A CRC-32 of names, types, shapes and elements, much faster than [`Tensors::digest`]. It finds answers that
    /// differ; different arrays share one with a probability of 2e-10.
    pub fn checksum(&self) -> u64 {
        let mut sum = Checked(crc32fast::Hasher::new());
        let written = self.iter().try_for_each(|(name, tensor)| {
            write!(sum, "{name}\0{}\0{:?}", tensor.dtype().name(), tensor.shape())?;
            write_elements(tensor.data(), &mut sum)
        });
        debug_assert!(written.is_ok(), "a checksum takes everything");
        u64::from(sum.0.finalize())
    }

    /// Writes all arrays.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn pack(&self, out: &mut impl Write) -> io::Result<()> {
        let entry = |(name, tensor): (&str, &Tensor)| -> Entry {
            (name.to_string(), tensor.dtype().name().to_string(), tensor.shape().to_vec())
        };
        let entries: Vec<Entry> = self.iter().map(entry).collect();
        serde_json::to_writer(&mut *out, &(self.checksum(), entries))?;
        out.write_all(b"\n")?;
        self.iter().try_for_each(|(_, tensor)| write_elements(tensor.data(), out))
    }

    /// Reads what [`Tensors::pack`] wrote, in at most `length` bytes.
    ///
    /// # Errors
    /// If the bytes are not whole, or not what was written.
    pub fn unpack(input: &mut impl BufRead, length: u64) -> io::Result<Self> {
        let mut line = Vec::new();
        input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        let (checksum, entries): (u64, Vec<Entry>) = serde_json::from_slice(&line)?;
        let mut tensors = Self::new();
        for (name, kind, shape) in entries {
            let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
            let dtype = dtype(&kind).ok_or_else(|| damaged(format!("'{kind}' is no element type")))?;
            let count = shape.iter().try_fold(1_usize, |count, extent| count.checked_mul(*extent));
            let fits = |count: &usize| *count as u64 <= length / dtype.size() as u64;
            let count = count.filter(fits).ok_or_else(|| damaged(format!("the shape {shape:?} is too large")))?;
            let data = read_elements(dtype, count, input)?;
            tensors.insert(&name, Tensor::new(&shape, data).map_err(io::Error::other)?);
        }
        if tensors.checksum() == checksum {
            Ok(tensors)
        } else {
            Err(io::Error::other("the arrays are not those that were written"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Tensors {
        let y = Tensor::new(&[2, 3], &[0.5_f64, f64::NAN, -0.0, f64::INFINITY, 1e-310, 7.0][..]).unwrap();
        // More than is converted at once.
        let codes = Tensor::vector(&[-128_i8, 127].repeat(BLOCK)[..]);
        Tensors::new().with("y", y).with("codes", codes).with("none", Tensor::zeros(Dtype::U16, &[0, 4]).unwrap())
    }

    fn unpacked(mut bytes: &[u8]) -> io::Result<Tensors> {
        let length = bytes.len() as u64;
        Tensors::unpack(&mut bytes, length)
    }

    #[test]
    fn arrays_come_back_with_every_bit() {
        let mut bytes = Vec::new();
        some().pack(&mut bytes).unwrap();
        let back = unpacked(&bytes).unwrap();
        assert_eq!((back.digest(), back.checksum()), (some().digest(), some().checksum()));
        assert_eq!(back.find("y").unwrap().shape(), [2, 3]);
    }

    #[test]
    fn what_is_cut_or_damaged_is_refused() {
        let mut bytes = Vec::new();
        some().pack(&mut bytes).unwrap();
        for end in (0..400).chain(bytes.len() - 9..bytes.len()) {
            assert!(unpacked(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
        }
        let at = bytes.len() - 1;
        bytes[at] ^= 1;
        assert!(unpacked(&bytes).is_err());
        assert!(unpacked(b"[0,[[\"y\",\"float64\",[99999999999,99999999999]]]]\n").is_err());
    }
}
