//! Old and short names.

use super::*;

#[track_caller]
fn finds(word: &str, id: &str) {
    assert_eq!(find(word).map(|knob| knob.id), Ok(id), "{word}");
}

#[test]
fn names_of_older_kernels_and_tools_are_understood() {
    finds("block.scheduler", "block.scheduler");
    finds("--setra", "block.read_ahead_kb");
    finds("readahead", "block.read_ahead_kb");
    finds("elevator", "block.scheduler");
    finds("cfq", "block.scheduler");
    finds("noop", "block.scheduler");
    finds("nr_requests", "block.nr_requests");
    finds("slice_idle", "bfq.slice_idle");
    finds("/sys/block/sda/queue/nr_requests", "block.nr_requests");
    finds("queue/iosched/fifo_batch", "mq-deadline.fifo_batch");
    finds("/proc/sys/vm/dirty_ratio", "vm.dirty_ratio");
    finds("VM.Swappiness", "vm.swappiness");
    finds("dirty_ratio", "vm.dirty_ratio");
    finds("nobarrier", "ext4.barrier");
    finds("noatime", "mount.atime");
}

#[test]
fn what_is_typed_may_have_more_around_the_word() {
    for (typed, word) in [
        ("mount -o atime", "atime"),
        ("blockdev --setra 256", "--setra"),
        ("elevator=", "elevator"),
        ("elevator=noop", "elevator"),
        ("block.read_ahead_kb@members", "block.read_ahead_kb"),
        ("no such thing", "no such thing"),
        ("", ""),
    ] {
        assert_eq!(word_of(typed), word, "{typed}");
    }
}

#[test]
fn what_is_not_known_names_the_nearest() {
    let error = |word: &str| find(word).unwrap_err().to_string();
    assert!(error("block.schedular").contains("did you mean 'block.scheduler'?"));
    assert!(
        error("discard").contains("one of ext4.discard, xfs.discard, btrfs.discard"),
        "{}",
        error("discard")
    );
    assert!(error("zzz").contains("(all: fathom knobs)"));
    let dirty = error("dirty");
    assert!(dirty.contains("vm.dirty_bytes") && dirty.contains("vm.dirty_ratio"), "{dirty}");
    assert!(find("").is_err() && find("/").is_err());
}

#[test]
fn every_old_name_leads_somewhere() {
    for old in OLD_NAMES {
        assert!(all().iter().any(|knob| knob.id == old.id), "{}", old.name);
    }
    for (id, word, today, _) in OLD_VALUES {
        assert_eq!(old_value(id, word).map(|(today, _)| today), Some(*today));
    }
}
