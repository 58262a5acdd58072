//! The words in which an exercise is described.

use fathom_base::suggest;
use fathom_base::units::{parse_count, parse_duration_ns, parse_size};
use std::fmt::Display;

/// The keys with their meaning, for help.
pub const KEYS: [(&str, &str); 6] = [
    ("operations", "how many operations on each file"),
    ("duration", "how long [10s, when operations= is not given]"),
    ("files", "files at the same time, each with a thread of its own [2]"),
    ("size", "the most that a file grows to, 4k to 64M [1M]"),
    ("direct", "mix opens anew with and without O_DIRECT, no never with it [mix]"),
    ("log", "how many of the last operations are shown when something is wrong [12]"),
];

/// Whether O_DIRECT is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direct {
    /// Now and then.
    Mix,
    /// Never.
    No,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Operations on each file.
    pub operations: Option<u64>,
    /// Time, nanoseconds.
    pub duration_ns: Option<u64>,
    /// Files, each with its thread.
    pub files: u64,
    /// The largest size of a file, bytes.
    pub size_bytes: u64,
    /// O_DIRECT.
    pub direct: Direct,
    /// Operations that are shown.
    pub log: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let (operations, duration_ns) = (None, None);
        Self {
            operations,
            duration_ns,
            files: 2,
            size_bytes: 1 << 20,
            direct: Direct::Mix,
            log: 12,
        }
    }
}

impl Settings {
    /// Reads pairs of key and value.
    ///
    /// # Errors
    /// What makes no sense, with the key.
    pub fn parse(pairs: &[(String, String)]) -> Result<Self, String> {
        const SECONDS_10: u64 = 10_000_000_000;
        let mut settings = Self::default();
        for (key, value) in pairs {
            settings.set(key, value).map_err(|reason| format!("{key}={value}: {reason}"))?;
        }
        if settings.operations.is_none() {
            settings.duration_ns.get_or_insert(SECONDS_10);
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let within = |number: u64, low: u64, high: u64, unit: &str| {
            let is_good = (low..=high).contains(&number);
            if is_good { Ok(number) } else { Err(format!("from {low} to {high}{unit}")) }
        };
        match key {
            "operations" => {
                // Numbers of operations are kept for every byte, in 32 bits.
                self.operations =
                    Some(within(parse_count(value).map_err(text)?, 1, 4_000_000_000, "")?);
            }
            "duration" => self.duration_ns = Some(parse_duration_ns(value).map_err(text)?.max(1)),
            "files" => self.files = within(parse_count(value).map_err(text)?, 1, 256, "")?,
            "size" => {
                self.size_bytes =
                    within(parse_size(value).map_err(text)?, 4096, 64 << 20, " bytes")?;
            }
            "direct" => {
                self.direct = match value {
                    "mix" | "yes" => Direct::Mix,
                    "no" => Direct::No,
                    _ => return Err("mix or no".into()),
                }
            }
            "log" => self.log = within(parse_count(value).map_err(text)?, 1, 10_000, "")? as usize,
            _ => {
                let known = || KEYS.iter().map(|(key, _)| *key);
                let (all, hint) =
                    (known().collect::<Vec<_>>().join(", "), suggest::hint(key, known()));
                return Err(format!("the exerciser has no such setting; these: {all}{hint}"));
            }
        }
        Ok(())
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}
