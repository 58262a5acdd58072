//! Where an export goes: standard output, or a file that takes its name only when it is whole.

use crate::exit::Exit;
use fathom_base::shell;
use fathom_sys::dirfd::Dir;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

/// Enough for the system calls not to matter.
const BUFFER_BYTES: usize = 1 << 16;

/// Why nothing is written there.
#[derive(Debug)]
pub struct Refusal {
    path: PathBuf,
    reason: String,
    exit: Exit,
}

impl Refusal {
    /// How fathom ends.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "-o {}: {}", shell::path(&self.path), self.reason)
    }
}

enum Stream {
    Stdout(BufWriter<Stdout>),
    File(BufWriter<File>),
    Packed(Box<GzEncoder<BufWriter<File>>>),
}

/// Where a file may be made.
pub struct Place {
    above: PathBuf,
    name: OsString,
}

/// An open output.
pub struct Sink {
    stream: Option<Stream>,
    bytes: u64,
    draft: Option<Draft>,
}

/// A file that is not finished, in the directory where it will take its name.
struct Draft {
    dir: Dir,
    unfinished: OsString,
    name: OsString,
    overwrite: bool,
}

impl Draft {
    /// Takes the name; one that somebody else has given to a file meanwhile stays his.
    fn finish(&self) -> io::Result<()> {
        self.dir.rename(&self.unfinished, &self.name, self.overwrite).map_err(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return error;
            }
            let name = shell::path(Path::new(&self.name));
            io::Error::new(
                error.kind(),
                format!("{name} came into being meanwhile and stays; choose another name, or add --overwrite"),
            )
        })
    }
}

impl Sink {
    /// Opens it; an existing file is replaced only when asked for, and only at the end.
    pub fn open(path: &Path, overwrite: bool) -> Result<Self, Refusal> {
        if path == Path::new("-") {
            let stream = Stream::Stdout(BufWriter::with_capacity(BUFFER_BYTES, io::stdout()));
            return Ok(Self { stream: Some(stream), bytes: 0, draft: None });
        }
        let Place { above, name } = Self::check(path, overwrite)?;
        let mut unfinished = name.clone();
        unfinished.push(format!(".{}.part", std::process::id()));
        // It may hold serial numbers: its owner alone reads it.
        let made = Dir::open(&above).and_then(|dir| {
            let file = dir.create_for_writing(unfinished.as_encoded_bytes())?;
            Ok((dir, file))
        });
        let (dir, file) = match made {
            Ok((dir, file)) => (dir, BufWriter::with_capacity(BUFFER_BYTES, file)),
            Err(error) => {
                let reason = format!("cannot be written: {}", why(&error));
                return Err(Refusal { path: path.to_owned(), reason, exit: Exit::Internal });
            }
        };
        let draft = Draft { dir, unfinished, name, overwrite };
        let stream = if path.extension().is_some_and(|extension| extension == "gz") {
            Stream::Packed(Box::new(GzEncoder::new(file, Compression::default())))
        } else {
            Stream::File(file)
        };
        Ok(Self { stream: Some(stream), bytes: 0, draft: Some(draft) })
    }

    /// Whether a file may be made there, before any work is done for it; nothing is made yet.
    pub fn check(path: &Path, overwrite: bool) -> Result<Place, Refusal> {
        let refused = |reason: &str| {
            Err(Refusal { path: path.to_owned(), reason: reason.to_owned(), exit: Exit::Usage })
        };
        let place = real(path);
        let (Some(above), Some(name)) = (place.parent(), place.file_name()) else {
            return refused("is no name of a file");
        };
        if place.starts_with("/dev") {
            return refused("nothing is made in /dev; for standard output: -o -");
        }
        match fs::symlink_metadata(&place) {
            Ok(there) if !there.is_file() => refused("exists and is no regular file"),
            Ok(_) if !overwrite => refused("exists; choose another name, or add --overwrite"),
            _ => match no_folder(path) {
                Some(why) => refused(&why),
                None => Ok(Place { above: above.to_owned(), name: name.to_owned() }),
            },
        }
    }

    /// Ends it; the bytes written, before they were packed.
    pub fn finish(mut self) -> io::Result<u64> {
        let file = match self.stream.take() {
            Some(Stream::Stdout(mut out)) => {
                out.flush()?;
                None
            }
            Some(Stream::File(file)) => Some(file),
            Some(Stream::Packed(packer)) => Some(packer.finish()?),
            None => None,
        };
        if let Some(file) = file {
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        }
        if let Some(draft) = &self.draft {
            draft.finish()?;
            self.draft = None;
        }
        Ok(self.bytes)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.stream {
            Some(Stream::Stdout(out)) => out.write(bytes),
            Some(Stream::File(file)) => file.write(bytes),
            Some(Stream::Packed(packer)) => packer.write(bytes),
            None => Err(io::Error::other("the output has ended")),
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Some(Stream::Stdout(out)) => out.flush(),
            Some(Stream::File(file)) => file.flush(),
            Some(Stream::Packed(packer)) => packer.flush(),
            None => Ok(()),
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            // Nothing half-written stays; that it could not be removed says nothing new.
            let _ = draft.dir.unlink_name(draft.unfinished.as_encoded_bytes());
        }
    }
}

/// Why a file could not be made, and what helps.
pub fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no such folder; make it first (mkdir -p), or choose another".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Why no file can be made there: its folder is mistyped, or none. None of all other reasons.
pub fn no_folder(path: &Path) -> Option<String> {
    // A file in the place of the folder is no folder either.
    let error = fs::metadata(real(path).parent()?.join(".")).err()?;
    (Exit::of_path(&error) == Exit::Usage).then(|| why(&error))
}

/// The path without links and `..`: that of the file where there is one, else its name in the directory where it would be.
pub fn real(path: &Path) -> PathBuf {
    let absolute = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let in_place = || {
        let path = absolute();
        let above = fs::canonicalize(path.parent()?).ok()?;
        Some(above.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(in_place).unwrap_or_else(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_given_away_meanwhile_is_not_taken() {
        let dir = std::env::temp_dir().join(format!("fathom-sink-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("made");
        let path = dir.join("a.csv");
        let mut sink = Sink::open(&path, false).expect("new");
        sink.write_all(b"ours").expect("written");
        fs::write(&path, "somebody's").expect("written");
        let error = sink.finish().expect_err("taken").to_string();
        assert!(error.contains("a.csv") && error.contains("--overwrite"), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("read"), "somebody's");
        let mut sink = Sink::open(&path, true).expect("asked for");
        sink.write_all(b"ours").expect("written");
        assert_eq!(sink.finish().expect("whole"), 4);
        assert_eq!(fs::read_to_string(&path).expect("read"), "ours");
        // Nothing half-written is left.
        assert_eq!(fs::read_dir(&dir).expect("listed").count(), 1);
        fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn a_folder_that_is_not_there_is_a_mistake_of_who_typed_it() {
        for path in ["/no/such/folder/a.csv", "/etc/passwd/a.csv"] {
            let refusal = Sink::check(Path::new(path), false).err().expect("refused");
            assert_eq!(refusal.exit(), Exit::Usage, "{refusal}");
        }
    }

    #[test]
    fn ways_around_do_not_lead_into_dev() {
        let dir = std::env::temp_dir().join(format!("fathom-sink-dev-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("made");
        let link = dir.join("link");
        std::os::unix::fs::symlink("/dev", &link).expect("made");
        for path in ["/dev/fathom-new", "/tmp/../dev/fathom-new", "/dev/../dev/fathom-new"] {
            assert!(Sink::open(Path::new(path), true).is_err(), "{path}");
        }
        assert!(Sink::open(&link.join("fathom-new"), true).is_err());
        assert!(!Path::new("/dev/fathom-new").exists());
        fs::remove_dir_all(&dir).expect("removed");
    }
}
