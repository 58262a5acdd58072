//! Less memory for an experiment: a control group for this process and all that it starts, instead of a boot parameter. What its page
//! cache holds counts too.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::restore::Outcome;
use fathom_base::units::format_size;
use fathom_guard::changes::ChangeLog;
use fathom_model::change::Change;
use fathom_model::change::machine::MachineChange;
use fathom_sys::cgroup_io;
use fathom_sys::sysroot::SysRoot;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where groups with the memory controller are, and the file that limits one.
struct Place {
    top: PathBuf,
    limit_file: &'static str,
    /// The group that this process is in.
    own: PathBuf,
}

/// The first version has a tree of its own for memory; in the second the controller must be switched on at the top.
fn place(root: &SysRoot) -> Result<Place, String> {
    let groups =
        root.read("proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
    let path_of = |wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let first = path_of(&|controllers| controllers.split(',').any(|name| name == "memory"));
    let tree = Path::new("sys/fs/cgroup/memory");
    if let Some(own) = first.filter(|_| root.exists(tree.join("memory.limit_in_bytes"))) {
        let top = root.path(tree);
        return Ok(Place { own: top.join(own), top, limit_file: "memory.limit_in_bytes" });
    }
    let second = path_of(&|controllers| controllers.is_empty());
    let tree = Path::new("sys/fs/cgroup");
    let is_on = root
        .text(tree.join("cgroup.subtree_control"))
        .is_some_and(|text| text.split_whitespace().any(|name| name == "memory"));
    match second {
        Some(own) if is_on => {
            let top = root.path(tree);
            Ok(Place { own: top.join(own), top, limit_file: "memory.max" })
        }
        _ => Err("this system has no control groups that limit memory (or the memory controller is not switched on: echo \
                  +memory > /sys/fs/cgroup/cgroup.subtree_control)"
            .to_owned()),
    }
}

/// Whether memory could be limited.
///
/// # Errors
/// [`LabError::Target`] with the cure.
pub(crate) fn check(root: &SysRoot) -> Result<(), LabError> {
    place(root).map(drop).map_err(|reason| missing(Path::new("memory_limit"), reason))
}

fn missing(path: &Path, reason: String) -> LabError {
    LabError::Target { path: path.to_owned(), reason, class: ErrorClass::Missing }
}

/// Moves this process into a new group that has so much.
///
/// # Errors
/// [`LabError::Target`]; what was made is in the journal.
pub(crate) fn enter(lab: &mut Lab<'_>, log: &mut ChangeLog, bytes: u64) -> Result<(), LabError> {
    let place = place(&lab.root).map_err(|reason| missing(Path::new("memory_limit"), reason))?;
    let dir = place.top.join(format!("fathom-memory-{}", log.run_id()));
    let failed = |error: io::Error| {
        missing(
            &dir,
            format!("memory cannot be limited to {}: {error}; run as root", format_size(bytes)),
        )
    };
    let change =
        Change::Machine(MachineChange::MemoryGroup { dir: dir.clone(), before: place.own });
    let step = log.intend(change.clone())?;
    log.fault_point("before a memory group is made");
    fs::create_dir(&dir).map_err(failed)?;
    log.fault_point("after a memory group was made");
    fs::write(dir.join(place.limit_file), bytes.to_string()).map_err(failed)?;
    fs::write(dir.join("cgroup.procs"), std::process::id().to_string()).map_err(failed)?;
    log.fault_point("after a memory group was entered");
    log.made(step, change)?;
    lab.host.cgroup_memory_limit_bytes = Some(bytes);
    lab.host.cgroup_memory_available_bytes = Some(bytes);
    Ok(())
}

/// The group that a fathom made in a container, whose path there means nothing here: by its name, which names the run. None when it
/// is not below the groups that are seen here.
pub(crate) fn found(root: &SysRoot, dir: &Path) -> Option<PathBuf> {
    cgroup_io::named_below(&place(root).ok()?.top, dir.file_name()?)
}

/// Leaves the group, when this process is in it, and removes it.
pub(crate) fn undo(log: &ChangeLog, dir: &Path, before: &Path) -> Outcome {
    let inside = match fs::read_to_string(dir.join("cgroup.procs")) {
        Ok(inside) => inside,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Outcome::AlreadyBack,
        Err(error) => return Outcome::Failed(format!("{}: {error}", dir.display())),
    };
    let own = std::process::id().to_string();
    log.fault_point("before a memory group is left");
    let left = match inside.lines().any(|pid| pid == own) {
        true => fs::write(before.join("cgroup.procs"), &own),
        false => Ok(()),
    };
    match left.and_then(|()| fs::remove_dir(dir)) {
        Ok(()) => Outcome::Restored,
        Err(error) => Outcome::Failed(format!("{}: {error}", dir.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    /// The group of a container lies below that of the container here.
    #[test]
    fn a_group_of_a_container_is_found_by_its_name() {
        let tree = Tree::new();
        tree.put("proc/self/cgroup", "4:memory:/\n0::/\n");
        tree.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "1\n");
        tree.put("sys/fs/cgroup/memory/pod/one/fathom-memory-run/cgroup.procs", "");
        let find = |name: &str| {
            let inside = Path::new("/sys/fs/cgroup/memory").join(name);
            found(&tree.root(), &inside)
        };
        let here = tree.root().path("sys/fs/cgroup/memory/pod/one/fathom-memory-run");
        assert_eq!(find("fathom-memory-run"), Some(here));
        assert_eq!(find("fathom-memory-other"), None);
    }
}
