//! Settings that somebody changed while a trial ran: udev, tuned, a script, a person.

use crate::compare::facts::{self, Facts};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::Record;
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

/// The settings of the layers that differ between two looks: name, before, after.
fn differences(before: &Stack, after: &Stack) -> Vec<(String, String, String)> {
    let (before, after) = (facts::of_stack(before), facts::of_stack(after));
    let value = |facts: &Facts, name: &str| {
        facts.get(name).map_or_else(|| "-".to_owned(), |fact| fact.value.clone())
    };
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    names
        .filter(|name| is_setting(name))
        .map(|name| (name.clone(), value(&before, name), value(&after, name)))
        .filter(|(_, from, to)| from != to)
        .collect()
}

/// A setting that was another at a later look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Of which target.
    pub target: String,
    /// Its name: `md.queue.read_ahead_kib`.
    pub name: String,
    /// At the look before.
    pub from: String,
    /// At this look.
    pub to: String,
    /// When the look was: before the record of this number, counted from 0; none at the end of the last.
    pub before_record: Option<usize>,
}

/// Every change of a setting between the looks at the same layers: before each record, and after what was watched or captured.
#[must_use]
pub fn course(records: &[Record]) -> Vec<Changed> {
    let looks = records.iter().enumerate().flat_map(|(at, record)| {
        let after = record.stacks_around().iter().filter_map(|around| around.after.as_ref());
        let after = after.map(|stack| (stack, None));
        record.stacks().into_iter().map(move |stack| (stack, Some(at))).chain(after)
    });
    let mut last: Vec<(Vec<String>, &Stack)> = Vec::new();
    let mut found = Vec::new();
    for (stack, before_record) in looks {
        let layers = stack.layers();
        let Some((_, known)) = last.iter_mut().find(|(own, _)| *own == layers) else {
            last.push((layers, stack));
            continue;
        };
        let of = std::mem::replace(known, stack);
        // Most looks see the same: what is equal need not be taken apart.
        if of.nodes == stack.nodes {
            continue;
        }
        let changed = differences(of, stack).into_iter().map(|(name, from, to)| {
            let target = stack.path.clone();
            Changed { target, name, from, to, before_record }
        });
        found.extend(changed);
    }
    found
}

/// Says which settings of the layers differ between the two looks, one before and one after a trial. What was measured
/// is then of neither setting.
#[must_use]
pub fn changed_meanwhile(before: &Stack, after: &Stack) -> Option<Finding> {
    let changed = differences(before, after).into_iter();
    let changed: Vec<String> =
        changed.map(|(name, from, to)| format!("{name} {from} -> {to}")).collect();
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
    use fathom_model::stack::{MdFacts, Node, NodeKind, QueueFacts, StackAround};
    use fathom_model::watch::WatchRecord;

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

    #[test]
    fn every_look_is_held_against_the_last_one_at_the_same_layers() {
        let read_ahead = |kib: u64| {
            stack(|node| node.queue.as_mut().expect("a queue").read_ahead_kib = Some(kib))
        };
        let other = |stack: Stack| {
            let mut other = stack;
            other.nodes[0].name = "md1".into();
            other
        };
        let record = |stacks: Vec<(Stack, Option<Stack>)>| {
            let mut record = crate::fixtures::record();
            record.targets.clear();
            let stacks = stacks.into_iter().map(|(before, after)| StackAround { before, after });
            let watch = WatchRecord { stacks: stacks.collect(), ..WatchRecord::default() };
            record.watch = Some(Box::new(watch));
            record
        };
        let records = [
            record(vec![(read_ahead(128), None), (other(read_ahead(1)), None)]),
            record(Vec::new()),
            record(vec![(read_ahead(256), Some(read_ahead(64)))]),
        ];
        let told: Vec<_> = course(&records)
            .into_iter()
            .map(|c| (c.target, c.name, c.from, c.to, c.before_record))
            .collect();
        let change = |from: &str, to: &str, at| {
            let words = ["/dev/md0", "md.queue.read_ahead_kib", from, to].map(str::to_owned);
            let [target, name, from, to] = words;
            (target, name, from, to, at)
        };
        assert_eq!(told, [change("128", "256", Some(2)), change("256", "64", None)]);
        assert_eq!(course(&records[..2]), []);
    }
}
