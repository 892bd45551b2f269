//! Processor time of a malloc and its free, counted by Ellwand and recorded by dhat, interleaved with the system
//! allocator that both call. Prints medians over the rounds: `cargo run --release --bin allocations [ROUNDS]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

use ellwand_profile::alloc::Counting;
use peers_spans::{Variant, measure, timed};

/// (malloc, free) pairs in a run.
const PAIRS: usize = 20_000;
/// Blocks that are live at the same time, so that a free is not always of the last malloc.
const LIVE: usize = 16;

static DHAT: dhat::Alloc = dhat::Alloc;

/// Allocates and frees blocks of 16 to 256 bytes. It calls the allocators directly: none of them is this program's
/// allocator, so none counts the others' work.
#[inline]
fn pairs(allocator: &impl GlobalAlloc) -> f64 {
    let layout = |at: usize| Layout::from_size_align(16 << (at % 5), 8).expect("a valid layout");
    let mut live = [std::ptr::null_mut::<u8>(); LIVE];
    let mut at = 0;
    let spent = timed(PAIRS, || {
        let (place, old) = (at % LIVE, at.wrapping_sub(LIVE));
        // SAFETY: the block in this place was allocated LIVE turns ago by the same allocator with the layout of that turn;
        // no layout is empty.
        unsafe {
            if !live[place].is_null() {
                allocator.dealloc(live[place], layout(old));
            }
            live[place] = black_box(allocator.alloc(layout(at)));
        }
        at += 1;
    });
    for at in at - LIVE..at {
        // SAFETY: as above; these are the last blocks.
        unsafe { allocator.dealloc(live[at % LIVE], layout(at)) };
    }
    spent
}

const VARIANTS: &[Variant] = &[
    Variant { name: "system", run: || pairs(&System) },
    Variant { name: "ellwand, Counting", run: || pairs(&Counting) },
    Variant { name: "dhat", run: || pairs(&DHAT) },
];

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(41);
    // Without a profiler dhat passes every call on.
    let _recording = dhat::Profiler::builder().testing().build();
    let (one, two) = (measure(VARIANTS, PAIRS, 1, rounds), measure(VARIANTS, PAIRS, 2, rounds));
    println!("| malloc and free | 1 thread, ns | over system | 2 threads, ns | over system |\n|---|---|---|---|---|");
    for ((variant, one_ns), two_ns) in VARIANTS.iter().zip(&one).zip(&two) {
        println!(
            "| {} | {one_ns:.2} | {:.2} | {two_ns:.2} | {:.2} |",
            variant.name,
            one_ns - one[0],
            two_ns - two[0]
        );
    }
}
