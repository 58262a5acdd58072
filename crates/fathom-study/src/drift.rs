//! Settings that somebody changed while a trial ran: udev, tuned, a script, a person.

use crate::compare::facts::{self, Facts};
use fathom_model::finding::{Finding, Severity};
use fathom_model::stack::Stack;

/// Settings of layers; what changes by use (states of arrays, positions of a resync) is not among them.
fn is_setting(name: &str) -> bool {
    let of_array =
        ["level", "layout", "chunk_bytes", "raid_disks", "stripe_cache_stripes", "group_threads"];
    let has = |part: &str| name.contains(part);
    has(".queue.")
        || has("mount.mount.")
        || has(".io_policy")
        || name.ends_with(".size_bytes")
        || name.ends_with(".read_only")
        || (has(".md.") && of_array.iter().any(|key| name.ends_with(key)))
}

/// Says which settings of the layers differ between the two looks, one before and one after a trial. What was measured
/// is then of neither setting.
#[must_use]
pub fn changed_meanwhile(before: &Stack, after: &Stack) -> Option<Finding> {
    let (before, after) = (facts::of_stack(before), facts::of_stack(after));
    let value = |facts: &Facts, name: &str| {
        facts.get(name).map_or_else(|| "-".to_owned(), |fact| fact.value.clone())
    };
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let changed: Vec<String> = names
        .filter(|name| is_setting(name))
        .map(|name| (name, value(&before, name), value(&after, name)))
        .filter(|(_, from, to)| from != to)
        .map(|(name, from, to)| format!("{name} {from} -> {to}"))
        .collect();
    let first = changed.first()?;
    let more =
        if changed.len() > 1 { format!(" and {} more", changed.len() - 1) } else { String::new() };
    Some(
        Finding::new("setting-changed", Severity::Void, format!("changed during the run: {first}{more}"))
            .advise("udev rules, tuned, multipathd, a script or somebody else did that; find out who, and run it again"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::{MdFacts, Node, NodeKind, QueueFacts};

    fn stack(change: impl Fn(&mut Node)) -> Stack {
        let mut node = Node::new(NodeKind::Md, "md0");
        node.queue = Some(QueueFacts { read_ahead_kib: Some(128), ..QueueFacts::default() });
        node.md = Some(MdFacts { array_state: Some("clean".into()), ..MdFacts::default() });
        change(&mut node);
        Stack {
            path: "/dev/md0".into(),
            resolved_path: "/dev/md0".into(),
            nodes: vec![node],
            top: 0,
        }
    }

    #[test]
    fn settings_are_watched_and_states_are_not() {
        let before = stack(|_| {});
        assert_eq!(changed_meanwhile(&before, &before), None);
        let busy = stack(|node| {
            let md = node.md.as_mut().expect("an array");
            md.array_state = Some("active".into());
            md.sync_action = Some("check".into());
        });
        assert_eq!(changed_meanwhile(&before, &busy), None);
        let other = stack(|node| {
            node.queue.as_mut().expect("a queue").read_ahead_kib = Some(4096);
            node.md.as_mut().expect("an array").stripe_cache_stripes = Some(4096);
        });
        let finding = changed_meanwhile(&before, &other).expect("a change");
        let text = "changed during the run: md.queue.read_ahead_kib 128 -> 4096 and 1 more";
        assert_eq!((finding.summary.as_str(), finding.severity), (text, Severity::Void));
    }
}
