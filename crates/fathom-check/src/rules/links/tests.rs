//! Each rule on what it is about, beside it, and at its limits.

use super::{pci, pcie_bytes_per_s, ports, power, sums};
use crate::fixtures::Bench;
use fathom_model::defect::{Certainty, Gravity};
use fathom_model::snapshot::Measured;
use fathom_model::stack::NodeKind;
use fathom_model::stack::detail::DriveIdentity;
use fathom_model::system::{LogLine, PciLink, StorageHost};

use Gravity::{High, Low, Medium};

/// An end of a link: what it runs at, and what it could do.
fn end(address: &str, now: (u64, u64), best: (u64, u64)) -> PciLink {
    PciLink {
        address: address.into(),
        speed_gts_x10: Some(now.0),
        width: Some(now.1),
        speed_max_gts_x10: Some(best.0),
        width_max: Some(best.1),
        ..PciLink::default()
    }
}

/// A machine with an NVMe drive on this path.
fn nvme(path: Vec<PciLink>) -> Bench {
    let mut bench = Bench::new();
    let disk = bench.nvme("nvme0n1");
    bench.detail_of(disk).host = Some("nvme0".into());
    bench.snapshot.system.hosts.push(StorageHost {
        name: "nvme0".into(),
        driver: Some("nvme".into()),
        model: Some("FAST 1000".into()),
        pci_address: path.first().map(|end| end.address.clone()),
        link: path,
        ..StorageHost::default()
    });
    bench
}

/// The drive, and the port above it.
fn direct(now: (u64, u64), drive: (u64, u64), port: (u64, u64)) -> Bench {
    nvme(vec![end("0000:01:00.0", now, drive), end("0000:00:01.0", now, port)])
}

#[test]
fn rates_of_links() {
    let gb = |speed, lanes| (pcie_bytes_per_s(speed, lanes) / 1e7).round() / 100.0;
    assert_eq!((gb(25, 1), gb(50, 4), gb(80, 4), gb(160, 4)), (0.25, 2.0, 3.94, 7.88));
}

#[test]
fn a_link_below_what_both_ends_can_do() {
    let full = (160, 4);
    assert_eq!(direct(full, full, full).gravities(pci::downgraded), []);
    // A slower port, or a slower drive, is no defect of the link.
    assert_eq!(direct((80, 4), full, (80, 16)).gravities(pci::downgraded), []);
    assert_eq!(direct((80, 4), (80, 4), (320, 16)).gravities(pci::downgraded), []);
    let narrow = direct((160, 2), full, full).one(pci::downgraded);
    assert_eq!((narrow.gravity, narrow.certainty), (High, Certainty::Certain));
    assert_eq!(
        narrow.summary,
        "the PCI Express link of nvme0n1 (FAST 1000) runs at 16.0 GT/s x2 instead of 16.0 GT/s x4: 3.9 GB/s instead of 7.9 GB/s"
    );
    let slow = direct((80, 4), full, (320, 4)).one(pci::downgraded);
    assert_eq!((slow.gravity, slow.certainty), (High, Certainty::Likely));
    let a_little = direct((160, 12), (160, 16), (160, 16)).one(pci::downgraded);
    assert_eq!(a_little.gravity, Medium);
}

#[test]
fn links_of_a_hypervisor_mean_nothing() {
    let mut bench = direct((25, 1), (160, 4), (160, 4));
    assert_eq!(bench.gravities(pci::downgraded), [High]);
    bench.drive_of(0).model = Some("QEMU NVMe Ctrl".into());
    assert_eq!(bench.gravities(pci::downgraded), []);
}

#[test]
fn a_link_whose_other_end_is_not_known() {
    let drive = end("0000:01:00.0", (80, 2), (160, 4));
    assert_eq!(nvme(vec![drive.clone()]).gravities(pci::downgraded), []);
    let asleep = PciLink { address: "0000:00:01.0".into(), ..PciLink::default() };
    assert_eq!(nvme(vec![drive.clone(), asleep]).gravities(pci::downgraded), []);
    // Ends of two links are no pair.
    let other = end("0000:00:01.0", (160, 16), (160, 16));
    assert_eq!(nvme(vec![drive, other]).gravities(pci::downgraded), []);
}

#[test]
fn a_link_above_a_switch_is_told_once() {
    let full = (160, 4);
    let path = |drive: &str, port: &str| {
        vec![
            end(drive, full, full),
            end(port, full, full),
            end("0000:02:00.0", (160, 8), (160, 16)),
            end("0000:00:01.0", (160, 8), (160, 16)),
        ]
    };
    let mut bench = nvme(path("0000:04:00.0", "0000:03:00.0"));
    let second = bench.nvme("nvme1n1");
    bench.detail_of(second).host = Some("nvme1".into());
    let host = StorageHost {
        name: "nvme1".into(),
        link: path("0000:05:00.0", "0000:03:01.0"),
        ..StorageHost::default()
    };
    bench.snapshot.system.hosts.push(host);
    let defect = bench.one(pci::downgraded);
    assert!(defect.summary.contains("16.0 GT/s x8 instead of 16.0 GT/s x16"), "{}", defect.summary);
    // Two drives of x4 just fill what is left of it.
    assert_eq!(bench.gravities(sums::link), []);
    let third = bench.nvme("nvme2n1");
    bench.detail_of(third).host = Some("nvme2".into());
    let host = StorageHost {
        name: "nvme2".into(),
        link: path("0000:06:00.0", "0000:03:02.0"),
        ..StorageHost::default()
    };
    bench.snapshot.system.hosts.push(host);
    let defect = bench.one(sums::link);
    assert_eq!((defect.gravity, defect.also.len(), defect.concerns.len()), (Low, 0, 2));
}

#[test]
fn a_slot_that_is_too_small() {
    assert_eq!(
        direct((160, 4), (320, 4), (160, 16)).gravities(pci::slot_narrow),
        [],
        "one generation"
    );
    assert_eq!(direct((80, 4), (320, 4), (80, 16)).gravities(pci::slot_narrow), [Low], "two");
    assert_eq!(direct((160, 2), (160, 4), (160, 2)).one(pci::slot_narrow).gravity, Low);
    // That the link is downgraded is told by itself.
    assert_eq!(direct((160, 1), (160, 4), (160, 2)).gravities(pci::slot_narrow), []);
}

#[test]
fn sizes_of_transfers() {
    let of = |lower: (u64, u64), upper_payload: u64| {
        let mut bench = direct((160, 4), (160, 4), (160, 4));
        let link = &mut bench.snapshot.system.hosts[0].link;
        (link[0].max_payload_bytes, link[0].max_read_request_bytes) =
            (Some(lower.0), Some(lower.1));
        link[1].max_payload_bytes = Some(upper_payload);
        bench
    };
    assert_eq!(of((128, 512), 128).gravities(pci::transfer_size), []);
    let defect = of((128, 256), 256).one(pci::transfer_size);
    assert_eq!((defect.gravity, defect.evidence.len()), (Low, 3));
    assert_eq!(
        defect.summary,
        "nvme0n1 (FAST 1000) asks for memory in pieces of 256 bytes and takes payloads of 128 bytes where the port above has 256"
    );
}

#[test]
fn errors_of_links() {
    let of = |errors| {
        let mut bench = direct((160, 4), (160, 4), (160, 4));
        bench.snapshot.system.hosts[0].aer_errors = Some(errors);
        bench
    };
    for (errors, expected) in [
        ((0, 0, 0), vec![]),
        ((99, 0, 0), vec![]),
        ((100, 0, 0), vec![Low]),
        ((10_000, 0, 0), vec![Medium]),
        ((0, 1, 0), vec![High]),
        ((0, 0, 1), vec![High]),
    ] {
        assert_eq!(of(errors).gravities(pci::errors), expected, "{errors:?}");
    }
    // The port sees what arrives at it: both ends are added up.
    let mut port = of((40, 0, 0));
    port.snapshot.system.hosts[0].link[1].aer_errors = Some((59, 0, 0));
    assert_eq!(port.gravities(pci::errors), []);
    port.snapshot.system.hosts[0].link[1].aer_errors = Some((60, 0, 0));
    let defect = port.one(pci::errors);
    assert!(defect.summary.contains("has had 100 corrected errors"), "{}", defect.summary);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some(
            "head -20 /sys/bus/pci/devices/0000:01:00.0/aer_dev_* \
            /sys/bus/pci/devices/0000:00:01.0/aer_dev_*"
        )
    );
    // Another function of the same card.
    let mut second = port.snapshot.system.hosts[0].clone();
    second.name = "nvme1".into();
    (second.pci_address, second.aer_errors) = (Some("0000:01:00.1".into()), None);
    second.link[0].address = "0000:01:00.1".into();
    second.link[1].aer_errors = Some((0, 0, 1));
    port.snapshot.system.hosts[0].link[1].aer_errors = Some((0, 0, 1));
    port.snapshot.system.hosts.push(second);
    let disk = port.nvme("nvme1n1");
    port.detail_of(disk).host = Some("nvme1".into());
    assert_eq!(port.gravities(pci::errors), [High], "once");
    let mut logged = of((0, 1, 0));
    logged.one(pci::errors);
    let text = "nvme 0000:01:00.0: PCIe Bus Error: severity=Uncorrectable".into();
    logged.snapshot.system.kernel_log.push(LogLine { boot_us: 1, level: 3, text });
    let told = crate::check(&logged.snapshot).into_iter().map(|defect| defect.rule);
    let told: Vec<String> = told.filter(|rule| rule.contains("errors")).collect();
    assert_eq!(told, ["pcie-errors"], "once");
}

#[test]
fn sata_speeds() {
    let of = |now: &str, limit: Option<&str>, own: Option<&str>| {
        let mut bench = Bench::new();
        let disk = bench.ssd("sda");
        bench.drive_of(disk).link_speed = Some(now.into());
        bench.drive_of(disk).link_speed_max = limit.map(str::to_owned);
        bench.detail_of(disk).identity = Some(DriveIdentity {
            interface_speed_max: own.map(str::to_owned),
            ..DriveIdentity::default()
        });
        bench
    };
    assert_eq!(of("6.0 Gbps", None, Some("6.0 Gb/s")).gravities(ports::sata_slow), []);
    assert_eq!(of("6.0 Gbps", Some("<unknown>"), None).gravities(ports::sata_slow), []);
    let defect = of("3.0 Gbps", None, Some("6.0 Gb/s")).one(ports::sata_slow);
    assert_eq!((defect.gravity, defect.certainty), (High, Certainty::Likely));
    let defect = of("1.5 Gbps", Some("3.0 Gbps"), Some("6.0 Gb/s")).one(ports::sata_slow);
    assert_eq!(defect.certainty, Certainty::Certain);
    assert_eq!(defect.summary, "the SATA link of sda runs at 1.5 Gbit/s instead of 3.0 Gbit/s");
    assert_eq!(of("3.0 Gbps", Some("3.0 Gbps"), Some("6.0 Gb/s")).gravities(ports::sata_slow), []);
    let defect = of("3.0 Gbps", Some("6.0 Gbps"), None).one(ports::sata_slow);
    assert_eq!((defect.gravity, defect.certainty), (Low, Certainty::Possible), "an old drive");
    let mut rotating = of("3.0 Gbps", None, Some("6.0 Gb/s"));
    rotating.queue_of(0).rotational = Some(true);
    assert_eq!(rotating.gravities(ports::sata_slow), [Medium]);
}

#[test]
fn sas_speeds() {
    let of = |rates: &[(&str, &str)], transport: &str| {
        let mut bench = Bench::new();
        let disk = bench.ssd("sda");
        bench.drive_of(disk).transport = Some(transport.into());
        bench.detail_of(disk).sas_rates =
            rates.iter().map(|(now, max)| ((*now).to_owned(), (*max).to_owned())).collect();
        bench
    };
    assert_eq!(of(&[("12.0 Gbit", "12.0 Gbit")], "sas").gravities(ports::sas_slow), []);
    assert_eq!(
        of(&[("6.0 Gbit", "12.0 Gbit")], "sas").one(ports::sas_slow).certainty,
        Certainty::Possible
    );
    let defect =
        of(&[("12.0 Gbit", "12.0 Gbit"), ("3.0 Gbit", "12.0 Gbit")], "sas").one(ports::sas_slow);
    assert_eq!((defect.gravity, defect.certainty), (High, Certainty::Likely));
    assert_eq!(of(&[("6.0 Gbit", "22.5 Gbit")], "sas").gravities(ports::sas_slow), [Low]);
    assert_eq!(of(&[("6.0 Gbit", "12.0 Gbit")], "sata").gravities(ports::sas_slow), []);
    assert_eq!(of(&[("Unknown", "12.0 Gbit")], "sas").gravities(ports::sas_slow), []);
}

#[test]
fn usb_of_the_second_generation() {
    let of = |speed, transport: &str| {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        bench.drive_of(disk).transport = Some(transport.into());
        bench.detail_of(disk).usb_mbit_per_s = Some(speed);
        bench
    };
    assert_eq!(of(5000, "usb").gravities(ports::usb2), []);
    assert_eq!(of(480, "sata").gravities(ports::usb2), []);
    let mut slow = of(480, "usb");
    assert_eq!(slow.one(ports::usb2).gravity, Low, "nobody uses it");
    slow.mounted("ext4", "/srv", 0);
    assert_eq!(slow.one(ports::usb2).gravity, Medium);
}

#[test]
fn sleep_of_links() {
    let of = |policy: &str| {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        bench.detail_of(disk).host = Some("host0".into());
        bench.snapshot.system.hosts.push(StorageHost {
            name: "host0".into(),
            link_power_policy: Some(policy.into()),
            ..StorageHost::default()
        });
        bench
    };
    for fine in ["max_performance", "med_power_with_dipm", "medium_power", "keep_firmware_settings"]
    {
        assert_eq!(of(fine).gravities(power::sata), [], "{fine}");
    }
    assert_eq!(of("min_power_with_partial").gravities(power::sata), [Low]);
    let defect = of("min_power").one(power::sata);
    assert_eq!(defect.gravity, Medium);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo max_performance > /sys/class/scsi_host/host0/link_power_management_policy")
    );
    // A port without a drive may sleep.
    let mut empty = of("min_power");
    empty.detail_of(0).host = None;
    assert_eq!(empty.gravities(power::sata), []);
}

#[test]
fn sleep_of_nvme() {
    let of = |on, tolerance: &str| {
        let mut bench = direct((160, 4), (160, 4), (160, 4));
        bench.detail_of(0).identity =
            Some(DriveIdentity { power_state_transitions: on, ..DriveIdentity::default() });
        bench.snapshot.system.hosts[0].latency_tolerance_us = Some(tolerance.into());
        bench
    };
    assert_eq!(of(Some(true), "100000").one(power::nvme).gravity, Low);
    // Over several controllers the head of the namespace is asked.
    let mut paths = of(None, "100000");
    let head = paths.device(NodeKind::NvmeMultipath, "nvme9n1", 1 << 30, &[0]);
    paths.detail_of(head).identity =
        Some(DriveIdentity { power_state_transitions: Some(true), ..DriveIdentity::default() });
    assert_eq!(paths.gravities(power::nvme), [Low]);
    for (on, tolerance) in [(Some(true), "0"), (Some(false), "100000"), (None, "100000")] {
        assert_eq!(of(on, tolerance).gravities(power::nvme), [], "{on:?} {tolerance}");
    }
}

/// Drives on one adapter behind a link of 8 GT/s.
fn adapter(drives: usize, lanes: u64, rotational: bool) -> (Bench, Vec<usize>) {
    let mut bench = Bench::new();
    let disks: Vec<usize> =
        (0..drives).map(|n| bench.ssd(&format!("sd{}", (b'a' + n as u8) as char))).collect();
    for &disk in &disks {
        bench.detail_of(disk).host = Some("host0".into());
        bench.queue_of(disk).rotational = Some(rotational);
    }
    let runs = (80, lanes);
    bench.snapshot.system.hosts.push(StorageHost {
        name: "host0".into(),
        driver: Some("mpt3sas".into()),
        can_queue: Some(100),
        link: vec![end("0000:01:00.0", runs, runs), end("0000:00:01.0", runs, runs)],
        ..StorageHost::default()
    });
    (bench, disks)
}

#[test]
fn drives_that_together_want_more_than_their_link() {
    // Two lanes carry 1.97 GB/s, a SATA link 0.56.
    assert_eq!(adapter(3, 2, false).0.gravities(sums::link), []);
    let defect = adapter(4, 2, false).0.one(sums::link);
    assert_eq!((defect.gravity, defect.certainty), (Low, Certainty::Likely));
    assert_eq!(adapter(5, 1, true).0.gravities(sums::link), [], "1.0 of 0.98 GB/s");
    assert_eq!(adapter(6, 1, true).0.gravities(sums::link), [Low], "1.2 of 0.98 GB/s");
    let (mut bench, disks) = adapter(5, 1, false);
    assert_eq!(bench.gravities(sums::link), [Low]);
    bench.md("md0", "raid6", &disks);
    assert_eq!(bench.gravities(sums::link), [Medium]);
}

#[test]
fn namespaces_of_one_drive_share_their_link_rightly() {
    let (mut bench, disks) = adapter(2, 2, false);
    for &disk in &disks {
        bench.drive_of(disk).transport = Some("nvme".into());
    }
    assert_eq!(bench.gravities(sums::link), []);
    bench.detail_of(disks[1]).host = Some("nvme1".into());
    let other = StorageHost { name: "nvme1".into(), ..bench.snapshot.system.hosts[0].clone() };
    bench.snapshot.system.hosts.push(other);
    assert_eq!(bench.gravities(sums::link), [Low], "two drives behind one link");
}

#[test]
fn measured_rates_come_first() {
    let (mut bench, disks) = adapter(2, 1, false);
    for &disk in &disks {
        let target = bench.node(disk).key();
        bench.snapshot.measured.push(Measured {
            target,
            workload: "seqread".into(),
            verdict: "trusted".into(),
            read_bytes_per_s: Some(560e6),
            ..Measured::default()
        });
    }
    let defect = bench.one(sums::link);
    assert_eq!(defect.certainty, Certainty::Certain);
    assert!(
        defect
            .evidence
            .iter()
            .any(|e| e.source == "sda on host0" && e.value == "560.0 MB/s (measured)"),
        "{:?}",
        defect.evidence
    );
}

#[test]
fn queues_of_drives_and_of_their_adapter() {
    let (mut bench, disks) = adapter(4, 8, false);
    for &disk in &disks {
        bench.drive_of(disk).queue_depth = Some(25);
    }
    assert_eq!(bench.gravities(sums::queue), []);
    bench.drive_of(disks[0]).queue_depth = Some(26);
    let defect = bench.one(sums::queue);
    assert_eq!(defect.gravity, Low);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("echo 25 > /sys/class/block/sda/device/queue_depth")
    );
    assert_eq!(defect.fix.len(), 4);
}
