//! Reading a profile, and what its page holds, without a browser.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod common;

use std::io::Read;

use base64::Engine;
use common::golden;
use ellwand_page::{Document, Extras, PageError, profile_page};
use proptest::prelude::*;
use serde_json::{Value, json};

#[path = "../build/bundle.rs"]
mod bundle;

fn page(document: &Value) -> String {
    let document = Document::from_json(document.to_string().as_bytes()).unwrap();
    let mut out = Vec::new();
    profile_page(&document, &Extras::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_failing_writer_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let document = Document::from_json(golden::document().to_string().as_bytes()).unwrap();
    let error = profile_page(&document, &Extras::default(), &mut Full).unwrap_err();
    assert!(matches!(error, PageError::Write(_)), "{error}");
}

#[test]
fn the_same_profile_gives_the_same_bytes_and_its_names_no_markup() {
    let first = page(&golden::document());
    assert_eq!(first, page(&golden::document()));
    let head = first.split("<style>").next().unwrap();
    assert!(head.contains("golden &lt;/title&gt;&lt;script&gt;alert(1)"), "{head}");
    // Two data elements, the library, and the page's own script: no name has opened another.
    assert_eq!(first.matches("<script").count() - first.matches("\"<script").count(), 4);
    assert!(!head.contains("unsafe"));
}

#[test]
fn an_import_of_a_missing_name_and_a_circle_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.js", "import { one } from \"./b.js\";\nexport const two = one;\n");
    write("b.js", "export const one = 1;\n");
    let script = bundle::bundle(folder.path(), "a.js").unwrap();
    assert!(
        script.contains("const m_b = (() =>") && script.contains("const {one} = m_b;") && !script.contains("import")
    );
    write("b.js", "export const other = 1;\n");
    assert!(bundle::bundle(folder.path(), "a.js").unwrap_err().contains("imports one, which b.js does not export"));
    write("b.js", "import { two } from \"./a.js\";\nexport const one = two;\n");
    assert!(bundle::bundle(folder.path(), "a.js").unwrap_err().contains("imports itself"));
}

/// The payload of the page's own data: the JSON head and the bytes of the columns.
fn payload(page: &str) -> (Value, Vec<u8>) {
    let text = page.split("id=\"ellwand-data\">").nth(1).unwrap().split('<').next().unwrap();
    let packed = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let mut bytes = Vec::new();
    flate2::read::DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    (serde_json::from_slice(&bytes[4..4 + length]).unwrap(), bytes[4 + length..].to_vec())
}

/// The values of a column of 32-bit integers or, if it is `wide`, of doubles.
fn values(bytes: &[u8], wide: bool) -> Vec<f64> {
    match wide {
        true => bytes.chunks(8).map(|eight| f64::from_le_bytes(eight.try_into().unwrap())).collect(),
        false => bytes.chunks(4).map(|four| f64::from(i32::from_le_bytes(four.try_into().unwrap()))).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn times_in_ticks_come_back_as_they_were(
        ticks in prop::collection::vec((0_u64..1 << 40, prop::option::of(0_u64..1 << 44)), 1..40),
        ns_per_tick in prop_oneof![Just(1.0), Just(0.5), Just(0.385_208), Just(10.0)],
    ) {
        let mut starts: Vec<u64> = ticks.iter().map(|(start, _)| *start).collect();
        starts.sort_unstable();
        let ns = |ticks: u64| ticks as f64 * ns_per_tick;
        let document = json!({
            "format": "ellwand profile", "version": 1, "clock": {"ns_per_tick": ns_per_tick},
            "operations": [{"name": "a"}], "lanes": [{"name": "main"}],
            "entries": {
                "operation": vec![0; starts.len()], "lane": vec![0; starts.len()],
                "start_ns": starts.iter().map(|start| ns(*start)).collect::<Vec<_>>(),
                "duration_ns": ticks.iter().map(|(_, duration)| duration.map(ns)).collect::<Vec<_>>(),
            },
        });
        let (head, bytes) = payload(&page(&document));
        let quantum = head["quantum_ns"].as_f64().unwrap();
        let mut at = 0;
        let mut columns = std::collections::BTreeMap::new();
        for column in head["columns"].as_array().unwrap() {
            let length = column[2].as_u64().unwrap() as usize;
            let values = values(&bytes[at..at + length], column[1].as_bool().unwrap());
            columns.insert(column[0].as_str().unwrap().to_string(), values);
            at += length;
        }
        prop_assert_eq!(at, bytes.len());
        let mut now = 0.0;
        for (difference, start) in columns["start"].iter().zip(&starts) {
            now += difference;
            prop_assert!((now * quantum - ns(*start)).abs() < 1e-3);
        }
        for (value, (_, duration)) in columns["duration"].iter().zip(&ticks) {
            match duration {
                None => prop_assert_eq!(*value, -1.0),
                Some(ticks) => prop_assert!((value * quantum - ns(*ticks)).abs() < 1e-3),
            }
        }
    }
}
