//! cuBLAS on the backend's stream.
#![allow(unsafe_code)]

use super::super::cublas::{Cublas, WORKSPACE};
use super::super::{Arg, Backend, GpuError, Kernel, find};
use super::Cuda;

impl Cuda {
    /// Loads cuBLAS once, with a handle and a workspace that last as long as the process.
    pub(super) fn open_library(&self) -> Result<Kernel, GpuError> {
        if let Some(library) = &self.enter()?.library {
            return Ok(library.kernel());
        }
        let path = find::cublas()?;
        let workspace = self.alloc(WORKSPACE)?;
        let mut state = self.enter_disturbing()?;
        let opened = Cublas::open(&path).and_then(|library| {
            library.enqueue_on(self.stream.cast(), workspace)?;
            Ok(library)
        });
        match opened {
            Ok(library) => {
                let kernel = library.kernel();
                state.library = Some(library);
                Ok(kernel)
            }
            Err(error) => {
                drop(state);
                self.free(workspace);
                Err(error)
            }
        }
    }

    /// Enqueues a batch of products.
    pub(super) fn enqueue_products(library: Option<&Cublas>, args: &[Arg]) -> Result<(), GpuError> {
        let absent = || GpuError::Absent("cuBLAS was never opened".into());
        library.ok_or_else(absent)?.launch(args)
    }
}
