//! The kernel's tracing files: which tracepoints there are, their numbers and where their fields lie.
//!
//! They are read where they are mounted. Where they are not, a mount of our own is made that has no place in any directory: only
//! this process can reach it, and it ends with the process.

use crate::sysroot::{SysRoot, directory_at};
use rustix::fs::CWD;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

/// Where they are usually mounted.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// The most that a description of a tracepoint has.
const FORMAT_BYTES_MAX: usize = 256 << 10;

/// The tracing files.
#[derive(Debug)]
pub struct Tracefs {
    root: SysRoot,
    /// Keeps a mount of our own.
    own: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds them; `may_mount` also in a mount of our own.
    ///
    /// # Errors
    /// PermissionDenied for who is not root, NotFound where the kernel has no tracing.
    pub fn open(root: &SysRoot, may_mount: bool) -> io::Result<Self> {
        let mut denied = None;
        for place in PLACES {
            let path = root.path(place);
            match std::fs::read_dir(path.join("events")) {
                Ok(_) => return Ok(Self { root: SysRoot::at(path), own: None }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    denied = Some(error);
                }
                Err(_) => {}
            }
        }
        match denied {
            Some(error) => Err(error),
            None if may_mount => Self::mount_own(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn mount_own() -> io::Result<Self> {
        let mount = mount_detached(c"tracefs").map_err(|error| match error.raw_os_error() {
            // What the kernel does not know is no device.
            Some(libc::ENODEV) => io::ErrorKind::NotFound.into(),
            _ => error,
        })?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        std::fs::read_dir(path.join("events"))?;
        Ok(Self { root: SysRoot::at(path), own: Some(mount) })
    }

    /// True for a mount that was made for this process.
    #[must_use]
    pub fn is_own_mount(&self) -> bool {
        self.own.is_some()
    }

    /// The directory in which each instance has its own.
    ///
    /// # Errors
    /// NotFound for kernels that have none.
    pub fn instances(&self) -> io::Result<OwnedFd> {
        directory_at(CWD, &self.root.path("instances"))
    }

    /// The names of all instances.
    #[must_use]
    pub fn instance_names(&self) -> Vec<String> {
        self.root.names("instances")
    }

    /// One of the files, as text.
    pub(crate) fn text(&self, below: &str) -> io::Result<String> {
        self.root.read(below)
    }

    /// The tracepoints of a category, such as `block`.
    #[must_use]
    pub fn names(&self, category: &str) -> Vec<String> {
        self.root.names(Path::new("events").join(category))
    }

    /// The description of a tracepoint.
    ///
    /// # Errors
    /// NotFound for one that this kernel does not have; InvalidData for a text in another form.
    pub fn event(&self, category: &str, name: &str) -> io::Result<EventFormat> {
        let path = Path::new("events").join(category).join(name).join("format");
        let bytes = self.root.bytes(path, FORMAT_BYTES_MAX)?;
        EventFormat::parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{name}/format has another form"))
        })
    }
}

/// A filesystem without a place in any directory.
fn mount_detached(kind: &std::ffi::CStr) -> io::Result<OwnedFd> {
    const CLOEXEC: libc::c_ulong = 1;
    const CREATE: libc::c_ulong = 6;
    // SAFETY: the name ends in zero and outlives the call.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), CLOEXEC) })?;
    let none = std::ptr::null::<libc::c_char>();
    let fd = context.as_raw_fd();
    // SAFETY: this command takes no strings.
    let made = unsafe { libc::syscall(libc::SYS_fsconfig, fd, CREATE, none, none, 0) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: numbers only.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, fd, CLOEXEC, 0) })
}

/// A new descriptor from the result of a system call.
pub(crate) fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}

/// A tracepoint: its number and its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// The number by which the kernel knows it until the next boot.
    pub id: u32,
    /// Its fields, common ones included.
    pub fields: Vec<Field>,
}

/// One field of a tracepoint's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub offset_bytes: usize,
    /// How long it is.
    pub size_bytes: usize,
}

impl EventFormat {
    /// From the text of a `format` file.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("field:"));
        let fields = lines.map(Field::parse).collect::<Option<Vec<_>>>()?;
        Some(Self { id, fields })
    }

    /// The field of that name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// From `unsigned int nr_sector; offset:24; size:4; signed:0;`, with tabs between.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let declared = parts.next()?.split('[').next()?;
        let name = declared.rsplit([' ', '*']).next()?.to_owned();
        let mut number = |key: &str| {
            let part = parts.next()?.strip_prefix(key)?;
            part.parse::<usize>().ok()
        };
        Some(Self { name, offset_bytes: number("offset:")?, size_bytes: number("size:")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUE: &str = "name: block_rq_issue\nID: 2104\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
        \tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"%d,%d\", ((unsigned int) ((REC->dev) >> 20))\n";

    #[test]
    fn fields_are_found_by_name() {
        let format = EventFormat::parse(ISSUE).expect("a format");
        assert_eq!(format.id, 2104);
        let at = |name| format.field(name).map(|f| (f.offset_bytes, f.size_bytes));
        assert_eq!(at("sector"), Some((16, 8)));
        assert_eq!(at("rwbs"), Some((34, 10)));
        assert_eq!(at("nr_sector"), None);
        assert_eq!(EventFormat::parse("no format"), None);
        assert_eq!(EventFormat::parse("ID: 7\nfield:int x;\tsize:4;\n"), None);
    }

    #[test]
    fn a_tree_without_tracing_is_told() {
        let empty = tempfile::tempdir().expect("a directory");
        let error = Tracefs::open(&SysRoot::at(empty.path()), false).expect_err("none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let place = empty.path().join("sys/kernel/tracing/events/block/block_x");
        std::fs::create_dir_all(&place).expect("made");
        std::fs::write(place.join("format"), ISSUE).expect("written");
        let files = Tracefs::open(&SysRoot::at(empty.path()), false).expect("there");
        assert!(!files.is_own_mount());
        assert_eq!(files.names("block"), ["block_x"]);
        assert_eq!(files.event("block", "block_x").map(|e| e.id).ok(), Some(2104));
        assert!(files.event("block", "block_y").is_err());
    }
}
