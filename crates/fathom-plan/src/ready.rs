//! Plans that come with fathom: plan files with places for targets, devices and a few figures.
//!
//! A place is a string such as `"<target>"`. What may be filled in stands in the file's table `[parameters]`: a line of help, or
//! help and a default. Filling makes an ordinary plan file, which people can keep and change.

use crate::PlanError;
use crate::doc::{self, Item, Section};
use fathom_base::suggest;
use fathom_base::units::parse_duration_ns;
use std::collections::BTreeMap;

/// Name and text, in the order of lists.
const FILES: &[(&str, &str)] = &[
    ("scheduler", include_str!("../plans/scheduler.toml")),
    ("read-ahead", include_str!("../plans/read-ahead.toml")),
    ("read-ahead-mixed", include_str!("../plans/read-ahead-mixed.toml")),
    ("queue", include_str!("../plans/queue.toml")),
    ("block-size-threads", include_str!("../plans/block-size-threads.toml")),
    ("start-end", include_str!("../plans/start-end.toml")),
    ("io-classes", include_str!("../plans/io-classes.toml")),
    ("io-levels", include_str!("../plans/io-levels.toml")),
    ("mount-options", include_str!("../plans/mount-options.toml")),
    ("filesystem-grid", include_str!("../plans/filesystem-grid.toml")),
    ("raw-lvm-filesystem", include_str!("../plans/raw-lvm-filesystem.toml")),
    ("chunk", include_str!("../plans/chunk.toml")),
    ("member-order", include_str!("../plans/member-order.toml")),
    ("shared-journal", include_str!("../plans/shared-journal.toml")),
    ("application", include_str!("../plans/application.toml")),
    ("in-use", include_str!("../plans/in-use.toml")),
];

/// A plan that comes with fathom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyPlan {
    /// Name on the command line.
    pub name: &'static str,
    /// Its question, one sentence.
    pub question: String,
    /// What must be given, and what may be.
    pub parameters: Vec<Parameter>,
    /// The file, with comments; `"<target>"` stands where a parameter goes.
    pub text: &'static str,
}

/// Something that a ready-made plan is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name: `target`, `devices`, or another.
    pub name: String,
    /// What it is, for help.
    pub help: String,
    /// What holds when it is not given; none when it must be.
    pub default: Option<String>,
    /// How many devices it takes; none when any number may do.
    pub count: Option<usize>,
    /// It is a time, and its place takes whole seconds as a number.
    pub is_in_seconds: bool,
}

/// What was given on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// The target, first argument.
    pub target: Option<String>,
    /// The devices, `--device`.
    pub devices: Vec<String>,
    /// Other parameters, `NAME=VALUE`.
    pub others: BTreeMap<String, String>,
}

impl Given {
    /// Parameter `name` as TOML.
    fn value(&self, name: &str) -> Option<String> {
        match name {
            "target" => self.target.as_deref().map(quoted),
            "devices" if self.devices.is_empty() => None,
            "devices" => {
                let devices: Vec<String> = self.devices.iter().map(|name| quoted(name)).collect();
                Some(format!("[{}]", devices.join(", ")))
            }
            other => self.others.get(other).map(|value| quoted(value)),
        }
    }

    /// Everything that was given, by name, and how it is written on the command line.
    fn names(&self) -> Vec<(&str, &'static str)> {
        let target = self.target.as_ref().map(|_| ("target", "a target"));
        let devices = (!self.devices.is_empty()).then_some(("devices", "--device"));
        let others = self.others.keys().map(|name| (name.as_str(), ""));
        target.into_iter().chain(devices).chain(others).collect()
    }
}

impl ReadyPlan {
    /// The file with what was given in place: what [`crate::read`] takes.
    ///
    /// # Errors
    /// A parameter that is missing, or one that the plan does not have.
    pub fn fill(&self, given: &Given) -> Result<String, PlanError> {
        fill(self.name, self.text, &self.parameters, given)
    }

    /// The command line: `fathom lab scheduler TARGET [duration=60s]`.
    #[must_use]
    pub fn usage(&self) -> String {
        let words: Vec<String> = self.parameters.iter().map(Parameter::usage).collect();
        format!("fathom lab {} {}", self.name, words.join(" "))
    }
}

/// A plan file with what was given in the places of its parameters, like a plan that comes with fathom; as it is where it has none.
///
/// # Errors
/// One that the file does not have, or has no place for any more.
pub fn fill_file(origin: &str, text: &str, given: &Given) -> Result<String, PlanError> {
    // What else is wrong with the file is said when it is read.
    let Ok((_, mut parameters)) = parts(text) else { return Ok(text.to_owned()) };
    // Places that somebody has filled by hand need nothing any more.
    let is_open = |parameter: &Parameter| text.contains(&format!("\"<{}>\"", parameter.name));
    for (name, option) in given.names() {
        let shown = if option.is_empty() { name } else { option };
        if parameters.iter().any(|parameter| parameter.name == name && !is_open(parameter)) {
            let reason = format!(
                "{shown} has no place in it any more, it was filled in by hand: change it there, or write \"<{name}>\" in its place"
            );
            return Err(PlanError::new(reason).in_file(origin));
        }
    }
    for parameter in &mut parameters {
        // What is still open then is said at its place.
        let open = format!("<{}>", parameter.name);
        parameter.default.get_or_insert(open);
        if !is_open(parameter) {
            parameter.count = None;
        }
    }
    fill(origin, text, &parameters, given)
}

fn fill(
    origin: &str,
    text: &str,
    parameters: &[Parameter],
    given: &Given,
) -> Result<String, PlanError> {
    let refuse = |reason: String| Err(PlanError::new(reason).in_file(origin));
    for (name, option) in given.names() {
        if !parameters.iter().any(|parameter| parameter.name == name) {
            let names = parameters.iter().map(|parameter| parameter.name.as_str());
            let near = suggest::hint(name, names.clone());
            let shown = if option.is_empty() { name } else { option };
            let list = names.collect::<Vec<_>>().join(", ");
            return refuse(format!("takes no {shown}{near}; it takes {list}"));
        }
    }
    let wanted = parameters.iter().find_map(|parameter| parameter.count);
    if let Some(count) = wanted.filter(|count| ![0, *count].contains(&given.devices.len())) {
        let given = given.devices.len();
        return refuse(format!("takes {count} devices, each with --device; given are {given}"));
    }
    let mut text = text.to_owned();
    for parameter in parameters {
        let given = match given.others.get(&parameter.name).filter(|_| parameter.is_in_seconds) {
            Some(word) => match seconds(word) {
                Some(number) => Some(quoted(&number)),
                None => {
                    let name = &parameter.name;
                    let reason = format!(
                        "{name}={word}: takes whole seconds, from 1 on, such as 30, 30s or 2m"
                    );
                    return refuse(reason);
                }
            },
            None => given.value(&parameter.name),
        };
        let default = parameter.default.as_deref().map(|value| quoted(&parameter.filled(value)));
        let Some(value) = given.or(default) else {
            return refuse(format!("needs {}: {}", parameter.usage(), parameter.help));
        };
        text = text.replace(&format!("\"<{}>\"", parameter.name), &value);
    }
    Ok(text)
}

impl Parameter {
    /// What its place takes of a default.
    fn filled(&self, default: &str) -> String {
        let number = if self.is_in_seconds { seconds(default) } else { None };
        number.unwrap_or_else(|| default.to_owned())
    }

    /// How it is given on the command line.
    #[must_use]
    pub fn usage(&self) -> String {
        match (self.name.as_str(), &self.default) {
            ("target", _) => "TARGET".to_owned(),
            ("devices", _) => "--device DEVICE...".to_owned(),
            (name, Some(default)) => format!("[{name}={default}]"),
            (name, None) => format!("{name}=..."),
        }
    }
}

/// The number of seconds of `30`, `30s` or `2m`; none when there is no whole number of them, or no time at all.
fn seconds(word: &str) -> Option<String> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number {
        word.to_owned()
    } else {
        let ns = parse_duration_ns(word).ok()?;
        ns.is_multiple_of(1_000_000_000).then(|| (ns / 1_000_000_000).to_string())?
    };
    number.bytes().any(|byte| byte != b'0').then_some(number)
}

/// A string as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// All of them, in the order of lists.
#[must_use]
pub fn ready() -> Vec<ReadyPlan> {
    FILES.iter().filter_map(|(name, text)| parse(name, text).ok()).collect()
}

/// The one of that name.
///
/// # Errors
/// The nearest name.
pub fn ready_named(name: &str) -> Result<ReadyPlan, PlanError> {
    let names = || FILES.iter().map(|(name, _)| *name);
    match FILES.iter().find(|(known, _)| *known == name) {
        Some((name, text)) => parse(name, text),
        None => {
            let near = suggest::hint(name, names());
            let list = names().collect::<Vec<_>>().join(", ");
            let reason = format!(
                "neither a plan that comes with fathom nor a file{near}; there are: {list} (or the path of a plan file)"
            );
            Err(PlanError::new(reason).about(format!("'{name}'")))
        }
    }
}

fn parse(name: &'static str, text: &'static str) -> Result<ReadyPlan, PlanError> {
    let (question, parameters) = parts(text)?;
    Ok(ReadyPlan { name, question, parameters, text })
}

/// The question and the parameters of a plan.
fn parts(text: &str) -> Result<(String, Vec<Parameter>), PlanError> {
    let table = doc::parse(text)?;
    let mut root = Section::root(text, &table);
    let question = root.take("question").map(|item| item.words()).transpose()?.unwrap_or_default();
    let mut parameters = Vec::new();
    if let Some(item) = root.take("parameters") {
        for (name, item) in item.table()?.take_all() {
            parameters.push(parameter(name, &item)?);
        }
    }
    Ok((question, parameters))
}

fn parameter(name: String, item: &Item) -> Result<Parameter, PlanError> {
    let Some(mut section) = item.section() else {
        let (help, default, count) = (item.words()?, None, None);
        return Ok(Parameter { name, help, default, count, is_in_seconds: false });
    };
    let help = section.take("help").map(|item| item.words()).transpose()?.unwrap_or_default();
    let default = section.take("default").map(|item| item.scalar()).transpose()?;
    let count = section.take("count").map(|item| item.scalar()).transpose()?;
    let count = count.and_then(|count| count.parse().ok());
    let unit = section.take("unit").map(|item| item.one_of(&[("s", true)])).transpose()?;
    section.finish(&["help", "default", "count", "unit"])?;
    Ok(Parameter { name, help, default, count, is_in_seconds: unit.unwrap_or(false) })
}
