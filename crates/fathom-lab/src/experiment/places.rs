//! What the loads of a plan need of the places that are there: devices that they overwrite, and room for the files that fathom makes. Looked
//! at before anything is set or made.

use super::loads::{Load, LoadKind};
use super::outline::Ground;
use super::program;
use crate::error::{ErrorClass, LabError};
use crate::run::{self, RunOptions, default_size_bytes};
use crate::target::{self, TargetWish};
use fathom_base::units::format_sizes;
use fathom_guard::{Refusal, claim_block_device, place};
use fathom_model::plan::Plan;
use fathom_model::plan::cell::Cell;
use fathom_setup::Outline as SetupOutline;
use fathom_sys::io::OpenMode;
use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// What stands for the filesystem that a setup makes.
const BUILT: &str = "setup:";

/// Test files of one cell, all of which are there at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files {
    /// Bytes in all by directory; those on what a setup makes begin with `setup:`.
    room: BTreeMap<String, u64>,
    /// Of file servers on what a setup makes, about: each filesystem gets its tree before anything is measured.
    trees: BTreeMap<String, u64>,
    /// Bytes that are written before anything is measured.
    pub laid_out_bytes: u64,
}

/// The targets of a cell's loads with what is wanted of each; nothing of loads that are no requests.
pub(super) fn wishes(
    ground: &Ground<'_>,
    plan: &Plan,
    cell: &Cell,
    loads: &[Load],
) -> Result<Vec<(String, TargetWish)>, LabError> {
    let target = match &plan.target {
        Some(target) if cell.setup.is_empty() => target.clone(),
        _ => BUILT.to_owned(),
    };
    let mut all =
        RunOptions { workload: program::workload_of(""), target, repeats: 1, until_steady: None };
    for load in loads {
        if let LoadKind::Io(workload) = &load.kind {
            all.workload.jobs.extend(workload.jobs.iter().cloned());
        }
    }
    if cell.setup.is_empty() && !all.workload.jobs.is_empty() {
        all = run::with_array_sizes_at(ground.root, &all)?;
    }
    let is_there =
        |(key, wish): &(run::TargetKey, TargetWish)| !wish.null && !key.0.starts_with("null:");
    let wishes = run::wishes(&all).into_iter().filter(is_there);
    Ok(wishes.map(|(key, wish)| (key.0, wish)).collect())
}

/// Refuses a target that cannot serve, but for devices that are written; what a setup makes is not there yet.
///
/// # Errors
/// As it would be said when it is prepared.
pub(super) fn check(
    ground: &Ground<'_>,
    target: &str,
    wish: &TargetWish,
    may_change: bool,
) -> Result<(), LabError> {
    if target.starts_with(BUILT) {
        return Ok(());
    }
    target::check_there(ground.root, Path::new(target), wish, may_change)
}

/// A device that a load overwrites.
pub(super) struct Overwritten {
    pub path: PathBuf,
    pub what: String,
    pub id: String,
    pub is_consented: bool,
}

/// Whether a target that is written is a device, and may be: everything that a claim looks at, without keeping it.
///
/// # Errors
/// Why it may not, whatever is consented to.
pub(super) fn look_at_device(
    ground: &Ground<'_>,
    path: &Path,
) -> Result<Option<Overwritten>, LabError> {
    if !std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device()) {
        return Ok(None);
    }
    // One that is suspended would never answer.
    target::resolve_at(ground.root, path)?;
    let mode = OpenMode::default();
    let found = match claim_block_device(ground.root, path, ground.consent, ground.protected, mode)
    {
        Ok(claim) => Overwritten {
            path: claim.path().to_owned(),
            what: fathom_base::units::format_size(claim.size_bytes()),
            id: claim.id().to_owned(),
            is_consented: true,
        },
        Err(Refusal::ConsentMissing { device, what, id, .. }) => {
            Overwritten { path: device, what, id, is_consented: false }
        }
        Err(refusal) => return Err(refusal.into()),
    };
    Ok(Some(found))
}

/// The trees that file servers of a cell read on new filesystems, and what clients begin with: of those that are there nobody knows yet
/// what they have.
fn trees(cell: &Cell, loads: &[Load]) -> BTreeMap<String, u64> {
    let mut trees = BTreeMap::new();
    for load in loads {
        let LoadKind::Server(server) = &load.kind else { continue };
        let place = server.target.as_deref().unwrap_or(BUILT);
        if cell.setup.filesystem.is_some() && place.starts_with(BUILT) {
            let bytes = server.tree_bytes(true).saturating_add(server.first_bytes());
            let tree: &mut u64 = trees.entry(place.to_owned()).or_default();
            *tree = tree.saturating_add(bytes);
        }
    }
    trees
}

/// The files that fathom makes for a cell.
pub(super) fn files(
    ground: &Ground<'_>,
    cell: &Cell,
    loads: &[Load],
    wishes: &[(String, TargetWish)],
) -> Files {
    let mut files = Files { trees: trees(cell, loads), ..Files::default() };
    for (target, wish) in wishes {
        let path = Path::new(target);
        let (place, bytes) = if target.starts_with(BUILT) {
            // How large the caches below it are shows only then.
            let is_file = cell.setup.filesystem.is_some() && !has_array_sizes(wish);
            let bytes = wish.size_bytes.unwrap_or_else(|| default_size_bytes(0, 0, wish));
            (target.clone(), if is_file { bytes } else { 0 })
        } else if path.is_dir() {
            (target.clone(), wished_size(ground, path, wish))
        } else if path.exists() {
            continue;
        } else {
            let above = target::directory_above(path);
            (above.display().to_string(), wish.size_bytes.unwrap_or(0))
        };
        // Names, and logs that grow, take what they take.
        if wish.names > 0 {
            continue;
        }
        let room = files.room.entry(place).or_default();
        *room = room.saturating_add(bytes);
        if !wish.fresh {
            files.laid_out_bytes = files.laid_out_bytes.saturating_add(bytes);
        }
    }
    files
}

fn has_array_sizes(wish: &TargetWish) -> bool {
    wish.jobs.iter().any(|job| !job.array_sizes.is_empty())
}

fn wished_size(ground: &Ground<'_>, path: &Path, wish: &TargetWish) -> u64 {
    let host = fathom_inspect::host_facts(ground.root);
    let memory_bytes = host.cacheable_memory_bytes().unwrap_or(1 << 30);
    let free_bytes = host.memory_available_bytes.unwrap_or(1 << 30);
    let asked = wish.size_bytes;
    asked.unwrap_or_else(|| {
        target::wished_size_at(ground.root, path, wish, (memory_bytes, free_bytes))
            .unwrap_or_else(|_| default_size_bytes(0, 0, wish))
    })
}

/// Whether the files of a cell fit where they are made.
///
/// # Errors
/// What is missing, as it would be said when they are made.
pub(super) fn fit(
    ground: &Ground<'_>,
    files: &Files,
    setup: Option<&SetupOutline>,
) -> Result<(), LabError> {
    let there = files.room.iter().filter(|(place, _)| !place.starts_with(BUILT));
    for (place, bytes) in there {
        let (root, state_dir) = (ground.root, ground.state_dir);
        target::check_room_of_application(root, state_dir, Path::new(place), *bytes)?;
    }
    let Some(setup) = setup.filter(|setup| setup.usable_bytes > 0) else { return Ok(()) };
    let usable_bytes = setup.usable_bytes - place::reserve_bytes_of_setup(setup.usable_bytes);
    let built = files.room.keys().chain(files.trees.keys());
    for place in built.filter(|place| place.starts_with(BUILT)) {
        let of = |all: &BTreeMap<String, u64>| all.get(place).copied().unwrap_or(0);
        let (test_files, trees) = (of(&files.room), of(&files.trees));
        let bytes = test_files.saturating_add(trees);
        if bytes > usable_bytes {
            let (needed, usable) = format_sizes(bytes, usable_bytes);
            let (what, key) = match trees > test_files {
                true => ("a tree", "tree_size"),
                false => ("test files", "size"),
            };
            return Err(LabError::Cell {
                reason: format!(
                    "{what} of {needed} do{} not fit on what is built: at most {usable} of it can be used; give a smaller {key}=",
                    if trees > test_files { "es" } else { "" }
                ),
                class: ErrorClass::Missing,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::loads;

    /// The tree comes after the device was overwritten: whether it fits is known before.
    #[test]
    fn a_tree_that_does_not_fit_on_what_is_built_is_refused() {
        let text = "question = \"?\"\n[[workload]]\nuse = \"fsop\"\nphases = \"2r\"\ntree_size = \"20GB\"\n\
                    [setup]\ndevices = [\"/dev/sdx\"]\nfilesystem = \"ext4\"\n";
        let plan = fathom_plan::read(text, "/p.toml", &fathom_plan::Unchecked).unwrap();
        let cells = fathom_plan::cells(&plan).unwrap();
        let loads = loads::loads(&cells[0].workloads, false).unwrap();
        let (root, dir) = (fathom_sys::sysroot::SysRoot::live(), std::env::temp_dir());
        let (consent, protected) =
            (fathom_guard::Consent::default(), fathom_guard::Protected { store_path: dir.clone() });
        let ground =
            Ground { root: &root, consent: &consent, protected: &protected, state_dir: &dir };
        let files = files(&ground, &cells[0], &loads, &[]);
        let on = |usable_bytes: u64| {
            let setup = SetupOutline { usable_bytes, ..SetupOutline::default() };
            fit(&ground, &files, Some(&setup)).map_err(|error| error.to_string())
        };
        assert_eq!(on(40_000_000_000), Ok(()));
        let told = on(1 << 30).unwrap_err();
        assert!(told.starts_with("a tree of 18.6 GiB does not fit on what is built"), "{told}");
        assert!(told.ends_with("give a smaller tree_size="), "{told}");
    }
}
