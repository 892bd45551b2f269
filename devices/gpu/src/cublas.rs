//! NVIDIA cuBLAS, loaded at run time.
//!
//! Ellwand uses nine functions of the C interface, stable since 2016 (strided batches) and 2019 (workspaces), and loads
//! them with `libloading`: cudarc's binding panics if a function is missing and finds a library by its plain name only.
//! Products are in f32 without TF32, which the gate requires, or of bf16 with f32 sums: if cuBLAS splits a sum, it must
//! not round the parts to bf16 before it adds them. The handle and the workspace are created in preparation, never
//! while a product is being timed.
#![allow(unsafe_code)]

use std::ffi::{c_float, c_int, c_longlong, c_void};
use std::path::Path;

use libloading::{Library, Symbol};

use super::{Arg, GpuError, Kernel};

/// Handle of a cuBLAS launch; the driver has no function at address 0.
pub const HANDLE: usize = 0;

/// `CUBLAS_DEFAULT_MATH` and `CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION`; libraries before 2020 have neither the
/// second nor bf16.
const DEFAULT_MATH: c_int = 0;
const REDUCED_IN_F32: c_int = 16;
/// `CUDA_R_16BF`, `CUBLAS_COMPUTE_32F` and `CUBLAS_GEMM_DEFAULT`.
const BF16: c_int = 14;
const COMPUTE_F32: c_int = 68;
const ANY_WAY: c_int = -1;

/// Workspace in bytes: what cuBLAS recommends for Hopper; other devices need less.
pub(super) const WORKSPACE: usize = 32 << 20;

/// A batch of products `C = alpha A B + beta C` of row-major arrays; B is [k, n], or [n, k] if transposed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Series {
    /// Rows of C, columns of C, and length of the sums (m, n, k).
    pub size: [usize; 3],
    /// True if B is [n, k].
    pub transposed: bool,
    /// Addresses of A, B and C.
    pub at: [Arg; 3],
    /// Elements from one row of A, B and C to the next (leading dimensions).
    pub row: [usize; 3],
    /// Elements from one matrix of the batch to the next.
    pub step: [usize; 3],
    /// Number of products in the batch.
    pub count: usize,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of the previous C: 0 or 1.
    pub beta: f32,
    /// True if A, B and C are bf16; otherwise they are f32.
    pub bf16: bool,
}

impl Series {
    /// Encodes the batch as launch arguments.
    ///
    /// # Errors
    /// If a size exceeds cuBLAS's 32-bit integers.
    pub fn args(&self) -> Result<Vec<Arg>, GpuError> {
        let int = |size: usize| {
            i32::try_from(size)
                .map(|size| Arg::U32(size as u32))
                .map_err(|_| GpuError::Limit { wanted: size as u64, limit: i32::MAX as u64 })
        };
        let mut args = self.at.to_vec();
        for size in self.size.iter().chain(&self.row).chain([&self.count]) {
            args.push(int(*size)?);
        }
        args.extend(self.step.map(|step| Arg::U64(step as u64)));
        args.extend([Arg::U32(u32::from(self.transposed)), Arg::F32(self.alpha), Arg::F32(self.beta)]);
        args.push(Arg::U32(u32::from(self.bf16)));
        Ok(args)
    }

    /// The cuBLAS call for this batch, as a kernel.
    pub(super) fn kernel(&self, library: Kernel) -> Kernel {
        let (call, about) = if self.bf16 {
            ("cublasGemmStridedBatchedEx", "bf16, sums in f32")
        } else {
            ("cublasSgemmStridedBatched", "f32 without TF32")
        };
        Kernel { name: call.into(), resources: format!("{}, {about}", library.resources), ..library }
    }
}

type Sgemm = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_float,
    *const c_float,
    c_int,
    c_longlong,
    *const c_float,
    c_int,
    c_longlong,
    *const c_float,
    *mut c_float,
    c_int,
    c_longlong,
    c_int,
) -> c_int;

type Gemm = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    c_longlong,
    *const c_void,
    c_int,
    c_int,
    c_longlong,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_longlong,
    c_int,
    c_int,
    c_int,
) -> c_int;

/// The loaded library with its handle.
pub struct Cublas {
    handle: *mut c_void,
    sgemm: Sgemm,
    gemm: Gemm,
    version: c_int,
    /// Keeps the functions loaded; the last field, so that it is dropped last.
    library: Library,
}

// SAFETY: only one thread at a time uses the handle, because its owner keeps it under a lock.
unsafe impl Send for Cublas {}
// SAFETY: as above.
unsafe impl Sync for Cublas {}

fn check_status(call: &'static str, code: c_int) -> Result<(), GpuError> {
    let problem = match code {
        0 => return Ok(()),
        1 => "the library is not initialised (1)".to_string(),
        3 => "out of memory (3)".to_string(),
        7 => "an argument is invalid (7)".to_string(),
        8 => "it does not support this device (8)".to_string(),
        15 => "it does not support arrays of these types (15)".to_string(),
        other => format!("status {other}"),
    };
    Err(GpuError::Call { call, problem })
}

impl Cublas {
    /// Loads cuBLAS from the file `path`. A driver context must be current.
    ///
    /// # Errors
    /// Why the library cannot be used.
    pub fn open(path: &Path) -> Result<Self, GpuError> {
        type Create = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
        type Set = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
        type Get = unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int;
        let lacks = |what: &str, error: libloading::Error| {
            let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
            GpuError::Absent(format!("{}: {what}: {error}{cause}", path.display()))
        };
        // SAFETY: runs only NVIDIA's initialisers.
        let library = unsafe { Library::new(path) }.map_err(|error| lacks("it cannot be loaded", error))?;
        let mut handle = std::ptr::null_mut();
        let mut version = 0;
        let (sgemm, gemm);
        {
            let old = |error| lacks("it lacks a function, so it is not cuBLAS or older than 2019", error);
            // SAFETY: the documented signatures of these functions.
            let (create, math, tell, product, narrow) = unsafe {
                (
                    library.get::<Create>(b"cublasCreate_v2\0").map_err(old)?,
                    library.get::<Set>(b"cublasSetMathMode\0").map_err(old)?,
                    library.get::<Get>(b"cublasGetVersion_v2\0").map_err(old)?,
                    library.get::<Sgemm>(b"cublasSgemmStridedBatched\0").map_err(old)?,
                    library.get::<Gemm>(b"cublasGemmStridedBatchedEx\0").map_err(old)?,
                )
            };
            (sgemm, gemm) = (*product, *narrow);
            // SAFETY: one out-parameter; then the handle that was just created.
            unsafe {
                check_status("cublasCreate", create(&raw mut handle))?;
                if math(handle, DEFAULT_MATH | REDUCED_IN_F32) != 0 {
                    check_status("cublasSetMathMode", math(handle, DEFAULT_MATH))?;
                }
                check_status("cublasGetVersion", tell(handle, &raw mut version))?;
            }
        }
        Ok(Self { handle, sgemm, gemm, version, library })
    }

    /// Makes cuBLAS use `stream` and `workspace`, the address of 32 MiB, from now on.
    ///
    /// # Errors
    /// The error that cuBLAS returned.
    pub fn enqueue_on(&self, stream: *mut c_void, workspace: u64) -> Result<(), GpuError> {
        type Stream = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
        type Workspace = unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int;
        let lacks = |_| GpuError::Absent("this cuBLAS accepts no stream or no workspace: it is too old".into());
        // SAFETY: the documented signatures of these functions.
        let (streams, works): (Symbol<'_, Stream>, Symbol<'_, Workspace>) = unsafe {
            (
                self.library.get(b"cublasSetStream_v2\0").map_err(lacks)?,
                self.library.get(b"cublasSetWorkspace_v2\0").map_err(lacks)?,
            )
        };
        // SAFETY: stream and memory outlive the handle. Set the stream first: setting it resets the workspace.
        unsafe {
            check_status("cublasSetStream", streams(self.handle, stream))?;
            check_status("cublasSetWorkspace", works(self.handle, workspace as *mut c_void, WORKSPACE))
        }
    }

    /// The kernel that jobs launch for products; the [`Series`] in the arguments defines them.
    pub fn kernel(&self) -> Kernel {
        let (major, minor) = (self.version / 10_000, self.version / 100 % 100);
        let resources = format!("cuBLAS {major}.{minor}");
        Kernel { name: "cublas".into(), handle: HANDLE, resources, ..Kernel::default() }
    }

    /// Enqueues the products that [`Series::args`] encoded.
    ///
    /// # Errors
    /// The error that cuBLAS returned.
    pub fn launch(&self, args: &[Arg]) -> Result<(), GpuError> {
        let words: Vec<u64> = args.iter().map(|arg| arg.word()).collect();
        let [a, b, c, m, n, k, a_row, b_row, c_row, count, a_step, b_step, c_step, transposed, alpha, beta, bf16] =
            words[..]
        else {
            return Err(GpuError::Call { call: "cublasSgemm", problem: format!("{} arguments", words.len()) });
        };
        let int = |word: u64| word as c_int;
        let (alpha, beta) = (f32::from_bits(alpha as u32), f32::from_bits(beta as u32));
        // cuBLAS is column-major: a row-major [m, n] array is a column-major [n, m] one, and C^T = B^T A^T. A row-major
        // [k, n] B already is B^T; a [n, k] B must be transposed.
        if bf16 == 1 {
            let (alpha, beta): (*const c_float, *const c_float) = (&raw const alpha, &raw const beta);
            // SAFETY: addresses of device arrays of these sizes, which the job holds; the call reads the factors, which
            // are f32 as the compute type requires, before it returns.
            let code = unsafe {
                (self.gemm)(
                    self.handle,
                    int(transposed),
                    0,
                    int(n),
                    int(m),
                    int(k),
                    alpha.cast(),
                    b as *const c_void,
                    BF16,
                    int(b_row),
                    b_step as c_longlong,
                    a as *const c_void,
                    BF16,
                    int(a_row),
                    a_step as c_longlong,
                    beta.cast(),
                    c as *mut c_void,
                    BF16,
                    int(c_row),
                    c_step as c_longlong,
                    int(count),
                    COMPUTE_F32,
                    ANY_WAY,
                )
            };
            return check_status("cublasGemmStridedBatchedEx", code);
        }
        // SAFETY: as above; the call reads the factors before it returns.
        let code = unsafe {
            (self.sgemm)(
                self.handle,
                int(transposed),
                0,
                int(n),
                int(m),
                int(k),
                &raw const alpha,
                b as *const c_float,
                int(b_row),
                b_step as c_longlong,
                a as *const c_float,
                int(a_row),
                a_step as c_longlong,
                &raw const beta,
                c as *mut c_float,
                int(c_row),
                c_step as c_longlong,
                int(count),
            )
        };
        check_status("cublasSgemmStridedBatched", code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_wrong_library_is_named() {
        let missing = Cublas::open(Path::new("libellwand-has-none.so")).err().unwrap().to_string();
        assert!(missing.contains("libellwand-has-none.so"), "{missing}");
        let other = Cublas::open(Path::new("libc.so.6")).err().unwrap();
        assert!(matches!(&other, GpuError::Absent(why) if why.contains("not cuBLAS")), "{other}");
    }

    #[test]
    fn sizes_beyond_what_the_library_counts_in_are_refused() {
        let series = Series {
            size: [1, 1, 1 << 31],
            transposed: true,
            at: [Arg::At(0); 3],
            row: [1; 3],
            step: [0; 3],
            count: 1,
            alpha: 1.0,
            beta: 0.0,
            bf16: false,
        };
        assert!(matches!(series.args(), Err(GpuError::Limit { .. })));
    }
}
