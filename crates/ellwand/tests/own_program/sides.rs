//! Sides of a comparison other than two implementations of this program: other programs, shell commands, revisions and
//! records; and invalid sides.

use std::process::Command;

use super::{Ran, tell};

pub(crate) fn what_cannot_be_compared_is_refused() {
    for (args, parts) in [
        (
            &["compare", "double:plain"][..],
            &[
                "CANDIDATE",
                "only one side is given",
                "give two implementations (WORKLOAD:IMPLEMENTATION) or two records",
            ][..],
        ),
        (
            &["compare", "double:plain", "double:twin", "--baseline", "HEAD"],
            &["'double:twin' is one too many", "WORKLOAD:IMPLEMENTATION"],
        ),
        (
            &["compare", "double:plain", "double:twin", "double:slower"],
            &["unexpected argument 'double:slower'", "expected two sides", " compare [OPTIONS] [BASE] [CANDIDATE]\n"],
        ),
        (&["compare"], &["<BASE>", " compare <BASE> [CANDIDATE]\n"]),
        (&["compare", "--baseline", "HEAD"], &["--baseline", "no workload is given"]),
        (&["compare", "--baseline", "HEAD", "double:plian"], &["did you mean double:plain?"]),
        (&["compare", "double", "double:plain"], &["BASE", "double has no implementation 'double'"]),
        (&["compare", ":plain", "double:plain"], &["BASE", "names no implementation", "for example double:plain"]),
        (&["run", "double:plian"], &["WORKLOAD", "did you mean double:plain?"]),
        (&["run", "duble"], &["WORKLOAD: 'duble' matches", "did you mean double?\n"]),
        (&["run", "plian"], &["did you mean plain? It is an implementation; name its workload too: double:plain\n"]),
        (&["compare", "double:plian", "double:plain"], &["BASE", "did you mean double:plain?"]),
        (&["compare", "duble:plain", "duble:plain"], &["did you mean double?"]),
        (&["compare", "double:plain", "other:plain"], &["CANDIDATE", "no workload 'other'"]),
        (&["compare", "double:plain", "double:twin", "--n", "0"], &["--n", "too small"]),
        (&["compare", "double:plain", "double:twin", "--rope", "much"], &["--rope", "percentage"]),
        (&["compare", "double:plain", "double:twin", "--rope=-1"], &["--rope"]),
        (&["compare", "double:plain", "double:twin", "--blocks", "0"], &["--blocks"]),
        (&["compare", "double:plain", "double:twin", "--blocks", "1"], &["--blocks", "too few"]),
        (&["compare", "double:plain", "double:twin", "--fail-on", "rain"], &["--fail-on"]),
        (&["compare", "/nowhere", "/bin/true", "--workload", "double"], &["BASE", "/nowhere is not a file"]),
        (&["compare", "--command", "true", " "], &["--command", "not a command"]),
        (&["compare", "--command", "true", "true", "--n", "2"], &["--n", "have no cases"]),
        (&["compare", "--command", "true", "true", "--size", "foo"], &["--size", "have no cases"]),
        (&["compare", "--command", "true", "true", "-i", "plain"], &["--implementation"]),
        (&["compare", "--command", "true", "true", "--seed", "3"], &["--seed", "shell commands are compared"]),
        (&["compare", "none.jsonl", "double:plain"], &["BASE", "'none.jsonl' does not exist"]),
        (&["run", "double", "--blocks", "0"], &["--blocks"]),
        (&["run", "double", "--blocks", "2", "--in-process"], &["--in-process"]),
    ] {
        let ran = tell(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}{}", ran.stdout, ran.stderr);
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?} does not say '{part}': {}", ran.stderr);
        }
        assert!(ran.stdout.is_empty(), "{args:?} wrote a result: {}", ran.stdout);
    }
}

pub(crate) fn programs_are_compared_at_every_implementation() {
    let this = std::env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    let ran = tell(&["compare", this, this, "--workload", "double", "-i", "plain,slower", "--n", "1,2"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let cases = ["double/n=1 plain", "double/n=1 slower", "double/n=2 plain", "double/n=2 slower"];
    for (line, case) in ran.stdout.lines().zip(cases) {
        assert!(line.starts_with(case) && line.contains("same within 1 %"), "{line}");
    }
    assert_eq!(ran.stdout.lines().count(), 4);
    // A program that lacks the workload, and one that is not built on Ellwand.
    let other = tell(&["compare", this, "/bin/false", "--workload", "double", "-i", "plain"]);
    assert_eq!(other.code, Some(1), "{}", other.stderr);
    assert!(other.stdout.contains("the candidate failed: it exited with code 1"), "{}", other.stdout);
}

pub(crate) fn commands_that_end_badly_say_so() {
    let compare =
        |a: &str, b: &str, more: &[&str]| tell(&[&["compare", "--command", a, b, "--fail-on", "never"], more].concat());
    for (command, parts) in [
        ("exit 7", &["the candidate failed: it exited with code 7"][..]),
        ("echo alas >&2; exit 1", &["exited with code 1; its last words: alas"]),
        ("kill -9 $$", &["it was ended by a signal"]),
        ("no-such-program-anywhere", &["exited with code 127", "not found"]),
    ] {
        let ran = compare("true", command, &[]);
        assert_eq!(ran.code, Some(1), "{command}: {}{}", ran.stdout, ran.stderr);
        for part in parts {
            assert!(ran.stdout.contains(part), "'{command}' does not say '{part}': {}", ran.stdout);
        }
        // Nothing was compared, so there is no note about it.
        assert!(!ran.stderr.contains("--same-output"), "{}", ran.stderr);
    }
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark").display().to_string();
    // Quick once, to pass the first check; then it never ends.
    let slow = format!("if [ -e {mark} ]; then sleep 1000; else touch {mark}; fi");
    let slow = compare("true", &slow, &["--time-limit", "1"]);
    assert!(slow.stdout.contains("it did not end within 1 s and was killed"), "{}", slow.stdout);
    // Whatever the machine does meanwhile, two blocks decide nothing; the test only needs a line with both names.
    let fine = compare("true", "exit 0", &["--blocks", "2"]);
    assert_eq!(fine.code, Some(0), "{}", fine.stderr);
    assert!(fine.stderr.contains("--same-output compares it"), "{}", fine.stderr);
    assert!(fine.stdout.contains("'exit 0'") && fine.stdout.contains("'true'"), "{}", fine.stdout);
}

/// A repository whose first commit has a program of our name that is not built on Ellwand, and whose second does not
/// build.
pub(crate) fn a_revision_is_built_once_and_judged_like_any_program() {
    let dir = tempfile::tempdir().unwrap();
    // Where cargo puts programs, not benchmark targets.
    let elsewhere = tempfile::tempdir().unwrap();
    let (this, name) = (std::env::current_exe().unwrap(), "own-program");
    let program = elsewhere.path().join(name);
    std::fs::hard_link(&this, &program).or_else(|_| std::fs::copy(&this, &program).map(drop)).unwrap();
    let at = |command: &str, args: &[&str]| {
        let mut command = Command::new(command);
        command.args(args).current_dir(dir.path());
        // A repository around this one must not be used instead.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        command.output().unwrap()
    };
    let commit = |main: &str| {
        std::fs::write(dir.path().join("main.rs"), main).unwrap();
        at("git", &["add", "."]);
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
        let done = at("git", &[&who[..], &["commit", "-qm", "x", "--no-verify"]].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    at("git", &["init", "-q"]);
    let manifest = format!(
        "[package]\nname = \"toy\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[[bin]]\nname = \"{name}\"\npath = \"main.rs\"\n[workspace]\n"
    );
    std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::write(dir.path().join(".gitignore"), "target\n").unwrap();
    std::fs::create_dir(dir.path().join("examples")).unwrap();
    std::fs::write(dir.path().join("examples/shown.rs"), "fn main() { println!(\"an older example\") }").unwrap();
    commit("fn main() { println!(\"an older program\") }");
    commit("fn main() { nonsense }");
    let compare = |revision: &str, more: &[&str]| {
        let fixed = ["compare", "--baseline", revision, "--workload", "double", "-i", "plain"];
        let output = at(program.to_str().unwrap(), &[&fixed[..], more].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    };
    for time in ["first", "second"] {
        let ran = compare("HEAD~1", &[]);
        assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("the baseline failed: it wrote 'an older program'"), "{}", ran.stdout);
        assert_eq!(ran.stderr.contains("building"), time == "first", "{time}: {}", ran.stderr);
    }
    for (revision, more, parts) in [
        ("HEAD", &[][..], &["--baseline", "does not build", "nonsense"][..]),
        ("no-such-tag", &[], &["--baseline", "'no-such-tag' is not a revision"]),
        ("--help", &[], &["--baseline"]),
        ("HEAD~1", &["--n", "0"], &["--n", "too small"]),
    ] {
        let ran = compare(revision, more);
        assert_eq!(ran.code, Some(2), "{revision}: {}{}", ran.stdout, ran.stderr);
        for part in parts {
            assert!(ran.stderr.contains(part), "{revision} does not say '{part}': {}", ran.stderr);
        }
    }
    let renamed = elsewhere.path().join("renamed");
    std::fs::hard_link(&program, &renamed).unwrap();
    let output = at(renamed.to_str().unwrap(), &["compare", "--baseline", "HEAD", "double:plain"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for part in ["HEAD has no program 'renamed', the name of this program's file", name] {
        assert!(stderr.contains(part), "{stderr}");
    }
    // An example, where cargo puts it; the program has one workload, so an implementation needs no other name.
    let built = elsewhere.path().join("debug");
    let example = built.join("examples/shown");
    for folder in [".fingerprint", "examples"] {
        std::fs::create_dir_all(built.join(folder)).unwrap();
    }
    std::fs::hard_link(&program, &example).unwrap();
    let output = at(example.to_str().unwrap(), &["compare", "--baseline", "HEAD~1", "plain"]);
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy);
    assert!(text[0].contains("the baseline failed: it wrote 'an older example'"), "{text:?}");
    let trees = at("git", &["worktree", "list"]);
    assert_eq!(String::from_utf8_lossy(&trees.stdout).lines().count(), 1, "no work tree is listed");
    let kept = std::fs::read_dir(dir.path().join("target/ellwand-baseline")).unwrap().flatten();
    let mut kept: Vec<_> = kept.map(|entry| entry.file_name().into_string().unwrap()).collect();
    kept.sort_by_key(|name| (name.len(), name.clone()));
    assert_eq!((kept.len(), &kept[..3]), (4, &["lock", "work", "target"].map(String::from)[..]), "{kept:?}");
    // Files left in the work tree are not built.
    let work = dir.path().join("target/ellwand-baseline/work").join(dir.path().file_name().unwrap());
    for file in ["main.rs", "build.rs"] {
        std::fs::write(work.join(file), "fn main() { more nonsense }").unwrap();
    }
    std::fs::remove_dir_all(dir.path().join("target/ellwand-baseline").join(&kept[3])).unwrap();
    let ran = compare("HEAD~1", &[]);
    assert!(ran.stdout.contains("the baseline failed: it wrote 'an older program'"), "{}{}", ran.stdout, ran.stderr);
    std::fs::remove_dir_all(work.join(".git")).unwrap();
    commit("fn main() { println!(\"a third program\") }");
    // As in CI: only the last commit of another branch is available.
    let third = String::from_utf8(at("git", &["rev-parse", "HEAD"]).stdout).unwrap();
    at("git", &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    at("git", &["reset", "-q", "--soft", "HEAD~1"]);
    std::fs::write(dir.path().join(".git/shallow"), third).unwrap();
    let ran = compare("origin/main", &[]);
    assert!(ran.stdout.contains("the baseline failed: it wrote 'a third program'"), "{}{}", ran.stdout, ran.stderr);
    let bare = tempfile::tempdir().unwrap();
    let fixed = ["compare", "--baseline", "HEAD", "--workload", "double"];
    let output = Command::new(&program).args(fixed).current_dir(bare.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not a git repository"));
}

/// The baseline is this program with a `plain` of half the time. It needs packages next to the repository.
pub(crate) fn a_regression_since_a_revision_fails_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let [root, beside, below] = ["root", "beside", "vendor/below"].map(|name| dir.path().join(name));
    let program = std::env::current_exe().unwrap();
    // This program is built as a benchmark target would be: target/PROFILE/deps/NAME-HASH.
    let (name, _) = program.file_name().unwrap().to_str().unwrap().rsplit_once('-').unwrap();
    let write = |path: std::path::PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let package = |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    write(beside.join("Cargo.toml"), &package("beside"));
    write(beside.join("src/lib.rs"), &format!("pub const FASTER: &str = {:?};", super::FASTER));
    let bin = format!("[lib]\npath = \"lib.rs\"\n[[bench]]\nname = \"{name}\"\npath = \"main.rs\"\nharness = false\n");
    write(below.join("Cargo.toml"), &package("below"));
    write(below.join("src/lib.rs"), "pub fn replace() {}");
    write(root.join("lib.rs"), "");
    let needs =
        "[workspace]\n[dependencies]\nbeside = { path = \"../beside\" }\nbelow = { path = \"../vendor/below\" }\n";
    write(root.join("Cargo.toml"), &(package("toy") + &bin + needs));
    write(root.join(".gitignore"), "target\n");
    let main = "fn main() {\n    use std::os::unix::process::CommandExt;\n    below::replace();\n    let mut real = std::process::Command::new(PROGRAM);\n    \
                let error = real.args(std::env::args_os().skip(1)).env(beside::FASTER, \"1\").exec();\n    panic!(\"{error}\");\n}\n";
    write(root.join("main.rs"), &main.replace("PROGRAM", &format!("{program:?}")));
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
        let mut git = Command::new("git");
        git.args(who).args(args).current_dir(&root);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            git.env_remove(name);
        }
        assert!(git.output().unwrap().status.success(), "git {args:?}");
    };
    git(&["init", "-q"]);
    let commit = || [&["add", "."][..], &["commit", "-qm", "x", "--no-verify"]].map(git);
    commit();
    for (format, part) in [
        ("table", "slower: the work tree takes 2.000x the time of HEAD"),
        ("json", "\"verdict\": \"slower\""),
        ("junit", "failures=\"1\""),
        ("github", "::error title="),
    ] {
        for kept in [&[][..], &["-o", "kept", "--overwrite"]] {
            let fixed = ["compare", "--baseline", "HEAD", "double:plain", "--format", format];
            let mut command = super::this_program(&[&fixed[..], kept].concat());
            let ran = super::ran(command.current_dir(&root).output().unwrap());
            assert_eq!(ran.code, Some(3), "{format} {kept:?}: {}{}", ran.stdout, ran.stderr);
            assert!(ran.stdout.contains(part), "{format} {kept:?}: {}", ran.stdout);
            assert_eq!(root.join("kept/report.md").is_file(), format != "table" || !kept.is_empty());
        }
    }
    let libraries = || {
        let built = std::fs::read_dir(root.join("target/ellwand-baseline/target/debug/deps")).unwrap().flatten();
        let built = built.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "rlib"));
        let mut built: Vec<_> =
            built.map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap())).collect();
        built.sort();
        built
    };
    let before = libraries();
    assert_eq!(before.len(), 3, "of the package and the two beside it: {before:?}");
    write(root.join("main.rs"), &(main.replace("PROGRAM", &format!("{program:?}")) + "// Another revision.\n"));
    commit();
    let compare = || {
        super::ran(
            super::this_program(&["compare", "--baseline", "HEAD", "double:plain"])
                .current_dir(&root)
                .output()
                .unwrap(),
        )
    };
    let ran = compare();
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(libraries(), before, "what both revisions have is compiled once");
    for far in ["../../far", "../../../far", "../../../../far"] {
        let far = format!("far = {{ path = \"{far}\" }}\n");
        write(root.join("Cargo.toml"), &(package("toy") + &bin + needs + &far));
        commit();
        let ran = compare();
        assert_eq!(ran.code, Some(2), "{}{}", ran.stdout, ran.stderr);
        let hint = "path dependencies inside the repository, or in a directory next to it";
        assert!(ran.stderr.contains(hint), "{far}{}", ran.stderr);
    }
}

pub(crate) fn records_suggest_and_never_decide() {
    let dir = tempfile::tempdir().unwrap();
    let record = |name: &str, implementation: &str, more: &[&str], edit: &dyn Fn(String) -> String| {
        let out = dir.path().join(name);
        let out = out.to_str().unwrap();
        let fixed =
            ["run", "double", "-i", implementation, "--effort", "quick", "--no-plot", "--no-ceilings", "-o", out];
        let ran = tell(&[&fixed[..], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let file = format!("{out}/record.jsonl");
        // As a version without checksums would have written it.
        let text = std::fs::read_to_string(&file).unwrap();
        let plain = |line: &str| line.split(",\"crc32\"").next().unwrap().to_string() + "}\n";
        std::fs::write(&file, edit(text.lines().map(plain).collect())).unwrap();
        file
    };
    let same = |text: String| text;
    let plain = record("plain", "plain", &[], &same);
    let again = record("again", "plain", &[], &same);
    // Appears to be the same program a little later.
    let slower = record("slower", "slower", &[], &|text| text.replace("\"slower\"", "\"plain\""));
    let single = record("single", "plain", &["--blocks", "1"], &same);
    let elsewhere = record("elsewhere", "plain", &[], &|text| text.replacen("\"cpu\":\"", "\"cpu\":\"another ", 1));
    let other = record("other", "twin", &[], &same);
    for (base, candidate, more, code, part) in [
        (
            &plain,
            &slower,
            &[][..],
            0,
            "suggests slower: 1.100x the time (processes 1.100 to 1.100), 2.20 ms against 2.00 ms",
        ),
        (&slower, &plain, &[], 0, "suggests faster: 0.909x the time"),
        (&plain, &slower, &["--rope", "20"], 0, "suggests no difference beyond 20 %"),
        (&plain, &again, &[], 0, "suggests no difference beyond 1 %: 1.000x the time"),
        (&plain, &single, &[], 6, "suggests nothing: one process each"),
        (&plain, &elsewhere, &["--across-machines"], 0, "suggests no difference"),
        (&plain, &other, &[], 6, "nothing in common"),
        (&plain, &other, &[], 6, "double/n=3 plain fake: suggests nothing: only the baseline's record has it"),
        (&plain, &other, &[], 6, "twin fake: suggests nothing: only the candidate's record has it"),
        (&plain, &slower, &["--format", "junit"], 0, r#"<skipped message="suggests slower: 1.100x the time"#),
        (
            &slower,
            &plain,
            &["--format", "github"],
            0,
            "::notice title=double/n=3 plain fake::suggests faster: 0.909x the time",
        ),
    ] {
        let ran = tell(&[&["compare", base, candidate], more].concat());
        assert_eq!(ran.code, Some(code), "{candidate}: {}{}", ran.stdout, ran.stderr);
        let part = part.replace("nothing in common", "no case and implementation in common");
        assert!(ran.stdout.contains(&part), "{candidate} does not say '{part}': {}", ran.stdout);
    }
    // A record of a comparison contains two arms.
    let compared = |name: &str, candidate: &str| {
        let out = dir.path().join(name);
        let out = out.to_str().unwrap();
        let ran = tell(&["compare", "double:plain", candidate, "--blocks", "3", "--fail-on", "never", "-o", out]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        out.to_owned()
    };
    let [first, second, third] = [("first", "double:slower"), ("second", "double:slower"), ("third", "double:twin")]
        .map(|(name, candidate)| compared(name, candidate));
    let ran = tell(&["compare", &first, &second]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    for cell in ["double/n=3 plain beside slower: ", "double/n=3 slower beside plain: "] {
        assert!(ran.stdout.contains(&format!("{cell}suggests no difference beyond 1 %")), "{}", ran.stdout);
    }
    let ran = tell(&["compare", &first, &third]);
    assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("plain beside twin: suggests nothing: only the candidate's record has it"),
        "{}",
        ran.stdout
    );
    for (option, value) in [("--blocks", "4"), ("--seed", "3"), ("--time-limit", "9")] {
        let ran = tell(&["compare", &plain, &again, option, value]);
        assert!(ran.code == Some(2) && ran.stderr.contains(option), "{option}: {}", ran.stderr);
        assert!(ran.stderr.contains("nothing is measured"), "{option}: {}", ran.stderr);
    }
    let missing = tell(&["compare", &plain, "nowhere"]);
    assert!(missing.stderr.contains("CANDIDATE: 'nowhere' does not exist"), "{}", missing.stderr);
    let refused = tell(&["compare", &plain, &elsewhere]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("different machines") && refused.stderr.contains("--across-machines"));
}
