//! Each rule on what it is about, beside it, and at its limits.

use super::{bare, drives, geometry, invisible, power, same_slot};
use crate::fixtures::Bench;
use fathom_model::defect::{Certainty, Gravity};
use fathom_model::stack::detail::FsSuperblock;
use fathom_model::system::StorageHost;
use fathom_model::vendor::{Controller, PhysicalDrive, VirtualDrive};

use Gravity::{High, Low, Medium};

/// A server whose disk is made by a controller that nobody asked.
fn server(driver: &str, vendor: &str, model: &str) -> Bench {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let drive = bench.drive_of(disk);
    drive.vendor = Some(vendor.into());
    drive.model = Some(model.into());
    drive.transport = Some("scsi".into());
    drive.wwn = Some("naa.600605b00cbdeb502b6a6a6a0f0f0f0f".into());
    bench.detail_of(disk).host = Some("host0".into());
    bench.snapshot.system.hosts.push(StorageHost {
        name: "host0".into(),
        driver: Some(driver.into()),
        pci_address: Some("0000:3b:00.0".into()),
        ..StorageHost::default()
    });
    bench
}

/// A controller with one whole array of four drives.
fn controller() -> Controller {
    let member = |slot: usize| PhysicalDrive {
        place: format!("252:{slot}"),
        state: Some("Onln".into()),
        media_errors: Some(0),
        predicts_failure: Some(false),
        ..PhysicalDrive::default()
    };
    Controller {
        tool: "storcli".into(),
        number: 0,
        model: Some("MegaRAID 9361-8i".into()),
        pci_address: Some("0000:3b:00.0".into()),
        battery: Some("Optimal".into()),
        drives: vec![VirtualDrive {
            name: "0/0".into(),
            level: Some("RAID5".into()),
            state: Some("Optl".into()),
            strip_bytes: Some(256 << 10),
            stripe_bytes: Some(768 << 10),
            write_policy: Some("WB".into()),
            kernel_name: Some("/dev/sda".into()),
            ..VirtualDrive::default()
        }],
        members: (0..4).map(member).collect(),
        ..Controller::default()
    }
}

fn asked(change: impl FnOnce(&mut Controller)) -> Bench {
    let mut bench = server("megaraid_sas", "DELL", "PERC H730P Mini");
    let mut controller = controller();
    change(&mut controller);
    bench.snapshot.controllers.push(controller);
    bench
}

#[test]
fn a_controller_that_nobody_asked() {
    let defect = server("megaraid_sas", "DELL", "PERC H730P Mini").one(invisible);
    assert_eq!((defect.gravity, defect.certainty), (Low, Certainty::Likely));
    assert_eq!(defect.fix[1].command.as_deref(), Some("fathom check --vendor-tools"));
    for (driver, vendor, model) in [
        ("smartpqi", "HPE", "LOGICAL VOLUME"),
        ("hpsa", "HP", "LOGICAL VOLUME"),
        ("aacraid", "ASR8805", "LogicalDrv 0"),
        ("arcmsr", "Areca", "ARC-1882-VOL#000"),
        ("3w-9xxx", "AMCC", "9650SE-8LP DISK"),
        ("3w-xxxx", "3ware", "Logical Disk 0"),
        ("mpt3sas", "LSI", "Logical Volume"),
        ("mptsas", "LSILOGIC", "Logical Volume"),
        ("hptiop", "HPT", "DISK_0_0"),
    ] {
        assert_eq!(server(driver, vendor, model).gravities(invisible), [Low], "{driver}");
    }
    // Drives that are handed through, and adapters that make no arrays.
    for (driver, vendor, model) in [
        ("megaraid_sas", "ATA", "ST4000NM0035"),
        ("megaraid_sas", "SEAGATE", "ST4000NM0025"),
        ("smartpqi", "HP", "EG0300FAWHV"),
        ("mpt3sas", "SEAGATE", "ST4000NM0025"),
        ("mptspi", "VMware", "Virtual disk"),
        ("aacraid", "SanDisk", "LT1600MO"),
        ("ahci", "ATA", "ST4000NM0035"),
    ] {
        assert_eq!(server(driver, vendor, model).gravities(invisible), [], "{driver} {vendor}");
    }
    assert_eq!(asked(|_| {}).gravities(invisible), []);
    let mut other = asked(|controller| controller.pci_address = Some("0000:5e:00.0".into()));
    assert_eq!(other.gravities(invisible), [Low], "asked was another one");
    other.snapshot.controllers[0].pci_address = None;
    assert_eq!(other.gravities(invisible), [], "the only one, without an address");
}

#[test]
fn names_of_devices() {
    assert!(
        same_slot("0000:3b:00.0", "0000:3b:00.1") && !same_slot("0000:3b:00.0", "0000:3c:00.0")
    );
    assert_eq!(bare("naa.600605B00CBD"), bare("0x600605b00cbd"));
}

#[test]
fn a_whole_controller_is_fine() {
    let bench = asked(|_| {});
    assert_eq!(bench.ids(super::RULES), [""; 0]);
}

#[test]
fn virtual_drives_that_are_not_whole() {
    let of = |state: &str| asked(|controller| controller.drives[0].state = Some(state.into()));
    for fine in ["Optl", "OK", "Optimal", "Impacted ( Build/Verify with fix : 0 % )"] {
        assert_eq!(of(fine).gravities(drives::degraded), [], "{fine}");
    }
    for bad in
        ["Dgrd", "Pdgd", "OfLn", "Interim Recovery Mode", "Recovering, 12% complete", "Failed"]
    {
        assert_eq!(of(bad).gravities(drives::degraded), [High], "{bad}");
    }
    let mut bench = of("Dgrd");
    bench.snapshot.controllers[0].members[2].state = Some("Failed".into());
    let defect = bench.one(drives::degraded);
    assert_eq!(defect.node.as_deref(), Some("/dev/sda"));
    assert_eq!(
        defect.summary,
        "virtual drive 0/0 (RAID5) of controller 0 (MegaRAID 9361-8i) is Dgrd; failed: 252:2"
    );
    assert_eq!(bench.gravities(drives::member_failing), [], "told with its array");
}

/// The array that is given back its redundancy needs no other drive.
#[test]
fn an_array_that_is_being_rebuilt() {
    let of = |change: fn(&mut Controller)| {
        asked(|controller| {
            controller.drives[0].state = Some("Dgrd".into());
            controller.housekeeping = vec!["consistency check 12 %".into()];
            change(controller);
        })
    };
    let advice = |bench: &Bench| bench.one(drives::degraded).fix[0].text.clone();
    let plain = of(|_| {});
    assert!(advice(&plain).starts_with("replace the failed member"));
    let bench = of(|controller| controller.members[2].state = Some("Rbld".into()));
    let summary = bench.one(drives::degraded).summary;
    assert!(summary.ends_with(" is Dgrd; running: rebuild of drive 252:2"), "{summary}");
    assert!(advice(&bench).starts_with("let the rebuild end and pull no drive"));
    // What else it does is told beside it, also after one cause is told once.
    let busy = bench.one(drives::busy).summary;
    assert!(busy.ends_with(" is busy with: consistency check 12 %"), "{busy}");
    let told = crate::check(&bench.snapshot);
    let rules: Vec<&str> = told.iter().map(|defect| defect.rule.as_str()).collect();
    assert!(rules.contains(&"raid-drive-degraded") && rules.contains(&"raid-busy"), "{rules:?}");
    let bench = of(|controller| {
        controller.drives[0].state = Some("Recovering, 12% complete".into());
        controller.housekeeping = vec!["Recovering, 12% complete (logical drive 1)".into()];
    });
    let summary = bench.one(drives::degraded).summary;
    assert!(summary.ends_with(" is Recovering, 12% complete"), "{summary}");
    assert!(advice(&bench).starts_with("let the rebuild end"));
    assert_eq!(bench.gravities(drives::busy), [], "told with the array");
    let bench = of(|controller| controller.drives[0].state = Some("OfLn".into()));
    assert!(advice(&bench).starts_with("replace and initialise nothing"));
}

#[test]
fn a_failing_drive_beside_an_array_that_is_not_whole_is_not_pulled() {
    let of = |change: fn(&mut Controller)| {
        let bench = asked(|controller| {
            controller.members[3].predicts_failure = Some(true);
            change(controller);
        });
        bench.one(drives::member_failing).fix[0].text.clone()
    };
    assert!(of(|_| {}).contains("replace it while the others are whole"));
    let degraded = of(|controller| controller.drives[0].state = Some("Dgrd".into()));
    assert!(degraded.starts_with("do not pull it now"), "{degraded}");
    let rebuilt = of(|controller| controller.members[2].state = Some("Rbld".into()));
    assert!(rebuilt.starts_with("do not pull it now"), "{rebuilt}");
}

#[test]
fn members_that_fail() {
    let of =
        |change: fn(&mut PhysicalDrive)| asked(|controller| change(&mut controller.members[1]));
    assert_eq!(of(|_| {}).gravities(drives::member_failing), []);
    let defect = of(|member| member.state = Some("UBad".into())).one(drives::member_failing);
    assert_eq!((defect.gravity, defect.certainty), (High, Certainty::Certain));
    let defect = of(|member| member.predicts_failure = Some(true)).one(drives::member_failing);
    assert_eq!((defect.gravity, defect.certainty), (High, Certainty::Likely));
    assert_eq!(
        of(|member| member.state = Some("Predictive Failure".into()))
            .gravities(drives::member_failing),
        [High]
    );
    let defect = of(|member| member.media_errors = Some(3)).one(drives::member_failing);
    assert_eq!(defect.gravity, Medium);
    assert_eq!(
        defect.summary,
        "drive 252:1 behind controller 0 (MegaRAID 9361-8i) has had 3 media errors"
    );
    // A spare, or one that was never configured, has not failed.
    for fine in ["UGood", "GHS", "DHS", "JBOD", "Ready", "Hot Spare"] {
        let bench = asked(|controller| controller.members[1].state = Some(fine.into()));
        assert_eq!(bench.gravities(drives::member_failing), [], "{fine}");
    }
}

#[test]
fn work_of_a_controller() {
    let of = |works: &[&str]| {
        asked(|c| c.housekeeping = works.iter().map(|w| (*w).to_owned()).collect())
    };
    assert_eq!(of(&[]).gravities(drives::busy), []);
    assert_eq!(of(&["patrol read 12 %"]).gravities(drives::busy), [Low]);
    assert_eq!(of(&["patrol read 12 %", "consistency check"]).gravities(drives::busy), [Medium]);
    let defect = asked(|c| c.members[0].state = Some("Rbld".into())).one(drives::busy);
    assert_eq!(
        defect.summary,
        "controller 0 (MegaRAID 9361-8i) is busy with: rebuild of drive 252:0"
    );
}

#[test]
fn batteries_and_what_depends_on_them() {
    let of = |battery: &str, policy: &str| {
        asked(|controller| {
            controller.battery = Some(battery.into());
            controller.drives[0].write_policy = Some(policy.into());
        })
    };
    for (battery, policy, expected) in [
        ("Optimal", "AWB", vec![]),
        ("Failed", "AWB", vec![High]),
        ("absent", "AWB", vec![High]),
        ("Charging", "AWB", vec![High]),
        ("Failed", "WB", vec![Medium]),
        ("absent", "WB", vec![Medium]),
        ("Charging", "WB", vec![Low]),
        ("Failed", "WT", vec![Low]),
        ("absent", "WT", vec![]),
    ] {
        assert_eq!(of(battery, policy).gravities(power::battery), expected, "{battery} {policy}");
    }
    of("Failed", "AWB").one(power::battery);
    assert_eq!(asked(|controller| controller.battery = None).gravities(power::battery), []);
}

#[test]
fn writing_through() {
    let of = |battery: &str| {
        asked(|controller| {
            controller.battery = Some(battery.into());
            controller.drives[0].write_policy = Some("WT".into());
        })
    };
    assert_eq!(of("Optimal").one(power::write_through).gravity, Low);
    assert_eq!(of("absent").one(power::write_through).gravity, Low);
    assert_eq!(of("Failed").gravities(power::write_through), [], "told with the battery");
    let mut flash = of("Optimal");
    flash.queue_of(0).rotational = Some(false);
    assert_eq!(flash.gravities(power::write_through), []);
}

#[test]
fn write_back_is_switched_on_by_the_tool_that_is_there() {
    for (tool, name, expected) in [
        ("storcli", "1/3", "storcli /c2/v3 set wrcache=wb"),
        ("perccli", "0/0", "perccli /c2/v0 set wrcache=wb"),
        ("storcli", "1/3; reboot", "storcli /c2/v3 set wrcache=wb"),
        ("ssacli", "1", "ssacli ctrl slot=2 ld 1 modify caching=enable"),
        ("arcconf", "0", "arcconf setcache 2 logicaldrive 0 wbb"),
    ] {
        let bench = asked(|controller| {
            (controller.tool, controller.number) = (tool.into(), 2);
            controller.drives[0].name = name.into();
            controller.drives[0].write_policy = Some("WT".into());
        });
        let text = format!("{:?}", bench.one(power::write_through));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn filesystems_for_another_stripe() {
    let of = |fs_type: &str, unit: u64, width: u64| {
        let mut bench = asked(|_| {});
        let partition = bench.partition("sda1", 1 << 20, 0);
        bench.content_of(partition).filesystem = Some(FsSuperblock {
            fs_type: fs_type.into(),
            block_bytes: Some(4096),
            stripe_unit_bytes: Some(unit << 10),
            stripe_width_bytes: Some(width << 10),
            ..FsSuperblock::default()
        });
        bench
    };
    assert_eq!(of("xfs", 256, 768).gravities(geometry::mismatch), []);
    assert_eq!(of("xfs", 0, 0).gravities(geometry::mismatch), [], "for no stripe");
    let defect = of("xfs", 64, 192).one(geometry::mismatch);
    assert_eq!((defect.gravity, defect.node.as_deref()), (Medium, Some("/dev/sda")));
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("mount -o sunit=512,swidth=1536 /dev/sda1 /MOUNTPOINT")
    );
    let defect = of("ext4", 256, 1024).one(geometry::mismatch);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("tune2fs -E stride=64,stripe_width=192 /dev/sda1")
    );
    // An array of Linux between has stripes of its own.
    let mut between = of("xfs", 64, 192);
    let array = between.md("md0", "raid0", &[1]);
    between.content_of(array).filesystem = between.content_of(1).filesystem.take();
    assert_eq!(between.gravities(geometry::mismatch), []);
}

#[test]
fn a_virtual_drive_is_found_by_its_wwn() {
    let bench = asked(|controller| {
        controller.drives[0].kernel_name = None;
        controller.drives[0].wwn = Some("600605B00CBDEB502B6A6A6A0F0F0F0F".into());
        controller.drives[0].state = Some("Dgrd".into());
    });
    assert_eq!(bench.one(drives::degraded).node.as_deref(), Some("/dev/sda"));
}
