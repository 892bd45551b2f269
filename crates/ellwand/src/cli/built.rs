//! How cargo built this program, so that the baseline is built the same way.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;

use super::bench;

pub(super) const BENCH: &str = "--bench";
pub(super) const EXAMPLE: &str = "--example";

/// The kind of cargo target that the program is, as an argument of cargo, and its name.
pub(super) fn target(program: &Path) -> (&'static str, String) {
    if let Some(name) = bench::target(program) {
        return (BENCH, name.to_string());
    }
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let kind = if folder(program).is_some_and(|(_, within)| within == Some("examples")) { EXAMPLE } else { "--bin" };
    (kind, name)
}

/// The folder of a profile in cargo's target directory, and the folder in it that holds the program, if any.
fn folder(program: &Path) -> Option<(&Path, Option<&str>)> {
    let parent = program.parent()?;
    let within = ["deps", "examples"].into_iter().find(|name| parent.ends_with(name));
    let folder = if within.is_some() { parent.parent()? } else { parent };
    folder.join(".fingerprint").is_dir().then_some((folder, within))
}

/// The arguments of cargo besides the target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Built {
    /// The profile, or all arguments that the user gave.
    pub(super) args: Vec<String>,
    /// The package whose features differ from the defaults.
    pub(super) package: Option<Package>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) features: Vec<String>,
    pub(super) without_default: bool,
}

impl Built {
    /// `given` replaces what the location of the program implies.
    pub(super) fn of(program: &Path, given: Option<&str>) -> Self {
        if let Some(given) = given {
            return Self { args: given.split_whitespace().map(ToString::to_string).collect(), package: None };
        }
        let found = folder(program);
        let profile = match found.and_then(|(folder, _)| folder.file_name()?.to_str()) {
            Some("debug") => "dev",
            Some("release") if found.is_some_and(|(_, within)| within == Some("deps")) => "bench",
            Some(other) => other,
            None if cfg!(debug_assertions) => "dev",
            None => "release",
        };
        Self {
            args: vec!["--profile".into(), profile.into()],
            package: found.and_then(|found| package(found, program)),
        }
    }

    pub(super) fn is_debug(&self) -> bool {
        self.args.iter().any(|arg| arg == "dev")
    }
}

/// Package and features of the program, from cargo's files in its target directory; `None` if they are the defaults, or
/// if cargo stores them differently.
fn package((folder, within): (&Path, Option<&str>), program: &Path) -> Option<Package> {
    let of = |path: &Path| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    let this = of(program)?;
    // A program is a hard link to deps/NAME-HASH, an example to examples/NAME-HASH.
    let all = folder.join(within.unwrap_or("deps")).read_dir().ok()?.flatten().map(|entry| entry.path());
    let linked = all.filter(|path| of(path) == Some(this)).find_map(|path| {
        let (_, hash) = path.file_stem()?.to_str()?.rsplit_once('-')?;
        (hash.len() == 16).then(|| hash.to_string())
    });
    let hash = linked.as_deref()?;
    let mut all = folder.join(".fingerprint").read_dir().ok()?.flatten().map(|entry| entry.path());
    let (at, name) = all.find_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(hash)?.strip_suffix('-')?.to_string();
        Some((path, name))
    })?;
    let read = |path: &Path| serde_json::from_slice::<Value>(&std::fs::read(path).ok()?).ok();
    let mut files = at.read_dir().ok()?.flatten().map(|entry| entry.path());
    let json = files.find(|path| path.extension().is_some_and(|kind| kind == "json")).and_then(|path| read(&path))?;
    let list = |key: &str| serde_json::from_str::<Vec<String>>(json[key].as_str()?).ok();
    let (mut features, declared) = (list("features")?, list("declared_features").unwrap_or_default());
    let default = |all: &[String]| all.iter().any(|name| name == "default");
    let without_default = default(&declared) && !default(&features);
    features.retain(|name| name != "default");
    (without_default || !features.is_empty()).then_some(Package { name, features, without_default })
}

/// The arguments for the package in cargo's `metadata`, and the features that it lacks there.
pub(super) fn features(package: &Package, metadata: &[u8]) -> (Vec<String>, Vec<String>) {
    let all = serde_json::from_slice::<Value>(metadata).unwrap_or_default();
    let mut packages = all["packages"].as_array().into_iter().flatten();
    let Some(there) = packages.find(|there| there["name"] == package.name.as_str()) else {
        return Default::default();
    };
    let (known, lacking): (Vec<String>, Vec<String>) =
        package.features.iter().cloned().partition(|name| there["features"].get(name).is_some());
    let mut args = vec!["--package".to_string(), package.name.clone()];
    if package.without_default {
        args.push("--no-default-features".into());
    }
    if !known.is_empty() {
        args.extend(["--features".into(), known.join(",")]);
    }
    (args, lacking)
}

/// The directory of a build below that of its commit; empty for the default build.
pub(super) fn key(built: &Built) -> String {
    if built.package.is_none() && matches!(built.args.join(" ").as_str(), "--profile release" | "--profile bench") {
        return String::new();
    }
    let mut hash = ellwand_core::case::Fnv::new();
    hash.text(&format!("{built:?}"));
    format!("{:016x}", hash.finish())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn profile_and_features_are_those_of_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let place = |profile: &str, features: &str| {
            let folder = dir.path().join(profile);
            let fingerprint = folder.join(".fingerprint/toy-0123456789abcdef");
            std::fs::create_dir_all(&fingerprint).unwrap();
            std::fs::create_dir_all(folder.join("deps")).unwrap();
            let json = format!(r#"{{"features":{features:?},"declared_features":"[\"default\", \"a\", \"b\"]"}}"#);
            std::fs::write(fingerprint.join("bin-my-toy.json"), json).unwrap();
            std::fs::write(folder.join("deps/my_toy-0123456789abcdef"), "").unwrap();
            let program = folder.join("my-toy");
            std::fs::hard_link(folder.join("deps/my_toy-0123456789abcdef"), &program).unwrap();
            std::fs::create_dir_all(folder.join("examples")).unwrap();
            for example in ["my-toy", "my_toy-0123456789abcdef"] {
                std::fs::hard_link(&program, folder.join("examples").join(example)).unwrap();
            }
            program
        };
        let usual = place("release", r#"["default"]"#);
        assert_eq!(key(&Built::of(&usual, None)), "");
        let metadata = br#"{"packages": [{"name": "other"}, {"name": "toy", "features": {"a": [], "c": []}}]}"#;
        let built = Built::of(&place("debug", r#"["a", "b"]"#), None);
        assert!(built.is_debug() && key(&built).len() == 16);
        let (args, lacking) = features(built.package.as_ref().unwrap(), metadata);
        assert_eq!(args.join(" "), "--package toy --no-default-features --features a");
        assert_eq!(lacking, ["b"]);
        for folder in ["release", "debug"] {
            let [bin, example] = ["my-toy", "examples/my-toy"].map(|name| dir.path().join(folder).join(name));
            assert_eq!(Built::of(&example, None), Built::of(&bin, None), "{folder}");
            assert_eq!([&bin, &example].map(|path| target(path).0), ["--bin", EXAMPLE]);
        }
        let fast = Built::of(&place("fast", r#"["default"]"#), None);
        assert_eq!(fast, Built { args: vec!["--profile".into(), "fast".into()], package: None });
        let given = Built::of(&usual, Some("--release  --features a"));
        assert_eq!(given.args, ["--release", "--features", "a"]);
        assert!(key(&given) != key(&fast));
    }

    /// The default features are known from every build with one of them.
    #[test]
    fn this_program_shows_its_own_features() {
        let built = Built::of(&std::env::current_exe().unwrap(), None);
        let shown =
            built.package.is_some_and(|package| package.name == "ellwand" && package.features.contains(&"page".into()));
        assert_eq!(shown, cfg!(feature = "page"));
    }
}
