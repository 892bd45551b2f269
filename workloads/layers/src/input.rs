//! The inputs of a job.

use std::ops::Deref;

use ellwand_core::{InputError, Tensor};

use super::half::Element;
use ellwand_simd::buffer::{Buffer, Pages};

/// An array of the inputs. It shares the memory of the tensor, so that a row's peak memory holds no copy of it, unless
/// the case asks for huge pages.
pub(super) enum Input<T: Element = f32> {
    Shared(Tensor),
    Copied(Buffer<T>),
}

impl<T: Element> Input<T> {
    /// An array of the element type of the job; `name` is for the error if it has another.
    pub(super) fn of(tensor: &Tensor, name: &str, pages: Pages) -> Result<Self, InputError> {
        let values = T::values(tensor).map_err(|error| InputError { argument: name.to_string(), ..error })?;
        Ok(match pages {
            Pages::Heap => Self::Shared(tensor.clone()),
            Pages::Huge => Self::Copied(Buffer::of(values, pages)),
        })
    }
}

impl<T: Element> Default for Input<T> {
    fn default() -> Self {
        Self::Copied(Buffer::default())
    }
}

impl<T: Element> Deref for Input<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            // The type was checked when the input was made.
            Self::Shared(tensor) => T::values(tensor).unwrap_or_default(),
            Self::Copied(buffer) => buffer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_shares_the_memory_of_its_tensor_unless_it_needs_other_pages() {
        let tensor = Tensor::vector(&[1.0_f32, 2.0, 3.0][..]);
        let shared = Input::<f32>::of(&tensor, "x", Pages::Heap).unwrap();
        assert_eq!(shared.as_ptr(), tensor.f32().unwrap().as_ptr());
        let copied = Input::<f32>::of(&tensor, "x", Pages::Huge).unwrap();
        assert_ne!(copied.as_ptr(), shared.as_ptr());
        assert_eq!(copied[..], shared[..]);
        assert!(Input::<u16>::of(&tensor, "x", Pages::Heap).is_err_and(|error| error.argument == "x"));
    }
}
