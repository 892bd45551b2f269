//! The index in PostgreSQL, on a server that the test starts on loopback. Skipped if PostgreSQL is missing;
//! `ELLWAND_REQUIRE=postgres` makes that an error.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod common;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::Fake;
use ellwand_history::{Added, Query, Store, trend};

/// A server with its own data directory, stopped when dropped.
struct Server {
    dir: tempfile::TempDir,
    port: u16,
}

/// The PostgreSQL program with this name: in the path, or where Debian installs it.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = debian.map(|version| version.path().join("bin")).chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs a program in `dir`; as user nobody if this is root, because PostgreSQL refuses to run as root.
fn as_user(dir: &Path, file: &Path, args: &[&str]) -> Output {
    let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let mut command = if root { Command::new("setpriv") } else { Command::new(file) };
    if root {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(file);
    }
    command.args(args).current_dir(dir).env("LC_ALL", "C").output().unwrap()
}

impl Server {
    /// `None` if PostgreSQL is missing.
    fn start() -> Option<Self> {
        let (Some(initdb), Some(pg_ctl)) = (program("initdb"), program("pg_ctl")) else {
            let required = std::env::var("ELLWAND_REQUIRE").is_ok_and(|what| what.contains("postgres"));
            assert!(!required, "ELLWAND_REQUIRE names postgres, but initdb and pg_ctl were not found");
            println!("skipped: initdb and pg_ctl were not found");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let made = as_user(dir.path(), &initdb, &["-D", "data", "-U", "me", "-A", "trust", "--no-sync"]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = format!("-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c fsync=off");
        let started = as_user(dir.path(), &pg_ctl, &["-D", "data", "-w", "-l", "log", "-o", &options, "start"]);
        let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
        assert!(started.status.success(), "{}{log}", String::from_utf8_lossy(&started.stderr));
        Some(Self { dir, port })
    }

    fn url(&self) -> String {
        format!("postgres://me@127.0.0.1:{}/postgres", self.port)
    }

    fn client(&self) -> postgres::Client {
        postgres::Client::connect(&self.url(), postgres::NoTls).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stop = program("pg_ctl")
            .map(|pg_ctl| as_user(self.dir.path(), &pg_ctl, &["-D", "data", "-m", "immediate", "stop"]));
        assert!(stop.is_some_and(|stop| stop.status.success()) || std::thread::panicking());
    }
}

fn fake(n: u64) -> Fake {
    let code = if n >= 30 { 1.05 } else { 1.0 };
    let wobble = 1.0 + 0.002 * ((n * 7 % 5) as f64 - 2.0);
    Fake::new(n).sort(10, "plain", &[2e-6, 2.1e-6]).sort(10, "fast", &[1e-6 * code * wobble, 1.05e-6 * code * wobble])
}

/// One server for everything: it takes seconds to start.
#[test]
fn many_writers_share_one_history() {
    let Some(server) = Server::start() else { return };
    let (made, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Four writers begin the history at the same time and add overlapping runs.
    let new: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (server, made) = (&server, made.path());
                scope.spawn(move || {
                    let mut store = Store::connect(&server.url()).unwrap();
                    let runs = (0..40).filter(|n| n % 4 == writer || n % 4 == (writer + 1) % 4);
                    let add = |n| store.add(&made.join("nowhere"), &fake(n).record()).unwrap();
                    runs.map(add).filter(|added| *added == Added::New).count()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(new, 40, "each run once");
    let mut shared = Store::connect(&server.url()).unwrap();
    let mut own = Store::open(folder.path(), true).unwrap();
    for n in 0..40 {
        own.add(&fake(n).write(made.path()), &fake(n).record()).unwrap();
    }
    assert_eq!(shared.runs().unwrap(), own.runs().unwrap());
    assert_eq!(shared.run("run-0007").unwrap(), own.run("run-0007").unwrap());
    let query = Query {
        workload: "sort".into(),
        case: None,
        implementation: "fast".into(),
        axes: std::collections::BTreeMap::new(),
        machine: None,
        reference: None,
        across_machines: false,
        rope: 0.01,
    };
    let found = trend(&mut shared, &query).unwrap();
    assert_eq!(found, trend(&mut own, &query).unwrap());
    assert_eq!(found.lines[0].changes.iter().map(|change| change.point).collect::<Vec<_>>(), [30]);
    // A longer record of a run replaces the shorter one.
    let longer = fake(3).sort(20, "fast", &[3e-6]);
    assert_eq!(shared.add(Path::new("x"), &longer.record()).unwrap(), Added::Replaced);
    assert_eq!(shared.run("run-0003").unwrap().1.len(), 3);
    refusals(&server);
}

fn refusals(server: &Server) {
    let message = |url: &str| Store::connect(url).err().unwrap().to_string();
    let error = message(&server.url().replace("me@", "me:secret@").replace("/postgres", "/nowhere"));
    assert!(error.contains("nowhere") && !error.contains("secret"), "{error}");
    let error = message("postgres://me@127.0.0.1:1/postgres");
    assert!(error.contains("127.0.0.1:1") && error.contains("refused"), "{error}");
    let mut client = server.client();
    client.batch_execute("CREATE ROLE guest LOGIN").unwrap();
    let error = message(&server.url().replace("me@", "guest@"));
    assert!(error.contains("permission denied") && error.contains("rights"), "{error}");
    client.batch_execute("UPDATE ellwand.schema_version SET version = 99").unwrap();
    let error = message(&server.url());
    assert!(
        error.contains("schema version 99") && error.contains("newer Ellwand") && !error.contains("delete"),
        "{error}"
    );
}
