//! The system as it really is: swap, limits, the kernel's log and I/O of the tests' own making.

use fathom_inspect::system::calendar;
use fathom_inspect::system::civil::{DAY_S, Date};
use fathom_inspect::system::io_now::Look;
use fathom_inspect::{Moment, scan, system_facts};
use fathom_model::snapshot::{Machine, Unread};
use fathom_model::system::{IoNow, SystemFacts};
use fathom_sys::mounts::own_mounts;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::capability::Capability::{LoopDevices, Root, Swap, Tool};
use fathom_testkit::command::{run_tool, tool};
use fathom_testkit::{LoopDevice, Scratch, Trial, kernel_test};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("system_of_this_machine", &[Root], this_machine),
        kernel_test("system_swap", &[Swap, LoopDevices], swap),
        kernel_test("system_kernel_log", &[LoopDevices], kernel_log),
        kernel_test("system_io_now", &[LoopDevices], io_now),
        kernel_test("system_io_limits", &[LoopDevices], io_limits),
        kernel_test("system_without_root", &[Root, Tool("setpriv")], without_root),
        kernel_test("calendar_agrees_with_systemd", &[Tool("systemd-analyze")], calendar_agrees),
    ]
}

fn look() -> (SystemFacts, Vec<Unread>) {
    let moment = Moment { now_unix_s: 1_795_316_400, utc_offset_s: 0 };
    let machine = scan(&SysRoot::live(), &[]).map(|scan| scan.machine).unwrap_or_default();
    system_facts(&SysRoot::live(), &machine, &moment)
}

fn this_machine() {
    let (facts, unread) = look();
    let file = |path: &str| fs::read_to_string(path).unwrap().trim().to_owned();
    let swappiness = facts.vm.iter().find(|(name, _)| name == "swappiness");
    assert_eq!(swappiness.unwrap().1, file("/proc/sys/vm/swappiness"));
    assert_eq!(facts.command_line, Some(file("/proc/cmdline")));
    let cpus = thread::available_parallelism().unwrap().get() as u64;
    assert!(facts.cpus_online >= Some(cpus));
    assert!(facts.stolen_share.is_some_and(|share| (0.0..=1.0).contains(&share)));
    assert!(facts.kernel_log_read, "{unread:?}");
    assert!(facts.kernel_log.len() <= 200);
    let lines = file("/proc/interrupts");
    for interrupt in &facts.interrupts {
        assert!(lines.contains(&interrupt.name), "{interrupt:?}");
        assert!(interrupt.allowed_cpus.is_some(), "{interrupt:?}");
    }
    assert_eq!(facts.interrupts.is_empty(), !lines.contains("-req.0") && !lines.contains("nvme0q"));
}

fn swap() {
    let device = LoopDevice::new(16 << 20).unwrap();
    run_tool("mkswap", [device.path()]).unwrap();
    run_tool("swapon", [device.path()]).unwrap();
    let (facts, _) = look();
    let path = device.path().display().to_string();
    let swap = facts.swaps.iter().find(|swap| swap.path == path).unwrap();
    assert_eq!((swap.node.as_deref(), swap.file), (Some(path.as_str()), false));
    // The first page holds the signature.
    assert_eq!((swap.size_bytes, swap.used_bytes), ((16 << 20) - 4096, 0));
}

/// A loop device over a file that has become shorter answers with errors, which the kernel logs. What a program writes into
/// the log is not the kernel's.
fn kernel_log() {
    let device = LoopDevice::new(4 << 20).unwrap();
    OpenOptions::new().write(true).open(device.backing()).unwrap().set_len(4096).unwrap();
    let mut block = [0; 4096];
    let read = fs::File::open(device.path()).unwrap().read_exact_at(&mut block, 2 << 20);
    assert!(read.is_err(), "nothing failed");
    let word = format!("fathom-test-{}", std::process::id());
    fs::write("/dev/kmsg", format!("<3>I/O error told by {word}\n")).unwrap();
    let (facts, _) = look();
    let name = format!("dev {},", device.name());
    let own = facts.kernel_log.iter().filter(|line| line.text.contains(&name));
    let own: Vec<_> = own.filter(|line| line.text.contains("I/O error")).collect();
    assert!(own.iter().any(|line| line.boot_us > 0 && line.level <= 4), "{:?}", facts.kernel_log);
    assert!(!facts.kernel_log.iter().any(|line| line.text.contains(&word)));
}

fn io_now() {
    let device = LoopDevice::new(8 << 20).unwrap();
    let is_done = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            let file = OpenOptions::new().write(true).open(device.path()).unwrap();
            for turn in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                file.write_all_at(&[turn as u8; 65536], turn % 100 * 65536).unwrap();
                file.sync_data().unwrap();
            }
        });
        // A slow disk may do nothing at all in half a second.
        let is_busy = |io: &IoNow| io.name == device.name() && io.operations_per_s > 1.0;
        let mut found = Vec::new();
        for _ in 0..60 {
            let root = SysRoot::live();
            found = Look::begin(&root).end(&root, Duration::from_millis(500));
            if found.iter().any(is_busy) {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
        found
    });
    let io = found.iter().find(|io| io.name == device.name()).unwrap();
    assert!(io.operations_per_s > 1.0 && io.bytes_per_s > 65536.0, "{io:?}");
    // Partitions and what did nothing are left out.
    assert!(found.iter().all(|io| Path::new("/sys/block").join(&io.name).exists()), "{found:?}");
}

/// A control group with a limit, gone when dropped.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn io_limits() {
    let device = LoopDevice::new(4 << 20).unwrap();
    let devno = fs::read_to_string(format!("/sys/block/{}/dev", device.name())).unwrap();
    let devno = devno.trim();
    let root = SysRoot::live();
    let mounts = own_mounts(&root);
    let place = mounts.iter().find(|mount| {
        let has_io =
            |file: &str| root.read(mount.mount_point.join(file)).is_ok_and(|c| c.contains("io"));
        mount.super_options.split(',').any(|option| option == "blkio")
            || mount.fs_type == "cgroup2" && has_io("cgroup.controllers")
    });
    let Some(place) = place else { panic!("no controller of I/O is mounted") };
    let (file, line) = if place.fs_type == "cgroup" {
        ("blkio.throttle.read_iops_device", format!("{devno} 500"))
    } else {
        fs::write(place.mount_point.join("cgroup.subtree_control"), "+io").unwrap();
        ("io.max", format!("{devno} riops=500"))
    };
    let group = Group(place.mount_point.join(format!("fathom-test-{}", std::process::id())));
    fs::create_dir(&group.0).unwrap();
    let (before, _) = look();
    assert!(!before.io_limits.iter().any(|limit| limit.devno.as_deref() == Some(devno)));
    fs::write(group.0.join(file), line).unwrap();
    let (facts, _) = look();
    let own: Vec<_> =
        facts.io_limits.iter().filter(|limit| limit.devno.as_deref() == Some(devno)).collect();
    assert_eq!(own.len(), 1, "{:?}", facts.io_limits);
    let name = group.0.file_name().unwrap().to_string_lossy();
    assert_eq!((own[0].group.as_str(), own[0].file.as_str()), (format!("/{name}").as_str(), file));
    assert!(own[0].value.contains("500"), "{own:?}");
}

/// Without root the log may be refused; that is told, and everything else is as before.
fn without_root() {
    let scratch = Scratch::new().unwrap();
    let program = scratch.join("inspect");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = tool("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    let output = command.env(super::CHILD, "system").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let readable = fs::metadata("/dev/kmsg").unwrap().permissions().mode() & 0o004 != 0
        && fs::read_to_string("/proc/sys/kernel/dmesg_restrict").unwrap().trim() == "0";
    let refused = text.lines().any(|line| line == "/dev/kmsg: no permission");
    assert_ne!(readable, refused, "{text}");
    assert!(text.lines().any(|line| line.starts_with("swappiness=")), "{text}");
}

/// What [`without_root`] reads: settings, then what could not be read.
pub fn print() {
    let moment = Moment::default();
    let (facts, unread) = system_facts(&SysRoot::live(), &Machine::default(), &moment);
    facts.vm.iter().for_each(|(name, value)| println!("{name}={value}"));
    unread.iter().for_each(|unread| println!("{}: {}", unread.what, unread.why));
}

/// Expressions of real timers, and combinations of parts.
fn expressions() -> Vec<String> {
    let mut all: Vec<String> = [
        "minutely",
        "hourly",
        "daily",
        "weekly",
        "monthly",
        "quarterly",
        "semiannually",
        "yearly",
        "Sun *-*-1..7 1:00:00",
        "*-*-* 6,18:00",
        "Mon-Fri 5:00",
        "*:0/15",
        "Sat,Sun 20:00",
        "2027-02-28",
        "*-02-29 12:00",
        "*-1/3-31 02:00",
        "Mon..Wed,Sat *-*-10..20/3 *:30:15",
        "2027..2030-*-* 0:0",
        "Sunday 4:5:6 UTC",
        "*:*/15",
        "Fri..Mon",
        "25:00",
        "*-13-01",
        "1/0:00",
        "",
    ]
    .map(str::to_owned)
    .to_vec();
    for days in ["", "Tue ", "Mon..Fri "] {
        for date in ["*-*-*", "*-*-31", "*-3,9-1..7", "*-2-28/1"] {
            for time in ["3:10", "0..5/2:45:30", "23:59:59", "*:0"] {
                all.push(format!("{days}{date} {time}"));
            }
        }
    }
    all
}

fn calendar_agrees() {
    // Around a leap day, the end of a year, the moment of an expression itself, and an ordinary day.
    let bases = [1_795_316_400, 1_835_395_199, 1_830_297_599, 1_795_316_399];
    for text in expressions() {
        for base in bases {
            let mut command = tool("systemd-analyze");
            command.env("TZ", "UTC").arg("calendar").arg(format!("--base-time={}", shown(base)));
            let output = command.arg(&text).output().unwrap();
            let theirs = String::from_utf8_lossy(&output.stdout).into_owned();
            let next = theirs.lines().find_map(|line| line.trim().strip_prefix("Next elapse: "));
            let own = calendar::parse(&text);
            assert_eq!(own.is_some(), output.status.success(), "{text}: {output:?}");
            let own = own.map(|own| own.next_after(base, 0).map_or("never".to_owned(), shown));
            assert_eq!(own.as_deref(), next, "{text} after {}", shown(base));
        }
    }
}

/// As systemd writes it: `Sun 2026-12-06 01:00:00 UTC`.
fn shown(unix_s: i64) -> String {
    let (day, time) = (unix_s.div_euclid(DAY_S), unix_s.rem_euclid(DAY_S));
    let weekday = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][Date::weekday_of(day) as usize];
    let Date { year, month, day } = Date::of_day(day);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{weekday} {year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}
