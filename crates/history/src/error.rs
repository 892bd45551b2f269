//! Why a history cannot be read or written.

use std::io;
use std::path::Path;

use ellwand_core::InputError;
use rusqlite::ErrorCode;

/// Why a history cannot be read or written. Records are never lost: the index is rebuilt from them.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has locked the index.
    #[error("{0} is locked by another process; wait until it has finished")]
    Locked(String),
    /// The index or its folder is not writable.
    #[error(
        "{0} cannot be written: it is read-only. Copy the folder to a place that can be written, and name that place as the store"
    )]
    ReadOnly(String),
    /// The disk is full.
    #[error("{0}: the disk is full; make room and repeat the command. Records already added are complete")]
    Full(String),
    /// Another program made the database.
    #[error("{0} is a database of another program; name another folder as the store")]
    Foreign(String),
    /// A later version of Ellwand wrote the index.
    #[error("{place} has schema version {found}, this program reads versions up to {known}; use a newer Ellwand")]
    Newer {
        /// Path of the database file, or its URL without a password.
        place: String,
        /// Schema version in the index.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// The index is not a database, or is damaged.
    #[error("{place} is damaged ({problem}){}", rebuild(place))]
    Damaged {
        /// Path of the database file, or its URL without a password.
        place: String,
        /// Message of the database.
        problem: String,
    },
    /// The user asked for something that is not in the history.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file or database that cannot be read or written.
    #[error("{place}: {problem}")]
    Other {
        /// The index or file.
        place: String,
        /// Message of the system or database.
        problem: String,
    },
}

/// Advice for an index in a folder; the index on a server cannot be deleted.
fn rebuild(place: &str) -> &'static str {
    if place.ends_with(crate::schema::INDEX) {
        "; if you delete the index, it is rebuilt from the records in its folder"
    } else {
        ""
    }
}

impl StoreError {
    pub(crate) fn of_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let place = path.display().to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(place),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                StoreError::ReadOnly(place)
            }
            Some(ErrorCode::DiskFull) => StoreError::Full(place),
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                StoreError::Damaged { place, problem: error.to_string() }
            }
            _ => StoreError::Other { place, problem: error.to_string() },
        }
    }

    pub(crate) fn of_file(path: &Path, error: &io::Error) -> Self {
        let place = path.display().to_string();
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly(place),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full(place),
            _ => StoreError::Other { place, problem: error.to_string() },
        }
    }
}
