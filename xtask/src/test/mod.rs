//! `cargo xtask test`: the tiers, one program after the other, counted.

mod packages;
mod programs;
mod tally;

use crate::process::{self, in_words};
use crate::{Outcome, flags::Flags};
use programs::{Built, Program};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
pub use tally::Tally;

pub const HELP: &str = "\
cargo xtask test [--install] [--tier=pure|kernel|guest]...

runs all tests, or those of the named tiers, and counts what passed, failed and was skipped

  pure     unit and integration tests that need nothing of the machine, and doc tests
  kernel   tests on loop devices, file systems, zram, io_uring: targets named 'kernel'; most need root
  guest    tests inside a guest kernel: targets named 'guest'

  --install   as root, first installs the missing Debian packages; no daemon is started

Tests that cannot run here are skipped, counted, and named with the reason. The last line is the sum:
'168 passed, 0 failed, 2 skipped'. Fails when a test failed, hung, or left a mount or loop device behind.
Others may use the machine, whose time many tests depend on: up to ten failures of a tier are run again by themselves,
and those that pass then are counted as passed and named as unsteady.
";

/// Kinds of tests, by what they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Nothing.
    Pure,
    /// The host's kernel, usually root.
    Kernel,
    /// A guest kernel.
    Guest,
}

impl Tier {
    const ALL: [Self; 3] = [Self::Pure, Self::Kernel, Self::Guest];

    fn name(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Kernel => "kernel",
            Self::Guest => "guest",
        }
    }
}

/// How long one test program may take before it is killed: some times what the slowest of them takes, so that only one that
/// hangs does.
const LIMIT: Duration = Duration::from_secs(40 * 60);
/// What the files of the tests take at most, at the same time.
const ROOM_BYTES: u64 = 8 << 30;
/// So many failures of a tier are run again by themselves; more are not the machine's doing.
const AGAIN_MAX: usize = 10;
/// How many of the slowest tests are named.
const SLOWEST: usize = 40;

/// What to run and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Install missing packages first.
    pub install: bool,
    /// The tiers, in their order.
    pub tiers: Vec<Tier>,
    /// Full counts instead of samples.
    pub soak: bool,
}

/// The results of all tiers that ran.
#[derive(Debug, Default)]
pub struct Report {
    tiers: Vec<(Tier, Tally, Duration)>,
    /// What else took time.
    pub parts: Vec<(String, Duration)>,
    /// Failures that belong to no test: a build, a check, something left behind.
    pub failures: Vec<String>,
    /// What could not be shown here and belongs to no test, with the reason.
    pub skips: Vec<(String, String)>,
}

/// The command.
///
/// # Errors
/// For bad options, or when cargo cannot be run.
pub fn run(args: &[String]) -> Outcome {
    let flags = Flags::parse(args, &["--install"], &["--tier"])?;
    let tiers = parse_tiers(&flags.values("--tier"))?;
    let options = Options { install: flags.has("--install"), tiers, soak: false };
    let report = run_tiers(&options, || None)?;
    report.print();
    Ok(report.is_success())
}

fn parse_tiers(names: &[&str]) -> Result<Vec<Tier>, String> {
    for name in names {
        if !Tier::ALL.iter().any(|tier| tier.name() == *name) {
            return Err(format!("no tier '{name}'; there are pure, kernel, guest"));
        }
    }
    let is_wanted = |tier: &Tier| names.is_empty() || names.contains(&tier.name());
    Ok(Tier::ALL.into_iter().filter(is_wanted).collect())
}

/// Every tier, in its order.
#[must_use]
pub fn all_tiers() -> Vec<Tier> {
    Tier::ALL.to_vec()
}

/// Builds the tests only.
///
/// # Errors
/// When cargo cannot be run at all.
pub fn build() -> Result<(), String> {
    programs::build().map(drop)
}

/// Builds the tests and runs the tiers; failures are in the report. What is still built by then goes on beside the tests that do
/// not mind; `shipped` waits for it, and gives the binary that people get.
///
/// # Errors
/// When cargo cannot be run at all.
pub fn run_tiers(
    options: &Options,
    shipped: impl FnOnce() -> Option<PathBuf>,
) -> Result<Report, String> {
    let mut report = Report::default();
    if options.install {
        let start = Instant::now();
        packages::install();
        report.parts.push(("packages".to_owned(), start.elapsed()));
    }
    let start = Instant::now();
    let built = programs::build()?;
    report.parts.push(("building the tests".to_owned(), start.elapsed()));
    let Some(built) = built else {
        report.failures.push("the tests do not compile".to_owned());
        return Ok(report);
    };
    if let Some(sweeper) = &built.sweeper {
        for line in sweep(sweeper) {
            println!("left by an earlier run, removed: {line}");
        }
    }
    if let Some(reason) = lacks_room(&std::env::temp_dir()) {
        report.failures.push(reason);
        return Ok(report);
    }
    let (mut shipped, mut waited) = (Some(shipped), Duration::ZERO);
    let mut wait_for_builds = || {
        let start = Instant::now();
        if let Some(path) = shipped.take().and_then(|wait| wait()) {
            // It is waited for once.
            let _ = built.shipped.set(path);
        }
        waited += start.elapsed();
    };
    for tier in &options.tiers {
        let start = Instant::now();
        let mut tally = run_programs(*tier, &built, options, &mut wait_for_builds);
        if !options.soak {
            run_again(*tier, &mut tally, &built, options);
        }
        if *tier == Tier::Pure {
            tally.add(programs::run_doc_tests(LIMIT)?);
        }
        report.tiers.push((*tier, tally, start.elapsed()));
    }
    report.parts.push(("waiting for the static binary".to_owned(), waited));
    if let Some(sweeper) = &built.sweeper {
        report
            .failures
            .extend(sweep(sweeper).into_iter().map(|line| format!("left behind: {line}")));
    }
    Ok(report)
}

/// Why the tests cannot have their files there: a twentieth of a filesystem is what fathom itself leaves free, and what it then
/// refuses fails in a hundred places that do not say so.
fn lacks_room(dir: &Path) -> Option<String> {
    let output = Command::new("df").args(["-B1", "--output=size,avail"]).arg(dir).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (size_bytes, available_bytes) = (numbers.next()?, numbers.next()?);
    let needed_bytes = (size_bytes / 20).max(1 << 30) + ROOM_BYTES;
    (available_bytes < needed_bytes).then(|| {
        format!(
            "no room for the tests: {} has {:.1} GB free, and {:.1} GB are needed (a twentieth of the filesystem stays free); remove something or set TMPDIR",
            dir.display(),
            available_bytes as f64 / 1e9,
            needed_bytes as f64 / 1e9,
        )
    })
}

/// All programs of a tier: two at a time where they have no need of the machine for themselves, the others one after the other, when
/// `wait_for_builds` has returned. In a soak, whose kills and counts take all that the machine has, nothing runs beside anything.
fn run_programs(
    tier: Tier,
    built: &Built,
    options: &Options,
    wait_for_builds: &mut dyn FnMut(),
) -> Tally {
    let all = built.programs.iter().filter(|program| program.tier == tier);
    let run = |programs: &[&Program], how: How| {
        let mut tally = Tally::default();
        programs.iter().for_each(|p| tally.add(run_program(p, built, options, how, &[])));
        tally
    };
    let is_alone = |program: &&Program| match tier {
        Tier::Pure => TIMED.contains(&program.crate_name.as_str()),
        Tier::Kernel | Tier::Guest => program.crate_name == LARGEST,
    };
    let (alone, others): (Vec<&Program>, Vec<&Program>) = all.partition(is_alone);
    if options.soak || tier == Tier::Kernel && !process::can_have_own_locks() {
        wait_for_builds();
        let mut tally = run(&alone, How::Plain);
        tally.add(run(&others, How::Plain));
        return tally;
    }
    let every_second = |odd: usize| others.iter().copied().skip(odd).step_by(2).collect::<Vec<_>>();
    let in_pairs = || {
        let (some, rest) = (every_second(0), every_second(1));
        side_by_side(|| run(&some, How::Plain), || run(&rest, How::Plain))
    };
    if tier == Tier::Pure {
        let mut tally = in_pairs();
        wait_for_builds();
        tally.add(run(&alone, How::Plain));
        return tally;
    }
    wait_for_builds();
    if tier == Tier::Kernel {
        return side_by_side(|| run(&alone, How::Plain), || run(&others, How::OwnLocks));
    }
    // The largest program runs as many guests at a time as there are processors.
    let mut tally = run(&alone, How::Plain);
    tally.add(in_pairs());
    tally
}

/// The sum of both, which run at the same time.
fn side_by_side(one: impl FnOnce() -> Tally, other: impl FnOnce() -> Tally + Send) -> Tally {
    std::thread::scope(|scope| {
        let beside = scope.spawn(other);
        let mut tally = one();
        let failed = |_| Tally::of_failure("the programs beside: their thread failed".to_owned());
        tally.add(beside.join().unwrap_or_else(failed));
        tally
    })
}

/// The crate with more than half of the tests of the kernel tier.
const LARGEST: &str = "fathom";
/// Crates some of whose pure tests need a processor in time.
const TIMED: [&str; 3] = ["fathom-load", "fathom-observe", "fathom-tree"];

/// How a test program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// As it is.
    Plain,
    /// With a `/run/lock` of its own, where the lock of measurements lies: another program may measure at the same time.
    OwnLocks,
}

/// Runs the failed tests once more, each by itself. What fails again has failed; what passes is named as unsteady.
fn run_again(tier: Tier, tally: &mut Tally, built: &Built, options: &Options) {
    if tally.failures.len() > AGAIN_MAX {
        return;
    }
    for failure in tally.failures.clone() {
        // A failure that belongs to no test has no such name.
        let Some((short_crate, name)) = failure.split_once("::") else { continue };
        let of_crate =
            |program: &&Program| program.tier == tier && program.short_crate() == short_crate;
        let runs = built.programs.iter().filter(of_crate);
        let mut again = Tally::default();
        runs.for_each(|program| {
            again.add(run_program(program, built, options, How::Plain, &["--exact", name]))
        });
        tally.settle(&failure, &again);
    }
}

fn run_program(
    program: &Program,
    built: &Built,
    options: &Options,
    how: How,
    args: &[&str],
) -> Tally {
    println!("\n== {} {} {}", program.tier.name(), program.label(), args.join(" "));
    let mut command = match how {
        How::Plain => process::with_all_signals(&program.path),
        How::OwnLocks => process::with_own_locks(&program.path),
    };
    command.args(args);
    command.current_dir(&program.directory).env("CARGO_MANIFEST_DIR", &program.directory);
    if let Some(fathom) = fathom_for(program.tier, built) {
        command.env("FATHOM_BIN", fathom);
    }
    if packages::python_path().is_dir() {
        command.env("PYTHONPATH", packages::python_path());
    }
    let factor = if options.soak { 20 } else { 1 };
    command.env("FATHOM_SOAK", if options.soak { "1" } else { "0" });
    let mut reader = tally::Reader::new(program.short_crate());
    let limit = LIMIT * factor;
    match process::stream(&mut command, limit, |line| reader.line(line)) {
        Ok(finished) => reader.finish(&program.label(), &finished, program.tier != Tier::Pure),
        Err(error) => Tally::of_failure(format!("{}: {error}", program.label())),
    }
}

/// The binary that tests of a tier run. Guests run the shipped one where it was built: it is the one that people get, and an emulated
/// processor takes less time for it.
fn fathom_for(tier: Tier, built: &Built) -> Option<&Path> {
    let shipped = built.shipped.get().filter(|_| tier == Tier::Guest);
    shipped.or(built.fathom.as_ref()).map(PathBuf::as_path)
}

/// Lists what dead tests left behind and removes it.
fn sweep(sweeper: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut command = process::bound(sweeper);
    command.arg("--remove");
    let result =
        process::stream(&mut command, Duration::from_secs(120), |line| lines.push(line.to_owned()));
    if let Err(error) = result {
        lines.push(error);
    }
    lines
}

impl Report {
    /// True when nothing failed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.total().failed == 0
    }

    /// The sum of all tiers and other failures.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        for (_, tally, _) in &self.tiers {
            total.add(tally.clone());
        }
        for failure in &self.failures {
            total.add(Tally::of_failure(failure.clone()));
        }
        total.skipped += self.skips.len() as u64;
        total
    }

    /// One line per tier with its time, for people and for `docs/soak.md`.
    #[must_use]
    pub fn times(&self) -> String {
        let time = |(tier, _, time): &(Tier, Tally, Duration)| {
            format!("{} {}", tier.name(), in_words(*time))
        };
        let parts = self.parts.iter().map(|(name, time)| format!("{name} {}", in_words(*time)));
        self.tiers.iter().map(time).chain(parts).collect::<Vec<_>>().join(", ")
    }

    /// The closing lines; the very last is the sum.
    pub fn print(&self) {
        print!("\n{}", self.closing());
    }

    fn closing(&self) -> String {
        let total = self.total();
        let mut text = String::new();
        let mut push = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        total.samples.iter().for_each(|sample| push(format!("sample: {sample}")));
        let slowest = total.slowest(SLOWEST);
        slowest.iter().for_each(|(name, took)| push(format!("slow: {} {name}", in_words(*took))));
        if !self.tiers.is_empty() {
            push(format!("time: {}", self.times()));
        }
        for (tier, tally, _) in &self.tiers {
            push(format!("{:<8}{}", format!("{}:", tier.name()), tally.line()));
            tally.failures.iter().for_each(|name| push(format!("  failed {name}")));
            tally.unsteady.iter().for_each(|name| {
                push(format!("  unsteady {name}: failed among the others, passed by itself"));
            });
            tally
                .skips
                .iter()
                .for_each(|(name, reason)| push(format!("  skipped {name}: {reason}")));
        }
        self.failures.iter().for_each(|failure| push(format!("failed: {failure}")));
        self.skips.iter().for_each(|(what, why)| push(format!("skipped: {what}: {why}")));
        push(total.line());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn closing_lines() {
        let mut pure = Tally { passed: 123, ..Tally::default() };
        pure.samples.push("kills: 40".to_owned());
        pure.times.push(("stats lib".to_owned(), Duration::from_secs(2)));
        let mut kernel = Tally { passed: 45, skipped: 1, ..Tally::default() };
        let reason = "make-bcache is not installed (apt: bcache-tools)".to_owned();
        kernel.times.push(("guard::kills".to_owned(), Duration::from_secs(70)));
        kernel.skips.push(("guard::bcache".to_owned(), reason));
        kernel.add(Tally::of_failure("guard::swap".to_owned()));
        kernel.unsteady.push("fathom::size".to_owned());
        let second = Duration::from_secs(1);
        let report = Report {
            tiers: vec![(Tier::Pure, pure, second), (Tier::Kernel, kernel, second * 80)],
            parts: vec![("building the tests".to_owned(), second * 5)],
            failures: vec!["left behind: mount /tmp/x".to_owned()],
            skips: vec![("start in an empty directory".to_owned(), "not root".to_owned())],
        };
        let expected = "\
sample: kills: 40
slow: 1 min 10 s guard::kills
slow: 2.0 s stats lib
time: pure 1.0 s, kernel 1 min 20 s, building the tests 5.0 s
pure:   123 passed, 0 failed, 0 skipped
kernel: 45 passed, 1 failed, 1 skipped
  failed guard::swap
  unsteady fathom::size: failed among the others, passed by itself
  skipped guard::bcache: make-bcache is not installed (apt: bcache-tools)
failed: left behind: mount /tmp/x
skipped: start in an empty directory: not root
168 passed, 2 failed, 2 skipped
";
        assert_eq!(report.closing(), expected);
        assert!(!report.is_success());
    }

    /// A test program that fails the first time, and one that always does.
    #[test]
    fn what_fails_runs_again_by_itself() {
        let directory = std::env::temp_dir().join(format!("fathom-again-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("kernel");
        let script = "\
#!/bin/sh
all='failures:\n    noisy\n    wrong\n\ntest result: FAILED. 8 passed; 2 failed; 0 ignored;'
case $* in
    '') printf \"$all\\n\"; exit 101 ;;
    '--exact noisy') echo 'test result: ok. 1 passed; 0 failed; 0 ignored;' ;;
    '--exact wrong') printf 'failures:\\n    wrong\\n\\ntest result: FAILED. 0 passed; 1 failed;\\n'; exit 101 ;;
esac
";
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let (crate_name, target) = ("fathom-guard".to_owned(), "kernel".to_owned());
        let program =
            Program { tier: Tier::Kernel, crate_name, target, path, directory: directory.clone() };
        let options = Options { install: false, tiers: vec![Tier::Kernel], soak: false };
        let built = Built { programs: vec![program.clone()], ..Built::default() };
        let mut tally = run_program(&program, &built, &options, How::Plain, &[]);
        assert_eq!((tally.passed, tally.failed), (8, 2));
        run_again(Tier::Kernel, &mut tally, &built, &options);
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(tally.line(), "9 passed, 1 failed, 0 skipped");
        assert_eq!(tally.failures, ["guard::wrong"]);
        assert_eq!(tally.unsteady, ["guard::noisy"]);
        // Where much fails, nothing is run again.
        let mut much = Tally::default();
        (0..=AGAIN_MAX).for_each(|_| much.add(Tally::of_failure("guard::noisy".to_owned())));
        run_again(Tier::Kernel, &mut much, &built, &options);
        assert_eq!(much.failed, 1 + AGAIN_MAX as u64);
    }

    #[test]
    fn guests_run_what_is_shipped_where_that_was_built() {
        let without = Built { fathom: Some(PathBuf::from("debug")), ..Built::default() };
        let with = Built { fathom: without.fathom.clone(), ..Built::default() };
        with.shipped.set(PathBuf::from("dist")).unwrap();
        let of =
            |built: &Built| Tier::ALL.map(|tier| fathom_for(tier, built).map(Path::to_path_buf));
        let names = |names: [&str; 3]| names.map(|name| Some(PathBuf::from(name)));
        assert_eq!(of(&with), names(["debug", "debug", "dist"]));
        assert_eq!(of(&without), names(["debug", "debug", "debug"]));
    }

    /// Pure tests run while the shipped binary is built, but for those that need a processor in time; no test of a kernel does.
    #[test]
    fn what_is_built_is_waited_for_where_time_matters() {
        let directory = std::env::temp_dir().join(format!("fathom-beside-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let told = directory.join("told");
        let program = |tier: Tier, crate_name: &str| {
            let path = directory.join(format!("{crate_name}-{}", tier.name()));
            let script = format!("#!/bin/sh\necho ${{0##*/}} >>{}\n", told.display());
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            let (crate_name, target) = (crate_name.to_owned(), tier.name().to_owned());
            Program { tier, crate_name, target, path, directory: directory.clone() }
        };
        let programs = vec![
            program(Tier::Pure, TIMED[0]),
            program(Tier::Pure, "fathom-html"),
            program(Tier::Kernel, LARGEST),
        ];
        let built = Built { programs, ..Built::default() };
        let options = Options { install: false, tiers: all_tiers(), soak: false };
        let mut orders = Vec::new();
        for tier in [Tier::Pure, Tier::Kernel] {
            let mut wait = || {
                fs::write(&told, fs::read_to_string(&told).unwrap_or_default() + "built\n").unwrap()
            };
            run_programs(tier, &built, &options, &mut wait);
            orders.push(fs::read_to_string(&told).unwrap());
            fs::remove_file(&told).unwrap();
        }
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(
            orders,
            ["fathom-html-pure\nbuilt\nfathom-load-pure\n", "built\nfathom-kernel\n"]
        );
    }

    #[test]
    fn tiers_are_named() {
        assert_eq!(parse_tiers(&[]).unwrap().len(), 3);
        assert_eq!(parse_tiers(&["kernel", "pure"]).unwrap(), [Tier::Pure, Tier::Kernel]);
        assert!(parse_tiers(&["kernle"]).is_err());
    }
}
