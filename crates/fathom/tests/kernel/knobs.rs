//! `fathom knobs`: the settings as a user looks them up.

use crate::cli::{Sandbox, p};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, MountFs};
use fathom_testkit::{FsKind, LoopDevice, Mount, Trial, kernel_test};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("knobs_of_the_machine", &[FathomBinary], machine),
        kernel_test("knobs_of_a_device", &[FathomBinary, LoopDevices], device),
        kernel_test("old_words_of_knobs", &[FathomBinary], old_words),
        kernel_test(
            "knobs_an_overlay_has_the_read_ahead_below",
            &[FsOnLoop(FsKind::Ext4), MountFs("overlay")],
            overlay,
        ),
    ]
}

fn machine() {
    let sandbox = Sandbox::new();
    let all = sandbox.json(&["knobs"], &[0]);
    let knobs = all.result()["knobs"].as_array().unwrap().clone();
    assert!(knobs.len() > 100, "{}", knobs.len());
    for knob in &knobs {
        let id = knob["id"].as_str().unwrap();
        for value in knob["values"].as_array().unwrap() {
            assert!(value["value"].is_string() || value["error"].is_string(), "{id}: {value}");
        }
    }
    let swappiness = knobs.iter().find(|knob| knob["id"] == "vm.swappiness").unwrap();
    let now = fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    assert_eq!(swappiness["values"][0]["value"].as_str(), Some(now.trim()));
    assert_eq!(swappiness["persistent"]["text"], format!("vm.swappiness = {}", now.trim()));
    let text = sandbox.run(&["knobs"]);
    assert!(text.code == 0 && text.stdout.contains("vm.dirty_ratio"), "{text:?}");
    assert!(!sandbox.db().exists(), "nothing is stored");
}

fn device() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 << 20).unwrap();
    let path = device.path().display().to_string();
    let list = sandbox.run(&["knobs", &path]);
    assert!(list.code == 0 && list.stdout.contains("block.scheduler"), "{list:?}");
    let one = sandbox.json(&["knobs", "block.nr_requests", &path], &[0]);
    let values = one.result()["values"].as_array().unwrap().clone();
    let here = values.iter().find(|value| value["name"] == device.name()).unwrap();
    let file = format!("/sys/block/{}/queue/nr_requests", device.name());
    assert_eq!(here["value"].as_str(), Some(fs::read_to_string(file).unwrap().trim()));
    assert_eq!(here["legal"], "4 to 128 requests");
    let text = sandbox.run(&["knobs", "block.write_cache", &path]);
    assert!(text.code == 0 && text.stdout.contains("scsi.cache_type"), "{text:?}");
    sandbox.refuses(&["knobs", "block.nr_requests", "/no/such/device"], 2, &["/no/such"]);
}

fn old_words() {
    let sandbox = Sandbox::new();
    for (word, part) in [
        ("setra", "512-byte sectors"),
        ("--setra", "512-byte sectors"),
        ("cfq", "today's equivalent is bfq"),
        ("elevator", "does nothing since Linux 5.0"),
        ("/proc/sys/vm/dirty_ratio", "vm.dirty_ratio"),
    ] {
        let text = sandbox.run(&["knobs", word]);
        let words: Vec<&str> = text.stdout.split_whitespace().collect();
        assert!(text.code == 0 && words.join(" ").contains(part), "{word}: {text:?}");
    }
    sandbox.refuses(&["knobs", "block.schedular"], 2, &["did you mean 'block.scheduler'?"]);
}

/// What the words of block.read_ahead_kb say of overlays: files are read through them in the pieces of the device below.
fn overlay() {
    const FILE_BYTES: usize = 8 << 20;
    let below = mounted(FsKind::Ext4, &[], "");
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| below.dir().join(name));
    for dir in [&lower, &upper, &work] {
        fs::create_dir(dir).unwrap();
    }
    let options = format!("lowerdir={},upperdir={},workdir={}", p(&lower), p(&upper), p(&work));
    let queue = Path::new("/sys/block").join(below.device().name());
    let count = || {
        let stat = fs::read_to_string(queue.join("stat")).unwrap();
        stat.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let requests = |read_ahead_kib: u64| {
        let name = format!("file-{read_ahead_kib}");
        fs::write(lower.join(&name), vec![7; FILE_BYTES]).unwrap();
        File::open(lower.join(&name)).unwrap().sync_all().unwrap();
        fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
        fs::write(queue.join("queue/read_ahead_kb"), read_ahead_kib.to_string()).unwrap();
        let over = Mount::new("overlay", Path::new("overlay"), &options).unwrap();
        let before = count();
        let mut file = File::open(over.dir().join(&name)).unwrap();
        // A large read would be read ahead as far as it goes.
        let mut piece = [0; 4096];
        for _ in 0..FILE_BYTES / piece.len() {
            file.read_exact(&mut piece).unwrap();
        }
        count() - before
    };
    let (small, large) = (requests(16), requests(1024));
    // 512 pieces of 16 KiB, 8 of 1 MiB, and a few for names and maps.
    assert!(small >= 500 && large <= 100, "{small} {large}");
}
