//! Who goes first and who may take how much: I/O priority, nice value, NUMA node, control group; the words for them, and
//! what of them was in effect.

use crate::keys::KeyError;
use crate::pattern::Cursor;
use crate::workload::{IoPriority, Job, Verify};
use fathom_base::suggest;
use fathom_base::units::{self, format_size};
use serde::{Deserialize, Serialize};

impl IoPriority {
    /// From its word: `inherit`, `rt/4`, `be/0`, `idle`; without a level the middle one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let level = |first: u8, text: &str| match text.parse::<u8>() {
            Ok(level) if (first..=7).contains(&level) => Ok(level),
            _ => Err(format!("the level must be between {first} and 7")),
        };
        match text.split_once('/') {
            None if text == "inherit" => Ok(Self::Inherit),
            None if text == "idle" => Ok(Self::Idle),
            None if text == "be" => Ok(Self::BestEffort(4)),
            None if text == "rt" => Ok(Self::Realtime(4)),
            Some(("be", text)) => level(0, text).map(Self::BestEffort),
            Some(("rt", "0")) => {
                Err("level 0 is kept for the threads that stop the run; use rt/1 to rt/7".into())
            }
            Some(("rt", text)) => level(1, text).map(Self::Realtime),
            _ => Err("not a class that can be set".into()),
        }
    }

    /// The word that [`IoPriority::parse`] takes.
    #[must_use]
    pub fn word(self) -> String {
        match self {
            Self::Inherit => "inherit".into(),
            Self::Realtime(level) => format!("rt/{level}"),
            Self::BestEffort(level) => format!("be/{level}"),
            Self::Idle => "idle".into(),
        }
    }
}

/// Limits of a control group per device: `io.max` of cgroup v2. None is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoMax {
    /// Bytes read per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
    /// Reads per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<u64>,
    /// Writes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<u64>,
}

impl IoMax {
    /// From pairs such as `read_bytes:100MB,write_iops:500`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut max = Self::default();
        for part in text.split(',') {
            let Some((name, value)) = part.split_once(':') else {
                return Err(format!("'{part}' is no LIMIT:VALUE"));
            };
            let value = value.trim();
            let is_bytes = name.ends_with("_bytes");
            let slot = match name.trim() {
                "read_bytes" => &mut max.read_bytes,
                "write_bytes" => &mut max.write_bytes,
                "read_iops" => &mut max.read_iops,
                "write_iops" => &mut max.write_iops,
                other => {
                    let known = ["read_bytes", "write_bytes", "read_iops", "write_iops"];
                    let hint = suggest::hint(other, known);
                    return Err(format!("no limit is called '{other}'{hint}"));
                }
            };
            let parsed =
                if is_bytes { units::parse_size(value) } else { units::parse_count(value) };
            let number = parsed.map_err(|e| e.to_string())?;
            // The kernel takes no limit of 1 (block/blk-throttle.c), and keeps operations in 32 bits, where all ones mean no limit.
            let most = if is_bytes { u64::MAX } else { u64::from(u32::MAX) } - 1;
            if !(2..=most).contains(&number) {
                return Err(format!("{name} must be between 2 and {most}"));
            }
            if slot.replace(number).is_some() {
                return Err(format!("{name} stands there twice"));
            }
        }
        Ok(max)
    }

    /// True when nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The limits that are set, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let bytes = |value: Option<u64>, what: &str| {
            value.map(|value| format!("{what} {}/s", format_size(value)))
        };
        let count = |value: Option<u64>, what: &str| value.map(|v| format!("{v} {what}/s"));
        let limits = [
            bytes(self.read_bytes, "reads"),
            bytes(self.write_bytes, "writes"),
            count(self.read_iops, "reads"),
            count(self.write_iops, "writes"),
        ];
        limits.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The limits that are set, in the words of the kernel's `io.max`.
    #[must_use]
    pub fn kernel_words(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("rbps", self.read_bytes),
            ("wbps", self.write_bytes),
            ("riops", self.read_iops),
            ("wiops", self.write_iops),
        ];
        all.into_iter().filter_map(|(word, value)| Some((word, value?))).collect()
    }
}

/// How a job's threads were ranked and bound, read back from the kernel before the first request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsRecord {
    /// I/O class and level; `inherit` when none is set, so that the nice value decides. None when it cannot be read.
    pub io_priority: Option<IoPriority>,
    /// Nice value.
    pub nice: Option<i32>,
    /// The node on which the I/O buffers lie; only asked when a job is bound to one.
    pub numa_node: Option<u32>,
}

impl LimitsRecord {
    /// What was in effect of what a job asked for, in short; none when it asked for nothing.
    #[must_use]
    pub fn text(&self, asked: &Job) -> Option<String> {
        let mut parts = Vec::new();
        if asked.io_priority != IoPriority::Inherit {
            parts.extend(self.io_priority.map(|class| format!("I/O priority {}", class.word())));
        } else if let Some(class @ IoPriority::Realtime(_)) = self.io_priority {
            parts.push(format!("I/O priority {}, as fathom was started", class.word()));
        }
        if asked.nice.is_some() {
            parts.extend(self.nice.map(|nice| format!("nice {nice}")));
        }
        parts.extend(self.numa_node.map(|node| format!("buffers on NUMA node {node}")));
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// The control group that all jobs of a trial ran in, or one of them, read back from the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlGroupRecord {
    /// Its directory.
    pub path: String,
    /// Weight against its neighbours, 1 to 10000 (100 is what others have).
    pub weight: Option<u32>,
    /// Limits of each device, as (device, limits).
    pub max: Vec<(String, IoMax)>,
}

impl ControlGroupRecord {
    /// In one line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts: Vec<String> = self.weight.iter().map(|w| format!("weight {w}")).collect();
        for (device, max) in &self.max {
            parts.push(format!("{device} at most {}", max.text()));
        }
        parts.join("; ")
    }
}

impl Job {
    /// True when it asks for a control group that limits its I/O.
    #[must_use]
    pub fn wants_control_group(&self) -> bool {
        self.cgroup_weight.is_some() || !self.cgroup_max.is_empty()
    }

    fn control_group(&self) -> (Option<u32>, IoMax) {
        (self.cgroup_weight, self.cgroup_max)
    }
}

/// True when jobs that run together differ in what limits their control groups. The kernel limits the I/O of whole processes, so
/// each then has a process and a group of its own; otherwise all are in one.
#[must_use]
pub fn are_apart(jobs: &[Job]) -> bool {
    jobs.iter().any(|job| job.control_group() != jobs[0].control_group())
}

/// Refuses what cannot be done by jobs in different processes.
///
/// # Errors
/// [`KeyError::Contradiction`] for a job whose control group is another than that of a job beside it, and which needs to be in
/// one process with the others.
pub fn check(jobs: &[Job]) -> Result<(), KeyError> {
    for job in jobs {
        let is_beside =
            |other: &&Job| other.phase == job.phase && other.control_group() != job.control_group();
        let Some(other) = jobs.iter().find(is_beside) else { continue };
        let Some(what) = only_in_one_process(job) else { continue };
        let key = if other.cgroup_max == job.cgroup_max { "cgroup_weight" } else { "cgroup_max" };
        return Err(KeyError::Contradiction {
            job: job.name.clone(),
            reason: format!(
                "its {key} differs from that of job '{}', so that each runs in a process of its own, and {what} needs all jobs \
                 in one; give {key}= without the name of a job, leave {what} out, or use cap_iops= or cap_bytes= for one job",
                other.name
            ),
        });
    }
    Ok(())
}

/// What of a job is kept in the memory of the process.
fn only_in_one_process(job: &Job) -> Option<&'static str> {
    if job.verify != Verify::None {
        return Some("verify=");
    }
    if job.cursor == Cursor::Workload {
        return Some("cursor=workload");
    }
    job.metadata.is_some().then_some("creating, looking up or deleting names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_have_words() {
        for word in ["inherit", "rt/1", "rt/7", "be/0", "be/7", "idle"] {
            assert_eq!(IoPriority::parse(word).map(IoPriority::word).as_deref(), Ok(word));
        }
        assert_eq!(IoPriority::parse("rt"), Ok(IoPriority::Realtime(4)));
        for bad in ["rt/8", "be/8", "be/-1", "be/", "idle/3", "RT/1", "", "none"] {
            assert!(IoPriority::parse(bad).is_err(), "{bad}");
        }
        assert!(IoPriority::parse("rt/0").is_err_and(|e| e.contains("use rt/1")));
    }

    #[test]
    fn limits_of_a_group() {
        let max = IoMax::parse("read_bytes:100MB,write_iops:500").expect("valid");
        assert_eq!((max.read_bytes, max.write_iops), (Some(100_000_000), Some(500)));
        assert_eq!(max.kernel_words(), [("rbps", 100_000_000), ("wiops", 500)]);
        for bad in [
            "",
            "read_bytes",
            "read_bytes:0",
            "read_iops:1",
            "write_bytes:1",
            "read_bytes:1M,read_bytes:2M",
            "read_iops:4294967295",
            "reads:5",
            "read_iops:-1",
            "read_bytes:1M,",
        ] {
            assert!(IoMax::parse(bad).is_err(), "{bad}");
        }
        let hint = IoMax::parse("read_byte:1M").expect_err("unknown");
        assert!(hint.contains("did you mean 'read_bytes'"), "{hint}");
    }

    #[test]
    fn groups_of_their_own_are_for_jobs_that_need_no_other() {
        let job =
            |name: &str, weight| Job { name: name.into(), cgroup_weight: weight, ..Job::default() };
        assert!(!are_apart(&[]) && check(&[]).is_ok());
        let same = [job("a", Some(50)), job("b", Some(50))];
        assert!(!are_apart(&same) && check(&same).is_ok());
        let mut differ = [job("a", None), job("b", Some(50))];
        assert!(are_apart(&differ) && check(&differ).is_ok());
        let of = |jobs: &[Job]| check(jobs).expect_err("in one process").to_string();
        differ[0].verify = Verify::After;
        for part in
            ["job 'a'", "cgroup_weight differs from that of job 'b'", "verify=", "cap_iops="]
        {
            assert!(of(&differ).contains(part), "{}", of(&differ));
        }
        let mut verified = same.clone();
        verified[0].verify = Verify::After;
        assert!(check(&verified).is_ok(), "in one group");
        differ[0].verify = Verify::None;
        differ[1].cursor = Cursor::Workload;
        differ[1].cgroup_max = IoMax { read_iops: Some(9), ..IoMax::default() };
        let text = of(&differ);
        assert!(text.contains("job 'b'") && text.contains("cgroup_max differs"), "{text}");
        // One after the other.
        differ[1].phase = Some("later".into());
        assert!(check(&differ).is_ok());
    }
}
