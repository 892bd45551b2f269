//! CUPTI activity records: what ran on a device, and the driver calls that requested it.
//!
//! The layout is that of `cupti_activity.h` (CUDA 13.0): packed, little-endian. Ellwand reads each record only up to
//! the last field it needs; that prefix has not changed since CUDA 11 for kernels (`CUpti_ActivityKernel5` to `10`) and
//! copies. CUPTI reports how long a record is.

use ellwand_core::device::Activity;

/// The record kinds that Ellwand enables.
pub(super) const KINDS: [u32; 4] = [COPY, SET, DRIVER, KERNEL];
const COPY: u32 = 1;
const SET: u32 = 2;
const DRIVER: u32 = 4;
const KERNEL: u32 = 10;

/// Reads an unsigned integer of `N` bytes at offset `at`; `None` if the record is too short.
fn number<const N: usize>(record: &[u8], at: usize) -> Option<u64> {
    let bytes = record.get(at..at + N)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Direction of a copy (`CUpti_ActivityMemcpyKind`).
fn way(kind: u64) -> &'static str {
    match kind {
        1 => "host to device",
        2 => "device to host",
        8 => "device to device",
        10 => "device to another",
        _ => "memory to memory",
    }
}

/// Decodes one record. `base` is CUPTI's clock when the recording began; `kernel` returns the kernel name stored at an
/// address, `call` the name of a driver call by its number. Returns `None` for other kinds and for records without
/// times.
pub(super) fn read(
    record: &[u8],
    base: u64,
    kernel: &dyn Fn(u64) -> String,
    call: &dyn Fn(u32) -> String,
) -> Option<Activity> {
    let word = |at| number::<4>(record, at);
    let long = |at| number::<8>(record, at);
    let small = |word: u64| u32::try_from(word).unwrap_or(0);
    let stream = |at| Some(format!("stream {}", word(at)?));
    let (name, lane, [start, end], corr, is_call, detail) = match small(word(0)?) {
        KERNEL => {
            let of = |at: usize| Some([word(at)?, word(at + 4)?, word(at + 8)?].map(|n| n.to_string()).join(" x "));
            let registers = number::<2>(record, 6)?;
            let shared = word(76)? + word(80)?;
            let detail = format!("{} blocks of {} threads, {registers} registers, {shared} B shared", of(52)?, of(64)?);
            (kernel(long(104)?), stream(48)?, [long(16)?, long(24)?], word(92)?, false, detail)
        }
        COPY => {
            let name = format!("copy, {}", way(number::<1>(record, 4)?));
            (name, stream(40)?, [long(16)?, long(24)?], word(44)?, false, format!("{} B", long(8)?))
        }
        SET => ("set".to_string(), stream(40)?, [long(16)?, long(24)?], word(44)?, false, format!("{} B", long(8)?)),
        DRIVER => {
            let lane = format!("driver, thread {}", word(28)?);
            (call(small(word(4)?)), lane, [long(8)?, long(16)?], word(32)?, true, format!("returned {}", word(36)?))
        }
        _ => return None,
    };
    // The device drops timestamps when it loses a record.
    if start == 0 || end < start {
        return None;
    }
    let start_ns = i64::try_from(i128::from(start) - i128::from(base)).ok()?;
    Some(Activity { name, lane, start_ns, ns: end - start, corr: small(corr), call: is_call, detail })
}

/// The driver call's number, if the record is of a driver call.
pub(super) fn call(record: &[u8]) -> Option<u32> {
    let is_call = number::<4>(record, 0)? == u64::from(DRIVER);
    if is_call { u32::try_from(number::<4>(record, 4)?).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a record of `size` zeros with the given fields (offset, bytes, value). The layout is from the header, not
    /// from a recording.
    fn record(size: usize, fields: &[(usize, usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; size];
        for (at, width, value) in fields {
            bytes[*at..at + width].copy_from_slice(&value.to_le_bytes()[..*width]);
        }
        bytes
    }

    fn kernel() -> Vec<u8> {
        let sizes = [(52, 4, 7), (56, 4, 2), (60, 4, 1), (64, 4, 128), (68, 4, 1), (72, 4, 1)];
        let rest = [(0, 4, 10), (6, 2, 40), (16, 8, 1_000_500), (24, 8, 1_002_500), (48, 4, 13), (92, 4, 77)];
        let more = [(76, 4, 256), (80, 4, 1024), (104, 8, 0xabc)];
        record(208, &[&sizes[..], &rest, &more].concat())
    }

    fn read_one(record: &[u8]) -> Option<Activity> {
        read(record, 1_000_000, &|at| format!("kernel at {at:x}"), &|number| format!("call {number}"))
    }

    #[test]
    fn a_kernel_its_launch_and_a_copy_are_read_and_linked_by_number() {
        let ran = read_one(&kernel()).unwrap();
        assert_eq!((ran.name.as_str(), ran.lane.as_str()), ("kernel at abc", "stream 13"));
        assert_eq!((ran.start_ns, ran.ns, ran.corr, ran.call), (500, 2000, 77, false));
        assert_eq!(ran.detail, "7 x 2 x 1 blocks of 128 x 1 x 1 threads, 40 registers, 1280 B shared");
        let launch =
            record(40, &[(0, 4, 4), (4, 4, 307), (8, 8, 999_000), (16, 8, 1_000_100), (28, 4, 5), (32, 4, 77)]);
        let launch = read_one(&launch).unwrap();
        assert_eq!((launch.name.as_str(), launch.lane.as_str()), ("call 307", "driver, thread 5"));
        assert_eq!((launch.start_ns, launch.ns, launch.corr, launch.call), (-1000, 1100, ran.corr, true));
        let copied = record(64, &[(0, 4, 1), (4, 1, 1), (8, 8, 4096), (16, 8, 1_000_000), (24, 8, 1_000_009)]);
        let copied = read_one(&copied).unwrap();
        assert_eq!((copied.name.as_str(), copied.detail.as_str(), copied.ns), ("copy, host to device", "4096 B", 9));
    }

    #[test]
    fn records_that_are_cut_unknown_or_without_times_are_none() {
        let whole = kernel();
        for end in 0..112 {
            assert_eq!(read_one(&whole[..end]), None, "cut at {end}");
        }
        assert!(read_one(&whole[..112]).is_some(), "what follows the name is not needed");
        assert_eq!(read_one(&record(208, &[(0, 4, 17)])), None);
        assert_eq!(read_one(&record(208, &[(0, 4, 10)])), None, "no times");
        let mut backwards = whole;
        backwards[24..32].copy_from_slice(&1_000_400_u64.to_le_bytes());
        assert_eq!(read_one(&backwards), None);
    }
}
