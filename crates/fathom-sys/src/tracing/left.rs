//! Trace instances by whose they are: names say which process has made them, so that those of dead ones are found when the process that
//! was to remove them was killed, too.

use super::guardian;
use super::instance::SWITCH;
use crate::openers;
use crate::process::{self, Life, ProcessIdentity};
use crate::sysroot::SysRoot;
use crate::tracefs::Tracefs;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::AsFd;

/// How the names begin.
const PREFIX: &str = "fathom";

/// Removing is tried again as often: somebody may be reading it.
const TRIES_MAX: u32 = 50;

/// Who has made an instance. It does not outlive the boot that it was made in, so that nothing need be said of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    start_time_ticks: u64,
    /// The number of the namespace in which that of the process counts; 0 when it is not known.
    namespace: u64,
}

impl Owner {
    /// This process; none when `/proc` is not there.
    pub(super) fn this(root: &SysRoot) -> Option<Self> {
        let own = ProcessIdentity::current(root)?;
        let namespace = namespace(&own.pid_namespace);
        Some(Self { pid: own.pid, start_time_ticks: own.start_time_ticks, namespace })
    }

    /// The name of one of its instances.
    pub(super) fn name(self, number: u32) -> String {
        let Self { pid, start_time_ticks, namespace } = self;
        format!("{PREFIX}-{pid}-{start_time_ticks}-{namespace}-{number}")
    }

    /// None of names that are not ours to the last letter.
    fn of_name(name: &str) -> Option<Self> {
        let words: Vec<&str> = name.split('-').collect();
        let [PREFIX, pid, start, namespace, number] = words.as_slice() else { return None };
        let owner = Self {
            pid: pid.parse().ok()?,
            start_time_ticks: start.parse().ok()?,
            namespace: namespace.parse().ok()?,
        };
        (owner.name(number.parse().ok()?) == name).then_some(owner)
    }

    /// Dead for certain: itself, or all of its namespace, as of a container that was killed. Of those that only others can see
    /// nothing is known.
    fn is_dead(self, root: &SysRoot) -> bool {
        let Some(own) = ProcessIdentity::current(root) else { return false };
        let Self { pid, start_time_ticks, .. } = self;
        match self.namespace {
            0 => false,
            number if number == namespace(&own.pid_namespace) => {
                ProcessIdentity { pid, start_time_ticks, ..own }.life(root) == Life::Dead
            }
            number => process::is_namespace_gone(root, &format!("pid:[{number}]")) == Ok(true),
        }
    }
}

/// From `pid:[4026531836]`.
fn namespace(text: &str) -> u64 {
    let digits = text.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// An instance that a process has left: one that was killed, so that events may still be recorded in it, or one that could not remove it
/// when it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    name: String,
    /// The process that has ended.
    pub owner: u32,
}

impl Left {
    /// Who has it open, so that it cannot be removed.
    #[must_use]
    pub fn users(&self, root: &SysRoot) -> String {
        users(root, &self.name)
    }
}

/// Who has an instance open, in words, such as `cat (process 123)`.
#[must_use]
pub fn users(root: &SysRoot, name: &str) -> String {
    let found = openers::inside(root, name);
    let words = found.iter().map(|user| format!("{} (process {})", user.command, user.pid));
    let words: Vec<String> = words.collect();
    if words.is_empty() { "somebody".to_owned() } else { words.join(", ") }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trace instance {} of fathom {}, which has ended", self.name, self.owner)
    }
}

/// True for who may not see the tracing files, so that nobody can say what is left there.
#[must_use]
pub fn are_hidden(root: &SysRoot) -> bool {
    let opened = Tracefs::open(root, root.is_live());
    opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// All of them; none for who may not see the tracing files.
#[must_use]
pub fn left_by_the_dead(root: &SysRoot) -> Vec<Left> {
    Tracefs::open(root, root.is_live()).map_or_else(|_| Vec::new(), |files| left(root, &files))
}

fn left(root: &SysRoot, files: &Tracefs) -> Vec<Left> {
    let owned = |name: String| Owner::of_name(&name).map(|owner| (name, owner));
    let all = files.instance_names().into_iter().filter_map(owned);
    let dead = all.filter(|(_, owner)| owner.is_dead(root));
    dead.map(|(name, owner)| Left { name, owner: owner.pid }).collect()
}

/// Removes them, and says which; those that somebody reads stay, and are still [`left_by_the_dead`].
pub fn remove_those_of_the_dead(root: &SysRoot) -> Vec<Left> {
    let Ok(files) = Tracefs::open(root, root.is_live()) else { return Vec::new() };
    let mut found = left(root, &files);
    if found.is_empty() {
        return found;
    }
    let Ok(instances) = files.instances() else { return Vec::new() };
    found.retain(|left| {
        let name = CString::new(left.name.as_str()).unwrap_or_default();
        let switch = CString::new(format!("{}/{SWITCH}", left.name)).unwrap_or_default();
        guardian::remove(instances.as_fd(), &name, &switch, TRIES_MAX)
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_dead_are_taken_for_theirs() {
        let root = SysRoot::live();
        let own = Owner::this(&root).expect("a process");
        let dead = Owner { start_time_ticks: own.start_time_ticks - 1, ..own };
        // Numbers of other kinds of namespaces are never those of processes.
        let user = namespace(&process::namespace(&root, "user"));
        let elsewhere = Owner { namespace: user, ..dead };
        let sees_all = process::is_namespace_gone(&root, &format!("pid:[{user}]")) == Ok(true);
        let unknown = Owner { namespace: 0, ..dead };
        assert_eq!(Owner::of_name(&own.name(7)), Some(own));
        assert_eq!(
            [own, dead, elsewhere, unknown].map(|o| o.is_dead(&root)),
            [false, true, sees_all, false]
        );
        for name in [
            "fathom",
            "fathom-1-2-3",
            "fathom-01-2-3-4",
            "fathom-1-2-3-4-5",
            "x-1-2-3-4",
            "fathom-a-2-3-4",
        ] {
            assert_eq!(Owner::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn instances_of_others_stay() {
        let tree = tempfile::tempdir().expect("a directory");
        let place = tree.path().join("sys/kernel/tracing");
        let (live, own) = (SysRoot::live(), Owner::this(&SysRoot::live()).expect("a process"));
        let dead = Owner { start_time_ticks: own.start_time_ticks - 1, ..own };
        std::fs::create_dir_all(place.join("events")).expect("made");
        for name in [own.name(0), dead.name(0), dead.name(1), "others".to_owned()] {
            std::fs::create_dir_all(place.join("instances").join(name)).expect("made");
        }
        let files = Tracefs::open(&SysRoot::at(tree.path()), false).expect("there");
        let found = left(&live, &files);
        let names: Vec<&str> = found.iter().map(|left| left.name.as_str()).collect();
        assert_eq!(names, [dead.name(0), dead.name(1)]);
        let text =
            format!("trace instance {} of fathom {}, which has ended", dead.name(0), own.pid);
        assert_eq!(found[0].to_string(), text);
    }
}
