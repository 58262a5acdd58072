//! What watching costs: a hundred devices once a second, in CPU time of the thread that watches.

use fathom_model::watch::WatchRecord;
use fathom_observe::sample::{Choice, Moment, Watcher};
use fathom_sys::threads;
use fathom_testkit::Tree;
use std::fmt::Write as _;
use std::io::Write as _;

const DEVICES: usize = 100;
const LOOKS: u64 = 100;
/// What runs beside, of which the kernel's threads are a tenth.
const PROCESSES: usize = 5000;
/// Disks with an adapter of their own, and the interrupt lines of each.
const ADAPTERS: usize = 24;
const LINES: usize = 64;

/// A hundred disks, eight in each array, all busy.
fn machine() -> Tree {
    let tree = Tree::new();
    for at in 0..DEVICES {
        let name = format!("sd{at}");
        let adapter =
            if at < ADAPTERS { format!("pci0000:00/0000:{at:02x}:00.0") } else { "x".into() };
        let dir = format!("{adapter}/block/{name}");
        tree.device(&dir, &format!("8:{at}"), &[("diskseq", "1")]);
        let array = format!("md{}", at / 8);
        tree.put(format!("sys/devices/{dir}/holders/{array}/x"), "");
        tree.put(format!("sys/devices/v/block/{array}/slaves/{name}/x"), "");
    }
    for array in 0..DEVICES.div_ceil(8) {
        let attributes = [("md/level", "raid6"), ("md/sync_action", "idle")];
        tree.device(&format!("v/block/md{array}"), &format!("9:{array}"), &attributes);
    }
    for at in 0..ADAPTERS {
        let adapter = format!("sys/devices/pci0000:00/0000:{at:02x}:00.0");
        tree.link(format!("{adapter}/subsystem"), "../../../bus/pci");
        for line in (0..LINES).map(|line| at * LINES + line) {
            tree.put(format!("{adapter}/msi_irqs/{line}"), "msix");
            tree.put(format!("sys/kernel/irq/{line}/actions"), format!("adapter{at}q{line}"));
        }
    }
    let threads: Vec<String> = (1000..1000 + PROCESSES / 10).map(|pid| pid.to_string()).collect();
    tree.put("proc/2/task/2/children", threads.join(" "));
    for pid in 1000..1000 + PROCESSES {
        tree.put(format!("proc/{pid}/comm"), format!("kworker/{pid}:1"));
    }
    tree.put("sys/kernel/uevent_seqnum", "5000");
    let cpus = "cpu0 1 2 3 4 5 6 7 8 9 10\n".repeat(64);
    let interrupts = " 12345".repeat(2000);
    tree.put("proc/stat", format!("cpu  1 2 3 4 5 6 7 8\n{cpus}intr 9{interrupts}\nctxt 77\n"));
    for of in ["io", "memory", "cpu"] {
        tree.put(format!("proc/pressure/{of}"), "some avg10=0 total=1\nfull avg10=0 total=1\n");
    }
    tree.put("proc/meminfo", "Filler: 1 kB\n".repeat(50));
    tree
}

fn counters(tree: &Tree, n: u64) {
    let mut text = String::new();
    let arrays = DEVICES.div_ceil(8);
    let names = (0..DEVICES).map(|at| (8, at, format!("sd{at}")));
    for (major, minor, name) in names.chain((0..arrays).map(|at| (9, at, format!("md{at}")))) {
        let _ = writeln!(
            text,
            "{major} {minor} {name} {} {} {} {} {} {} {} {} 3 {} {} {} 0 {} {} {} {}",
            n * 1234,
            n,
            n * 80_000,
            n * 2500,
            n * 700,
            n * 3,
            n * 16_000,
            n * 9000,
            n * 990,
            n * 11_000,
            n * 5,
            n * 800,
            n * 7,
            n * 40,
            n * 80
        );
    }
    tree.put("proc/diskstats", text);
}

#[test]
fn what_a_hundred_devices_a_second_cost() {
    let tree = machine();
    counters(&tree, 1);
    let moment = |n: u64| Moment { monotonic_ns: n * 1_000_000_000, unix_ns: 0 };
    let mut watcher = Watcher::new(&tree.root(), Choice::All, moment(1), None);
    assert_eq!(watcher.layers().len(), DEVICES + DEVICES.div_ceil(8));
    let with_lines = watcher.layers().iter().filter(|layer| layer.interrupts.len() == LINES);
    assert_eq!(with_lines.count(), ADAPTERS);
    let mut record = WatchRecord::new(1_000_000_000, 0);
    let mut used_ns = 0;
    for n in 2..LOOKS + 2 {
        counters(&tree, n);
        let before = threads::thread_cpu();
        let sample = watcher.look(moment(n), None);
        record.push(&sample);
        let used = threads::thread_cpu().since(before);
        used_ns += used.user_ns + used.system_ns;
        assert_eq!(sample.devices.len(), DEVICES + DEVICES.div_ceil(8));
        assert_eq!(sample.devices[0].counts.reads.requests, 1234);
    }
    let percent = used_ns as f64 / (LOOKS as f64 * 1e9) * 100.0;
    // Past the test harness, which keeps what passing tests print.
    let said = format!(
        "\nCOUNTED watching 113 devices once a second, percent of a processor: {percent:.2}\n"
    );
    std::io::stdout().write_all(said.as_bytes()).expect("printed");
    // A tenth of a percent as a rule; machines that run tests are busy, and this is no release.
    assert!(percent < 5.0, "{percent} %");
    let text = serde_json::to_string(&record).expect("a record");
    println!(
        "stored: {:.1} characters for each device and second",
        text.len() as f64 / (113.0 * LOOKS as f64)
    );
}
