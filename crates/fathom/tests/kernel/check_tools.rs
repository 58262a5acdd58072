//! `fathom check` beside other programs: the tool of a controller's maker that answers, prints rubbish or hangs, and free
//! space that was left in pieces.

use crate::check::{defect, rules};
use crate::cli::{Done, Sandbox, p, run};
use crate::filesystems::in_memory;
use fathom_sys::holes::punch_hole;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, MountNamespaces, Tool};
use fathom_testkit::{Content, FsKind, MountedFs, Trial, command, is_soak, kernel_test};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

pub fn trials() -> Vec<Trial> {
    let apart = [FathomBinary, MountNamespaces, Tool("unshare")];
    vec![
        kernel_test("check_asks_the_tool_of_a_controllers_maker", &apart, answer),
        kernel_test("check_tells_a_tool_that_says_nothing_of_use", &apart, rubbish),
        kernel_test(
            "check_tells_scattered_free_space",
            &[FathomBinary, FsOnLoop(FsKind::Ext4), Tool("fallocate")],
            scattered,
        ),
    ]
}

/// Looks at this machine with a program in the place of storcli, which others do not see.
fn with_tool(body: &str, form: &[&str]) -> Done {
    const INSTALLED: &str = "mount -t tmpfs -o mode=755 tmpfs /usr/local/sbin && \
                             cp \"$0\" /usr/local/sbin/storcli64 && exec \"$@\"";
    let sandbox = Sandbox::new();
    let tool = sandbox.scratch.join("tool");
    fs::write(&tool, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    run(|| {
        let own = sandbox.command(&[form, &["check", "--vendor-tools"]].concat());
        let mut command = command::tool("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", INSTALLED]).arg(&tool);
        command.arg(own.get_program()).args(own.get_args());
        command
    })
}

const JSON: &[&str] = &["--json", "--quiet"];

/// Why the tool's answers count for nothing.
fn unread(done: &Done) -> Vec<String> {
    let result = done.result();
    let all = result["snapshot"]["unread"].as_array().unwrap().iter();
    let ours = all.filter(|one| one["what"].as_str().unwrap().contains("/storcli64 "));
    ours.map(|one| one["why"].as_str().unwrap().to_owned()).collect()
}

/// A controller with a degraded array, a drive that predicts its failure and a cache that is written through.
fn answer() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../fathom-inspect/src/vendor/samples");
    let body = format!(
        "cd {samples}\ncase \"$1 $3\" in\n'/call all') cat storcli-show-all.json;;\n\
         '/call/vall all') cat storcli-virtual.json;;\n'/call/eall/sall all') cat storcli-physical.json;;\n\
         '/call patrolread') cat storcli-patrol.json;;\nesac"
    );
    let done = with_tool(&body, JSON);
    let result = done.result();
    let controllers = result["snapshot"]["controllers"].as_array().unwrap();
    assert_eq!(controllers.len(), 1, "{done:?}");
    assert_eq!(controllers[0]["model"], "MegaRAID 9361-8i");
    assert_eq!(unread(&done), [""; 0]);
    let found = rules(&done);
    let expected =
        ["raid-drive-degraded", "raid-member-failing", "raid-write-through", "raid-busy"];
    for rule in expected {
        assert!(found.iter().any(|found| found == rule), "no {rule} in {found:?}");
    }
    // It is being rebuilt: no drive is to be pulled or replaced, not even one that foresees its failure.
    let advice = |rule| defect(&done, rule)["fix"][0]["text"].as_str().unwrap().to_owned();
    assert!(advice("raid-drive-degraded").contains("pull no drive"), "{done:?}");
    assert!(advice("raid-member-failing").starts_with("do not pull it now"), "{done:?}");
    let plain = with_tool(&body, &[]);
    assert!(plain.stdout.contains("[raid-drive-degraded]"), "{plain:?}");
}

/// The look goes on, and says which tool told nothing; one that hangs is ended after a minute.
fn rubbish() {
    let mut cases = vec![
        ("head -c 100000 /dev/urandom", "unreadable: "),
        ("exit 3", "unreadable: it failed and printed nothing"),
        ("yes '{\"Controllers\":[' | head -c 1000000", "unreadable: damaged JSON"),
    ];
    if is_soak() {
        cases.push(("exec sleep 600", "unreadable: no answer within 60 s"));
    }
    for (body, why) in cases {
        let start = Instant::now();
        let done = with_tool(body, JSON);
        assert_eq!(done.code, 0, "{body}: {done:?}");
        let told = unread(&done);
        assert!(told.len() == 1 && told[0].starts_with(why), "{body}: {told:?}");
        let result = done.result();
        assert!(!result["snapshot"]["machine"]["nodes"].as_array().unwrap().is_empty());
        assert_eq!(result["snapshot"]["controllers"], serde_json::json!([]));
        assert!(start.elapsed().as_secs() < 180, "{body}: {:?}", start.elapsed());
    }
    let plain = with_tool("exit 3", &[]);
    assert!(plain.stdout.contains("it failed and printed nothing"), "{plain:?}");
}

/// A file without content fills the filesystem; then every third piece of half a MiB is free.
fn scattered() {
    const PIECE: u64 = 512 << 10;
    const LENGTH: u64 = 7000 * PIECE;
    let sandbox = Sandbox::new();
    let memory = in_memory(4 << 30, Content::Sparse);
    let device = memory.device.path().to_owned();
    let options = ["-m", "0", "-E", "nodiscard", "-O", "^has_journal"];
    let fs = MountedFs::with(FsKind::Ext4, memory.device, &options, "").unwrap();
    let file = fs.dir().join("filler");
    command::run_tool("fallocate", ["-l", &LENGTH.to_string(), p(&file)]).unwrap();
    let before = sandbox.json(&["check", p(fs.dir())], &[0]);
    assert!(!rules(&before).contains(&"free-space-scattered".to_owned()), "{:?}", rules(&before));
    let open = OpenOptions::new().write(true).open(&file).unwrap();
    for piece in (0..LENGTH / PIECE).step_by(3) {
        punch_hole(&open, piece * PIECE, PIECE).unwrap();
    }
    open.sync_all().unwrap();
    let after = sandbox.json(&["check", p(fs.dir())], &[0]);
    let found = defect(&after, "free-space-scattered");
    assert!(!found["evidence"].as_array().unwrap().is_empty(), "{found} on {}", device.display());
}
