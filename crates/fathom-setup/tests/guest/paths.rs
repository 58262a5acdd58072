//! Multipath maps over two paths to one disk: every policy and selector, a path that has failed; killed; and two disks that only
//! share a name.

use crate::{driver, ended, has, job, killed, look, tell_failures, word};
use fathom_model::plan::setup::{FilesystemSpec, MultipathSpec, SetupSpec};
use fathom_testkit::{Capability, Guest, GuestReport, Trial, counted, kernel_test, sample};

const LOOK: &str = "dmsetup table; dmsetup status; dd if=$1 of=/dev/null bs=64k count=8 2>/dev/null || true; cat /sys/block/sd[ab]/stat";
const SHAPES: &[(&str, &str, u32, &str)] = &[
    ("multibus", "round-robin", 0, " 1 1 round-robin 0 2 1 8:0 1 8:16 1"),
    ("failover", "queue-length", 0, " 2 1 queue-length 0 1 1 8:0 1 queue-length 0 1 1 8:16 1"),
    ("1,0", "service-time", 0, " 1 1 service-time 0 2 2 8:16 1 1 8:0 1 1"),
    ("failover", "round-robin", 1, " 2 1 round-robin 0 1 1 8:0 1 round-robin 0 1 1 8:16 1"),
];

pub fn trial() -> Trial {
    let needs = [
        Capability::Root,
        Capability::Uml,
        Capability::Tool("busybox"),
        Capability::Tool("modprobe"),
        Capability::Tool("dmsetup"),
        Capability::Tool("mkfs.ext4"),
    ];
    kernel_test("multipath_maps", &needs, maps)
}

fn map(policy: &str, selector: &str, failed: u32) -> SetupSpec {
    let multipath =
        MultipathSpec { policy: policy.to_owned(), selector: selector.to_owned(), failed };
    let devices = ["/dev/sda", "/dev/sdb"].map(str::to_owned).to_vec();
    SetupSpec { devices, multipath: Some(multipath), ..SetupSpec::default() }
}

fn with_ext4(mut spec: SetupSpec) -> SetupSpec {
    spec.filesystem = Some(FilesystemSpec {
        kind: "ext4".to_owned(),
        make_options: Vec::new(),
        is_aligned: true,
        mount_options: Vec::new(),
        journal: None,
        is_lazy: false,
        fill_percent: None,
        ageing_rounds: None,
        data_profile: None,
        metadata_profile: None,
        is_on_each: false,
    });
    spec
}

fn maps() {
    let modules = "sd_mod dm-mod dm-multipath dm-round-robin dm-queue-length dm-service-time";
    let one = "load_with scsi_debug dev_size_mb=48 add_host=2 vpd_use_hostno=0 delay=0; wait_for /dev/sd{a,b}";
    let mut all = job(modules).setup("one", one);
    for (number, (policy, selector, failed, _)) in SHAPES.iter().enumerate() {
        all = look(all, &format!("shape{number}"), &map(policy, selector, *failed), LOOK);
    }
    let mounted = with_ext4(map("failover", "service-time", 1));
    all = look(all, "mounted", &mounted, "grep $1 /proc/mounts; echo x >$1/file; sync $1/file");
    all = all.step("planned", &format!("setup check $STATE {}", word(&mounted)));
    let kills = sample(8, 60);
    all = all.step("kills", &format!("setup kills $STATE {} {kills}", word(&mounted)));
    // The process dies; the map goes, as it does with a boot; what was made on it lies on the disk.
    all = all.step(
        "gone",
        &format!(
            "setup leave $STATE {} || true; umount /dev/mapper/fathom-*; dmsetup remove_all; blkid -p /dev/sdb; setup undo $STATE; blkid -p /dev/sdb || echo BLANK",
            word(&mounted)
        ),
    );
    // Somebody goes on with the map.
    all = all.step(
        "theirs",
        &format!(
            "setup leave $STATE {} || true; mkfs.ext4 -qF /dev/mapper/fathom-*; sum() {{ cat /dev/sda | md5sum; }}
             sync; a=$(sum); setup undo $STATE || true; b=$(sum); [ \"$a\" = \"$b\" ] && echo SAME; dmsetup ls
             wipefs -aq /dev/mapper/fathom-*; setup undo $STATE",
            word(&map("multibus", "service-time", 0))
        ),
    );
    all = all.step("traces", "dmsetup ls; find $STATE/work $STATE/changes");
    // Two disks with one name: each adapter has a memory of its own.
    let two = "modprobe -d /run/modules -r scsi_debug; load_with scsi_debug dev_size_mb=48 add_host=2 per_host_store=1 vpd_use_hostno=0 delay=0; wait_for /dev/sd{a,b}";
    all = all.setup("two", two);
    let wanted = word(&map("multibus", "service-time", 0));
    all = all.step("twins", &format!("setup cycle $STATE {wanted} || echo REFUSED; dmsetup ls"));
    let report = Guest::boot(all).and_then(Guest::wait).unwrap_or_else(|error| panic!("{error}"));
    println!("\nguest multipath maps: {}", report.times());
    tell_failures(&report);
    judge(&report, kills);
}

fn judge(report: &GuestReport, kills: usize) {
    for (number, (.., failed, table)) in SHAPES.iter().enumerate() {
        let step = ended(report, &format!("shape{number}"), 0);
        has(step, table);
        has(step, "CLAIM true");
        has(step, if *failed > 0 { " 8:0 F " } else { " 8:0 A " });
        has(step, " 8:16 A ");
    }
    has(ended(report, "mounted", 0), "/dev/mapper/fathom-");
    let planned = ended(report, "planned", 0);
    for words in ["dmsetup create fathom-ID-paths --uuid fathom-ID-paths --table", "fail_path 8:0"]
    {
        has(planned, words);
    }
    let kills = killed(ended(report, "kills", 0), kills);
    counted("kills in a guest while multipath maps are built and taken down", kills);
    let gone = ended(report, "gone", 0);
    for words in ["TYPE=\"ext4\"", "BLANK"] {
        has(gone, words);
    }
    let theirs = ended(report, "theirs", 0);
    for words in ["ChangedBySomebody { found: \"ext4 on /dev/dm-", "SAME"] {
        has(theirs, words);
    }
    let traces = ended(report, "traces", 0);
    let left: Vec<&str> =
        traces.stdout.lines().filter(|l| l.contains("fathom") || l.contains(driver::RUN)).collect();
    assert_eq!(left, [] as [&str; 0], "{}", traces.stdout);
    let twins = ended(report, "twins", 0);
    for words in ["are no paths to one disk", "REFUSED", "No devices found"] {
        has(twins, words);
    }
}
