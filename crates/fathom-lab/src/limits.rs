//! What limits can do on the stack under a job: pure.

use fathom_base::shell;
use fathom_model::finding::{Finding, Severity};
use fathom_model::stack::Stack;
use fathom_model::workload::{IoPriority, Job};

/// The first kernel whose mq-deadline looks at I/O classes.
const DEADLINE_CLASSES_SINCE: (u32, u32) = (5, 14);

/// An I/O priority that no scheduler on the way to the disks looks at. `kernel` is its release, such as `6.1.0-18`.
#[must_use]
pub fn io_priority_finding(job: &Job, stack: &Stack, kernel: Option<&str>) -> Option<Finding> {
    if job.io_priority == IoPriority::Inherit {
        return None;
    }
    let devices = stack.block_devices();
    let mut schedulers: Vec<(&str, &str)> = devices
        .iter()
        .filter_map(|node| Some((node.queue.as_ref()?.scheduler.as_deref()?, node.name.as_str())))
        .collect();
    if schedulers.iter().any(|(scheduler, _)| *scheduler == "bfq") {
        return None;
    }
    let asked = format!("io_priority={}", job.io_priority.word());
    let knows_classes = release(kernel).is_none_or(|release| release >= DEADLINE_CLASSES_SINCE);
    if let Some((scheduler, device)) =
        schedulers.iter().find(|(scheduler, _)| *scheduler == "mq-deadline" && knows_classes)
    {
        let IoPriority::BestEffort(_) = job.io_priority else { return None };
        let text = format!(
            "the level of {asked} has no effect with scheduler {scheduler}: it knows classes only, and best effort is what others have"
        );
        return Some(note("io-priority-level", &text, device));
    }
    schedulers.dedup_by_key(|(scheduler, _)| *scheduler);
    let names: Vec<&str> = schedulers.iter().map(|(scheduler, _)| *scheduler).collect();
    let Some((_, device)) = schedulers.last() else {
        let text = format!("{asked} has no effect: no I/O scheduler is under {}", stack.path);
        return Some(Finding::new("io-priority-inert", Severity::Note, text));
    };
    let text = format!("{asked} has no effect with scheduler {}", names.join(" and "));
    Some(note("io-priority-inert", &text, device))
}

fn note(id: &str, text: &str, device: &str) -> Finding {
    Finding::new(id, Severity::Note, text).advise(format!(
        "echo bfq >{}",
        shell::word(format!("/sys/block/{device}/queue/scheduler"))
    ))
}

/// Major and minor number of a kernel.
fn release(kernel: Option<&str>) -> Option<(u32, u32)> {
    let mut numbers = kernel?.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::{Node, NodeKind, QueueFacts};

    fn found(schedulers: &[&str], word: &str, kernel: &str) -> Option<String> {
        let node = |(index, scheduler): (usize, &&str)| {
            let mut node = Node::new(NodeKind::Disk, format!("sd{index}"));
            node.devno = Some(format!("8:{index}"));
            node.below = if index + 1 < schedulers.len() { vec![index + 1] } else { Vec::new() };
            node.queue =
                Some(QueueFacts { scheduler: Some((*scheduler).into()), ..QueueFacts::default() });
            node
        };
        let nodes = schedulers.iter().enumerate().map(node).collect();
        let stack = Stack { path: "/t".into(), resolved_path: "/t".into(), nodes, top: 0 };
        let io_priority = IoPriority::parse(word).expect("a word");
        let job = Job { io_priority, ..Job::default() };
        io_priority_finding(&job, &stack, Some(kernel)).map(|finding| finding.summary)
    }

    #[test]
    fn who_looks_at_priorities() {
        let inert = |scheduler: &str| {
            Some(format!("io_priority=idle has no effect with scheduler {scheduler}"))
        };
        assert_eq!(found(&["none"], "idle", "6.1.0-18-amd64"), inert("none"));
        assert_eq!(found(&["kyber", "none"], "idle", "6.1"), inert("kyber and none"));
        assert_eq!(found(&["none", "bfq"], "idle", "4.19.0"), None);
        assert_eq!(found(&["mq-deadline"], "idle", "5.14.0"), None);
        assert_eq!(found(&["mq-deadline"], "rt/4", "6.18.44-fc"), None);
        assert_eq!(found(&["mq-deadline"], "idle", "5.10.0-26"), inert("mq-deadline"));
        let level = found(&["mq-deadline"], "be/0", "6.1.0").expect("only classes");
        assert!(level.starts_with("the level of io_priority=be/0 has no effect"), "{level}");
        assert_eq!(found(&["none"], "inherit", "6.1"), None);
        assert!(found(&[], "be/7", "6.1").is_some_and(|text| text.ends_with("is under /t")));
    }
}
