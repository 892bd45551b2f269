//! Theoretical occupancy by NVIDIA's published rules (CUDA C++ Programming Guide, technical specifications per compute
//! capability; allocation units from the occupancy calculator). A device reports it; this is for tables made without
//! one.

/// Limits of one multiprocessor.
struct Limits {
    threads: u32,
    blocks: u32,
    shared_bytes: u32,
}

/// Registers per multiprocessor.
const REGISTERS: u32 = 65_536;
/// Allocation unit of registers, per warp.
const REGISTER_UNIT: u32 = 256;
/// Allocation unit of shared memory in bytes, per block.
const SHARED_UNIT: u32 = 128;
/// Bytes of shared memory that the system reserves per block.
const SYSTEM_SHARED: u32 = 1024;
/// Warps are distributed over the four quarters of a multiprocessor.
const QUARTERS: u32 = 4;

fn limits(arch: &str) -> Option<Limits> {
    let of = |threads, blocks, shared_kib: u32| Some(Limits { threads, blocks, shared_bytes: shared_kib << 10 });
    match arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']) {
        "80" => of(2048, 32, 164),
        "86" => of(1536, 16, 100),
        "89" => of(1536, 24, 100),
        "90" | "100" => of(2048, 32, 228),
        "120" => of(1536, 24, 100),
        _ => None,
    }
}

/// Resident warps as limited by registers alone.
fn warps(registers: u32) -> u32 {
    let one = (registers.max(1) * 32).next_multiple_of(REGISTER_UNIT);
    REGISTERS / one / QUARTERS * QUARTERS
}

/// Resident blocks per multiprocessor of `arch` (`sm_90a`), for blocks of `threads` threads with `registers` registers
/// each and `shared_bytes` bytes of shared memory; 0 if not even one fits, `None` for unknown architectures.
pub fn blocks(arch: &str, registers: u32, shared_bytes: u32, threads: u32) -> Option<u32> {
    let limits = limits(arch)?;
    let of_block = threads.div_ceil(32).max(1);
    let shared = (shared_bytes + SYSTEM_SHARED).next_multiple_of(SHARED_UNIT);
    let by_registers = warps(registers) / of_block;
    let by_threads = limits.threads / (32 * of_block);
    Some(by_registers.min(by_threads).min(limits.blocks).min(limits.shared_bytes / shared))
}

/// Highest occupancy in per cent that `registers` registers per thread allow, for any block size; `None` for unknown
/// architectures.
pub fn by_registers(arch: &str, registers: u32) -> Option<u32> {
    let all = limits(arch)?.threads / 32;
    Some(warps(registers).min(all) * 100 / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_threads_blocks_and_shared_memory_each_may_bound() {
        // Results of the occupancy calculator for compute capability 8.0 and 9.0.
        assert_eq!(blocks("sm_80", 32, 0, 256), Some(8));
        assert_eq!(blocks("sm_80", 33, 0, 256), Some(6));
        assert_eq!(blocks("sm_80", 128, 0, 256), Some(2));
        assert_eq!(blocks("sm_80", 16, 0, 32), Some(32), "blocks");
        assert_eq!(blocks("sm_80", 16, 48 << 10, 256), Some(3), "shared memory");
        assert_eq!(blocks("sm_90a", 168, 164 << 10, 384), Some(1));
        assert_eq!(blocks("sm_90a", 255, 0, 1024), Some(0), "no block fits");
        assert_eq!(blocks("sm_70", 32, 0, 256), None);
    }

    #[test]
    fn the_bound_of_registers_is_in_per_cent() {
        assert_eq!(by_registers("sm_90a", 32), Some(100));
        assert_eq!(by_registers("sm_90a", 64), Some(50));
        assert_eq!(by_registers("sm_80", 168), Some(18));
        assert_eq!(by_registers("sm_86", 40), Some(100));
    }
}
