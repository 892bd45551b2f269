//! `.npy`: one array (NumPy format versions 1 to 3), read by `npyz`'s header parser, checked before anything is allocated.

use std::io::{self, Write};
use std::path::Path;

use ellwand_core::error::InputError;
use ellwand_core::tensor::{Data, Dtype, Tensor};
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, WriterBuilder};

use super::{byte_count, elements};

/// Reads the bytes of a `.npy` file. Big-endian and Fortran-order arrays are converted.
///
/// # Errors
/// When it is not a .npy file, holds a type that is not supported, or has more or fewer bytes than its header says.
pub(super) fn parse(argument: &str, bytes: &[u8]) -> Result<Tensor, InputError> {
    let damaged = |problem: String| InputError::new(argument, problem, "a whole .npy file as numpy.save writes it");
    let Head { header, dtype, big_endian, shape, bytes: expected, start } = head(argument, bytes)?;
    let rest = &bytes[start..];
    if rest.len() != expected {
        let what = if rest.len() < expected { "it is truncated" } else { "bytes follow the array" };
        return Err(damaged(format!(
            "{what}: the header promises {expected} bytes for the shape {shape:?}, the file has {}",
            rest.len()
        )));
    }
    if header.order() == Order::Fortran && shape.len() > 1 {
        let reordered = from_fortran(&shape, dtype.size(), rest);
        return elements(argument, dtype, big_endian, &shape, &reordered);
    }
    elements(argument, dtype, big_endian, &shape, rest)
}

/// Longest header in bytes that is parsed. NumPy writes 128, and refuses more than 10,000 unless asked.
const LONGEST_HEADER: usize = 10_000;

/// Refuses a header that would take the parser long: a long one, and nested values, which cost it exponential time. Only
/// structured types have those.
fn check_header(argument: &str, bytes: &[u8]) -> Result<(), InputError> {
    let damaged = |problem: String| InputError::new(argument, problem, "a whole .npy file as numpy.save writes it");
    let (header, claimed) = header(bytes).ok_or_else(|| damaged("it has no .npy header".into()))?;
    // What it claims, too: the parser makes room for that before it reads.
    if claimed > LONGEST_HEADER {
        let problem = format!("its header has {claimed} bytes");
        return Err(InputError::new(argument, problem, format!("a header of at most {LONGEST_HEADER} bytes")));
    }
    let text = String::from_utf8_lossy(header);
    let described = text.split_once("descr").and_then(|(_, rest)| rest.split_once(':'));
    if described.is_some_and(|(_, value)| !value.trim_start().starts_with(['\'', '"'])) {
        let problem = "it holds a structured type, which is not supported";
        let error = InputError::new(argument, problem, "float32, float64 or an integer type");
        return Err(error.help("save one field as a separate array"));
    }
    // A dictionary with a shape in it.
    if header.iter().filter(|byte| matches!(byte, b'(' | b'[' | b'{')).count() > 2 {
        return Err(damaged("its header holds nested values".into()));
    }
    Ok(())
}

/// The text of the header, as far as it is there, and the length that the file claims for it.
fn header(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (len, start): (usize, usize) = match rest.first()? {
        1 => (usize::from(u16::from_le_bytes([*rest.get(2)?, *rest.get(3)?])), 4),
        _ => (u32::from_le_bytes(rest.get(2..6)?.try_into().ok()?) as usize, 6),
    };
    Some((rest.get(start..rest.len().min(start.saturating_add(len)))?, len))
}

/// What a header says of the array after it.
struct Head {
    header: NpyHeader,
    dtype: Dtype,
    big_endian: bool,
    shape: Vec<usize>,
    /// Bytes of the array.
    bytes: usize,
    /// Where it starts.
    start: usize,
}

fn head(argument: &str, file: &[u8]) -> Result<Head, InputError> {
    check_header(argument, file)?;
    let damaged = |problem: String| InputError::new(argument, problem, "a whole .npy file as numpy.save writes it");
    let mut rest = file;
    // The parser multiplies what the header claims; a header that overflows it must not end the program.
    let header = ellwand_bench::check::guarded("the .npy header", || NpyHeader::from_reader(&mut rest))
        .map_err(|_| damaged("its header claims an impossible shape".into()))?
        .map_err(|error| damaged(format!("its header cannot be read ({error})")))?;
    let (dtype, big_endian) = element(argument, &header.dtype())?;
    let shape: Vec<usize> =
        header.shape().iter().map(|extent| usize::try_from(*extent).unwrap_or(usize::MAX)).collect();
    let bytes = byte_count(argument, dtype, &shape)?;
    Ok(Head { header, dtype, big_endian, shape, bytes, start: file.len() - rest.len() })
}

/// Bytes of the whole file that begins with `start`, by its header.
///
/// # Errors
/// As [`parse`].
pub(super) fn file_len(argument: &str, start: &[u8]) -> Result<usize, InputError> {
    head(argument, start).map(|head| head.start.saturating_add(head.bytes))
}

/// Bytes that hold the header of any file that is read.
pub(super) const START: usize = LONGEST_HEADER + 12;

fn element(argument: &str, held: &DType) -> Result<(Dtype, bool), InputError> {
    let unsupported = |name: String, help: &str| {
        InputError::new(
            argument,
            format!("it holds {name}, which is not supported"),
            "float32, float64 or an integer type",
        )
        .help(help.to_string())
    };
    let DType::Plain(plain) = held else {
        return Err(unsupported("a structured type".into(), "save one field as its own array"));
    };
    let dtype = match (plain.type_char(), plain.size_field()) {
        (TypeChar::Float, 4) => Dtype::F32,
        (TypeChar::Float, 8) => Dtype::F64,
        (TypeChar::Float, 2) => {
            return Err(unsupported("float16".into(), "convert it first: numpy.save(path, x.astype('float32'))"));
        }
        (TypeChar::Int, 1) => Dtype::I8,
        (TypeChar::Int, 2) => Dtype::I16,
        (TypeChar::Int, 4) => Dtype::I32,
        (TypeChar::Int, 8) => Dtype::I64,
        (TypeChar::Uint, 1) => Dtype::U8,
        (TypeChar::Uint, 2) => Dtype::U16,
        (TypeChar::Uint, 4) => Dtype::U32,
        (TypeChar::Uint, 8) => Dtype::U64,
        _ => return Err(unsupported(format!("the type {plain}"), "convert it first with x.astype('float32')")),
    };
    Ok((dtype, plain.endianness() == Endianness::Big))
}

/// Bytes in row-major order of an array whose first index runs fastest.
fn from_fortran(shape: &[usize], size: usize, bytes: &[u8]) -> Vec<u8> {
    let count: usize = shape.iter().product();
    let mut strides = vec![1_usize; shape.len()];
    for axis in 1..shape.len() {
        strides[axis] = strides[axis - 1] * shape[axis - 1];
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0_usize; shape.len()];
    for _ in 0..count {
        let at: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        out.extend_from_slice(&bytes[at * size..(at + 1) * size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    out
}

/// Writes `tensor` to `path` under a temporary name first, so that no partial file looks whole.
///
/// # Errors
/// When the file system refuses.
pub fn write(path: &Path, tensor: &Tensor) -> io::Result<()> {
    ellwand_profile::replace_file(path, |out| encode(out, tensor))
}

fn encode(to: &mut dyn Write, tensor: &Tensor) -> io::Result<()> {
    let shape: Vec<u64> = tensor.shape().iter().map(|extent| *extent as u64).collect();
    macro_rules! each {
        ($($variant:ident)*) => {
            match tensor.data() {
                $(Data::$variant(values) => {
                    let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(to).begin_nd()?;
                    writer.extend(values.iter().copied())?;
                    writer.finish()
                })*
                other => Err(io::Error::other(format!("{} cannot be written as .npy", other.dtype()))),
            }
        };
    }
    each!(F32 F64 I8 I16 I32 I64 U8 U16 U32 U64)
}
