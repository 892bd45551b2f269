//! The index in a folder: one SQLite file, which any SQLite client can read.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params, params_from_iter};

use crate::error::StoreError;
use crate::folder::Stamp;
use crate::index::{Index, NewRun, params_text, to_bytes};
use crate::rows::{CellRow, RunRow, run_key};
use crate::schema::{self, VERSION};

pub(crate) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    /// Series that the index is known to hold.
    known: HashSet<i64>,
}

impl Sqlite {
    /// Opens or creates the index. Waits up to `patience` for another process to finish writing.
    pub(crate) fn open(path: &Path, patience: Duration) -> Result<Self, StoreError> {
        Self::with(path, patience, || Connection::open(path))
    }

    /// An empty index in memory, for the folder of the index at `path`.
    pub(crate) fn in_memory(path: &Path) -> Result<Self, StoreError> {
        Self::with(path, Duration::ZERO, Connection::open_in_memory)
    }

    fn with(
        path: &Path,
        patience: Duration,
        connect: impl FnOnce() -> rusqlite::Result<Connection>,
    ) -> Result<Self, StoreError> {
        let open = || -> rusqlite::Result<Option<(Connection, i64)>> {
            let mut connection = connect()?;
            connection.busy_timeout(patience)?;
            // Before the first pragma that changes the file.
            if connection.query_one(FOREIGN, [], |row| row.get(0))? {
                return Ok(None);
            }
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            let found = migrate(&mut connection)?;
            Ok(Some((connection, found)))
        };
        let opened = open().map_err(|error| StoreError::of_sqlite(path, &error))?;
        let Some((connection, found)) = opened else { return Err(StoreError::Foreign(path.display().to_string())) };
        if found > VERSION {
            return Err(StoreError::Newer { place: path.display().to_string(), found, known: VERSION });
        }
        Ok(Self { connection, path: path.to_path_buf(), known: HashSet::new() })
    }

    fn work<T>(&mut self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work(&mut self.connection).map_err(|error| StoreError::of_sqlite(&self.path, &error))
    }
}

/// True for a database of another program: it has tables, but not those that every version of the index has.
const FOREIGN: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)
    AND (SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('run', 'series', 'cell')) < 3";

/// Migrates the schema; returns the version that it found. A later version stays unchanged.
fn migrate(connection: &mut Connection) -> rusqlite::Result<i64> {
    let version = |connection: &Connection| connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let found: i64 = version(connection)?;
    if found >= VERSION {
        return Ok(found);
    }
    let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it in the meantime.
    let found = version(&work)?;
    for step in schema::migrations(found, "WITHOUT ROWID") {
        work.execute_batch(&step)?;
    }
    work.pragma_update(None, "user_version", found.max(VERSION))?;
    work.commit()?;
    Ok(found)
}

/// Inserts runs. Groups the cells of all of them by series, because a page of the index holds cells of one series.
fn insert(work: &Transaction<'_>, runs: &[NewRun], known: &HashSet<i64>) -> rusqlite::Result<Vec<bool>> {
    let added = runs.iter().map(|new| insert_run(work, &new.run, new.file.as_ref()));
    let added = added.collect::<rusqlite::Result<Vec<bool>>>()?;
    let mut cells: Vec<(i64, i64, &CellRow)> = Vec::new();
    for (new, _) in runs.iter().zip(&added).filter(|(_, added)| **added) {
        let key = run_key(&new.run.id);
        for (number, cell) in new.sessions() {
            let row = params![key, number, cell.commit, cell.committed_ms, cell.changed];
            work.prepare_cached(schema::ADD_SESSION)?.execute(row)?;
        }
        cells.extend(new.cells.iter().map(|cell| (cell.series.key(), key, cell)));
    }
    cells.sort_unstable_by_key(|(series, run, _)| (*series, *run));
    let mut add_series = work.prepare_cached(schema::ADD_SERIES)?;
    let mut add_cell = work.prepare_cached(schema::ADD_CELL)?;
    let mut last = None;
    for (series, run, cell) in cells {
        let of = &cell.series;
        if last != Some(series) && !known.contains(&series) {
            let axes = params_text(&of.params);
            add_series.execute(params![series, of.workload, of.case, axes, of.implementation, of.device, of.caches])?;
        }
        last = Some(series);
        add_cell.execute(params![
            series,
            run,
            cell.session,
            cell.baseline,
            cell.status,
            cell.seconds,
            cell.low,
            cell.high,
            to_bytes(&cell.blocks)
        ])?;
    }
    Ok(added)
}

/// Inserts the row of a run; false if it is already there.
fn insert_run(work: &Transaction<'_>, run: &RunRow, file: Option<&Stamp>) -> rusqlite::Result<bool> {
    let added = work.prepare_cached(schema::ADD_RUN)?.execute(params![
        run_key(&run.id),
        run.id,
        run.started_ms,
        run.commit,
        run.committed_ms,
        run.changed,
        run.machine,
        run.cpu,
        run.cores,
        run.ellwand,
        run.command,
        run.cells,
        file.map(|file| &file.name),
        file.map(|file| file.bytes),
        file.map(|file| file.modified_ns),
    ])?;
    Ok(added > 0)
}

impl Index for Sqlite {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn add(&mut self, runs: &[NewRun]) -> Result<Vec<bool>, StoreError> {
        let known = std::mem::take(&mut self.known);
        let added = self.work(|connection| {
            let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let added = insert(&work, runs, &known)?;
            work.commit()?;
            Ok(added)
        });
        self.known = known;
        for (new, _) in runs.iter().zip(added.iter().flatten()).filter(|(_, added)| **added) {
            self.known.extend(new.cells.iter().map(|cell| cell.series.key()));
        }
        added
    }

    fn ask(&mut self, sql: &str, parameter: Option<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        let read = |row: &Row<'_>| (0..row.as_ref().column_count()).map(|at| row.get(at)).collect();
        self.work(|connection| connection.prepare_cached(sql)?.query_map(params_from_iter(parameter), read)?.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::rows::Series;

    fn run(id: &str) -> RunRow {
        RunRow {
            id: id.into(),
            started_ms: 1,
            commit: None,
            committed_ms: None,
            changed: false,
            machine: "m".into(),
            cpu: "c".into(),
            cores: 1,
            ellwand: "0".into(),
            command: "run".into(),
            cells: 0,
        }
    }

    fn cells(count: usize) -> Vec<CellRow> {
        let series = |n: usize| Series {
            workload: "w".into(),
            case: format!("w/n={n}"),
            params: BTreeMap::new(),
            implementation: "i".into(),
            device: "cpu".into(),
            caches: "warm".into(),
        };
        let cell = |n| CellRow {
            series: series(n),
            baseline: "i".into(),
            session: 0,
            status: "measured".into(),
            seconds: Some(1.5e-6),
            low: None,
            high: Some(2e-6),
            blocks: vec![-13.5, -13.25],
            commit: None,
            committed_ms: None,
            changed: false,
        };
        (0..count).map(cell).collect()
    }

    fn new(id: &str, count: usize) -> [NewRun; 1] {
        [NewRun { run: run(id), cells: cells(count), file: None }]
    }

    #[test]
    fn a_full_disk_adds_all_of_a_run_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.sqlite");
        let mut index = Sqlite::open(&path, Duration::ZERO).unwrap();
        assert_eq!(index.add(&new("small", 2)).unwrap(), [true]);
        // A database that may not grow counts as full.
        let pages: i64 = index.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        index.connection.pragma_update(None, "max_page_count", pages + 1).unwrap();
        let error = index.add(&new("large", 3000)).unwrap_err();
        assert!(matches!(error, StoreError::Full(_)) && error.to_string().contains("make room"), "{error}");
        let mut index = Sqlite::open(&path, Duration::ZERO).unwrap();
        assert_eq!(index.runs().unwrap(), [run("small")]);
        assert_eq!(index.add(&new("large", 3000)).unwrap(), [true], "there is room now");
        assert_eq!(index.cells("large").unwrap().len(), 3000);
    }

    #[test]
    fn rows_come_back_as_they_were_and_go_with_their_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut index = Sqlite::open(&dir.path().join("index.sqlite"), Duration::ZERO).unwrap();
        // The second and third run equal the first, so it is inserted once.
        let runs = [new("a", 2), new("a", 2)].concat();
        assert_eq!(index.add(&runs).unwrap(), [true, false]);
        assert_eq!(index.add(&new("a", 2)).unwrap(), [false]);
        assert_eq!(index.cells("a").unwrap(), cells(2));
        assert_eq!(index.points(cells(1)[0].series.key()).unwrap()[0].blocks, [-13.5, -13.25]);
        let plain: i64 = index
            .connection
            .query_row("SELECT COUNT(*) FROM history WHERE workload = 'w'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(plain, 2, "the view is for plain SQL");
        index.remove("a").unwrap();
        assert!(index.points(cells(1)[0].series.key()).unwrap().is_empty());
    }
}
