//! What can go wrong with the store, each with cause and cure.

use fathom_base::shell;
use rusqlite::ErrorCode;
use rusqlite::ffi;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A failure of the store. None of them harms what is stored already.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Nothing says where the store is.
    #[error("no place for the store: $HOME is not set; give one with --db FILE or $FATHOM_DB")]
    NoPlace,
    /// It would come to lie where nothing is stored.
    #[error("store '{}': {reason}; choose another with --db FILE", .path.display())]
    Place {
        /// The store's file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The directory could not be made or looked into.
    #[error("store '{}': cannot make its directory: {source}; choose another with --db FILE", .path.display())]
    Directory {
        /// The store's file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is no store to read.
    #[error("store '{}' does not exist: nothing has been stored there yet (another one: --db FILE)", .path.display())]
    Missing {
        /// The store's file.
        path: PathBuf,
    },
    /// The file cannot be opened or its directory not written to.
    #[error("store '{}': no permission to {action} it ({detail}); become its owner, or use --db FILE", .path.display())]
    Permission {
        /// The store's file.
        path: PathBuf,
        /// `read` or `write`.
        action: &'static str,
        /// What the system or SQLite says.
        detail: String,
    },
    /// The filesystem is mounted read-only, the file or its directory is not writable.
    #[error("store '{}' cannot be written: file, directory or filesystem is read-only ({detail}); use --db FILE on a writable one", .path.display())]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// It was opened for reading.
    #[error("store '{}' was opened for reading only", .path.display())]
    OpenedForReading {
        /// The store's file.
        path: PathBuf,
    },
    /// No space left.
    #[error("store '{}': no space left on its filesystem; this result is not stored, earlier ones are intact; free some space or use --db FILE elsewhere", .path.display())]
    Full {
        /// The store's file.
        path: PathBuf,
    },
    /// The file is no store of ours.
    #[error("'{}' is not a fathom store ({detail}); it was left untouched; use --db FILE with another name", .path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        detail: String,
    },
    /// The file was a store and is damaged.
    #[error("store '{}' is damaged ({detail}); it was left untouched; go on with a new one (--db FILE), and try: sqlite3 {} .recover, to save what can be saved", .path.display(), shell::path(.path))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite or the check says.
        detail: String,
    },
    /// Another process holds it.
    #[error("store '{}' is locked by another process (waited 5 s); repeat when that has finished, see: fuser {}", .path.display(), shell::path(.path))]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A later fathom made it.
    #[error("store '{}' was written by a newer fathom (format {format}, this one knows {known}): readable, not writable; use that fathom, or --db FILE with another name", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: i64,
        /// Ours.
        known: i64,
    },
    /// A record of a later form.
    #[error(
        "trial {index} of run {run} was written by a newer fathom (record version {version}, this one knows {known}); use that fathom to read it"
    )]
    NewerRecord {
        /// The run.
        run: String,
        /// The trial, from 0.
        index: u32,
        /// Its version.
        version: u32,
        /// Ours.
        known: u32,
    },
    /// A run of a kind that this program does not know.
    #[error(
        "run {run} is of kind '{kind}', which this fathom does not know; use a newer fathom to read it"
    )]
    NewerKind {
        /// The run.
        run: String,
        /// Its kind.
        kind: String,
    },
    /// No such run.
    #[error("no run '{prefix}'{hint}; all runs: fathom list")]
    NotFound {
        /// What was asked for.
        prefix: String,
        /// The nearest or the most recent one, or empty.
        hint: String,
    },
    /// Several runs have that label.
    #[error("'{label}' is the label of {} runs: {}; name one of them", .candidates.len(), shown(.candidates))]
    Labelled {
        /// What was asked for.
        label: String,
        /// Their shortest unique prefixes, newest first; the message shows the first eight.
        candidates: Vec<String>,
    },
    /// Several runs begin like that.
    #[error("'{prefix}' is the beginning of {} runs: {}; give one more character", .candidates.len(), shown(.candidates))]
    Ambiguous {
        /// What was asked for.
        prefix: String,
        /// Their shortest unique prefixes, newest first; the message shows the first eight.
        candidates: Vec<String>,
    },
    /// The system failed to read or write.
    #[error("store '{}': input/output error ({detail}); look at the kernel log (dmesg) for its disk; use --db FILE elsewhere", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// A value that cannot be stored or read back: an error in fathom.
    #[error("store '{}': {detail}", .path.display())]
    Internal {
        /// The file.
        path: PathBuf,
        /// What failed.
        detail: String,
    },
}

/// The first few candidates.
fn shown(candidates: &[String]) -> String {
    let more = if candidates.len() > 8 { ", ..." } else { "" };
    candidates.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ") + more
}

impl StoreError {
    /// The error of a database call on `path`.
    pub(crate) fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let detail = error.to_string();
        let (code, extended) = match error {
            rusqlite::Error::SqliteFailure(failure, _) => (failure.code, failure.extended_code),
            // A column that does not hold what was written.
            rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => {
                return Self::Corrupt { path, detail };
            }
            // The statements are fixed and fit the format: the tables are not what they were made as.
            rusqlite::Error::SqlInputError { msg, .. } => {
                let detail = format!("its tables are damaged ({msg})");
                return Self::Corrupt { path, detail };
            }
            _ => return Self::Internal { path, detail },
        };
        match code {
            ErrorCode::DiskFull => Self::Full { path },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Locked { path },
            ErrorCode::NotADatabase => Self::NotAStore { path, detail },
            ErrorCode::DatabaseCorrupt => Self::Corrupt { path, detail },
            ErrorCode::PermissionDenied => Self::Permission { path, action: "write", detail },
            ErrorCode::ReadOnly => Self::ReadOnly { path, detail },
            ErrorCode::CannotOpen => Self::cannot_open(path, detail),
            ErrorCode::SystemIoFailure
                if [ffi::SQLITE_IOERR_SHORT_READ, ffi::SQLITE_IOERR_CORRUPTFS]
                    .contains(&extended) =>
            {
                Self::Corrupt { path, detail: "the file is shorter than it says".into() }
            }
            // Space or quota that runs out late is reported as a failed write or sync.
            ErrorCode::SystemIoFailure
                if [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE].contains(&extended) =>
            {
                Self::Io {
                    path,
                    detail: format!(
                        "{detail}: the filesystem may be full or over quota, or the limit of file sizes (ulimit -f) reached"
                    ),
                }
            }
            ErrorCode::SystemIoFailure => Self::Io { path, detail },
            _ => Self::Internal { path, detail },
        }
    }

    /// SQLite says only that it could not open a file: the store or the journal beside it. Trying the same tells why.
    fn cannot_open(path: PathBuf, detail: String) -> Self {
        let is_there = match File::open(&path) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let detail = error.to_string();
                return Self::Permission { path, action: "read", detail };
            }
            Err(error) => return Self::Io { path, detail: error.to_string() },
        };
        let mut probe = path.as_os_str().to_owned();
        probe.push("-probe");
        match File::create_new(&probe) {
            Ok(_) => {
                // Nothing to be done about a probe that stays.
                let _ = std::fs::remove_file(&probe);
                Self::Io { path, detail }
            }
            Err(error) => match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full { path },
                ErrorKind::PermissionDenied if !is_there => Self::Permission {
                    path,
                    action: "make",
                    detail: "its directory is not writable".into(),
                },
                _ => Self::ReadOnly { path, detail: error.to_string() },
            },
        }
    }
}
