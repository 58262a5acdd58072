//! The kernel of QEMU guests: Debian's package, unpacked into a directory of its own. It is not installed, so no boot
//! loader is touched and no initramfs is made for the host.

use super::{DOWNLOAD_LIMIT, apt, finish};
use crate::process;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where the test kit looks for `vmlinux` and `lib/modules`.
const PLACE: &str = "/var/cache/fathom-testkit/linux";
/// The package that depends on the newest kernel. The one for clouds has no 9p, over which guests see the host.
const NEWEST: &str = "linux-image-amd64";
/// Half of the package, and nothing that storage needs.
const DROPPED: &[&str] = &["sound", "drivers/gpu", "drivers/media", "drivers/net"];
/// How compressed data in the format xz begins.
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
const LIMIT: Duration = Duration::from_secs(120);

/// True when it was unpacked before.
pub fn is_there() -> bool {
    Path::new(PLACE).join("vmlinux").exists()
}

/// Downloads and unpacks it.
///
/// # Errors
/// What went wrong, in words.
pub fn unpack() -> Result<(), String> {
    let place = Path::new(PLACE);
    let unfinished = place.with_extension("unfinished");
    // What a killed one left.
    drop(fs::remove_dir_all(&unfinished));
    fs::create_dir_all(&unfinished)
        .map_err(|error| format!("{}: {error}", unfinished.display()))?;
    let result = unpack_into(&unfinished).and_then(|()| {
        drop(fs::remove_dir_all(place));
        fs::rename(&unfinished, place).map_err(|error| format!("{PLACE}: {error}"))
    });
    drop(fs::remove_dir_all(&unfinished));
    result
}

fn unpack_into(directory: &Path) -> Result<(), String> {
    let mut newest = Command::new("apt-cache");
    let output = newest.args(["depends", NEWEST]).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let package = dependency(&text).ok_or_else(|| format!("apt knows no {NEWEST}"))?;
    let version = package.trim_start_matches("linux-image-");
    let mut download = apt(&["-o", "APT::Sandbox::User=root", "download", package]);
    if !finish(download.current_dir(directory), DOWNLOAD_LIMIT) {
        return Err(format!("{package} could not be downloaded"));
    }
    let archive = only_file(directory)?;
    run(Command::new("dpkg-deb").arg("--extract").args([&archive, directory]))?;
    let modules = directory.join("lib/modules").join(version);
    for dropped in DROPPED {
        drop(fs::remove_dir_all(modules.join("kernel").join(dropped)));
    }
    run(Command::new("/sbin/depmod").arg("--basedir").arg(directory).arg(version))?;
    // As it is after unpacking itself, which takes five seconds when it is emulated.
    let kernel = directory.join(format!("boot/vmlinuz-{version}"));
    decompress(&kernel, &directory.join("vmlinux"))?;
    for rest in ["boot", "usr"] {
        drop(fs::remove_dir_all(directory.join(rest)));
    }
    drop(fs::remove_file(archive));
    Ok(())
}

/// The package with a kernel in what `apt-cache depends` says.
fn dependency(text: &str) -> Option<&str> {
    let mut depends = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    depends.find(|package| package.starts_with("linux-image-"))
}

fn only_file(directory: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(directory).map_err(|error| error.to_string())?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths.find(|path| path.is_file()).ok_or_else(|| format!("{} is empty", directory.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let finished = process::stream(command, LIMIT, |_| {})?;
    if finished.is_success() { Ok(()) } else { Err(format!("{name}: {}", finished.describe())) }
}

/// Takes the kernel out of the program that unpacks it.
fn decompress(image: &Path, kernel: &Path) -> Result<(), String> {
    let bytes = fs::read(image).map_err(|error| format!("{}: {error}", image.display()))?;
    let start = bytes.windows(XZ_MAGIC.len()).position(|window| window == XZ_MAGIC);
    let start = start.ok_or_else(|| format!("{} is not compressed with xz", image.display()))?;
    let compressed = kernel.with_extension("xz");
    let fail = |error: std::io::Error| format!("{}: {error}", kernel.display());
    fs::write(&compressed, &bytes[start..]).map_err(fail)?;
    let output = File::create(kernel).map_err(fail)?;
    let mut xz = Command::new("xz");
    // More data of other kinds follows.
    xz.args(["--decompress", "--single-stream", "--stdout"]).arg(&compressed);
    let status = xz.stdin(Stdio::null()).stdout(output).status();
    drop(fs::remove_file(&compressed));
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("xz: {status}")),
        Err(error) => Err(format!("cannot run xz: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn the_newest_kernel_is_found() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n  Suggests: x\n";
        assert_eq!(dependency(text), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(dependency(""), None);
    }

    #[test]
    fn the_test_kit_looks_in_this_place() {
        let path = workspace::root().join("crates/fathom-testkit/src/guest/qemu.rs");
        let source = fs::read_to_string(path).unwrap();
        assert!(source.contains(&format!("\"{PLACE}\"")));
    }
}
