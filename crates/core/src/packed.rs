//! Arrays as bytes, for processes of one program: a line of JSON about names, types and shapes, then the elements.

use std::io::{self, BufRead, Read, Write};

use crate::tensor::{Data, Dtype, Tensor, Tensors};

/// Name, element type and shape of an array.
type Entry = (String, String, Vec<usize>);

/// Most bytes of the line about the arrays.
const LONGEST_LINE: u64 = 1 << 20;

macro_rules! elements {
    ($($variant:ident $type:ty;)*) => {
        fn write_elements(data: &Data, out: &mut impl Write) -> io::Result<()> {
            match data { $(Data::$variant(v) => v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes())),)* }
        }

        fn read_elements(dtype: Dtype, count: usize, input: &mut impl Read) -> io::Result<Data> {
            match dtype { $(Dtype::$variant => {
                let mut values: Vec<$type> = Vec::new();
                let mut bytes = [0; size_of::<$type>()];
                for _ in 0..count {
                    input.read_exact(&mut bytes)?;
                    values.push(<$type>::from_le_bytes(bytes));
                }
                Ok(Data::from(&values[..]))
            })* }
        }

        fn dtype(name: &str) -> Option<Dtype> {
            [$(Dtype::$variant),*].into_iter().find(|dtype| dtype.name() == name)
        }
    };
}

elements! { F32 f32; F64 f64; I8 i8; I16 i16; I32 i32; I64 i64; U8 u8; U16 u16; U32 u32; U64 u64; }

impl Tensors {
    /// Writes all arrays.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn pack(&self, out: &mut impl Write) -> io::Result<()> {
        let entry = |(name, tensor): (&str, &Tensor)| -> Entry {
            (name.to_string(), tensor.dtype().name().to_string(), tensor.shape().to_vec())
        };
        let entries: Vec<Entry> = self.iter().map(entry).collect();
        serde_json::to_writer(&mut *out, &(self.digest(), entries))?;
        out.write_all(b"\n")?;
        self.iter().try_for_each(|(_, tensor)| write_elements(tensor.data(), out))
    }

    /// Reads what [`Tensors::pack`] wrote.
    ///
    /// # Errors
    /// If the bytes are not whole, or not what was written.
    pub fn unpack(input: &mut impl BufRead) -> io::Result<Self> {
        let mut line = Vec::new();
        input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        let (digest, entries): (u64, Vec<Entry>) = serde_json::from_slice(&line)?;
        let mut tensors = Self::new();
        for (name, kind, shape) in entries {
            let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
            let dtype = dtype(&kind).ok_or_else(|| damaged(format!("'{kind}' is no element type")))?;
            let count = shape.iter().try_fold(1_usize, |count, extent| count.checked_mul(*extent));
            let count = count.ok_or_else(|| damaged(format!("the shape {shape:?} is too large")))?;
            let data = read_elements(dtype, count, input)?;
            tensors.insert(&name, Tensor::new(&shape, data).map_err(io::Error::other)?);
        }
        if tensors.digest() == digest {
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
        let codes = Tensor::vector(&[-128_i8, 127][..]);
        Tensors::new().with("y", y).with("codes", codes).with("none", Tensor::zeros(Dtype::U16, &[0, 4]).unwrap())
    }

    #[test]
    fn arrays_come_back_with_every_bit() {
        let mut bytes = Vec::new();
        some().pack(&mut bytes).unwrap();
        let back = Tensors::unpack(&mut &bytes[..]).unwrap();
        assert_eq!(back.digest(), some().digest());
        assert_eq!(back.find("y").unwrap().shape(), [2, 3]);
    }

    #[test]
    fn what_is_cut_or_damaged_is_refused() {
        let mut bytes = Vec::new();
        some().pack(&mut bytes).unwrap();
        for end in 0..bytes.len() {
            assert!(Tensors::unpack(&mut &bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
        }
        let at = bytes.len() - 1;
        bytes[at] ^= 1;
        assert!(Tensors::unpack(&mut &bytes[..]).is_err());
        assert!(Tensors::unpack(&mut &b"[0,[[\"y\",\"float64\",[99999999999,99999999999]]]]\n"[..]).is_err());
    }
}
