//! The race detector: it must detect every error that it claims to detect, and report none in correct kernels.

use std::sync::Arc;

use super::{Emulation, Order, compiler};
use ellwand_gpu::{Arg, Buffer, Gpu, Grid, Source, Tiles, files};

static RACES: Source = Source {
    name: "races.cu",
    text: files!("../../../../devices/gpu/src/tensor.cuh", "../../../../devices/gpu/src/hopper.cuh", "races.cu"),
    options: &[],
};

/// The number of a kernel variant in `races.cu`, by its name there.
fn wrong(name: &str) -> Arg {
    for names in RACES.text.split("enum { ").skip(1).filter_map(|rest| rest.split(" }").next()) {
        let mut number = 0;
        for one in names.split(", ") {
            let (knob, given) = one.split_once(" = ").unwrap_or((one, ""));
            number = given.parse().unwrap_or(number);
            if knob == name {
                return Arg::U32(number);
            }
            number += 1;
        }
    }
    panic!("no knob {name}");
}

struct Ran {
    said: Option<String>,
    out: Vec<u32>,
}

/// Launches a kernel on a buffer of `words` words, a second of 256 zeros and a third from the arguments; `None` without
/// a compiler.
fn launch(
    kernel: &str,
    grid: Grid,
    out: usize,
    arguments: impl Fn(&Gpu, Arg, Arg) -> (Vec<Arg>, Option<Buffer>),
) -> Option<Ran> {
    compiler()?;
    let gpu: Gpu = Arc::new(Emulation::new(Order::Watched));
    let buffer = Buffer::of_values::<u32>(&gpu, &vec![0; out]).unwrap();
    let other = Buffer::of_values::<u32>(&gpu, &[0; 256]).unwrap();
    let kernel = gpu.kernel(&RACES, kernel).unwrap();
    let (arguments, _more) = arguments(&gpu, Arg::At(buffer.address()), Arg::At(other.address()));
    let said = gpu.launch(&kernel, grid, &arguments).err().map(|error| error.to_string());
    let words = buffer.read(4 * out).unwrap().as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
    Some(Ran { said, out: words })
}

#[test]
fn data_from_another_warp_needs_a_barrier() {
    let run = |knob| launch("handed", Grid::line(1, 64), 64, |_, out, _| (vec![out, wrong(knob)], None));
    let Some(fine) = run("right") else { return };
    assert_eq!(fine.said, None);
    assert_eq!(fine.out, (0..64).map(|k| k ^ 32).collect::<Vec<u32>>());
    let said = run("no_barrier").unwrap().said.unwrap();
    assert!(
        said.contains("handed: undefined: thread (0,0,0) of block (0,0,0) reads 4 bytes of shared memory"),
        "{said}"
    );
}

#[test]
fn lanes_of_a_warp_need_more_than_a_shuffle() {
    let run = |knob| launch("handed_in_warp", Grid::line(1, 32), 32, |_, out, _| (vec![out, wrong(knob)], None));
    let Some(fine) = run("right") else { return };
    assert_eq!(fine.said, None);
    let said = run("shuffle_alone").unwrap().said.unwrap();
    // The last lane to arrive continues first.
    assert!(said.contains("handed_in_warp: race: thread (31,0,0) of block (0,0,0) reads 4 bytes of shared"), "{said}");
    assert!(said.contains("; thread (30,0,0) of block (0,0,0) wrote it ("), "{said}");
    assert!(said.contains(", and nothing orders the two"), "{said}");
    // Without `addr2line` the message shows the address in the library.
    let lines = said.contains("(races.cu:24)") && said.contains("(races.cu:18)");
    assert!(lines || said.contains(".so+0x"), "{said}");
}

#[test]
fn blocks_that_hand_on_results_need_a_fence_before_the_counter_and_one_after_it() {
    let run = |knob| {
        launch("last_block", Grid::line(3, 64), 64, |gpu, out, parts| {
            let come = Buffer::of_values::<u32>(gpu, &[0]).unwrap();
            (vec![out, parts, Arg::At(come.address()), wrong(knob)], Some(come))
        })
    };
    let Some(fine) = run("right") else { return };
    assert_eq!(fine.said, None);
    assert_eq!(fine.out, [6; 64]);
    for knob in ["no_release", "no_acquire", "late_acquire"] {
        let said = run(knob).unwrap().said.unwrap_or_else(|| panic!("{knob} is not found"));
        assert!(said.contains("of block (2,0,0) reads 4 bytes of global memory from byte 0 on"), "{knob}: {said}");
        assert!(said.contains("; thread (0,0,0) of block (0,0,0) wrote it"), "{knob}: {said}");
    }
}

#[test]
fn blocks_may_count_in_one_word_and_not_write_it() {
    let run = |knob| {
        launch("counted", Grid::line(4, 32), 128, |_, out, count| (vec![out, count, Arg::U32(128), wrong(knob)], None))
    };
    let Some(fine) = run("right") else { return };
    assert_eq!(fine.said, None);
    assert_eq!(fine.out, [1; 128]);
    let said = run("same_word").unwrap().said.unwrap();
    assert!(
        said.contains("race: thread (0,0,0) of block (1,0,0) reads 4 bytes of global memory from byte 0 on"),
        "{said}"
    );
    let said = run("never_written").unwrap().said.unwrap();
    assert!(said.contains("undefined: thread (0,0,0)") && said.contains("which no thread has written"), "{said}");
    let said = run("too_far").unwrap().said.unwrap();
    assert!(said.contains("out of bounds: thread (31,0,0) of block (3,0,0) reads 4 bytes of global memory"), "{said}");
    assert!(said.contains("which is after its 512 bytes"), "{said}");
}

#[test]
fn arriving_at_a_partial_barrier_publishes_earlier_writes() {
    let run = |knob| launch("parted", Grid::line(1, 64), 32, |_, out, _| (vec![out, wrong(knob)], None));
    let Some(fine) = run("right") else { return };
    assert_eq!(fine.said, None);
    let said = run("before_arrival").unwrap().said.unwrap();
    assert!(said.contains("race: thread (63,0,0) of block (0,0,0) reads"), "{said}");
}

#[test]
fn a_tile_is_read_after_its_copy_and_copied_again_after_everybody_has_read_it() {
    let run = |knob| {
        launch("refilled", Grid { shared: 64 * 128 + 16 + 1024, ..Grid::line(1, 96) }, 128, |gpu, out, _| {
            let values: Vec<u8> = (0..2 * 64 * 64_u32).flat_map(|k| (k as u16).to_le_bytes()).collect();
            let values = Buffer::of(gpu, &values, 0).unwrap();
            let map = gpu.tensor_map(Tiles { address: values.address(), shape: [2, 64, 64], rows: 64 }).unwrap();
            (vec![Arg::Map(map), out, wrong(knob)], Some(values))
        })
    };
    let Some(fine) = run("right") else { return };
    assert_eq!(fine.said, None);
    // In swizzled shared memory, the first chunk of a row is that of another column.
    let of = |row: u32| (row * 64 + row % 8 * 8) | (row * 64 + row % 8 * 8 + 1) << 16;
    assert_eq!(fine.out, (0..128).map(of).collect::<Vec<u32>>());
    for (knob, expected) in [
        ("not_waited_for_copy", "undefined: thread (0,0,0) of block (0,0,0) reads 4 bytes of shared memory"),
        ("overwritten", "race: "),
        ("arrived_early", "race: the copy engine for block (0,0,0) writes 16 bytes of shared memory"),
    ] {
        let said = run(knob).unwrap().said.unwrap_or_else(|| panic!("{knob} is not found"));
        assert!(said.contains(expected), "{knob}: {said}");
    }
}

#[test]
fn an_array_ends_at_its_last_byte() {
    let run = |read: u32| {
        launch("one_more", Grid::line(1, 1), 1, |gpu, out, _| {
            let bytes = Buffer::of(gpu, &[1; 13], 0).unwrap();
            (vec![out, Arg::At(bytes.address()), Arg::U32(read)], Some(bytes))
        })
    };
    let Some(fine) = run(13) else { return };
    assert_eq!((fine.said, &fine.out[..]), (None, &[13][..]));
    let said = run(14).unwrap().said.unwrap();
    assert!(said.contains("out of bounds: ") && said.contains("after its 13 bytes"), "{said}");
}
