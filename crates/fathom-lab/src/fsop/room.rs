//! How much writers and clients may make: all together leave free what test files do.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::target;
use fathom_base::lognormal::LogNormal;
use fathom_base::units::{format_count, format_sizes};
use fathom_model::fsop::FsopSpec;
use fathom_model::play::PlaySpec;
use fathom_sys::fsinfo::{self, Space};
use fathom_tree::walk_grow::Growing;
use std::path::Path;

/// Of all inodes one in so many stays free.
const INODES_KEPT: u64 = 20;

fn lacks(path: &Path, reason: String) -> LabError {
    LabError::Target { path: path.to_owned(), reason, class: ErrorClass::Missing }
}

fn space(path: &Path) -> Result<Space, LabError> {
    let io = |source| LabError::TargetIo { path: path.to_owned(), what: "asking", source };
    fsinfo::space(path).map_err(io)
}

/// Inodes that may be used; none where they are made as needed.
fn inodes(space: Space) -> Option<u64> {
    let kept = space.inodes / INODES_KEPT;
    (space.inodes > 0).then(|| space.inodes_free.saturating_sub(kept))
}

/// Refuses what cannot have its room, before anything is measured.
///
/// # Errors
/// [`LabError`] with the figures.
pub(super) fn check(lab: &Lab<'_>, spec: &FsopSpec, path: &Path) -> Result<(), LabError> {
    if let Some(play) = &spec.play {
        return check_clients(lab, path, play);
    }
    match spec.phases.iter().map(|phase| phase.writers).max() {
        None | Some(0) => Ok(()),
        Some(writers) => check_writers(lab, spec, path, writers),
    }
}

/// Writers that could not make their first directory.
fn check_writers(
    lab: &Lab<'_>,
    spec: &FsopSpec,
    path: &Path,
    writers: u32,
) -> Result<(), LabError> {
    let (usable, why) = target::space_of_writers(lab, path)?;
    let first = u64::from(spec.files).saturating_mul(spec.size_bytes_mean);
    let wanted = first.saturating_mul(u64::from(writers)).max(1);
    if wanted <= usable {
        return Ok(());
    }
    let (wanted, usable) = format_sizes(wanted, usable);
    let reason = format!(
        "{writers} writers make at least {wanted}, and {usable} may be used: {why}; free some space, use a larger \
         filesystem, or let readers alone work: phases=3r"
    );
    Err(lacks(path, reason))
}

/// What each writer makes.
///
/// # Errors
/// Those of asking for free space.
pub(super) fn growing(
    lab: &Lab<'_>,
    spec: &FsopSpec,
    path: &Path,
    writers: u32,
) -> Result<Growing, LabError> {
    let space = space(path)?;
    let (usable, _) = target::space_of_writers(lab, path)?;
    let share = |free: u64| free / u64::from(writers.max(1));
    // The mean of a log-normal distribution is median x exp(sigma^2 / 2).
    let ratio = spec.size_bytes_mean as f64 / spec.size_bytes_median.max(1) as f64;
    let sigma = (2.0 * ratio.ln()).max(0.0).sqrt();
    Ok(Growing {
        sync: spec.sync,
        block_bytes: spec.block_bytes as usize,
        sizes: LogNormal::new(spec.size_bytes_median, sigma, spec.size_bytes_max),
        directories: spec.directories,
        files: spec.files,
        unit_bytes: space.block_bytes.clamp(512, 65_536),
        bytes_max: share(usable),
        names_max: inodes(space).map_or(u64::MAX, share),
    })
}

/// Clients that may come to use more than they may.
fn check_clients(lab: &Lab<'_>, path: &Path, play: &PlaySpec) -> Result<(), LabError> {
    let (usable, why) = target::space_of_writers(lab, path)?;
    let (bytes, names) = play.room();
    if bytes > usable {
        let (bytes, usable) = format_sizes(bytes, usable);
        let reason = format!(
            "its clients may come to use {bytes}, and {usable} may be used: {why}; fewer files= or clients=, or smaller sizes="
        );
        return Err(lacks(path, reason));
    }
    if let Some(free) = inodes(space(path)?).filter(|free| names > *free) {
        let reason = format!(
            "its clients may come to make {} files, and {} may be made: 5 % of the inodes stay free; fewer files= (or entries=) or clients=",
            format_count(names),
            format_count(free)
        );
        return Err(lacks(path, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_in_a_hundred_inodes_stay_free() {
        let of = |inodes, inodes_free| {
            let space = Space {
                block_bytes: 4096,
                total_bytes: 0,
                free_bytes: 0,
                available_bytes: 0,
                inodes,
                inodes_free,
            };
            super::inodes(space)
        };
        assert_eq!(of(0, 0), None, "made as needed");
        assert_eq!((of(1_000, 900), of(1_000, 40)), (Some(850), Some(0)));
    }
}
