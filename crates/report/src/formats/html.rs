//! HTML: one offline page that shows the model.

use std::io::Write;

use serde_json::{Value, json};

use super::json::Whole;
use super::readings::{self, Block};
use super::spans;
use crate::grid::Column;
use crate::model::Section;
use crate::model::curves::curves;
use crate::model::roofline::rooflines;
use crate::{Report, ReportError};

/// Writes the page of a report, with the views of its domains.
///
/// # Errors
/// When `out` fails.
pub fn write(report: &Report, out: &mut dyn Write) -> Result<(), ReportError> {
    Ok(ellwand_page::run_page(&page_model(report)?, out)?)
}

/// The data of the page: the JSON of a report, its views, and its tables of readings and components as text.
///
/// # Errors
/// When the report cannot be written as JSON.
pub fn page_model(report: &Report) -> Result<Value, ReportError> {
    let mut model = serde_json::to_value(Whole::of(report))?;
    if let Some(model) = model.as_object_mut() {
        model.insert("views".into(), serde_json::to_value(&report.views)?);
        let curves = [rooflines(report), curves(report)].concat();
        model.insert("curves".into(), serde_json::to_value(curves)?);
        model.insert("readings".into(), report.workloads.iter().map(|section| tables(report, section)).collect());
        let spans = |table| json!({ "columns": text(&spans::columns(table, false)), "terms": spans::terms(table) });
        model.insert("span_tables".into(), report.spans.iter().map(spans).collect());
    }
    Ok(model)
}

/// The tables of readings of a section, as text.
fn tables(report: &Report, section: &Section) -> Value {
    // The page's table of results has no columns of readings.
    let tables = readings::tables_without(report, section, &[]);
    let table = |block: Block| {
        let columns = text(&block.columns);
        (!block.is_empty()).then(|| json!({ "title": block.title, "fixed": block.fixed, "columns": columns }))
    };
    [tables.alike, tables.implementations].into_iter().filter_map(table).collect()
}

fn text(columns: &[Column]) -> Value {
    columns.iter().map(|column| json!({ "head": column.head, "right": column.right, "cells": column.cells })).collect()
}
