//! Marks of programs by which it is known who has started them, also when that process is gone.

use crate::child;
use crate::process;
use crate::sysroot::SysRoot;
use std::fmt;

/// How marks begin that say who has started what carries them.
const OWNED: &str = "fathom";

/// What numbers of such marks begin with; those of other marks have the next bit.
const OWNED_BIT: u64 = 1 << 63;
/// Numbers of processes have 22 bits in Linux; of when one started, and of a namespace, that many of the lowest.
const PID_BITS: u32 = 22;
const LOW_BITS: u32 = 20;

/// Who has started a program, as its mark says and the number that goes with that: what has emptied its environment has the number still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    pid: u32,
    start_low: u64,
    namespace_low: u64,
}

fn low(number: u64) -> u64 {
    number & ((1 << LOW_BITS) - 1)
}

/// The lowest bits of a namespace's number, from `pid:[4026531836]`.
fn namespace_low(namespace: &str) -> Option<u64> {
    let digits = namespace.split_once('[')?.1.strip_suffix(']')?;
    digits.parse().ok().map(low)
}

impl Owner {
    /// None of marks that do not say whose they are.
    fn of_mark(mark: &str) -> Option<Self> {
        let words: Vec<&str> = mark.split(' ').collect();
        let [OWNED, pid, start, namespace, _] = words.as_slice() else { return None };
        Some(Self {
            pid: pid.parse().ok()?,
            start_low: low(start.parse().ok()?),
            namespace_low: namespace_low(namespace)?,
        })
    }

    fn of_number(number: u64) -> Option<Self> {
        let pid = u32::try_from(number >> (2 * LOW_BITS) & ((1 << PID_BITS) - 1)).ok()?;
        let is_owned = number >> 62 == OWNED_BIT >> 62 && pid != 0;
        let (start_low, namespace_low) = (low(number >> LOW_BITS), low(number));
        is_owned.then_some(Self { pid, start_low, namespace_low })
    }

    fn number(self) -> u64 {
        let pid = u64::from(self.pid) & ((1 << PID_BITS) - 1);
        OWNED_BIT | pid << (2 * LOW_BITS) | self.start_low << LOW_BITS | self.namespace_low
    }

    /// A mark with the same number, of what has lost its own.
    fn mark(self) -> String {
        let Self { pid, start_low, namespace_low } = self;
        format!("{OWNED} {pid} {start_low} pid:[{namespace_low}] -")
    }
}

/// The number of a mark that says who has started what carries it.
pub(crate) fn number(mark: &str) -> Option<u64> {
    Owner::of_mark(mark).map(Owner::number)
}

/// A mark for [`child::Program::start`] that says who has started what carries it; `random` tells apart those of one process.
#[must_use]
pub fn new_mark(root: &SysRoot, random: u64) -> String {
    let pid = std::process::id();
    let start = process::start_time_ticks(root, pid).unwrap_or(0);
    let namespace = process::ProcessIdentity::current(root).map(|own| own.pid_namespace);
    format!("{OWNED} {pid} {start} {} {random:016x}", namespace.unwrap_or_default())
}

/// What a killed process has left running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    mark: String,
    /// The process that was killed.
    pub owner: u32,
    /// Name and number of what runs.
    pub programs: Vec<(String, u32)>,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// More names than that say nothing.
        const NAMED_MAX: usize = 3;
        let named: Vec<String> = self
            .programs
            .iter()
            .take(NAMED_MAX)
            .map(|(name, pid)| format!("{name} (process {pid})"))
            .collect();
        let more = self.programs.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let owner = self.owner;
        write!(
            f,
            "{}{more}, started by the command of fathom {owner}, which was killed",
            named.join(", ")
        )
    }
}

/// What programs with such a mark have started whose owner was killed: the kernel ends only the first process of each. What carries
/// the mark that this process itself carries is left alone: whoever started it still works.
#[must_use]
pub fn left_by_the_dead(root: &SysRoot) -> Vec<Left> {
    let Some(own) = process::ProcessIdentity::current(root) else { return Vec::new() };
    let carried = std::env::var(child::MARK).unwrap_or_default();
    let own_namespace = namespace_low(&own.pid_namespace);
    let left_with = |(mark, owner): (String, Owner)| {
        let start = process::start_time_ticks(root, owner.pid).map(low);
        // Each time namespace has a beginning of its own from which that is counted.
        let may_live = start.is_some() && process::has_other_time(root, owner.pid);
        let lives = start == Some(owner.start_low) || may_live;
        if Some(owner.namespace_low) != own_namespace || lives || mark == carried {
            return None;
        }
        let carriers = child::carriers(root, &mark);
        // The number of a mark stays where the environment does not, as with sudo.
        if carriers.contains(&std::process::id()) {
            return None;
        }
        let name = |pid: &u32| root.text(format!("proc/{pid}/comm")).unwrap_or_default();
        let programs = carriers.into_iter().map(|pid| (name(&pid), pid));
        let programs: Vec<(String, u32)> = programs.collect();
        (!programs.is_empty()).then_some(Left { mark, owner: owner.pid, programs })
    };
    owned(root).into_iter().filter_map(left_with).collect()
}

/// The marks of programs that run, with who has started them; for an owner of which nothing carries a mark any more, one with its number.
fn owned(root: &SysRoot) -> Vec<(String, Owner)> {
    let marks = child::marks(root).into_iter();
    let mut found: Vec<(String, Owner)> =
        marks.filter_map(|mark| Owner::of_mark(&mark).map(|owner| (mark, owner))).collect();
    for owner in child::numbers(root).into_iter().filter_map(Owner::of_number) {
        if found.iter().all(|(_, known)| *known != owner) {
            found.push((owner.mark(), owner));
        }
    }
    found
}

/// Ends that, and says what it was, and what is left all the same: it waits for a device in the kernel.
pub fn end_those_of_the_dead(root: &SysRoot) -> (Vec<Left>, Vec<Left>) {
    let mut left = left_by_the_dead(root);
    if left.is_empty() {
        return (Vec::new(), Vec::new());
    }
    for one in &mut left {
        let _ = child::end_left_behind(root, 0, &one.mark);
        let still = child::carriers(root, &one.mark);
        one.programs.retain(|(_, pid)| !still.contains(pid));
    }
    left.retain(|one| !one.programs.is_empty());
    (left, left_by_the_dead(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Output, Program};
    use std::ffi::OsString;
    use std::path::Path;
    use std::sync::{Mutex, PoisonError};

    /// What one test leaves of the dead another one would end.
    static DEAD: Mutex<()> = Mutex::new(());

    #[test]
    fn of_many_some_are_named() {
        let programs = (1..=5).map(|pid| ("dd".to_owned(), pid)).collect();
        let left = Left { mark: String::new(), owner: 9, programs };
        assert!(
            left.to_string()
                .starts_with("dd (process 1), dd (process 2), dd (process 3) and 2 more,")
        );
    }

    #[test]
    fn a_number_says_whose_it_is() {
        let mark = "fathom 4194303 987654321 pid:[4026531836] 00ff00ff00ff00ff";
        let owner = Owner::of_mark(mark).expect("it is said");
        assert_eq!((owner.pid, owner.start_low), (4_194_303, 987_654_321 % (1 << 20)));
        assert_eq!(Owner::of_number(owner.number()), Some(owner));
        assert_eq!(Owner::of_mark(&owner.mark()), Some(owner));
        for foreign in [0, 1, 1 << 62, u64::MAX, OWNED_BIT, OWNED_BIT | 7] {
            assert_eq!(Owner::of_number(foreign), None, "{foreign:x}");
        }
        assert_eq!(number("run/7"), None);
    }

    /// Nothing that is left has an environment: the number alone says whose it is.
    #[test]
    fn what_has_emptied_its_environment_is_told_by_its_number() {
        let _alone = DEAD.lock().unwrap_or_else(PoisonError::into_inner);
        let root = SysRoot::live();
        let own = new_mark(&root, 9);
        let words: Vec<&str> = own.split(' ').collect();
        let dead = format!("{} {} 2 {} {}", words[0], words[1], words[3], words[4]);
        let bare = |mark: &str| {
            let sleep = ["env", "-i", "sleep", "1000"].map(OsString::from);
            Program::start(&root, &sleep, Path::new("/"), Output::default(), mark).expect("starts")
        };
        let (of_dead, of_own) = (bare(&dead), bare(&own));
        let is_bare =
            |pid: u32| root.text(format!("proc/{pid}/comm")).is_some_and(|name| name == "sleep");
        while !(is_bare(of_dead.pid) && is_bare(of_own.pid)) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let has_it = |left: &[Left]| {
            let mut programs = left.iter().flat_map(|left| &left.programs);
            programs.any(|(_, pid)| *pid == of_dead.pid)
        };
        assert!(has_it(&left_by_the_dead(&root)));
        assert!(has_it(&end_those_of_the_dead(&root).0));
        assert!(of_dead.has_ended() && !of_own.has_ended());
        of_own.end();
        of_dead.end();
    }

    #[test]
    fn only_what_the_dead_have_started_is_ended() {
        let _alone = DEAD.lock().unwrap_or_else(PoisonError::into_inner);
        let root = SysRoot::live();
        let own = new_mark(&root, 7);
        assert_ne!(own, new_mark(&root, 8));
        // As if another process had had this number before.
        let words: Vec<&str> = own.split(' ').collect();
        let dead = format!("{} {} 1 {} {}", words[0], words[1], words[3], words[4]);
        let sleep = ["sleep", "1000"].map(OsString::from);
        let start = |mark: &str| {
            Program::start(&root, &sleep, Path::new("/"), Output::default(), mark).expect("starts")
        };
        let (of_dead, of_own) = (start(&dead), start(&own));
        let told = |left: Vec<Left>| {
            let is_it = |left: &&Left| left.mark == dead;
            left.iter()
                .find(is_it)
                .map(|left| (left.owner, left.programs.clone(), left.to_string()))
        };
        let (owner, programs, text) =
            told(end_those_of_the_dead(&root).0).expect("something is left");
        assert_eq!(
            (owner, programs),
            (std::process::id(), vec![("sleep".to_owned(), of_dead.pid)])
        );
        let (pid, owner) = (of_dead.pid, std::process::id());
        let expected = format!(
            "sleep (process {pid}), started by the command of fathom {owner}, which was killed"
        );
        assert_eq!(text, expected);
        assert_eq!(told(left_by_the_dead(&root)), None);
        assert!(of_dead.has_ended() && !of_own.has_ended());
        of_own.end();
        of_dead.end();
    }
}
