//! Rules of udev that set attributes of queues, against each other and against what is in force.

use crate::scene::Scene;
use fathom_base::shell;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};

/// What a rule asks for: key, wanted or not, pattern.
type Match<'a> = (&'a str, bool, &'a str);

/// A rule, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UdevRule<'a> {
    file: &'a str,
    line: &'a str,
    matches: Vec<Match<'a>>,
    /// What rules before it in its file ask for that jump over it.
    jumps: Vec<Vec<Match<'a>>>,
    /// What it sets: attribute (`queue/scheduler`) and value.
    sets: Vec<(&'a str, &'a str)>,
}

fn rules<'a>(scene: &Scene<'a>) -> Vec<UdevRule<'a>> {
    let lines = &scene.snapshot.system.configuration.udev_queue_rules;
    let mut rules: Vec<UdevRule<'a>> = Vec::new();
    // Jumps under way: file, label, what the rule that jumps asks for.
    let mut jumps: Vec<(&str, &str, Vec<Match<'a>>)> = Vec::new();
    for (file, line) in lines.iter().map(|(file, line)| (file.as_str(), line.as_str())) {
        let (mut rule, label, jump) = parse(file, line);
        jumps.retain(|(of, to, _)| *of == file && Some(*to) != label);
        rule.jumps = jumps.iter().map(|(_, _, matches)| matches.clone()).collect();
        if let Some(to) = jump {
            jumps.push((file, to, rule.matches.clone()));
        }
        rules.extend(Some(rule).filter(|rule| !rule.sets.is_empty()));
    }
    rules
}

/// `KEY=="pattern"`, `KEY!="pattern"` and `ATTR{x}="value"`, with commas between them; beside the rule the label that it is, and the
/// one that it jumps to.
fn parse<'a>(file: &'a str, line: &'a str) -> (UdevRule<'a>, Option<&'a str>, Option<&'a str>) {
    let (mut matches, mut sets, mut label, mut jump) = (Vec::new(), Vec::new(), None, None);
    let mut rest = line;
    // The value ends with the second quotation mark.
    while let Some((head, after)) = rest.split_once('"') {
        let Some((value, after)) = after.split_once('"') else { break };
        rest = after;
        let head = head.trim_matches([' ', ',']);
        let key = head.trim_end_matches(['=', '!', '+', ':', ' ']);
        let operator = head[key.len()..].trim();
        match operator {
            "==" => matches.push((key, true, value)),
            "!=" => matches.push((key, false, value)),
            "=" if key == "LABEL" => label = Some(value),
            "=" if key == "GOTO" => jump = Some(value),
            // What fails there does not match, whatever the sign before it.
            "=" if key == "PROGRAM" || key.starts_with("IMPORT") => {
                matches.push((key, true, value))
            }
            "=" | ":=" => {
                let attribute = key.strip_prefix("ATTR{").and_then(|k| k.strip_suffix('}'));
                sets.extend(attribute.map(|attribute| (attribute, value)));
            }
            _ => {}
        }
    }
    (UdevRule { file, line, matches, jumps: Vec::new(), sets }, label, jump)
}

/// Two rules set one attribute differently, and the devices of one are among those of the other.
pub(super) fn contradict(scene: &Scene<'_>) -> Vec<Defect> {
    let rules = rules(scene);
    let mut found = Vec::new();
    for (at, later) in rules.iter().enumerate() {
        for earlier in &rules[..at] {
            // A rule for some devices after one for all is how exceptions are written.
            let jumped_too = later.jumps.iter().all(|jump| earlier.jumps.contains(jump));
            if !jumped_too || !is_part_of(&earlier.matches, &later.matches) {
                continue;
            }
            for (attribute, value) in &later.sets {
                let other = earlier.sets.iter().find(|(a, v)| a == attribute && v != value);
                if let Some((_, lost)) = other {
                    found.push(contradiction(earlier, later, attribute, lost, value));
                }
            }
        }
    }
    found
}

/// True when everything that the second asks for is asked for by the first too, so that the first holds for no more devices.
fn is_part_of(first: &[(&str, bool, &str)], second: &[(&str, bool, &str)]) -> bool {
    let asks = |m: &&(&str, bool, &str)| m.0 != "ACTION";
    second.iter().filter(asks).all(|m| first.contains(m))
}

fn contradiction(
    earlier: &UdevRule<'_>,
    later: &UdevRule<'_>,
    attribute: &str,
    lost: &str,
    value: &str,
) -> Defect {
    let summary = format!(
        "{} sets {attribute} to {lost}, and {} then to {value}: the second always wins",
        earlier.file, later.file
    );
    Defect::new("udev-rules-contradict", Gravity::Low, None, summary)
        .seen(earlier.file, earlier.line)
        .seen(later.file, later.line)
        .because("whoever changes the first rule will wonder why nothing happens")
        .advise(format!("keep one of them; files are read in the order of their names, whatever directory they are in, and {} comes later", later.file))
        .command("see what a device gets", "udevadm test /sys/block/DEVICE 2>&1 | grep queue/")
        .risking("none")
        .verified_by("cat /sys/block/DEVICE/queue/* after udevadm trigger")
}

/// A rule holds for a device, and the device has another value.
pub(super) fn not_in_effect(scene: &Scene<'_>) -> Vec<Defect> {
    let rules = rules(scene);
    let mut found = Vec::new();
    for (index, node) in scene.nodes(&[NodeKind::Disk, NodeKind::Md, NodeKind::Dm]) {
        if !scene.in_use(index) {
            continue;
        }
        let mut wanted: Vec<(&str, &str, &UdevRule<'_>)> = Vec::new();
        for rule in &rules {
            match holds_for(rule, node) {
                Some(true) => {}
                Some(false) => continue,
                // Whether it holds is not known: what it sets is unknown from here on.
                None => {
                    wanted.retain(|(attribute, ..)| !rule.sets.iter().any(|(a, _)| a == attribute));
                    continue;
                }
            }
            for (attribute, value) in &rule.sets {
                wanted.retain(|(known, ..)| known != attribute);
                wanted.push((attribute, value, rule));
            }
        }
        for (attribute, value, rule) in wanted {
            let Some(is) = value_of(node, attribute).filter(|is| !same(is, value)) else {
                continue;
            };
            found.push(ineffective(node, attribute, value, &is, rule));
        }
    }
    found
}

/// Whether a rule holds for a device; none when it asks for something that is not known here, or what jumps over it does.
fn holds_for(rule: &UdevRule<'_>, node: &Node) -> Option<bool> {
    let jumped: Vec<Option<bool>> = rule.jumps.iter().map(|jump| fits(jump, node)).collect();
    match fits(&rule.matches, node) {
        Some(true) if jumped.contains(&Some(true)) => Some(false),
        Some(true) if jumped.contains(&None) => None,
        own => own,
    }
}

/// Whether all that is asked for is so.
fn fits(matches: &[Match<'_>], node: &Node) -> Option<bool> {
    let asked = matches.iter().filter(|(key, ..)| *key != "ACTION");
    let fits: Vec<Option<bool>> = asked
        .map(|(key, wanted, pattern)| {
            let value = match *key {
                "SUBSYSTEM" => "block".to_owned(),
                "KERNEL" => node.name.clone(),
                "ENV{DEVTYPE}" => "disk".to_owned(),
                key => value_of(node, key.strip_prefix("ATTR{")?.strip_suffix('}')?)?,
            };
            Some(matches_pattern(pattern, &value) == *wanted)
        })
        .collect();
    // One that does not fit decides, whatever the others are.
    if fits.contains(&Some(false)) {
        Some(false)
    } else {
        fits.into_iter().collect::<Option<Vec<_>>>().map(|_| true)
    }
}

/// An attribute as sysfs shows it.
fn value_of(node: &Node, attribute: &str) -> Option<String> {
    let queue = node.queue.as_ref()?;
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let flag = |value: Option<bool>| value.map(|value| u8::from(value).to_string());
    match attribute {
        "queue/scheduler" => queue.scheduler.clone(),
        "queue/rotational" => flag(queue.rotational),
        "queue/read_ahead_kb" | "bdi/read_ahead_kb" => number(queue.read_ahead_kib),
        "queue/nr_requests" => number(queue.requests),
        "queue/max_sectors_kb" => number(queue.max_sectors_kib),
        "queue/nomerges" => number(queue.nomerges),
        "queue/rq_affinity" => number(queue.rq_affinity),
        "queue/iostats" => flag(queue.iostats),
        "queue/write_cache" => queue.write_cache.clone(),
        "queue/wbt_lat_usec" => queue.wbt_lat_us.map(|value| value.to_string()),
        _ => None,
    }
}

/// The kernel rounds read-ahead down to whole pages, and takes the old names of schedulers for the new ones.
fn same(is: &str, wanted: &str) -> bool {
    let wanted = match wanted {
        "noop" => "none",
        "deadline" => "mq-deadline",
        other => other,
    };
    let close = is.parse::<i64>().ok().zip(wanted.parse::<i64>().ok());
    is == wanted || close.is_some_and(|(is, wanted)| is <= wanted && wanted - is < 4 && is >= 4)
}

/// A pattern of udev: `*`, `?`, `[a-z]`, `[!a]`, alternatives with `|`.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    pattern.split('|').any(|one| matches_glob(one.as_bytes(), text.as_bytes()))
}

fn matches_glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        // Several stars are one.
        (Some((b'*', rest)), _) if rest.first() == Some(&b'*') => matches_glob(rest, text),
        (Some((b'*', rest)), _) => {
            (0..=text.len()).any(|skipped| matches_glob(rest, &text[skipped..]))
        }
        (Some((b'?', rest)), Some((_, text))) => matches_glob(rest, text),
        (Some((b'[', rest)), Some((c, text))) => {
            let Some(end) = rest.iter().skip(1).position(|c| *c == b']').map(|at| at + 1) else {
                return false;
            };
            let (set, rest) = (&rest[..end], &rest[end + 1..]);
            in_set(set, *c) && matches_glob(rest, text)
        }
        (Some((p, rest)), Some((c, text))) => p == c && matches_glob(rest, text),
        _ => false,
    }
}

fn in_set(set: &[u8], c: u8) -> bool {
    let (set, wanted) = match set.split_first() {
        Some((b'!' | b'^', rest)) => (rest, false),
        _ => (set, true),
    };
    let range = set.windows(3).any(|w| w[1] == b'-' && (w[0]..=w[2]).contains(&c));
    (range || set.contains(&c)) == wanted
}

fn ineffective(
    node: &Node,
    attribute: &str,
    wanted: &str,
    is: &str,
    rule: &UdevRule<'_>,
) -> Defect {
    let summary =
        format!("{} sets {attribute} of {} to {wanted}, but it is {is}", rule.file, node.label());
    let path = format!("/sys/block/{}/{attribute}", node.name);
    Defect::new("udev-rule-not-in-effect", Gravity::Low, Some(&node.key()), summary)
        .sure(Certainty::Likely)
        .seen(rule.file, rule.line)
        .seen(path.clone(), is)
        .because("the setting that somebody has chosen is not the one in force: it was changed by hand, by tuned, by a later write to another attribute, or the kernel refused it")
        .command("apply the rules again and see what comes out", format!(
            "udevadm trigger --action=change --name-match={} && udevadm settle && cat {}",
            shell::word(node.label()),
            shell::word(path)
        ))
        .advise("where another program sets it too (tuned, multipathd, an init script), let only one of them")
        .risking("the other attributes of the rules are set again as well")
        .verified_by("fathom check tells it no more after the next boot")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Bench;

    fn bench(rules: &[(&str, &str)]) -> Bench {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        bench.mounted("ext4", "/srv", disk);
        let own =
            |(file, line): &(&str, &str)| (format!("/etc/udev/rules.d/{file}"), (*line).to_owned());
        bench.snapshot.system.configuration.udev_queue_rules = rules.iter().map(own).collect();
        bench
    }

    const ALL: &str = r#"ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="sd[a-z]", ATTR{queue/scheduler}="none""#;

    #[test]
    fn a_later_rule_for_the_same_devices_wins() {
        let later = r#"SUBSYSTEM=="block", KERNEL=="sd[a-z]", ATTR{queue/scheduler}="bfq""#;
        let defect = bench(&[("60-a.rules", ALL), ("90-b.rules", later)]).one(contradict);
        assert_eq!(
            defect.summary,
            "/etc/udev/rules.d/60-a.rules sets queue/scheduler to none, and /etc/udev/rules.d/90-b.rules then to bfq: the second always wins"
        );
        let exception = r#"KERNEL=="sd[a-z]", SUBSYSTEM=="block", ATTR{queue/rotational}=="1", ATTR{queue/scheduler}="bfq""#;
        assert!(
            bench(&[("60-a.rules", ALL), ("90-b.rules", exception)]).ask(contradict).is_empty()
        );
        assert!(bench(&[("60-a.rules", ALL), ("90-b.rules", ALL)]).ask(contradict).is_empty());
    }

    #[test]
    fn what_is_in_force_is_held_against_the_last_rule() {
        let defect = bench(&[("60-a.rules", ALL)]).one(not_in_effect);
        assert_eq!(
            defect.summary,
            "/etc/udev/rules.d/60-a.rules sets queue/scheduler of /dev/sda to none, but it is mq-deadline"
        );
        let exception =
            r#"KERNEL=="sd*", ATTR{queue/rotational}=="1", ATTR{queue/scheduler}="mq-deadline""#;
        assert!(
            bench(&[("60-a.rules", ALL), ("90-b.rules", exception)]).ask(not_in_effect).is_empty()
        );
    }

    #[test]
    fn nothing_is_said_where_a_rule_asks_for_what_is_not_known() {
        let unknown = r#"KERNEL=="sd*", ENV{ID_MODEL}=="X", ATTR{queue/scheduler}="bfq""#;
        assert!(bench(&[("60-a.rules", unknown)]).ask(not_in_effect).is_empty());
        assert!(
            bench(&[("60-a.rules", ALL), ("70-b.rules", unknown)]).ask(not_in_effect).is_empty()
        );
        let other = r#"KERNEL=="nvme*", ATTR{queue/scheduler}="bfq""#;
        assert!(bench(&[("60-a.rules", other)]).ask(not_in_effect).is_empty());
    }

    /// The usual form of guarded rules: what is not meant jumps over them.
    #[test]
    fn rules_that_are_jumped_over_do_not_hold() {
        let set = r#"ATTR{queue/scheduler}="none""#;
        let (end, other) = (r#"LABEL="my_end""#, r#"LABEL="other_end""#);
        for (jump, label, count) in [
            (r#"KERNEL!="nvme*", GOTO="my_end""#, end, 0),
            (r#"KERNEL!="sd*", GOTO="my_end""#, end, 1),
            (r#"ENV{X}=="1", GOTO="my_end""#, end, 0),
            (r#"KERNEL=="sd*", GOTO="my_end""#, other, 0),
        ] {
            let rules = [("60-a.rules", jump), ("60-a.rules", set), ("60-a.rules", label)];
            assert_eq!(bench(&rules).ask(not_in_effect).len(), count, "{jump} {label}");
        }
        // Behind the label, and in the next file, nothing is jumped over any more.
        let jump = ("60-a.rules", r#"KERNEL=="sd*", GOTO="my_end""#);
        for after in [("60-a.rules", set), ("70-b.rules", set)] {
            assert_eq!(bench(&[jump, ("60-a.rules", end), after]).ask(not_in_effect).len(), 1);
        }
        assert_eq!(bench(&[jump, ("70-b.rules", set)]).ask(not_in_effect).len(), 1);
        // The second of two wins always only where nothing jumps over it.
        let later = r#"ATTR{queue/scheduler}="bfq""#;
        let rules = [("60-a.rules", set), jump, ("60-a.rules", later)];
        assert_eq!(bench(&rules).ask(contradict), []);
        assert_eq!(
            bench(&[jump, ("60-a.rules", set), ("60-a.rules", later)]).ask(contradict).len(),
            1
        );
        // A program that fails is a condition that is not met.
        let program = r#"KERNEL=="sda", PROGRAM="/bin/false", ATTR{queue/nr_requests}="64""#;
        let mut asked = bench(&[("60-a.rules", program)]);
        asked.queue_of(0).requests = Some(256);
        assert_eq!(asked.ask(not_in_effect), []);
    }

    #[test]
    fn values_that_the_kernel_rounds_are_the_same() {
        let read_ahead = r#"KERNEL=="sda", ATTR{bdi/read_ahead_kb}="130""#;
        assert!(bench(&[("60-a.rules", read_ahead)]).ask(not_in_effect).is_empty());
        let more = r#"KERNEL=="sda", ATTR{bdi/read_ahead_kb}="4096""#;
        assert_eq!(bench(&[("60-a.rules", more)]).ask(not_in_effect).len(), 1);
        assert!(same("none", "noop") && !same("0", "1"));
    }

    #[test]
    fn patterns_of_udev() {
        for (pattern, text, fits) in [
            ("sd[a-z]", "sdb", true),
            ("sd[a-z]", "sdb1", false),
            ("sd[!a]", "sda", false),
            ("nvme*n?|sd*", "nvme0n1", true),
            ("dm-*", "sda", false),
            ("*", "", true),
            ("[a", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), fits, "{pattern} {text}");
        }
    }
}
