//! Workload files: the built-in ones and the parser that reads them and people's own.
//!
//! A workload file has `name`, `title`, `description`, optionally `classic`, and `[[job]]` tables whose entries are
//! the keys of [`crate::keys`]. Values may be strings, numbers or booleans; they mean what they mean on the command
//! line, and what would have no effect is refused as it is there. Jobs run side by side; with `phase = "..."` those of one phase do, and the phases follow each other in the
//! order in which the file names them. A job without a name has that of its phase.

use crate::keys::{self, KEYS, KeyError};
use crate::limits;
use crate::metadata;
use crate::payload;
use crate::settings;
use crate::workload::{Classic, Job, Workload};
use fathom_base::suggest;
use std::sync::OnceLock;
use thiserror::Error;

/// The built-in workloads by name, with their files, in the order of lists.
const FILES: [(&str, &str); 17] = [
    ("randomio", include_str!("../workloads/randomio.toml")),
    ("seeker", include_str!("../workloads/seeker.toml")),
    ("randread", include_str!("../workloads/randread.toml")),
    ("randwrite", include_str!("../workloads/randwrite.toml")),
    ("seqread", include_str!("../workloads/seqread.toml")),
    ("seqwrite", include_str!("../workloads/seqwrite.toml")),
    ("commit", include_str!("../workloads/commit.toml")),
    ("oltp", include_str!("../workloads/oltp.toml")),
    ("replication", include_str!("../workloads/replication.toml")),
    ("randomio-exact", include_str!("../workloads/randomio-exact.toml")),
    ("iozone", include_str!("../workloads/iozone.toml")),
    ("sysbench-fileio", include_str!("../workloads/sysbench-fileio.toml")),
    ("tiobench", include_str!("../workloads/tiobench.toml")),
    ("bonnie", include_str!("../workloads/bonnie.toml")),
    ("hdparm", include_str!("../workloads/hdparm.toml")),
    ("dd", include_str!("../workloads/dd.toml")),
    ("sdd", include_str!("../workloads/sdd.toml")),
];

/// A workload that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkloadError {
    /// Neither built in nor a file.
    #[error(
        "unknown workload '{name}'{hint}; built in: {known} (or the path of a workload file, *.toml)"
    )]
    Unknown {
        /// What was typed.
        name: String,
        /// `; did you mean ...` or empty.
        hint: String,
        /// The built-in names.
        known: String,
    },
    /// The file is not a workload file.
    #[error("workload file '{origin}': {reason}")]
    File {
        /// Path or built-in name.
        origin: String,
        /// What is wrong and where.
        reason: String,
    },
    /// A phase that the workload does not have.
    #[error("the workload has no phase '{name}'{hint}; it has {known}")]
    UnknownPhase {
        /// What was typed.
        name: String,
        /// `; did you mean ...` or empty.
        hint: String,
        /// The phases.
        known: String,
    },
}

/// All built-in workloads.
///
/// # Panics
/// Never in a tested build: a test parses every file.
#[must_use]
pub fn all() -> Vec<Workload> {
    (0..FILES.len()).filter_map(known).cloned().collect()
}

/// Each file is parsed once, and only when it is asked for: an experiment asks for every trial, and a single run for one.
fn known(index: usize) -> Option<&'static Workload> {
    static KNOWN: [OnceLock<Option<Workload>>; FILES.len()] =
        [const { OnceLock::new() }; FILES.len()];
    let parsed = || Some(parse("built in", FILES[index].1).ok()?.workload);
    KNOWN[index].get_or_init(parsed).as_ref()
}

/// The built-in workload of that name.
///
/// # Errors
/// [`WorkloadError::Unknown`] with the nearest known name.
pub fn named(name: &str) -> Result<Workload, WorkloadError> {
    let mut names = FILES.iter().map(|(name, _)| *name);
    if let Some(found) = names.position(|known| known == name).and_then(known) {
        return Ok(found.clone());
    }
    Err(unknown(name, &[]))
}

/// The error of a name that no workload has, beside further ones that are known where it was given.
#[must_use]
pub fn unknown(name: &str, more: &[&str]) -> WorkloadError {
    let names = || FILES.iter().map(|(name, _)| *name).chain(more.iter().copied());
    WorkloadError::Unknown {
        name: name.to_owned(),
        hint: suggest::hint(name, names()),
        known: names().collect::<Vec<_>>().join(", "),
    }
}

/// A workload file: the workload, and what the file says of its jobs as (`JOB.key`, value).
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadFile {
    /// The workload.
    pub workload: Workload,
    /// The keys of its jobs in the order of the jobs.
    pub settings: Vec<(String, String)>,
}

/// Parses a workload file.
///
/// # Errors
/// [`WorkloadError::File`] with its path or name: it is no workload file, or it has a key, a value or a setting without
/// effect that the command line would refuse too. Contradictions are left to [`Workload::check`], because settings of
/// the command line may resolve them.
pub fn parse(origin: &str, text: &str) -> Result<WorkloadFile, WorkloadError> {
    parse_text(text).map_err(|reason| WorkloadError::File { origin: origin.to_owned(), reason })
}

fn parse_text(text: &str) -> Result<WorkloadFile, String> {
    let table: toml::Table = text.parse().map_err(|error| fault(text, &error))?;
    let mut workload = Workload {
        name: String::new(),
        title: String::new(),
        description: String::new(),
        classic: None,
        jobs: Vec::new(),
        tracked: Vec::new(),
    };
    let mut settings = Vec::new();
    for (key, value) in table {
        match key.as_str() {
            "name" => workload.name = word(&key, value)?,
            "title" => workload.title = word(&key, value)?,
            "description" => workload.description = word(&key, value)?,
            "classic" => workload.classic = Some(classic(&word(&key, value)?)?),
            "job" => {
                let toml::Value::Array(jobs) = value else {
                    return Err("each job is a [[job]] table, with two brackets".into());
                };
                for job in jobs {
                    let (job, own) = parse_job(job)?;
                    settings.extend(own);
                    workload.jobs.push(job);
                }
            }
            key if KEYS.iter().any(|known| known.name == key) => {
                return Err(format!("'{key}' is a setting of jobs; move it below [[job]]"));
            }
            key => {
                let known = ["name", "title", "description", "classic", "job"];
                return Err(format!("unexpected '{key}'{}", suggest::hint(key, known)));
            }
        }
    }
    check_jobs(&workload)?;
    settings::check_distinct(&settings)
        .and_then(|()| workload.check_effects(&settings))
        .map_err(|error| error.to_string())?;
    Ok(WorkloadFile { workload, settings })
}

/// What is wrong with the form of a file, and where, in one line.
fn fault(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("no TOML at line {line}, column {column}: {}", error.message().replace('\n', "; "))
}

/// What the file must have, and names that tell its jobs apart.
fn check_jobs(workload: &Workload) -> Result<(), String> {
    if workload.name.is_empty() || workload.jobs.is_empty() {
        return Err("needs a name and at least one [[job]]".into());
    }
    if !workload.phases().is_empty() && workload.jobs.iter().any(|job| job.phase.is_none()) {
        return Err("with phases every [[job]] needs phase = ...".into());
    }
    for (index, job) in workload.jobs.iter().enumerate() {
        let name = &job.name;
        if workload.jobs[..index].iter().any(|other| other.name == *name) {
            return Err(format!("two jobs are called '{name}'; give each a name = ... of its own"));
        }
        if name.is_empty() || name.contains('.') {
            return Err(format!(
                "'{name}' is no name for a job: JOB.key=value must tell the two apart; use letters, digits, - or _"
            ));
        }
    }
    Ok(())
}

fn word(key: &str, value: toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text),
        other => Err(format!("{key} = {other} is no text; put it into quotation marks")),
    }
}

fn parse_job(value: toml::Value) -> Result<(Job, Vec<(String, String)>), String> {
    let toml::Value::Table(table) = value else {
        return Err("a job must be a [[job]] table".into());
    };
    let (mut job, mut name, mut settings) = (Job::default(), None, Vec::new());
    for (key, value) in table {
        let text = match value {
            toml::Value::String(s) => s,
            toml::Value::Integer(i) => i.to_string(),
            // As TOML writes it: 2.0 is no whole number.
            toml::Value::Float(_) => value.to_string(),
            toml::Value::Boolean(b) => b.to_string(),
            _ => return Err(format!("job key '{key}' takes a string or a number")),
        };
        match key.as_str() {
            "name" => name = Some(text),
            "phase" => job.phase = Some(text),
            _ => settings.push((key, text)),
        }
    }
    job.name = name.or_else(|| job.phase.clone()).unwrap_or(job.name);
    for (key, value) in &settings {
        keys::set(&mut job, key, value).map_err(|error| format!("job '{}': {error}", job.name))?;
    }
    let named = |(key, value)| (format!("{}.{key}", job.name), value);
    let settings = settings.into_iter().map(named).collect();
    Ok((job, settings))
}

/// The words for the classic tools.
const CLASSICS: [(&str, Classic); 9] = [
    ("randomio", Classic::Randomio),
    ("seeker", Classic::Seeker),
    ("sdd", Classic::Sdd),
    ("dd", Classic::Dd),
    ("iozone", Classic::Iozone),
    ("sysbench-fileio", Classic::SysbenchFileio),
    ("tiobench", Classic::Tiobench),
    ("bonnie", Classic::Bonnie),
    ("hdparm", Classic::Hdparm),
];

fn classic(word: &str) -> Result<Classic, String> {
    let known = CLASSICS.into_iter().find(|(known, _)| *known == word);
    known.map(|(_, classic)| classic).ok_or_else(|| {
        format!("classic = '{word}' is none of {}", CLASSICS.map(|(word, _)| word).join(", "))
    })
}

impl Workload {
    /// Applies `key=value`, to all jobs, or to one as `job.key=value`.
    ///
    /// # Errors
    /// [`KeyError`] for the key, the value, or a job that does not exist.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), KeyError> {
        if let Some((name, key)) = key.split_once('.') {
            let names: Vec<String> = self.jobs.iter().map(|j| j.name.clone()).collect();
            let Some(job) = self.jobs.iter_mut().find(|j| j.name == name) else {
                return Err(KeyError::UnknownJob {
                    job: name.to_owned(),
                    hint: suggest::hint(name, names.iter().map(String::as_str)),
                    known: names.join(", "),
                });
            };
            return keys::set(job, key, value);
        }
        let known = KEYS.iter().any(|entry| entry.name == key);
        let mut jobs = self.jobs.iter_mut().filter(|job| !known || metadata::takes(job, key));
        jobs.try_for_each(|job| keys::set(job, key, value))
    }

    /// Its phases, in their order; none for a workload whose jobs all run together.
    #[must_use]
    pub fn phases(&self) -> Vec<&str> {
        let mut phases: Vec<&str> = Vec::new();
        for phase in self.jobs.iter().filter_map(|job| job.phase.as_deref()) {
            if !phases.contains(&phase) {
                phases.push(phase);
            }
        }
        phases
    }

    /// The jobs of one phase as a workload of their own.
    #[must_use]
    pub fn of_phase(&self, phase: &str) -> Self {
        let mut one = self.clone();
        one.jobs.retain(|job| job.phase.as_deref() == Some(phase));
        one
    }

    /// Leaves only some phases, which keep their order.
    ///
    /// # Errors
    /// [`WorkloadError::UnknownPhase`].
    pub fn keep_phases(&mut self, wanted: &[String]) -> Result<(), WorkloadError> {
        let known: Vec<String> = self.phases().into_iter().map(str::to_owned).collect();
        if let Some(name) = wanted.iter().find(|name| !known.contains(name)) {
            let listed = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let hint = suggest::hint(name, known.iter().map(String::as_str));
            return Err(WorkloadError::UnknownPhase { name: name.clone(), hint, known: listed });
        }
        self.jobs.retain(|job| job.phase.as_ref().is_some_and(|phase| wanted.contains(phase)));
        Ok(())
    }

    /// Checks every job for contradictions.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), KeyError> {
        self.jobs.iter().try_for_each(keys::check)?;
        let is_same = |a: usize, b: usize| self.jobs[a].target == self.jobs[b].target;
        if let Some((job, reason)) = payload::overlap(&self.jobs, is_same) {
            return Err(KeyError::Contradiction { job: job.name.clone(), reason });
        }
        limits::check(&self.jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_file_is_valid_and_runs_as_it_is() {
        assert_eq!(all().len(), FILES.len());
        for (name, text) in FILES {
            let workload = parse("built in", text).expect("parses").workload;
            assert_eq!(workload.name, name);
            workload.check().expect("no contradiction");
            assert!(
                !workload.title.is_empty() && !workload.description.is_empty(),
                "{}",
                workload.name
            );
        }
    }

    #[test]
    fn unknown_names_and_jobs() {
        let error = named("randomoi").expect_err("unknown").to_string();
        assert!(
            error.starts_with("unknown workload 'randomoi'; did you mean 'randomio'?"),
            "{error}"
        );
        let mut randomio = named("randomio").expect("known");
        assert!(randomio.set("mix.threads", "3").is_ok());
        assert_eq!(randomio.jobs[0].threads, 3);
        assert!(
            randomio
                .set("mx.threads", "3")
                .expect_err("job")
                .to_string()
                .contains("did you mean 'mix'")
        );
    }

    #[test]
    fn phases_in_their_order() {
        let text =
            "name='x'\n[[job]]\nphase='b'\n[[job]]\nphase='a'\n[[job]]\nname='log'\nphase='b'";
        let mut workload = parse("f", text).expect("parses").workload;
        assert_eq!(workload.phases(), ["b", "a"]);
        let names = |w: &Workload| w.jobs.iter().map(|j| j.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&workload.of_phase("b")), ["b", "log"]);
        assert!(workload.set("log.threads", "2").is_ok());
        let error = workload.keep_phases(&["zz".into()]).expect_err("unknown").to_string();
        assert_eq!(error, "the workload has no phase 'zz'; it has b, a");
        workload.keep_phases(&["a".into()]).expect("known");
        assert_eq!(names(&workload), ["a"]);
        let mut plain = named("seeker").expect("known");
        assert!(plain.phases().is_empty());
        assert!(
            plain
                .keep_phases(&["a".into()])
                .expect_err("none")
                .to_string()
                .ends_with("it has none")
        );
    }

    #[test]
    fn damaged_files_are_named() {
        for (text, part) in [
            ("name = 'x'", "needs a name and at least one"),
            ("name = 'x'\n[[job]]\nthreads = [1]", "takes a string or a number"),
            ("nam = 'x'", "did you mean 'name'"),
            ("name = ", "no TOML at line 1, column 8: "),
            ("name = 'x'\n[[job]]\nthreads = = 3\n", "no TOML at line 3, column 11: "),
            ("name = 'x'\n[[job]]\nthreads = 3\nthreads = 4", "line 4, column 1: duplicate key"),
            ("name='x'\nclassic='y'\n[[job]]", "none of randomio"),
            ("name='x'\n[[job]]\nphase='a'\n[[job]]", "with phases every [[job]]"),
            ("name = 5", "name = 5 is no text"),
            ("name='x'\n[job]\nthreads=1", "with two brackets"),
            ("name='x'\nthreads=1\n[[job]]", "'threads' is a setting of jobs; move it below"),
            ("name='x'\n[[job]]\n[[job]]", "two jobs are called 'job'"),
            ("name='x'\n[[job]]\nname='a.b'", "'a.b' is no name"),
            ("name='x'\n[[job]]\nthreads=0", "job 'job': threads=0: must be between"),
            ("name='x'\n[[job]]\nthreads=2.0", "job 'job': threads=2.0: '2.0' is no whole number"),
            (
                "name='x'\n[[job]]\noperations=1e3",
                "job 'job': operations=1000.0: '1000.0' is no whole",
            ),
            ("name='x'\n[[job]]\nname='r'\ncontent='zero'", "r.content=zero: has no effect on"),
            (
                "name='x'\n[[job]]\nfsync_every=8\nwrite_fraction=0",
                "job.fsync_every=8: has no effect on job 'job': it writes nothing",
            ),
            ("name='x'\n[[job]]\nblock_size='4k'\nrecord_size='8k'", "sets the same"),
        ] {
            let error = parse("f.toml", text).expect_err(text).to_string();
            assert!(
                error.starts_with("workload file 'f.toml': ") && error.contains(part),
                "{error}"
            );
        }
    }
}
