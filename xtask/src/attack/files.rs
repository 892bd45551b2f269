//! Obstacles in the place of results.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use anyhow::ensure;

use super::coin::Coin;
use super::try_one::{APPLY, COMPARE, Lab, RUN, Room, Try};

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
