//! fio's own bare loop, `t/io_uring`: got from the source package of the installed fio, built, and read.

use super::tools::Sample;
use crate::process::in_words;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where the source comes from; apt checks its signature.
const SOURCES: &str = "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                       http://deb.debian.org/debian SUITE main\n";

/// The loop's program, built from the source package of the fio that is installed; kept in `cache` for later runs.
///
/// # Errors
/// In words, when it cannot be had: no Debian, no network, no compiler.
pub fn program(cache: &Path) -> Result<PathBuf, String> {
    let version = said(Command::new("dpkg-query").args(["-W", "-f=${Version}", "fio"]))
        .map_err(|error| format!("fio is not installed from a Debian package: {error}"))?;
    let home = cache.join(format!("fio-{}", version.replace(':', "_")));
    let program = home.join("io_uring");
    if program.exists() {
        return Ok(program);
    }
    let start = Instant::now();
    eprint!("building t/io_uring of fio {version} ... ");
    let _ = fs::remove_dir_all(&home);
    let built = download(&home, &version).and_then(|()| build(&home, &program));
    match &built {
        Ok(()) => eprintln!("{}", in_words(start.elapsed())),
        Err(_) => eprintln!("failed"),
    }
    built.map(|()| program)
}

/// The source package, with apt's lists and cache kept in `home`, so that nothing of the system's changes.
fn download(home: &Path, version: &str) -> Result<(), String> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let suite = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .ok_or("/etc/os-release names no suite (VERSION_CODENAME)")?;
    let sources = home.join("sources.list");
    fs::create_dir_all(home.join("lists/partial"))
        .and_then(|()| fs::write(&sources, SOURCES.replace("SUITE", suite)))
        .map_err(|error| format!("{}: {error}", home.display()))?;
    let apt = || {
        let mut command = Command::new("apt-get");
        command.current_dir(home).args(["--quiet", "-o", "Dir::Etc::sourceparts=-"]);
        for (option, path) in
            [("Dir::Etc::sourcelist", &sources), ("Dir::State::lists", &home.join("lists"))]
        {
            command.arg("-o").arg(format!("{option}={}", path.display()));
        }
        command.arg("-o").arg(format!("Dir::Cache={}", home.display()));
        // Not as the user _apt, who may not be let into this directory.
        command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::http::Timeout=20"]);
        command
    };
    said(apt().arg("update")).map_err(|error| format!("apt-get update: {error}"))?;
    said(apt().args(["source", "--download-only", &format!("fio={version}")]))
        .map_err(|error| format!("apt-get source fio={version}: {error}"))?;
    Ok(())
}

/// Unpacks the original tar file and builds this one program with fio's defaults (for this very processor).
fn build(home: &Path, program: &Path) -> Result<(), String> {
    // Beside the tar file lies its signature, which apt has checked.
    let script = "rm -f fio_*.asc && mkdir source \
                  && tar --strip-components=1 --directory=source -xf fio_*.orig.tar.* \
                  && cd source && ./configure >../build.log 2>&1 && make t/io_uring >>../build.log 2>&1 \
                  && mv t/io_uring ..";
    said(Command::new("sh").current_dir(home).args(["-c", script])).map_err(|error| {
        let log = home.join("build.log");
        format!("{error}; see {} (gcc and make are needed)", log.display())
    })?;
    // The lists are large, and old ones are of no use.
    for left in ["lists", "source"] {
        fs::remove_dir_all(home.join(left)).map_err(|error| format!("{left}: {error}"))?;
    }
    if program.exists() { Ok(()) } else { Err("the build left no t/io_uring".to_owned()) }
}

/// What a command says; an error holds the last line of what it said on standard error.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| {
        format!("cannot run {}: {error}", command.get_program().to_string_lossy())
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(errors.lines().last().map_or_else(|| output.status.to_string(), str::to_owned))
}

/// How long one run takes: it counts its first second without latencies, and the second one with them.
pub const RUN: Duration = Duration::from_millis(2100);

/// The rate of the last whole second. It tells neither CPU time nor a mean latency.
///
/// # Errors
/// When two seconds were not told.
pub fn sample(said: &str) -> Result<Sample, String> {
    let rates: Vec<f64> = said.lines().filter_map(rate).collect();
    match rates[..] {
        [_, .., rate] => Ok(Sample { rate, ..Sample::NOTHING }),
        _ => Err("fewer than two seconds were told".to_owned()),
    }
}

/// `IOPS=1.86M, BW=...`.
fn rate(line: &str) -> Option<f64> {
    let number = line.strip_prefix("IOPS=")?.split(',').next()?;
    let (digits, factor) = match number.strip_suffix('M') {
        Some(digits) => (digits, 1e6),
        None => number.strip_suffix('K').map_or((number, 1.0), |digits| (digits, 1e3)),
    };
    digits.parse::<f64>().ok().map(|n| n * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_with_latencies_counts() {
        let said = "Engine=io_uring, sq_ring=32, cq_ring=32\nIOPS=1.86M, BW=7.25GiB/s, IOS/call=32/32\n\
                    IOPS=954.50K, BW=3.7GiB/s, IOS/call=32/32\nExiting on signal\nMaximum IOPS=1.86M\n";
        assert_eq!(sample(said).unwrap().rate, 954_500.0);
        assert!(sample("IOPS=99999, BW=390MiB/s, IOS/call=1/1\n").is_err());
        assert_eq!(rate("IOPS=99999, BW=390MiB/s"), Some(99_999.0));
        assert_eq!(rate("Maximum IOPS=1.86M"), None);
    }
}
