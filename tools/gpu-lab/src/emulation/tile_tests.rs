//! Tensor cores, the copy engine and their barriers in the emulation: operand layouts, and detection of errors.

use std::sync::Arc;

use super::{Emulation, Order, compiler};
use ellwand_gpu::{Arg, Buffer, Gpu, GpuError, Grid, Source, Tiles, files};

static PROBES: Source = Source {
    name: "tiles.cu",
    text: files!("../../../../devices/gpu/src/tensor.cuh", "../../../../devices/gpu/src/hopper.cuh", "tiles.cu"),
    options: &[],
};

const ORDERS: [Order; 3] = [Order::Forward, Order::Backward, Order::Drawn(5)];

/// Integers up to 256 are exact in bf16, and so are their products and sums in f32.
fn bf16(values: impl Iterator<Item = i32>) -> Vec<u16> {
    values.map(|value| ((value as f32).to_bits() >> 16) as u16).collect()
}

fn floats(buffer: &Buffer, n: usize) -> Vec<f32> {
    buffer.read(4 * n).unwrap().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

#[test]
fn a_warp_multiplies_what_its_lanes_hold_where_the_instruction_set_says() {
    if compiler().is_none() {
        return;
    }
    let (left, right) = (|i: i32, k: i32| i - 3 * k, |k: i32, n: i32| 5 * n + k % 7);
    let a = bf16((0..256).map(|at| left(at / 16, at % 16)));
    let expected: Vec<f32> =
        (0..128).map(|at| (0..16).map(|k| left(at / 8, k) * right(k, at % 8)).sum::<i32>() as f32).collect();
    let by_columns = bf16((0..128).map(|at| right(at % 16, at / 16)));
    let by_rows = bf16((0..128).map(|at| right(at / 8, at % 8)));
    for order in ORDERS {
        let gpu: Gpu = Arc::new(Emulation::new(order));
        for (kernel, b) in [("by_columns", &by_columns), ("by_rows", &by_rows)] {
            let (a, b) = (Buffer::of_values::<u16>(&gpu, &a).unwrap(), Buffer::of_values::<u16>(&gpu, b).unwrap());
            let out = Buffer::new(&gpu, 4 * 128).unwrap();
            let kernel = gpu.kernel(&PROBES, kernel).unwrap();
            let args = [&a, &b, &out].map(|buffer| Arg::At(buffer.address()));
            gpu.launch(&kernel, Grid::line(1, 32), &args).unwrap();
            assert_eq!(floats(&out, 128), expected, "{} {order:?}", kernel.name);
        }
    }
}

#[test]
fn a_copy_that_nobody_waited_for_shows_as_a_race() {
    if compiler().is_none() {
        return;
    }
    let seen = ORDERS.map(|order| {
        let gpu: Gpu = Arc::new(Emulation::new(order));
        let a = Buffer::of_values::<u16>(&gpu, &[7; 8]).unwrap();
        let out = Buffer::new(&gpu, 16).unwrap();
        let kernel = gpu.kernel(&PROBES, "unawaited_copy").unwrap();
        gpu.launch(&kernel, Grid::line(1, 1), &[Arg::At(a.address()), Arg::At(out.address())]).unwrap();
        out.read(2).unwrap()[0]
    });
    assert_eq!(seen, [1, 7, 1]);
}

/// Left and right operand of a warpgroup: 64 x 64, whose last rows are out of bounds, and 128 x 64.
fn left(m: i32, k: i32) -> i32 {
    if m < 60 { m - k % 9 } else { 0 }
}
fn right(n: i32, k: i32) -> i32 {
    n % 11 - k
}

/// Runs the probe without the step that `wrong` selects.
fn tiles(order: Order, wrong: u32) -> Option<(Result<(), GpuError>, Vec<f32>)> {
    compiler()?;
    let gpu: Gpu = Arc::new(Emulation::new(order));
    let a = Buffer::of_values::<u16>(&gpu, &bf16((0..60 * 64).map(|at| left(at / 64, at % 64)))).unwrap();
    let b = Buffer::of_values::<u16>(&gpu, &bf16((0..128 * 64).map(|at| right(at / 64, at % 64)))).unwrap();
    let out = Buffer::new(&gpu, 4 * 64 * 128).unwrap();
    let map = |buffer: &Buffer, there: usize, rows: u32| {
        gpu.tensor_map(Tiles { address: buffer.address(), shape: [1, there, 64], rows }).map(Arg::Map).unwrap()
    };
    let args = [map(&a, 60, 64), map(&b, 128, 128), Arg::At(out.address()), Arg::U32(wrong)];
    let kernel = gpu.kernel(&PROBES, "tiles").unwrap();
    let launched = gpu.launch(&kernel, Grid::line(1, 128).shared(192 * 128 + 1024 + 8), &args);
    Some((launched, floats(&out, 64 * 128)))
}

#[test]
fn a_warpgroup_multiplies_swizzled_tiles_and_rows_outside_an_array_are_zeros() {
    let sum = |m, n| (0..64).map(|k| left(m, k) * right(n, k)).sum::<i32>() as f32;
    let expected: Vec<f32> = (0..64 * 128).map(|at| sum(at / 128, at % 128)).collect();
    for order in ORDERS {
        let Some((launched, got)) = tiles(order, 0) else { return };
        launched.unwrap();
        assert_eq!(got, expected, "{order:?}");
    }
}

#[test]
fn fences_waits_bytes_and_places_that_are_wrong_are_found_in_every_order() {
    for order in ORDERS {
        let said = |wrong| tiles(order, wrong).map(|(launched, _)| launched.unwrap_err().to_string());
        let Some(unfenced) = said(1) else { return };
        assert!(unfenced.contains("no fence") && unfenced.contains("of line"), "{unfenced}");
        let (launched, sums) = tiles(order, 2).unwrap();
        launched.unwrap();
        assert!(sums.iter().all(|sum| sum.is_nan()), "sums that were not waited for, {order:?}");
        assert!(said(3).unwrap().contains("multiple of 1024 bytes"), "{order:?}");
        let waiting = said(4).unwrap();
        assert!(waiting.contains("deadlock") && waiting.contains("mbarrier.try_wait of line"), "{waiting}");
        let early = said(6).unwrap();
        assert!(early.contains("has made a barrier that the copy engine cannot see"), "{early}");
        if order != Order::Backward {
            assert!(said(5).unwrap().contains("no thread has waited for a copy"), "{order:?}");
        }
    }
}

/// Stores two tiles of 64 x 64 to matrices of 60 rows, without the step that `wrong` selects.
fn stored(order: Order, wrong: u32) -> Option<(Result<(), GpuError>, Vec<u16>)> {
    compiler()?;
    let gpu: Gpu = Arc::new(Emulation::new(order));
    let out = Buffer::of_values::<u16>(&gpu, &[0; 2 * 60 * 64]).unwrap();
    let tiles = Tiles { address: out.address(), shape: [2, 60, 64], rows: 64 };
    let args = [Arg::Map(gpu.tensor_map(tiles).unwrap()), Arg::U32(wrong)];
    let kernel = gpu.kernel(&PROBES, "stored").unwrap();
    let launched = gpu.launch(&kernel, Grid::line(1, 128).shared(64 * 128 + 1024), &args);
    let words = out.read(2 * 2 * 60 * 64).unwrap().as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
    Some((launched, words))
}

#[test]
fn a_warpgroup_stores_swizzled_tiles_and_rows_outside_an_array_are_not_written() {
    let expected: Vec<u16> = (0..2 * 60 * 64).map(|at| at % (60 * 64) + at / (60 * 64)).collect();
    for order in ORDERS {
        let Some((launched, got)) = stored(order, 0) else { return };
        launched.unwrap();
        assert_eq!(got, expected, "{order:?}");
        let said = |wrong| stored(order, wrong).unwrap().0.unwrap_err().to_string();
        assert!(said(1).contains("no fence"), "{order:?}");
        if order != Order::Backward {
            assert!(said(2).contains("has not waited for a tile to be stored"), "{order:?}");
            // The first tile was overwritten before it was read.
            assert_ne!(stored(order, 3).unwrap().1, expected, "{order:?}");
        }
    }
}
