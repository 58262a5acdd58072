//! btrfs over several devices: whether the kernel has what was asked for, and how much of it can be used.

use crate::error::SetupError;
use crate::filesystem::Ground;
use crate::mounting::number_of;
use crate::site::{Device, Site};
use fathom_guard::relations::devices_of_mount;
use fathom_model::plan::setup::FilesystemSpec;
use fathom_sys::mounts::Mount;
use fathom_sys::sysroot::SysRoot;
use std::path::{Path, PathBuf};

/// All devices are members, and the profiles are those that were asked for.
///
/// # Errors
/// [`SetupError::NotAsAsked`] with what there is instead.
pub(crate) fn judge(
    site: &mut Site<'_, '_>,
    spec: &FilesystemSpec,
    mount: &Mount,
    ground: Ground<'_>,
) -> Result<(), SetupError> {
    let members = devices_of_mount(site.root, mount);
    let is_away = |other: &&Device| {
        number_of(site.root, other).is_none_or(|number| !members.contains(&number))
    };
    if let Some(other) = ground.further.iter().find(is_away) {
        let text = format!("btrfs was mounted without {}", other.word());
        return Err(SetupError::NotAsAsked(text));
    }
    if !spec.spans_devices() {
        return Ok(());
    }
    let mut shown = Vec::new();
    for (what, asked) in [("data", &spec.data_profile), ("metadata", &spec.metadata_profile)] {
        let found = profiles(site.root, &ground.device.name, what);
        if let Some(asked) =
            asked.as_ref().filter(|asked| !found.is_empty() && found != [asked.as_str()])
        {
            let found = found.join(", ");
            let text = format!("the {what} profile of btrfs is {found}, not {asked}");
            return Err(SetupError::NotAsAsked(text));
        }
        shown.push(format!(
            "{what} {}",
            if found.is_empty() { "not shown".to_owned() } else { found.join(", ") }
        ));
    }
    let count = 1 + ground.further.len();
    site.facts.push(format!("btrfs over {count} devices: {}", shown.join(", ")));
    Ok(())
}

/// The profiles in use of the mounted filesystem with that device, as the kernel shows them.
fn profiles(root: &SysRoot, device: &str, what: &str) -> Vec<String> {
    let base = Path::new("sys/fs/btrfs");
    let has = |dir: &PathBuf| root.names(dir.join("devices")).iter().any(|name| name == device);
    let dirs = root.names(base).into_iter().map(|uuid| base.join(uuid));
    let Some(dir) = dirs.into_iter().find(has) else { return Vec::new() };
    let known =
        |name: &String| ["single", "dup"].contains(&name.as_str()) || name.starts_with("raid");
    root.names(dir.join("allocation").join(what)).into_iter().filter(known).collect()
}

/// About how many bytes of data devices of these sizes hold: each block lies on two of them where the profile keeps two copies.
pub(crate) fn usable_bytes(profile: Option<&str>, sizes: &[u64]) -> u64 {
    let all: u64 = sizes.iter().sum();
    let largest = sizes.iter().copied().max().unwrap_or(0);
    match profile {
        Some("raid1" | "raid10") => (all / 2).min(all - largest),
        Some("dup") => all / 2,
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::usable_bytes;

    #[test]
    fn copies_lie_on_different_devices() {
        assert_eq!(usable_bytes(Some("raid1"), &[4, 4]), 4);
        assert_eq!(usable_bytes(Some("raid1"), &[4, 4, 4]), 6);
        // The largest has no partner for more than the others hold.
        assert_eq!(usable_bytes(Some("raid1"), &[10, 2, 3]), 5);
        assert_eq!(usable_bytes(Some("raid10"), &[4, 4, 4, 4]), 8);
        assert_eq!(usable_bytes(Some("dup"), &[8]), 4);
        assert_eq!(usable_bytes(Some("raid0"), &[4, 2]), 6);
        assert_eq!(usable_bytes(None, &[4, 2]), 6);
    }
}
