//! Filesystems over several devices, on each of them, and their journals: what a plan may ask for, and which cells that makes.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

use fathom_model::plan::cell::Cell;
use fathom_plan::{Unchecked, cells, read};

const LOAD: &str = "question = \"Which?\"\n[[workload]]\nuse = \"randread\"\n";

fn cells_of(rest: &str) -> Vec<Cell> {
    let plan = read(&format!("{LOAD}{rest}"), "plan", &Unchecked).expect("read");
    cells(&plan).expect("cells")
}

/// Name of each cell, how many devices it takes, and why it cannot be.
fn outcome(rest: &str) -> Vec<(String, usize, Option<String>)> {
    let one = |cell: Cell| (cell.name(), cell.setup.devices.len(), cell.impossible);
    cells_of(rest).into_iter().map(one).collect()
}

fn refused(rest: &str, words: &str) {
    let error = read(&format!("{LOAD}{rest}"), "plan", &Unchecked).expect_err(rest).to_string();
    assert!(error.contains(words), "{rest}: {error}");
}

#[test]
fn profiles_are_levels_and_take_all_devices() {
    let rest = "[setup]\ndevices = [\"3 x loop:1G\"]\nfilesystem = \"btrfs\"\n\
        [factors]\nfilesystem.data_profile = [\"single\", \"raid1\", \"raid10\"]\n[design]\nexcept = [{ data_profile = \"raid10\" }]\n";
    assert_eq!(
        outcome(rest),
        [("data_profile=single".to_owned(), 3, None), ("data_profile=raid1".to_owned(), 3, None)]
    );
    let without = rest.split("[design]").next().expect("a part");
    refused(without, "raid10 needs at least 4 devices below, and there are 3");
    // Without a word about profiles everything is as it was: the first device alone.
    let plain = "[setup]\ndevices = [\"3 x loop:1G\"]\n[factors]\nfilesystem.type = [\"ext4\", \"btrfs\"]\n";
    assert!(outcome(plain).iter().all(|(_, devices, _)| *devices == 1));
}

#[test]
fn profiles_mean_nothing_for_other_filesystems() {
    let fixed = "[setup]\ndevices = [\"2 x loop:1G\"]\nfilesystem.metadata_profile = \"raid1\"\n\
        [factors]\nfilesystem.type = [\"ext4\", \"btrfs\"]\n";
    let cells = cells_of(fixed);
    let profile =
        |cell: &Cell| cell.setup.filesystem.as_ref().and_then(|fs| fs.metadata_profile.clone());
    assert_eq!(cells.iter().map(profile).collect::<Vec<_>>(), [None, Some("raid1".to_owned())]);
    assert_eq!(cells.iter().map(|c| c.setup.devices.len()).collect::<Vec<_>>(), [1, 2]);
    let varied = "[setup]\ndevices = [\"2 x loop:1G\"]\n[factors]\nfilesystem.type = [\"ext4\", \"btrfs\"]\n\
        filesystem.data_profile = [\"single\", \"raid0\"]\n";
    let na: Vec<_> =
        outcome(varied).into_iter().filter_map(|(name, _, why)| Some((name, why?))).collect();
    let reason = "ext4 has no profiles; measured once, with the first level".to_owned();
    assert_eq!(na, [("filesystem=ext4 data_profile=raid0".to_owned(), reason)]);
    let setup = |rest: &str| format!("[setup]\ndevices = [\"2 x loop:1G\"]\n{rest}");
    refused(
        &setup("filesystem.type = \"xfs\"\nfilesystem.data_profile = \"raid0\"\n"),
        "xfs has no profiles; btrfs has",
    );
    refused(
        &setup("filesystem.type = \"btrfs\"\nfilesystem.data_profile = \"raid5\"\n"),
        "must be one of single, dup, raid0, raid1, raid10",
    );
    refused(
        &setup(
            "filesystem.type = \"btrfs\"\nfilesystem.data_profile = \"raid0\"\nfilesystem.make_options = \"-d single\"\n",
        ),
        "-d in filesystem.make_options says it, too",
    );
    refused(
        &setup(
            "array.level = \"raid0\"\nfilesystem.type = \"btrfs\"\nfilesystem.data_profile = \"raid1\"\n",
        ),
        "raid1 needs at least 2 devices below, and there is one",
    );
}

#[test]
fn journals_are_shared_or_not() {
    let rest = "[[workload]]\nuse = \"commit\"\nlabel = \"beside\"\ntarget = \"setup:2\"\n\
        [setup]\ndevices = [\"/dev/sdb\", \"/dev/sdc\"]\nfilesystem.type = \"ext4\"\nfilesystem.each = true\n\
        [factors]\nfilesystem.journal = [\"internal\", \"/dev/sdd\", \"/dev/sdd,/dev/sde\"]\n";
    let cells = cells_of(rest);
    assert_eq!(cells.len(), 3);
    for (cell, journals) in cells.iter().zip([&[][..], &["/dev/sdd"], &["/dev/sdd", "/dev/sde"]]) {
        assert_eq!(cell.impossible, None);
        assert_eq!(cell.setup.devices.len(), 2, "each has one");
        let filesystem = cell.setup.filesystem.as_ref().expect("ext4");
        assert_eq!(filesystem.journals().collect::<Vec<_>>(), journals);
    }
    let with = |from: &str, to: &str| rest.replace(from, to);
    refused(
        &with("\"/dev/sdd,/dev/sde\"", "\"/dev/sdd,/dev/sde,/dev/sdf\""),
        "3 devices for the journals of 2 filesystems",
    );
    refused(&with("\"/dev/sdd,/dev/sde\"", "\"/dev/sdd,/dev/sdd\""), "names a device twice");
    refused(
        &with("\"/dev/sdd,/dev/sde\"", "\"/dev/sdd,/dev/sdc\""),
        "the journal cannot lie on /dev/sdc",
    );
    refused(
        &with("setup:2", "setup:3"),
        "setup:3: the setup makes 2 filesystems, setup:1 to setup:2",
    );
    refused(
        &with("filesystem.each = true\n", "").replace("\"/dev/sdd,/dev/sde\"", "\"/dev/sde\""),
        "setup:2: the setup makes one filesystem, setup:1; filesystem.each = true",
    );
    refused(&with(", \"/dev/sdc\"]", "]"), "needs at least two devices below, and there is one");
    let text = format!("target = \"setup:2\"\n{LOAD}");
    let error = read(&text, "plan", &Unchecked).expect_err("no target").to_string();
    assert!(error.contains("the target of a workload only"), "{error}");
}

#[test]
fn a_map_takes_all_devices_as_paths_to_one_disk() {
    let setup = |rest: &str| format!("[setup]\ndevices = [\"/dev/sda\", \"/dev/sdb\"]\n{rest}");
    let factors = "[factors]\nmultipath.policy = [\"multibus\", \"failover\", \"1,0\"]\nmultipath.failed = [0, 1]\n";
    let cells = cells_of(&setup(&format!("multipath.selector = \"round-robin\"\n{factors}")));
    assert_eq!(cells.len(), 6);
    for cell in &cells {
        let map = cell.setup.multipath.as_ref().expect("a map");
        assert_eq!((map.selector.as_str(), cell.setup.devices.len()), ("round-robin", 2));
        assert_eq!(cell.impossible, None);
    }
    assert_eq!(cells[1].name(), "multipath=multibus failed=1");
    let groups = |cell: &Cell| cell.setup.multipath.as_ref().and_then(|map| map.groups(2));
    assert_eq!(groups(&cells[2]), Some(vec![vec![0], vec![1]]));
    assert_eq!(groups(&cells[4]), Some(vec![vec![1, 0]]));
    for (rest, words) in [
        ("multipath.policy = \"multibus\"\nmultipath.failed = 2\n", "the last one must work"),
        ("multipath.policy = \"0\"\n", "must name each of the 2 paths once, from 0 to 1"),
        ("multipath.policy = \"0,1/1\"\n", "must name each of the 2 paths once"),
        ("multipath.policy = \"round\"\n", "must be multibus, failover, or groups"),
        ("multipath.selector = \"service-time\"\n", "no multipath map that it could belong to"),
        (
            "multipath.policy = \"multibus\"\nmultipath.selector = \"rr\"\n",
            "must be one of round-robin",
        ),
        ("multipath = \"multibus\"\narray = \"raid1\"\n", "no array can join it"),
        ("multipath = \"multibus\"\nslice.start = \"1G\"\n", "maps have no partitions"),
        ("multipath = \"multibus\"\nvolume = \"striped\"\n", "at least two devices below"),
    ] {
        refused(&setup(rest), words);
    }
    refused(
        "[setup]\ndevices = [\"2 x loop:1G\"]\nmultipath = \"multibus\"\n",
        "is no path to a disk",
    );
}
