//! The lowest layer: devices as given, and loop devices over files of fathom's own.

use crate::error::{SetupError, io_at};
use crate::outline::Destroyed;
use crate::site::{Device, Site};
use crate::tools::Call;
use fathom_base::units::{format_size, parse_size};
use fathom_guard::file_at;
use fathom_guard::place::{check_directory, check_space};
use fathom_guard::target::Target;
use fathom_guard::{Consent, Refusal, claim_block_device};
use fathom_model::change::setup::SetupChange;
use fathom_sys::io::fsync;
use fathom_sys::sysfs_block::BlockDir;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Below that no filesystem can be made.
const LOOP_BYTES_MIN: u64 = 1 << 20;

/// Takes a device as the description names it.
pub(crate) fn take(
    site: &mut Site<'_, '_>,
    consent: &Consent,
    word: &str,
    is_for_table: bool,
) -> Result<Device, SetupError> {
    match word.strip_prefix("loop:") {
        Some(size) => own_loop(site, size, is_for_table),
        None => given(site, consent, Path::new(word)),
    }
}

fn given(site: &mut Site<'_, '_>, consent: &Consent, path: &Path) -> Result<Device, SetupError> {
    let mode = crate::wipe::FOR_WRITING;
    let claim = claim_block_device(site.root, path, consent, site.protected, mode);
    if site.is_dry() {
        let is_consented = match claim {
            Ok(_) => true,
            Err(Refusal::ConsentMissing { .. }) => false,
            Err(refusal) => return Err(refusal.into()),
        };
        let device = site.device(path)?;
        let what = Target::resolve(site.root, path)?.description();
        let id = device.id.clone();
        site.outline.destroyed.push(Destroyed { path: path.to_owned(), id, what, is_consented });
        return Ok(device);
    }
    let claim = claim?;
    let device = site.device(path)?;
    site.tell_given(&device)?;
    site.claims.insert(device.path.clone(), claim);
    Ok(device)
}

/// The run's own directory, made when it is first needed.
pub(crate) fn own_dir(site: &mut Site<'_, '_>) -> Result<PathBuf, SetupError> {
    if let Some(dir) = &site.own_dir {
        return Ok(dir.clone());
    }
    let above = check_directory(site.root, site.work_dir)?;
    let name = format!("setup-{}", site.id());
    let free = |number: &u32| !above.join(format!("{name}-{number}")).exists();
    let number = (1..10_000).find(free).unwrap_or(10_000);
    let dir = if site.is_dry() { above.join(name) } else { above.join(format!("{name}-{number}")) };
    make_dir(site, &dir)?;
    site.own_dir = Some(dir.clone());
    Ok(dir)
}

/// A directory of fathom's own.
pub(crate) fn make_dir(site: &mut Site<'_, '_>, dir: &Path) -> Result<(), SetupError> {
    if site.is_dry() {
        return Ok(());
    }
    let change = |at| SetupChange::Directory { path: dir.to_owned(), at };
    let step = site.intend(change(file_at::note(site.root, dir)))?;
    site.fault("before mkdir");
    DirBuilder::new().mode(0o700).create(dir).map_err(io_at("make", dir))?;
    site.fault("after mkdir");
    site.made(step, change(file_at::note(site.root, dir)))
}

/// A loop device over a new file, every byte of which is written: a hole would be filled by the first write, and the
/// measurement would see that. Zeros, so that an array over such devices is in order without a first synchronisation.
fn own_loop(site: &mut Site<'_, '_>, size: &str, is_for_table: bool) -> Result<Device, SetupError> {
    let size_bytes = parse_size(size)
        .map_err(|error| SetupError::Spec(format!("devices: loop:{size}: {error}")))?;
    let size_bytes = size_bytes / 4096 * 4096;
    if size_bytes < LOOP_BYTES_MIN {
        let least = format_size(LOOP_BYTES_MIN);
        return Err(SetupError::Spec(format!("devices: loop:{size}: at least {least}")));
    }
    let dir = own_dir(site)?;
    site.files += 1;
    let path = dir.join(format!("disk-{}.img", site.files));
    let space_in = if site.is_dry() { site.work_dir } else { &dir };
    check_space(space_in, size_bytes + site.outline.written_bytes)?;
    make_file(site, &path, size_bytes)?;
    attach(site, &path, size_bytes, is_for_table)
}

fn make_file(site: &mut Site<'_, '_>, path: &Path, size_bytes: u64) -> Result<(), SetupError> {
    let line = format!("write {} of zeros to {}", format_size(size_bytes), path.display());
    site.commands.push(format!("# {line}"));
    if site.is_dry() {
        site.outline.written_bytes += size_bytes;
        return Ok(());
    }
    let change = |at| SetupChange::LoopFile { path: path.to_owned(), size_bytes, at };
    let step = site.intend(change(file_at::note(site.root, path)))?;
    site.note(&line);
    site.fault("before making a file");
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(io_at("make", path))?;
    site.fault("after making a file");
    write_zeros(site, &file, size_bytes).map_err(|error| match error {
        None => SetupError::Stopped(line),
        Some(error) => io_at("write", path)(error),
    })?;
    site.fault("after filling a file");
    site.made(step, change(file_at::note(site.root, path)))
}

/// None as an error when somebody asked for the end.
fn write_zeros(
    site: &Site<'_, '_>,
    mut file: &File,
    size_bytes: u64,
) -> Result<(), Option<io::Error>> {
    let zeros = vec![0; 4 << 20];
    let mut left = size_bytes;
    while left > 0 {
        if site.stop().is_set() {
            return Err(None);
        }
        let length = left.min(zeros.len() as u64);
        file.write_all(&zeros[..length as usize]).map_err(Some)?;
        left -= length;
    }
    fsync(file).map_err(Some)
}

fn attach(
    site: &mut Site<'_, '_>,
    path: &Path,
    size_bytes: u64,
    is_for_table: bool,
) -> Result<Device, SetupError> {
    let word = path.display().to_string();
    let mut call = Call::new("losetup", ["--find", "--show", "--direct-io=on"]);
    if is_for_table {
        call = call.arg("--partscan");
    }
    let call = call.arg(&word);
    let at = file_at::note(site.root, path);
    let change = |name, sequence| {
        let (path, at) = (path.to_owned(), at.clone());
        SetupChange::Loop { path, name, sequence, at }
    };
    let step = site.intend(change(None, None))?;
    let shown = site.run(&call)?;
    if site.is_dry() {
        // Which one it will be shows only then.
        let name = format!("LOOP{}", site.files);
        return Ok(Device {
            path: Path::new("/dev").join(&name),
            name,
            id: word,
            size_bytes,
            logical_block_bytes: 512,
            is_own_loop: true,
        });
    }
    let shown = PathBuf::from(shown.trim());
    let device = site.device(&shown)?;
    let sequence =
        BlockDir::by_name(site.root, &device.name).and_then(|disk| disk.value("diskseq"));
    site.made(step, change(Some(device.name.clone()), sequence))?;
    if device.id != word {
        let text =
            format!("{} shows {}, not {word}: somebody is changing it", device.name, device.id);
        return Err(SetupError::NotAsAsked(text));
    }
    let device = Device { is_own_loop: true, ..device };
    site.hold(&device)?;
    Ok(device)
}
