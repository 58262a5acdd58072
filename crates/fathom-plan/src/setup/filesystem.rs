//! Filesystems: their keys, and which of their combinations there can be.

use super::{Fault, count, device, fault, missing, mount, one_of, place, unknown, yes_no};
use fathom_model::plan::setup::{FilesystemSpec, SetupSpec};

/// Where btrfs puts data and metadata, and over how many devices at least that is something of its own.
const PROFILES: [(&str, usize); 5] =
    [("single", 1), ("dup", 1), ("raid0", 2), ("raid1", 2), ("raid10", 4)];

/// Begins the name of a filesystem of the setup as the target of a workload.
pub const TARGET: &str = "setup:";

/// Sets one key of a filesystem.
///
/// # Errors
/// Why there is no such key or value.
pub fn set(spec: &mut SetupSpec, own: &str, value: &str) -> Result<(), String> {
    if own == "type" {
        let kind = one_of(value, &["none", "ext4", "xfs", "btrfs", "f2fs", "ext3", "ext2"])?;
        if let Some(filesystem) = place(&mut spec.filesystem, value != "none", plain()) {
            filesystem.kind = kind;
        }
        return Ok(());
    }
    // A value is checked also where there is no filesystem.
    set_part(&mut plain(), own, value)?;
    let filesystem = spec.filesystem.as_mut();
    let filesystem = filesystem.ok_or_else(|| missing("filesystem", "filesystem.type"))?;
    set_part(filesystem, own, value)
}

fn set_part(filesystem: &mut FilesystemSpec, own: &str, value: &str) -> Result<(), String> {
    let profile = || one_of(value, &PROFILES.map(|(word, _)| word)).map(Some);
    match own {
        "make_options" => {
            filesystem.make_options = value.split_whitespace().map(str::to_owned).collect();
        }
        "aligned" => filesystem.is_aligned = yes_no(value)?,
        "lazy" => filesystem.is_lazy = yes_no(value)?,
        "journal" if value == "internal" => filesystem.journal = None,
        "journal" => {
            value.split(',').try_for_each(|word| device(word.trim()))?;
            filesystem.journal = Some(value.to_owned());
        }
        "fill" => {
            let percent = value.trim().trim_end_matches('%').trim();
            filesystem.fill_percent = Some(count(percent, 1, 95)?);
        }
        "ageing_rounds" => filesystem.ageing_rounds = Some(count(value, 1, 1000)?),
        "data_profile" => filesystem.data_profile = profile()?,
        "metadata_profile" => filesystem.metadata_profile = profile()?,
        "each" => filesystem.is_on_each = yes_no(value)?,
        _ => return Err(unknown(&format!("filesystem.{own}"))),
    }
    Ok(())
}

/// Why a key means nothing for this filesystem.
pub fn inapplicable(filesystem: &FilesystemSpec, own: &str) -> Option<String> {
    let kind = filesystem.kind.as_str();
    (own.ends_with("_profile") && kind != "btrfs").then(|| format!("{kind} has no profiles"))
}

/// What cannot be made, over these devices.
///
/// # Errors
/// Which key it lies with, and why not.
pub fn check(filesystem: &FilesystemSpec, spec: &SetupSpec) -> Result<(), Fault> {
    let kind = filesystem.kind.as_str();
    for option in &filesystem.mount_options {
        mount::check(option, kind).map_err(|reason| fault("mount.options", reason))?;
    }
    mount::check_together(&filesystem.mount_options)
        .map_err(|reason| fault("mount.options", reason))?;
    let is_joined = spec.array.is_some() || spec.volume.is_some() || spec.multipath.is_some();
    let below = if is_joined { 1 } else { spec.devices.len() };
    check_profiles(filesystem, below)?;
    if filesystem.is_on_each && filesystem.spans_devices() {
        let reason =
            "a filesystem over all devices leaves none for another; leave it out, or the profiles";
        return Err(fault("filesystem.each", reason));
    }
    if filesystem.is_on_each && below < 2 {
        let reason = "needs at least two devices below, and there is one";
        return Err(fault("filesystem.each", reason));
    }
    check_journals(filesystem, spec)
}

fn check_profiles(filesystem: &FilesystemSpec, below: usize) -> Result<(), Fault> {
    for (key, option, profile) in [
        ("filesystem.data_profile", ["-d", "--data"], &filesystem.data_profile),
        ("filesystem.metadata_profile", ["-m", "--metadata"], &filesystem.metadata_profile),
    ] {
        let Some(profile) = profile else { continue };
        if filesystem.kind != "btrfs" {
            let reason = format!("{} has no profiles; btrfs has", filesystem.kind);
            return Err(fault(key, reason));
        }
        let is_given = |word: &String| option.iter().any(|option| word.starts_with(option));
        if filesystem.make_options.iter().any(is_given) {
            let reason =
                format!("{} in filesystem.make_options says it, too; give it once", option[0]);
            return Err(fault(key, reason));
        }
        let least =
            PROFILES.iter().find(|(word, _)| word == profile).map_or(1, |(_, least)| *least);
        if below < least {
            let are = if below == 1 { "is one".to_owned() } else { format!("are {below}") };
            let reason = format!("{profile} needs at least {least} devices below, and there {are}");
            return Err(fault(key, reason));
        }
    }
    Ok(())
}

fn check_journals(filesystem: &FilesystemSpec, spec: &SetupSpec) -> Result<(), Fault> {
    let refuse = |reason: String| Err(fault("filesystem.journal", reason));
    let journals: Vec<&str> = filesystem.journals().collect();
    if journals.is_empty() {
        return Ok(());
    }
    let kind = filesystem.kind.as_str();
    if !["ext3", "ext4", "xfs"].contains(&kind) {
        return refuse(format!("{kind} has no journal that could lie on another device"));
    }
    let count = filesystems(spec);
    if journals.len() > count {
        return refuse(format!(
            "{} devices for the journals of {count} filesystem{}; filesystem.each = true makes one on every device",
            journals.len(),
            if count == 1 { "" } else { "s" }
        ));
    }
    let is_device = |word: &&&str| word.starts_with('/');
    if let Some(data) =
        journals.iter().filter(is_device).find(|word| spec.devices.iter().any(|d| d == **word))
    {
        return refuse(format!("the journal cannot lie on {data}, which holds the data"));
    }
    let is_twice = |word: &&&str| journals.iter().filter(|other| *other == *word).count() > 1;
    if journals.iter().filter(is_device).any(|word| is_twice(&word)) {
        return refuse("names a device twice; one device alone serves all filesystems".to_owned());
    }
    Ok(())
}

/// How many filesystems the setup has.
fn filesystems(spec: &SetupSpec) -> usize {
    match &spec.filesystem {
        None => 0,
        Some(filesystem) if filesystem.is_on_each => spec.devices.len(),
        Some(_) => 1,
    }
}

/// A target such as `setup:2` must be a filesystem that there is.
///
/// # Errors
/// Which ones there are.
pub fn check_target(spec: &SetupSpec, target: &str) -> Result<(), String> {
    let Some(number) = target.strip_prefix(TARGET) else { return Ok(()) };
    let count = filesystems(spec);
    if number.parse().is_ok_and(|number: usize| (1..=count).contains(&number)) {
        return Ok(());
    }
    Err(match count {
        0 => format!("{target}: the setup makes no filesystem"),
        1 => format!(
            "{target}: the setup makes one filesystem, setup:1; filesystem.each = true makes one on every device"
        ),
        _ => format!("{target}: the setup makes {count} filesystems, setup:1 to setup:{count}"),
    })
}

/// A filesystem without anything said about it.
fn plain() -> FilesystemSpec {
    FilesystemSpec {
        kind: String::new(),
        make_options: Vec::new(),
        is_aligned: true,
        mount_options: Vec::new(),
        journal: None,
        is_lazy: false,
        fill_percent: None,
        ageing_rounds: None,
        data_profile: None,
        metadata_profile: None,
        is_on_each: false,
    }
}
