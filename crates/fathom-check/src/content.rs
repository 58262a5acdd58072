//! What superblocks say of a device, in a few words.

use fathom_model::stack::Node;
use fathom_model::stack::detail::{Content, LuksHeader, LvmHeader, MdSuperblock, PartitionTable};

/// What lies on a device that nothing stands on; none where it was not read. Whether that is mounted, only `knows_mounts` tells.
pub(crate) fn words(node: &Node, knows_mounts: bool) -> Option<String> {
    let detail = node.details();
    let content = detail.content.as_ref()?;
    let mut words = Vec::new();
    words.extend(content.md.as_ref().map(md));
    words.extend(content.lvm.as_ref().map(lvm));
    words.extend(content.luks.as_ref().map(luks));
    words.extend(content.bcache.as_ref().map(|bcache| format!("bcache {} device", bcache.kind)));
    words.extend(content.filesystem.as_ref().map(|fs| filesystem(&fs.fs_type, node, knows_mounts)));
    words.extend(content.other.iter().map(|other| match other.strip_suffix("_raid_member") {
        Some(kind) => format!("member of an array ({kind})"),
        None if other == "xfs_external_log" && !node.mounted_at.is_empty() => {
            format!("xfs external log, mounted at {}", node.mounted_at.join(", "))
        }
        None => other.replace('_', " "),
    }));
    words.extend(content.damaged.iter().map(|what| format!("damaged: {what}")));
    words.extend(detail.table.as_ref().map(table));
    if words.is_empty() && *content == Content::default() {
        return Some("holds nothing that is known".to_owned());
    }
    (!words.is_empty()).then(|| format!("holds {}", words.join(", ")))
}

fn md(sb: &MdSuperblock) -> String {
    let name = sb.name.as_deref().or(sb.array_uuid.as_deref());
    let role = sb.role.as_deref().map_or_else(String::new, |role| {
        let is_number = role.bytes().all(|b| b.is_ascii_digit());
        if is_number { format!(", number {role}") } else { format!(", {role}") }
    });
    format!("member of md array {}{role}", name.unwrap_or("without a name"))
}

fn lvm(lvm: &LvmHeader) -> String {
    match &lvm.group {
        Some(group) => format!("physical volume of {group}"),
        None => "physical volume of no group".to_owned(),
    }
}

fn luks(luks: &LuksHeader) -> String {
    format!("LUKS{} container, closed", luks.version)
}

const JOURNAL: &str = "journal of an ext filesystem on another device";

fn filesystem(kind: &str, node: &Node, knows_mounts: bool) -> String {
    match node.mounted_at.as_slice() {
        [] if kind == "jbd" => JOURNAL.to_owned(),
        [] if !knows_mounts => format!("{kind}; whether it is mounted is not known"),
        // As after umount --lazy, or where a virtual machine has it.
        [] if node.details().opened == Some(true) => {
            format!("{kind}, mounted nowhere that shows, but in use")
        }
        [] => format!("{kind}, not mounted"),
        points => {
            let what = if kind == "jbd" { JOURNAL } else { kind };
            format!("{what}, mounted at {}", points.join(", "))
        }
    }
}

/// Nothing stands on the device: the kernel has not taken up what its table says.
fn table(table: &PartitionTable) -> String {
    let kind = if table.kind == "gpt" { "a GPT" } else { "an MBR" };
    match table.entries.len() {
        0 => format!("{kind} partition table without partitions"),
        1 => format!("{kind} partition table with 1 partition that the kernel does not show"),
        count => {
            format!("{kind} partition table with {count} partitions that the kernel does not show")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::NodeKind;
    use fathom_model::stack::detail::FsSuperblock;

    fn of(content: Content, table: Option<PartitionTable>) -> Option<String> {
        let mut node = Node::new(NodeKind::Disk, "sda");
        let detail = node.detail.get_or_insert_default();
        (detail.content, detail.table) = (Some(content), table);
        words(&node, true)
    }

    #[test]
    fn what_lies_there_is_said() {
        assert_eq!(words(&Node::new(NodeKind::Disk, "sda"), true), None, "not read");
        let text = of(Content::default(), None);
        assert_eq!(text.as_deref(), Some("holds nothing that is known"));
        let md = MdSuperblock {
            name: Some("host:0".into()),
            role: Some("2".into()),
            ..MdSuperblock::default()
        };
        let lvm = LvmHeader { group: Some("vg0".into()), ..LvmHeader::default() };
        let text = of(Content { md: Some(md), lvm: Some(lvm), ..Content::default() }, None);
        let expected = "holds member of md array host:0, number 2, physical volume of vg0";
        assert_eq!(text.as_deref(), Some(expected));
        let luks = LuksHeader { version: 2, ..LuksHeader::default() };
        let text = of(Content { luks: Some(luks), ..Content::default() }, None);
        assert_eq!(text.as_deref(), Some("holds LUKS2 container, closed"));
        let fs = FsSuperblock { fs_type: "xfs".into(), ..FsSuperblock::default() };
        let text = of(Content { filesystem: Some(fs), ..Content::default() }, None);
        assert_eq!(text.as_deref(), Some("holds xfs, not mounted"));
        let fs = FsSuperblock { fs_type: "xfs".into(), ..FsSuperblock::default() };
        let mut node = Node::new(NodeKind::Disk, "sda");
        let content = Content { filesystem: Some(fs), ..Content::default() };
        node.detail.get_or_insert_default().content = Some(content);
        let text = words(&node, false);
        assert_eq!(text.as_deref(), Some("holds xfs; whether it is mounted is not known"));
        node.detail.get_or_insert_default().opened = Some(true);
        let text = words(&node, true);
        assert_eq!(text.as_deref(), Some("holds xfs, mounted nowhere that shows, but in use"));
        let other = vec!["swap".to_owned(), "isw_raid_member".to_owned()];
        let text = of(Content { other, ..Content::default() }, None);
        assert_eq!(text.as_deref(), Some("holds swap, member of an array (isw)"));
        let table = PartitionTable { kind: "gpt".into(), ..PartitionTable::default() };
        let text = of(Content::default(), Some(table));
        assert_eq!(text.as_deref(), Some("holds a GPT partition table without partitions"));
        for (kind, expected) in [
            ("xfs_external_log", "holds xfs external log, mounted at /srv"),
            ("jbd", "holds journal of an ext filesystem on another device, mounted at /srv"),
        ] {
            let mut content = Content { other: vec![kind.to_owned()], ..Content::default() };
            if kind == "jbd" {
                let fs = FsSuperblock { fs_type: kind.into(), ..FsSuperblock::default() };
                content = Content { filesystem: Some(fs), ..Content::default() };
            }
            let mut node = Node::new(NodeKind::Disk, "sda");
            node.mounted_at = vec!["/srv".to_owned()];
            node.detail.get_or_insert_default().content = Some(content);
            assert_eq!(words(&node, true).as_deref(), Some(expected));
        }
        let entries = vec![Default::default()];
        let table = PartitionTable { kind: "dos".into(), entries, ..PartitionTable::default() };
        let text = of(Content::default(), Some(table));
        let expected =
            "holds an MBR partition table with 1 partition that the kernel does not show";
        assert_eq!(text.as_deref(), Some(expected));
    }
}
