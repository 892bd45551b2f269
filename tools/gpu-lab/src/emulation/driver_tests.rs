//! The rehearsal driver (`driver/driver.h`) alone: which calls it rejects, and that queued work runs in order. The
//! program tests the kernels that it runs (`ellwand/tests/rehearsal.rs`).

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use libloading::{Library, Symbol};

use super::library;

/// `CUresult` values.
const OK: c_int = 0;
const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const NOT_INITIALIZED: c_int = 3;
const INVALID_IMAGE: c_int = 200;
const INVALID_CONTEXT: c_int = 201;
const INVALID_HANDLE: c_int = 400;
const NOT_READY: c_int = 600;
const CAPTURE_UNSUPPORTED: c_int = 900;
const CAPTURE_INVALIDATED: c_int = 901;

/// Calls a driver function with integers and addresses as words.
macro_rules! call {
    ($driver:ident.$name:ident($($argument:expr),*)) => {{
        // SAFETY: the documented signature, whose arguments are all integers or addresses.
        unsafe {
            let function: Symbol<'_, unsafe extern "C" fn($(call!(@word $argument)),*) -> c_int> =
                $driver.get(stringify!($name).as_bytes()).unwrap();
            function($($argument as u64),*)
        }
    }};
    (@word $argument:expr) => { u64 };
}

static OPEN: AtomicBool = AtomicBool::new(false);

extern "C" fn until_open(_: *mut c_void) {
    while !OPEN.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

/// A single test, since the driver's state is per process.
#[test]
fn it_refuses_what_a_driver_refuses_and_does_what_is_queued_in_its_turn() {
    let Ok(path) = library::driver() else { return };
    // SAFETY: a library of this repository without initialisers.
    let driver = unsafe { Library::new(path) }.unwrap();
    let (mut context, mut stream, mut at, mut pinned) = (0_u64, 0_u64, 0_u64, 0_u64);
    assert_eq!(call!(driver.cuDeviceGetCount(&raw mut at)), NOT_INITIALIZED);
    assert_eq!(call!(driver.cuInit(0)), OK);
    assert_eq!(call!(driver.cuMemAlloc_v2(&raw mut at, 64)), INVALID_CONTEXT);
    assert_eq!(call!(driver.cuDevicePrimaryCtxRetain(&raw mut context, 0)), OK);
    assert_eq!(call!(driver.cuCtxSetCurrent(&raw mut at)), INVALID_CONTEXT);
    assert_eq!(call!(driver.cuCtxSetCurrent(context)), OK);

    // Memory: no access beyond its end, and arbitrary contents before the first write.
    assert_eq!(call!(driver.cuMemAlloc_v2(&raw mut at, 1_u64 << 45)), OUT_OF_MEMORY);
    assert_eq!(call!(driver.cuMemAlloc_v2(&raw mut at, 64)), OK);
    assert_eq!(at % 256, 0);
    assert_eq!(call!(driver.cuStreamCreate(&raw mut stream, 1)), OK);
    let mut bytes = [0_u8; 128];
    assert_eq!(call!(driver.cuMemcpyDtoH_v2(bytes.as_mut_ptr(), at, 65)), INVALID_VALUE);
    assert_eq!(call!(driver.cuMemcpyDtoH_v2(bytes.as_mut_ptr(), at, 64)), OK);
    assert!(bytes[0] == bytes[63] && bytes[0] != 0 && bytes[64] == 0);
    assert_eq!(call!(driver.cuMemsetD8Async(at + 1, 0, 64, stream)), INVALID_VALUE);
    assert_eq!(call!(driver.cuMemsetD8Async(at, 0, 64, &raw const bytes)), INVALID_HANDLE);
    assert_eq!(call!(driver.cuMemHostAlloc(&raw mut pinned, 64, 0)), OK);
    assert_eq!(call!(driver.cuMemcpyHtoDAsync_v2(at, pinned, 65, stream)), INVALID_VALUE);

    // A stream: the fill waits for its turn, and so does the event after it.
    let (mut first, mut last, mut ms) = (0_u64, 0_u64, 0.0_f32);
    assert_eq!(call!(driver.cuEventCreate(&raw mut first, 0)), OK);
    assert_eq!(call!(driver.cuEventCreate(&raw mut last, 0)), OK);
    assert_eq!(call!(driver.cuEventElapsedTime_v2(&raw mut ms, first, last)), INVALID_HANDLE, "never recorded");
    assert_eq!(call!(driver.cuEventRecord(first, stream)), OK);
    assert_eq!(call!(driver.cuLaunchHostFunc(stream, until_open as *const (), null::<u8>())), OK);
    assert_eq!(call!(driver.cuMemsetD8Async(at, 7, 64, stream)), OK);
    assert_eq!(call!(driver.cuEventRecord(last, stream)), OK);
    assert_eq!(call!(driver.cuEventElapsedTime_v2(&raw mut ms, first, last)), NOT_READY);
    assert_eq!(call!(driver.cuMemcpyDtoH_v2(bytes.as_mut_ptr(), at, 64)), OK);
    assert_ne!(bytes[0], 7, "no stream orders this copy");
    OPEN.store(true, Ordering::SeqCst);
    assert_eq!(call!(driver.cuStreamSynchronize(stream)), OK);
    assert_eq!(call!(driver.cuMemcpyDtoH_v2(bytes.as_mut_ptr(), at, 64)), OK);
    assert_eq!(bytes[..64], [7; 64]);
    assert_eq!(call!(driver.cuEventElapsedTime_v2(&raw mut ms, first, last)), OK);
    assert!(ms >= 0.0);

    // A capture: a graph runs what was captured, at each launch and not before; a call that cannot be captured
    // invalidates it.
    let (mut graph, mut ready) = (0_u64, 0_u64);
    assert_eq!(call!(driver.cuStreamBeginCapture_v2(stream, 1)), OK);
    assert_eq!(call!(driver.cuMemsetD8Async(at, 9, 64, stream)), OK);
    assert_eq!(call!(driver.cuStreamEndCapture(stream, &raw mut graph)), OK);
    assert_eq!(call!(driver.cuGraphInstantiateWithFlags(&raw mut ready, graph, 0)), OK);
    assert_eq!(call!(driver.cuGraphDestroy(graph)), OK);
    assert_eq!(call!(driver.cuGraphLaunch(graph, stream)), INVALID_HANDLE);
    assert_eq!(call!(driver.cuMemcpyDtoH_v2(bytes.as_mut_ptr(), at, 64)), OK);
    assert_eq!(bytes[0], 7);
    assert_eq!(call!(driver.cuGraphLaunch(ready, stream)), OK);
    assert_eq!(call!(driver.cuStreamSynchronize(stream)), OK);
    assert_eq!(call!(driver.cuMemcpyDtoH_v2(bytes.as_mut_ptr(), at, 64)), OK);
    assert_eq!(bytes[0], 9);
    for spoil in 0..2 {
        assert_eq!(call!(driver.cuStreamBeginCapture_v2(stream, 1)), OK);
        let mut other = 0_u64;
        let said = match spoil {
            0 => call!(driver.cuMemAlloc_v2(&raw mut other, 64)),
            _ => call!(driver.cuStreamSynchronize(stream)),
        };
        assert_eq!(said, CAPTURE_UNSUPPORTED);
        assert_eq!(call!(driver.cuStreamEndCapture(stream, &raw mut graph)), CAPTURE_INVALIDATED);
    }

    // Images and tensor maps.
    let mut module = 0_u64;
    assert_eq!(call!(driver.cuModuleLoadData(&raw mut module, [0_u8; 64].as_ptr())), INVALID_IMAGE);
    let (size, step) = ([64_u64, 8, 2], [128_u64, 1024]);
    let (cut, one, mut map) = ([64_u32, 8, 1], [1_u32; 3], super::TensorMap([0; 16]));
    let mut encode = |address: u64, step: [u64; 2], cut: [u32; 3]| {
        let to = &raw mut map;
        call!(driver.cuTensorMapEncodeTiled(
            to,
            9,
            3,
            address,
            size.as_ptr(),
            step.as_ptr(),
            cut.as_ptr(),
            one.as_ptr(),
            0,
            3,
            3,
            0
        ))
    };
    assert_eq!(encode(at, step, cut), OK);
    assert_eq!(encode(at + 8, step, cut), INVALID_VALUE);
    assert_eq!(encode(at, [120, 1024], cut), INVALID_VALUE);
    assert_eq!(encode(at, step, [128, 8, 1]), INVALID_VALUE);
    assert_eq!(encode(at, step, [64, 257, 1]), INVALID_VALUE);

    assert_eq!(call!(driver.cuMemFree_v2(at)), OK);
    assert_eq!(call!(driver.cuMemFree_v2(at)), INVALID_VALUE, "once");
    assert_eq!(call!(driver.cuGraphExecDestroy(ready)), OK);
    assert_eq!(call!(driver.cuGraphLaunch(ready, null_mut::<u8>())), INVALID_HANDLE);
    // Never unload it: its thread waits inside it forever.
    std::mem::forget(driver);
}
