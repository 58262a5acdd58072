//! Packs the pages of all rules into one file: as plain text they would be a fiftieth of the binary.
//!
//! Before each page stands a line with its name behind a character that no page contains.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=pages");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo says where to"))?;
    let entries = fs::read_dir("pages")?.collect::<io::Result<Vec<_>>>()?;
    let mut pages: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    pages.sort();
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    for page in pages {
        let name = page.file_stem().unwrap_or_default().to_string_lossy();
        write!(packed, "\u{1}{name}\n{}", fs::read_to_string(&page)?)?;
    }
    fs::write(Path::new(&out).join("pages"), packed.finish()?)
}
