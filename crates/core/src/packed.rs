//! Arrays as bytes, passed between processes of one program: a JSON line of names, types and shapes, then the elements.

use std::io::{self, BufRead, Read, Write};

use crate::tensor::{Data, Dtype, Tensor, Tensors};

/// Name, element type and shape of an array.
type Entry = (String, String, Vec<usize>);

/// Maximum length of the JSON line in bytes.
const LONGEST_LINE: u64 = 1 << 20;

impl Tensors {
    /// A CRC-32 of names, types, shapes and elements, much faster than [`Tensors::digest`]. Two different answers have
    /// the same checksum with probability 2e-10.
    pub fn checksum(&self) -> u64 {
        let mut sum = crc32fast::Hasher::new();
        for (name, tensor) in self.iter() {
            sum.update(format!("{name}\0{}\0{:?}", tensor.dtype(), tensor.shape()).as_bytes());
            let summed = tensor.data().blocks(&mut |bytes| {
                sum.update(bytes);
                Ok(())
            });
            debug_assert!(summed.is_ok(), "a checksum takes everything");
        }
        u64::from(sum.finalize())
    }

    /// Writes all arrays.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn pack(&self, out: &mut dyn Write) -> io::Result<()> {
        let entry = |(name, tensor): (&str, &Tensor)| -> Entry {
            (name.to_string(), tensor.dtype().name().to_string(), tensor.shape().to_vec())
        };
        let entries: Vec<Entry> = self.iter().map(entry).collect();
        out.write_all(serde_json::to_string(&(self.checksum(), entries))?.as_bytes())?;
        out.write_all(b"\n")?;
        self.iter().try_for_each(|(_, tensor)| tensor.data().blocks(&mut |bytes| out.write_all(bytes)))
    }

    /// Reads what [`Tensors::pack`] wrote, in at most `length` bytes.
    ///
    /// # Errors
    /// If the bytes are truncated or damaged.
    pub fn unpack(input: &mut dyn BufRead, length: u64) -> io::Result<Self> {
        let mut line = String::new();
        (&mut *input).take(LONGEST_LINE).read_line(&mut line)?;
        let (checksum, entries): (u64, Vec<Entry>) = serde_json::from_str(&line)?;
        let mut tensors = Self::new();
        for (name, kind, shape) in entries {
            let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
            let dtype = Dtype::ALL.iter().find(|dtype| dtype.name() == kind).copied();
            let dtype = dtype.ok_or_else(|| damaged(format!("'{kind}' is not an element type")))?;
            let count = shape.iter().try_fold(1_usize, |count, extent| count.checked_mul(*extent));
            let fits = |count: &usize| *count as u64 <= length / dtype.size() as u64;
            let count = count.filter(fits).ok_or_else(|| damaged(format!("the shape {shape:?} is too large")))?;
            let data = Data::read(dtype, count, false, &mut *input)?;
            tensors.insert(&name, Tensor::new(&shape, data).map_err(io::Error::other)?);
        }
        if tensors.checksum() == checksum {
            Ok(tensors)
        } else {
            Err(io::Error::other("the checksum of the arrays does not match"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::BLOCK;

    fn some() -> Tensors {
        let y = Tensor::new(&[2, 3], &[0.5_f64, f64::NAN, -0.0, f64::INFINITY, 1e-310, 7.0][..]).unwrap();
        // More elements than one block of the conversion.
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
    fn truncated_or_damaged_arrays_are_refused() {
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
