//! Guests come up, do their job, tell how it went, and always go away again.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod qemu;

use fathom_testkit::Capability::{Tool, Uml};
use fathom_testkit::leftovers::{leftovers, take_down};
use fathom_testkit::{Bus, Guest, GuestError, GuestJob, GuestReport, kernel_test, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Set for the process that is killed while it has a guest.
const VICTIM: &str = "FATHOM_GUEST_VICTIM";

fn main() -> ExitCode {
    if std::env::var_os(VICTIM).is_some() {
        let _guest = Guest::boot(job().step("hang", "sleep 9999")).unwrap();
        std::thread::sleep(Duration::from_secs(9999));
        return ExitCode::FAILURE;
    }
    let needs = [Uml, Tool("busybox"), Tool("modprobe")];
    let mut trials = vec![
        kernel_test("steps_are_recorded", &needs, steps_are_recorded),
        kernel_test("a_failed_preparation_ends_the_job", &needs, a_failed_preparation),
        kernel_test("a_hung_guest_is_killed_whole", &needs, a_hung_guest_is_killed_whole),
        kernel_test("a_dropped_guest_is_killed_whole", &needs, a_dropped_guest_is_killed_whole),
        kernel_test("the_guest_of_a_killed_test_is_found", &needs, the_guest_of_a_killed_test),
        kernel_test("a_guest_that_dies_shows_its_console", &needs, a_guest_that_dies),
        kernel_test("a_guest_that_does_not_come_up", &needs, a_guest_that_does_not_come_up),
        kernel_test("a_power_cut_boots_again", &needs, a_power_cut_boots_again),
    ];
    trials.extend(qemu::trials());
    run(trials)
}

fn job() -> GuestJob {
    // Any directory of the host will do.
    GuestJob::new(Path::new("/usr/bin"))
}

fn outcome(job: GuestJob) -> Result<GuestReport, GuestError> {
    Guest::boot(job).and_then(Guest::wait)
}

fn steps_are_recorded() {
    let witness = PathBuf::from(format!("/tmp/guest-witness-{}", std::process::id()));
    let job = job()
        .disk(64 << 20)
        .prelude("shout() { echo \"loud $1\"; }\n")
        .setup("modules", "load sd_mod scsi_debug; wait_for /dev/sda")
        .step("ends", "shout out; echo err >&2; false; echo never")
        .step("disks", "blockdev --getsize64 /dev/ubda; ls /sys/block")
        .step("memory", &format!("echo x >{0}; cat {0}; echo 127 >/etc/mark", witness.display()))
        .step("root", "touch /usr/mark")
        .step("exits", "exit 7");
    let report = outcome(job).unwrap();
    let said = |name: &str| {
        let step = report.step(name);
        (step.code, step.stdout.trim().to_owned(), step.stderr.trim().to_owned())
    };
    assert_eq!(said("modules").0, Some(0));
    assert_eq!(said("ends"), (Some(1), "loud out".to_owned(), "err".to_owned()));
    let disks = said("disks").1;
    assert!(disks.starts_with("67108864") && disks.contains("sda"), "{disks}");
    // What looks like the host's files is the guest's memory, or cannot be written.
    assert_eq!(said("memory"), (Some(0), "x".to_owned(), String::new()));
    assert!(!witness.exists() && !Path::new("/etc/mark").exists());
    assert_eq!(said("root").0, Some(1));
    assert!(said("root").2.contains("Read-only file system"), "{}", said("root").2);
    assert!(!Path::new("/usr/mark").exists());
    assert_eq!(said("exits").0, Some(7));
}

fn a_failed_preparation() {
    let job = job().step("before", "true").setup("prepare", "echo because; exit 3").step("x", "");
    match outcome(job).unwrap_err() {
        GuestError::Step { step, code, output } => {
            assert_eq!((step.as_str(), code, output.as_str()), ("prepare", 3, "because"));
        }
        other => panic!("{other}"),
    }
}

/// Processes of guests of that process: they work in its scratch directories.
fn guest_processes(of: u32) -> Vec<PathBuf> {
    let own = format!("fathom-testkit-{of}-");
    let cwd = |entry: fs::DirEntry| fs::read_link(entry.path().join("cwd")).ok();
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(cwd);
    all.filter(|cwd| cwd.to_string_lossy().contains(&own)).collect()
}

/// Waits until a process has guests or has none any more.
fn wait_for(of: u32, some: bool) {
    let start = Instant::now();
    while guest_processes(of).is_empty() == some {
        assert!(start.elapsed() < Duration::from_secs(120), "{:?}", guest_processes(of));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_hung_guest_is_killed_whole() {
    hung(job, "read x </dev/console; sleep 9999");
    wait_for(std::process::id(), false);
}

/// What is said of a guest that hangs in this script.
fn hung(job: fn() -> GuestJob, script: &str) -> String {
    let hang = |limit_s| {
        let job = job().limit(Duration::from_secs(limit_s));
        outcome(job.step("first", "true").step("hang", script)).unwrap_err()
    };
    let is_hung =
        |error: &GuestError| matches!(error, GuestError::Lost { step, .. } if step == "hang");
    // A busy host may need longer to get there.
    let mut limit_s = 8;
    let mut error = hang(limit_s);
    while !is_hung(&error) && limit_s < 100 {
        limit_s *= 4;
        error = hang(limit_s);
    }
    let text = error.to_string();
    assert!(is_hung(&error), "{text}");
    assert!(text.contains(&format!("killed after {limit_s} s")), "{text}");
    text
}

fn a_dropped_guest_is_killed_whole() {
    let guest = Guest::boot(job().step("hang", "sleep 9999")).unwrap();
    wait_for(std::process::id(), true);
    drop(guest);
    wait_for(std::process::id(), false);
}

fn the_guest_of_a_killed_test() {
    let mut victim =
        Command::new(std::env::current_exe().unwrap()).env(VICTIM, "1").spawn().unwrap();
    wait_for(victim.id(), true);
    victim.kill().unwrap();
    victim.wait().unwrap();
    let own = format!("fathom-testkit-{}-", victim.id());
    let left = leftovers();
    let left: Vec<_> = left.iter().filter(|l| l.dir.to_string_lossy().contains(&own)).collect();
    assert!(left.iter().any(|left| left.what.starts_with("process ")), "{left:?}");
    take_down(&left[0].dir).unwrap();
    assert_eq!(guest_processes(victim.id()), Vec::<PathBuf>::new());
    assert!(!left[0].dir.exists());
}

/// Of User Mode Linux: memory is lost, what reached the disk stays.
fn a_power_cut_boots_again() {
    let job = job()
        .disk(1 << 20)
        .step("before", "echo x >/tmp/mark; printf kept | dd of=/dev/ubda oflag=sync status=none")
        .power_cut("cut")
        .step("after", "test ! -e /tmp/mark; head -c 4 /dev/ubda");
    let report = outcome(job).unwrap();
    assert_eq!(report.step("before").code, Some(0), "{}", report.step("before").said());
    assert_eq!(report.step("cut").code, Some(0));
    assert_eq!(report.step("after").code, Some(0));
    assert_eq!(report.step("after").stdout, "kept");
    let error = outcome(self::job().disk_on(Bus::Nvme, 1 << 20)).unwrap_err().to_string();
    assert!(error.contains("GuestJob::qemu"), "{error}");
}

fn a_guest_that_dies() {
    let error = outcome(job().step("panic", "echo c >/proc/sysrq-trigger")).unwrap_err();
    let text = error.to_string();
    assert!(matches!(&error, GuestError::Lost { step, .. } if step == "panic"), "{text}");
    assert!(text.contains("sysrq triggered crash"), "{text}");
}

fn a_guest_that_does_not_come_up() {
    let error = outcome(job().memory_mib(1)).unwrap_err();
    assert!(matches!(&error, GuestError::NotUp { .. }), "{error}");
    let job = GuestJob::new(Path::new("/no/such/tools")).step("x", "true");
    let error = outcome(job).unwrap_err();
    assert!(error.to_string().contains("/no/such/tools"), "{error}");
}
