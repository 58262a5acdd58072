//! Volumes in trouble, and healthy ones beside them.

use super::{RULES, arrays, caches, layers, physical, pools, snapshots};
use crate::fixtures::{Bench, GIB, MIB, TB};
use fathom_model::defect::{Certainty, Defect, Gravity, Step};
use fathom_model::snapshot::Unread;
use fathom_model::stack::NodeKind;
use fathom_model::stack::detail::{BcacheSuperblock, LvmHeader, MdSuperblock};
use fathom_model::system::LvmConfiguration;

const LVM: &str = "LVM-0123456789abcdef";

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// The advice for a pool without space knows the group's free extents and the kernel's patience.
#[test]
fn a_pool_grows_by_what_there_is() {
    let status =
        "0 1 thin-pool 0 10/100 100/100 - out_of_data_space discard_passdown queue_if_no_space - 9";
    let (mut bench, _) = pool(POOL_TABLE, status);
    bench.snapshot.system.module_parameters =
        vec![("dm_thin_pool.no_space_timeout".into(), "3".into())];
    for (extents, command) in [
        (0, "vgextend vg /dev/NEW && lvextend -l +80%FREE vg/pool"),
        (9, "vgextend vg /dev/NEW && lvextend -l +80%FREE vg/pool"),
        (10, "lvextend -l +80%FREE vg/pool"),
        (3199, "lvextend -l +80%FREE vg/pool"),
        (3200, "lvextend -L +10G vg/pool"),
    ] {
        let newest = LvmHeader { free_extents: Some(extents), ..header("a", &["a"]) };
        bench.content_of(0).lvm = Some(LvmHeader { seqno: Some(8), ..newest });
        let defect = bench.one(pools::failed);
        assert!(defect.fix[0].text.contains("wait for 3 s and then fail"), "{defect:?}");
        assert_eq!(defect.fix[0].command.as_deref(), Some(command), "{extents}");
    }
    // The newest metadata counts, when all that it names are there.
    let disk = bench.disk("sdb");
    let old = LvmHeader { free_extents: Some(0), seqno: Some(7), ..header("b", &["a", "b"]) };
    bench.content_of(disk).lvm = Some(old);
    let command = |bench: &Bench| bench.one(pools::failed).fix[0].command.clone();
    assert_eq!(command(&bench).as_deref(), Some("lvextend -L +10G vg/pool"));
    bench.content_of(disk).lvm.as_mut().unwrap().seqno = Some(9);
    assert!(command(&bench).unwrap().starts_with("vgextend"));
    bench.content_of(0).lvm = None;
    assert_eq!(command(&bench).as_deref(), Some("lvextend -l +50%FREE vg/pool"));
}

/// A thin pool of 1 TB with a status.
fn pool(table: &str, status: &str) -> (Bench, usize) {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let pool = bench.dm("dm-2", "vg-pool-tpool", LVM, &lines(table), &[disk]);
    bench.dm_of(pool).status = lines(status);
    (bench, pool)
}

const POOL_TABLE: &str = "0 1953125000 thin-pool 253:0 253:1 512 0 0";

#[test]
fn healthy_volumes_are_not_told() {
    let mut bench = Bench::new();
    let disks = [bench.ssd("sda"), bench.ssd("sdb")];
    let numbers: Vec<String> =
        disks.iter().map(|&d| bench.node(d).devno.clone().unwrap()).collect();
    let striped = format!("0 4096 striped 2 128 {} 2048 {} 2048", numbers[0], numbers[1]);
    bench.dm("dm-0", "vg-data", LVM, &[striped], &disks);
    bench.dm(
        "dm-1",
        "home",
        "CRYPT-LUKS2-x",
        &lines("0 8 crypt aes-xts-plain64 - 0 8:0 32768 1 allow_discards"),
        &[disks[0]],
    );
    let raid = bench.dm(
        "dm-2",
        "vg-mirror",
        LVM,
        &lines("0 8 raid raid1 3 0 region_size 1024 2 253:0 253:1 253:2 253:3"),
        &disks,
    );
    bench.dm_of(raid).status = lines("0 8 raid raid1 2 AA 8/8 idle 0 0 -");
    let pool = bench.dm("dm-3", "vg-pool-tpool", LVM, &lines(POOL_TABLE), &disks);
    bench.dm_of(pool).status =
        lines("0 1 thin-pool 0 10/1024 79/100 - rw discard_passdown queue_if_no_space - 256");
    assert_eq!(bench.ids(RULES), [""; 0]);
}

#[test]
fn a_suspended_device_is_told() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let dm = bench.dm("dm-0", "vg-data", LVM, &lines("0 8 linear 8:0 0"), &[disk]);
    assert_eq!(bench.ask(layers::suspended), []);
    bench.dm_of(dm).suspended = Some(true);
    let defect = bench.one(layers::suspended);
    assert_eq!(
        defect.fix.last().and_then(|s| s.command.as_deref()),
        Some("dmsetup resume vg-data")
    );
}

#[test]
fn errors_in_a_part_of_a_volume_are_told() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let volume =
        bench.dm("dm-0", "vg-data", LVM, &lines("0 2048 linear 8:0 0\n2048 2048 error"), &[disk]);
    let defect = bench.one(layers::error_target);
    assert_eq!(defect.summary, "1 MiB of vg/data give only errors");
    bench.dm_of(volume).table = lines("0 2048 error");
    bench.dm_of(volume).targets = vec!["error".into()];
    assert_eq!(bench.ask(layers::error_target), [], "a placeholder");
}

#[test]
fn encryption_of_nvme_is_a_note_until_both_flags_are_set() {
    let mut bench = Bench::new();
    let disk = bench.nvme("nvme0n1");
    let crypt = bench.dm(
        "dm-0",
        "home",
        "CRYPT-LUKS2-x",
        &lines("0 8 crypt aes-xts-plain64 - 0 8:0 32768 2 no_read_workqueue allow_discards"),
        &[disk],
    );
    let defect = bench.one(layers::crypt_workqueues);
    assert_eq!((defect.gravity, defect.certainty), (Gravity::Low, Certainty::Possible));
    assert_eq!(
        defect.fix[1].command.as_deref(),
        Some(
            "cryptsetup refresh --allow-discards --perf-no_read_workqueue \
             --perf-no_write_workqueue home"
        ),
        "what the mapping has stays: refresh switches off what it is not told"
    );
    bench.dm_of(crypt).table =
        lines("0 8 crypt aes-xts-plain64 - 0 8:0 32768 2 no_read_workqueue no_write_workqueue");
    assert_eq!(bench.ask(layers::crypt_workqueues), []);
    bench.dm_of(crypt).table = lines("0 8 crypt aes-xts-plain64 - 0 8:0 32768");
    bench.drive_of(disk).transport = Some("sata".into());
    assert_eq!(bench.ask(layers::crypt_workqueues), []);
}

#[test]
fn a_journal_of_checksums_is_told_a_bitmap_is_not() {
    for (mode, count) in [("J", 1), ("B", 0), ("D", 0)] {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        bench.dm(
            "dm-0",
            "safe",
            "CRYPT-INTEGRITY-x",
            &[format!("0 8 integrity 8:0 0 4 {mode} 1 block_size:4096")],
            &[disk],
        );
        assert_eq!(bench.ask(layers::integrity_journal).len(), count, "{mode}");
    }
    for (name, uuid, words) in [
        ("safe", "CRYPT-INTEGRITY-x", "integritysetup open --integrity-bitmap-mode"),
        ("home_dif", "CRYPT-SUBDEV-x", "cryptsetup refresh --integrity-no-journal"),
        (
            "vg-data_rimage_0",
            "LVM-x",
            "lvconvert --raidintegrity n vg/data && \
            lvconvert --raidintegrity y --raidintegritymode bitmap vg/data",
        ),
    ] {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        let table = ["0 8 integrity 8:0 0 4 J 1 block_size:4096".to_owned()];
        bench.dm("dm-0", name, uuid, &table, &[disk]);
        let defect = bench.one(layers::integrity_journal);
        let step = &defect.fix[0];
        let told = step.command.as_deref().unwrap_or(&step.text);
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn vdo_is_told_from_four_fifths_on() {
    for (status, gravity) in [
        ("normal - online online 79 100", None),
        ("normal - online online 80 100", Some(Gravity::Medium)),
        ("normal - online online 95 100", Some(Gravity::High)),
        ("read-only - online online 10 100", Some(Gravity::High)),
    ] {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        let dm = bench.dm("dm-0", "vg-vpool", LVM, &lines("0 8 vdo V4 8:0 1"), &[disk]);
        bench.dm_of(dm).status = vec![format!("0 8 vdo /dev/dm-0 {status}")];
        assert_eq!(bench.gravities(layers::vdo_full), Vec::from_iter(gravity), "{status}");
    }
}

/// What the kernel can use ends below 16 GiB: 3 GiB of 14 are left, and at 15.81 nothing.
#[test]
fn metadata_of_pools_end_at_what_the_kernel_can_use() {
    for (total, command) in
        [(12 * 262_144, Some("lvextend --poolmetadatasize +3968M vg/pool")), (4_145_152, None)]
    {
        let status = format!(
            "0 1 thin-pool 0 {}/{total} 1/100 - rw discard_passdown queue_if_no_space - 9",
            total - 1
        );
        let defect = pool(POOL_TABLE, &status).0.one(pools::metadata_full);
        let fix = &defect.fix;
        assert_eq!(fix[0].command.as_deref(), command, "{fix:?}");
        assert!(command.is_some() || fix[0].text.contains("a new pool with larger chunks"));
        let (risk, effect) =
            if command.is_some() { ("none", "more") } else { ("what is removed is lost", "fewer") };
        assert!(defect.risk.starts_with(risk) && defect.verify.contains(effect), "{defect:?}");
        let status = status.replace(" rw ", " ro ").replace("no_space", "no_space needs_check");
        let fix = pool(POOL_TABLE, &status).0.one(pools::failed).fix;
        let when = |step: &Step| step.text.contains("once it works again, before anything else");
        assert!(fix.iter().any(when), "{fix:?}");
    }
}

#[test]
fn pools_are_told_by_their_state_and_share() {
    for (status, ids) in [
        ("0 1 thin-pool 0 10/100 79/100 - rw discard_passdown queue_if_no_space - 9", &[][..]),
        (
            "0 1 thin-pool 0 10/100 80/100 - rw discard_passdown queue_if_no_space - 9",
            &["thin-pool-full"],
        ),
        (
            "0 1 thin-pool 0 80/100 10/100 - rw discard_passdown queue_if_no_space - 9",
            &["thin-pool-metadata-full"],
        ),
        (
            "0 1 thin-pool 0 10/100 100/100 - out_of_data_space discard_passdown queue_if_no_space - 9",
            &["thin-pool-failed"],
        ),
        (
            "0 1 thin-pool 0 10/100 10/100 - ro discard_passdown queue_if_no_space needs_check 9",
            &["thin-pool-failed"],
        ),
        ("0 1 thin-pool Fail", &["thin-pool-failed"]),
    ] {
        assert_eq!(pool(POOL_TABLE, status).0.ids(RULES), ids, "{status}");
    }
    let (bench, _) = pool(
        POOL_TABLE,
        "0 1 thin-pool 0 10/100 96/100 - rw discard_passdown error_if_no_space - 9",
    );
    let defect = bench.one(pools::data_full);
    assert_eq!(defect.gravity, Gravity::High);
    assert!(defect.why.starts_with("writes to new places fail at once"), "{}", defect.why);
    assert_eq!(defect.fix[2].command.as_deref(), Some("lvextend -l +50%FREE vg/pool"));
    assert!(defect.why.contains("fail at once"), "{}", defect.why);
    let (bench, _) = pool(
        POOL_TABLE,
        "0 1 thin-pool 0 2000/2048 1/100 - rw discard_passdown queue_if_no_space - 9",
    );
    let defect = bench.one(pools::metadata_full);
    assert_eq!(defect.gravity, Gravity::High);
    assert_eq!(defect.fix[0].command.as_deref(), Some("lvextend --poolmetadatasize +4M vg/pool"));
    // One that has to be repaired gets none before.
    for (mode, last) in [("ro", ""), ("ro", " needs_check")] {
        let status = format!(
            "0 1 thin-pool 0 2000/2048 1/100 - {mode} discard_passdown queue_if_no_space{last} - 9"
        );
        let (bench, _) = pool(POOL_TABLE, &status);
        assert_eq!(bench.ask(pools::metadata_full), [], "{status}");
        let fix = bench.one(pools::failed).fix;
        let commands: Vec<_> = fix.iter().filter_map(|step| step.command.as_deref()).collect();
        assert_eq!(
            commands[1..],
            ["lvconvert --repair vg/pool", "lvextend --poolmetadatasize +4M vg/pool"]
        );
    }
    let (bench, _) = pool(POOL_TABLE, "0 1 thin-pool Fail");
    assert!(bench.one(pools::failed).summary.contains("has failed"));
}

#[test]
fn maps_that_lvm_did_not_make_get_none_of_its_commands() {
    for status in [
        "0 1 thin-pool 0 10/100 96/100 - rw discard_passdown error_if_no_space - 9",
        "0 1 thin-pool 0 10/100 100/100 - out_of_data_space discard_passdown queue_if_no_space - 9",
        "0 1 thin-pool 0 2000/2048 1/100 - rw discard_passdown queue_if_no_space - 9",
        "0 1 thin-pool Fail",
    ] {
        let (mut bench, index) = pool(&POOL_TABLE.replace(" 512 ", " 1024 "), status);
        bench.dm_of(index).uuid = None;
        let found: Vec<_> = RULES.iter().flat_map(|rule| bench.ask(rule.check)).collect();
        assert!(found.len() > 1, "{status}: the chunk, and what the status says");
        for step in found.iter().flat_map(|defect| &defect.fix) {
            let command = step.command.as_deref().unwrap_or_default();
            assert!(!command.starts_with("lv"), "{status}: {command}");
        }
    }
}

#[test]
fn a_promise_beyond_the_pool_wants_growth() {
    let (mut bench, index) = pool(
        POOL_TABLE,
        "0 1 thin-pool 0 10/100 10/1000 - rw discard_passdown queue_if_no_space - 9",
    );
    let volume = bench.dm("dm-3", "vg-thin", LVM, &lines("0 8 thin 253:2 1"), &[index]);
    bench.node(volume).size_bytes = Some(1000 * 256 * 1024 + 1);
    assert_eq!(bench.ask(pools::no_autoextend), [], "what LVM is told is not known");
    bench.snapshot.system.configuration.lvm = Some(LvmConfiguration::default());
    assert_eq!(bench.one(pools::no_autoextend).gravity, Gravity::Medium);
    bench.node(volume).size_bytes = Some(1000 * 256 * 1024);
    assert_eq!(bench.ask(pools::no_autoextend), []);
    bench.node(volume).size_bytes = Some(TB);
    let growing = LvmConfiguration {
        thin_autoextend_threshold_percent: Some(70),
        ..LvmConfiguration::default()
    };
    bench.snapshot.system.configuration.lvm = Some(growing);
    assert_eq!(bench.ask(pools::no_autoextend), []);
}

#[test]
fn chunks_of_pools_are_judged() {
    let status = "0 1 thin-pool 0 10/100 10/100 - rw discard_passdown queue_if_no_space - 9";
    let of = |sectors: u64, features: &str| {
        pool(&format!("0 8 thin-pool 253:0 253:1 {sectors} 0 {features}"), status)
    };
    assert_eq!(of(1023, "0").0.ask(pools::zeroing), []);
    assert_eq!(of(1024, "0").0.one(pools::zeroing).gravity, Gravity::Low);
    assert_eq!(of(1024, "1 skip_block_zeroing").0.ask(pools::zeroing), []);
    let (mut bench, index) = of(128, "0");
    bench.node(index).size_bytes = Some((1 << 40) - 1);
    assert_eq!(bench.ask(pools::small_chunk), []);
    bench.node(index).size_bytes = Some(1 << 40);
    assert_eq!(bench.one(pools::small_chunk).certainty, Certainty::Possible);
    bench.queue_of(0).rotational = Some(false);
    assert_eq!(bench.ask(pools::small_chunk), []);
}

#[test]
fn snapshots_cost_writes_then_run_full_then_are_lost() {
    for (status, id, gravity) in [
        ("16/1000 16", "snapshot-present", Gravity::Medium),
        ("799/1000 16", "snapshot-present", Gravity::Medium),
        ("800/1000 16", "snapshot-full", Gravity::Medium),
        ("950/1000 16", "snapshot-full", Gravity::High),
        ("Invalid", "snapshot-full", Gravity::High),
    ] {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        let dm = bench.dm("dm-0", "vg-snap", LVM, &lines("0 8 snapshot 253:1 253:2 P 8"), &[disk]);
        bench.dm_of(dm).status = vec![format!("0 8 snapshot {status}")];
        assert_eq!(bench.ids(RULES), [id], "{status}");
        let check = if id == "snapshot-full" { snapshots::full } else { snapshots::present };
        assert_eq!(bench.one(check).gravity, gravity, "{status}");
        bench.queue_of(disk).rotational = Some(false);
        let expected = if id == "snapshot-present" { Gravity::Low } else { gravity };
        assert_eq!(bench.gravities(check), [expected], "{status}");
    }
}

fn cache(mode: &str, end: &str) -> Bench {
    let mut bench = Bench::new();
    let (slow, fast) = (bench.disk("sda"), bench.ssd("sdb"));
    let number = bench.node(fast).devno.clone().unwrap();
    let table = format!("0 8 cache 253:9 {number} 8:0 128 2 metadata2 {mode} smq 0");
    let dm = bench.dm("dm-0", "vg-data", LVM, &[table], &[slow, fast]);
    bench.dm_of(dm).status = vec![format!(
        "0 8 cache 8 27/1024 128 10/16384 30 10 14 2 0 10 3 2 metadata2 {mode} 2 migration_threshold 2048 smq 0 {end}"
    )];
    bench
}

#[test]
fn caches_are_told_by_mode_and_state() {
    assert_eq!(cache("writethrough", "rw -").ids(RULES), ["cache-not-writing"]);
    let defect = cache("writethrough", "rw -").one(caches::not_writing);
    assert_eq!(defect.gravity, Gravity::Low);
    assert!(defect.evidence[1].value.contains("75 % of 40 reads"), "{defect:?}");
    assert_eq!(cache("passthrough", "rw -").gravities(caches::not_writing), [Gravity::Medium]);
    let defect = cache("writeback", "rw -").one(caches::dirty_alone);
    assert!(defect.evidence[0].value.contains("192 KiB not on the slow drive"), "{defect:?}");
    assert_eq!(
        cache("writeback", "rw needs_check").ids(RULES),
        ["cache-failed", "cache-dirty-alone"]
    );
    assert_eq!(cache("writeback", "ro -").gravities(caches::failed), [Gravity::High]);
}

#[test]
fn a_cache_on_a_mirror_may_keep_writes_back() {
    let mut bench = Bench::new();
    let (slow, fast) = (bench.disk("sda"), [bench.ssd("sdb"), bench.ssd("sdc")]);
    let mirror = bench.md("md0", "raid1", &fast);
    let number = bench.node(mirror).devno.clone().unwrap();
    let dm = bench.dm(
        "dm-0",
        "vg-data",
        LVM,
        &[format!("0 8 cache 253:9 {number} 8:0 128 1 writeback smq 0")],
        &[slow, mirror],
    );
    bench.dm_of(dm).status = lines(
        "0 8 cache 8 27/1024 128 10/16384 30 10 14 2 0 10 3 1 writeback 2 migration_threshold 2048 smq 0 rw -",
    );
    assert_eq!(bench.ids(RULES), [""; 0]);
}

#[test]
fn a_writecache_on_a_single_drive_is_told() {
    for (uuid, command) in [("LVM-x", Some("lvconvert --splitcache vg/data")), ("", None)] {
        let mut bench = Bench::new();
        let (slow, fast) = (bench.disk("sda"), bench.ssd("sdb"));
        let number = |bench: &mut Bench, index| bench.node(index).devno.clone().unwrap();
        let (of_slow, of_fast) = (number(&mut bench, slow), number(&mut bench, fast));
        let table = [format!("0 65536 writecache s {of_slow} {of_fast} 4096 0")];
        let name = if uuid.is_empty() { "data" } else { "vg-data" };
        bench.dm("dm-0", name, uuid, &table, &[slow, fast]);
        let defect = bench.one(caches::dirty_alone);
        assert_eq!(defect.concerns, ["/dev/sdb"]);
        assert_eq!(defect.fix.last().and_then(|step| step.command.as_deref()), command);
        let pair = bench.ssd("sdc");
        let mirror = bench.md("md0", "raid1", &[fast, pair]);
        let of_mirror = number(&mut bench, mirror);
        bench.dm_of(2).table = vec![format!("0 65536 writecache s {of_slow} {of_mirror} 4096 0")];
        bench.node(2).below = vec![slow, mirror];
        assert_eq!(bench.ask(caches::dirty_alone), []);
    }
}

#[test]
fn bcache_is_told_by_mode_and_state() {
    let mut bench = Bench::new();
    let (slow, fast) = (bench.disk("sda"), bench.ssd("sdb"));
    let superblock =
        |kind: &str| Some(BcacheSuperblock { kind: kind.into(), ..BcacheSuperblock::default() });
    bench.content_of(slow).bcache = superblock("backing");
    bench.content_of(fast).bcache = superblock("cache");
    let bcache = bench.device(NodeKind::Bcache, "bcache0", TB, &[slow, fast]);
    let mut set = |mode: &str, state: &str| {
        bench.detail_of(bcache).bcache = vec![
            ("cache_mode".into(), mode.into()),
            ("state".into(), state.into()),
            ("dirty_data".into(), "1.5G".into()),
        ];
        bench.ids(RULES)
    };
    assert_eq!(set("writethrough [writeback] writearound none", "dirty"), ["cache-dirty-alone"]);
    assert_eq!(set("[writethrough] writeback writearound none", "clean"), ["cache-not-writing"]);
    assert_eq!(set("writearound", "clean"), ["cache-not-writing"]);
    assert_eq!(set("writeback", "inconsistent"), ["cache-failed", "cache-dirty-alone"]);
    assert_eq!(bench.one(caches::failed).gravity, Gravity::High);
    // One that never had a cache, as the kernel's documentation recommends to begin.
    let mut bench = Bench::new();
    let slow = bench.disk("sda");
    let bcache = bench.device(NodeKind::Bcache, "bcache0", TB, &[slow]);
    bench.detail_of(bcache).bcache = vec![
        ("cache_mode".into(), "[writethrough] writeback writearound none".into()),
        ("state".into(), "no cache".into()),
    ];
    assert_eq!(bench.ids(RULES), ["cache-failed"], "it has no cache that could write");
    let defect = bench.one(caches::failed);
    assert_eq!((defect.gravity, defect.certainty), (Gravity::Low, Certainty::Possible));
    let last = defect.fix.last().and_then(|step| step.command.as_deref());
    assert_eq!(last, Some("echo SET_UUID > /sys/block/bcache0/bcache/attach"));
}

#[test]
fn mirrored_volumes_are_told_by_their_letters() {
    for (line, ids) in [
        ("raid raid1 2 AA 8/8 idle 0 0 -", &[][..]),
        ("raid raid1 2 AD 8/8 idle 0 0 -", &["lvm-raid-degraded"]),
        ("raid raid1 2 Aa 4/8 recover 0 0 -", &["lvm-raid-syncing"]),
        ("raid raid5_ls 3 AAA 8/8 idle 16 0 -", &["lvm-raid-mismatch"]),
        ("raid raid5_ls 3 AAA 8/8 check 16 0 -", &["lvm-raid-syncing"]),
        ("mirror 2 253:3 253:4 400/400 1 AA 3 disk 253:2 A", &[]),
        ("mirror 2 253:3 253:4 400/400 1 AD 3 disk 253:2 A", &["lvm-raid-degraded"]),
        ("mirror 2 253:3 253:4 100/400 1 AA 3 disk 253:2 A", &["lvm-raid-syncing"]),
    ] {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        let dm = bench.dm("dm-0", "vg-data", LVM, &[], &[disk]);
        bench.dm_of(dm).status = vec![format!("0 8 {line}")];
        assert_eq!(bench.ids(RULES), ids, "{line}");
    }
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let dm = bench.dm("dm-0", "vg-data", LVM, &[], &[disk]);
    bench.dm_of(dm).status = lines("0 8 raid raid1 2 AD 8/8 idle 0 0 -");
    assert!(bench.one(arrays::degraded).summary.starts_with("1 of the 2 parts of vg/data"));
    bench.dm_of(dm).status = lines("0 8 raid raid1 2 AA 8/8 check 0 0 -");
    assert_eq!(bench.one(arrays::syncing).gravity, Gravity::Low);
    bench.dm_of(dm).status = lines("0 8 raid raid1 2 AA 8/8 idle 8 0 -");
    assert_eq!(bench.one(arrays::mismatch).certainty, Certainty::Possible);
}

#[test]
fn only_what_lvm_can_do_is_advised_for_what_is_copied() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let dm = bench.dm("dm-0", "vg-data", LVM, &[], &[disk]);
    // What pvmove copies is no volume that lacks anything; only LVM's type raid has a rate; what LVM does not know it is not asked.
    let said = |bench: &Bench| -> (Gravity, String) {
        let defect = bench.one(arrays::syncing);
        (defect.gravity, defect.fix.iter().filter_map(|step| step.command.clone()).collect())
    };
    for (name, uuid, status, gravity, has, lacks) in [
        (
            "vg-data",
            LVM,
            "raid raid1 2 Aa 4/8 recover 0 0 -",
            Gravity::Medium,
            "--maxrecoveryrate",
            "dmsetup",
        ),
        (
            "vg-pvmove0",
            LVM,
            "mirror 2 253:3 253:4 1/4 1 AA 1 core",
            Gravity::Low,
            "copy_percent",
            "maxrecovery",
        ),
        (
            "vg-data",
            LVM,
            "mirror 2 253:3 253:4 1/4 1 AA 1 core",
            Gravity::Medium,
            "sync_percent vg/data",
            "maxrecovery",
        ),
        (
            "isw_a_V0",
            "DMRAID-isw_a_V0",
            "mirror 2 8:0 8:16 1/4 1 AA 1 core",
            Gravity::Medium,
            "dmsetup status isw_a_V0",
            "lv",
        ),
    ] {
        let dm = bench.dm_of(dm);
        (dm.name, dm.uuid) = (Some(name.into()), Some(uuid.into()));
        dm.status = vec![format!("0 8 {status}")];
        let (weight, commands) = said(&bench);
        assert!(
            weight == gravity && commands.contains(has) && !commands.contains(lacks),
            "{name}: {commands}"
        );
    }
}

/// The dead parts of all volumes on a drive that is gone are told with the drive.
#[test]
fn what_the_loss_of_a_drive_takes_from_volumes_is_told_with_the_drive() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    for volume in ["a", "b", "c", "d"] {
        let first = bench.snapshot.machine.nodes.len();
        let legs = [0, 1].map(|leg| {
            let linear = lines(&format!("0 8 linear 8:{} 2048", leg * 16));
            let name = format!("vg-{volume}_rimage_{leg}");
            bench.dm(&format!("dm-{}", first + leg), &name, LVM, &linear, &[disks[leg]])
        });
        let table =
            format!("0 8 raid raid1 3 0 region_size 4096 2 - 253:{} - 253:{}", first, first + 1);
        let name = format!("dm-{}", first + 2);
        let dm = bench.dm(&name, &format!("vg-{volume}"), LVM, &[table], &legs);
        bench.dm_of(dm).status = lines("0 8 raid raid1 2 AD 8/8 idle 0 0 -");
    }
    let told = |bench: &Bench| -> Vec<Defect> {
        let found = crate::check(&bench.snapshot).into_iter();
        found.filter(|d| d.gravity == Gravity::High).collect()
    };
    assert_eq!(told(&bench).len(), 4);
    bench.drive_of(disks[0]).state = Some("offline".into());
    assert_eq!(told(&bench).len(), 5, "of the other drive");
    bench.drive_of(disks[0]).state = None;
    bench.drive_of(disks[1]).state = Some("offline".into());
    let found = told(&bench);
    assert_eq!(found.len(), 1, "{found:#?}");
    let defect = &found[0];
    assert_eq!((defect.rule.as_str(), defect.node.as_deref()), ("drive-offline", Some("/dev/sdb")));
    let end = "1 of the 2 parts of vg/c are dead; and 1 more like this";
    assert!(defect.summary.ends_with(end), "{}", defect.summary);
    assert_eq!(defect.concerns, ["/dev/dm-4", "/dev/dm-7", "/dev/dm-10", "/dev/dm-13"]);
    let commands: Vec<_> = defect.fix.iter().filter_map(|step| step.command.as_deref()).collect();
    assert!(commands.contains(&"lvconvert --repair vg/d"), "{commands:?}");
    // A leg that is not in the map any more: which drive it was on, nobody knows.
    let table = &mut bench.dm_of(4).table;
    *table = vec![table[0].replace(" - 253:3", " - -")];
    assert_eq!(told(&bench).len(), 2);
}

#[test]
fn parts_of_a_volume_on_one_drive_are_found() {
    for (kind, gravity) in
        [("striped 2 128", Gravity::Medium), ("mirror core 1 1024 2", Gravity::High)]
    {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        let parts = [bench.partition("sda1", MIB, disk), bench.partition("sda2", 500 * GIB, disk)];
        let numbers: Vec<String> =
            parts.iter().map(|&p| bench.node(p).devno.clone().unwrap()).collect();
        let table = format!("0 8 {kind} {} 0 {} 0", numbers[0], numbers[1]);
        bench.dm("dm-0", "vg-data", LVM, &[table], &parts);
        let defect = bench.one(arrays::one_disk);
        assert_eq!(defect.gravity, gravity, "{kind}");
        assert!(defect.summary.ends_with("share the drive sda"), "{}", defect.summary);
    }
    // Two linear parts of one drive are how volumes grow.
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.dm("dm-0", "vg-data", LVM, &lines("0 8 linear 8:0 2048\n8 8 linear 8:0 9000"), &[disk]);
    assert_eq!(bench.ids(RULES), [""; 0]);
}

fn header(uuid: &str, members: &[&str]) -> LvmHeader {
    LvmHeader {
        uuid: Some(uuid.into()),
        device_size_bytes: Some(TB),
        group: Some("vg".into()),
        extent_bytes: Some(4 * MIB),
        group_members: members.iter().map(|m| (*m).to_owned()).collect(),
        ..LvmHeader::default()
    }
}

#[test]
fn sizes_that_lvm_believes_are_held_against_the_device() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.content_of(disk).lvm = Some(header("a", &["a"]));
    for (bytes, gravity) in [
        (TB, None),
        (TB + 64 * MIB - 1, None),
        (TB + 64 * MIB, Some(Gravity::Low)),
        (TB - 4 * MIB + 1, None),
        (TB - 4 * MIB, Some(Gravity::High)),
    ] {
        bench.node(disk).size_bytes = Some(bytes);
        assert_eq!(bench.gravities(physical::resized), Vec::from_iter(gravity), "{bytes}");
    }
    assert!(bench.one(physical::resized).why.contains("last 4 MiB"));
}

#[test]
fn groups_that_lack_devices_are_told() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.content_of(disk).lvm = Some(header("a", &["a", "b", "c"]));
    let defect = bench.one(physical::incomplete);
    assert_eq!(defect.summary, "2 of the 3 devices of the group vg are not there");
    assert_eq!(defect.certainty, Certainty::Certain);
    // The missing one may be what could not be read.
    bench.snapshot.unread = vec![Unread { what: "/dev/sdb".into(), why: "no permission".into() }];
    assert_eq!(bench.one(physical::incomplete).certainty, Certainty::Possible);
    bench.snapshot.targets = vec!["/srv".into()];
    assert_eq!(bench.ask(physical::incomplete), []);
    bench.snapshot.targets.clear();
    // One that was away does not know what was taken out meanwhile; the others do.
    let b = bench.disk("sdb");
    bench.content_of(b).lvm = Some(LvmHeader { seqno: Some(2), ..header("b", &["a", "b"]) });
    assert_eq!(bench.ask(physical::incomplete), []);
    bench.content_of(b).lvm = None;
    // Two are missed: one that sleeps explains one of them, with its partitions both; one that is offline explains none.
    let asleep = bench.disk("sdd");
    for (word, found) in [("standby", 1), ("offline", 1)] {
        bench.detail_of(asleep).untouched = Some(word.into());
        assert_eq!(bench.ask(physical::incomplete).len(), found, "{word}");
    }
    for (name, start, word, found) in [
        ("sdd1", MIB, "standby", 1),
        ("sdd2", 2 * MIB, "standby", 0),
        ("sdd3", 3 * MIB, "offline", 0),
    ] {
        let part = bench.partition(name, start, asleep);
        bench.detail_of(part).untouched = Some(word.into());
        assert_eq!(bench.ask(physical::incomplete).len(), found, "{name}");
    }
    // Offline with a volume of LVM on it, a disk explains one: that it is offline is told.
    let mut gone = Bench::new();
    let disks = [gone.disk("sda"), gone.disk("sdb")];
    gone.content_of(disks[0]).lvm = Some(header("a", &["a", "b"]));
    gone.detail_of(disks[1]).untouched = Some("offline".into());
    gone.one(physical::incomplete);
    gone.dm("dm-0", "vg-data_rimage_1", LVM, &lines("0 8 linear 8:16 2048"), &disks[1..]);
    assert_eq!(gone.ask(physical::incomplete), []);
    for (name, uuid) in [("sdb", "b"), ("sdc", "c")] {
        let disk = bench.disk(name);
        bench.content_of(disk).lvm = Some(header(uuid, &["a", "b", "c"]));
    }
    assert_eq!(bench.ids(RULES), [""; 0]);
}

/// The missing device of a group is the cause of what its volumes lack.
#[test]
fn volumes_that_lack_parts_of_a_missing_device_are_told_with_the_group() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.content_of(disk).lvm = Some(header("a", &["a", "b"]));
    let leg = bench.dm("dm-0", "vg-data_rimage_0", LVM, &lines("0 8 linear 8:0 2048"), &[disk]);
    let table = lines("0 8 raid raid1 3 0 region_size 4096 2 - 253:1 - -");
    let volume = bench.dm("dm-1", "vg-data", LVM, &table, &[leg]);
    bench.dm_of(volume).status = lines("0 8 raid raid1 2 AD 8/8 idle 0 0 -");
    assert_eq!(bench.ids(RULES), ["lvm-vg-incomplete"]);
    let defect = bench.one(physical::incomplete);
    assert_eq!(
        defect.summary,
        "1 of the 2 devices of the group vg are not there; by that parts are missing of vg/data"
    );
    assert_eq!(defect.concerns, ["/dev/dm-1"]);
    // Where the device may be one that was not read, or all are there, the volume is told.
    bench.snapshot.unread =
        vec![Unread { what: "superblocks of /dev/sdb".into(), why: "no permission".into() }];
    assert_eq!(bench.ids(RULES), ["lvm-raid-degraded", "lvm-vg-incomplete"]);
    bench.snapshot.unread.clear();
    bench.content_of(disk).lvm = Some(header("a", &["a"]));
    assert_eq!(bench.ids(RULES), ["lvm-raid-degraded"]);
}

#[test]
fn labels_that_are_there_twice_are_told() {
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    for disk in disks {
        bench.content_of(disk).lvm = Some(header("a", &["a"]));
    }
    let import = |bench: &Bench, path: &str| {
        let command = format!("vgimportclone {path}");
        let defect = bench.one(physical::duplicates);
        defect.fix.iter().any(|step| step.command.as_deref() == Some(command.as_str()))
    };
    assert_eq!(bench.one(physical::duplicates).gravity, Gravity::Medium);
    assert!(import(&bench, "/dev/COPY"), "either may be the original");
    bench.dm("dm-0", "vg-data", LVM, &lines("0 8 linear 8:0 2048"), &disks[..1]);
    let defect = bench.one(physical::duplicates);
    assert_eq!((defect.gravity, defect.node.as_deref()), (Gravity::High, Some("/dev/sda")));
    assert!(import(&bench, "/dev/sdb"));
    assert_eq!(defect.evidence[1].value, "a, not in use");
    // Where nobody knows what is mounted, the other may be in use too.
    bench.knows_mounts(false);
    let defect = bench.one(physical::duplicates);
    assert_eq!(defect.evidence[0].value, "a, in use");
    assert_eq!(defect.evidence[1].value, "a, whether it is in use is not known");
    assert!(import(&bench, "/dev/COPY"));
    bench.knows_mounts(true);
    // Two paths to one drive are told as paths.
    let wwn = bench.drive_of(disks[0]).wwn.clone();
    bench.drive_of(disks[1]).wwn = wwn;
    assert_eq!(bench.ask(physical::duplicates), []);
    // Two partitions of one drive are copies; the same one over two paths is not.
    for (name, start, expected) in [("sda", 2 * MIB, 1), ("sdb", MIB, 0), ("sdb", 2 * MIB, 1)] {
        let mut bench = Bench::new();
        let first = bench.disk("sda");
        let second = if name == "sda" { first } else { bench.disk(name) };
        bench.drive_of(second).wwn = bench.drive_of(first).wwn.clone();
        let parts = [bench.partition("sda1", MIB, first), bench.partition("x2", start, second)];
        for part in parts {
            bench.content_of(part).lvm = Some(header("a", &["a"]));
        }
        assert_eq!(bench.ask(physical::duplicates).len(), expected, "{name} {start}");
    }
    // The halves of a mirror show the label of what is on the mirror.
    let mut bench = Bench::new();
    let disks = [bench.disk("sda"), bench.disk("sdb")];
    let md = bench.md("md0", "raid1", &disks);
    for node in [disks[0], disks[1], md] {
        bench.content_of(node).lvm = Some(header("a", &["a"]));
    }
    assert_eq!(bench.ids(RULES), [""; 0]);
    // Those of a mirror that does not run do too, and must not be told apart: that would break it.
    let mut bench = Bench::new();
    for disk in ["sda", "sdb"].map(|name| bench.disk(name)) {
        bench.content_of(disk).lvm = Some(header("a", &["a"]));
        bench.content_of(disk).md =
            Some(MdSuperblock { version: "1.0".into(), ..MdSuperblock::default() });
    }
    assert_eq!(bench.ask(physical::duplicates), []);
}
