//! The Debian packages that tests use, and their installation without starting a daemon.

mod kernel;

use crate::process;
use crate::workspace;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Packages and what they are for. The one list: a test that needs another tool adds its package here.
const PACKAGES: &[(&str, &str)] = &[
    ("attr", "getfattr, setfattr: copies with their attributes"),
    ("bcache-tools", "make-bcache: a signature that must be refused"),
    ("blktrace", "traces of others, and blkparse as the referee of those who read them"),
    ("bonnie++", "the other side of benchmarks"),
    ("btrfs-progs", "mkfs.btrfs"),
    ("busybox-static", "powering off a guest"),
    ("chromium", "how a browser shows reports"),
    ("cryptsetup-bin", "LUKS headers that must be refused"),
    ("dmsetup", "device-mapper devices in guests"),
    ("dosfstools", "mkfs.vfat: a signature that must be refused"),
    ("e2fsprogs", "mkfs.ext4"),
    ("f2fs-tools", "mkfs.f2fs: a signature that must be refused"),
    ("fdisk", "sfdisk: partition tables"),
    ("fio", "the other side of benchmarks"),
    ("fish", "reading its completions"),
    ("fsmark", "fs_mark: the other side of benchmarks"),
    ("gdisk", "sgdisk: backup GPT"),
    ("groff-base", "reading the manual page"),
    ("hdparm", "the other side of benchmarks"),
    ("ioping", "another program's latencies"),
    ("kmod", "loading loop, zram and file system modules"),
    ("lvm2", "pvcreate: a signature that must be refused; volumes in guests"),
    ("mariadb-server", "OPTIMIZE TABLE in a server of its own: a recipe of watch"),
    ("mdadm", "arrays in guests"),
    ("mount", "losetup, mount, swapon"),
    ("multipath-tools", "multipathd in guests"),
    ("openssh-client", "the live view over a connection"),
    ("openssh-server", "the other end of it, started by the client for each connection"),
    ("postgresql", "pgbench with a server of its own: a recipe of watch"),
    ("python3-pandas", "tables of an export in pandas"),
    ("python3-pip", "installing DuckDB and fastparquet, which are no Debian packages"),
    ("qemu-system-x86", "guests with NVMe, several CPUs and tracing"),
    ("r-base-core", "tables of an export in R"),
    ("sg3-utils", "sg_start, sg_turs: SCSI drives that stand still, in guests"),
    ("smartmontools", "smartd in guests"),
    ("sqlite3", "questions to the store, as the documentation asks them"),
    ("strace", "which files a measurement touches"),
    ("sysbench", "the other side of benchmarks"),
    ("sysstat", "iostat: the other side of watch"),
    ("systemd", "systemd-analyze: what the words of timers mean"),
    ("tmux", "the live view in it"),
    ("trace-cmd", "trace-cmd record: the other side of capture in benchmarks"),
    ("udev", "multipathd in guests needs it"),
    ("user-mode-linux", "the guests' kernel"),
    ("util-linux", "unshare, wipefs, mkswap, fsfreeze, partx"),
    ("xfsprogs", "mkfs.xfs"),
    ("xz-utils", "unpacking the kernel of QEMU guests"),
    ("zsh", "reading its completions"),
];

/// A mirror that takes longer has a fault.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(600);

/// So long that only what hangs is killed: dpkg is left interrupted by that.
const INSTALL_LIMIT: Duration = Duration::from_secs(1800);

/// Installs what is missing. Whatever goes wrong is said and not an error: the tests that need it are then skipped,
/// with the reason.
pub fn install() {
    install_debian();
    if is_root() {
        MODULES.iter().for_each(|packages| install_module(packages));
    }
}

/// Where Python finds what is no Debian package.
#[must_use]
pub fn python_path() -> PathBuf {
    workspace::target().join("python")
}

/// Modules for Python that are no Debian packages, each with what it needs: DuckDB reads tables by itself, pandas reads Parquet by
/// fastparquet, which takes a tenth of the room of PyArrow and bears Debian's NumPy.
const MODULES: [&[&str]; 2] = [&["duckdb"], &["fastparquet", "cramjam", "fsspec", "packaging"]];

/// One of them, into a directory of its own.
fn install_module(packages: &[&str]) {
    let path = python_path();
    if packages.iter().all(|package| path.join(package).is_dir()) {
        return;
    }
    let mut command = process::bound(Path::new("/usr/bin/python3"));
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command.args(["--root-user-action=ignore", "--no-deps", "--target"]).arg(&path).args(packages);
    if !finish(&mut command, DOWNLOAD_LIMIT) {
        println!("{} could not be installed; tests that need it are skipped", packages[0]);
    }
}

fn install_debian() {
    let policy_path = Path::new("/usr/sbin/policy-rc.d");
    if is_root() {
        // Of a run that was killed.
        Policy::at(policy_path).restore_and_say();
    }
    let missing: Vec<&str> = PACKAGES
        .iter()
        .map(|(package, _)| *package)
        .filter(|package| !is_installed(package))
        .collect();
    if missing.is_empty() && kernel::is_there() {
        println!("all {} Debian packages that tests use are installed", PACKAGES.len());
        return;
    }
    println!("missing Debian packages: {}", missing.join(" "));
    if !kernel::is_there() {
        println!("missing: the kernel of QEMU guests");
    }
    if !is_root() {
        println!("not root: nothing is installed, tests that need them are skipped");
        return;
    }
    let policy = match Policy::place(policy_path) {
        Ok(policy) => policy,
        Err(error) => {
            println!("nothing is installed, a daemon might start: {error}");
            return;
        }
    };
    finish(&mut apt(&["update"]), DOWNLOAD_LIMIT);
    if !apt_install(&missing) {
        // Whatever interrupted it, or an earlier one.
        let mut configure = process::bound(Path::new("/usr/bin/dpkg"));
        configure.env("DEBIAN_FRONTEND", "noninteractive").args(["--configure", "-a"]);
        finish(&mut configure, INSTALL_LIMIT);
        // One that does not exist here must not keep the others away.
        for package in missing.iter().filter(|package| !apt_install(&[package])) {
            println!("{package} could not be installed; tests that need it are skipped");
        }
    }
    drop(policy);
    if !kernel::is_there()
        && let Err(reason) = kernel::unpack()
    {
        println!("no kernel for QEMU guests, tests that need it are skipped: {reason}");
    }
}

fn is_installed(package: &str) -> bool {
    let mut command = Command::new("dpkg-query");
    command.args(["--show", "--showformat=${db:Status-Status}", package]).stderr(Stdio::null());
    command.output().is_ok_and(|output| output.stdout == b"installed")
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt_install(packages: &[&str]) -> bool {
    let install = ["install", "--yes", "--no-install-recommends"];
    let words = [&install[..], packages].concat();
    let download = [&["--download-only"], &words[..]].concat();
    packages.is_empty()
        || (finish(&mut apt(&download), DOWNLOAD_LIMIT) && finish(&mut apt(&words), INSTALL_LIMIT))
}

/// The command `apt-get` with these words.
fn apt(args: &[&str]) -> Command {
    let mut command = process::bound(Path::new("/usr/bin/apt-get"));
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["-q", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=2"]).args(args);
    command
}

/// Runs it to its end; whether that was a good one.
fn finish(command: &mut Command, limit: Duration) -> bool {
    match process::stream(command, limit, |_| {}) {
        Ok(finished) if finished.is_success() => true,
        Ok(finished) => {
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
            println!("{}: {}", words.join(" "), finished.describe());
            false
        }
        Err(error) => {
            println!("{error}");
            false
        }
    }
}

/// The answer no, with words by which the file is known as ours.
const NO_DAEMON: &str =
    "#!/bin/sh\n# Placed by fathom's tests while they install packages.\nexit 101\n";

/// The file that package scripts ask whether they may start a daemon, answering no while this lives. One that the
/// machine has is kept beside it and put back, also by the next run when this one was killed.
#[derive(Debug)]
struct Policy {
    path: PathBuf,
    kept: PathBuf,
}

impl Policy {
    fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), kept: path.with_extension("d.kept-by-fathom") }
    }

    fn place(path: &Path) -> std::io::Result<Self> {
        let policy = Self::at(path);
        policy.restore()?;
        if policy.path.exists() {
            fs::rename(&policy.path, &policy.kept)?;
        }
        fs::write(&policy.path, NO_DAEMON)?;
        fs::set_permissions(&policy.path, fs::Permissions::from_mode(0o755))?;
        Ok(policy)
    }

    /// Puts back what there was; what is there is left alone unless it is ours.
    fn restore(&self) -> std::io::Result<()> {
        let is_ours = fs::read(&self.path).is_ok_and(|bytes| bytes == NO_DAEMON.as_bytes());
        if self.kept.exists() {
            fs::rename(&self.kept, &self.path)
        } else if is_ours {
            fs::remove_file(&self.path)
        } else {
            Ok(())
        }
    }

    fn restore_and_say(&self) {
        if let Err(error) = self.restore() {
            println!("{} could not be put back: {error}", self.path.display());
        }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        self.restore_and_say();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn the_policy_comes_and_goes() {
        let dir = scratch("policy-new");
        let path = dir.join("policy-rc.d");
        let policy = Policy::place(&path).unwrap();
        assert_eq!(Command::new(&path).status().unwrap().code(), Some(101));
        drop(policy);
        assert!(!path.exists());
        fs::remove_dir(&dir).unwrap();
    }

    #[test]
    fn one_that_was_left_by_a_kill_is_not_taken_for_the_machines() {
        let dir = scratch("policy-left");
        let path = dir.join("policy-rc.d");
        std::mem::forget(Policy::place(&path).unwrap());
        assert!(path.exists());
        drop(Policy::place(&path).unwrap());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        // Where nothing is missing any more, too.
        std::mem::forget(Policy::place(&path).unwrap());
        Policy::at(&path).restore_and_say();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::write(&path, "theirs").unwrap();
        Policy::at(&path).restore_and_say();
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn an_existing_policy_is_put_back_even_by_the_next_run() {
        let dir = scratch("policy-old");
        let path = dir.join("policy-rc.d");
        fs::write(&path, "theirs").unwrap();
        // The first is killed: nothing puts it back.
        std::mem::forget(Policy::place(&path).unwrap());
        assert_ne!(fs::read_to_string(&path).unwrap(), "theirs");
        drop(Policy::place(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        fs::remove_dir_all(&dir).unwrap();
    }

    /// The test kit names packages in the reasons of skips; what it names, `--install` must install.
    #[test]
    fn packages_that_skips_name_are_installed() {
        let path = crate::workspace::root().join("crates/fathom-testkit/src/capability.rs");
        let source = fs::read_to_string(path).unwrap();
        let table = source.split("const PACKAGES").nth(1).unwrap().split("];").next().unwrap();
        let named: Vec<&str> = table.split('"').skip(3).step_by(4).collect();
        assert!(named.contains(&"bcache-tools"), "{named:?}");
        for package in named {
            assert!(PACKAGES.iter().any(|(known, _)| *known == package), "{package}");
        }
    }

    #[test]
    fn the_list_is_sorted_and_explained() {
        assert!(PACKAGES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(PACKAGES.iter().all(|(_, why)| !why.is_empty()));
        assert!(!is_installed("no-such-package"));
    }
}
