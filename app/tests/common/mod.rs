//! Runs the program as a user would, in its own directory.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub struct Box {
    pub dir: tempfile::TempDir,
}

#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Default for Box {
    fn default() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }
}

impl Box {
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ellwand"));
        command.args(args).current_dir(self.dir.path()).env("XDG_CACHE_HOME", self.path("cache"));
        // Tests tell the same on a machine with a GPU: the driver shows none.
        command.env("CUDA_VISIBLE_DEVICES", "");
        command.env_remove("COLUMNS").env_remove("NO_COLOR").stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    /// A command that must succeed.
    pub fn ok(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}\n{}\n{}", ran.stdout, ran.stderr);
        ran
    }

    /// A command that must be refused as unusable, with a message that holds all of `parts`.
    pub fn refused(&self, args: &[&str], parts: &[&str]) {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}\n{}\n{}", ran.stdout, ran.stderr);
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?} does not say '{part}':\n{}", ran.stderr);
        }
        assert!(ran.stdout.is_empty(), "{args:?} wrote a result: {}", ran.stdout);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }

    /// A small measured sweep in `out`.
    pub fn sweep(&self, more: &[&str]) -> Ran {
        self.run(&[&QUICK[..], more].concat())
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

pub const QUICK: [&str; 8] =
    ["run", "lattice-encode", "--batch", "1,8", "--effort", "quick", "--no-ceilings", "--no-plot"];

pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_string).collect()
}

/// A `.npy` file of f32, version 1, written by hand.
pub fn npy_f32(shape: &str, values: &[f32]) -> Vec<u8> {
    npy("<f4", false, shape, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

/// A `.npy` file of any type.
pub fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}
