//! What the tests share: building and cleaning in this process, or in one that can be killed.

use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::Scratch;
use fathom_tree::build::{Builder, Built};
use fathom_tree::clean::find::FoundBelow;
use fathom_tree::clean::{Cleaned, Cleaner};
use fathom_tree::error::TreeError;
use fathom_tree::manifest::check::{self, Depth, Report};
use fathom_tree::manifest::{Access, Tree};
use fathom_tree::spec::{Amount, Sizes, TreeSpec};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// Variable that names what a process of this program does.
pub const ROLE: &str = "FATHOM_TREE_TEST_ROLE";
/// Variable with the tree's directory.
const DIR: &str = "FATHOM_TREE_TEST_DIR";
/// Variable with the journal's directory.
const STATE: &str = "FATHOM_TREE_TEST_STATE";

/// A journal of its own.
pub struct Kit {
    root: SysRoot,
    pub state: Scratch,
    pub stop: StopFlag,
}

impl Kit {
    pub fn new() -> Self {
        Self { root: SysRoot::live(), state: Scratch::new().unwrap(), stop: StopFlag::default() }
    }

    pub fn build(&self, path: &Path, spec: TreeSpec) -> Result<Built, TreeError> {
        self.build_within(path, spec, None)
    }

    pub fn build_within(
        &self,
        path: &Path,
        spec: TreeSpec,
        time_ns: Option<u64>,
    ) -> Result<Built, TreeError> {
        let mut builder = Builder {
            root: &self.root,
            state_dir: self.state.path(),
            run_id: "7f3k",
            threads: 4,
            time_ns,
            stop: &self.stop,
            progress: &mut |_| {},
        };
        builder.build(path, spec)
    }

    pub fn clean(&self, path: &Path) -> Result<Cleaned, TreeError> {
        self.cleaner(|cleaner| cleaner.clean(path))
    }

    /// Removes the one tree that was found.
    pub fn clean_found(&self, found: &FoundBelow) -> Result<Cleaned, TreeError> {
        self.cleaner(|cleaner| cleaner.clean_found(found, &found.trees[0]))
    }

    fn cleaner<T>(&self, work: impl FnOnce(&mut Cleaner<'_>) -> T) -> T {
        work(&mut Cleaner {
            root: &self.root,
            state_dir: self.state.path(),
            threads: 4,
            stop: &self.stop,
            progress: &mut |_| {},
        })
    }

    /// Entries of the journal.
    pub fn noted(&self) -> usize {
        std::fs::read_dir(self.state.join("owned")).map_or(0, Iterator::count)
    }
}

/// Looks at a tree.
pub fn check_tree(path: &Path, depth: Depth) -> Report {
    let tree = Tree::open_complete(path, Access::Shared).unwrap();
    check::check(&tree, depth, 4, &StopFlag::default(), &mut |_| {}).unwrap()
}

/// A small tree: many files of up to some kilobytes.
pub fn small(files: u64) -> TreeSpec {
    let mut spec = TreeSpec::classic(7, Amount::Files(files));
    spec.sizes = Sizes::LogNormal { median_bytes: 1000, sigma: 1.5, max_bytes: 64 << 10 };
    spec
}

/// Memory that this process has.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Every path below a directory, relative to it, sorted.
pub fn paths_below(dir: &Path) -> Vec<PathBuf> {
    let (mut paths, mut pending) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(at) = pending.pop() {
        for entry in std::fs::read_dir(&at).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            }
            paths.push(entry.path().strip_prefix(dir).unwrap().to_owned());
        }
    }
    paths.sort();
    paths
}

/// Starts this program in a role.
pub fn start(role: &str, dir: &Path, state: &Path) -> Child {
    let mut command = Command::new("/proc/self/exe");
    command.env(ROLE, role).env(DIR, dir).env(STATE, state);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Files of the tree that a child builds.
pub const CHILD_FILES: u64 = 3000;

/// What a child does until it is killed.
pub fn play(role: &str) -> ExitCode {
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    let state = PathBuf::from(std::env::var_os(STATE).unwrap());
    let (root, stop) = (SysRoot::live(), StopFlag::default());
    println!("ready");
    std::io::stdout().flush().unwrap();
    let (state_dir, stop) = (state.as_path(), &stop);
    let progress = &mut |_| {};
    let done = match role {
        "build" => {
            let time_ns = None;
            let mut builder = Builder {
                root: &root,
                state_dir,
                run_id: "7f3k",
                threads: 2,
                time_ns,
                stop,
                progress,
            };
            builder.build(&dir, small(CHILD_FILES)).map(drop)
        }
        _ => Cleaner { root: &root, state_dir, threads: 2, stop, progress }.clean(&dir).map(drop),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
