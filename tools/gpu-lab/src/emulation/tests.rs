//! The emulation itself: it must detect every error that it claims to detect.

use std::sync::Arc;

use super::{Emulation, Order, compiler};
use ellwand_gpu::{Arg, Backend, Buffer, Gpu, GpuError, Grid, Source, files};

static PROBES: Source = Source { name: "probes.cu", text: files!("probes.cu"), options: &[] };

fn launch(order: Order, kernel: &str, threads: u32, out: usize) -> Option<(Result<(), GpuError>, Vec<u32>)> {
    compiler()?;
    let gpu: Gpu = Arc::new(Emulation::new(order));
    let buffer = Buffer::of(&gpu, &vec![0; 4 * out], 0).unwrap();
    let kernel = gpu.kernel(&PROBES, kernel).unwrap();
    let launched = gpu.launch(&kernel, Grid::line(1, threads), &[Arg::At(buffer.address()), Arg::U32(out as u32)]);
    let words = buffer.read(4 * out).unwrap().as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
    Some((launched, words))
}

fn problem(kernel: &str, threads: u32) -> Option<String> {
    let said: Vec<String> = [Order::Forward, Order::Backward, Order::Drawn(3)]
        .into_iter()
        .map(|order| launch(order, kernel, threads, 64).map(|(launched, _)| launched.unwrap_err().to_string()))
        .collect::<Option<_>>()?;
    assert!(said.iter().all(|text| text.split(':').nth(2) == said[0].split(':').nth(2)), "in every order: {said:?}");
    Some(said[0].clone())
}

fn flush_source() -> &'static Source {
    ellwand_gpu::sources().into_iter().find(|source| source.name == "flush.cu").unwrap()
}

#[test]
fn shuffles_ballots_barriers_and_atomics_do_what_the_hardware_does() {
    for order in [Order::Forward, Order::Backward, Order::Drawn(3)] {
        let Some((launched, words)) = launch(order, "collectives", 64, 64) else { return };
        launched.unwrap();
        for (k, word) in words.iter().enumerate() {
            let lane = k as u32 % 32;
            // The warp's sum by butterfly shuffle, the lane below, the odd lanes, and the number of threads in the
            // block.
            let sum: u32 = (0..32).map(|l| l + 32 * (k as u32 / 32)).sum();
            let below = if lane == 0 { k as u32 } else { k as u32 - 1 };
            assert_eq!(
                *word,
                sum.wrapping_add(1000 * below).wrapping_add(0xaaaa_aaaa).wrapping_add(64),
                "{k} {order:?}"
            );
        }
    }
}

#[test]
fn half_warps_that_diverge_each_meet_in_their_own_collective() {
    for order in [Order::Forward, Order::Backward] {
        let Some((launched, words)) = launch(order, "halves", 32, 32) else { return };
        launched.unwrap();
        let expected: Vec<u32> = (0..32).map(|k| if k < 16 { 120 } else { 16 * 31 }).collect();
        assert_eq!(words, expected, "the sum of the lower half, the last lane of the upper one");
    }
}

#[test]
fn a_barrier_that_some_threads_never_reach_is_reported_with_lines() {
    let Some(said) = problem("barrier_left", 64) else { return };
    assert!(said.contains("barrier divergence") && said.contains("__syncthreads of line"), "{said}");
    assert!(said.contains("has returned"), "{said}");
    let said = problem("barriers_differ", 64).unwrap();
    assert!(said.contains("barrier divergence"), "{said}");
}

#[test]
fn a_collective_that_a_lane_of_its_mask_never_reaches_is_reported() {
    let Some(said) = problem("collective_left", 32) else { return };
    assert!(said.contains("divergent collective") && said.contains("__shfl_xor_sync of line"), "{said}");
    let said = problem("mask_without_self", 32).unwrap();
    assert!(said.contains("its own lane is not in the mask"), "{said}");
    let said = problem("collectives", 48).unwrap();
    assert!(said.contains("which this block does not have"), "{said}");
}

#[test]
fn writes_outside_a_buffer_and_races_in_shared_memory_show() {
    let Some(said) = problem("writes_after", 1) else { return };
    assert!(said.contains("after a buffer of 256 bytes"), "{said}");
    let of = |order| launch(order, "race", 64, 64).unwrap().1;
    assert_ne!(of(Order::Forward), of(Order::Backward), "a missing barrier makes the answer depend on the order");
}

#[test]
fn wrong_kernel_arguments_are_reported_before_the_kernel_runs() {
    if compiler().is_none() {
        return;
    }
    let gpu: Gpu = Arc::new(Emulation::new(Order::Forward));
    let flush = gpu.kernel(flush_source(), "flush").unwrap();
    for args in [
        vec![Arg::At(256), Arg::At(256)],
        vec![Arg::At(256), Arg::At(256), Arg::U32(1)],
        vec![Arg::At(256), Arg::U64(1), Arg::At(256)],
        vec![Arg::At(256), Arg::At(256), Arg::U64(1), Arg::F32(1.0)],
    ] {
        let given: String = args.iter().map(|arg| arg.letter()).collect();
        let said = gpu.launch(&flush, Grid::line(1, 32), &args).unwrap_err().to_string();
        assert!(said.contains(&format!("flush takes ppl, but {given} is given")), "{said}");
    }
}

#[test]
fn compile_errors_name_file_and_line() {
    static BROKEN: Source = Source {
        name: "broken.cu",
        text: "\nextern \"C\" __global__ void broken(u8* x) {\n    x = y;\n}\n",
        options: &[],
    };
    if compiler().is_none() {
        return;
    }
    let error = Emulation::new(Order::Forward).kernel(&BROKEN, "broken").unwrap_err();
    assert!(error.to_string().contains("broken.cu:3:"), "{error}");
}

#[test]
fn flushing_reads_all_and_writes_nothing() {
    if compiler().is_none() {
        return;
    }
    let gpu: Gpu = Arc::new(Emulation::new(Order::Forward));
    let flush = gpu.kernel(flush_source(), "flush").unwrap();
    let launch = |words: &[u32]| {
        let (array, never) =
            (Buffer::of_values::<u32>(&gpu, words).unwrap(), Buffer::of_values::<u32>(&gpu, &[7]).unwrap());
        let args = [Arg::At(array.address()), Arg::At(never.address()), Arg::U64(words.len() as u64 / 4)];
        gpu.launch(&flush, Grid::line(3, 256), &args).unwrap();
        never.read(4).unwrap()
    };
    assert_eq!(launch(&[0; 4 * 5000]), [7, 0, 0, 0], "nothing is written for zeros");
    // One word that differs proves that each word is read.
    for at in [0, 1, 4 * 768 + 3, 4 * 5000 - 1] {
        let mut words = [0; 4 * 5000];
        words[at] = 9;
        assert_eq!(launch(&words), [9, 0, 0, 0], "{at}");
    }
}
