//! The index in PostgreSQL, for many writers: the same tables as in a folder's index, in the schema `ellwand`.
//!
//! A run is inserted once by its id, in one transaction. The connection is not encrypted.

use postgres::error::SqlState;
use postgres::types::Type;
use postgres::{Client, NoTls, Row};
use rusqlite::types::Value;

use crate::error::StoreError;
use crate::index::{Index, NewRun, params_text, to_bytes};
use crate::rows::{CellRow, Series, run_key};
use crate::schema::{self, VERSION};

pub(crate) struct Postgres {
    client: Client,
    /// The address without the password.
    place: String,
}

const SET_UP: &str = "
    CREATE SCHEMA IF NOT EXISTS ellwand;
    SET search_path TO ellwand;
    CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)";

impl Postgres {
    pub(crate) fn connect(url: &str) -> Result<Self, StoreError> {
        let place = without_password(url);
        let mut client = Client::connect(url, NoTls).map_err(|error| of_postgres(&place, &error))?;
        let found = migrate(&mut client).map_err(|error| of_postgres(&place, &error))?;
        if found > VERSION {
            return Err(StoreError::Newer { place, found, known: VERSION });
        }
        Ok(Self { client, place })
    }
}

/// Migrates the schema under a lock; returns the version that it found. A later version stays unchanged.
fn migrate(client: &mut Client) -> Result<i64, postgres::Error> {
    let mut work = client.transaction()?;
    // Without the lock, two clients that begin a history at the same time would both make its tables.
    work.batch_execute("SELECT pg_advisory_xact_lock(hashtext('ellwand history'))")?;
    work.batch_execute(SET_UP)?;
    let found = work.query_opt("SELECT version FROM schema_version", &[])?.map_or(Ok(0), |row| row.try_get(0))?;
    if found < VERSION {
        for step in schema::migrations(found, "") {
            work.batch_execute(&step)?;
        }
        work.execute("DELETE FROM schema_version", &[])?;
        work.execute("INSERT INTO schema_version VALUES ($1)", &[&VERSION])?;
    }
    work.commit()?;
    Ok(found)
}

fn of_postgres(place: &str, error: &postgres::Error) -> StoreError {
    let place = place.to_string();
    let problem = error.as_db_error().map_or_else(|| cause(error), |known| known.message().to_string());
    match error.code() {
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION | &SqlState::INSUFFICIENT_PRIVILEGE) => StoreError::Other {
            place,
            problem: format!("{problem}; the user needs the rights to create and write the schema ellwand"),
        },
        Some(&SqlState::DISK_FULL) => StoreError::Full(place),
        _ => StoreError::Other { place, problem },
    }
}

/// An error with its causes, because the error alone does not name the cause.
fn cause(error: &postgres::Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// An address for messages.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "the PostgreSQL server".to_string() };
    match rest.rsplit_once('@') {
        Some((user, host)) => format!("{scheme}://{}@{host}", user.split(':').next().unwrap_or_default()),
        None => url.to_string(),
    }
}

/// One column of many rows.
fn column<T>(cells: &[CellRow], of: impl FnMut(&CellRow) -> T) -> Vec<T> {
    cells.iter().map(of).collect()
}

fn insert(client: &mut Client, new: &NewRun) -> Result<bool, postgres::Error> {
    let NewRun { run, cells, .. } = new;
    let key = run_key(&run.id);
    let mut work = client.transaction()?;
    let changed = i64::from(run.changed);
    let (file, bytes, modified): (Option<String>, Option<i64>, Option<i64>) = (None, None, None);
    let added = work.execute(
        schema::ADD_RUN,
        &[
            &key,
            &run.id,
            &run.started_ms,
            &run.commit,
            &run.committed_ms,
            &changed,
            &run.machine,
            &run.cpu,
            &run.cores,
            &run.ellwand,
            &run.command,
            &run.cells,
            &file,
            &bytes,
            &modified,
        ],
    )?;
    if added == 0 {
        return Ok(false);
    }
    for (number, cell) in new.sessions() {
        let changed = i64::from(cell.changed);
        work.execute(schema::ADD_SESSION, &[&key, &number, &cell.commit, &cell.committed_ms, &changed])?;
    }
    // Columns as arrays: one round trip to the server for all rows.
    let of = |read: fn(&Series) -> &String| column(cells, |cell| read(&cell.series).clone());
    let keys = column(cells, |cell| cell.series.key());
    work.execute(
        "INSERT INTO series (key, workload, case_id, params, implementation, device, caches) \
         SELECT * FROM UNNEST($1::BIGINT[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::TEXT[], $7::TEXT[]) ORDER BY 1 \
         ON CONFLICT DO NOTHING",
        &[
            &keys,
            &of(|series| &series.workload),
            &of(|series| &series.case),
            &column(cells, |cell| params_text(&cell.series.params)),
            &of(|series| &series.implementation),
            &of(|series| &series.device),
            &of(|series| &series.caches),
        ],
    )?;
    work.execute(
        "INSERT INTO cell (run, series, session, baseline, status, seconds, low, high, blocks) \
         SELECT $1, * FROM UNNEST($2::BIGINT[], $3::BIGINT[], $4::TEXT[], $5::TEXT[], $6::FLOAT8[], $7::FLOAT8[], \
         $8::FLOAT8[], $9::BYTEA[])",
        &[
            &key,
            &keys,
            &column(cells, |cell| cell.session),
            &column(cells, |cell| cell.baseline.clone()),
            &column(cells, |cell| cell.status.clone()),
            &column(cells, |cell| cell.seconds),
            &column(cells, |cell| cell.low),
            &column(cells, |cell| cell.high),
            &column(cells, |cell| to_bytes(&cell.blocks)),
        ],
    )?;
    work.commit()?;
    Ok(true)
}

/// A value of a row; its columns have the types of `schema`.
fn value(row: &Row, at: usize) -> Result<Value, postgres::Error> {
    Ok(match *row.columns()[at].type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(at)?.into(),
        Type::FLOAT8 => row.try_get::<_, Option<f64>>(at)?.into(),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at)?.into(),
        _ => row.try_get::<_, Option<String>>(at)?.into(),
    })
}

impl Index for Postgres {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn add(&mut self, runs: &[NewRun]) -> Result<Vec<bool>, StoreError> {
        let added = runs.iter().map(|new| insert(&mut self.client, new));
        added.collect::<Result<_, _>>().map_err(|error| of_postgres(&self.place, &error))
    }

    fn ask(&mut self, sql: &str, parameter: Option<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        let rows = match &parameter {
            Some(Value::Integer(key)) => self.client.query(sql, &[key]),
            Some(Value::Text(text)) => self.client.query(sql, &[text]),
            _ => self.client.query(sql, &[]),
        };
        let read = |row: &Row| (0..row.len()).map(|at| value(row, at)).collect();
        let rows = rows.and_then(|rows| rows.iter().map(read).collect());
        rows.map_err(|error| of_postgres(&self.place, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn messages_hold_no_password() {
        assert_eq!(without_password("postgres://me:pass@word@host:5432/db"), "postgres://me@host:5432/db");
        assert_eq!(without_password("postgres://host/db"), "postgres://host/db");
        assert_eq!(without_password("host=h password=p"), "the PostgreSQL server");
    }
}
