//! The processes of threads: trace instances tell threads.

use fathom_sys::process::{self, FIRST_PID_NAMESPACE, ProcessIdentity};
use fathom_sys::sysroot::SysRoot;
use std::collections::HashMap;

/// Those that were seen.
pub(super) struct Threads {
    root: SysRoot,
    /// In a namespace of its own this process has other numbers for them than the kernel.
    has_other_numbers: bool,
    /// The last one of some numbers: a look into the larger table costs more than all else of an event.
    last: [(u32, u32); Self::LAST],
    processes: HashMap<u32, u32>,
}

impl Threads {
    /// A power of two.
    const LAST: usize = 256;
    /// More than that are asked for anew.
    const KNOWN_MAX: usize = 1 << 16;

    pub(super) fn new(root: &SysRoot) -> Self {
        let namespace = ProcessIdentity::current(root).map(|own| own.pid_namespace);
        let has_other_numbers = namespace.is_some_and(|namespace| namespace != FIRST_PID_NAMESPACE);
        let (last, processes) = ([(0, 0); Self::LAST], HashMap::new());
        Self { root: root.clone(), has_other_numbers, last, processes }
    }

    /// The process of a thread; its own number where that cannot be told, as of one that has ended.
    pub(super) fn process(&mut self, thread: u32) -> u32 {
        if self.has_other_numbers {
            return thread;
        }
        let last = &mut self.last[thread as usize % Self::LAST];
        if last.0 != thread {
            if self.processes.len() >= Self::KNOWN_MAX {
                self.processes.clear();
            }
            let root = &self.root;
            let of = |thread| process::of_thread(root, thread).unwrap_or(thread);
            *last = (thread, *self.processes.entry(thread).or_insert_with(|| of(thread)));
        }
        last.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[test]
    fn threads_are_told_as_their_processes() {
        let tree = Tree::new();
        let status = |thread: u32, process: u32| {
            tree.put(
                format!("proc/{thread}/status"),
                format!("Name:\tx\nTgid:\t{process}\nPid:\t{thread}\n"),
            );
        };
        status(300, 300);
        status(301, 300);
        // In the place of another one.
        status(301 + 256, 557);
        let mut threads = Threads::new(&tree.root());
        let told = [300, 301, 557, 301, 9, 0].map(|thread| threads.process(thread));
        assert_eq!(told, [300, 300, 557, 300, 9, 0]);
    }
}
