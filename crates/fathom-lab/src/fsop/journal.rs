//! The journal of the filesystem under the target: the device that it lies on, where that is another one, and how often it was
//! written.

use fathom_model::stack::{FsFacts, Node, Stack};
use fathom_sys::sysroot::SysRoot;
use std::path::PathBuf;

/// What tells of the journal; nothing where a filesystem has none, or does not tell.
#[derive(Debug, Default)]
pub struct Journal {
    /// The device that it lies on, where that is none of the target's stack.
    pub device: Option<String>,
    /// A file of the kernel's, and the word before the count in it.
    counted: Option<(PathBuf, &'static str)>,
}

impl Journal {
    /// That of the filesystem at the top of a stack.
    #[must_use]
    pub fn of(root: &SysRoot, stack: &Stack) -> Self {
        let Some(node) = stack.filesystem() else { return Self::default() };
        let none = FsFacts::default();
        let facts = node.fs.as_ref().unwrap_or(&none);
        let data = stack.below(node).next();
        let counted = data.and_then(|data| counted(root, node, facts, &data.name));
        Self { device: facts.journal_device.clone(), counted }
    }

    /// Commits so far: transactions of ext4 and btrfs, writes of the log of XFS.
    #[must_use]
    pub fn commits(&self, root: &SysRoot) -> Option<u64> {
        let (path, word) = self.counted.as_ref()?;
        let text = root.text(path)?;
        let after = text.lines().find_map(|line| line.trim().strip_prefix(*word))?;
        after.split_whitespace().next()?.parse().ok()
    }
}

/// The file with the count. jbd2 calls a journal inside after the device and its inode, one elsewhere after that device.
fn counted(
    root: &SysRoot,
    node: &Node,
    facts: &FsFacts,
    data: &str,
) -> Option<(PathBuf, &'static str)> {
    match node.name.as_str() {
        "xfs" => Some((format!("sys/fs/xfs/{data}/stats/stats").into(), "log ")),
        "btrfs" => {
            let uuid = facts.uuid.as_ref()?;
            Some((format!("sys/fs/btrfs/{uuid}/commit_stats").into(), "commits "))
        }
        _ => {
            let is_its = |name: &String| match &facts.journal_device {
                Some(device) => name == device,
                None => {
                    let inode = name.strip_prefix(data).and_then(|rest| rest.strip_prefix('-'));
                    inode.is_some_and(|inode| inode.bytes().all(|byte| byte.is_ascii_digit()))
                }
            };
            let name = root.names("proc/fs/jbd2").into_iter().find(is_its)?;
            Some((format!("proc/fs/jbd2/{name}/info").into(), ""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::NodeKind;

    fn stack(kind: &str, facts: FsFacts) -> Stack {
        let mut mount = Node::new(NodeKind::Mount, "/srv");
        mount.below = vec![1];
        let mut fs = Node::new(NodeKind::FileSystem, kind);
        fs.fs = Some(facts);
        fs.below = vec![2];
        let mut data = Node::new(NodeKind::Loop, "loop3");
        data.devno = Some("7:3".into());
        let nodes = vec![mount, fs, data];
        Stack { path: "/srv".into(), resolved_path: "/srv".into(), nodes, top: 0 }
    }

    #[test]
    fn each_filesystem_has_its_count_and_no_other() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let root = SysRoot::at(dir.path());
        for (path, text) in [
            (
                "proc/fs/jbd2/loop3-8/info",
                "123 transactions (45 requested), each up to 8192 blocks\naverage: \n",
            ),
            (
                "proc/fs/jbd2/loop33-8/info",
                "9 transactions (1 requested), each up to 8192 blocks\n",
            ),
            ("proc/fs/jbd2/loop7/info", "77 transactions (1 requested), each up to 8192 blocks\n"),
            ("sys/fs/xfs/loop3/stats/stats", "trans 0 14 2\nlog 31 1234 0 18 12\n"),
            ("sys/fs/btrfs/u-u/commit_stats", "commits 5\nlast_commit_ms 4\n"),
        ] {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            std::fs::write(path, text).expect("made");
        }
        let of = |kind: &str, facts: FsFacts| {
            let journal = Journal::of(&root, &stack(kind, facts));
            (journal.commits(&root), journal.device)
        };
        let elsewhere = |name: &str| FsFacts {
            journal_device: Some(name.to_owned()),
            uuid: Some("u-u".into()),
            ..FsFacts::default()
        };
        assert_eq!(of("ext4", FsFacts::default()), (Some(123), None));
        assert_eq!(of("ext4", elsewhere("loop7")), (Some(77), Some("loop7".into())));
        assert_eq!(of("ext4", elsewhere("loop8")), (None, Some("loop8".into())));
        assert_eq!(of("xfs", elsewhere("loop7")), (Some(31), Some("loop7".into())));
        assert_eq!(of("btrfs", FsFacts { journal_device: None, ..elsewhere("") }), (Some(5), None));
        assert_eq!(of("btrfs", FsFacts::default()), (None, None));
    }
}
