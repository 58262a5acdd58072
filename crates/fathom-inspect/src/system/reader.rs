//! Reading files of the system and noting which could not be read.

use fathom_base::order::Order;
use fathom_model::snapshot::Unread;
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Longer files are cut: nothing that is read here is that long on a sane system.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Number of `/dev/null`: major 1, minor 3.
const NULL_DEVICE: u64 = 0x103;

/// Reads under a root. A file that is not there is no news; any other failure is noted once.
pub(crate) struct Reader<'a> {
    pub(crate) root: &'a SysRoot,
    unread: Vec<Unread>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(root: &'a SysRoot) -> Self {
        Self { root, unread: Vec::new() }
    }

    /// The whole file; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&mut self, path: impl AsRef<Path>) -> Option<String> {
        let path = path.as_ref();
        match read_file(&self.root.path(path)) {
            Ok(text) => Some(text),
            Err(error) => {
                self.note(path, &error);
                None
            }
        }
    }

    /// The file without surrounding white space; none when it is empty, too.
    pub(crate) fn line(&mut self, path: impl AsRef<Path>) -> Option<String> {
        let text = self.text(path)?;
        let line = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// The file as a number.
    pub(crate) fn number(&mut self, path: impl AsRef<Path>) -> Option<u64> {
        self.line(path)?.parse().ok()
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&mut self, path: impl AsRef<Path>) -> Vec<String> {
        let path = path.as_ref();
        match std::fs::read_dir(self.root.path(path)) {
            Ok(entries) => {
                let entries = entries.flatten();
                let mut names: Vec<String> =
                    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
                names.order();
                names
            }
            Err(error) => {
                self.note(path, &error);
                Vec::new()
            }
        }
    }

    /// True when anybody at all may read the file; files of the kernel that can only be written are none.
    pub(crate) fn is_readable_by_anybody(&self, path: impl AsRef<Path>) -> bool {
        let facts = std::fs::metadata(self.root.path(path));
        facts.is_ok_and(|facts| facts.mode() & 0o444 != 0)
    }

    /// Notes that something could not be read; what is not there is passed over.
    pub(crate) fn note(&mut self, path: &Path, error: &io::Error) {
        let why = match error.kind() {
            // A directory in the way of a path means that the file is not there.
            ErrorKind::NotFound | ErrorKind::NotADirectory => return,
            ErrorKind::PermissionDenied => "no permission".to_owned(),
            _ => format!("unreadable: {error}"),
        };
        let what = Path::new("/").join(path).display().to_string();
        let unread = Unread { what, why };
        if !self.unread.contains(&unread) {
            self.unread.push(unread);
        }
    }

    pub(crate) fn into_unread(self) -> Vec<Unread> {
        self.unread
    }
}

/// Reads what cannot make the reader wait: a pipe in place of a file would.
fn read_file(path: &Path) -> io::Result<String> {
    let facts = std::fs::metadata(path)?;
    let kind = facts.file_type();
    // A link to /dev/null is how a file of the distribution is switched off.
    if kind.is_char_device() && facts.rdev() == NULL_DEVICE {
        return Ok(String::new());
    }
    if kind.is_dir() || kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
        return Err(io::Error::other("no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[test]
    fn what_is_missing_is_no_news_and_what_is_no_file_is() {
        let tree = Tree::of_text("[etc]\nfstab = x\n[etc/smartd.conf]\n");
        let root = tree.root();
        let mut reader = Reader::new(&root);
        assert_eq!(reader.line("etc/fstab").as_deref(), Some("x"));
        assert_eq!(reader.text("etc/mdadm.conf"), None);
        assert_eq!(reader.text("etc/fstab/below"), None);
        assert_eq!((reader.text("etc/smartd.conf"), reader.text("etc/smartd.conf")), (None, None));
        assert_eq!(reader.names("run/systemd"), [""; 0]);
        let unread = reader.into_unread();
        assert_eq!(unread.len(), 1, "{unread:?}");
        assert_eq!(unread[0].what, "/etc/smartd.conf");
        assert_eq!(unread[0].why, "unreadable: no regular file");
    }

    #[test]
    fn what_is_switched_off_is_empty() {
        let tree = Tree::new();
        tree.link("etc/udev/rules.d/60-x.rules", "/dev/null").link("etc/fstab", "/dev/zero");
        let root = tree.root();
        let mut reader = Reader::new(&root);
        assert_eq!(reader.text("etc/udev/rules.d/60-x.rules").as_deref(), Some(""));
        assert_eq!(reader.text("etc/fstab"), None, "it never ends");
        assert_eq!(reader.into_unread().len(), 1);
    }

    #[test]
    fn a_huge_file_is_cut() {
        let tree = Tree::new();
        tree.put("etc/fstab", vec![b'x'; FILE_BYTES_MAX as usize + 5]);
        let root = tree.root();
        let text = Reader::new(&root).text("etc/fstab").expect("a file");
        assert_eq!(text.len() as u64, FILE_BYTES_MAX);
    }
}
