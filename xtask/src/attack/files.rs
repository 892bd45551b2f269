//! Damaged arrays and records, and things that stand where results should go.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use anyhow::ensure;

use super::coin::Coin;
use super::try_one::{APPLY, COMPARE, Lab, RUN, Room, Try};
use crate::root;

/// An array file with a few changes: an error that names it, or a result.
pub(crate) fn array(lab: &Lab, coin: &mut Coin) -> Try {
    let room = lab.room()?;
    let names = ["f32.npy", "fortran.npy", "long.npy", "nested.npy", "stored.npz", "deflated.npz", "two.safetensors"];
    let name = *coin.pick(&names);
    let bytes = fs::read(root()?.join("testdata/fuzz").join(name))?;
    fs::write(room.path(name), coin.damage(&bytes))?;
    let input = if name.ends_with(".npy") { format!("x={name}") } else { format!("x={name}:x") };
    let ran = room.ran(room.command(&["apply", "gelu", "--input", &input, "-o", "new"]))?;
    ran.sound(&[0, 2])?;
    ensure!(ran.code == Some(0) || !room.path("new").exists(), "something was written");
    ensure!(
        ran.code == Some(0) || ran.stderr.contains(name) || ran.stderr.contains("error: x:"),
        "{name} is not named: {}",
        ran.stderr
    );
    Ok(())
}

/// A record with a few changes is never taken for a whole one.
pub(crate) fn record(lab: &Lab, coin: &mut Coin) -> Try {
    let room = lab.room()?;
    let which = *coin.pick(&["run", "compare"]);
    let path = room.path(which).join("record.jsonl");
    let whole = fs::read(&path)?;
    let damaged = if coin.below(2) == 0 {
        let mut bytes = whole.clone();
        let at = coin.below(bytes.len());
        bytes[at] ^= 1 << coin.below(8);
        bytes
    } else {
        coin.damage(&whole)
    };
    fs::write(&path, &damaged)?;
    let ran = room.ran(room.command(&["report", which]))?;
    // A record cut to nothing but its first line measured nothing.
    ran.sound(&[0, 2, 6])?;
    // Cut between two lines it is a whole record of an earlier time.
    let earlier = whole.starts_with(&damaged) && (damaged.ends_with(b"\n") || whole.len() == damaged.len() + 1);
    let named = ran.stderr.contains("record.jsonl") && (ran.code == Some(2) || ran.stderr.contains("cut off"));
    ensure!(earlier || named, "the damage is not named: {}", ran.stderr);
    if coin.below(4) > 0 {
        return Ok(());
    }
    let resumed = room.ran(room.command(&[RUN, &["-o", which, "--resume"]].concat()))?;
    resumed.sound(&[0, 1, 2, 6])?;
    Ok(())
}

/// Files of the user, pipes, links and directories where results should go.
pub(crate) fn in_the_way(lab: &Lab, coin: &mut Coin) -> Try {
    let room = lab.room()?;
    let (args, name): (&[&str], &str) =
        *coin.pick(&[(RUN, "record.jsonl"), (RUN, "report.md"), (COMPARE, "record.jsonl"), (APPLY, "y.npy")]);
    fs::create_dir(room.path("mine"))?;
    let path = room.path("mine").join(name);
    let kind = coin.below(5);
    match kind {
        0 => fs::write(&path, "mine")?,
        1 => drop(Command::new("mkfifo").arg(&path).status()?),
        2 => symlink("nowhere", &path)?,
        3 => symlink("/dev/full", &path)?,
        _ => fs::create_dir(&path)?,
    }
    let overwrite: &[&str] = if coin.below(3) == 0 { &["--overwrite"] } else { &[] };
    let ran = room.ran(room.command(&[args, &["-o", "mine"], overwrite].concat()))?;
    ran.sound(&[0, 1, 2])?;
    if kind == 0 && overwrite.is_empty() {
        ensure!(fs::read(&path)? == b"mine", "a file of the user was replaced");
    }
    intact(&room)
}

fn intact(room: &Room) -> Try {
    let ran = room.ran(room.command(&["report", "run"]))?;
    ran.sound(&[0])
}
