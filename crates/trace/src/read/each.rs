//! Reads lists one value at a time, because all values as JSON would need several times their memory.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

/// Passes each value of a list to a function, which may reject it.
pub(crate) struct Each<T, F> {
    expected: &'static str,
    take: F,
    values: PhantomData<T>,
}

impl<T, F: FnMut(T) -> Result<(), String>> Each<T, F> {
    pub(crate) fn new(expected: &'static str, take: F) -> Self {
        Self { expected, take, values: PhantomData }
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> DeserializeSeed<'de> for Each<T, F> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> Visitor<'de> for Each<T, F> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.expected)
    }
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<(), A::Error> {
        while let Some(value) = values.next_element()? {
            (self.take)(value).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}
