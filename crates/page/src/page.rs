//! Writes the page: a template with the style, the data and the scripts.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::columns::{pack, pack_json};
use crate::document::{Document, PageError};

const TEMPLATE: &str = include_str!("../web/page.html");
const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/page.js"));
const SCRIPT_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/script.sha256"));
const STYLE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.css"));
const STYLE_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/style.sha256"));
const CHARTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plotly.deflate"));
const CHARTS_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/charts.sha256"));

/// The hash of the empty text: Plotly.js adds an empty style element and fills it through the object model.
const EMPTY_HASH: &str = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

/// Longest title in characters; the page itself shows longer names shortened too.
const TITLE: usize = 120;

/// What a page shows in addition to the profile.
#[derive(Debug, Default, Clone, Copy)]
pub struct Extras<'a> {
    /// Findings in the order in which the page lists them, as `ellwand_trace::ProfileFinding` serialises: `rule`, `title`,
    /// `evidence` (`name`, `value`, `unit`), `threshold`, `confidence`, `saving_upper_bound`, `next_experiment`,
    /// `operations`, `ranges` (pairs of nanoseconds).
    pub findings: &'a [Value],
    /// The profile to compare with (A); the page's own profile is B.
    pub baseline: Option<&'a Document>,
    /// How the page's own profile differs from the baseline, as `ellwand_trace::Diff` serialises.
    pub difference: Option<&'a Value>,
}

/// Writes the page of a profile.
///
/// # Errors
/// [`PageError::Write`] if `out` fails.
pub fn profile_page(document: &Document, extras: &Extras<'_>, out: &mut dyn Write) -> Result<(), PageError> {
    let about = serde_json::json!({ "findings": extras.findings, "difference": extras.difference });
    let mut data = vec![("data", pack(document)?), ("extras", pack_json(&about).map_err(PageError::Write)?)];
    if let Some(baseline) = extras.baseline {
        data.push(("baseline", pack(baseline)?));
    }
    let name = document.head.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    write(name.unwrap_or("Profile"), "profile", &data, out)
}

/// Writes the page of a report: the JSON model that `ellwand report --format json` prints.
///
/// # Errors
/// [`PageError::Format`] if `json` is not an object, [`PageError::Write`] if `out` fails.
pub fn run_page(json: &Value, out: &mut dyn Write) -> Result<(), PageError> {
    if !json.is_object() {
        return Err(PageError::Format("expected the JSON object that `ellwand report --format json` prints".into()));
    }
    write("Report", "run", &[("data", pack_json(json)?)], out)
}

/// Writes the page of a trend: the JSON of `ellwand history trend --format json`, with a title and names for each line.
///
/// # Errors
/// [`PageError::Format`] if `json` is not an object, [`PageError::Write`] if `out` fails.
pub fn history_page(json: &Value, out: &mut dyn Write) -> Result<(), PageError> {
    if !json.is_object() {
        return Err(PageError::Format("expected a JSON object with the lines of a trend".into()));
    }
    write("Trend", "history", &[("data", pack_json(json)?)], out)
}

fn write(name: &str, kind: &str, data: &[(&str, Vec<u8>)], out: &mut dyn Write) -> Result<(), PageError> {
    let title: String = name.chars().filter(|c| !c.is_control()).take(TITLE).collect();
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        out.write_all(before.as_bytes())?;
        let (slot, after) = after.split_once("}}").unwrap_or((after, ""));
        rest = after;
        match slot {
            "title" => out.write_all(escaped(&title).as_bytes())?,
            "kind" => out.write_all(kind.as_bytes())?,
            "policy" => {
                write!(out, "script-src '{SCRIPT_HASH}' '{CHARTS_HASH}'; style-src '{STYLE_HASH}' '{EMPTY_HASH}'")?
            }
            "style" => out.write_all(STYLE.as_bytes())?,
            "charts" => out.write_all(STANDARD.encode(CHARTS).as_bytes())?,
            "script" => out.write_all(SCRIPT.as_bytes())?,
            "data" => {
                for (id, bytes) in data {
                    // The browser never runs a script element of another type than JavaScript, and base64 cannot end
                    // the element.
                    write!(out, "<script type=\"text/plain\" id=\"ellwand-{id}\">")?;
                    out.write_all(STANDARD.encode(bytes).as_bytes())?;
                    out.write_all(b"</script>\n")?;
                }
            }
            _ => {}
        }
    }
    out.write_all(rest.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
