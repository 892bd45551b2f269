//! The backend on the first adapter: copies, limits, errors and the clock.

use std::sync::Arc;

use ellwand_core::{CpuScope, Device, Dtype, PrepareError, Prepared};

use super::super::{Arg, Buffer, Gpu, GpuError, Grid, Job, Source, gpu};
use super::commands::{Clock, MAX_SPANS};
use super::open::spread;
use super::test_device;

static ADD: Source = Source {
    name: "add.wgsl",
    text: "@group(0) @binding(0) var<uniform> by: vec2<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(1)
fn add(@builtin(workgroup_id) at: vec3<u32>) { y[at.x] += by.x; }
",
    options: &[],
};

#[test]
fn errors_in_a_shader_name_its_line() {
    static WRONG: Source = Source {
        name: "wrong.wgsl",
        text: "\n\n@compute @workgroup_size(1) fn f() { let x: u32 = 1.5; }\n",
        options: &[],
    };
    let Some(device) = test_device() else { return };
    let gpu = gpu(&device).unwrap();
    for _ in 0..2 {
        let error = gpu.kernel(&WRONG, "f").unwrap_err().to_string();
        assert!(error.contains("wrong.wgsl") && error.contains("line 3"), "{error}");
    }
    let error = gpu.kernel(&ADD, "subtract").unwrap_err();
    assert!(matches!(&error, GpuError::Compile { .. }) && error.to_string().contains("subtract"), "{error}");
    gpu.kernel(&ADD, "add").unwrap();
    gpu.sync().unwrap();
}

#[test]
fn bytes_come_back_as_they_went_in_whatever_their_number() {
    let Some(device) = test_device() else { return };
    let gpu = gpu(&device).unwrap();
    for bytes in [0, 1, 3, 4, 5, 17, 1000, (1 << 20) + 3] {
        let sent: Vec<u8> = (0..bytes).map(|k| (k * 7 % 251) as u8).collect();
        let buffer = Buffer::of(gpu, &sent, 5).unwrap();
        assert_eq!(buffer.read(bytes).unwrap(), sent);
        assert!(buffer.read(bytes + 5).unwrap()[bytes..].iter().all(|byte| *byte == 0));
        buffer.fill(0xff).unwrap();
        assert!(buffer.read(bytes + 5).unwrap().iter().all(|byte| *byte == 0xff));
    }
    gpu.flush().unwrap();
}

#[test]
fn an_array_beyond_the_limit_is_unsupported_with_both_figures() {
    let Some(device) = test_device() else { return };
    let gpu = gpu(&device).unwrap();
    let Err(error) = gpu.alloc(1 << 60) else { panic!("no adapter takes that") };
    let PrepareError::Unsupported(why) = error.into() else { panic!("it is not a failure") };
    assert!(why.contains(&(1_u64 << 60).to_string()) && why.contains("at most"), "{why}");
}

/// A job that increments a number, on a backend.
fn counting(gpu: &Gpu) -> Result<Box<dyn Prepared>, GpuError> {
    let mut job = Job::new(gpu);
    let y = job.output("y", Dtype::U64, &[1], 0)?;
    job.launch(&ADD, "add", Grid::line(1, 1), vec![Arg::U64(1), y])?;
    Ok(job.boxed())
}

#[test]
fn a_device_that_is_lost_fails_what_runs_on_it_and_what_comes_next_gets_another() {
    if test_device().is_none() {
        return;
    }
    // A separate device, because the other tests keep using theirs.
    let own = Arc::new(super::adapters().unwrap().swap_remove(0));
    let gpu: Gpu = own.clone();
    let mut job = counting(&gpu).unwrap();
    job.run();
    job.sync().unwrap();
    own.opened().unwrap().device.destroy();
    let mut said = Vec::new();
    for _ in 0..2 {
        job.poison(ellwand_core::Poison::Ones);
        job.run();
        said.push(job.sync().unwrap_err().to_string());
        assert!(job.output().is_err(), "a lost device returns nothing");
    }
    assert!(said[1].contains("lost"), "{said:?}");
    drop(job);
    let mut next = counting(&gpu).unwrap();
    next.poison(ellwand_core::Poison::Ones);
    next.run();
    next.sync().unwrap();
    assert_eq!(next.output().unwrap().get("y").unwrap().u64().unwrap(), [u64::MAX << 32]);
}

/// `exhausted.rs` of the `ellwand` crate tests running out of memory, in a separate process.
#[test]
fn memory_comes_back_when_nobody_holds_it() {
    if test_device().is_none() {
        return;
    }
    // A separate device, so that no other test changes its memory.
    let gpu: &Gpu = &(Arc::new(super::adapters().unwrap().swap_remove(0)) as Gpu);
    let held: Vec<Buffer> = (0..64).map(|_| Buffer::new(gpu, 1 << 20).unwrap()).collect();
    let before = gpu.state().device_bytes.unwrap();
    drop(held);
    assert_eq!(gpu.state().device_bytes.unwrap() + (64 << 20), before);
    assert_eq!(gpu.memory().unwrap().most, before, "the most that was held is remembered");
    // The flush array is allocated once, and counts as kept.
    let without = gpu.memory().unwrap();
    assert_eq!(without.kept, 0);
    for _ in 0..2 {
        gpu.flush().unwrap();
        let with = gpu.memory().unwrap();
        assert!(with.kept > 32 << 20 && with.now == without.now + with.kept, "{with:?}");
    }
    let mut job = counting(gpu).unwrap();
    job.run();
    job.sync().unwrap();
}

#[test]
fn arguments_that_do_not_fit_a_kernel_are_an_error_and_what_comes_after_works() {
    let Some(device) = test_device() else { return };
    let gpu = gpu(&device).unwrap();
    let add = gpu.kernel(&ADD, "add").unwrap();
    let error = gpu.launch(&add, Grid::line(1, 1), &[Arg::U64(1)]).unwrap_err();
    assert!(matches!(error, GpuError::Call { call: "create_bind_group", .. }), "{error}");
    let error = gpu.launch(&add, Grid::line(1, 1), &[Arg::U64(1), Arg::At(12345)]).unwrap_err();
    assert!(error.to_string().contains("no array begins at 12345"), "{error}");
    let y = Buffer::of_values::<u64>(gpu, &[5]).unwrap();
    gpu.launch(&add, Grid::line(1, 1), &[Arg::U64(3), Arg::At(y.address())]).unwrap();
    gpu.sync().unwrap();
    assert_eq!(y.read(8).unwrap(), [8, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn launches_are_done_in_order_and_timed_by_the_device() {
    let Some(device) = test_device() else { return };
    let gpu = gpu(&device).unwrap();
    let mut job = Job::new(gpu);
    let y = job.output("y", Dtype::U64, &[1], 0).unwrap();
    job.launch(&ADD, "add", Grid::line(1, 1), vec![Arg::U64(3), y]).unwrap();
    job.repeat(1500);
    let mut job = job.boxed();
    job.poison(ellwand_core::Poison::Ones);
    let timing = device.time(CpuScope::Thread, &mut || {
        for _ in 0..2 {
            job.run();
            job.sync().unwrap();
        }
    });
    assert_eq!(job.output().unwrap().get("y").unwrap().u64().unwrap()[0] as u32, 3 * 3000 - 1, "from 2^32 - 1 on");
    assert!(timing.device_ns.expect("the adapter has a clock") > 0);
    let nothing = device.time(CpuScope::Thread, &mut || {});
    assert_eq!(nothing.device_ns, None, "nothing was launched");
    assert!(job.readings().iter().any(|reading| reading.id == "compile-time"));
}

#[test]
fn spans_begin_with_a_launch_and_end_with_a_wait() {
    let mut clock = Clock::default();
    assert_eq!((clock.launched(), clock.waited(), clock.stopped()), (None, None, None), "nothing is timed");
    clock = Clock::Between(0);
    assert_eq!((clock.launched(), clock.launched(), clock.waited(), clock.waited()), (Some(0), None, Some(1), None));
    assert_eq!((clock.launched(), clock.waited()), (Some(2), Some(3)));
    assert_eq!((clock.stopped(), clock), (Some(2), Clock::Idle));
    clock = Clock::Between(MAX_SPANS);
    assert_eq!((clock.launched(), clock.waited(), clock.stopped()), (None, None, None), "too many tell nothing");
}

#[test]
fn a_row_of_groups_becomes_a_rectangle_that_holds_it() {
    assert_eq!(spread(1, 65535), Some([1, 1]));
    assert_eq!(spread(65535, 65535), Some([65535, 1]));
    assert_eq!(spread(65536, 65535), Some([32768, 2]));
    for groups in [1, 100_003, 1 << 31] {
        let [x, y] = spread(groups, 65535).unwrap();
        assert!(u64::from(x) * u64::from(y) >= u64::from(groups) && x <= 65535 && y <= 65535);
    }
    assert_eq!(spread(u32::MAX, 1000), None);
}
