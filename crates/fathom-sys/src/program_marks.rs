//! Marks of programs by which it is known who has started them, also when that process is gone.

use crate::child;
use crate::process;
use crate::sysroot::SysRoot;

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

/// Ends what programs with such a mark have started whose owner was killed: the kernel ends only the first process of each.
pub fn end_those_of_the_dead(root: &SysRoot) {
    let Some(own) = process::ProcessIdentity::current(root) else { return };
    for mark in child::marks(root) {
        let words: Vec<&str> = mark.split(' ').collect();
        let [OWNED, pid, start, namespace, _] = words.as_slice() else { continue };
        let (Ok(pid), Ok(start)) = (pid.parse(), start.parse()) else { continue };
        let lives = process::start_time_ticks(root, pid) == Some(start);
        if *namespace == own.pid_namespace && !lives {
            let _ = child::end_left_behind(root, 0, &mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Output, Program};
    use std::ffi::OsString;
    use std::path::Path;

    #[test]
    fn only_what_the_dead_have_started_is_ended() {
        let root = SysRoot::live();
        let own = new_mark(&root, 7);
        assert_ne!(own, new_mark(&root, 8));
        // As if another process had had this number before.
        let words: Vec<&str> = own.split(' ').collect();
        let dead = format!("{} {} 1 {} {}", words[0], words[1], words[3], words[4]);
        let nowhere = || Output { stdout: None, stderr: None };
        let sleep = ["sleep", "1000"].map(OsString::from);
        let start = |mark: &str| {
            Program::start(&root, &sleep, Path::new("/"), nowhere(), mark).expect("starts")
        };
        let (of_dead, of_own) = (start(&dead), start(&own));
        end_those_of_the_dead(&root);
        assert!(of_dead.has_ended() && !of_own.has_ended());
        of_own.end();
        of_dead.end();
    }
}
