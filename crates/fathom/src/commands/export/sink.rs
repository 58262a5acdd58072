//! Where an export goes: standard output, or a file that takes its name only when it is whole.

use crate::exit::Exit;
use fathom_base::shell;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Stdout, Write};
use std::os::unix::fs::OpenOptionsExt;
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

/// An open output.
pub struct Sink {
    stream: Option<Stream>,
    bytes: u64,
    /// The unfinished file and the name that it will take.
    names: Option<(PathBuf, PathBuf)>,
}

impl Sink {
    /// Opens it; an existing file is replaced only when asked for, and only at the end.
    pub fn open(path: &Path, overwrite: bool) -> Result<Self, Refusal> {
        if path == Path::new("-") {
            let stream = Stream::Stdout(BufWriter::with_capacity(BUFFER_BYTES, io::stdout()));
            return Ok(Self { stream: Some(stream), bytes: 0, names: None });
        }
        let refused = |reason: &str, exit| {
            Err(Refusal { path: path.to_owned(), reason: reason.to_owned(), exit })
        };
        let place = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        let place = place.unwrap_or_else(|_| path.to_owned());
        let Some(name) = place.file_name() else {
            return refused("is no name of a file", Exit::Usage);
        };
        if place.starts_with("/dev") {
            return refused("nothing is made in /dev; for standard output: -o -", Exit::Usage);
        }
        match fs::symlink_metadata(&place) {
            Ok(there) if !there.is_file() => {
                return refused("exists and is no regular file", Exit::Usage);
            }
            Ok(_) if !overwrite => {
                return refused("exists; choose another name, or add --overwrite", Exit::Usage);
            }
            _ => {}
        }
        let mut unfinished = name.to_owned();
        unfinished.push(format!(".{}.part", std::process::id()));
        let unfinished = place.with_file_name(unfinished);
        // It holds serial numbers: its owner alone reads it.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
        let file = match made {
            Ok(file) => BufWriter::with_capacity(BUFFER_BYTES, file),
            Err(error) => return refused(&format!("cannot be written: {error}"), Exit::Internal),
        };
        let stream = if path.extension().is_some_and(|extension| extension == "gz") {
            Stream::Packed(Box::new(GzEncoder::new(file, Compression::default())))
        } else {
            Stream::File(file)
        };
        Ok(Self { stream: Some(stream), bytes: 0, names: Some((unfinished, place)) })
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
        if let Some((unfinished, place)) = &self.names {
            fs::rename(unfinished, place)?;
            self.names = None;
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
        if let Some((unfinished, _)) = &self.names {
            // Nothing half-written stays; that it could not be removed says nothing new.
            let _ = fs::remove_file(unfinished);
        }
    }
}
