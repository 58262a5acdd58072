//! Marks of programs by which it is known who has started them, also when that process is gone.

use crate::child;
use crate::process;
use crate::sysroot::SysRoot;
use std::fmt;

/// How marks begin that say who has started what carries them.
const OWNED: &str = "fathom";

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
    let left_with = |mark: String| {
        let words: Vec<&str> = mark.split(' ').collect();
        let [OWNED, pid, start, namespace, _] = words.as_slice() else { return None };
        let (owner, start) = (pid.parse().ok()?, start.parse().ok()?);
        let lives = process::start_time_ticks(root, owner) == Some(start);
        if *namespace != own.pid_namespace || lives || mark == carried {
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
        (!programs.is_empty()).then_some(Left { mark, owner, programs })
    };
    child::marks(root).into_iter().filter_map(left_with).collect()
}

/// Ends that, and says what it was.
pub fn end_those_of_the_dead(root: &SysRoot) -> Vec<Left> {
    let left = left_by_the_dead(root);
    for one in &left {
        let _ = child::end_left_behind(root, 0, &one.mark);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Output, Program};
    use std::ffi::OsString;
    use std::path::Path;

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
    fn only_what_the_dead_have_started_is_ended() {
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
            told(end_those_of_the_dead(&root)).expect("something is left");
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
