//! Limits of the system, and disks without room.

use std::fs::File;
use std::process::Command;

use anyhow::ensure;

use super::coin::Coin;
use super::try_one::{APPLY, COMPARE, Lab, RUN, Room, Try};

/// Commands that write into a directory of results and replace them.
const WRITERS: [(&str, &[&str]); 4] =
    [("run", RUN), ("apply", APPLY), ("compare", COMPARE), ("report", &["report", "compare", "--no-plot"])];

/// A failing command leaves the results of an earlier one unchanged.
fn replace(room: &Room, limit: &str, (dir, args): (&str, &[&str]), codes: &[i32]) -> Try {
    let before = room.results(dir)?;
    let ran = room.ran(room.after(limit, &[args, &["-o", dir, "--overwrite"]].concat()))?;
    ran.sound(codes)?;
    // A run with some failed rows has new results and reports the failures.
    if ran.code != Some(0) && !ran.stderr.contains("written to") {
        ensure!(room.results(dir)? == before, "code {:?} and other results: {}", ran.code, ran.stderr);
    }
    room.alone()
}

/// `ulimit -f`: a write beyond it is an error.
pub(crate) fn file_size(lab: &Lab, coin: &mut Coin) -> Try {
    let room = lab.room()?;
    let limit = format!("ulimit -f {}", coin.below(40));
    // 2: not even the directory can be written.
    replace(&room, &limit, *coin.pick(&WRITERS), &[0, 1, 2])
}

/// Little address space, few files, one process.
pub(crate) fn others(lab: &Lab, coin: &mut Coin) -> Try {
    let room = lab.room()?;
    let writer = *coin.pick(&WRITERS);
    match coin.below(3) {
        // A program that cannot allocate aborts with a message, like any Rust program.
        0 => {
            let before = room.results(writer.0)?;
            let limit = format!("ulimit -v {}", 20_000 + coin.below(400_000));
            let ran = room.ran(room.after(&limit, &[writer.1, &["-o", writer.0, "--overwrite"]].concat()))?;
            ensure!(ran.code == Some(0) || !ran.stderr.is_empty(), "it printed nothing");
            ensure!(ran.code == Some(0) || room.results(writer.0)? == before, "other results: {}", ran.stderr);
            room.alone()
        }
        1 => replace(&room, &format!("ulimit -n {}", 6 + coin.below(30)), writer, &[0, 1, 6]),
        _ => one_process(&room, writer),
    }
}

/// One process is allowed, so only commands that start no other process work. The system ignores the limit for root, so root
/// becomes a user without other processes. The shell's `ulimit` may not support this limit.
fn one_process(room: &Room, (dir, args): (&str, &[&str])) -> Try {
    let user = 60_000 + room.number();
    let limit = format!(
        "[ $(id -u) != 0 ] || {{ chown -R {user} . && \
         exec setpriv --reuid {user} --clear-groups prlimit --nproc=1 \"$0\" \"$@\"; }}; \
         prlimit --nproc=1 --pid $$"
    );
    let args = if dir == "run" { &RUN_HERE[..] } else { args };
    let codes: &[i32] = if dir == "compare" { &[1] } else { &[0] };
    replace(room, &limit, (dir, args), codes)
}

/// A run without worker processes.
const RUN_HERE: [&str; 10] =
    ["run", "gelu", "--size", "tiny", "-i", "scalar,simd", "--in-process", "--effort", "quick", "--no-ceilings"];

/// A disk without room: a small file system if one can be mounted, otherwise only the streams.
pub(crate) fn full(lab: &Lab, coin: &mut Coin) -> Try {
    let room = lab.room()?;
    let writer = *coin.pick(&WRITERS);
    if coin.below(2) == 0 {
        let mut command = room.command(&[writer.1, &["-o", writer.0, "--overwrite"]].concat());
        command.stdout(File::options().write(true).open("/dev/full")?);
        command.stderr(File::options().write(true).open("/dev/full")?);
        let code = command.status()?.code();
        ensure!(code.is_some_and(|code| [0, 1].contains(&code)), "code {code:?} with full streams");
        return room.alone();
    }
    let small = format!("mount -t tmpfs -o size={}k none disk", 4 * (1 + coin.below(40)));
    // A mount in a separate namespace ends with the command.
    let script =
        format!("mkdir -p disk && {small} && cp -r {0} disk/ && find disk -type f | xargs cksum >before", writer.0);
    let output = format!("disk/{}", writer.0);
    let args = [writer.1, &["-o", &output, "--overwrite"]].concat();
    let after = format!(
        "{script} || exit 99; \"$0\" \"$@\"; code=$?; \
         find disk -path '*/ellwand-unfinished' -prune -o -type f -print | xargs cksum >after; exit $code"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &after]).arg(&lab.program).args(&args);
    room.set(&mut command);
    let ran = room.ran(command)?;
    // No room even for the old results, or no permission to mount.
    if ran.code == Some(99) || ran.stderr.contains("unshare") {
        return Ok(());
    }
    // 2: there is no room for any file, so the directory cannot be written.
    ran.sound(&[0, 1, 2])?;
    let sums = |name: &str| std::fs::read_to_string(room.path(name));
    ensure!(ran.code == Some(0) || sums("before")? == sums("after")?, "other results: {}", ran.stderr);
    room.alone()
}
