//! The sides of a comparison: which program with which arguments.

use super::binary;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program that can be a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// This project.
    Fathom,
    /// fio of the distribution.
    Fio,
    /// sysbench of the distribution.
    Sysbench,
    /// `t/io_uring` of fio's source package.
    Bare,
    /// This project, with a load of files, bound to CPU 0.
    FathomFiles,
    /// A loop of bare system calls on files: an example program, which the first argument names.
    BareFiles,
    /// fs_mark of the distribution.
    FsMark,
}

/// One program with one set of options.
pub struct Side {
    /// Unique within its scene.
    pub name: &'static str,
    /// What runs.
    pub tool: Tool,
    /// With which arguments.
    pub args: Vec<String>,
}

impl Side {
    /// The command line without this machine's directories.
    #[must_use]
    pub fn shown(&self) -> String {
        let program = match self.tool {
            Tool::Fathom => "fathom",
            Tool::Fio => "fio",
            Tool::Sysbench => "taskset -c 0 sysbench --file-total-size=SIZE",
            Tool::Bare => "taskset -c 0 t/io_uring",
            Tool::FathomFiles => "taskset -c 0 fathom",
            Tool::BareFiles => "taskset -c 0",
            Tool::FsMark => "taskset -c 0 fs_mark",
        };
        let target = binary().parent().and_then(Path::parent).map(|p| format!("{}/", p.display()));
        let pid = format!("bench-{}/", std::process::id());
        let line = format!("{program} {}", self.args.join(" "));
        let tree = format!("{}-{}-", super::place::IN_MEMORY, std::process::id());
        let shown = line.replace(&target.unwrap_or_default(), "").replace(&pid, "");
        shown.replace(&tree, "/dev/shm/")
    }
}

/// Makes the sides of one scene.
pub struct Maker {
    /// What is read; none for the null engines.
    pub target: Option<PathBuf>,
    /// Requests in flight.
    pub depth: u32,
    /// Length of a run.
    pub length: Duration,
}

impl Maker {
    /// `fathom run randread` on CPU 0.
    #[must_use]
    pub fn fathom(&self, name: &'static str, settings: &[&str]) -> Side {
        let target = self.target.as_ref().map_or("null:".to_owned(), |f| f.display().to_string());
        let mut args = vec!["run".to_owned(), "randread".to_owned(), target];
        args.extend(settings.iter().map(ToString::to_string));
        args.push(format!("depth={}", self.depth));
        args.push(format!("duration={}ms", self.length.as_millis()));
        args.extend(["cpus=0", "--json", "--quiet"].map(str::to_owned));
        Side { name, tool: Tool::Fathom, args }
    }

    /// fio without its random map, as fathom has it.
    #[must_use]
    pub fn fio(&self, name: &'static str, engine: &str, more: &[&str]) -> Side {
        let mut side = self.fio_plain(name, engine);
        side.args.push("--norandommap".to_owned());
        side.args.extend(more.iter().map(ToString::to_string));
        side
    }

    /// The same, but with as many requests handed over and taken back at once as there are.
    #[must_use]
    pub fn fio_batch(&self, name: &'static str, engine: &str, more: &[&str]) -> Side {
        let mut side = self.fio(name, engine, more);
        side.args.push(format!("--iodepth_batch_submit={}", self.depth));
        side.args.push("--iodepth_batch_complete_min=1".to_owned());
        side.args.push(format!("--iodepth_batch_complete_max={}", self.depth));
        side
    }

    /// fio with the defaults of its engine, but fresh seeds and a warm cache, as all have it.
    #[must_use]
    pub fn fio_plain(&self, name: &'static str, engine: &str) -> Side {
        let mut args = vec!["--name=bench".to_owned(), format!("--ioengine={engine}")];
        args.extend(self.target.as_ref().map(|f| format!("--filename={}", f.display())));
        args.extend(
            ["--rw=randread", "--bs=4k", "--readonly", "--invalidate=0"].map(str::to_owned),
        );
        args.extend([format!("--iodepth={}", self.depth), "--randrepeat=0".to_owned()]);
        args.push("--time_based".to_owned());
        args.push(format!("--runtime={}ms", self.length.as_millis()));
        args.extend(["--cpus_allowed=0", "--output-format=json"].map(str::to_owned));
        Side { name, tool: Tool::Fio, args }
    }

    /// Runs in the file's directory; its size is added when it runs. Whole seconds only.
    #[must_use]
    pub fn sysbench(&self, name: &'static str, more: &[String]) -> Side {
        let words = ["fileio", "--file-num=1", "--file-test-mode=rndrd", "--file-block-size=4096"];
        let mut args: Vec<String> = words.map(str::to_owned).into();
        args.push(format!("--time={}", self.length.as_secs().max(1)));
        args.push("--threads=1".to_owned());
        args.extend_from_slice(more);
        args.push("run".to_owned());
        Side { name, tool: Tool::Sysbench, args }
    }

    /// fio's bare loop: buffered, all registered, the ring too, all requests in one batch, latencies recorded.
    #[must_use]
    pub fn bare(&self, name: &'static str) -> Side {
        let depth = self.depth;
        let mut args = vec![format!("-d{depth}"), format!("-s{depth}"), format!("-c{depth}")];
        let switches = ["-t1", "-p0", "-O0", "-B1", "-F1", "-R1", "-X1"];
        args.extend(switches.map(str::to_owned));
        args.extend(self.target.as_ref().map(|f| f.display().to_string()));
        Side { name, tool: Tool::Bare, args }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn commands_are_shown_without_the_directories_of_this_machine() {
        let file = workspace::root()
            .join(format!("target/bench-{}/cached/test_file.0", std::process::id()));
        let args = vec!["run".to_owned(), file.display().to_string()];
        let side = Side { name: "fathom x", tool: Tool::Fathom, args };
        assert_eq!(side.shown(), "fathom run cached/test_file.0");
    }

    #[test]
    fn lengths_below_a_second_reach_the_tools() {
        let make = Maker { target: None, depth: 8, length: Duration::from_millis(500) };
        assert!(make.fathom("f", &[]).shown().contains("depth=8 duration=500ms"));
        assert!(make.fio("f", "null", &[]).shown().contains("--runtime=500ms"));
        assert!(make.sysbench("s", &[]).shown().contains("--time=1 "));
        assert!(make.bare("b").shown().contains("-d8 -s8 -c8 -t1"));
    }
}
