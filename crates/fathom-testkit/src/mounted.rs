//! Mounts and file systems on loop devices, unmounted when dropped.

use crate::command::{KitError, at, run_tool, tool};
use crate::leftovers;
use crate::loopdev::LoopDevice;
use crate::scratch::{Owner, PREFIX, Scratch};
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A file system that the kit can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FsKind {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FsKind {
    /// Every kind, for tests that go through all.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// The kernel's name of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// The tool that makes it.
    #[must_use]
    pub fn mkfs(self) -> &'static str {
        match self {
            Self::Ext4 => "mkfs.ext4",
            Self::Xfs => "mkfs.xfs",
            Self::Btrfs => "mkfs.btrfs",
        }
    }

    /// The smallest round size, in bytes, that its tool accepts and that leaves room for a test.
    #[must_use]
    pub fn size_bytes_min(self) -> u64 {
        match self {
            Self::Ext4 => 32 << 20,
            Self::Xfs => 320 << 20,
            Self::Btrfs => 128 << 20,
        }
    }

    /// Makes the file system on a device or file, over whatever was there.
    ///
    /// # Errors
    /// Those of its tool.
    pub fn make(self, device: &Path, options: &[&str]) -> Result<(), KitError> {
        let mut args: Vec<&str> = match self {
            // Nothing is initialised in the background later: an idle device stays as it is.
            Self::Ext4 => vec!["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
            Self::Xfs => vec!["-q", "-f"],
            Self::Btrfs => vec!["-q", "-f"],
        };
        args.extend(options);
        let device = device.display().to_string();
        args.push(&device);
        run_tool(self.mkfs(), args).map(drop)
    }
}

impl fmt::Display for FsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Anything mounted in a directory of the kit's; unmounted when dropped, lazily if it is busy.
#[derive(Debug)]
pub struct Mount {
    point: PathBuf,
    _scratch: Scratch,
}

impl Mount {
    /// Mounts `source` (a device, or a name for `tmpfs` and the like) with comma-separated options, which may be
    /// empty.
    ///
    /// # Errors
    /// Those of `mount`.
    pub fn new(fs_type: &str, source: &Path, options: &str) -> Result<Self, KitError> {
        let scratch = Scratch::new()?;
        let point = scratch.join("mnt");
        fs::create_dir(&point).map_err(at(&point))?;
        let options = if options.is_empty() { "defaults" } else { options };
        let args = ["-t", fs_type, "-o", options].map(Path::new);
        run_tool("mount", args.into_iter().chain([source, &point]))?;
        Ok(Self { point, _scratch: scratch })
    }

    /// The mount point.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.point
    }

    /// Changes options of the mounted file system (`ro`, `noatime`).
    ///
    /// # Errors
    /// Those of `mount`.
    pub fn remount(&self, options: &str) -> Result<(), KitError> {
        let options = format!("remount,{options}");
        run_tool("mount", [Path::new("-o"), Path::new(&options), &self.point]).map(drop)
    }

    /// Stops all changes of the file system until the guard is dropped.
    ///
    /// # Errors
    /// Those of `fsfreeze`.
    pub fn freeze(&self) -> Result<Frozen<'_>, KitError> {
        run_tool("fsfreeze", [Path::new("--freeze"), &self.point])?;
        Ok(Frozen { mount: self })
    }
}

impl Mount {
    /// A path in it for the file below a loop device, in a directory with the name of this process: of a mount that went with its
    /// namespace the kernel shows only what is below, and whose it was is told from that.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn backing(&self) -> Result<PathBuf, KitError> {
        let owned = self.dir().join(format!("{PREFIX}{}", Owner::this_process()));
        fs::create_dir_all(&owned).map_err(at(&owned))?;
        Ok(owned.join("disk.img"))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = leftovers::unmount(&self.point) {
            eprintln!("test kit: {error}");
        }
    }
}

/// A frozen file system; thaws when dropped.
#[derive(Debug)]
pub struct Frozen<'a> {
    mount: &'a Mount,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if let Err(error) = run_tool("fsfreeze", [Path::new("--unfreeze"), &self.mount.point]) {
            eprintln!("test kit: {error}");
        }
    }
}

/// A new file system on a loop device of its own, mounted.
#[derive(Debug)]
pub struct MountedFs {
    // In this order: unmounted, then detached.
    mount: Mount,
    device: LoopDevice,
}

impl MountedFs {
    /// Makes and mounts a file system with everything by default.
    ///
    /// # Errors
    /// Those of the tools; `size_bytes` below [`FsKind::size_bytes_min`] is one.
    pub fn new(kind: FsKind, size_bytes: u64) -> Result<Self, KitError> {
        Self::with(kind, LoopDevice::new(size_bytes)?, &[], "")
    }

    /// Makes and mounts a file system on that device with arguments for its mkfs and options for the mount.
    ///
    /// # Errors
    /// Those of the tools.
    pub fn with(
        kind: FsKind,
        device: LoopDevice,
        mkfs_options: &[&str],
        mount_options: &str,
    ) -> Result<Self, KitError> {
        kind.make(device.path(), mkfs_options)?;
        let mount = Mount::new(kind.name(), device.path(), mount_options)?;
        Ok(Self { mount, device })
    }

    /// The mount point.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.mount.dir()
    }

    /// The mount.
    #[must_use]
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// The device below.
    #[must_use]
    pub fn device(&self) -> &LoopDevice {
        &self.device
    }

    /// Unmounts, keeping the device with the file system on it.
    #[must_use]
    pub fn unmount(self) -> LoopDevice {
        let Self { mount, device } = self;
        drop(mount);
        device
    }
}

/// A device mounted in another mount namespace only, invisible to this one, until dropped.
#[derive(Debug)]
pub struct MountedElsewhere {
    child: Child,
    _scratch: Scratch,
}

impl MountedElsewhere {
    /// Starts a process with its own mount namespace that mounts the device and waits.
    ///
    /// # Errors
    /// When the namespace or the mount could not be made.
    pub fn new(device: &Path) -> Result<Self, KitError> {
        let scratch = Scratch::new()?;
        let script = r#"mount "$0" "$1" && echo mounted && read -r _"#;
        let mut command = tool("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
        command.arg(device).arg(scratch.path()).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(at("unshare"))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(at("unshare"))?;
        }
        if line.trim() == "mounted" {
            return Ok(Self { child, _scratch: scratch });
        }
        let output = child.wait_with_output().map_err(at("unshare"))?;
        let (device, reason) = (device.display(), String::from_utf8_lossy(&output.stderr));
        Err(KitError::Other(format!("{device} not mounted in another namespace: {reason}")))
    }

    /// The process that lives in the other namespace.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for MountedElsewhere {
    fn drop(&mut self) {
        // Its shell reads the end of its input and ends; the namespace and the mount go with it.
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("test kit: cannot wait for {}: {error}", self.child.id());
        }
    }
}
