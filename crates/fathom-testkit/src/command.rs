//! Running the system's tools, found also in the `sbin` directories, with errors that quote what they said.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, io};
use thiserror::Error;

/// What went wrong while building or taking down something for a test.
#[derive(Debug, Error)]
pub enum KitError {
    /// The tool is not on this machine, or could not be started.
    #[error("cannot run {command}: {source}")]
    Spawn {
        /// The command line.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// The tool ran and failed.
    #[error("{command} failed ({status}): {stderr}")]
    Failed {
        /// The command line.
        command: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// What it said, both streams.
        stderr: String,
    },
    /// A file or device could not be read, written or made.
    #[error("{path}: {source}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something else that makes the thing impossible.
    #[error("{0}")]
    Other(String),
}

/// Names the path in an I/O error.
pub fn at(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> KitError {
    let path = path.as_ref().to_owned();
    move |source| KitError::Io { path, source }
}

/// Where a tool is: `PATH` first, then the `sbin` directories, which are not on everybody's `PATH`.
#[must_use]
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
}

/// A command for a tool wherever it is, in the C locale and with nothing on standard input.
#[must_use]
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(find_tool(name).unwrap_or_else(|| PathBuf::from(name)));
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Runs a tool to its end and gives its standard output without the trailing white space.
///
/// # Errors
/// [`KitError`] when it cannot be started or says that it failed.
pub fn run_tool<S: AsRef<OsStr>>(
    name: &str,
    args: impl IntoIterator<Item = S>,
) -> Result<String, KitError> {
    let mut command = tool(name);
    command.args(args);
    let line = describe(&command);
    let output =
        command.output().map_err(|source| KitError::Spawn { command: line.clone(), source })?;
    let stdout = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = format!("{}{stdout}", String::from_utf8_lossy(&output.stderr));
    Err(KitError::Failed { command: line, status: output.status, stderr: stderr.trim().to_owned() })
}

/// The command as a person would type it.
fn describe(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_quotes_the_tool() {
        let error = run_tool("ls", ["/no/such/place"]).unwrap_err().to_string();
        assert!(error.contains("ls /no/such/place") && error.contains("No such file"), "{error}");
        let error = run_tool("no-such-tool", [""; 0]).unwrap_err().to_string();
        assert!(error.starts_with("cannot run no-such-tool"), "{error}");
    }

    #[test]
    fn output_comes_back_trimmed() {
        assert_eq!(run_tool("echo", ["a", "b"]).unwrap(), "a b");
    }
}
