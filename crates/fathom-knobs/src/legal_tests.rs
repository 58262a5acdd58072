//! What may be and what counts as the same.

use super::*;
use crate::find;
use fathom_testkit::Tree;

#[track_caller]
fn same(id: &str, asked: &str, now: &str, is_same: bool) {
    assert_eq!(matches(find(id).unwrap(), asked, now), is_same, "{id}: {asked} {now}");
}

#[test]
fn the_kernels_roundings_are_no_difference_and_everything_else_is() {
    same("block.nr_requests", "64", "64", true);
    same("block.nr_requests", "064", "64", true);
    same("block.nr_requests", "3", "4", false);
    same("block.read_ahead_kb", "101", "100", true);
    same("block.read_ahead_kb", "101", "104", false);
    same("mq-deadline.read_expire", "501", "504", true);
    same("mq-deadline.read_expire", "501", "520", false);
    same("block.wbt_lat_usec", "-1", "75000", true);
    same("block.wbt_lat_usec", "0", "75000", false);
    same("bdi.max_bytes", "10000000", "9993793", true);
    same("bdi.max_bytes", "10000000", "5000000", false);
    same("btrfs.compress", "zstd", "zstd:3", true);
    same("btrfs.compress", "zstd:1", "zstd:15", false);
    same("btrfs.compress", "no", "zstd:3", false);
    same("cgroup.io_cost_qos", "enable=1 ctrl=user", "enable=1 ctrl=user rpct=95.00", true);
    same("cgroup.io_cost_qos", "enable=1 ctrl=user", "enable=0 ctrl=user", false);
    same("cgroup.io_cost_qos", "enable=1 rpct=95 min=50", "enable=1 rpct=95.00 min=50.00", true);
    same("cgroup.io_cost_qos", "enable=1 rpct=95", "enable=1 rpct=99.00", false);
    same("cgroup.io_cost_qos", "none", "enable=0 ctrl=auto", true);
}

#[track_caller]
fn refused(id: &str, value: &str, part: &str) {
    let error = check_value(find(id).unwrap(), value).unwrap_err().to_string();
    assert!(error.contains(part), "{id} = {value}: {error}");
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    refused("vm.swappiness", "201", "0 to 200");
    refused("vm.swappiness", "many", "0 to 200");
    refused("vm.dirty_bytes", "0", "8192 or more bytes");
    refused("md.stripe_cache_size", "16", "17 to 32768 stripes");
    refused("md.sync_speed_min", "fast", "system");
    refused("block.scheduler", "noop", "today's equivalent is none");
    refused("block.scheduler", "deadline", "today's equivalent is mq-deadline");
    refused("block.scheduler", "x; reboot", "one word");
    refused("mount.atime", "realtime", "did you mean 'relatime'");
    refused("cgroup.io_cost_qos", "8:0 enable=1", "key=value");
    refused("block.write_cache", "write through", "power");
    refused("ext4.data", "journal", "mount.data");
    for (id, value) in [("md.sync_speed_min", "system"), ("nvme.iopolicy", "round-robin")] {
        assert_eq!(check_value(find(id).unwrap(), value), Ok(()), "{id}");
    }
}

fn place(name: &str, id: &str) -> KnobPlace {
    KnobPlace::Device { id: id.to_owned(), name: name.to_owned() }
}

#[test]
fn hardware_narrows_the_range() {
    let tree = Tree::of_text(
        "[sys/devices/a/sda]
         dev = 8:0
         wwid = naa.5000
         queue/scheduler = [none] mq-deadline
         queue/nr_requests = 64
         mq/0/nr_tags = 64
         mq/0/nr_reserved_tags = 5
         queue/max_sectors_kb = 512
         queue/max_hw_sectors_kb = 1024
         queue/discard_granularity = 4096
         queue/discard_max_bytes = 4294966784
         queue/discard_max_hw_bytes = 4294966784",
    );
    let (root, place) = (tree.root(), place("sda", "naa.5000"));
    let legal = |id: &str| legal_at(&root, &place, find(id).unwrap());
    assert_eq!(legal("block.nr_requests"), "6 to 64 requests");
    assert_eq!(legal("block.max_sectors_kb"), "4 to 1024 KiB");
    assert_eq!(listed(&root, &place, find("block.scheduler").unwrap()), ["none", "mq-deadline"]);
    let check = |id: &str, value: &str, scheduler: Option<&str>| {
        let asked =
            |other: &str| scheduler.filter(|_| other == "block.scheduler").map(str::to_owned);
        check_at(&root, &place, find(id).unwrap(), value, &asked)
    };
    assert!(check("block.nr_requests", "128", None).is_err());
    assert_eq!(check("block.nr_requests", "128", Some("mq-deadline")), Ok(()));
    assert!(check("block.nr_requests", "4096", Some("mq-deadline")).is_err());
    // What the kernel would not take back is not changed at all.
    let error = check("block.discard_max_bytes", "65536", None).unwrap_err().to_string();
    assert!(error.contains("no multiple of the granularity"), "{error}");
    tree.put("sys/devices/a/sda/queue/discard_max_bytes", "1048576\n");
    assert_eq!(check("block.discard_max_bytes", "65536", None), Ok(()));
}

#[test]
fn memory_narrows_what_is_kept_free() {
    let tree = Tree::of_text(
        "[proc]
meminfo = MemTotal:  4096000 kB",
    );
    let (root, knob) = (tree.root(), find("vm.min_free_kbytes").unwrap());
    let check = |value: &str| check_at(&root, &KnobPlace::Machine, knob, value, &|_| None);
    assert_eq!(check("409600"), Ok(()));
    let error = check("409601").unwrap_err().to_string();
    assert!(error.contains("1024 to 409600 KiB"), "{error}");
    // Where there is next to none, the least is allowed.
    tree.put(
        "proc/meminfo",
        "MemTotal:  2048 kB
",
    );
    assert_eq!((check("1024"), check("1025").is_err()), (Ok(()), true));
}

#[test]
fn sizes_are_written_as_everywhere() {
    let told = |id: &str, value: &str| in_unit(names::find(id).unwrap(), value);
    assert_eq!(told("vm.dirty_bytes", "100MB"), "100000000");
    assert_eq!(told("vm.dirty_bytes", "1MiB"), "1048576");
    assert_eq!(told("block.read_ahead_kb", "4MiB"), "4096");
    // No whole KiB, no size, and a number alone is in the unit of the setting.
    assert_eq!(told("block.read_ahead_kb", "1000B"), "1000B");
    assert_eq!(told("block.read_ahead_kb", "128"), "128");
    assert_eq!(told("block.scheduler", "128k"), "128k");
    assert!(check_value(names::find("vm.dirty_bytes").unwrap(), "100MB").is_ok());
    assert!(check_value(names::find("vm.dirty_bytes").unwrap(), "4k").is_err());
}
