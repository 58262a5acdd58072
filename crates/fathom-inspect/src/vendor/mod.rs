//! Hardware RAID controllers, as the installed tools of their makers describe them.
//!
//! Everything else about a machine is read from the kernel. This is the one place where fathom starts a process to look
//! at something, and only for `--vendor-tools`: with arguments that only read, and that keep the tool from writing its
//! log. The parsers are pure functions of what a tool printed. They were written from published samples of that output
//! and not tried on such controllers; what they do not understand is none.

mod arcconf;
mod run;
mod ssacli;
mod storcli;
#[cfg(test)]
mod tests;
mod words;

pub use run::Tools;

use fathom_model::snapshot::Unread;
use fathom_model::vendor::Controller;
use std::path::{Path, PathBuf};

/// Finds and starts tools; tests give answers of their own.
pub trait Run {
    /// The first of these names that is installed; an error when there is one that must not be started.
    ///
    /// # Errors
    /// Which one, and why not.
    fn find(&self, names: &[&str]) -> Result<Option<PathBuf>, Unread>;

    /// What the program prints with these arguments.
    ///
    /// # Errors
    /// Why there is nothing to read: it could not be started, took too long, printed nothing.
    fn output(&self, program: &Path, arguments: &[&str]) -> Result<String, String>;
}

/// What one tool told.
#[derive(Default)]
struct Answer {
    controllers: Vec<Controller>,
    unread: Vec<Unread>,
}

impl Answer {
    /// What a program prints; a failure is noted.
    fn ask(&mut self, run: &dyn Run, program: &Path, arguments: &[&str]) -> Option<String> {
        let output = run.output(program, arguments);
        output.map_err(|why| self.note(program, arguments, &why)).ok()
    }

    fn note(&mut self, program: &Path, arguments: &[&str], why: &str) {
        let what = format!("{} {}", program.display(), arguments.join(" "));
        self.unread.push(Unread { what, why: format!("unreadable: {why}") });
    }
}

/// A tool: the name that a [`Controller`] bears, the names of its program, how it is asked.
struct Tool {
    name: &'static str,
    programs: &'static [&'static str],
    ask: fn(&dyn Run, &Path) -> Answer,
}

const TOOLS: [Tool; 4] = [
    Tool { name: "storcli", programs: &["storcli64", "storcli"], ask: storcli::ask },
    Tool { name: "perccli", programs: &["perccli64", "perccli"], ask: storcli::ask },
    Tool { name: "ssacli", programs: &["ssacli", "hpssacli"], ask: ssacli::ask },
    Tool { name: "arcconf", programs: &["arcconf"], ask: arcconf::ask },
];

/// All controllers that the installed tools know, and what could not be had. Two tools that know the same controller
/// (storcli and perccli do) give it once.
#[must_use]
pub fn ask(run: &dyn Run) -> (Vec<Controller>, Vec<Unread>) {
    let (mut controllers, mut unread): (Vec<Controller>, Vec<Unread>) = (Vec::new(), Vec::new());
    let mut is_any_there = false;
    for tool in &TOOLS {
        let program = match run.find(tool.programs) {
            Ok(Some(program)) => program,
            Ok(None) => continue,
            Err(refused) => {
                is_any_there = true;
                unread.push(refused);
                continue;
            }
        };
        is_any_there = true;
        let answer = (tool.ask)(run, &program);
        unread.extend(answer.unread);
        for mut controller in answer.controllers {
            controller.tool = tool.name.to_owned();
            let address = controller.pci_address.as_deref();
            let known = address.is_some()
                && controllers.iter().any(|c| c.pci_address.as_deref() == address);
            if !known {
                controllers.push(controller);
            }
        }
    }
    if !is_any_there {
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        let why = format!("not installed: {}", names.join(", "));
        unread.push(Unread { what: "tools of makers of RAID controllers".to_owned(), why });
    }
    (controllers, unread)
}
