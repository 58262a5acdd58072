//! Lines as kernels print them.

use super::*;

#[test]
fn lines_have_a_start_a_length_a_type_and_words() {
    let found = line("2048 4096 linear 8:0 384");
    let expected = Line { start_sector: 2048, sectors: 4096, kind: "linear", words: "8:0 384" };
    assert_eq!(found, Some(expected));
    assert_eq!(line("0 8 error").map(|line| (line.kind, line.words)), Some(("error", "")));
    assert_eq!(line("0 8"), None);
    assert_eq!(line("x 8 linear"), None);
    let all = ["0 8 linear 8:0 0".to_owned(), "8 8 error".to_owned(), "torn".to_owned()];
    assert_eq!(lines(&all, "error").count(), 1);
}

#[test]
fn pools_say_how_full_they_are() {
    let table = pool_table("253:2 253:3 128 0 1 skip_block_zeroing");
    assert_eq!(
        table,
        Some(PoolTable {
            metadata_device: "253:2",
            data_device: "253:3",
            chunk_bytes: 65536,
            features: vec!["skip_block_zeroing"],
        })
    );
    let text = "1 141/1024 3072/16384 - out_of_data_space discard_passdown error_if_no_space needs_check 256";
    let Some(PoolStatus::Works(state)) = pool_status(text) else { panic!("{text}") };
    assert_eq!(state.metadata, Usage { used: 141, total: 1024 });
    assert_eq!(state.metadata_bytes(), (141 * 4096, 4 << 20));
    assert_eq!(state.data.share(), Some(0.1875));
    assert_eq!(
        (state.mode, state.without_space, state.needs_check),
        ("out_of_data_space", "error_if_no_space", true)
    );
    // Before 3.18 there was no word on what happens without space.
    let old = pool_status("0 10/64 3/8 - rw no_discard_passdown");
    assert!(
        matches!(old, Some(PoolStatus::Works(state)) if !state.needs_check && state.mode == "rw")
    );
    assert_eq!(pool_status("Fail"), Some(PoolStatus::Failed));
    assert_eq!(pool_status("0 10/64"), None);
}

#[test]
fn snapshots_say_how_full_they_are_or_that_they_are_lost() {
    let table = SnapshotTable { origin: "253:1", store: "253:2", chunk_bytes: 4096 };
    assert_eq!(snapshot_table("253:1 253:2 P 8"), Some(table));
    let works = SnapshotStatus::Works(Usage { used: 8192, total: 1 << 20 });
    assert_eq!(snapshot_status("16/2048 16"), Some(works));
    assert_eq!(snapshot_status("Invalid"), Some(SnapshotStatus::Broken("Invalid")));
    assert_eq!(snapshot_status("Merge failed"), Some(SnapshotStatus::Broken("Merge failed")));
    assert_eq!(snapshot_status("something else"), None);
}

#[test]
fn caches_say_how_they_write_and_how_often_they_help() {
    let table = cache_table("253:2 253:3 253:4 128 2 metadata2 writethrough smq 0");
    assert_eq!(
        table.map(|t| (t.mode, t.block_bytes, t.origin)),
        Some(("writethrough", 65536, "253:4"))
    );
    assert_eq!(cache_table("1:0 1:1 1:2 128 0 smq 0").map(|t| t.mode), Some("writeback"));
    let text = "8 27/1024 128 10/16384 23 5 14 2 0 10 3 2 metadata2 writeback 2 migration_threshold 2048 smq 0 rw -";
    let Some(CacheStatus::Works(state)) = cache_status(text) else { panic!("{text}") };
    assert_eq!((state.read_hits, state.read_misses, state.dirty_blocks), (23, 5, 3));
    assert_eq!((state.mode, state.writable, state.needs_check), ("writeback", true, false));
    assert_eq!(cache_status("Fail"), Some(CacheStatus::Failed));
    let broken = text.replace("rw -", "ro needs_check");
    let Some(CacheStatus::Works(state)) = cache_status(&broken) else { panic!("{broken}") };
    assert!(!state.writable && state.needs_check);
}

#[test]
fn arrays_and_mirrors_of_lvm_say_how_they_are() {
    let status = raid_status("raid5_ls 3 AaD 1048576/2097152 recover 8 0 -");
    let expected = RaidStatus {
        level: "raid5_ls",
        health: "AaD",
        in_sync: Usage { used: 1 << 20, total: 1 << 21 },
        action: "recover",
        mismatches: 8,
    };
    assert_eq!(status, Some(expected));
    assert_eq!(raid_status("raid1 2 AA 8/8").map(|status| status.action), Some("idle"));
    let status = mirror_status("2 253:3 253:4 398/400 1 AD 3 disk 253:2 A");
    let expected = MirrorStatus { in_sync: Usage { used: 398, total: 400 }, health: "AD" };
    assert_eq!(status, Some(expected));
}

#[test]
fn encryption_and_integrity_say_how_they_work() {
    let table = crypt_table("aes-xts-plain64 - 0 8:1 32768 2 allow_discards sector_size:4096");
    let expected = CryptTable {
        cipher: "aes-xts-plain64",
        device: "8:1",
        options: vec!["allow_discards", "sector_size:4096"],
    };
    assert_eq!(table, Some(expected));
    let plain = crypt_table("aes-xts-plain64 - 0 8:1 32768").map(|table| table.options);
    assert_eq!(plain, Some(Vec::new()));
    let table = integrity_table("8:16 0 32 J 1 block_size:512");
    assert_eq!(table.map(|table| (table.device, table.mode)), Some(("8:16", "J")));
    let status = vdo_status("/dev/dm-3 normal - online online 1024 262144");
    let blocks = Usage { used: 1024, total: 262_144 };
    assert_eq!(status, Some(VdoStatus { mode: "normal", blocks }));
}

#[test]
fn legs_are_what_data_is_spread_over() {
    let of = |text| line(text).map(legs);
    assert_eq!(of("0 32768 striped 2 128 8:0 2048 8:16 2048"), Some(vec!["8:0", "8:16"]));
    assert_eq!(of("0 8192 raid raid1 3 0 region_size 1024 2 253:0 253:1 - -"), Some(vec!["253:1"]));
    assert_eq!(
        of("0 8192 mirror core 1 1024 2 253:0 0 253:1 0 1 handle_errors"),
        Some(vec!["253:0", "253:1"])
    );
    assert_eq!(of("0 8 linear 8:0 0"), Some(vec![]));
    assert_eq!(of("0 8 striped 3 128 8:0 0"), Some(vec![]), "a torn line");
}

#[test]
fn maps_have_groups_of_paths() {
    let text = "2 queue_if_no_path retain_attached_hw_handler 1 alua 2 1 service-time 0 2 2 8:0 1 1 8:16 1 1 round-robin 0 1 1 8:32 1000";
    let (features, groups) = multipath_table(text).unwrap();
    assert_eq!(features, ["queue_if_no_path", "retain_attached_hw_handler"]);
    let devices =
        |group: &PathGroup<'_>| group.paths.iter().map(|p| p.device.to_owned()).collect::<Vec<_>>();
    assert_eq!(
        groups.iter().map(|g| g.selector).collect::<Vec<_>>(),
        ["service-time", "round-robin"]
    );
    assert_eq!(groups.iter().map(devices).collect::<Vec<_>>(), [vec!["8:0", "8:16"], vec!["8:32"]]);
    let groups =
        multipath_status("2 0 0 0 2 1 A 0 1 2 8:0 A 0 0 1 E 0 2 2 8:16 F 3 0 1 8:32 A 0 0 1");
    let groups = groups.unwrap();
    let paths: Vec<_> = groups.iter().flat_map(|g| &g.paths).collect();
    assert_eq!(
        paths.iter().map(|p| (p.device, p.is_active, p.failures)).collect::<Vec<_>>(),
        [("8:0", true, 0), ("8:16", false, 3), ("8:32", true, 0)]
    );
    // Round robin adds nothing to its paths' status.
    let groups = multipath_status("2 0 0 0 1 1 A 0 2 0 8:0 F 1 8:32 A 0").unwrap();
    assert_eq!(groups[0].paths.iter().filter(|p| p.is_active).count(), 1);
}
