//! Signals, kills, and programs and commands that misbehave: no process is left, and no finished cell is lost.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::coin::Coin;
use super::try_one::{APPLY, COMPARE, Lab, RUN, Room, Try};

const SELFCHECK: &[&str] = &["selfcheck", "--only", "chain equal", "--decisions", "1000", "--budget", "3"];
const NESTED: &[&str] = &["compare", "--command", "(sleep 3 &); sleep 3 & sleep 3 | cat", "sleep 3"];

/// The commands to be interrupted, each with the directory that it writes to.
const LONG: [(&str, &[&str]); 5] = [("new", RUN), ("new", APPLY), ("new", COMPARE), ("", SELFCHECK), ("", NESTED)];

fn started(room: &Room, args: &[&str]) -> Result<Child> {
    Ok(room.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

fn send(child: &Child, signal: &str) -> Try {
    let _ =
        Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).stderr(Stdio::null()).status()?;
    Ok(())
}

fn wait(coin: &mut Coin, most_ms: usize) {
    std::thread::sleep(Duration::from_millis(coin.below(most_ms) as u64));
}

/// Whole lines of a record.
fn lines(room: &Room, record: &str) -> String {
    let text = fs::read_to_string(room.path(record)).unwrap_or_default();
    text[..text.rfind('\n').map_or(0, |at| at + 1)].to_string()
}

/// SIGINT, SIGTERM or SIGHUP at any moment, once or twice.
pub(crate) fn signals(lab: &Lab, coin: &mut Coin) -> Try {
    let room = lab.room()?;
    let (dir, args) = *coin.pick(&LONG);
    let output: &[&str] = if dir.is_empty() { &[] } else { &["-o", dir] };
    let child = started(&room, &[args, output].concat())?;
    wait(coin, 800);
    for _ in 0..=coin.below(2) {
        send(&child, coin.pick::<&str>(&["INT", "TERM", "HUP"]))?;
        wait(coin, 20);
    }
    let ran = room.end(child)?;
    // Before the handler is installed, the signal ends the program.
    ensure!(ran.code.is_none_or(|code| [0, 4, 130].contains(&code)), "code {:?}: {}", ran.code, ran.stderr);
    ensure!(!ran.stderr.contains("panicked at"), "{}", ran.stderr);
    room.alone()?;
    if dir == "new" && room.path("new/record.jsonl").exists() {
        let report = room.ran(room.command(&["report", "new"]))?;
        report.sound(&[0, 2, 6])?;
    }
    Ok(())
}

/// SIGKILL at any moment; then the run is resumed.
pub(crate) fn kills(lab: &Lab, coin: &mut Coin) -> Try {
    let room = lab.room()?;
    let (dir, args) = *coin.pick(&LONG);
    // Into a new directory, or over old results.
    let old = coin.below(2) == 0 && !dir.is_empty();
    let dir = if old { args[0] } else { dir };
    let mut output: Vec<&str> = if dir.is_empty() { Vec::new() } else { vec!["-o", dir] };
    if old {
        output.push("--overwrite");
    }
    let before = room.results(dir)?;
    let mut child = started(&room, &[args, &output].concat())?;
    wait(coin, 800);
    let record = if old { format!("{dir}/ellwand-unfinished/record.jsonl") } else { format!("{dir}/record.jsonl") };
    let finished = lines(&room, &record);
    let done = child.try_wait()?.is_some();
    child.kill()?;
    room.end(child)?;
    room.alone()?;
    room.keeps(dir, &finished)?;
    // Old results are complete, or were replaced: by a program that ended, or by one killed during its last steps.
    let now = room.results(dir)?;
    let complete = |name: &str| now.keys().any(|path| path.ends_with(name));
    if old && !done && now != before {
        ensure!(complete("record.jsonl") || complete("apply.json"), "old results are gone and new ones are missing");
    }
    if args == RUN {
        let how = if lines(&room, &record).is_empty() && old { "--overwrite" } else { "--resume" };
        let resumed = room.ran(room.command(&[args, &["-o", dir, how]].concat()))?;
        resumed.sound(&[0])?;
        let cells = lines(&room, &format!("{dir}/record.jsonl"))
            .lines()
            .filter(|line| line.contains("\"measurement\""))
            .count();
        ensure!(cells >= 4, "{cells} of 4 cells after resuming");
        room.keeps(dir, &finished)?;
    }
    Ok(())
}

/// The output directory is removed or moved away at any moment.
pub(crate) fn vanish(lab: &Lab, coin: &mut Coin) -> Try {
    let room = lab.room()?;
    let child = started(&room, &[RUN, &["-o", "new"]].concat())?;
    while lines(&room, "new/record.jsonl").is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    wait(coin, 300);
    let finished = lines(&room, "new/record.jsonl");
    if coin.below(2) == 0 {
        // A directory that is being written to may not be removable at once.
        while fs::remove_dir_all(room.path("new")).is_err() && room.path("new").exists() {}
    } else {
        fs::rename(room.path("new"), room.path("moved"))?;
    }
    let ran = room.end(child)?;
    ran.sound(&[0, 1])?;
    room.alone()?;
    ensure!(ran.code == Some(0) || ran.stderr.contains("vanished"), "it does not name the directory: {}", ran.stderr);
    // A run that had already ended is removed with its directory, as the user wished.
    if ran.code == Some(1) && ran.stderr.contains("are in") { room.keeps("new", &finished) } else { Ok(()) }
}

/// Implementations that crash, hang, print, fork and answer wrong.
pub(crate) fn hostile(lab: &Lab, coin: &mut Coin) -> Try {
    let mut room = lab.room()?;
    let acts = [
        "wrong", "panics", "aborts", "exits", "dies", "prints", "floods", "closes", "forks", "daemon", "hangs",
        "recurses",
    ];
    let act = *coin.pick(&acts);
    room.program_is(&lab.hostile);
    let pair = format!("steady,{act}");
    let (a, b) = ("hostile:steady", format!("hostile:{act}"));
    let run = ["run", "hostile", "-i", &pair, "--effort", "quick", "--no-ceilings", "--no-plot", "-o", "new"];
    let compare = ["compare", a, &b, "--blocks", "8", "--fail-on", "never"];
    let args = if coin.below(2) == 0 { &run[..] } else { &compare };
    let ran = room.ran(room.command(&[args, &["--time-limit", "1"]].concat()))?;
    ran.sound(&[0, 1, 4, 5])?;
    if args[0] == "run" && !["closes", "forks", "daemon", "floods"].contains(&act) {
        ensure!(ran.code != Some(0), "{act} passed: {}", ran.stdout);
    }
    room.alone()
}

/// Commands that kill themselves, leave processes running, close their streams, or never end.
pub(crate) fn commands(lab: &Lab, coin: &mut Coin) -> Try {
    let room = lab.room()?;
    let command = *coin.pick(&[
        "kill -9 $$",
        "kill -TERM $$",
        "exit 3",
        "sleep 1000",
        "sleep 1000 & true",
        "sleep 1000 | true",
        "exec >&- 2>&-",
        "(trap '' TERM HUP INT; sleep 1000) & true",
        "yes | head -c 3000000",
        "printf '\\033[2J' >&2; exit 1",
        "nohup sleep 1000 >/dev/null 2>&1 & true",
        "kill -STOP $$",
    ]);
    let more: &[&str] = if coin.below(2) == 0 { &["--same-output"] } else { &[] };
    let args = ["compare", "--command", "true", command, "--blocks", "2", "--fail-on", "never", "--time-limit", "1"];
    let ran = room.ran(room.command(&[&args, more].concat()))?;
    ran.sound(&[0, 1, 4, 5])?;
    room.alone()
}
