//! Where things are: the workspace's root, its files, what cargo says about its packages.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root directory of the workspace that this xtask was built from.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Where cargo puts what it builds.
#[must_use]
pub fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root().join(named.unwrap_or_else(|| PathBuf::from("target")))
}

/// A cargo command in the root, of the same toolchain that runs xtask, without the environment of the outer cargo.
#[must_use]
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a command and gives its standard output; standard error is shown.
///
/// # Errors
/// When it cannot be started or fails.
pub fn output_of(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let result = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = result.map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{name} failed: {}", output.status))
    }
}

/// Every file that is in git, or would be after `git add --all`; paths relative to the root, sorted.
///
/// # Errors
/// Without git.
pub fn files() -> Result<Vec<PathBuf>, String> {
    let mut command = Command::new("git");
    command.current_dir(root());
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listing = output_of(&mut command)?;
    let names = listing.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    // A file that git knows and that was deleted since is still listed.
    let mut files: Vec<PathBuf> = names.filter(|name| root().join(name).is_file()).collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// What `cargo metadata` says, for the platform that the product runs on.
///
/// # Errors
/// When cargo cannot read the workspace, or `Cargo.lock` does not fit the manifests.
pub fn metadata() -> Result<Value, String> {
    let mut command = cargo();
    command.args(["metadata", "--locked", "--format-version=1"]);
    command.arg("--filter-platform=x86_64-unknown-linux-gnu");
    let text = output_of(&mut command)?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// The elements of a JSON array; none for anything else.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A JSON string; empty for anything else.
#[must_use]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
