//! One cause is told once.

use crate::rules::drives_under;
use crate::scene::Scene;
use fathom_base::order::Order;
use fathom_model::defect::{Defect, Gravity};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Causes and what else they show as on the same node: rules of different groups, which do not know each other. Within a
/// group a rule yields by itself.
const SYMPTOMS: &[(&str, &str)] = &[
    ("drive-failing", "kernel-log-io-errors"),
    ("drive-failing", "md-member-errors"),
    ("drive-offline", "kernel-log-io-errors"),
    ("drive-offline", "kernel-log-resets"),
    ("multipath-degraded", "kernel-log-resets"),
    ("nvme-path-down", "kernel-log-resets"),
    ("pcie-link-downgraded", "link-oversubscribed"),
    ("rotational-wrong", "rotational-flag-wrong"),
];

/// What ails a drive, and what its loss brings about elsewhere.
const BROUGHT_ABOUT: &[(&str, &str)] = &[
    ("drive-failing", "drive-offline"),
    ("drive-failing", "md-degraded"),
    ("drive-failing", "lvm-raid-degraded"),
    ("drive-offline", "md-degraded"),
    ("drive-offline", "lvm-raid-degraded"),
];

/// What says that a set lacks a device.
const LACKING: [&str; 5] =
    ["btrfs-incomplete", "lvm-raid-degraded", "lvm-vg-incomplete", "md-degraded", "md-not-running"];

/// Drops the symptoms of causes that are told, tells what these bring about with them, joins what is wrong with several nodes in
/// the same way, and puts the gravest first.
pub(crate) fn one_for_each_cause(scene: &Scene<'_>, found: Vec<Defect>) -> Vec<Defect> {
    let found = within_causes(scene, without_symptoms(found));
    let mut told = joined(scene, with_what_lacks(found));
    told.order_by(|a, b| {
        let key =
            |d: &Defect| (Reverse(d.gravity), Reverse(d.certainty), d.rule.clone(), d.node.clone());
        key(a).cmp(&key(b))
    });
    told
}

fn without_symptoms(found: Vec<Defect>) -> Vec<Defect> {
    // A failed path is told on its map, with the path as what it concerns.
    let nodes = |defect: &Defect| {
        let others = defect.concerns.iter().cloned().map(Some);
        std::iter::once(defect.node.clone()).chain(others).collect::<Vec<_>>()
    };
    let mut told: BTreeMap<(String, Option<String>), Gravity> = BTreeMap::new();
    for defect in &found {
        for node in nodes(defect) {
            let gravest = told.entry((defect.rule.clone(), node)).or_insert(defect.gravity);
            *gravest = defect.gravity.max(*gravest);
        }
    }
    // A graver one has more to say than its cause.
    let is_symptom = |defect: &Defect| {
        let mut causes = SYMPTOMS.iter().filter(|(_, symptom)| *symptom == defect.rule);
        causes.any(|(cause, _)| {
            let gravity = told.get(&((*cause).to_owned(), defect.node.clone()));
            gravity.is_some_and(|gravity| *gravity >= defect.gravity)
        })
    };
    found.into_iter().filter(|defect| !is_symptom(defect)).collect()
}

/// What a drive brings about by its loss alone is told with what is told of the drive: there, or here where it is graver and
/// nothing else stands on the drive.
fn within_causes(scene: &Scene<'_>, mut found: Vec<Defect>) -> Vec<Defect> {
    let weight = |defect: &Defect| (defect.gravity, defect.certainty);
    for (cause, effect) in BROUGHT_ABOUT {
        let (effects, mut told): (Vec<Defect>, Vec<Defect>) =
            found.into_iter().partition(|defect| defect.rule == *effect);
        let mut apart = Vec::new();
        let mut within = BTreeSet::new();
        for (at, effects) in by_cause(scene, &told, cause, effects) {
            let Some(at) = at else {
                apart = effects;
                continue;
            };
            let lesser = |effect: &Defect| weight(effect) <= weight(&told[at]);
            let (lesser, graver): (Vec<Defect>, Vec<Defect>) =
                effects.into_iter().partition(lesser);
            tell_within(&mut told[at], lesser);
            for mut effect in graver {
                if stands_alone(scene, &told[at], &effect) {
                    tell_within(&mut effect, vec![told[at].clone()]);
                    within.insert(at);
                }
                apart.push(effect);
            }
        }
        let rest = told.into_iter().enumerate().filter(|(at, _)| !within.contains(at));
        found = rest.map(|(_, defect)| defect).chain(apart).collect();
    }
    found
}

/// What the log says of a drive that is no longer there is told with the one set that lacks a device; of several nobody knows which
/// lacks it, nor which of several drives.
fn with_what_lacks(mut found: Vec<Defect>) -> Vec<Defect> {
    let lacks = |defect: &Defect| {
        LACKING.contains(&defect.rule.as_str()) && defect.node.is_some() && defect.lost.is_empty()
    };
    let sets: Vec<usize> = (0..found.len()).filter(|&index| lacks(&found[index])).collect();
    let [set] = sets[..] else { return found };
    let gravity = found[set].gravity;
    let is_told = |defect: &Defect| {
        let is_of_lost = defect.node.is_none() && !defect.lost.is_empty();
        is_of_lost && defect.rule.starts_with("kernel-log-") && defect.gravity <= gravity
    };
    let rules: Vec<&str> =
        found.iter().filter(|defect| is_told(defect)).map(|defect| defect.rule.as_str()).collect();
    // The log may call one drive by two names, but not in lines of one kind.
    if rules.len() != rules.iter().collect::<BTreeSet<_>>().len() {
        return found;
    }
    let mut into = found.remove(set);
    let (of_lost, mut found): (Vec<Defect>, Vec<Defect>) = found.into_iter().partition(is_told);
    tell_within(&mut into, of_lost);
    found.push(into);
    found
}

/// Defects by the place of their cause among those that are told: of the same node, or of the one drive that they come from.
/// Those without one come first.
fn by_cause(
    scene: &Scene<'_>,
    told: &[Defect],
    rule: &str,
    effects: Vec<Defect>,
) -> BTreeMap<Option<usize>, Vec<Defect>> {
    let drives = |key: &String| {
        let drives = drives_under(scene, scene.by_key(key)?);
        (!drives.is_empty()).then_some(drives)
    };
    let (mut by_node, mut by_drive) = (BTreeMap::new(), BTreeMap::new());
    for (at, cause) in told.iter().enumerate().filter(|(_, cause)| cause.rule == rule) {
        let Some(node) = &cause.node else { continue };
        by_node.entry(node.clone()).or_insert(at);
        if let Some(drives) = drives(node) {
            by_drive.entry(drives).or_insert(at);
        }
    }
    let mut found: BTreeMap<Option<usize>, Vec<Defect>> = BTreeMap::new();
    for effect in effects {
        let lost: BTreeSet<_> = effect.lost.iter().map(drives).collect();
        let of_one = lost.first().filter(|_| lost.len() == 1).and_then(Option::as_ref);
        let same = effect.node.as_ref().and_then(|node| by_node.get(node));
        let cause = same.or_else(|| by_drive.get(of_one?)).copied();
        found.entry(cause).or_default().push(effect);
    }
    found
}

/// True when nothing stands on the drive of one defect but the node of the other and what that stands on or carries.
fn stands_alone(scene: &Scene<'_>, of_drive: &Defect, other: &Defect) -> bool {
    let index = |defect: &Defect| scene.by_key(defect.node.as_ref()?);
    let (Some(drive), Some(node)) = (index(of_drive), index(other)) else { return false };
    let (above, below) = (scene.everything_above(node), scene.machine().walk_from(node));
    scene.everything_above(drive).iter().all(|one| above.contains(one) || below.contains(one))
}

/// Makes defects of one rule a part of another: a drive may hold a part of many volumes.
fn tell_within(into: &mut Defect, all: Vec<Defect>) {
    const NAMED: usize = 3;
    let more = all.len().saturating_sub(NAMED);
    for (number, told) in all.into_iter().enumerate() {
        if number < NAMED {
            into.summary = format!("{}; {}", into.summary, told.summary);
        }
        if number == 0 {
            into.why = format!("{}; {}", into.why, told.why);
            into.risk = format!("{}; {}", into.risk, told.risk);
            into.verify = format!("{}; {}", into.verify, told.verify);
        }
        into.concerns.extend(told.node.into_iter().chain(told.also).chain(told.concerns));
        into.evidence.extend(told.evidence);
        into.fix.extend(told.fix);
    }
    if more > 0 {
        into.summary = format!("{}; and {more} more like this", into.summary);
    }
    into.concerns.retain(|key| into.node.as_ref() != Some(key));
    keep_first_ones(&mut into.concerns);
    keep_first_ones(&mut into.evidence);
    keep_first_ones(&mut into.fix);
}

/// Defects of one rule on several nodes whose words differ by nothing but the node's name become one that names the
/// others in `also`, with the evidence and the commands of all.
fn joined(scene: &Scene<'_>, found: Vec<Defect>) -> Vec<Defect> {
    let mut first = BTreeMap::new();
    let mut told: Vec<Defect> = Vec::new();
    let mut has_others = BTreeSet::new();
    for defect in found {
        let Some(node) = defect.node.clone() else {
            told.push(defect);
            continue;
        };
        // What is graver on one node, or surer, is not so on another.
        let words = words_without_names(scene, &defect, &node);
        let key = (defect.rule.clone(), defect.gravity, defect.certainty, words);
        let Some(&index) = first.get(&key) else {
            first.insert(key, told.len());
            told.push(defect);
            continue;
        };
        let into = &mut told[index];
        into.also.push(node);
        into.also.extend(defect.also);
        into.concerns.extend(defect.concerns);
        into.evidence.extend(defect.evidence);
        into.fix.extend(defect.fix);
        has_others.insert(index);
    }
    for index in has_others {
        let into = &mut told[index];
        into.also.retain(|other| into.node.as_ref() != Some(other));
        keep_first_ones(&mut into.also);
        keep_first_ones(&mut into.concerns);
        keep_first_ones(&mut into.evidence);
        keep_first_ones(&mut into.fix);
    }
    told
}

/// Takes out what stands further up already.
fn keep_first_ones<T: Ord + Clone>(all: &mut Vec<T>) {
    let mut seen = BTreeSet::new();
    all.retain(|one| seen.insert(one.clone()));
}

/// Summary and reason with the names of the node taken out.
fn words_without_names(scene: &Scene<'_>, defect: &Defect, node: &str) -> String {
    let mut names = vec![node.to_owned()];
    if let Some(index) = scene.by_key(node) {
        names.push(scene.node(index).name.clone());
    }
    names.order_by_key(|name| Reverse(name.len()));
    let words = format!("{}\n{}\n{}", defect.summary, defect.why, defect.verify);
    // A single sign, such as that of the root directory, stands in other words too.
    names.iter().fold(words, |words, name| match name.len() {
        0 => words,
        1 => words
            .split(' ')
            .map(|word| if word == name { "\u{0}" } else { word })
            .collect::<Vec<_>>()
            .join(" "),
        _ => words.replace(name.as_str(), "\u{0}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::defect::Certainty;
    use fathom_model::snapshot::Snapshot;
    use fathom_model::stack::{Node, NodeKind};

    fn two_disks() -> Snapshot {
        let mut snapshot = Snapshot::default();
        for name in ["sda", "sdb"] {
            let mut node = Node::new(NodeKind::Disk, name);
            node.path = Some(format!("/dev/{name}"));
            node.devno = Some("8:0".to_owned());
            snapshot.machine.nodes.push(node);
        }
        snapshot
    }

    fn defect(rule: &str, disk: &str, gravity: Gravity, text: &str) -> Defect {
        Defect::new(rule, gravity, Some(&format!("/dev/{disk}")), format!("{disk} {text}"))
            .seen(format!("/sys/block/{disk}/x"), "1")
            .command("mend it", format!("mend /dev/{disk}"))
    }

    #[test]
    fn the_same_on_two_disks_is_told_once() {
        let snapshot = two_disks();
        let scene = Scene::new(&snapshot);
        let found = vec![
            defect("slow", "sda", Gravity::Low, "is slow"),
            defect("slow", "sdb", Gravity::Low, "is slow"),
            defect("slow", "sdb", Gravity::Low, "is slower still"),
            defect("broken", "sdb", Gravity::High, "is broken"),
        ];
        let told = one_for_each_cause(&scene, found);
        let rules: Vec<_> = told.iter().map(|d| (d.rule.as_str(), d.also.clone())).collect();
        let none = Vec::<String>::new();
        assert_eq!(
            rules,
            [("broken", none.clone()), ("slow", vec!["/dev/sdb".to_owned()]), ("slow", none)]
        );
        assert_eq!((told[1].evidence.len(), told[1].fix.len()), (2, 2));
    }

    #[test]
    fn what_is_graver_or_surer_elsewhere_is_told_apart() {
        let snapshot = two_disks();
        let scene = Scene::new(&snapshot);
        let second = || defect("slow", "sdb", Gravity::Low, "is slow");
        let graver = defect("slow", "sdb", Gravity::Medium, "is slow");
        for (other, count) in [(second(), 1), (second().sure(Certainty::Possible), 2), (graver, 2)]
        {
            let (gravity, certainty) = (other.gravity, other.certainty);
            let found = vec![defect("slow", "sda", Gravity::Low, "is slow"), other];
            let told = one_for_each_cause(&scene, found);
            assert_eq!(told.len(), count, "{told:?}");
            let own = |name: &str| told.iter().find(|d| d.node.as_deref() == Some(name));
            let first = own("/dev/sda").map(|d| (d.gravity, d.certainty));
            assert_eq!(first, Some((Gravity::Low, Certainty::Certain)));
            let second = own("/dev/sdb").map(|d| (d.gravity, d.certainty));
            assert_eq!(second, (count == 2).then_some((gravity, certainty)));
        }
    }

    /// The name of the root directory is a single sign.
    #[test]
    fn the_same_on_the_root_directory_and_another_is_told_once() {
        let mut snapshot = Snapshot::default();
        for place in ["/", "/srv"] {
            let mut node = Node::new(NodeKind::Mount, place);
            node.path = Some(place.to_owned());
            snapshot.machine.nodes.push(node);
        }
        let on = |place: &str| {
            Defect::new("full", Gravity::Low, Some(place), format!("{place} is and/or was full"))
                .verified_by(format!("df {place} | tail"))
        };
        let told = one_for_each_cause(&Scene::new(&snapshot), vec![on("/"), on("/srv")]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].also, ["/srv"]);
    }

    #[test]
    fn the_log_of_a_drive_that_is_gone_is_told_with_the_set_that_lacks_one() {
        let snapshot = two_disks();
        let scene = Scene::new(&snapshot);
        let set = |disk| defect("lvm-vg-incomplete", disk, Gravity::High, "lacks a device");
        let lines = |rule: &str, name: &str, gravity| {
            let defect = Defect::new(rule, gravity, None, format!("{name} (no longer there)"));
            defect.by_loss_of(vec![name.to_owned()]).seen("dmesg", name)
        };
        let resets = |name| lines("kernel-log-resets", name, Gravity::High);
        let told = |found| one_for_each_cause(&scene, found);
        let errors = lines("kernel-log-io-errors", "sdc", Gravity::Low);
        let found = told(vec![resets("1:0:0:0"), set("sda"), errors]);
        assert_eq!(found.len(), 1, "{found:#?}");
        let words = "sda lacks a device; 1:0:0:0 (no longer there); sdc (no longer there)";
        assert_eq!((found[0].summary.as_str(), found[0].evidence.len()), (words, 3));
        // Of two drives, or two sets, nobody knows which.
        assert_eq!(told(vec![resets("1:0:0:0"), set("sda"), resets("2:0:0:0")]).len(), 3);
        let other = defect("md-degraded", "sdb", Gravity::High, "lacks another");
        assert_eq!(told(vec![resets("1:0:0:0"), set("sda"), other.clone()]).len(), 3);
        // The set has lost one that is still there.
        let known = other.by_loss_of(vec!["/dev/sda".into()]);
        assert_eq!(told(vec![resets("1:0:0:0"), known]).len(), 2);
        let machine = Defect::new("kernel-log-resets", Gravity::High, None, "a device");
        assert_eq!(told(vec![machine, set("sda")]).len(), 2, "of nobody that is named");
        let low = Defect { gravity: Gravity::Medium, ..set("sda") };
        assert_eq!(told(vec![resets("1:0:0:0"), low]).len(), 2, "the graver has more to say");
    }

    #[test]
    fn a_symptom_is_not_told_beside_its_cause() {
        let snapshot = two_disks();
        let scene = Scene::new(&snapshot);
        let found = vec![
            defect("kernel-log-resets", "sda", Gravity::High, "was reset"),
            defect("drive-offline", "sda", Gravity::High, "is offline"),
            defect("kernel-log-resets", "sdb", Gravity::High, "was reset"),
            defect("kernel-log-resets", "sdc", Gravity::High, "was reset and is a path"),
            defect("multipath-degraded", "dm-0", Gravity::High, "lost").concerning("/dev/sdc"),
            defect("drive-failing", "sdd", Gravity::Low, "has replaced one")
                .concerning("/dev/sdd1"),
            defect("kernel-log-io-errors", "sdd", Gravity::High, "lost data"),
            defect("md-member-errors", "sdd1", Gravity::Low, "was mended"),
        ];
        let mut told = one_for_each_cause(&scene, found);
        told.retain(|defect| defect.rule != "multipath-degraded");
        let told: Vec<_> = told.iter().map(|d| (d.rule.as_str(), d.node.as_deref())).collect();
        assert_eq!(
            told,
            [
                ("drive-offline", Some("/dev/sda")),
                ("kernel-log-io-errors", Some("/dev/sdd")),
                ("kernel-log-resets", Some("/dev/sdb")),
                ("drive-failing", Some("/dev/sdd"))
            ]
        );
        let known: BTreeSet<&str> = crate::rules::all().map(|rule| rule.id).collect();
        for (cause, symptom) in SYMPTOMS {
            assert!(known.contains(cause) && known.contains(symptom), "{cause} {symptom}");
        }
    }
}
