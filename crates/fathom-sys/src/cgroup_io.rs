//! A control group of our own (version 2) that limits the I/O of this process: where it may be made, its limits, and
//! taking it away.
//!
//! It is always made below the group that the process is in, so that all limits from above still hold. The `io`
//! controller works on whole processes only: single threads cannot be limited.

use crate::cgroup::group_dirs;
use crate::devno::DevNo;
use crate::sysroot::SysRoot;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// How a process gets a group of its own under systemd.
const OWN_GROUP: &str =
    "start it in a group of its own: systemd-run --scope -p Delegate=io fathom run ...";

/// Why no group can be made here.
#[derive(Debug, Error)]
pub enum NoPlace {
    /// No hierarchy of version 2 is mounted, or the own group is not visible in it.
    #[error(
        "cgroup_weight= and cgroup_max= need cgroup version 2, and this process's group is not visible in one (mount | grep cgroup2); boot with systemd.unified_cgroup_hierarchy=1, or mount it"
    )]
    Unmounted,
    /// Version 1 has the block devices.
    #[error(
        "cgroup_weight= and cgroup_max= need the io controller of cgroup version 2, but version 1 (blkio) has the block devices; boot with systemd.unified_cgroup_hierarchy=1"
    )]
    Version1,
    /// The groups above do not pass the controller on.
    #[error("the io controller is not enabled for {}; {OWN_GROUP}", .0.display())]
    NotPassedOn(PathBuf),
    /// The root of all groups has it and does not pass it on.
    #[error(
        "the io controller is not enabled below the root of control groups; do that first: echo +io >{}", fathom_base::shell::path(&.0.join(SUBTREE))
    )]
    NotEnabled(PathBuf),
    /// It would have to be enabled for others too.
    #[error(
        "the control group {} is not fathom's alone, and the io controller is not enabled below it; {OWN_GROUP}", .0.display()
    )]
    Shared(PathBuf),
}

/// Where a group can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    dir: PathBuf,
    /// The controller is still to be enabled there, which concerns nobody else.
    must_enable: bool,
}

/// Finds the place for a group of this process; changes nothing.
///
/// # Errors
/// [`NoPlace`] with the cure.
pub fn place(root: &SysRoot) -> Result<Place, NoPlace> {
    let own = group_dirs(root, "io").into_iter().next().ok_or(NoPlace::Unmounted)?;
    let pid = std::process::id().to_string();
    let members = root.read(own.join(PROCS)).unwrap_or_default();
    let dir = root.path(&own);
    if !members.lines().any(|line| line == pid) {
        return Err(NoPlace::Unmounted);
    }
    if !has_word(root, &own.join("cgroup.controllers")) {
        let text = root.read("proc/self/cgroup").unwrap_or_default();
        let is_old =
            |line: &str| line.split(':').nth(1).is_some_and(|c| c.split(',').any(|c| c == "blkio"));
        return Err(if text.lines().any(is_old) {
            NoPlace::Version1
        } else {
            NoPlace::NotPassedOn(dir)
        });
    }
    if has_word(root, &own.join(SUBTREE)) {
        return Ok(Place { dir, must_enable: false });
    }
    // Only the root of all groups has no type.
    if !root.exists(own.join("cgroup.type")) {
        return Err(NoPlace::NotEnabled(dir));
    }
    if members.lines().count() > 1 || has_groups(&dir) {
        return Err(NoPlace::Shared(dir));
    }
    Ok(Place { dir, must_enable: true })
}

/// True unless it is certain that there is none.
fn has_groups(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return true };
    entries.flatten().any(|entry| entry.path().is_dir())
}

const PROCS: &str = "cgroup.procs";
const SUBTREE: &str = "cgroup.subtree_control";

fn has_word(root: &SysRoot, file: &Path) -> bool {
    root.read(file).is_ok_and(|text| text.split_whitespace().any(|word| word == "io"))
}

impl Place {
    /// The directory that a group of that name will have.
    #[must_use]
    pub fn group_dir(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// True when the controller will be enabled there, and has to be disabled afterwards.
    #[must_use]
    pub fn must_enable(&self) -> bool {
        self.must_enable
    }

    /// Makes the group and moves this process with all its threads into it.
    ///
    /// # Errors
    /// Those of mkdir and of writing into the control files; all is as before then.
    pub fn enter(&self, name: &str) -> io::Result<IoGroup> {
        let dir = self.group_dir(name);
        fs::create_dir(&dir)?;
        let group = IoGroup { place: self.clone(), dir, is_left: false, is_own: true };
        // Dropped on the way out of an error, it undoes what was done.
        put(&group.dir.join(PROCS), "0")?;
        if self.must_enable {
            put(&self.dir.join(SUBTREE), "+io")?;
        }
        Ok(group)
    }

    /// Makes a group for another process; see [`IoGroup::admit`]. The controller must be enabled here: where it is still to be
    /// enabled, [`Self::enter`] comes first.
    ///
    /// # Errors
    /// Those of mkdir.
    pub fn make(&self, name: &str) -> io::Result<IoGroup> {
        let dir = self.group_dir(name);
        fs::create_dir(&dir)?;
        Ok(IoGroup { place: self.clone(), dir, is_left: false, is_own: false })
    }
}

/// Writes one line into a control file; the kernel takes it as a whole or not at all.
fn put(file: &Path, line: &str) -> io::Result<()> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("writing '{line}' into {}: {error}", file.display()))
    };
    // Not created when missing: what is not there, the kernel cannot do.
    use std::io::Write;
    let mut open = fs::OpenOptions::new().write(true).open(file).map_err(named)?;
    open.write_all(line.as_bytes()).map_err(named)
}

/// A group that this process is in, or another one. Dropping it leaves and removes it.
#[derive(Debug)]
pub struct IoGroup {
    place: Place,
    dir: PathBuf,
    is_left: bool,
    /// This process is in it.
    is_own: bool,
}

impl IoGroup {
    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Limits the I/O on a whole device, by the words of `io.max` (`rbps`, `wbps`, `riops`, `wiops`), and reads them
    /// back.
    ///
    /// # Errors
    /// ENODEV for a partition or a device without limits; `Other` when something else is read back.
    pub fn set_max(&self, device: DevNo, limits: &[(&str, u64)]) -> io::Result<()> {
        let file = self.dir.join("io.max");
        let words: Vec<String> =
            limits.iter().map(|(word, value)| format!("{word}={value}")).collect();
        put(&file, &format!("{device} {}", words.join(" ")))?;
        let text = fs::read_to_string(&file)?;
        let own = text.lines().find(|line| line.split(' ').next() == Some(&device.to_string()));
        let got: Vec<&str> = own.unwrap_or_default().split(' ').collect();
        if words.iter().all(|word| got.contains(&word.as_str())) {
            return Ok(());
        }
        let path = file.display();
        Err(io::Error::other(format!(
            "{path}: wrote '{}', read back '{}'",
            words.join(" "),
            got.join(" ")
        )))
    }

    /// Sets the weight of the group in the control file of one of those who share by weight, and reads it back.
    ///
    /// # Errors
    /// `NotFound` when this kernel has no such file; ERANGE for a value that it does not take.
    pub fn set_weight(&self, by: WeightedBy, weight: u32) -> io::Result<()> {
        let file = self.dir.join(by.file());
        put(&file, &weight.to_string())?;
        let text = fs::read_to_string(&file)?;
        let got = text.lines().next().and_then(|line| line.split(' ').next_back());
        if got == Some(&weight.to_string()) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{}: wrote {weight}, read back '{}'",
            file.display(),
            text.trim()
        )))
    }

    /// Moves another process into it, with all its threads.
    ///
    /// # Errors
    /// ESRCH when there is none, EACCES and EPERM without the right to.
    pub fn admit(&self, pid: u32) -> io::Result<()> {
        put(&self.dir.join(PROCS), &pid.to_string())
    }

    /// Leaves the group and removes it; others must have left it.
    ///
    /// # Errors
    /// Those of writing into the control files and of rmdir.
    pub fn leave(mut self) -> io::Result<()> {
        self.is_left = true;
        self.undo()
    }

    /// The controller goes first: a group that passes it on can have no processes.
    fn undo(&self) -> io::Result<()> {
        if !self.is_own {
            return remove_empty(&self.dir);
        }
        let disabled =
            if self.place.must_enable { put(&self.place.dir.join(SUBTREE), "-io") } else { Ok(()) };
        put(&self.place.dir.join(PROCS), "0")?;
        remove_empty(&self.dir)?;
        disabled
    }
}

impl Drop for IoGroup {
    fn drop(&mut self) {
        if !self.is_left {
            // What stays is in the journal.
            let _ = self.undo();
        }
    }
}

/// Who shares a device by weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightedBy {
    /// The scheduler bfq, for the devices that have it; weights up to 1000.
    Bfq,
    /// The kernel's cost model, for the devices for which it is enabled; weights up to 10000.
    Cost,
}

impl WeightedBy {
    /// Its control file.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Self::Bfq => "io.bfq.weight",
            Self::Cost => "io.weight",
        }
    }
}

/// Whether groups have weights on this machine, as far as that shows before there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weights {
    /// In the scheduler bfq; none while no group shows it, or bfq is not loaded yet.
    pub bfq: Option<bool>,
    /// In the cost model; none while nobody shows it.
    pub cost: Option<bool>,
}

/// Finds out which weights the kernel has, from a group that is there: the root of all groups shows none of its own.
#[must_use]
pub fn weights(root: &SysRoot) -> Weights {
    let Some(own) = group_dirs(root, "io").into_iter().next() else { return Weights::default() };
    // Only the root of all groups has no type.
    let is_root = !root.exists(own.join("cgroup.type"));
    let below = || root.names(&own).into_iter().map(|name| own.join(name));
    let has_io =
        |dir: &PathBuf| root.exists(dir.join("cgroup.type")) && root.exists(dir.join("io.stat"));
    let shown = if has_io(&own) { Some(own.clone()) } else { below().find(has_io) };
    let has = |by: WeightedBy| shown.as_ref().map(|dir| root.exists(dir.join(by.file())));
    let is_loaded = root.names("sys/block").into_iter().any(|disk| {
        let schedulers = root.text(Path::new("sys/block").join(disk).join("queue/scheduler"));
        schedulers.is_some_and(|all| all.split([' ', '[', ']']).any(|word| word == "bfq"))
    });
    Weights {
        bfq: has(WeightedBy::Bfq).filter(|has| *has || is_loaded),
        cost: has(WeightedBy::Cost).or(is_root.then(|| root.exists(own.join(COST)))),
    }
}

/// The control file of the cost model, which the root of all groups alone has.
const COST: &str = "io.cost.qos";

/// Whether the cost model is enabled for a device; none when only somebody above can tell.
#[must_use]
pub fn is_cost_enabled(root: &SysRoot, device: DevNo) -> Option<bool> {
    let top = group_dirs(root, "io").pop()?;
    let text = root.read(top.join(COST)).ok()?;
    let own = text.lines().find(|line| line.split(' ').next() == Some(&device.to_string()));
    Some(own.is_some_and(|line| line.split(' ').any(|word| word == "enable=1")))
}

/// Removes a group that a killed process left, unless it is gone, and disables what was enabled for it. Nothing is lost
/// by it: a group with processes or groups in it cannot be removed.
///
/// # Errors
/// Those of rmdir, EBUSY when somebody is in it.
pub fn remove_left(dir: &Path, must_disable: bool) -> io::Result<()> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match remove_empty(dir) {
        Err(error) if !is_gone(&error) => return Err(error),
        _ => {}
    }
    let Some(above) = dir.parent() else { return Ok(()) };
    if must_disable && !has_groups(above) { put(&above.join(SUBTREE), "-io") } else { Ok(()) }
}

/// The group of that name at any depth below another: what a process in a container has made has another path outside.
#[must_use]
pub fn named_below(top: &Path, name: &OsStr) -> Option<PathBuf> {
    let mut open = vec![top.to_owned()];
    while let Some(group) = open.pop() {
        let below = fs::read_dir(&group).into_iter().flatten().flatten();
        // What links to a group is none.
        for group in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if group.file_name() == name {
                return Some(group.path());
            }
            open.push(group.path());
        }
    }
    None
}

/// Threads that have just ended may still be on their way out.
fn remove_empty(dir: &Path) -> io::Result<()> {
    const TRIES: u32 = 50;
    let is_busy = |e: &io::Error| e.kind() == io::ErrorKind::ResourceBusy;
    for _ in 1..TRIES {
        match fs::remove_dir(dir) {
            Err(error) if is_busy(&error) => std::thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
    fs::remove_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with this process in the group `/a`, whose files have the content.
    fn placed(name: &str, files: &[(&str, &str)], groups: &str) -> Result<Place, NoPlace> {
        let dir = std::env::temp_dir().join(format!("fathom-place-{name}-{}", std::process::id()));
        let procs = format!("{}\n", std::process::id());
        let mountinfo = "1 0 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let fixed = [
            ("proc/self/cgroup", groups),
            ("proc/self/mountinfo", mountinfo),
            ("sys/fs/cgroup/a/cgroup.procs", &procs),
        ];
        for (path, content) in fixed.iter().chain(files) {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let found = place(&SysRoot::at(&dir));
        fs::remove_dir_all(&dir).unwrap();
        let below = |path: PathBuf| path.strip_prefix(&dir).unwrap().to_path_buf();
        found.map(|place| Place { dir: below(place.dir), ..place })
    }

    const OFFERED: (&str, &str) = ("sys/fs/cgroup/a/cgroup.controllers", "cpu io memory\n");
    const TYPE: (&str, &str) = ("sys/fs/cgroup/a/cgroup.type", "domain\n");

    #[test]
    fn a_group_of_ones_own_is_a_place() {
        let nothing = ("sys/fs/cgroup/a/cgroup.subtree_control", "\n");
        let passed_on = ("sys/fs/cgroup/a/cgroup.subtree_control", "io\n");
        let at_a = |must_enable| Place { dir: PathBuf::from("sys/fs/cgroup/a"), must_enable };
        let found = placed("alone", &[OFFERED, TYPE, nothing], "0::/a\n").unwrap();
        assert_eq!(found, at_a(true));
        let found = placed("root", &[OFFERED, passed_on], "0::/a\n").unwrap();
        assert_eq!(found, at_a(false));
        let refused = placed("unset", &[OFFERED, nothing], "0::/a\n").unwrap_err();
        assert!(refused.to_string().contains("echo +io >/"), "{refused}");
    }

    #[test]
    fn what_concerns_others_is_no_place() {
        let procs = format!("{}\n1\n", std::process::id());
        let with_others = [OFFERED, TYPE, ("sys/fs/cgroup/a/cgroup.procs", procs.as_str())];
        let refused = placed("others", &with_others, "0::/a\n").unwrap_err();
        assert!(matches!(refused, NoPlace::Shared(_)), "{refused}");
        let with_groups = [OFFERED, TYPE, ("sys/fs/cgroup/a/b/cgroup.procs", "")];
        let refused = placed("groups", &with_groups, "0::/a\n").unwrap_err();
        assert!(matches!(refused, NoPlace::Shared(_)), "{refused}");
        let refused = placed("nothing", &[TYPE], "0::/a\n").unwrap_err();
        assert!(matches!(refused, NoPlace::NotPassedOn(_)), "{refused}");
        let refused = placed("old", &[TYPE], "3:blkio:/x\n0::/a\n").unwrap_err();
        assert!(matches!(refused, NoPlace::Version1), "{refused}");
        // Outside of what this mount shows.
        let refused = placed("elsewhere", &[OFFERED, TYPE], "0::/../b\n").unwrap_err();
        assert!(matches!(refused, NoPlace::Unmounted), "{refused}");
    }

    /// On plain directories, which hold what was written last.
    #[test]
    fn what_was_enabled_for_a_group_is_disabled_also_when_the_group_is_gone() {
        let dir = std::env::temp_dir().join(format!("fathom-left-{}", std::process::id()));
        let (group, neighbour, enabled) = (dir.join("group"), dir.join("other"), dir.join(SUBTREE));
        let after = |must_disable| {
            fs::write(&enabled, "").unwrap();
            remove_left(&group, must_disable).unwrap();
            assert!(!group.exists());
            fs::read_to_string(&enabled).unwrap()
        };
        fs::create_dir_all(&group).unwrap();
        assert_eq!(after(true), "-io");
        assert_eq!(after(true), "-io", "gone already");
        assert_eq!(after(false), "", "it was enabled before");
        fs::create_dir(&neighbour).unwrap();
        assert_eq!(after(true), "", "another group may need it");
        fs::remove_dir_all(&dir).unwrap();
        remove_left(&group, true).unwrap();
    }

    /// What of the kernel's weights shows, given the files of the own group and a group below it.
    #[test]
    fn weights_show_in_a_group_that_is_there() {
        let known = |case: &str, group: &str, files: &[&str]| {
            let dir = std::env::temp_dir().join(format!("fathom-w-{case}-{}", std::process::id()));
            let groups = format!("0::{group}\n");
            let fixed = [
                ("proc/self/cgroup", groups.as_str()),
                ("proc/self/mountinfo", "1 0 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
                ("sys/block/sda/queue/scheduler", "[none] mq-deadline bfq\n"),
            ];
            let skip = usize::from(case == "unloaded");
            let files = files.iter().map(|file| (*file, "\n"));
            for (path, content) in fixed.into_iter().take(3 - skip).chain(files) {
                let path = dir.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            let found = weights(&SysRoot::at(&dir));
            fs::remove_dir_all(&dir).unwrap();
            (found.bfq, found.cost)
        };
        const ROOT: &str = "sys/fs/cgroup/cgroup.controllers";
        let group = ["sys/fs/cgroup/a/cgroup.type", "sys/fs/cgroup/a/io.stat"];
        let with = |file: &'static str| [group[0], group[1], file];
        let both =
            [group[0], group[1], "sys/fs/cgroup/a/io.weight", "sys/fs/cgroup/a/io.bfq.weight"];
        assert_eq!(known("own", "/a", &both), (Some(true), Some(true)));
        assert_eq!(known("below", "/", &both), (Some(true), Some(true)));
        assert_eq!(known("neither", "/a", &group), (Some(false), Some(false)));
        let cost = with("sys/fs/cgroup/a/io.weight");
        assert_eq!(known("cost", "/a", &cost), (Some(false), Some(true)));
        // The file comes with the module.
        assert_eq!(known("unloaded", "/a", &cost), (None, Some(true)));
        // The root of all groups alone.
        assert_eq!(known("alone", "/", &[ROOT]), (None, Some(false)));
        assert_eq!(known("model", "/", &[ROOT, "sys/fs/cgroup/io.cost.qos"]), (None, Some(true)));
        // A group without the controller shows nothing.
        assert_eq!(known("off", "/a", &[group[0]]), (None, None));
    }

    #[test]
    fn the_cost_model_is_on_where_it_says_so() {
        let dir = std::env::temp_dir().join(format!("fathom-cost-{}", std::process::id()));
        for (path, content) in [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", "1 0 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/io.cost.qos", "8:0 enable=1 ctrl=auto\n8:16 enable=0 ctrl=auto\n"),
        ] {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let root = SysRoot::at(&dir);
        let found = [0, 16, 32].map(|minor| is_cost_enabled(&root, DevNo { major: 8, minor }));
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, [Some(true), Some(false), Some(false)]);
    }
}
