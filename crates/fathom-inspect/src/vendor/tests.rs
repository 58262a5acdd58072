//! The parsers on samples in the shape of published output (not of controllers that were tried: there were none), on
//! damaged samples, and with a tool that is really started.

use super::{Run, Tools, arcconf, ask, ssacli, storcli};
use fathom_model::snapshot::Unread;
use fathom_model::vendor::Controller;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const STORCLI_ALL: &str = include_str!("samples/storcli-show-all.json");
const STORCLI_VIRTUAL: &str = include_str!("samples/storcli-virtual.json");
const STORCLI_PHYSICAL: &str = include_str!("samples/storcli-physical.json");
const STORCLI_PATROL: &str = include_str!("samples/storcli-patrol.json");
const STORCLI_NONE: &str = include_str!("samples/storcli-none.json");
const SSACLI: &str = include_str!("samples/ssacli.txt");
const ARCCONF: &str = include_str!("samples/arcconf-config.txt");
const ARCCONF_STATUS: &str = include_str!("samples/arcconf-status.txt");

/// Tools that answer from a table of program and arguments.
#[derive(Default)]
struct Recorded(BTreeMap<(String, String), String>);

impl Recorded {
    fn with(mut self, program: &str, arguments: &str, answer: &str) -> Self {
        self.0.insert((program.to_owned(), arguments.to_owned()), answer.to_owned());
        self
    }

    fn storcli(self, program: &str) -> Self {
        self.with(program, "/call show all J nolog", STORCLI_ALL)
            .with(program, "/call/vall show all J nolog", STORCLI_VIRTUAL)
            .with(program, "/call/eall/sall show all J nolog", STORCLI_PHYSICAL)
            .with(program, "/call show patrolread J nolog", STORCLI_PATROL)
    }
}

impl Run for Recorded {
    fn find(&self, names: &[&str]) -> Result<Option<PathBuf>, Unread> {
        let is_there = |name: &&&str| self.0.keys().any(|(program, _)| program == **name);
        Ok(names.iter().find(is_there).map(PathBuf::from))
    }

    fn output(&self, program: &Path, arguments: &[&str]) -> Result<String, String> {
        let key = (program.display().to_string(), arguments.join(" "));
        self.0.get(&key).cloned().ok_or_else(|| "no such answer".to_owned())
    }
}

fn only(found: (Vec<Controller>, Vec<Unread>)) -> Controller {
    assert_eq!((found.0.len(), found.1.as_slice()), (1, [].as_slice()), "{:?}", found.0);
    found.0.into_iter().next().unwrap_or_default()
}

#[test]
fn storcli_tells_of_drives_cache_and_work() {
    let found = only(ask(&Recorded::default().storcli("storcli64")));
    assert_eq!((found.tool.as_str(), found.number), ("storcli", 0));
    assert_eq!(found.model.as_deref(), Some("MegaRAID 9361-8i"));
    assert_eq!(found.firmware.as_deref(), Some("24.21.0-0159"));
    assert_eq!(found.pci_address.as_deref(), Some("0000:3b:00.0"));
    assert_eq!(found.battery.as_deref(), Some("Optimal"));
    assert_eq!(
        found.housekeeping,
        ["Consistency Check (12%) of virtual drive 0/0", "patrol read (Active 37)"]
    );
    assert_eq!(found.drives.len(), 2);
    let data = &found.drives[0];
    assert_eq!(
        (data.name.as_str(), data.level.as_deref(), data.state.as_deref()),
        ("0/0", Some("RAID5"), Some("Dgrd"))
    );
    // Read ahead, always write back, direct.
    assert_eq!(
        (data.read_policy.as_deref(), data.write_policy.as_deref()),
        (Some("RA"), Some("AWB"))
    );
    assert_eq!((data.strip_bytes, data.stripe_bytes), (Some(256 << 10), Some(768 << 10)));
    assert_eq!(
        (data.kernel_name.as_deref(), data.drive_cache.as_deref()),
        (Some("sda"), Some("Disk's Default"))
    );
    let system = &found.drives[1];
    assert_eq!(
        (system.read_policy.as_deref(), system.write_policy.as_deref()),
        (Some("NORA"), Some("WT"))
    );
    assert_eq!((system.stripe_bytes, system.kernel_name.as_deref()), (None, None));
    assert_eq!(system.wwn.as_deref(), Some("600605b00000000120b0b0b0b0b0b0b0"));
    let members: Vec<_> = found
        .members
        .iter()
        .map(|m| {
            (m.place.as_str(), m.state.as_deref(), m.media_errors, m.predicts_failure, m.celsius)
        })
        .collect();
    assert_eq!(
        members,
        [
            ("252:0", Some("Onln"), Some(0), Some(false), Some(30)),
            ("252:1", Some("Onln"), Some(3), Some(false), Some(31)),
            ("252:2", Some("Rbld"), Some(0), Some(false), Some(32)),
            ("252:3", Some("Onln"), Some(0), Some(true), Some(33)),
        ]
    );
    assert_eq!(found.members[3].serial.as_deref(), Some("ZC10003"));
    assert_eq!(found.members[0].model.as_deref(), Some("ST4000NM0025"));
}

#[test]
fn two_tools_of_one_controller_give_it_once() {
    let both = Recorded::default().storcli("storcli64").storcli("perccli");
    assert_eq!(only(ask(&both)).tool, "storcli");
    assert_eq!(only(ask(&Recorded::default().storcli("perccli"))).tool, "perccli");
}

#[test]
fn a_part_that_fails_is_noted_and_the_rest_stays() {
    let mut some = Recorded::default().storcli("storcli64");
    some.0.remove(&("storcli64".to_owned(), "/call/eall/sall show all J nolog".to_owned()));
    let (found, unread) =
        ask(&some.with("storcli64", "/call show patrolread J nolog", "{ \"Controllers\" : ["));
    assert_eq!((found.len(), found[0].members.len(), found[0].members[0].celsius), (1, 4, None));
    let unread: Vec<&str> = unread.iter().map(|unread| unread.what.as_str()).collect();
    assert_eq!(
        unread,
        ["storcli64 /call/eall/sall show all J nolog", "storcli64 /call show patrolread J nolog"]
    );
}

#[test]
fn no_controller_and_no_tool() {
    let (found, unread) =
        ask(&Recorded::default().with("storcli64", "/call show all J nolog", STORCLI_NONE));
    assert!(found.is_empty());
    assert_eq!(unread[0].why, "unreadable: No Controller found");
    let (found, unread) = ask(&Recorded::default());
    assert!(found.is_empty());
    assert_eq!(unread[0].why, "not installed: storcli, perccli, ssacli, arcconf");
}

#[test]
fn a_battery_that_is_not_there() {
    let text = STORCLI_ALL
        .replace("\"Cachevault_Info\"", "\"X\"")
        .replace("\"BBU\": \"Yes\"", "\"BBU\": \"Absent\"");
    let found = storcli::controllers(&text).unwrap_or_default();
    assert_eq!(found[0].battery.as_deref(), Some("absent"));
}

#[test]
fn ssacli_tells_of_both_controllers() {
    let (found, unread) =
        ask(&Recorded::default().with("ssacli", "ctrl all show config detail", SSACLI));
    assert_eq!((found.len(), unread.len()), (2, 0));
    let first = &found[0];
    assert_eq!((first.number, first.model.as_deref()), (0, Some("Smart Array P408i-a SR Gen10")));
    assert_eq!(
        (first.firmware.as_deref(), first.pci_address.as_deref()),
        (Some("3.53-0"), Some("0000:5c:00.0"))
    );
    assert_eq!(first.battery.as_deref(), Some("OK"));
    assert_eq!(first.housekeeping, ["Recovering, 12% complete (logical drive 1)"]);
    let data = &first.drives[0];
    assert_eq!(
        (data.level.as_deref(), data.state.as_deref()),
        (Some("RAID5"), Some("Recovering, 12% complete"))
    );
    assert_eq!((data.strip_bytes, data.stripe_bytes), (Some(256 << 10), Some(768 << 10)));
    assert_eq!(
        (data.write_policy.as_deref(), data.kernel_name.as_deref()),
        (Some("WB"), Some("sda"))
    );
    let flash = &first.drives[1];
    assert_eq!((flash.write_policy.as_deref(), flash.stripe_bytes), (Some("bypass"), None));
    // Drives in parentheses are mentions.
    let members: Vec<_> = first
        .members
        .iter()
        .map(|m| (m.place.as_str(), m.state.as_deref(), m.predicts_failure))
        .collect();
    assert_eq!(
        members,
        [("1I:1:1", Some("OK"), Some(false)), ("1I:1:2", Some("Predictive Failure"), Some(true))]
    );
    assert_eq!(
        (first.members[0].size_bytes, first.members[0].celsius),
        (Some(600_000_000_000), Some(37))
    );
    assert_eq!(first.members[0].model.as_deref(), Some("HP EH0600JDYTL"));
    // The cache is off while its battery charges.
    let second = &found[1];
    assert_eq!((second.number, second.battery.as_deref()), (3, Some("Recharging")));
    assert_eq!(
        (second.drives[0].level.as_deref(), second.drives[0].write_policy.as_deref()),
        (Some("RAID10"), Some("WT"))
    );
    let forced = ssacli::controllers(
        &SSACLI.replace("No-Battery Write Cache: Disabled", "No-Battery Write Cache: Enabled"),
    );
    assert_eq!(forced[0].drives[0].write_policy.as_deref(), Some("AWB"));
}

#[test]
fn arcconf_tells_of_each_controller() {
    let tool = Recorded::default().with("arcconf", "GETCONFIG 1 AL nologs", ARCCONF).with(
        "arcconf",
        "GETSTATUS 1 nologs",
        ARCCONF_STATUS,
    );
    let found = only(ask(&tool));
    assert_eq!((found.number, found.model.as_deref()), (1, Some("Adaptec ASR8805")));
    assert_eq!(
        (found.firmware.as_deref(), found.pci_address.as_deref()),
        (Some("7.13-0 (33263)"), Some("0000:3b:00.0"))
    );
    assert_eq!(found.battery.as_deref(), Some("Ready"));
    assert_eq!(
        found.housekeeping,
        ["Impacted ( Build/Verify with fix : 40 % ) (logical device 1)", "Rebuild (12 %)"]
    );
    let data = &found.drives[0];
    assert_eq!(
        (data.name.as_str(), data.level.as_deref(), data.state.as_deref()),
        ("0", Some("RAID6"), Some("Degraded"))
    );
    assert_eq!(
        (data.write_policy.as_deref(), data.strip_bytes, data.stripe_bytes),
        (Some("WB"), Some(256 << 10), None)
    );
    let scratch = &found.drives[1];
    assert_eq!(
        (scratch.write_policy.as_deref(), scratch.kernel_name.as_deref()),
        (Some("AWB"), Some("sdd"))
    );
    assert_eq!(scratch.stripe_bytes, Some(256 << 10));
    // An enclosure is no drive, and its errors are not those of the drive before it.
    assert_eq!(found.members.len(), 1);
    let member = &found.members[0];
    assert_eq!(member.place, "#0 (Enclosure 0, Slot 0(Connector 0))");
    assert_eq!(
        (member.media_errors, member.other_errors, member.predicts_failure),
        (Some(5), Some(1), Some(true))
    );
    assert_eq!(arcconf::controllers_found(ARCCONF), Some(1));
}

#[test]
fn several_controllers_of_arcconf() {
    let two = ARCCONF.replace("Controllers found: 1", "Controllers found: 2");
    let tool = Recorded::default()
        .with("arcconf", "GETCONFIG 1 AL nologs", &two)
        .with("arcconf", "GETCONFIG 2 AL nologs", &two.replace("0:3b:0:0", "0:5e:0:0"))
        .with("arcconf", "GETSTATUS 1 nologs", "")
        .with("arcconf", "GETSTATUS 2 nologs", "");
    let (found, unread) = ask(&tool);
    assert_eq!((found.len(), unread.len()), (2, 0));
    assert_eq!((found[1].number, found[1].pci_address.as_deref()), (2, Some("0000:5e:00.0")));
}

/// Held by tests that write a program and start it: a process that another thread forks meanwhile would hold the new
/// program open for writing for a moment, and then it cannot be started.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory with a tool of this name: a script.
fn script(name: &str, body: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
        .expect("it may be started");
    directory
}

fn tools(directory: &tempfile::TempDir, timeout: Duration) -> Tools {
    Tools::in_places(vec!["/nonexistent".into(), directory.path().to_owned()], timeout)
}

#[test]
fn a_tool_is_really_started() {
    let _alone = alone();
    let samples = tempfile::tempdir().expect("a directory");
    for (name, text) in [
        ("all", STORCLI_ALL),
        ("virtual", STORCLI_VIRTUAL),
        ("physical", STORCLI_PHYSICAL),
        ("patrol", STORCLI_PATROL),
    ] {
        std::fs::write(samples.path().join(name), text).expect("a sample");
    }
    // As the real one it ends with an error when something is wrong with one of its controllers.
    let body = format!(
        "cd {}\n[ \"$5\" = nolog ] && [ -z \"$HOME\" ] || exit 9\ncase \"$1 $3\" in\n\
         '/call all') cat all;;\n'/call/vall all') cat virtual;;\n'/call/eall/sall all') cat physical;;\n\
         '/call patrolread') cat patrol;;\nesac\nexit 1",
        samples.path().display()
    );
    let directory = script("storcli64", &body);
    let (found, unread) = ask(&tools(&directory, Duration::from_secs(20)));
    assert_eq!((found.len(), unread.len()), (1, 0), "{unread:?}");
    assert_eq!(found, ask(&Recorded::default().storcli("storcli64")).0);
}

#[test]
fn a_tool_that_hangs_is_ended() {
    let _alone = alone();
    let directory = script("ssacli", "exec sleep 60");
    let start = Instant::now();
    let (found, unread) = ask(&tools(&directory, Duration::from_millis(200)));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(found.is_empty());
    assert_eq!(unread[0].why, "unreadable: no answer within 0.2 s");
}

#[test]
fn what_a_tool_that_hangs_has_started_is_ended_too() {
    let _alone = alone();
    let notes = tempfile::tempdir().expect("a directory");
    let note = notes.path().join("pid");
    let directory =
        script("ssacli", &format!("sleep 60 & echo $! > {}; sleep 60; exit 0", note.display()));
    let (found, unread) = ask(&tools(&directory, Duration::from_millis(500)));
    assert!(found.is_empty() && unread[0].why.contains("no answer"), "{unread:?}");
    let started: u32 =
        std::fs::read_to_string(&note).expect("its number").trim().parse().expect("a number");
    let goes_on = || {
        let stat = std::fs::read_to_string(format!("/proc/{started}/stat")).unwrap_or_default();
        // Killed, it may wait for whoever has inherited it.
        stat.contains("(sleep)") && !stat.contains(") Z")
    };
    let start = Instant::now();
    while goes_on() && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!goes_on(), "{started} goes on");
}

#[test]
fn a_tool_that_says_nothing_or_nonsense() {
    let _alone = alone();
    let silent = script("arcconf", "exit 3");
    let (_, unread) = ask(&tools(&silent, Duration::from_secs(20)));
    assert_eq!(unread[0].why, "unreadable: it failed and printed nothing");
    let confused = script("arcconf", "head -c 3000 /dev/urandom");
    let (found, unread) = ask(&tools(&confused, Duration::from_secs(20)));
    assert!(found.is_empty());
    assert_eq!(unread[0].why, "unreadable: no controller in its answer");
}

#[test]
fn a_tool_that_others_may_change_is_not_started() {
    let _alone = alone();
    let directory = script("ssacli", "echo started >\"$0.trace\"");
    let path = directory.path().join("ssacli");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))
        .expect("anybody may change it");
    let (_, unread) = ask(&tools(&directory, Duration::from_secs(20)));
    assert_eq!(unread.len(), 1);
    assert_eq!(unread[0].why, "not started: others than root may change it");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("back");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777))
        .expect("anybody may");
    let (_, unread) = ask(&tools(&directory, Duration::from_secs(20)));
    assert_eq!(unread[0].why, "not started: others than root may change its directory");
    assert!(!directory.path().join("ssacli.trace").exists());
}

/// All parsers on one text.
fn parse(text: &str) {
    let mut controllers = storcli::controllers(text).unwrap_or_default();
    controllers.push(Controller::default());
    for add in [storcli::add_virtual, storcli::add_physical, storcli::add_patrol] {
        let _ = storcli::add_to(&mut controllers, text, add);
    }
    let told = ssacli::controllers(text);
    assert!(told.len() <= text.lines().count());
    let _ = (arcconf::controller(text), arcconf::tasks(text), arcconf::controllers_found(text));
}

const SAMPLES: [&str; 7] = [
    STORCLI_ALL,
    STORCLI_VIRTUAL,
    STORCLI_PHYSICAL,
    STORCLI_PATROL,
    SSACLI,
    ARCCONF,
    ARCCONF_STATUS,
];

proptest! {
    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        parse(&text);
    }

    #[test]
    fn damaged_samples_are_survived(
        sample in 0..SAMPLES.len(),
        cut in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        other in "[\\PC:\"{}\\[\\]0-9 ]{0,8}",
    ) {
        let mut chars: Vec<char> = SAMPLES[sample].chars().collect();
        let place = at.index(chars.len());
        chars.splice(place..(place + other.len()).min(chars.len()), other.chars());
        parse(&chars.iter().collect::<String>());
        chars.truncate(cut.index(chars.len()));
        parse(&chars.iter().collect::<String>());
    }

    #[test]
    fn samples_without_some_of_their_lines_are_survived(sample in 0..SAMPLES.len(), step in 2usize..9) {
        let lines = SAMPLES[sample].lines().enumerate().filter(|(number, _)| number % step != 0);
        parse(&lines.map(|(_, line)| format!("{line}\n")).collect::<String>());
    }
}
