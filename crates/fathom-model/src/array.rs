//! Sizes in units of the array below the target: `chunk`, `2xchunk`, `stride`. What fills a chunk keeps one disk busy,
//! what fills a stride keeps all of them busy; both depend on the array, so they become bytes when it is known.

use crate::keys::{self, KeyError};
use crate::stack::{DmFacts, MdFacts, Stack};
use crate::workload::Job;

/// The keys that take such sizes.
const KEYS: [&str; 10] = [
    "block_size",
    "write_block_size",
    "trim_block_size",
    "log_block_size",
    "align",
    "stride",
    "offset",
    "span",
    "size",
    "amount",
];

/// What stands between the sizes of one value.
const SEPARATORS: [char; 4] = [',', ':', '-', '/'];

/// The sizes by which an array lays out its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArraySizes {
    /// Bytes that lie on one disk before the next one's turn.
    pub chunk_bytes: u64,
    /// Bytes of a row of chunks over all disks, without parity and near copies.
    pub stride_bytes: u64,
}

/// Stands for whatever array there will be, for checking values.
pub(crate) const ANY: ArraySizes = ArraySizes { chunk_bytes: 64 << 10, stride_bytes: 256 << 10 };

impl ArraySizes {
    /// Those of the first array from the top that has chunks: md of the levels 0, 4, 5, 6 and 10, or a striped
    /// device-mapper volume.
    #[must_use]
    pub fn of(stack: &Stack) -> Option<Self> {
        stack.walk().into_iter().find_map(|node| {
            let md = node.md.as_ref().and_then(Self::of_md);
            md.or_else(|| node.dm.as_ref().and_then(Self::of_striped))
        })
    }

    /// As the kernel's own io_opt: chunk x data disks, and for raid10 all disks where the copies do not divide them.
    fn of_md(md: &MdFacts) -> Option<Self> {
        let chunk_bytes = md.chunk_bytes.filter(|bytes| *bytes > 0)?;
        let disks = md.raid_disks?;
        let data_disks = match md.level.as_deref()? {
            "raid0" => disks,
            "raid4" | "raid5" => disks.checked_sub(1)?,
            "raid6" => disks.checked_sub(2)?,
            "raid10" => {
                // The lowest byte of the layout is the number of near copies.
                let near = (md.layout.unwrap_or(0x102) & 0xff).max(1);
                if disks.is_multiple_of(near) { disks / near } else { disks }
            }
            _ => return None,
        };
        let stride_bytes = chunk_bytes.checked_mul(data_disks).filter(|bytes| *bytes > 0)?;
        Some(Self { chunk_bytes, stride_bytes })
    }

    /// A table of one line: start, length, `striped`, stripes, chunk in sectors of 512 bytes, and so on.
    fn of_striped(dm: &DmFacts) -> Option<Self> {
        let [line] = dm.table.as_slice() else { return None };
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, "striped", stripes, chunk, ..] = words.as_slice() else { return None };
        let chunk_bytes = chunk.parse::<u64>().ok()?.checked_mul(512)?;
        let stride_bytes = chunk_bytes.checked_mul(stripes.parse().ok()?)?;
        (stride_bytes > 0).then_some(Self { chunk_bytes, stride_bytes })
    }
}

/// True when the key takes sizes in units of the array.
pub(crate) fn takes(key: &str) -> bool {
    KEYS.contains(&key)
}

/// True when the value has such a size in it.
pub(crate) fn is_symbolic(value: &str) -> bool {
    value.split(SEPARATORS).any(|part| split_unit(part).is_some())
}

/// `2xchunk` as its factor and whether it is the stride.
fn split_unit(part: &str) -> Option<(u64, bool)> {
    let part = part.trim();
    let (before, is_stride) = match (part.strip_suffix("chunk"), part.strip_suffix("stride")) {
        (Some(before), _) => (before, false),
        (_, Some(before)) => (before, true),
        _ => return None,
    };
    let factor = if before.is_empty() { 1 } else { before.strip_suffix('x')?.parse().ok()? };
    Some((factor, is_stride))
}

/// The value with every such size in bytes.
pub(crate) fn in_bytes(value: &str, sizes: ArraySizes) -> String {
    let mut out = String::new();
    for piece in value.split_inclusive(SEPARATORS) {
        let part = piece.trim_end_matches(SEPARATORS);
        match split_unit(part) {
            Some((factor, is_stride)) => {
                let unit = if is_stride { sizes.stride_bytes } else { sizes.chunk_bytes };
                out += &unit.saturating_mul(factor).to_string();
                out += &piece[part.len()..];
            }
            None => out += piece,
        }
    }
    out
}

/// Turns a job's sizes in units of the array into bytes; `sizes` are those of the array under its target.
///
/// # Errors
/// [`KeyError::Value`] when there is no array, or for a size that its key does not take.
pub fn resolve(job: &mut Job, sizes: Option<ArraySizes>) -> Result<(), KeyError> {
    for (key, value) in std::mem::take(&mut job.array_sizes) {
        let Some(sizes) = sizes else {
            let reason = "there is no array with chunks under the target (md of level 0, 4, 5, 6 or 10, or a striped volume); give the size in bytes, such as 64k".to_owned();
            return Err(KeyError::Value { key, value, reason });
        };
        keys::set(job, &key, &in_bytes(&value, sizes))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{Node, NodeKind};

    fn stack(node: Node) -> Stack {
        let mut mount = Node::new(NodeKind::Mount, "/srv");
        mount.below = vec![1];
        Stack {
            path: "/srv".into(),
            resolved_path: "/srv".into(),
            nodes: vec![mount, node],
            top: 0,
        }
    }

    fn md(level: &str, layout: u64, chunk_bytes: u64, disks: u64) -> Option<ArraySizes> {
        let mut node = Node::new(NodeKind::Md, "md0");
        node.md = Some(MdFacts {
            level: Some(level.into()),
            layout: Some(layout),
            chunk_bytes: Some(chunk_bytes),
            raid_disks: Some(disks),
            ..MdFacts::default()
        });
        ArraySizes::of(&stack(node))
    }

    #[test]
    fn strides_are_the_kernels_io_opt() {
        let k = 1 << 10;
        for (level, layout, chunk, disks, stride) in [
            ("raid0", 0, 512, 4, 2048),
            ("raid5", 2, 512, 4, 1536),
            ("raid6", 2, 128, 10, 1024),
            ("raid10", 0x102, 512, 4, 1024),
            ("raid10", 0x102, 512, 5, 2560),
            // Ten disks in far layout with 64 KiB: 640 KiB, the "full stride" of published tests.
            ("raid10", 0x201, 64, 10, 640),
            ("raid10", 0x1_0201, 64, 6, 384),
        ] {
            let expected = ArraySizes { chunk_bytes: chunk * k, stride_bytes: stride * k };
            assert_eq!(md(level, layout, chunk * k, disks), Some(expected), "{level} {layout:x}");
        }
        assert_eq!(md("raid1", 0, 0, 2), None);
        assert_eq!(md("raid6", 0, 65536, 2), None);
        assert_eq!(ArraySizes::of(&stack(Node::new(NodeKind::Disk, "sda"))), None);
    }

    #[test]
    fn striped_volumes_have_chunks_too() {
        let dm = |table: &[&str]| {
            let mut node = Node::new(NodeKind::Dm, "dm-0");
            let table = table.iter().map(|line| (*line).to_owned()).collect();
            node.dm = Some(DmFacts { table, ..DmFacts::default() });
            ArraySizes::of(&stack(node))
        };
        let line = "0 2097152 striped 3 128 8:16 2048 8:32 2048 8:48 2048";
        let expected = ArraySizes { chunk_bytes: 64 << 10, stride_bytes: 192 << 10 };
        assert_eq!(dm(&[line]), Some(expected));
        assert_eq!(dm(&["0 2097152 linear 8:16 2048"]), None);
        assert_eq!(dm(&[line, line]), None, "no one size for all of it");
    }

    #[test]
    fn sizes_wait_for_the_array_and_become_bytes() {
        let sizes = md("raid10", 0x201, 64 << 10, 10);
        let mut job = Job::default();
        for (key, value) in [
            ("block_size", "512:1,chunk:2,2xchunk:1,stride:1"),
            ("align", "chunk"),
            ("span", "100xstride"),
        ] {
            keys::set(&mut job, key, value).expect(key);
        }
        assert_eq!(job.array_sizes.len(), 3);
        resolve(&mut job, sizes).expect("an array");
        let sizes_bytes: Vec<u32> = job.block_size.iter().map(|s| s.size_bytes).collect();
        assert_eq!(sizes_bytes, [512, 64 << 10, 128 << 10, 640 << 10]);
        assert_eq!(job.align_bytes, Some(64 << 10));
        assert!(job.array_sizes.is_empty());
        // A later value in bytes takes the place of one that waits.
        keys::set(&mut job, "block_size", "stride").expect("valid");
        keys::set(&mut job, "block_size", "4k").expect("valid");
        resolve(&mut job, None).expect("nothing waits");
        assert_eq!(job.block_size_bytes_max(), 4096);
    }

    #[test]
    fn no_array_and_mistyped_sizes() {
        let mut job = Job::default();
        for (key, value) in [
            ("block_size", "chunks"),
            ("block_size", "xchunk"),
            ("block_size", "-1xchunk"),
            ("threads", "chunk"),
            ("block_size", "chunk:0"),
        ] {
            assert!(keys::set(&mut job, key, value).is_err(), "{key}={value}");
        }
        keys::set(&mut job, "block_size", "2xstride").expect("valid");
        let error = resolve(&mut job, None).expect_err("no array").to_string();
        assert!(error.starts_with("block_size=2xstride: there is no array"), "{error}");
    }
}
