//! Joins the page's modules, compresses Plotly.js, and hashes every script and style for the content security policy.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::DeflateEncoder};
use hmac_sha256::Hash;

#[path = "build/bundle.rs"]
mod bundle;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    println!("cargo::rerun-if-changed=web");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let script = bundle::bundle(Path::new("web/js"), "main.js")?;
    let style = fs::read_to_string("web/page.css")?;
    let charts = plotly_source()?;
    let packed = out.join("plotly.deflate");
    let mark = format!("{}-{}", env!("CARGO_PKG_VERSION"), hash(&charts));
    if !packed.exists() || fs::read_to_string(out.join("plotly.mark")).ok().as_deref() != Some(&mark) {
        fs::write(&packed, deflate(charts.as_bytes())?)?;
        fs::write(out.join("plotly.mark"), mark)?;
    }
    for (name, text) in [("script", &script), ("style", &style), ("charts", &charts)] {
        fs::write(out.join(format!("{name}.sha256")), hash(text))?;
    }
    fs::write(out.join("page.js"), script)?;
    fs::write(out.join("page.css"), style)?;
    Ok(())
}

/// The text of Plotly.js from the script tags that the crate returns; MathJax is the second one and is dropped.
fn plotly_source() -> Outcome<String> {
    let tags = plotly::Plot::offline_js_sources();
    let start = tags.find("<script").and_then(|tag| Some(tag + tags.get(tag..)?.find('>')? + 1));
    let source = start.and_then(|start| tags.get(start..)?.split_once("</script>")).map(|(source, _)| source);
    let source = source.filter(|source| source.get(..200).is_some_and(|head| head.contains("plotly.js v")));
    Ok(source.ok_or("the crate plotly no longer returns Plotly.js as its first script")?.to_string())
}

fn deflate(bytes: &[u8]) -> Outcome<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Hash::hash(text.as_bytes())))
}
