//! Every machine of the tests, made anonymous: what names people, places and pieces of hardware is nowhere left, and what
//! is found stays the same.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

use fathom_check::anonymise::anonymise;
use fathom_model::snapshot::Snapshot;
use fathom_model::system::{FstabEntry, LogLine, Timer};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Fields that hold names, as a reader of the form would list them; written apart from the list that is tested.
const SECRET: &[&str] = &[
    "serial",
    "wwn",
    "uuid",
    "array_uuid",
    "device_uuid",
    "set_uuid",
    "journal_uuid",
    "boot_id",
    "label",
    "host_name",
    "backing_file",
    "mount_point",
    "group",
];
/// Words in them that tell nothing: of directories that every machine has, of drivers, and the word for none.
const TECHNICAL: &[&str] = &[
    "ata", "fathom", "lab", "nvme", "t10", "uuid", "(none)", "back", "boot", "debug", "dev", "etc",
    "image", "lvm", "mapper", "mnt", "naa", "none", "null", "out", "pool", "proc", "run", "scsi",
    "shm", "srv", "sys", "tmp", "tools", "through", "with", "cow", "safe",
];

fn machines() -> Vec<(PathBuf, Snapshot)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let paths = std::fs::read_dir(directory).expect("the machines").flatten().map(|e| e.path());
    let paths = paths.filter(|path| path.to_string_lossy().ends_with(".json.gz"));
    paths
        .map(|path| {
            let file = GzDecoder::new(File::open(&path).expect("a machine"));
            let snapshot = serde_json::from_reader(file).expect("a snapshot");
            (path, snapshot)
        })
        .collect()
}

/// Words as they stand between other characters than letters and digits, in lower case.
fn words(text: &str) -> BTreeSet<String> {
    let runs = text.split(|c: char| !c.is_alphanumeric()).filter(|run| run.len() > 2);
    runs.map(str::to_lowercase).collect()
}

fn secrets(value: &Value, key: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                // Volumes and maps are called as somebody liked.
                let is_chosen = name == "name" && ["dm", "volumes"].contains(&key);
                secrets(value, if is_chosen { "label" } else { name }, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| secrets(item, key, found)),
        Value::String(text) if SECRET.contains(&key) => found.extend(words(text)),
        _ => {}
    }
}

/// All words of a value, numbers left out.
fn strings(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| strings(value, found)),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::String(text) => found.extend(words(text)),
        _ => {}
    }
}

fn is_telling(word: &str) -> bool {
    let is_short_number = word.len() < 7 && word.bytes().all(|b| b.is_ascii_digit());
    let is_zero = word.bytes().all(|b| b == b'0');
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_device = ["loop", "sd", "dm", "md", "ubd", "vd", "disk", "data"].contains(&letters)
        || (letters.len() == 3 && letters.starts_with("sd"))
        || word.starts_with("mpath");
    !is_short_number && !is_zero && !is_device && !TECHNICAL.contains(&word)
}

#[test]
fn no_secret_of_any_machine_is_left() {
    let (mut count, mut trouble) = (0, Vec::new());
    for (path, mut snapshot) in machines() {
        let mut found = BTreeSet::new();
        let value = serde_json::to_value(&snapshot).expect("JSON");
        secrets(&value, "", &mut found);
        // Mount points that are called like options of mounts tell nothing.
        let options = ["barriers", "discard", "journal", "nobarrier", "strictatime", "sync"];
        found.retain(|word| is_telling(word) && !options.contains(&word.as_str()));
        count += found.len();
        snapshot.system.host_name = Some("acmedb17.example.org".into());
        let said = found.iter().next().cloned().unwrap_or_default();
        snapshot.system.kernel_log.push(LogLine {
            text: format!("sda: I/O error on ACMEDB17, seen by nas4.acme.example.net; {said}"),
            ..LogLine::default()
        });
        let file = "/etc/systemd/system/acmedb17-dump.timer".to_owned();
        let name = "acmedb17-dump.timer".to_owned();
        snapshot.system.timers.push(Timer { name, file, ..Timer::default() });
        let hidden = anonymise(snapshot.clone(), 0x0051_eed5);
        let text = serde_json::to_string(&hidden).expect("JSON");
        let mut left = BTreeSet::new();
        strings(&serde_json::to_value(&hidden).expect("JSON"), &mut left);
        let kept: Vec<&String> = found.iter().filter(|word| left.contains(*word)).collect();
        if !kept.is_empty() {
            trouble.push(format!("{}: {kept:?}", path.display()));
        }
        for secret in ["acmedb17", "nas4", "acme", "dump"] {
            assert!(!text.to_lowercase().contains(secret), "{}: {secret}", path.display());
        }
        assert!(text.contains("/etc/systemd/system/") && text.contains(".timer"));
    }
    assert!(trouble.is_empty(), "{trouble:#?}");
    assert!(count > 300, "{count} secrets: hardly a test");
}

#[test]
fn what_is_found_stays_the_same() {
    for (path, snapshot) in machines() {
        let rules = |snapshot: &Snapshot| -> Vec<(String, String)> {
            let found = fathom_check::check(snapshot).into_iter();
            found.map(|d| (d.rule, d.gravity.word().to_owned())).collect()
        };
        let hidden = anonymise(snapshot.clone(), 99);
        assert_eq!(rules(&snapshot), rules(&hidden), "{}", path.display());
    }
}

/// What the kernel itself has to say of storage stays to be read.
#[test]
fn the_kernels_own_words_stay() {
    let mut count = 0;
    for (path, snapshot) in machines() {
        let hidden = anonymise(snapshot.clone(), 99).system.kernel_log;
        for (told, is) in snapshot.system.kernel_log.iter().zip(hidden) {
            // A program wrote the last word.
            let own = told.text.trim_end_matches(" tested");
            assert!(is.text.starts_with(own), "{}: {own}\n{}", path.display(), is.text);
            count += 1;
        }
    }
    assert!(count > 400, "{count} lines: hardly a test");
}

/// Whatever volumes, mounts and machines are called, even like every other word of the snapshot: what the kernel says stays.
#[test]
fn names_that_are_words_of_the_kernel_change_nothing() {
    let mut trouble = Vec::new();
    for (path, mut snapshot) in machines() {
        let rules = |snapshot: &Snapshot| -> BTreeSet<(String, String)> {
            let found = fathom_check::check(snapshot).into_iter();
            found.map(|d| (d.rule, d.gravity.word().to_owned())).collect()
        };
        let told = rules(&snapshot);
        let mut found = BTreeSet::new();
        strings(&serde_json::to_value(&snapshot).expect("JSON"), &mut found);
        found.retain(|word| word.bytes().any(|b| b.is_ascii_alphabetic()));
        assert!(found.len() > 50, "{}: {found:?}", path.display());
        let entries = found.into_iter().map(|word| FstabEntry {
            source: "/dev/null".into(),
            mount_point: format!("/srv/{word}"),
            fs_type: "ext4".into(),
            options: vec!["noauto".into()],
            pass: 0,
        });
        snapshot.system.configuration.fstab.extend(entries);
        assert_eq!(rules(&snapshot), told, "{}: the entries themselves", path.display());
        let hidden = rules(&anonymise(snapshot, 99));
        let name = path.file_name().unwrap_or_default();
        trouble.extend(hidden.symmetric_difference(&told).map(|rule| format!("{name:?} {rule:?}")));
    }
    assert!(trouble.is_empty(), "{trouble:#?}");
}
