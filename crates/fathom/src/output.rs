//! What is printed where: results on standard output, or as JSON lines there and for people on standard error.

use crate::screen::Screen;
use fathom_report::text::{WIDTH, WIDTH_MIN};
use fathom_sys::terminal;
use serde::Serialize;
use serde_json::{Map, Value};
use std::io;

/// Version of the JSON lines.
const SCHEMA: &str = "fathom/1";

/// The two streams and who reads them.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Programs read standard output.
    pub json: bool,
    /// Nothing but results.
    pub quiet: bool,
    /// The terminal, which may have a view on it.
    pub screen: &'static Screen,
}

impl Output {
    /// Text for people: the result of the command. With JSON it is the lines on standard output that count, whoever
    /// reads standard error.
    ///
    /// # Errors
    /// Those of writing to standard output, a closed pipe among them.
    pub fn text(self, text: &str) -> io::Result<()> {
        if self.json {
            if !self.quiet {
                let _ = self.screen.print(io::stderr(), text);
            }
            return Ok(());
        }
        self.screen.print(io::stdout(), text)
    }

    /// Columns for running text: those of the terminal that shows the result, within reason.
    pub fn width(self) -> usize {
        let columns = if self.json {
            terminal::columns(io::stderr())
        } else {
            terminal::columns(io::stdout())
        };
        columns.map_or(WIDTH, |columns| columns.clamp(WIDTH_MIN, WIDTH))
    }

    /// Columns of the terminal that shows the result; none where none does.
    pub fn columns(self) -> Option<usize> {
        let columns = if self.json { None } else { terminal::columns(io::stdout()) };
        columns.map(|columns| columns.max(WIDTH_MIN))
    }

    /// A line about what is going on; not the result.
    pub fn note(self, text: &str) {
        if !self.quiet {
            // Nobody reads standard error any more: not worth ending for.
            let _ = self.screen.print(io::stderr(), &format!("{text}\n"));
        }
    }

    /// An error, always shown.
    pub fn error(self, text: &str) {
        let _ = self.screen.print(io::stderr(), &format!("fathom: {text}\n"));
    }

    /// One JSON object with its type and schema; nothing when people read.
    ///
    /// # Errors
    /// Those of writing, a closed pipe among them.
    pub fn json(self, kind: &str, value: &impl Serialize) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        self.screen.print(io::stdout(), &(line_of(kind, value)? + "\n"))
    }

    /// As [`Output::json`], with one more field that is written down already: a tree of its values would take many times its
    /// room.
    ///
    /// # Errors
    /// As [`Output::json`].
    pub fn json_beside(
        self,
        kind: &str,
        value: &Value,
        (name, text): (&str, &str),
    ) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        let mut line = line_of(kind, value)?;
        line.truncate(line.len() - 1);
        for piece in [&format!("{line},\"{name}\":"), text, "}\n"] {
            self.screen.print(io::stdout(), piece)?;
        }
        Ok(())
    }
}

/// The object with its type and schema, as text.
fn line_of(kind: &str, value: &impl Serialize) -> io::Result<String> {
    let mut object = Map::new();
    object.insert("type".into(), Value::from(kind));
    object.insert("schema".into(), Value::from(SCHEMA));
    match serde_json::to_value(value).map_err(io::Error::other)? {
        Value::Object(fields) => {
            object.extend(fields.into_iter().filter(|(key, _)| key != "type"));
        }
        other => {
            object.insert("value".into(), other);
        }
    }
    serde_json::to_string(&object).map_err(io::Error::other)
}
