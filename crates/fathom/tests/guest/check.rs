//! `fathom check` on real arrays, volumes, paths and disks: what it finds and what it does not, and that its facts are
//! those of the tools that everybody knows.

mod agree;
mod arrays;
mod cloud;
mod disks;
mod drives;
mod geometry;
mod hardware;
mod host;
mod iron;
mod paths;
mod queues;
mod slow;
mod volumes;

use fathom_model::snapshot::Snapshot;
use fathom_testkit::{GuestJob, GuestReport, Trial};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    [
        arrays::trials(),
        volumes::trials(),
        paths::trials(),
        disks::trials(),
        queues::trials(),
        slow::trials(),
        drives::trials(),
        hardware::trials(),
        geometry::trials(),
        cloud::trials(),
        host::trials(),
        iron::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `look` shows what other tools say of the machine, and then what fathom says; `glance` only the latter, in a third of the
/// time.
const LOOK: &str = r#"
look() {
    local md
    echo "=== lsblk"
    lsblk --json --bytes --output KNAME,NAME,SIZE,TYPE,LOG-SEC,PHY-SEC,MIN-IO,OPT-IO,ROTA,RA,ALIGNMENT,RO
    echo "=== blockdev"
    blockdev --report
    for md in /sys/block/md*; do
        [ -e $md ] || continue
        echo "=== mdadm ${md##*/}"
        mdadm --detail --export /dev/${md##*/} || true
    done
    echo "=== dmsetup"
    [ ! -e /dev/mapper/control ] || dmsetup table
    glance
}
glance() {
    echo "=== fathom"
    fathom --json --quiet check
}
"#;

/// A guest with `look` and `glance`.
fn job(job: GuestJob) -> GuestJob {
    job.prelude(LOOK)
}

/// What a step of `look` showed.
struct Look {
    name: String,
    /// What each tool said, by what stands behind `===`.
    tools: Vec<(String, String)>,
    result: Value,
}

/// What the step showed, judged here as it was there; it also goes to the directory that `FATHOM_MACHINES` names, so that the pure tests of rules can
/// have it as one of their machines.
#[track_caller]
fn look(report: &GuestReport, step: &str) -> Look {
    let result = report.step(step);
    assert_eq!(result.code, Some(0), "{step}: {}", result.said());
    let mut tools: Vec<(String, String)> = Vec::new();
    for line in result.stdout.lines() {
        match (line.strip_prefix("=== "), tools.last_mut()) {
            (Some(tool), _) => tools.push((tool.to_owned(), String::new())),
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    let look =
        Look { name: step.to_owned(), result: crate::family::result(report, step, 0), tools };
    let snapshot: Snapshot = serde_json::from_value(look.result["snapshot"].clone()).expect(step);
    let judged = serde_json::to_value(fathom_check::check(&snapshot)).expect("JSON");
    assert_eq!(judged, look.result["defects"], "{step}: on the host as in the guest");
    if let Some(directory) = std::env::var_os("FATHOM_MACHINES") {
        let path =
            std::path::Path::new(&directory).join(format!("guest-{}.json", step.replace('_', "-")));
        let text = serde_json::to_string(&look.result["snapshot"]).expect("JSON");
        std::fs::write(&path, without_places(&text)).expect("the machine is stored");
    }
    look
}

/// The text without the directories of the host that the guest's mounts and command line name.
fn without_places(text: &str) -> String {
    let tools = fathom_testkit::fathom_binary()
        .ok()
        .and_then(|binary| Some(binary.parent()?.display().to_string()));
    let mut rest =
        tools.map_or_else(|| text.to_owned(), |tools| text.replace(&tools, "/opt/fathom"));
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once("fathom-testkit-") {
        let end =
            after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(after.len());
        out.push_str(before);
        out.push_str("guest");
        rest = after[end..].to_owned();
    }
    out + &rest
}

impl Look {
    /// Rules and nodes of what was found: `md-degraded /dev/md0`.
    fn found(&self) -> Vec<String> {
        let defects = self.result["defects"].as_array().expect("defects");
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        defects
            .iter()
            .map(|defect| format!("{} {}", word(&defect["rule"]), word(&defect["node"])))
            .collect()
    }

    /// All of these were found, written as rule and node.
    #[track_caller]
    fn has(&self, expected: &[&str]) -> &Self {
        let found = self.found();
        for expected in expected {
            assert!(
                found.iter().any(|f| f == expected),
                "{}: '{expected}' is not among {found:#?}",
                self.name
            );
        }
        self
    }

    /// Nothing of these rules was found anywhere.
    #[track_caller]
    fn lacks(&self, rules: &[&str]) -> &Self {
        let found = self.found();
        for rule in rules {
            assert!(
                !found.iter().any(|f| f.split(' ').next() == Some(rule)),
                "{}: {rule} is among {found:#?}",
                self.name
            );
        }
        self
    }

    /// A defect of a rule.
    #[track_caller]
    fn defect(&self, rule: &str) -> &Value {
        let defects = self.result["defects"].as_array().expect("defects");
        defects.iter().find(|defect| defect["rule"] == rule).expect(rule)
    }

    /// What a tool said.
    fn tool(&self, name: &str) -> &str {
        self.tools.iter().find(|(tool, _)| tool == name).map_or("", |(_, text)| text)
    }

    fn nodes(&self) -> &Vec<Value> {
        self.result["snapshot"]["machine"]["nodes"].as_array().expect("nodes")
    }

    /// The node of a kernel name or mount point.
    #[track_caller]
    fn node(&self, name: &str) -> &Value {
        self.nodes().iter().find(|node| node["name"] == name).expect(name)
    }
}
