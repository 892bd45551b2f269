//! HTML: one offline page that shows the model.

use std::io::Write;

use serde_json::{Value, json};

use super::json::Whole;
use super::readings::{self, Block};
use crate::model::Section;
use crate::model::curves::curves;
use crate::{Report, ReportError};

/// Writes the page of a report, with the views of its domains.
///
/// # Errors
/// When `out` fails.
pub fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    let mut model = serde_json::to_value(Whole::of(report))?;
    if let Some(model) = model.as_object_mut() {
        model.insert("views".into(), serde_json::to_value(&report.views)?);
        model.insert("curves".into(), serde_json::to_value(curves(report))?);
        model.insert("readings".into(), report.workloads.iter().map(|section| tables(report, section)).collect());
    }
    Ok(ellwand_page::run_page(&model, out)?)
}

/// The tables of readings of a section, as text.
fn tables(report: &Report, section: &Section) -> Value {
    let tables = readings::tables(report, section);
    let shared = if tables.shared { "Readings shared by all implementations of a case" } else { "Readings" };
    let table = |(title, block): (&str, Block)| {
        let columns: Vec<Value> = (block.columns.iter())
            .map(|column| json!({ "head": column.head, "right": column.right, "cells": column.cells }))
            .collect();
        (!block.is_empty()).then(|| json!({ "title": title, "fixed": block.fixed, "columns": columns }))
    };
    [(shared, tables.alike), ("Readings by implementation", tables.implementations)]
        .into_iter()
        .filter_map(table)
        .collect()
}
