//! Memory of a function, in a program with the counting allocator.
#![allow(clippy::unwrap_used)]

use ellwand::measure_memory_usage;

#[global_allocator]
static ALLOCATOR: ellwand::profile::alloc::Counting = ellwand::profile::alloc::Counting;

#[test]
fn the_peak_counts_what_is_held_at_one_time() {
    let (kept, memory) = measure_memory_usage(|| {
        for _ in 0..5 {
            drop(std::hint::black_box(vec![1_u8; 1 << 20]));
        }
        vec![1_u8; 1 << 18]
    })
    .unwrap();
    assert_eq!(kept.len(), 1 << 18);
    assert!((1 << 20..(1 << 20) + 4096).contains(&memory.peak_bytes), "{memory:?}");
    assert!(memory.allocated_bytes >= 5 * (1 << 20) + (1 << 18) && memory.allocations >= 6, "{memory:?}");
    assert!(memory.freed_bytes >= 5 * (1 << 20), "{memory:?}");
}
