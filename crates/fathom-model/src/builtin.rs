//! Workload files: the built-in ones and the parser that reads them and people's own.
//!
//! A workload file has `name`, `title`, `description`, optionally `classic`, and `[[job]]` tables whose entries are
//! the keys of [`crate::keys`]. Values may be strings, numbers or booleans; they mean what they mean on the command
//! line.

use crate::keys::{self, KeyError};
use crate::workload::{Classic, Job, Workload};
use fathom_base::suggest;
use thiserror::Error;

/// The built-in workload files, in the order of lists.
const FILES: &[&str] = &[
    include_str!("../workloads/randomio.toml"),
    include_str!("../workloads/seeker.toml"),
    include_str!("../workloads/randread.toml"),
    include_str!("../workloads/randwrite.toml"),
    include_str!("../workloads/seqread.toml"),
    include_str!("../workloads/seqwrite.toml"),
    include_str!("../workloads/commit.toml"),
    include_str!("../workloads/oltp.toml"),
    include_str!("../workloads/replication.toml"),
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
    /// A setting was refused.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// All built-in workloads.
///
/// # Panics
/// Never in a tested build: a test parses every file.
#[must_use]
pub fn all() -> Vec<Workload> {
    FILES.iter().filter_map(|text| parse("built in", text).ok()).collect()
}

/// The built-in workload of that name.
///
/// # Errors
/// [`WorkloadError::Unknown`] with the nearest known name.
pub fn named(name: &str) -> Result<Workload, WorkloadError> {
    let known = all();
    if let Some(found) = known.iter().find(|w| w.name == name) {
        return Ok(found.clone());
    }
    let names = || known.iter().map(|w| w.name.as_str());
    Err(WorkloadError::Unknown {
        name: name.to_owned(),
        hint: suggest::hint(name, names()),
        known: names().collect::<Vec<_>>().join(", "),
    })
}

/// Parses a workload file.
///
/// # Errors
/// [`WorkloadError::File`] when it is not one, [`WorkloadError::Key`] for a refused setting.
pub fn parse(origin: &str, text: &str) -> Result<Workload, WorkloadError> {
    let refuse = |reason: String| WorkloadError::File { origin: origin.to_owned(), reason };
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| refuse(e.to_string()))?;
    let mut workload = Workload {
        name: String::new(),
        title: String::new(),
        description: String::new(),
        classic: None,
        jobs: Vec::new(),
    };
    for (key, value) in table {
        match (key.as_str(), value) {
            ("name", toml::Value::String(s)) => workload.name = s,
            ("title", toml::Value::String(s)) => workload.title = s,
            ("description", toml::Value::String(s)) => workload.description = s,
            ("classic", toml::Value::String(s)) => {
                workload.classic = Some(classic(&s).ok_or_else(|| {
                    refuse(format!("classic = '{s}' is none of randomio, seeker, sdd, dd"))
                })?)
            }
            ("job", toml::Value::Array(jobs)) => {
                for job in jobs {
                    workload.jobs.push(parse_job(job).map_err(|e| match e {
                        JobError::Form(reason) => refuse(reason),
                        JobError::Key(e) => e.into(),
                    })?);
                }
            }
            (key, _) => {
                return Err(refuse(format!(
                    "unexpected '{key}'{}",
                    suggest::hint(key, ["name", "title", "description", "classic", "job"])
                )));
            }
        }
    }
    if workload.name.is_empty() || workload.jobs.is_empty() {
        return Err(refuse("needs a name and at least one [[job]]".into()));
    }
    Ok(workload)
}

enum JobError {
    Form(String),
    Key(KeyError),
}

fn parse_job(value: toml::Value) -> Result<Job, JobError> {
    let toml::Value::Table(table) = value else {
        return Err(JobError::Form("a job must be a [[job]] table".into()));
    };
    let mut job = Job::default();
    for (key, value) in table {
        let text = match value {
            toml::Value::String(s) => s,
            toml::Value::Integer(i) => i.to_string(),
            toml::Value::Float(f) => f.to_string(),
            toml::Value::Boolean(b) => b.to_string(),
            _ => return Err(JobError::Form(format!("job key '{key}' takes a string or a number"))),
        };
        if key == "name" {
            job.name = text;
        } else {
            keys::set(&mut job, &key, &text).map_err(JobError::Key)?;
        }
    }
    Ok(job)
}

fn classic(word: &str) -> Option<Classic> {
    [
        ("randomio", Classic::Randomio),
        ("seeker", Classic::Seeker),
        ("sdd", Classic::Sdd),
        ("dd", Classic::Dd),
    ]
    .into_iter()
    .find_map(|(known, classic)| (known == word).then_some(classic))
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
        self.jobs.iter_mut().try_for_each(|job| keys::set(job, key, value))
    }

    /// Checks every job for contradictions.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), KeyError> {
        self.jobs.iter().try_for_each(keys::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_file_is_valid_and_runs_as_it_is() {
        assert_eq!(all().len(), FILES.len());
        for text in FILES {
            let workload = parse("built in", text).expect("parses");
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
    fn damaged_files_are_named() {
        for (text, part) in [
            ("name = 'x'", "needs a name and at least one"),
            ("name = 'x'\n[[job]]\nthreads = [1]", "takes a string or a number"),
            ("nam = 'x'", "did you mean 'name'"),
            ("name = ", "TOML"),
            ("name='x'\nclassic='y'\n[[job]]", "none of randomio"),
        ] {
            let error = parse("f.toml", text).expect_err(text).to_string();
            assert!(
                error.starts_with("workload file 'f.toml': ") && error.contains(part),
                "{error}"
            );
        }
        assert!(matches!(parse("f", "name='x'\n[[job]]\nthreads=0"), Err(WorkloadError::Key(_))));
    }
}
