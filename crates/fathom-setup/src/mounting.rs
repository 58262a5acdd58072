//! Mounting where nobody else mounts, and reading back what the kernel made of the options.

use crate::btrfs;
use crate::devices;
use crate::devices::make_dir;
use crate::error::SetupError;
use crate::filesystem::Ground;
use crate::options::{self, Effect};
use crate::site::{Device, Site};
use crate::tools::Call;
use fathom_guard::relations::devices_of_mount;
use fathom_model::change::setup::SetupChange;
use fathom_model::plan::setup::FilesystemSpec;
use fathom_sys::devno::DevNo;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::path::{Path, PathBuf};

/// Mounts it in a directory of the run's own: `mnt`, or `mnt-2` for the second of several.
pub(crate) fn mount(
    site: &mut Site<'_, '_>,
    spec: &FilesystemSpec,
    ground: Ground<'_>,
    number: usize,
) -> Result<PathBuf, SetupError> {
    let name = if number == 1 { "mnt".to_owned() } else { format!("mnt-{number}") };
    let dir = devices::own_dir(site)?.join(name);
    make_dir(site, &dir)?;
    let device_id = ground.device.id.clone();
    let change = SetupChange::Mount { mount_point: dir.clone(), device_id };
    mount_at(site, spec, ground, &dir, Some(change))?;
    Ok(dir)
}

/// Mounts it again where it was mounted; the journal knows of it.
pub(crate) fn mount_again(
    site: &mut Site<'_, '_>,
    spec: &FilesystemSpec,
    ground: Ground<'_>,
    dir: &Path,
) -> Result<(), SetupError> {
    mount_at(site, spec, ground, dir, None)
}

fn mount_at(
    site: &mut Site<'_, '_>,
    spec: &FilesystemSpec,
    ground: Ground<'_>,
    dir: &Path,
    change: Option<SetupChange>,
) -> Result<(), SetupError> {
    let Ground { device, further, journal, .. } = ground;
    let mut asked: Vec<String> = spec.mount_options.clone();
    if let Some(journal) = journal.filter(|_| spec.kind == "xfs") {
        asked.push(format!("logdev={}", journal.word()));
    }
    // Nobody else may have told the kernel which devices belong together.
    let members = further.iter().map(|other| format!("device={}", other.word()));
    let words: Vec<String> = asked.iter().cloned().chain(members).collect();
    let mut call = Call::new("mount", ["-t", &spec.kind]);
    if !words.is_empty() {
        call = call.args(["-o".to_owned(), words.join(",")]);
    }
    let call = call.args([device.word(), dir.display().to_string()]);
    let mut devices = vec![device];
    devices.extend(further);
    devices.extend(journal.filter(|journal| site.claims.contains_key(&journal.path)));
    let gone = options::removed(&spec.kind, &asked);
    let mounted = match change {
        Some(change) => site.make(change, &devices, &call),
        None => site.on(&devices, &call),
    };
    mounted.map_err(|error| explained(error, &gone))?;
    if site.is_dry() {
        site.facts.extend(gone);
        return Ok(());
    }
    let mount = check_ours(site.root, dir, device)?;
    if spec.kind == "btrfs" {
        btrfs::judge(site, spec, &mount, ground)?;
    }
    judge(site, &asked, &mount, &device.name)
}

/// The number of a device by its name.
pub(crate) fn number_of(root: &SysRoot, device: &Device) -> Option<DevNo> {
    BlockDir::by_name(root, &device.name)?.devno()
}

/// The mount that shows at that place, which must be that of the device.
pub(crate) fn check_ours(root: &SysRoot, dir: &Path, device: &Device) -> Result<Mount, SetupError> {
    let Some(mount) = mount_at_point(root, dir) else {
        let text = format!("{} is not mounted, though nobody said so", dir.display());
        return Err(SetupError::NotAsAsked(text));
    };
    let own = number_of(root, device);
    if own.is_some_and(|own| devices_of_mount(root, &mount).contains(&own)) {
        return Ok(mount);
    }
    Err(SetupError::NotAsAsked(format!(
        "{} is mounted at {}, not {}",
        mount.source,
        dir.display(),
        device.name
    )))
}

fn explained(error: SetupError, gone: &[String]) -> SetupError {
    match error {
        SetupError::Tool { command, said, mut cause } => {
            for text in gone {
                cause += "\nlikely cause: the option ";
                cause += text;
            }
            SetupError::Tool { command, said, cause }
        }
        other => other,
    }
}

/// The youngest mount at that place.
pub(crate) fn mount_at_point(root: &SysRoot, dir: &Path) -> Option<Mount> {
    mounts::own_mounts(root).into_iter().rfind(|mount| mount.mount_point == dir)
}

fn judge(
    site: &mut Site<'_, '_>,
    asked: &[String],
    mount: &Mount,
    name: &str,
) -> Result<(), SetupError> {
    let shown = options::in_effect(site.root, mount, name);
    let kind = &mount.fs_type;
    for option in asked {
        match options::effect(option, &shown) {
            Effect::Shown => {}
            Effect::Explained(text) => site.remark(text),
            Effect::NotShown => site.remark(format!(
                "{option}: taken by {kind}, but the kernel does not show whether it is in effect"
            )),
            Effect::Different(found) => {
                let text = format!(
                    "mount option {option} is not in effect: the kernel has {found}; {kind} does not do both, or another \
                     option rules it out"
                );
                return Err(SetupError::NotAsAsked(text));
            }
        }
    }
    let mut all: Vec<String> = shown.iter().filter(|word| !word.contains('/')).cloned().collect();
    all.dedup();
    site.facts.push(format!("{kind} options in effect: {}", all.join(",")));
    Ok(())
}
