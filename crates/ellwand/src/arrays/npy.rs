//! `.npy`: one array (NumPy format versions 1 to 3), checked before anything is allocated.

use std::io::{self, Write};
use std::path::Path;

use ellwand_core::error::InputError;
use ellwand_core::tensor::{Dtype, Tensor};

use super::{byte_count, elements};

/// Reads the bytes of a `.npy` file. Big-endian and Fortran-order arrays are converted.
///
/// # Errors
/// If it is not a .npy file, has an unsupported type, or has more or fewer bytes than its header requires.
pub(super) fn parse(argument: &str, bytes: &[u8]) -> Result<Tensor, InputError> {
    let Head { dtype, big_endian, fortran, shape, bytes: expected, start } = head(argument, bytes)?;
    let rest = &bytes[start..];
    if rest.len() != expected {
        let what = if rest.len() < expected { "it is truncated" } else { "bytes follow the array" };
        return Err(damaged(
            argument,
            format!(
                "{what}: the header promises {expected} bytes for the shape {shape:?}, the file has {}",
                rest.len()
            ),
        ));
    }
    if fortran && shape.len() > 1 {
        let reordered = from_fortran(&shape, dtype.size(), rest);
        return elements(argument, dtype, big_endian, &shape, &reordered);
    }
    elements(argument, dtype, big_endian, &shape, rest)
}

fn damaged(argument: &str, problem: String) -> InputError {
    InputError::new(argument, problem, "a whole .npy file as numpy.save writes it")
}

/// Longest header in bytes that is read. NumPy writes 128, and refuses more than 10,000 unless asked.
const LONGEST_HEADER: usize = 10_000;

/// The text of the header as far as the bytes hold it, the length that the file claims for it, and where it ends.
fn header(bytes: &[u8]) -> Option<(&[u8], usize, usize)> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (len, start): (usize, usize) = match rest.first()? {
        1 => (usize::from(u16::from_le_bytes([*rest.get(2)?, *rest.get(3)?])), 4),
        2 | 3 => (u32::from_le_bytes(rest.get(2..6)?.try_into().ok()?) as usize, 6),
        _ => return None,
    };
    let end = rest.len().min(start.saturating_add(len));
    Some((rest.get(start..end)?, len, bytes.len() - rest.len() + end))
}

/// The header's description of the array.
struct Head {
    dtype: Dtype,
    big_endian: bool,
    /// True if the first index varies fastest (Fortran order).
    fortran: bool,
    shape: Vec<usize>,
    /// Size of the array in bytes.
    bytes: usize,
    /// Offset of the array in the file.
    start: usize,
}

fn head(argument: &str, file: &[u8]) -> Result<Head, InputError> {
    let (text, claimed, start) = header(file).ok_or_else(|| damaged(argument, "it has no .npy header".into()))?;
    if claimed > LONGEST_HEADER {
        let problem = format!("its header has {claimed} bytes");
        return Err(InputError::new(argument, problem, format!("a header of at most {LONGEST_HEADER} bytes")));
    }
    let is_whole = text.len() == claimed;
    let text = String::from_utf8_lossy(text);
    let described = text.split_once("descr").and_then(|(_, rest)| rest.split_once(':'));
    if described.is_some_and(|(_, value)| !value.trim_start().starts_with(['\'', '"'])) {
        let error = InputError::new(argument, "it holds a structured type, which is not supported", SUPPORTED);
        return Err(error.help("save one field as a separate array"));
    }
    let fields = fields(&text).filter(|_| is_whole);
    let (descr, fortran, shape) =
        fields.ok_or_else(|| damaged(argument, "its header is not one that NumPy writes".into()))?;
    let (dtype, big_endian) = element(argument, descr)?;
    let bytes = byte_count(argument, dtype, &shape)?;
    Ok(Head { dtype, big_endian, fortran, shape, bytes, start })
}

/// Type, order and shape in the text of a header: a Python dictionary with these three values.
fn fields(text: &str) -> Option<(&str, bool, Vec<usize>)> {
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    while !rest.is_empty() {
        let (key, after) = quoted(rest)?;
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        let end = match key {
            "descr" => {
                let (text, end) = quoted(value)?;
                descr = Some(text);
                end
            }
            "fortran_order" => {
                fortran = Some(value.starts_with("True"));
                value.strip_prefix("True").or(value.strip_prefix("False"))?
            }
            "shape" => {
                let (extents, end) = value.strip_prefix('(')?.split_once(')')?;
                let extents = extents.split(',').map(str::trim).filter(|extent| !extent.is_empty());
                shape = Some(extents.map(|extent| extent.parse().ok()).collect::<Option<Vec<usize>>>()?);
                end
            }
            _ => return None,
        };
        let end = end.trim_start();
        rest = if end.is_empty() { end } else { end.strip_prefix(',')?.trim_start() };
    }
    Some((descr?, fortran?, shape?))
}

/// A string at the beginning of `text`, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| ['\'', '"'].contains(c))?;
    text[1..].split_once(quote)
}

/// Size in bytes of the whole file that begins with `start`, according to its header.
///
/// # Errors
/// As [`parse`].
pub(super) fn file_len(argument: &str, start: &[u8]) -> Result<usize, InputError> {
    head(argument, start).map(|head| head.start.saturating_add(head.bytes))
}

/// Number of bytes that contain the header of any supported file.
pub(super) const START: usize = LONGEST_HEADER + 12;

/// Types as written in headers, after their byte order.
const TYPES: [(&str, Dtype); 10] = [
    ("f4", Dtype::F32),
    ("f8", Dtype::F64),
    ("i1", Dtype::I8),
    ("i2", Dtype::I16),
    ("i4", Dtype::I32),
    ("i8", Dtype::I64),
    ("u1", Dtype::U8),
    ("u2", Dtype::U16),
    ("u4", Dtype::U32),
    ("u8", Dtype::U64),
];
const SUPPORTED: &str = "float32, float64 or an integer type";

/// The type that a header describes, and whether it is big-endian.
fn element(argument: &str, descr: &str) -> Result<(Dtype, bool), InputError> {
    let known = descr.strip_prefix(['<', '>', '|', '=']).and_then(|of| TYPES.iter().find(|(name, _)| *name == of));
    if let Some((_, dtype)) = known {
        return Ok((*dtype, descr.starts_with('>')));
    }
    let (name, help) = if descr.ends_with("f2") {
        ("float16".into(), "convert it first: numpy.save(path, x.astype('float32'))")
    } else {
        (format!("the type {descr}"), "convert it first with x.astype('float32')")
    };
    Err(InputError::new(argument, format!("it holds {name}, which is not supported"), SUPPORTED).help(help))
}

/// The bytes of a Fortran-order array in row-major order.
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

/// Writes `tensor` to `path`, first under a temporary name, so a partial file never looks complete.
///
/// # Errors
/// If the file system reports an error.
pub fn write(path: &Path, tensor: &Tensor) -> io::Result<()> {
    ellwand_profile::replace_file(path, |out| encode(out, tensor))
}

fn encode(to: &mut dyn Write, tensor: &Tensor) -> io::Result<()> {
    let Some((name, _)) = TYPES.iter().find(|(_, dtype)| *dtype == tensor.dtype()) else {
        return Err(io::Error::other(format!("{} cannot be written as .npy", tensor.dtype())));
    };
    let order = if tensor.dtype().size() == 1 { '|' } else { '<' };
    let shape: String = tensor.shape().iter().map(|extent| format!("{extent}, ")).collect();
    let header = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The array begins at a multiple of 64 bytes.
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    to.write_all(b"\x93NUMPY\x01\x00")?;
    to.write_all(&u16::try_from(length).map_err(io::Error::other)?.to_le_bytes())?;
    writeln!(to, "{header:<0$}", length - 1)?;
    tensor.data().blocks(&mut |bytes| to.write_all(bytes))
}
