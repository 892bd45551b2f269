//! Arrays with a shape: the only form in which data passes between workloads, implementations and files.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

pub use crate::buffer::{ALIGNMENT, Buffer};
use crate::error::InputError;

macro_rules! dtypes {
    ($($variant:ident $type:ty, $name:literal, $get:ident, $get_mut:ident;)*) => {
        /// Element type of a [`Tensor`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Dtype { $(#[doc = $name] $variant,)* }

        impl Dtype {
            pub(crate) const ALL: &[Dtype] = &[$(Dtype::$variant),*];
            /// NumPy name of the type.
            pub fn name(self) -> &'static str { match self { $(Dtype::$variant => $name,)* } }
            /// Size of one element in bytes.
            pub fn size(self) -> usize { match self { $(Dtype::$variant => size_of::<$type>(),)* } }
        }

        /// The elements of a [`Tensor`], in row-major order.
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub enum Data { $(#[doc = $name] $variant(Buffer<$type>),)* }

        impl Data {
            /// Type of each element.
            pub fn dtype(&self) -> Dtype { match self { $(Data::$variant(_) => Dtype::$variant,)* } }
            /// Number of elements.
            pub fn len(&self) -> usize { match self { $(Data::$variant(v) => v.len(),)* } }
            /// True if the tensor has no elements.
            pub fn is_empty(&self) -> bool { self.len() == 0 }
            /// True for the same element type and bytes: NaN equals a NaN of the same bits, +0 differs from -0.
            pub fn same_bits(&self, other: &Data) -> bool {
                match (self, other) {
                    $((Data::$variant(a), Data::$variant(b)) => a.len() == b.len()
                        && a.iter().zip(b.iter()).all(|(x, y)| x.to_ne_bytes() == y.to_ne_bytes()),)*
                    _ => false,
                }
            }
            /// The elements as f64 (64-bit integers are rounded above 2^53).
            #[allow(clippy::unnecessary_cast)]
            pub fn to_f64(&self) -> Vec<f64> { match self { $(Data::$variant(v) => v.iter().map(|x| *x as f64).collect(),)* } }
            fn fill_bytes(&mut self, byte: u8) {
                match self { $(Data::$variant(v) => v.fill(Element::of_byte(byte)),)* }
            }
            /// Number of elements whose bytes all equal `byte`.
            pub(crate) fn elements_of(&self, byte: u8) -> usize {
                match self { $(Data::$variant(v) => {
                    let made = [byte; size_of::<$type>()];
                    v.iter().filter(|x| x.to_ne_bytes() == made).count()
                })* }
            }
            /// Passes the bytes of all elements to `take`, block by block, in little-endian order.
            ///
            /// # Errors
            /// Errors of `take`.
            pub fn blocks(&self, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
                match self { $(Data::$variant(v) => blocks(v, take),)* }
            }
            /// Reads `count` elements from `input`.
            pub(crate) fn read(dtype: Dtype, count: usize, big_endian: bool, input: &mut dyn Read) -> io::Result<Data> {
                match dtype { $(Dtype::$variant => Ok(Data::$variant(read(count, big_endian, input)?)),)* }
            }
            /// `len` elements whose bytes all equal `byte`.
            fn filled(dtype: Dtype, len: usize, byte: u8) -> Data {
                match dtype { $(Dtype::$variant => Data::$variant(Buffer::filled(len, Element::of_byte(byte))),)* }
            }
        }

        impl Tensor {
            $(
                #[doc = concat!("The elements, if this tensor holds ", $name, "; otherwise an error that names its type.")]
                pub fn $get(&self) -> Result<&[$type], InputError> {
                    match &*self.data { Data::$variant(v) => Ok(v), other => Err(wrong_dtype(other.dtype(), $name)) }
                }
                #[doc = concat!("Mutable elements, if this tensor holds ", $name, "; clones keep the old values.")]
                pub fn $get_mut(&mut self) -> Result<&mut [$type], InputError> {
                    match Arc::make_mut(&mut self.data) { Data::$variant(v) => Ok(v), other => Err(wrong_dtype(other.dtype(), $name)) }
                }
            )*
        }

        $(impl Element for $type {
            fn of_byte(byte: u8) -> Self { <$type>::from_ne_bytes([byte; size_of::<$type>()]) }
            fn to_bytes(values: &[Self], bytes: &mut [u8]) {
                for (to, x) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    *to = x.to_le_bytes();
                }
            }
            fn of_bytes(bytes: &[u8], big_endian: bool, values: &mut [Self]) {
                for (x, from) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *x = if big_endian { <$type>::from_be_bytes(*from) } else { <$type>::from_le_bytes(*from) };
                }
            }
        })*

        $(impl From<&[$type]> for Data {
            fn from(values: &[$type]) -> Self { Data::$variant(Buffer::of(values)) }
        })*
    };
}

dtypes! {
    F32 f32, "float32", f32, f32_mut;
    F64 f64, "float64", f64, f64_mut;
    I8 i8, "int8", i8, i8_mut;
    I16 i16, "int16", i16, i16_mut;
    I32 i32, "int32", i32, i32_mut;
    I64 i64, "int64", i64, i64_mut;
    U8 u8, "uint8", u8, u8_mut;
    U16 u16, "uint16", u16, u16_mut;
    U32 u32, "uint32", u32, u32_mut;
    U64 u64, "uint64", u64, u64_mut;
}

/// A type that a [`Tensor`] can hold.
pub trait Element: Copy + Default {
    /// The value whose bytes all equal `byte`.
    fn of_byte(byte: u8) -> Self;
    /// Converts all values to little-endian bytes.
    fn to_bytes(values: &[Self], bytes: &mut [u8]);
    /// Fills `values` from little-endian or big-endian bytes.
    fn of_bytes(bytes: &[u8], big_endian: bool, values: &mut [Self]);
}

/// Bytes converted at once.
pub(crate) const BLOCK: usize = 1 << 13;

fn blocks<T: Element>(values: &[T], take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut block = [0; BLOCK];
    for part in values.chunks(BLOCK / size_of::<T>()) {
        let bytes = &mut block[..size_of_val(part)];
        T::to_bytes(part, bytes);
        take(bytes)?;
    }
    Ok(())
}

fn read<T: Element>(count: usize, big_endian: bool, input: &mut dyn Read) -> io::Result<Buffer<T>> {
    let mut block = [0; BLOCK];
    let mut values = Buffer::filled(count, T::default());
    for part in values.chunks_mut(BLOCK / size_of::<T>()) {
        let bytes = &mut block[..size_of_val(part)];
        input.read_exact(bytes)?;
        T::of_bytes(bytes, big_endian, part);
    }
    Ok(values)
}

fn wrong_dtype(have: Dtype, want: &str) -> InputError {
    InputError::new("array", format!("it holds {}", have.name()), want.to_string())
        .help(format!("convert it first, for example x.astype('{want}')"))
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A dense row-major array. A 0-d tensor (empty shape) holds one element.
///
/// Clones share their elements until one of them is written to, so an implementation that keeps its inputs needs no
/// extra memory, and memory probes see only its own allocations.
#[derive(Debug, Clone)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Arc<Data>,
}

impl Tensor {
    /// A tensor of `shape` with `data` in row-major order.
    ///
    /// # Errors
    /// If `data` does not have as many elements as `shape`, or that number overflows.
    pub fn new(shape: &[usize], data: impl Into<Data>) -> Result<Self, InputError> {
        let data = data.into();
        let expected = element_count(shape)?;
        if data.len() != expected {
            return Err(InputError::new(
                "array",
                format!("{} elements do not fill the shape {shape:?}", data.len()),
                format!("{expected} elements"),
            ));
        }
        Ok(Self { shape: shape.to_vec(), data: Arc::new(data) })
    }

    /// A tensor of `shape` from the bytes of its elements in row-major order. Ignores an incomplete last element.
    ///
    /// # Errors
    /// As [`Tensor::new`].
    pub fn from_bytes(dtype: Dtype, shape: &[usize], bytes: &[u8], big_endian: bool) -> Result<Self, InputError> {
        let data = Data::read(dtype, bytes.len() / dtype.size(), big_endian, &mut &*bytes);
        Self::new(
            shape,
            data.map_err(|error| InputError::new("array", error.to_string(), "the bytes of its elements"))?,
        )
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// If the number of elements overflows.
    pub fn zeros(dtype: Dtype, shape: &[usize]) -> Result<Self, InputError> {
        Ok(Self { shape: shape.to_vec(), data: Arc::new(Data::filled(dtype, element_count(shape)?, 0)) })
    }

    /// A 0-d tensor that holds one f64.
    pub fn scalar(value: f64) -> Self {
        Self { shape: Vec::new(), data: Arc::new(Data::from(&[value][..])) }
    }

    /// A 1-d tensor of the elements.
    pub fn vector(data: impl Into<Data>) -> Self {
        let data = data.into();
        Self { shape: vec![data.len()], data: Arc::new(data) }
    }

    /// Size of each dimension; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Type of each element.
    pub fn dtype(&self) -> Dtype {
        self.data.dtype()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// True if some dimension is 0.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Size of the elements in bytes.
    pub fn bytes(&self) -> u64 {
        (self.len() * self.dtype().size()) as u64
    }

    /// Sets every byte; clones keep the old values.
    pub(crate) fn fill_bytes(&mut self, byte: u8) {
        match Arc::get_mut(&mut self.data) {
            Some(own) => own.fill_bytes(byte),
            None => self.data = Arc::new(Data::filled(self.dtype(), self.len(), byte)),
        }
    }

    /// The elements with their type.
    pub fn data(&self) -> &Data {
        &self.data
    }
}

fn element_count(shape: &[usize]) -> Result<usize, InputError> {
    shape.iter().try_fold(1_usize, |product, extent| product.checked_mul(*extent)).ok_or_else(|| {
        InputError::new(
            "array",
            format!("the shape {shape:?} has more elements than can be addressed"),
            "a smaller shape",
        )
    })
}

/// Named arrays: the inputs of a case or the outputs of an implementation.
#[derive(Debug, Clone, Default)]
pub struct Tensors(BTreeMap<String, Tensor>);

impl Tensors {
    /// An empty set of arrays.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces an array and returns the set.
    #[must_use]
    pub fn with(mut self, name: &str, tensor: Tensor) -> Self {
        self.insert(name, tensor);
        self
    }

    /// Adds or replaces an array.
    pub fn insert(&mut self, name: &str, tensor: Tensor) {
        self.0.insert(name.to_string(), tensor);
    }

    /// The array `name`, or `None`.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }

    /// The array `name` for writing, or `None`.
    pub fn find_mut(&mut self, name: &str) -> Option<&mut Tensor> {
        self.0.get_mut(name)
    }

    /// The array `name`.
    ///
    /// # Errors
    /// If there is no such array; the error lists the names of the arrays.
    pub fn get(&self, name: &str) -> Result<&Tensor, InputError> {
        self.find(name).ok_or_else(|| {
            let have: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let given = if have.is_empty() { "none".to_string() } else { have.join(", ") };
            InputError::new(name, "this array is missing", format!("one of the arrays given ({given})"))
        })
    }

    /// The elements of the f32 array `name`.
    ///
    /// # Errors
    /// If the array is missing or has another type.
    pub fn f32(&self, name: &str) -> Result<&[f32], InputError> {
        self.get(name)?.f32().map_err(|error| InputError { argument: name.to_string(), ..error })
    }

    /// The elements of the u8 array `name`.
    ///
    /// # Errors
    /// If the array is missing or has another type.
    pub fn u8(&self, name: &str) -> Result<&[u8], InputError> {
        self.get(name)?.u8().map_err(|error| InputError { argument: name.to_string(), ..error })
    }

    /// The single f64 in the array `name`.
    ///
    /// # Errors
    /// If the array is missing or does not hold exactly one f64.
    pub fn scalar(&self, name: &str) -> Result<f64, InputError> {
        match self.get(name)?.f64() {
            Ok([value]) => Ok(*value),
            _ => Err(InputError::new(name, "not a single float64", "a 0-d float64 array")),
        }
    }

    /// Keeps only the arrays with these names.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.0.retain(|name, _| names.contains(&name.as_str()));
        self
    }

    /// Names and arrays in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Removes the array `name` and returns it.
    pub fn take(&mut self, name: &str) -> Option<Tensor> {
        self.0.remove(name)
    }

    /// Number of arrays.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no arrays.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Size of all arrays in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(Tensor::bytes).sum()
    }

    /// A 64-bit FNV-1a digest of names, types, shapes and bytes, which identifies user input in a case id.
    pub fn digest(&self) -> u64 {
        let mut hash = crate::case::Fnv::new();
        for (name, tensor) in self.iter() {
            hash.text(name);
            hash.text(tensor.dtype().name());
            for extent in tensor.shape() {
                hash.bytes(&(*extent as u64).to_le_bytes());
            }
            let fed = tensor.data.blocks(&mut |bytes| {
                hash.bytes(bytes);
                Ok(())
            });
            debug_assert!(fed.is_ok(), "a digest takes everything");
        }
        hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_and_elements_must_agree() {
        assert!(Tensor::new(&[2, 3], &[0.0_f32; 6][..]).is_ok());
        let error = Tensor::new(&[2, 3], &[0.0_f32; 5][..]).unwrap_err();
        assert!(error.to_string().contains("5 elements do not fill the shape [2, 3]"), "{error}");
        assert!(Tensor::zeros(Dtype::U8, &[usize::MAX, 2]).is_err());
    }

    #[test]
    fn buffers_start_on_the_alignment() {
        for len in [1_usize, 7, 1000] {
            let tensor = Tensor::zeros(Dtype::F32, &[len]).unwrap();
            assert_eq!(tensor.f32().unwrap().as_ptr() as usize % ALIGNMENT, 0);
        }
    }

    #[test]
    fn errors_name_the_type_and_the_arrays_present() {
        let arrays = Tensors::new().with("x", Tensor::vector(&[1_u8, 2][..]));
        assert!(arrays.f32("x").unwrap_err().to_string().starts_with("x: it holds uint8; expected float32"));
        assert!(arrays.get("y").unwrap_err().to_string().contains("arrays given (x)"));
    }

    #[test]
    fn same_bits_distinguishes_nan_and_signed_zero() {
        let bits = |v: &[f32]| Data::from(v);
        assert!(bits(&[f32::NAN]).same_bits(&bits(&[f32::NAN])));
        assert!(!bits(&[0.0]).same_bits(&bits(&[-0.0])));
        assert!(!bits(&[0.0]).same_bits(&Data::from(&[0.0_f64][..])));
    }

    #[test]
    fn digest_sees_names_shapes_and_values() {
        let base = Tensors::new().with("x", Tensor::new(&[2, 1], &[1.0_f32, 2.0][..]).unwrap());
        let reshaped = Tensors::new().with("x", Tensor::new(&[1, 2], &[1.0_f32, 2.0][..]).unwrap());
        let renamed = Tensors::new().with("y", Tensor::new(&[2, 1], &[1.0_f32, 2.0][..]).unwrap());
        assert_eq!(base.digest(), base.clone().digest());
        assert_ne!(base.digest(), reshaped.digest());
        assert_ne!(base.digest(), renamed.digest());
    }
}
