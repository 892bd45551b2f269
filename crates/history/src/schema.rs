//! The tables of the index and its queries: the same SQL for SQLite and PostgreSQL.

/// The file name of the index in a folder of records.
pub const INDEX: &str = "index.sqlite";

/// Version of the schema that this program writes.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;

/// The migrations from each version to the next. Version 2 adds the commits of the commands that resumed a run; a
/// folder's index then reads their records again. `{clustered}` stores the rows of a series next to each other in
/// SQLite.
const MIGRATIONS: &[&str] = &["
CREATE TABLE run (
    key BIGINT NOT NULL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    started_ms BIGINT NOT NULL,
    revision TEXT,
    committed_ms BIGINT,
    changed BIGINT NOT NULL,
    machine TEXT NOT NULL,
    cpu TEXT NOT NULL,
    cores BIGINT NOT NULL,
    ellwand TEXT NOT NULL,
    command TEXT NOT NULL,
    cells BIGINT NOT NULL,
    file TEXT,
    bytes BIGINT,
    modified_ns BIGINT
);
CREATE TABLE series (
    key BIGINT NOT NULL PRIMARY KEY,
    workload TEXT NOT NULL,
    case_id TEXT NOT NULL,
    params TEXT NOT NULL,
    implementation TEXT NOT NULL,
    device TEXT NOT NULL,
    caches TEXT NOT NULL
);
CREATE INDEX series_by_workload ON series (workload);
CREATE TABLE cell (
    series BIGINT NOT NULL REFERENCES series (key),
    run BIGINT NOT NULL REFERENCES run (key) ON DELETE CASCADE,
    session BIGINT NOT NULL,
    baseline TEXT NOT NULL,
    status TEXT NOT NULL,
    seconds DOUBLE PRECISION,
    low DOUBLE PRECISION,
    high DOUBLE PRECISION,
    blocks BYTEA NOT NULL,
    PRIMARY KEY (series, run)
) {clustered};
CREATE INDEX cell_by_run ON cell (run);
CREATE VIEW history AS
    SELECT run.id AS run, run.started_ms, run.revision, run.machine, series.workload, series.case_id,
           series.implementation, series.device, series.caches, cell.status, cell.seconds, cell.low, cell.high
    FROM cell JOIN run ON run.key = cell.run JOIN series ON series.key = cell.series;
",
"
CREATE TABLE session (
    run BIGINT NOT NULL REFERENCES run (key) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    revision TEXT,
    committed_ms BIGINT,
    changed BIGINT NOT NULL,
    PRIMARY KEY (run, number)
) {clustered};
DROP VIEW history;
CREATE VIEW history AS
    SELECT run.id AS run, run.started_ms, CASE WHEN session.run IS NULL THEN run.revision ELSE session.revision END AS revision,
           run.machine, series.workload, series.case_id, series.implementation, series.device, series.caches, cell.status,
           cell.seconds, cell.low, cell.high
    FROM cell JOIN run ON run.key = cell.run JOIN series ON series.key = cell.series
    LEFT JOIN session ON session.run = cell.run AND session.number = cell.session;
UPDATE run SET bytes = -1 WHERE bytes IS NOT NULL AND key IN (SELECT run FROM cell WHERE session > 0);
"];

/// The statements that migrate from version `from` to [`VERSION`].
pub(crate) fn migrations(from: i64, clustered: &str) -> Vec<String> {
    let done = usize::try_from(from).unwrap_or(0);
    MIGRATIONS.iter().skip(done).map(|sql| sql.replace("{clustered}", clustered)).collect()
}

// SQLite numbers `$1` by its first appearance, so parameters appear in order.
pub(crate) const ADD_RUN: &str = "INSERT INTO run (key, id, started_ms, revision, committed_ms, changed, machine, cpu, \
    cores, ellwand, command, cells, file, bytes, modified_ns) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING";
pub(crate) const ADD_SERIES: &str = "INSERT INTO series (key, workload, case_id, params, implementation, device, caches) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
pub(crate) const ADD_CELL: &str = "INSERT INTO cell (series, run, session, baseline, status, seconds, low, high, blocks) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
pub(crate) const ADD_SESSION: &str = "INSERT INTO session (run, number, revision, committed_ms, changed) \
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
pub(crate) const REMOVE_RUN: &str = "DELETE FROM run WHERE key = $1";
pub(crate) const FILES: &str = "SELECT id, file, bytes, modified_ns FROM run WHERE file IS NOT NULL";
pub(crate) const RUNS: &str = "SELECT id, started_ms, revision, committed_ms, changed, machine, cpu, cores, ellwand, \
    command, cells FROM run ORDER BY COALESCE(committed_ms, started_ms), started_ms, id";
pub(crate) const RUN: &str = "SELECT id, started_ms, revision, committed_ms, changed, machine, cpu, cores, ellwand, \
    command, cells FROM run WHERE key = $1";
pub(crate) const MACHINES: &str = "SELECT DISTINCT machine, cpu, cores FROM run ORDER BY machine";
pub(crate) const SERIES: &str = "SELECT workload, case_id, params, implementation, device, caches FROM series \
    WHERE workload = $1 ORDER BY case_id, implementation, device, caches";
pub(crate) const WORKLOADS: &str = "SELECT DISTINCT workload FROM series ORDER BY workload";
pub(crate) const CELLS: &str = "SELECT workload, case_id, params, implementation, device, caches, baseline, session, \
    status, seconds, low, high, blocks, \
    CASE WHEN session.run IS NULL THEN run.revision ELSE session.revision END, \
    CASE WHEN session.run IS NULL THEN run.committed_ms ELSE session.committed_ms END, \
    CASE WHEN session.run IS NULL THEN run.changed ELSE session.changed END \
    FROM cell JOIN series ON series.key = cell.series JOIN run ON run.key = cell.run \
    LEFT JOIN session ON session.run = cell.run AND session.number = cell.session WHERE cell.run = $1 \
    ORDER BY workload, case_id, implementation, device, caches";
pub(crate) const POINTS: &str = "SELECT run.id, run.started_ms, \
    CASE WHEN session.run IS NULL THEN run.revision ELSE session.revision END, \
    CASE WHEN session.run IS NULL THEN run.committed_ms ELSE session.committed_ms END, \
    CASE WHEN session.run IS NULL THEN run.changed ELSE session.changed END, run.machine, \
    cell.session, cell.baseline, cell.seconds, cell.low, cell.high, cell.blocks FROM cell JOIN run ON run.key = cell.run \
    LEFT JOIN session ON session.run = cell.run AND session.number = cell.session \
    WHERE cell.series = $1 AND cell.seconds IS NOT NULL";
pub(crate) const FAILURES: &str = "SELECT run.machine, run.started_ms, \
    CASE WHEN session.run IS NULL THEN run.committed_ms ELSE session.committed_ms END FROM cell \
    JOIN run ON run.key = cell.run LEFT JOIN session ON session.run = cell.run AND session.number = cell.session \
    WHERE cell.series = $1 AND cell.status IN ('wrong', 'failed')";
