//! `cargo xtask dist`: the shipped binary, and the proof that it needs nothing.

use crate::process::{self, Finished};
use crate::{Outcome, elf, flags::Flags, workspace};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub const HELP: &str = "\
cargo xtask dist

builds the one static x86-64 binary, target/dist/fathom, and proves that it needs nothing

Checked: no dynamic loader and no shared library, less than 15 MB, and that it starts in a directory that holds
nothing else: 'fathom --version' and 'fathom doctor' under chroot, without root in a user namespace.
";

const TARGET: &str = "x86_64-unknown-linux-gnu";
const SIZE_BYTES_MAX: u64 = 15_000_000;
/// Exit codes of `doctor`: all well, or something of the system is missing, as in an empty directory it is.
const DOCTOR_CODES: [i32; 2] = [0, 4];

/// The command.
///
/// # Errors
/// When something cannot be built, read or run.
pub fn run(args: &[String]) -> Outcome {
    Flags::parse(args, &[], &[])?;
    if let Some(reason) = prove(&build()?)? {
        println!("skipped: {START}: {reason}");
    }
    Ok(true)
}

/// The proof that cannot be had everywhere.
pub const START: &str = "start in an empty directory";

/// Checks what [`build`] made; the reason why [`START`] was skipped, if it was.
///
/// # Errors
/// When something cannot be read or run, or does not hold.
pub fn prove(binary: &Path) -> Result<Option<String>, String> {
    let file = fs::read(binary).map_err(|error| format!("{}: {error}", binary.display()))?;
    elf::check_static(&file)
        .map_err(|reason| format!("{} is not static: {reason}", binary.display()))?;
    let size_bytes = file.len() as u64;
    println!("{}: static, {:.2} MB", binary.display(), size_bytes as f64 / 1e6);
    if size_bytes >= SIZE_BYTES_MAX {
        return Err(format!("larger than {} MB", SIZE_BYTES_MAX / 1_000_000));
    }
    let Some(chroot) = chroot() else {
        return Ok(Some("not root, and no user namespaces for others".to_owned()));
    };
    prove_in_empty_root(&chroot, binary)?;
    Ok(None)
}

/// One static file; the linker that comes with Rust folds functions whose code is the same, and packs the places that depend on
/// where the file is loaded. Without frame pointers code that is made small needs half as much again to be unwound.
const RUST_FLAGS: [&str; 4] = [
    "-Ctarget-feature=+crt-static",
    "-Cforce-frame-pointers=yes",
    "-Clink-arg=-Wl,--icf=all",
    "-Clink-arg=-Wl,--pack-dyn-relocs=relr",
];
/// What the store never uses of SQLite.
const SQLITE_FLAGS: &str = "-USQLITE_ENABLE_FTS3 -USQLITE_ENABLE_FTS3_PARENTHESIS -USQLITE_ENABLE_FTS5 -USQLITE_ENABLE_RTREE \
     -USQLITE_ENABLE_DBSTAT_VTAB -USQLITE_ENABLE_STAT4 -USQLITE_SOUNDEX -USQLITE_ENABLE_API_ARMOR -USQLITE_ENABLE_COLUMN_METADATA \
     -USQLITE_ENABLE_LOAD_EXTENSION -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_OMIT_DEPRECATED -DSQLITE_OMIT_SHARED_CACHE \
     -DSQLITE_OMIT_UTF16 -DSQLITE_OMIT_TRACE -DSQLITE_OMIT_AUTHORIZATION -DSQLITE_OMIT_TCL_VARIABLE";
/// C is never unwound, and needs neither tables nor frame pointers for that: Rust's functions that it calls catch what panics.
/// `-Oz` came with GCC 12.
const C_FLAGS: &str =
    "-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions -fomit-frame-pointer -Oz";

/// Builds and gives the path. The target is named and the flag given for it alone: with a general flag, procedural
/// macros, which are shared libraries, could not be built.
///
/// # Errors
/// When it cannot be built or copied.
pub fn build() -> Result<PathBuf, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut flags: Vec<String> = RUST_FLAGS.map(str::to_owned).to_vec();
    // The builder's home is nobody's business.
    flags.extend(home.map(|home| format!("--remap-path-prefix={}=cargo", home.display())));
    let flags: Vec<String> = flags.iter().map(|flag| format!("'{flag}'")).collect();
    let config = format!("target.{TARGET}.rustflags=[{}]", flags.join(","));
    let mut command = workspace::cargo();
    command.args(["build", "--locked", "--profile=dist", "--package=fathom", "--target", TARGET]);
    command
        .args(["--config", &config])
        .env("LIBSQLITE3_FLAGS", SQLITE_FLAGS)
        .env(format!("CFLAGS_{}", TARGET.replace('-', "_")), C_FLAGS)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err(format!("the build failed: {status}"));
    }
    let target = workspace::target();
    let (built, shipped) = (target.join(TARGET).join("dist/fathom"), target.join("dist/fathom"));
    fs::create_dir_all(target.join("dist"))
        .and_then(|()| fs::copy(&built, &shipped))
        .map_err(|error| format!("{}: {error}", shipped.display()))?;
    Ok(shipped)
}

/// Starts the binary where there is nothing but itself.
fn prove_in_empty_root(chroot: &[&str], binary: &Path) -> Result<(), String> {
    let root = std::env::temp_dir().join(format!("fathom-empty-root-{}", std::process::id()));
    let place = || -> std::io::Result<()> {
        fs::create_dir(&root)?;
        fs::copy(binary, root.join("fathom")).map(drop)
    };
    let proof = place()
        .map_err(|error| format!("{}: {error}", root.display()))
        .and_then(|()| prove_commands(chroot, &root));
    let removed = fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()));
    proof.and(removed)
}

fn prove_commands(chroot: &[&str], root: &Path) -> Result<(), String> {
    let (finished, lines) = in_root(chroot, root, &["--version"])?;
    if !finished.is_success() || !lines.iter().any(|line| line.starts_with("fathom ")) {
        return Err(format!("fathom --version in an empty root: {}", finished.describe()));
    }
    let (finished, _) = in_root(chroot, root, &["doctor"])?;
    let code = finished.status.and_then(|status| status.code());
    if !code.is_some_and(|code| DOCTOR_CODES.contains(&code)) {
        return Err(format!("fathom doctor in an empty root: {}", finished.describe()));
    }
    println!("starts in an empty root: --version, doctor");
    Ok(())
}

/// What changes the root directory here: for root as it is, for others in a user namespace.
fn chroot() -> Option<Vec<&'static str>> {
    let plain = vec!["/usr/sbin/chroot"];
    let ways = [plain.clone(), [vec!["/usr/bin/unshare", "--map-root-user"], plain].concat()];
    ways.into_iter().find(|way| {
        let mut command = Command::new(way[0]);
        command.args(&way[1..]).args(["/", "/bin/true"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

fn in_root(chroot: &[&str], root: &Path, args: &[&str]) -> Result<(Finished, Vec<String>), String> {
    let mut command = process::bound(Path::new(chroot[0]));
    command.args(&chroot[1..]);
    command.args([root.as_os_str(), OsStr::new("/fathom")]).args(args).env_clear();
    let mut lines = Vec::new();
    let limit = Duration::from_secs(60);
    let finished = process::stream(&mut command, limit, |line| lines.push(line.to_owned()))?;
    Ok((finished, lines))
}
