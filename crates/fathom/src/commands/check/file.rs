//! Snapshots as files: JSON, compressed when the name ends in `.gz`.

use crate::exit::Exit;
use fathom_base::json;
use fathom_model::snapshot::{SNAPSHOT_FORMAT, Snapshot};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Deserialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// No snapshot is larger than this when it is unpacked: ten thousand devices take a sixth of it.
const LARGEST_BYTES: u64 = if cfg!(test) { 2 << 20 } else { 256 << 20 };

/// Stores a snapshot: a new file takes the name only when it is whole. It holds serial numbers: its owner alone reads it.
pub fn write(path: &Path, snapshot: &Snapshot) -> Result<(), String> {
    if path == Path::new("-") {
        return Err("-: --snapshot wants the name of a file; --json prints the facts".to_owned());
    }
    let failed = |error: io::Error| {
        format!("{}: the snapshot could not be written: {error}", path.display())
    };
    let text = serde_json::to_vec_pretty(snapshot).map_err(|error| failed(error.into()))?;
    fits(path, text.len() as u64)?;
    let name = path.file_name().ok_or_else(|| format!("{}: no name of a file", path.display()))?;
    if let Ok(there) = path.symlink_metadata() {
        let kind = if !there.is_file() {
            Some("no regular file")
        } else {
            read(path).is_err().then_some("no snapshot of fathom")
        };
        if let Some(kind) = kind {
            let name = path.display();
            return Err(format!("{name} exists and is {kind}; nothing is written there"));
        }
    }
    let mut unfinished = name.to_owned();
    unfinished.push(format!(".{}.part", std::process::id()));
    let unfinished = path.with_file_name(unfinished);
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
    let mut file = created.map_err(failed)?;
    let store = || {
        if is_packed(path) {
            let mut packer = GzEncoder::new(file, Compression::default());
            packer.write_all(&text)?;
            packer.finish()?.sync_all()?;
        } else {
            file.write_all(&text)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
        }
        std::fs::rename(&unfinished, path)
    };
    store().map_err(|error| {
        // Nothing half-written stays.
        let _ = std::fs::remove_file(&unfinished);
        failed(error)
    })
}

/// The snapshot on one line.
pub fn line(snapshot: &Snapshot) -> String {
    // In the form of files, without what stands at the ends of its lines: no text has any itself.
    let mut text = serde_json::to_vec_pretty(snapshot).unwrap_or_else(|_| b"null".to_vec());
    let mut is_indent = false;
    text.retain(|&byte| {
        is_indent = byte == b'\n' || (is_indent && byte == b' ');
        !is_indent
    });
    String::from_utf8(text).unwrap_or_else(|_| "null".to_owned())
}

/// Whether something is there at all that a snapshot could be read from; else why not, and how fathom ends.
pub fn of_path(path: &Path) -> Result<(), (String, Exit)> {
    let name = path.display();
    let Err(error) = std::fs::metadata(path) else { return Ok(()) };
    let why = match error.kind() {
        io::ErrorKind::NotFound if path == Path::new("-") => {
            "-: --from wants the name of a file".to_owned()
        }
        io::ErrorKind::NotFound => format!("{name}: does not exist"),
        _ => format!("{name}: {error}"),
    };
    Err((why, Exit::of_path(&error)))
}

/// Reads a snapshot.
pub fn read(path: &Path) -> Result<Snapshot, String> {
    let name = path.display();
    // To open a pipe would wait for somebody who writes into it.
    let about = std::fs::metadata(path).map_err(|error| format!("{name}: {error}"))?;
    if !about.is_file() {
        return Err(format!("{name}: no regular file, so no snapshot of fathom check"));
    }
    fits(path, about.len())?;
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("{name}: {error}"))?;
    fits(path, bytes.len() as u64)?;
    // Packed or not is said by the content: a file may have been renamed.
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut text = Vec::new();
        let unpacked =
            GzDecoder::new(bytes.as_slice()).take(LARGEST_BYTES + 1).read_to_end(&mut text);
        unpacked.map_err(|error| format!("{name}: damaged, or cut short: {error}"))?;
        fits(path, text.len() as u64)?;
        bytes = text;
    }
    let snapshot = parse(&bytes).map_err(|why| format!("{name}: {why}"))?;
    match snapshot.machine.contradiction() {
        Some(what) => Err(format!("{name}: damaged: {what}")),
        None => Ok(snapshot),
    }
}

/// What is written is also read: the same limit holds for both.
fn fits(path: &Path, bytes: u64) -> Result<(), String> {
    if bytes <= LARGEST_BYTES {
        return Ok(());
    }
    Err(format!(
        "{}: more than {} MiB, which is too large for a snapshot; fathom check TARGET --snapshot stores what is under \
         one target alone",
        path.display(),
        LARGEST_BYTES >> 20
    ))
}

/// The form of a snapshot; everything else is passed over, which takes no memory.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Form {
    #[serde(default)]
    format: serde_json::Value,
}

fn parse(bytes: &[u8]) -> Result<Snapshot, String> {
    let cut_short = |error: &dyn std::fmt::Display| {
        format!("no snapshot of fathom check, or cut short ({error})")
    };
    let text = std::str::from_utf8(bytes).map_err(|error| cut_short(&error))?;
    // A list would be taken for the values of the fields in their order.
    let format = if text.trim_start().starts_with('[') {
        None
    } else {
        let form: Form = json::from_str(text).map_err(|error| cut_short(&error))?;
        form.format.as_u64()
    };
    match format {
        None | Some(0) => Err("no snapshot of fathom check (made with --snapshot)".to_owned()),
        Some(newer) if newer > u64::from(SNAPSHOT_FORMAT) => Err(format!(
            "form {newer} of a newer fathom; this one reads up to {SNAPSHOT_FORMAT}: use the newer one"
        )),
        Some(_) => {
            fathom_model::read::snapshot(text).map_err(|error| format!("not understood: {error}"))
        }
    }
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::{Node, NodeKind};

    /// A snapshot whose one node has a name of so many bytes.
    fn of_size(bytes: u64) -> Snapshot {
        let mut snapshot = Snapshot { format: SNAPSHOT_FORMAT, ..Snapshot::default() };
        snapshot.machine.nodes.push(Node::new(NodeKind::Unknown, "x".repeat(bytes as usize)));
        snapshot
    }

    #[test]
    fn what_is_too_large_to_be_read_is_not_written() {
        let dir = fathom_testkit::Scratch::new().unwrap();
        let path = dir.join("large.gz");
        let refused = write(&path, &of_size(LARGEST_BYTES)).unwrap_err();
        assert!(refused.contains("more than 2 MiB") && refused.contains("TARGET"), "{refused}");
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing is left");
        let fitting = of_size(1 << 20);
        write(&path, &fitting).unwrap();
        assert_eq!(read(&path).unwrap(), fitting);
        // A bomb: a few bytes that unpack to more than the limit.
        let mut packer = GzEncoder::new(File::create(&path).unwrap(), Compression::best());
        (0..=LARGEST_BYTES >> 20).for_each(|_| packer.write_all(&[b' '; 1 << 20]).unwrap());
        packer.finish().unwrap();
        assert_eq!(read(&path).unwrap_err(), refused);
    }
}
