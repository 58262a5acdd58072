//! Jobs on the names of files instead of their content: files are created, looked up and deleted, one after the other,
//! in one directory of fathom's.

use crate::workload::{Access, Job};
use serde::{Deserialize, Serialize};

/// What such a job does with each name. The names are those of the same target, so that one phase finds what an earlier
/// one has created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metadata {
    /// Creates an empty file and closes it; the directory is empty at the start.
    Create,
    /// Looks it up (stat).
    Stat,
    /// Deletes it (unlink).
    Delete,
}

/// The words of [`Metadata`].
pub(crate) const WORDS: [(&str, Metadata); 3] =
    [("create", Metadata::Create), ("stat", Metadata::Stat), ("delete", Metadata::Delete)];

/// Names have seven digits.
pub const NAMES_MAX: u32 = 10_000_000;

impl Metadata {
    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }
}

/// The keys that mean something to such a job. Without the name of a job the others are for the jobs that move data.
const KEYS: [&str; 12] = [
    "access",
    "cgroup_max",
    "cgroup_weight",
    "cpus",
    "duration",
    "io_priority",
    "metadata",
    "names",
    "nice",
    "numa_node",
    "operations",
    "target",
];

/// True when a key that is given for all jobs is meant for this one.
pub(crate) fn takes(job: &Job, key: &str) -> bool {
    if job.metadata.is_some() { KEYS.contains(&key) } else { key != "names" }
}

/// What such a job cannot do, with the cure.
pub(crate) fn contradiction(job: &Job) -> Option<String> {
    let word = job.metadata?.word();
    if job.names.is_none() {
        return Some(format!("metadata={word} needs a number of files: names=16384"));
    }
    if !matches!(job.access, Access::Random | Access::Sequential) {
        return Some(format!(
            "metadata={word} goes through names with access=sequential or random, not {}",
            job.access.word()
        ));
    }
    let only = Job {
        name: job.name.clone(),
        phase: job.phase.clone(),
        target: job.target.clone(),
        metadata: job.metadata,
        names: job.names,
        access: job.access,
        duration_ns: job.duration_ns,
        operations: job.operations,
        io_priority: job.io_priority,
        nice: job.nice,
        numa_node: job.numa_node,
        cgroup_weight: job.cgroup_weight,
        cgroup_max: job.cgroup_max,
        cpus: job.cpus.clone(),
        ..Job::default()
    };
    (*job != only).then(|| {
        format!(
            "metadata={word} moves no data and works on one name at a time; it takes {} only",
            KEYS.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use crate::keys;

    fn job(pairs: &[(&str, &str)]) -> Job {
        let mut job = Job::default();
        pairs.iter().for_each(|(key, value)| keys::set(&mut job, key, value).expect(key));
        job
    }

    #[test]
    fn a_job_on_names_takes_what_means_something_to_it() {
        let create = [("metadata", "create"), ("names", "1000")];
        for more in [&[][..], &[("access", "sequential")], &[("duration", "1s"), ("nice", "5")]] {
            assert_eq!(keys::check(&job(&[&create[..], more].concat())), Ok(()), "{more:?}");
        }
        for (more, part) in [
            (("threads", "2"), "one name at a time"),
            (("engine", "psync"), "moves no data"),
            (("write_fraction", "1"), "moves no data"),
            (("rate", "100"), "moves no data"),
            (("access", "shuffled"), "access=sequential or random, not shuffled"),
        ] {
            let error = keys::check(&job(&[create[0], create[1], more])).expect_err(more.0);
            assert!(error.to_string().contains(part), "{error}");
        }
        let error = keys::check(&job(&create[..1])).expect_err("how many").to_string();
        assert!(error.contains("names=16384"), "{error}");
    }

    /// What is given for all jobs goes to those that can do something with it.
    #[test]
    fn data_and_names_have_their_own_settings() {
        let mut bonnie = builtin::named("bonnie").expect("built in");
        let pairs = [("threads", "3"), ("names", "7"), ("nice", "1"), ("operations", "9")];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        bonnie.apply(&pairs).expect("known");
        bonnie.check().expect("no contradiction");
        for job in &bonnie.jobs {
            let is_data = job.metadata.is_none();
            assert_eq!(job.threads, if is_data { 3 } else { 1 }, "{}", job.name);
            assert_eq!(job.names, if is_data { None } else { Some(7) }, "{}", job.name);
            assert_eq!(job.nice, Some(1));
            assert_eq!(job.operations, (job.name == "seeks").then_some(9), "{}", job.name);
        }
        let mut plain = builtin::named("randread").expect("built in");
        let error = plain.apply(&[("names".into(), "7".into())]).expect_err("no effect");
        assert!(error.to_string().contains("has no effect"), "{error}");
        bonnie.set("random stat.threads", "2").expect("known");
        assert!(bonnie.check().is_err());
    }
}
