//! A sweep on a real Slurm of two nodes, both on this machine: whether every cell arrives once, not how long it takes.
//!
//! Without Slurm or root the test prints that it is skipped; `ELLWAND_REQUIRE=slurm` makes that an error.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Box, Ran, ran};
use ellwand::internals::core::record::parse;
use serde_json::Value;

const NODES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm/nodes.sh");

/// Two nodes that end with the test.
struct Cluster {
    here: Box,
}

impl Cluster {
    /// The cluster, or why there can be none.
    fn up() -> Result<Self, String> {
        let missing =
            ["slurmctld", "slurmd", "sbatch", "squeue", "munged"].into_iter().find(|program| !is_installed(program));
        if let Some(program) = missing {
            return Err(format!("{program} is missing (Debian: slurmctld slurmd slurm-client munge)"));
        }
        let user = Command::new("id").arg("-u").output().unwrap().stdout;
        if user.trim_ascii() != b"0" {
            return Err("Slurm's daemons need root to start tasks".into());
        }
        let cluster = Self { here: Box::default() };
        // Held together, so that they differ.
        let free: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<String> = free.iter().map(|port| port.local_addr().unwrap().port().to_string()).collect();
        drop(free);
        let name = format!("ellwand{}", std::process::id());
        let up = Command::new(NODES).arg("up").arg(cluster.dir()).arg(name).args(ports).output().unwrap();
        assert!(up.status.success(), "{up:?}");
        Ok(cluster)
    }

    fn dir(&self) -> PathBuf {
        self.here.path("slurm")
    }

    fn sweep(&self, args: &[&str]) -> Ran {
        let mut command = self.here.command(&[&["sweep"], args].concat());
        ran(command.env("SLURM_CONF", self.dir().join("slurm.conf")).output().unwrap())
    }

    fn ok(&self, args: &[&str]) -> Ran {
        let ran = self.sweep(args);
        assert_eq!(ran.code, Some(0), "{args:?}\n{}\n{}", ran.stdout, ran.stderr);
        ran
    }

    fn nodes(&self, command: &str, rest: &[&str]) {
        assert!(Command::new(NODES).arg(command).arg(self.dir()).args(rest).status().unwrap().success());
    }

    /// Files in the directory of results with this ending; of one node, if they are not whole.
    fn files(&self, ending: &str) -> Vec<String> {
        let inside = fs::read_dir(self.here.path("plan.shards/default")).into_iter().flatten().flatten();
        inside.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.ends_with(ending)).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = Command::new(NODES).arg("down").arg(self.dir()).status();
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian's daemons are in sbin, which is not in the path of every user.
    std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).any(|dir| dir.join(program).exists())
}

#[test]
fn a_sweep_survives_the_death_of_a_node() {
    let begin = Instant::now();
    let cluster = match Cluster::up() {
        Ok(cluster) => cluster,
        Err(why) => {
            assert!(!std::env::var("ELLWAND_REQUIRE").is_ok_and(|what| what.contains("slurm")), "{why}");
            eprintln!("skipped: {why}");
            return;
        }
    };
    let note = |what: &str| eprintln!("{:6.1} s  {what}", begin.elapsed().as_secs_f64());
    note("two nodes are up");
    let cases = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16";
    let how = ["-i", "scalar,simd", "--effort", "thorough", "--blocks", "2", "--no-ceilings"];
    cluster.ok(&[&["plan", "lattice-encode", "--batch", cases, "-o", "plan.json"], &how[..]].concat());

    let submit = ["submit", "plan.json", "--engine", "slurm", "--exclusive", "--requeue"];
    for (flags, words) in [
        (["--constraint", "vax"], "Invalid feature specification"),
        (["--partition", "vax"], "Invalid partition name specified"),
        (["--gres", "gpu:vax:1"], "Invalid generic resource (gres) specification"),
    ] {
        let refused = cluster.sweep(&[&submit[..], &flags].concat());
        assert!(refused.code == Some(2) && refused.stderr.contains(words), "{}", refused.stderr);
    }

    // MaxArraySize is 10.
    let submitted = cluster.ok(&submit);
    assert_eq!(submitted.stdout.lines().count(), 2, "{}", submitted.stdout);
    note("16 shards are submitted");
    let host = |name: &String| {
        let text = fs::read_to_string(cluster.here.path("plan.shards/default").join(name)).unwrap();
        let shard = parse(&text).unwrap().run.shard.unwrap();
        (shard.number, shard.host)
    };
    // The second node dies while it measures a shard, which it has just begun, and has finished one before.
    let of_second = |name: &&String| name.contains(".n2-");
    let mut known = cluster.files(".partial");
    loop {
        let now = cluster.files(".partial");
        let begun = now.iter().filter(of_second).any(|name| !known.contains(name));
        if begun && cluster.files(".jsonl").iter().any(|name| host(name).1 == "n2") {
            break;
        }
        known = now;
        sleep(Duration::from_millis(20));
    }
    cluster.nodes("kill", &["n2"]);
    let left: Vec<String> = cluster.files(".partial").into_iter().filter(|name| of_second(&name)).collect();
    assert_eq!(left.len(), 1, "the node died while it measured a shard: {left:?}");
    let lost: u32 = left[0][1..5].parse().unwrap();
    assert!(!cluster.files(".jsonl").contains(&format!("{lost:04}.jsonl")));
    note(&format!("node n2 was killed in shard {lost}"));

    cluster.ok(&["status", "plan.json", "--wait"]);
    note("no task is left");
    cluster.ok(&["merge", "plan.json", "--no-plot"]);
    note("merged");
    let path = cluster.here.path("plan.merged/default/record.jsonl");
    let record = parse(&fs::read_to_string(path).unwrap()).unwrap();
    let cells: BTreeSet<String> = record.measurements.iter().map(|measurement| measurement.cell()).collect();
    assert_eq!((cells.len(), record.measurements.len(), record.resumed.len()), (32, 32, 15));
    assert!(record.measurements.iter().all(|measurement| measurement.outcome.is_measured()));
    assert_eq!(record.warnings, Vec::<String>::new());
    let hosts: BTreeSet<(u32, String)> = cluster.files(".jsonl").iter().map(host).collect();
    assert!(hosts.contains(&(lost, "n1".into())), "the lost shard ran again: {hosts:?}");
    assert!(hosts.iter().any(|(_, host)| host == "n2"), "{hosts:?}");

    let again = cluster.ok(&submit);
    assert!(again.stderr.contains("every shard has a result"), "{}", again.stderr);
    let controller = fs::read_to_string(cluster.dir().join("run/slurmctld.pid")).unwrap();
    assert!(Command::new("kill").args(["-9", controller.trim()]).status().unwrap().success());
    fs::remove_file(cluster.here.path("plan.shards/default/0003.jsonl")).unwrap();
    let down = cluster.sweep(&submit);
    assert!(down.code == Some(2) && down.stderr.contains("Unable to contact slurm controller"), "{}", down.stderr);
    let status = cluster.sweep(&["status", "plan.json", "--format", "json"]);
    let rows: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!((status.code, &rows["classes"][0]["finished"]), (Some(1), &15.into()), "{}", status.stderr);
}
