//! `fathom check --from` on the recorded machines and in every form: what it says here is what it says on another machine,
//! of the file itself and of one that was stored anew from it, and it is what the rules are known to say.

use crate::cli::{p, run};
use fathom_testkit::Capability::{FathomBinary, MountNamespaces, Tool};
use fathom_testkit::{Scratch, Trial, command, counted, fathom_binary, kernel_test, sample};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, MountNamespaces, Tool("unshare")];
    vec![kernel_test("check_says_the_same_of_every_machine_everywhere", &needs, everywhere)]
}

/// Every form of every machine as a file in the current directory. `$1` is fathom; each machine is stored anew, and what
/// comes after the JSON is said of that.
const ALL_FORMS: &str = r#"
fathom=$1
shift
for machine in "$@"; do
    name=${machine##*/} name=${name%.json.gz}
    $fathom --json --quiet check --from=$machine --snapshot=again.json >$name.json || exit 1
    for form in tree table openmetrics; do
        test $form = openmetrics && more= || more=--alignment
        $fathom --quiet check --all --unread $more --show=$form --from=${AGAIN:-$machine} >$name.$form || exit 1
    done
    rm again.json
done
"#;

/// Another machine, as far as a process can see: without devices and without processes, of another name, in another zone.
const ELSEWHERE: &str = r#"
mount -t tmpfs tmpfs /sys
mount -t tmpfs tmpfs /proc
echo elsewhere >/proc/hostname
export TZ=Asia/Tokyo COLUMNS=40 LANG=de_DE.UTF-8 AGAIN=again.json
exec sh -c "$0" "$@"
"#;

fn machines() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fathom-check/tests/machines");
    let entries = fs::read_dir(directory.canonicalize().unwrap()).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".json.gz"));
    paths.sort();
    paths
}

fn everywhere() {
    let all = machines();
    assert!(all.len() >= 45, "{}", all.len());
    let machines: Vec<PathBuf> = all.into_iter().step_by(sample(3, 1)).collect();
    let (here, there) = (Scratch::new().unwrap(), Scratch::new().unwrap());
    let all = |command: &mut Command, place: &Scratch| {
        command.current_dir(place.path()).env_remove("FATHOM_DB");
        command.arg("sh").arg(fathom_binary().unwrap()).args(&machines);
    };
    for (place, apart) in [(&here, false), (&there, true)] {
        let done = run(|| {
            let mut command = command::tool(if apart { "unshare" } else { "sh" });
            if apart {
                command.args(["--mount", "--propagation", "private", "--uts", "--net"]);
                command.args(["sh", "-ec", ELSEWHERE, ALL_FORMS]);
            } else {
                command.args(["-c", ALL_FORMS]);
            }
            all(&mut command, place);
            command
        });
        assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{done:?}");
    }
    let mut commands = BTreeSet::new();
    for machine in &machines {
        let name = machine.file_name().unwrap().to_string_lossy().replace(".json.gz", "");
        let read = |place: &Scratch, form: &str| -> String {
            fs::read_to_string(place.join(format!("{name}.{form}"))).unwrap()
        };
        for form in ["json", "tree", "table", "openmetrics"] {
            assert!(read(&here, form) == read(&there, form), "{name}: {form} differs elsewhere");
        }
        let expected = fs::read_to_string(p(machine).replace(".json.gz", ".txt")).unwrap();
        as_expected(&name, &expected, &|form| read(&here, form));
        commands.extend(advised(&read(&here, "json")));
    }
    let script = here.join("commands");
    fs::write(&script, commands.iter().map(|line| format!("{line}\n")).collect::<String>())
        .unwrap();
    command::run_tool("bash", ["-n", p(&script)]).unwrap();
    counted("commands that are advised and are ones", commands.len());
    counted("recorded machines that say the same elsewhere", machines.len());
}

/// The commands that are printed for people to paste: one line each, without anything that was not filled in.
fn advised(json: &str) -> Vec<String> {
    let result: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    let steps = result["defects"].as_array().unwrap().iter().flat_map(|defect| {
        defect["fix"].as_array().unwrap().iter().filter_map(|step| step["command"].as_str())
    });
    let commands: Vec<String> = steps.map(str::to_owned).collect();
    for command in &commands {
        let words = command.split(' ');
        let empty = ["None", "Some(", "{}", "\n"].iter().any(|text| command.contains(text));
        assert!(!empty && words.clone().all(|word| !word.is_empty()), "{command:?}");
    }
    commands
}

/// The tree and the findings that are known of the machine are those that people and programs get.
fn as_expected(name: &str, expected: &str, said: &dyn Fn(&str) -> String) {
    let (tree, findings) = expected.split_once("\n\n").unwrap();
    let shown = said("tree");
    // Each line of a tree has a mark before it.
    let lines: Vec<&str> = shown.lines().filter_map(|line| line.get(3..)).collect();
    let first = lines.iter().position(|line| Some(*line) == tree.lines().next()).expect(name);
    for (line, expected) in lines[first..].iter().zip(tree.lines()) {
        assert!(line.starts_with(expected), "{name}: '{line}' for '{expected}'");
    }
    let result: Value = serde_json::from_str(said("json").lines().last().unwrap()).unwrap();
    let defects = result["defects"].as_array().unwrap();
    let mut told = String::new();
    for defect in defects {
        let word = |field: &str| defect[field].as_str().unwrap_or("the machine");
        let (rule, node) = (word("rule"), word("node"));
        let _ = writeln!(told, "{} {} {rule} {node}", word("gravity"), word("certainty"));
        let _ = writeln!(told, "  {}", word("summary"));
        for other in defect["also"].as_array().into_iter().flatten() {
            let _ = writeln!(told, "  also {}", other.as_str().unwrap());
        }
        for other in defect["concerns"].as_array().into_iter().flatten() {
            let _ = writeln!(told, "  concerns {}", other.as_str().unwrap());
        }
        assert!(shown.contains(&format!("[{rule}]")), "{name}: {rule} is not shown");
    }
    assert_eq!(told, findings, "{name}");
    let figures = said("openmetrics");
    let count = |gravity: &str| -> usize {
        let start = format!("fathom_findings{{gravity=\"{gravity}\"}} ");
        figures.lines().find_map(|line| line.strip_prefix(&start)).expect(name).parse().unwrap()
    };
    assert_eq!(["low", "medium", "high"].map(count).iter().sum::<usize>(), defects.len(), "{name}");
    let devices = result["snapshot"]["machine"]["nodes"].as_array().unwrap();
    let devices = devices.iter().filter(|node| node["devno"].is_string()).count();
    let table = said("table");
    let rows = table.lines().skip(1).take_while(|line| !line.is_empty()).count();
    assert_eq!(rows, devices, "{name}: {table}");
}
