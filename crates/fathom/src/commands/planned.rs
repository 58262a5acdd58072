//! What stored experiments, matrices of arrays, and layers say: made anew from their records.

use super::{CommandError, capture, layers, raid, watch};
use crate::exit::Exit;
use crate::output::Output;
use fathom_base::shell;
use fathom_knobs::knob::{Home, Opt};
use fathom_knobs::{find, persist};
use fathom_model::change::knob::KnobPlace;
use fathom_model::plan::{DesignKind, Plan};
use fathom_model::record::{Record, RunHead, RunKind};
use fathom_report::experiment::{self as report, HowTo};
use fathom_store::Store;
use fathom_study::experiment::{ExperimentStudy, Setting, study};
use fathom_study::verdict::{self, Study};
use fathom_sys::sysroot::SysRoot;
use serde_json::Value;

/// What a stored run says.
pub struct Answer {
    /// For people, with the verdict at its end.
    pub text: String,
    /// Names and values for programs.
    pub json: Vec<(&'static str, Value)>,
    /// What it is worth.
    pub study: Study,
}

/// The answer of a run of one of these kinds; none of any other. `unfinished` as in [`fathom_study::verdict::judge_stored`].
pub fn answer(
    output: Output,
    store: &Store,
    head: &RunHead,
    records: &[Record],
    unfinished: Option<&str>,
) -> Result<Option<Answer>, CommandError> {
    Ok(match head.kind {
        RunKind::Experiment => {
            let plan = store.plan(&head.id).map_err(|e| CommandError::store(output, &e))?;
            let plan = plan.as_ref();
            plan.map(|plan| of_experiment(output, plan, records, unfinished)).transpose()?
        }
        RunKind::Raid => {
            let study = judge(head.kind, None, records, unfinished);
            let matrix = store.plan(&head.id).map_err(|e| CommandError::store(output, &e))?;
            let (text, found) = raid::answer(output, records, &study);
            let impossible = matrix.as_ref().map(raid::impossible).unwrap_or_default();
            let text = raid::with_impossible(text, &impossible, output.width());
            let value = |value: serde_json::Result<Value>| value.unwrap_or_default();
            let json = vec![
                ("raid", value(serde_json::to_value(&found))),
                ("impossible", value(serde_json::to_value(&impossible))),
            ];
            Some(Answer { text, json, study })
        }
        RunKind::Layers => {
            let study = judge(head.kind, None, records, unfinished);
            let (text, found) = layers::answer(output, records, &study);
            let json = serde_json::to_value(&found).unwrap_or_default();
            Some(Answer { text, json: vec![("layers", json)], study })
        }
        RunKind::Watch => Some(watch::stored::answer(output, records, unfinished)),
        RunKind::Capture | RunKind::Replay => {
            Some(capture::answer(output, head.kind, records, unfinished))
        }
        _ => None,
    })
}

/// The verdict of a stored run of any kind, as its answer has it.
pub fn judge(
    kind: RunKind,
    plan: Option<&Plan>,
    records: &[Record],
    unfinished: Option<&str>,
) -> Study {
    let own = match kind {
        RunKind::Experiment => plan.and_then(|plan| {
            let plan = with_measured_levels(plan.clone(), records);
            let cells = fathom_plan::cells(&plan).ok()?;
            let found = study(&plan, &cells, records);
            Some(Study { findings: found.findings, verdict: found.verdict })
        }),
        RunKind::Raid => {
            let found = fathom_study::raid::study(records);
            Some(Study { findings: found.findings, verdict: found.verdict })
        }
        RunKind::Layers => {
            let found = fathom_study::layers::study(records);
            Some(Study { findings: found.findings, verdict: found.verdict })
        }
        _ => None,
    };
    match own {
        Some(own) => verdict::of_stored(own, kind, records.len(), unfinished),
        None => verdict::judge_stored(kind, records, unfinished),
    }
}

fn of_experiment(
    output: Output,
    plan: &Plan,
    records: &[Record],
    unfinished: Option<&str>,
) -> Result<Answer, CommandError> {
    let plan = with_measured_levels(plan.clone(), records);
    let cells = fathom_plan::cells(&plan)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let mut found = study(&plan, &cells, records);
    let judged = judge(RunKind::Experiment, Some(&plan), records, unfinished);
    (found.findings, found.verdict) = (judged.findings.clone(), judged.verdict);
    let text = text(output, &found);
    Ok(Answer {
        text,
        json: vec![("experiment", serde_json::to_value(&found).unwrap_or_default())],
        study: judged,
    })
}

/// The text of an experiment with the commands that set what was best.
pub fn text(output: Output, found: &ExperimentStudy) -> String {
    let how: Vec<HowTo> = found.choices.iter().map(|choice| how_to(&choice.settings)).collect();
    report::text_with(found, &how, output.width())
}

/// A narrowing adds levels to the plan that it was begun with; they stand in the records.
pub(super) fn with_measured_levels(mut plan: Plan, records: &[Record]) -> Plan {
    if plan.design.kind != DesignKind::Narrowing {
        return plan;
    }
    for (name, level) in records.iter().filter_map(|r| r.cell.as_ref()).flat_map(|c| &c.levels) {
        let factor = plan.factors.iter_mut().find(|factor| factor.name == *name);
        if let Some(factor) = factor.filter(|factor| !factor.levels.contains(level)) {
            factor.levels.push(level.clone());
        }
    }
    plan
}

/// Commands for the settings of one choice, each place once; what makes it last is the same for all places but the name.
pub(super) fn how_to(settings: &[Setting]) -> HowTo {
    let root = SysRoot::live();
    let mut how = HowTo { now: Vec::new(), persist: Vec::new() };
    for setting in settings {
        let Ok(knob) = find(&setting.knob) else { continue };
        how.now.extend(now(knob.home, &setting.place, &setting.value));
        let lasting = persist::text(&root, knob, Some(&setting.place), Some(&setting.value));
        if lasting.file.is_empty() {
            how.persist.push(lasting.text);
            continue;
        }
        let file = format!("in {}:", lasting.file);
        if !how.persist.contains(&file) {
            how.persist.insert(0, file);
        }
        how.persist.extend(lasting.text.lines().map(str::to_owned));
        let then = format!("then: {}", lasting.then);
        how.persist.retain(|line| *line != then);
        how.persist.push(then);
    }
    how
}

/// What sets it until the next boot.
fn now(home: Home, place: &KnobPlace, value: &str) -> Option<String> {
    let word = shell::word(value);
    let write = |path: String| Some(format!("echo {word} > {path}"));
    let device = || match place {
        KnobPlace::Device { name, .. } => Some(name.replace('/', "!")),
        _ => None,
    };
    match home {
        Home::Queue(file) => write(format!("/sys/block/{}/queue/{file}", device()?)),
        Home::Scheduler(_, file) => write(format!("/sys/block/{}/queue/iosched/{file}", device()?)),
        Home::Device(file) => write(format!("/sys/block/{}/{file}", device()?)),
        Home::Bdi(file) => write(format!("/sys/block/{}/bdi/{file}", device()?)),
        Home::MountBdi(file) => {
            let KnobPlace::Mount { mount_point, .. } = place else { return None };
            let number = format!("$(mountpoint -d {})", shell::path(mount_point));
            write(format!("/sys/class/bdi/{number}/{file}"))
        }
        Home::Sysctl(name) => Some(format!("sysctl -w {}={word}", name.replace('/', "."))),
        Home::Module(module, name) => write(format!("/sys/module/{module}/parameters/{name}")),
        Home::AccessTime => remount(place, value),
        Home::Option(_, Opt::Value(name, _)) => remount(place, &format!("{name}={value}")),
        Home::Option(_, Opt::Flag(on, off, _)) => {
            remount(place, if value == "1" { on } else { off })
        }
        _ => None,
    }
}

fn remount(place: &KnobPlace, option: &str) -> Option<String> {
    let KnobPlace::Mount { mount_point, .. } = place else { return None };
    Some(format!("mount -o remount,{option} {}", shell::path(mount_point)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_set_it_now() {
        let sda = KnobPlace::Device { id: "wwn-1".into(), name: "sda".into() };
        let of = |home, place: &KnobPlace, value| now(home, place, value).unwrap_or_default();
        assert_eq!(
            of(Home::Queue("scheduler"), &sda, "bfq"),
            "echo bfq > /sys/block/sda/queue/scheduler"
        );
        assert_eq!(
            of(Home::Sysctl("vm/swappiness"), &KnobPlace::Machine, "1"),
            "sysctl -w vm.swappiness=1"
        );
        let mount = KnobPlace::Mount { mount_point: "/srv/my data".into(), device_id: "x".into() };
        assert_eq!(
            of(Home::AccessTime, &mount, "noatime"),
            "mount -o remount,noatime '/srv/my data'"
        );
        assert_eq!(
            of(Home::MountBdi("read_ahead_kb"), &mount, "512"),
            "echo 512 > /sys/class/bdi/$(mountpoint -d '/srv/my data')/read_ahead_kb"
        );
        assert_eq!(now(Home::Queue("scheduler"), &KnobPlace::Machine, "bfq"), None);
    }

    /// Whatever its records come to, what was killed is a part of what was asked for.
    #[test]
    fn an_unfinished_run_is_said_to_be_one_in_every_kind() {
        for kind in [RunKind::Experiment, RunKind::Raid, RunKind::Layers, RunKind::Run] {
            let ids = |unfinished| {
                let findings = judge(kind, None, &[], unfinished).findings;
                findings.into_iter().map(|finding| finding.id).collect::<Vec<_>>()
            };
            assert!(ids(Some("partial")).contains(&"unfinished-run".to_owned()), "{kind:?}");
        }
    }
}
