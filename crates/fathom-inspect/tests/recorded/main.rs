//! Stacks of recorded machines: how they resolve, how they read, what the rules find.

#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod broken;
mod machines;
mod readers;
mod scan;
mod system;

use expect_test::{Expect, expect};
use fathom_check::{measuring as rules, one_line};
use fathom_inspect::stack;
use fathom_model::finding::{Finding, Severity};
use fathom_model::stack::{NodeKind, Stack};
use fathom_testkit::Tree;
use std::path::Path;

fn resolve(machine: &str, path: &str) -> Stack {
    let tree = Tree::of_text(machine);
    stack::resolve(&tree.root(), Path::new(path)).unwrap()
}

fn check(stack: &Stack, expected: Expect) {
    let text = format!("{}\n\n{}\n", one_line(stack), fathom_check::tree(stack).join("\n"));
    expected.assert_eq(&text);
    let json = serde_json::to_string(stack).unwrap();
    assert_eq!(&serde_json::from_str::<Stack>(&json).unwrap(), stack);
}

fn judge(stack: &Stack) -> Vec<Finding> {
    rules::judge(stack, &rules::Surroundings::default())
}

fn ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.id.as_str()).collect()
}

#[test]
fn ext4_on_lv_on_raid10_of_six() {
    let stack = resolve(&machines::six_disk_array("idle", "none", 0), "/srv/data/new-file");
    check(
        &stack,
        expect![[r#"
            /srv/data/new-file  ext4 (noatime, data=ordered) on LV vg0/data (linear) on md10 (raid10 far=2, 64 KiB chunk, 6 of 6) on 6 x WD10EACS 1 TB

            /srv/data  mount of /dev/mapper/vg0-data  rw,noatime,data=ordered
              ext4
                dm-0  LV vg0/data (linear)  2.7 TiB  blocks 512 B/512 B  read-ahead 768 KiB (1536 sectors)  rotating
                  md10 (raid10 far=2, 64 KiB chunk, 6 of 6)  2.7 TiB  clean  idle  blocks 512 B/512 B  read-ahead 768 KiB (1536 sectors)  rotating
                    sda  WD10EACS  931.5 GiB  sata 3.0 Gbps  firmware 01.0  takes 31 at once  running  blocks 512 B/512 B  scheduler mq-deadline  read-ahead 128 KiB (256 sectors)  cache write back  rotating
                    sdb  WD10EACS  931.5 GiB  sata 3.0 Gbps  firmware 01.0  takes 31 at once  running  blocks 512 B/512 B  scheduler mq-deadline  read-ahead 128 KiB (256 sectors)  cache write back  rotating
                    sdc  WD10EACS  931.5 GiB  sata 3.0 Gbps  firmware 01.0  takes 31 at once  running  blocks 512 B/512 B  scheduler mq-deadline  read-ahead 128 KiB (256 sectors)  cache write back  rotating
                    sdd  WD10EACS  931.5 GiB  sata 3.0 Gbps  firmware 01.0  takes 31 at once  running  blocks 512 B/512 B  scheduler mq-deadline  read-ahead 128 KiB (256 sectors)  cache write back  rotating
                    sde  WD10EACS  931.5 GiB  sata 3.0 Gbps  firmware 01.0  takes 31 at once  running  blocks 512 B/512 B  scheduler mq-deadline  read-ahead 128 KiB (256 sectors)  cache write back  rotating
                    sdf  WD10EACS  931.5 GiB  sata 3.0 Gbps  firmware 01.0  takes 31 at once  running  blocks 512 B/512 B  scheduler mq-deadline  read-ahead 128 KiB (256 sectors)  cache write back  rotating
        "#]],
    );
    assert_eq!(stack.rotational(), Some(true));
    assert_eq!(stack.disks().len(), 6);
    assert!(judge(&stack).is_empty(), "{:?}", judge(&stack));
}

#[test]
fn the_same_array_by_its_device_names() {
    let machine = machines::six_disk_array("idle", "none", 0);
    let tree = Tree::of_text(&machine);
    let by = |path: &str| stack::resolve(&tree.root(), Path::new(path)).unwrap();
    let lines: Vec<String> = ["/dev/mapper/vg0-data", "/dev/vg0/data", "/dev/dm-0"]
        .iter()
        .map(|path| one_line(&by(path)).replacen(path, "", 1))
        .collect();
    assert!(lines.iter().all(|line| line == &lines[0]), "{lines:?}");
    let disk = by("/dev/sdc");
    assert_eq!(disk.top_node().unwrap().mounted_at, ["/srv/data"]);
    assert_eq!(ids(&judge(&disk)), ["mounted-above"]);
    expect!["/dev/sdc  WD10EACS 1 TB (sdc)"].assert_eq(&one_line(&disk));
}

#[test]
fn a_checking_and_a_degraded_array_are_doubtful() {
    let busy = resolve(&machines::six_disk_array("check", "31 / 100", 0), "/srv/data");
    let findings = judge(&busy);
    expect![[r#"
        md10 is checking itself (31 % done): rates are too low, tails too long.
        wait, or: echo idle > /sys/block/md10/md/sync_action
    "#]]
    .assert_eq(&format!("{}\n{}\n", findings[0].summary, findings[0].advice.join("\n")));
    assert_eq!(findings[0].severity, Severity::Doubtful);

    let rebuilding = resolve(&machines::six_disk_array("recover", "1 / 8", 1), "/srv/data");
    let findings = judge(&rebuilding);
    assert_eq!(ids(&findings), ["md-sync-running", "md-degraded"]);
    assert!(findings[0].advice[0].contains("mdadm --wait /dev/md10"), "{findings:?}");
    assert!(findings[1].summary.contains("lacks 1 of 6"), "{findings:?}");
    assert!(one_line(&rebuilding).contains("5 of 6"));

    let frozen = resolve(&machines::six_disk_array("frozen", "none", 0), "/srv/data");
    assert!(judge(&frozen).is_empty());
}

#[test]
fn xfs_on_nvme_with_two_paths() {
    let stack = resolve(&machines::nvme_multipath(), "/fast");
    check(
        &stack,
        expect![[r#"
            /fast  xfs on partition nvme0n1p1 on nvme0n1 (NVMe multipath, 2 paths) on EXAMPLE DUAL PORT 1.6 TB (nvme0c0n1, nvme0c1n1)

            /fast  mount of /dev/nvme0n1p1  rw,relatime,attr2,inode64,noquota
              xfs
                partition nvme0n1p1  1.5 TiB  starts at 1 MiB
                  nvme0n1 (NVMe multipath, 2 paths)  1.5 TiB  nvme  serial S0N1  firmware AB12  path policy numa  blocks 512 B/4 KiB  read-ahead 128 KiB (256 sectors)  cache write through
                    nvme0c0n1  EXAMPLE DUAL PORT  1.5 TiB  nvme 8.0 GT/s PCIe x2  serial S0N1  firmware AB12  optimized
                    nvme0c1n1  EXAMPLE DUAL PORT  1.5 TiB  nvme 8.0 GT/s PCIe x2  serial S0N1  firmware AB12  non-optimized
        "#]],
    );
    assert_eq!(stack.disks().len(), 1);
    let fs = stack.filesystem().unwrap().fs.as_ref().unwrap();
    assert_eq!(fs.uuid.as_deref(), Some("0f0f0f0f-1111-2222-3333-444444444444"));
    assert_eq!(fs.label.as_deref(), Some("fast"));
    let hidden = stack.nodes.iter().find(|node| node.name == "nvme0c1n1").unwrap();
    assert_eq!((hidden.devno.as_ref(), hidden.path.as_ref()), (None, None));
    assert!(judge(&stack).is_empty());
}

#[test]
fn a_virtual_machine_with_its_root_on_virtio() {
    let stack = resolve(&machines::virtio_root(), "/home/someone/data");
    check(
        &stack,
        expect![[r#"
            /home/someone/data  ext4 (discard, data=ordered) on virtio disk 21.5 GB (vda)

            /  mount of /dev/root  rw,relatime,discard,data=ordered
              ext4
                vda  virtio disk  20 GiB  virtio  serial root-disk  blocks 512 B/512 B  scheduler none  read-ahead 128 KiB (256 sectors)  cache write back  rotating
        "#]],
    );
    assert_eq!(ids(&judge(&stack)), ["discard-online"]);
    // A command is copied into a shell.
    let mut blank = stack.clone();
    blank
        .nodes
        .iter_mut()
        .filter_map(|node| node.mount.as_mut())
        .for_each(|mount| mount.mount_point = "/my data".into());
    let advice = &judge(&blank)[0].advice;
    assert_eq!(advice[1], "mount -o remount,nodiscard '/my data'");
}

#[test]
fn multipath_counts_one_drive() {
    let stack = resolve(&machines::dm_multipath(), "/dev/mapper/mpatha");
    check(
        &stack,
        expect![[r#"
            /dev/mapper/mpatha  multipath mpatha (2 paths) on EXAMPLE SAN VOLUME 2.2 TB (sda, sdb)

            dm-0  multipath mpatha (2 paths)  2 TiB  scheduler mq-deadline
              sda  EXAMPLE SAN VOLUME  2 TiB  fc  firmware 0210  takes 64 at once  running  scheduler mq-deadline
              sdb  EXAMPLE SAN VOLUME  2 TiB  fc  firmware 0210  takes 64 at once  running  scheduler mq-deadline
        "#]],
    );
    assert_eq!(stack.leaves().len(), 2);
    assert_eq!(stack.disks().len(), 1);
    assert!(judge(&stack).is_empty(), "{:?}", judge(&stack));
}

#[test]
fn failed_paths_are_doubtful() {
    let healthy = machines::dm_multipath();
    let status = |first: char, second: char| {
        let line = format!("2 0 0 0 1 1 A 0 2 2 8:0 {first} 1 1 8:16 {second} 0 1");
        let line = format!("dm-0.status = 0 4294967296 multipath {line}\ndm-0.table");
        judge(&resolve(&healthy.replace("dm-0.table", &line), "/dev/mapper/mpatha"))
    };
    assert!(status('A', 'A').is_empty());
    // The map has noticed; root sees it.
    let findings = status('F', 'A');
    expect![[r#"
        multipath map mpatha has lost 1 of its 2 paths (sda): it is slower and less safe than it looks.
        bring the paths back before measuring: cable, switch, port, target
        multipath -ll mpatha
    "#]]
    .assert_eq(&format!("{}\n{}\n", findings[0].summary, findings[0].advice.join("\n")));
    assert_eq!(ids(&findings), ["multipath-degraded"]);
    assert_eq!(findings[0].severity, Severity::Doubtful);
    assert!(status('F', 'F')[0].summary.contains("2 of its 2 paths (sda, sdb)"));
    // For everybody: the state of the path's device.
    let offline = healthy.replacen("state = running", "state = offline", 1);
    let findings = judge(&resolve(&offline, "/dev/mapper/mpatha"));
    assert!(findings[0].summary.contains("1 of its 2 paths (sda)"), "{findings:?}");
}

#[test]
fn dm_crypt_shows_its_cipher_and_never_its_key() {
    let stack = resolve(&machines::dm_crypt(), "/home");
    check(
        &stack,
        expect![[r#"
            /home  ext4 on dm-crypt home (aes-xts-plain64) on partition sda2 on EXAMPLE SSD 500 GB (sda)

            /home  mount of /dev/mapper/home  rw,relatime
              ext4
                dm-0  dm-crypt home (aes-xts-plain64)  465.7 GiB
                  partition sda2  465.8 GiB  starts at 1.0 MiB
                    sda  EXAMPLE SSD  465.8 GiB  sata 3.0 Gbps  firmware 01.0  takes 31 at once  running  blocks 512 B/4 KiB  scheduler mq-deadline  read-ahead 128 KiB (256 sectors)  cache write back
        "#]],
    );
    assert!(!serde_json::to_string(&stack).unwrap().contains("5ec2e7"));
    let partition = stack.nodes.iter().find(|n| n.kind == NodeKind::Partition).unwrap();
    let facts = partition.partition.as_ref().unwrap();
    assert_eq!(facts.uuid.as_deref(), Some("5c7e2c0f-02"));
    let findings = judge(&stack);
    assert_eq!(ids(&findings), ["misaligned"]);
    assert!(findings[0].summary.contains("starts at byte 1056256"), "{findings:?}");
}

#[test]
fn nfs_ends_at_its_server() {
    let stack = resolve(&machines::nfs(), "/mnt/nfs/file");
    check(
        &stack,
        expect![[r#"
        /mnt/nfs/file  nfs4 filer:/export/db

        /mnt/nfs  mount of filer:/export/db  rw,relatime,vers=4.2,hard
          nfs4 filer:/export/db
    "#]],
    );
    assert!(stack.block_devices().is_empty() && stack.rotational().is_none());
}

#[test]
fn an_overlay_leads_to_its_upper_directory() {
    let stack = resolve(&machines::overlay(), "/var/merged/x");
    check(
        &stack,
        expect![[r#"
            /var/merged/x  overlay on ext4 (discard, data=ordered) on virtio disk 21.5 GB (vda)

            /var/merged  mount of overlay  rw,relatime,lowerdir=/var/lower,upperdir=/var/upper,workdir=/var/work
              overlay
                /  mount of /dev/root  rw,relatime,discard,data=ordered
                  ext4
                    vda  virtio disk  20 GiB  virtio  serial root-disk  blocks 512 B/512 B  scheduler none  read-ahead 128 KiB (256 sectors)  cache write back  rotating
        "#]],
    );
    assert_eq!(stack.disks().len(), 1);
}

#[test]
fn an_overlay_seen_from_inside_ends_unknown() {
    let machine = machines::overlay().replace("0:60 / /var/merged", "0:60 / /");
    let stack = resolve(&machine.replace("27 1 254:0 / /", "27 1 254:0 / /etc/hosts"), "/data");
    assert_eq!(one_line(&stack), "/data  overlay on /var/upper (unknown)");
}

#[test]
fn results_on_the_tested_storage_are_told() {
    let machine = machines::six_disk_array("idle", "none", 0);
    let data = resolve(&machine, "/srv/data");
    let store = Some(resolve(&machine, "/srv/data/store"));
    let around = rules::Surroundings { store, ..rules::Surroundings::default() };
    assert_eq!(ids(&rules::judge(&data, &around)), ["store-on-target"]);
    let elsewhere = Some(resolve(&machine, "/var/lib"));
    let around = rules::Surroundings { store: elsewhere, ..rules::Surroundings::default() };
    assert!(rules::judge(&data, &around).is_empty());
}

#[test]
fn errors_and_missing_inodes_are_told() {
    let machine = machines::six_disk_array("idle", "none", 0);
    let mut stack = resolve(&machine.replace("errors_count = 0", "errors_count = 3"), "/srv/data");
    let findings = judge(&stack);
    assert_eq!(ids(&findings), ["filesystem-errors"]);
    assert!(findings[0].summary.contains("has counted 3 errors"), "{findings:?}");

    let fs = stack.nodes.iter_mut().find_map(|node| node.fs.as_mut()).unwrap();
    fs.errors_count = Some(0);
    (fs.inodes, fs.inodes_free) = (Some(1000), Some(99));
    (fs.total_bytes, fs.available_bytes) = (Some(1000), Some(100));
    assert_eq!(ids(&judge(&stack)), ["inodes-low"]);
}

#[test]
fn layers_that_do_not_agree_are_misaligned() {
    let machine =
        machines::virtio_root().replace("size = 41943040", "size = 8\nalignment_offset = -1");
    let findings = judge(&resolve(&machine, "/dev/vda"));
    assert_eq!(ids(&findings), ["mounted-above", "misaligned"]);
}

#[test]
fn a_name_that_is_no_device_lies_where_its_directory_does() {
    let tree = Tree::of_text(&machines::nfs());
    let stack = stack::resolve(&tree.root(), Path::new("/dev/sdq")).unwrap();
    assert_eq!(one_line(&stack), "/dev/sdq  ext4 on /dev/root (unknown)");
    let nothing = Tree::of_text("[proc]\nx = y\n");
    let error = stack::resolve(&nothing.root(), Path::new("/srv")).unwrap_err();
    assert!(error.to_string().starts_with("/srv: no mount holds it"), "{error}");
}
