//! Places at which a test ends the process, to see that everything is put in order afterwards.
//!
//! Every act on the machine and every line of the journal has such a place before and after it. They are numbered in the order in
//! which they are passed. Without a test nothing happens at them.

use fathom_sys::process;
use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// What happens at the places.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    /// The process is killed at this one, counted from 1.
    kill_at: Option<u32>,
    /// The thread panics at this one.
    panic_at: Option<u32>,
    /// The names of the places passed are appended to this file.
    list: Option<PathBuf>,
    passed: Cell<u32>,
}

impl Faults {
    /// Nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// As a test asks by the environment variable `FATHOM_FAULT`: `kill:N`, `panic:N` or `list:FILE`; anything else is nothing.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        match text.and_then(|text| text.split_once(':')) {
            Some(("kill", number)) => Self { kill_at: number.parse().ok(), ..Self::default() },
            Some(("panic", number)) => Self { panic_at: number.parse().ok(), ..Self::default() },
            Some(("list", file)) => Self { list: Some(file.into()), ..Self::default() },
            _ => Self::none(),
        }
    }

    /// A place.
    pub fn point(&self, name: &str) {
        let number = self.passed.get() + 1;
        self.passed.set(number);
        if let Some(file) = &self.list
            && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(file)
        {
            writeln!(file, "{number} {name}").ok();
        }
        if self.kill_at == Some(number) {
            process::kill_self();
        }
        assert!(self.panic_at != Some(number), "a test asked for a panic at '{name}'");
    }
}
