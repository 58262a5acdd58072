//! Reports as files: whole or not at all, and never in place of something else.

use crate::sink;
use fathom_base::shell;
use fathom_html::html;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a report was not written.
#[derive(Debug)]
pub enum Refusal {
    /// Something else has that name.
    Taken { path: PathBuf },
    /// Nothing is made there.
    Place { path: PathBuf, why: &'static str },
    /// The system said no.
    Io { path: PathBuf, error: io::Error },
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Taken { path } => write!(
                f,
                "{} exists and is no report of fathom; choose another name with -o, or add --overwrite",
                shell::path(path)
            ),
            Self::Place { path, why } => write!(f, "-o {}: {why}", shell::path(path)),
            Self::Io { path, error } => {
                write!(f, "writing the report {}: {}", shell::path(path), sink::why(error))
            }
        }
    }
}

/// A new report has names of machines, serial numbers and command lines in it: who else reads it, its owner says.
const OWNER_ONLY: u32 = 0o600;

/// How far into a file its mark must stand.
const HEAD_BYTES: u64 = 4096;

/// Writes beside the name and then takes the name, so that nobody ever sees a part. An earlier report is replaced.
///
/// # Errors
/// See [`Refusal`]; what was there is then still there.
pub fn write(path: &Path, text: &str, overwrite: bool) -> Result<(), Refusal> {
    let failed = |error| Refusal::Io { path: path.to_owned(), error };
    let refused = |why| Refusal::Place { path: path.to_owned(), why };
    // A link keeps pointing to the report that it pointed to.
    let place = sink::real(path);
    if place.starts_with("/dev") {
        return Err(refused("nothing is made in /dev; for standard output: -o -"));
    }
    let mut mode = OWNER_ONLY;
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            return Err(refused("is a directory; name a file in it"));
        }
        Ok(found) if !found.is_file() => {
            return Err(refused("is no regular file; for standard output: -o -"));
        }
        Ok(_) if !overwrite && !is_report(path).map_err(failed)? => {
            return Err(Refusal::Taken { path: path.to_owned() });
        }
        Ok(found) => mode = found.permissions().mode() & 0o666,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let beside = place.with_file_name(format!(".{name}.{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(&beside);
    let mut file = made.map_err(failed)?;
    let mut whole = || {
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&beside, &place)
    };
    whole().map_err(|error| {
        // That what is half-written could not be removed says nothing new.
        let _ = fs::remove_file(&beside);
        failed(error)
    })
}

/// True for what an earlier report left there, and for an empty file.
fn is_report(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    let has = |mark: &str| head.windows(mark.len()).any(|bytes| bytes == mark.as_bytes());
    Ok(head.is_empty() || has(html::MARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reports_are_replaced() {
        let dir = std::env::temp_dir().join(format!("fathom-report-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("made");
        let (path, report) = (dir.join("a.html"), format!("{}\n", html::MARK));
        write(&path, &report, false).expect("new");
        let mode = || fs::metadata(&path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("set");
        write(&path, &format!("{report}second"), false).expect("its own");
        assert_eq!(mode(), 0o640, "as its owner had said");
        assert!(fs::read_to_string(&path).expect("read").ends_with("second"));
        fs::write(&path, "<html>somebody's").expect("written");
        let error = write(&path, &report, false).expect_err("somebody's").to_string();
        assert!(
            error.contains("is no report of fathom") && error.contains("--overwrite"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).expect("read"), "<html>somebody's");
        write(&path, &report, true).expect("asked for");
        assert_eq!(fs::read_to_string(&path).expect("read"), report);
        for place in [
            dir.as_path(),
            Path::new("/dev/null"),
            Path::new("/dev/new"),
            Path::new("/tmp/../dev/new"),
        ] {
            assert!(write(place, &report, true).is_err(), "{}", place.display());
        }
        assert!(matches!(write(&dir.join("no/a"), &report, false), Err(Refusal::Io { .. })));
        // A draft of that name that is somebody's stays.
        let beside = dir.join(format!(".b.html.{}", std::process::id()));
        fs::write(&beside, "somebody's").expect("written");
        assert!(write(&dir.join("b.html"), &report, false).is_err());
        assert_eq!(fs::read_to_string(&beside).expect("there"), "somebody's");
        fs::remove_file(&beside).expect("removed");
        // Nothing half-written is left.
        let names: Vec<_> = fs::read_dir(&dir).expect("listed").flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        fs::remove_dir_all(&dir).expect("removed");
    }
}
