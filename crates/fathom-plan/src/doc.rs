//! A TOML text whose tables and values know where they stand and what they are called.

use crate::PlanError;
use fathom_base::order::Order;
use fathom_base::suggest;
use fathom_base::units::{self, UnitError};
use toml::de::{DeTable, DeValue};

/// A value, its line, and its key with the tables around it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    text: &'a str,
    start: usize,
}

/// One entry of a table.
#[derive(Clone)]
pub(crate) struct Item<'a> {
    /// The whole key: `design.blocks`.
    pub key: String,
    place: Place<'a>,
    value: &'a DeValue<'a>,
}

/// A table whose entries are taken one by one; what is left at the end is unknown.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    /// The whole key; empty for the file.
    pub key: String,
    place: Place<'a>,
    /// Entries in the order of the file, with their own names.
    entries: Vec<(String, Item<'a>)>,
}

/// Layers of a setup, which are not keys of the file itself.
const LAYERS: [&str; 7] = ["multipath", "slice", "array", "crypt", "volume", "filesystem", "mount"];

impl Place<'_> {
    fn line(&self) -> usize {
        self.text.get(..self.start).unwrap_or_default().matches('\n').count() + 1
    }
}

/// Parses the text; the table must outlive what is read from it.
///
/// # Errors
/// Where it is no TOML.
pub(crate) fn parse(text: &str) -> Result<DeTable<'_>, PlanError> {
    DeTable::parse(text).map(toml::Spanned::into_inner).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let hint = match error.message() {
            text if text.contains("extend value of type") => {
                "; beside its other keys a layer's kind is written as filesystem.type, array.level, volume.type"
            }
            text if text.contains("invalid unquoted key") => {
                "; a key with other signs stands in quotation marks: \"block.scheduler@members\" = ..."
            }
            _ => "",
        };
        let reason = format!("this is no TOML: {}{hint}", error.message().replace('\n', "; "));
        PlanError::new(reason).at_line(Place { text, start }.line())
    })
}

impl<'a> Section<'a> {
    /// The file itself.
    pub fn root(text: &'a str, table: &'a DeTable<'a>) -> Self {
        Self::of(String::new(), Place { text, start: 0 }, table)
    }

    fn of(key: String, place: Place<'a>, table: &'a DeTable<'a>) -> Self {
        let mut entries: Vec<(String, Item<'a>)> = table
            .iter()
            .map(|(name, value)| {
                let own = name.get_ref().as_ref().to_owned();
                let whole = if key.is_empty() { own.clone() } else { format!("{key}.{own}") };
                let place = Place { text: place.text, start: name.span().start };
                (own, Item { key: whole, place, value: value.get_ref() })
            })
            .collect();
        entries.order_by_key(|(_, item)| item.place.start);
        Self { key, place, entries }
    }

    /// Takes an entry out.
    pub fn take(&mut self, name: &str) -> Option<Item<'a>> {
        let at = self.entries.iter().position(|(known, _)| known == name)?;
        Some(self.entries.remove(at).1)
    }

    /// Takes everything out, in the order of the file.
    pub fn take_all(&mut self) -> Vec<(String, Item<'a>)> {
        std::mem::take(&mut self.entries)
    }

    /// True when there is such an entry.
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(known, _)| known == name)
    }

    /// Refuses what was not taken.
    ///
    /// # Errors
    /// The first unknown key, with the nearest of `known`.
    pub fn finish(self, known: &[&str]) -> Result<(), PlanError> {
        let Some((name, item)) = self.entries.first() else { return Ok(()) };
        if self.key.is_empty() && LAYERS.contains(&name.as_str()) {
            let reason = format!("unknown key; did you mean [setup.{name}]?");
            return Err(item.refuse_key(reason));
        }
        let near = suggest::hint(name, known.iter().copied());
        let list = format!("; known here: {}", known.join(", "));
        let hint = if near.is_empty() { list } else { near };
        Err(item.refuse_key(format!("unknown key{hint}")))
    }

    /// An error about the table as a whole.
    pub fn refuse(&self, reason: impl Into<String>) -> PlanError {
        let error = PlanError::new(reason).at_line(self.place.line());
        if self.key.is_empty() { error } else { error.about(&self.key) }
    }

    /// All values in it and in tables below it, by dotted names, in the order of the file; `is_leaf` are tables that count
    /// as values.
    pub fn leaves(mut self, is_leaf: fn(&Section) -> bool) -> Vec<(String, Item<'a>)> {
        let mut leaves = Vec::new();
        for (name, item) in self.take_all() {
            match item.section() {
                Some(below) if !is_leaf(&below) => {
                    let inner = below.leaves(is_leaf);
                    leaves.extend(inner.into_iter().map(|(n, i)| (format!("{name}.{n}"), i)));
                }
                _ => leaves.push((name, item)),
            }
        }
        // Dotted keys of one table need not stand together.
        leaves.order_by_key(|(_, item)| item.place.start);
        leaves
    }
}

impl<'a> Item<'a> {
    /// An error about this value.
    pub fn refuse(&self, reason: impl Into<String>) -> PlanError {
        self.refuse_key(reason).with_value(self.shown())
    }

    /// An error about the key, whatever its value.
    pub fn refuse_key(&self, reason: impl Into<String>) -> PlanError {
        PlanError::new(reason).about(&self.key).at_line(self.place.line())
    }

    /// The value as it would be written, for messages.
    fn shown(&self) -> String {
        match (self.value, self.scalar()) {
            (DeValue::String(text), _) => format!("'{text}'"),
            (_, Ok(text)) => text,
            (DeValue::Array(_), _) => "[...]".to_owned(),
            _ => "{...}".to_owned(),
        }
    }

    /// As a table, when it is one.
    pub fn section(&self) -> Option<Section<'a>> {
        match self.value {
            DeValue::Table(table) => Some(Section::of(self.key.clone(), self.place, table)),
            _ => None,
        }
    }

    /// As a table.
    ///
    /// # Errors
    /// It is none.
    pub fn table(&self) -> Result<Section<'a>, PlanError> {
        let head = &self.key;
        self.section().ok_or_else(|| self.refuse(format!("must be a table: write [{head}] above")))
    }

    /// As `[[key]]` tables.
    ///
    /// # Errors
    /// It is something else.
    pub fn tables(&self) -> Result<Vec<Section<'a>>, PlanError> {
        let refused =
            || self.refuse(format!("must be written as [[{}]], with two brackets", self.key));
        let DeValue::Array(array) = self.value else { return Err(refused()) };
        array
            .iter()
            .map(|value| match value.get_ref() {
                DeValue::Table(table) => {
                    let place = Place { text: self.place.text, start: value.span().start };
                    Ok(Section::of(self.key.clone(), place, table))
                }
                _ => Err(refused()),
            })
            .collect()
    }

    /// The values of a list; a single value is a list of one.
    pub fn list(&self) -> Vec<Item<'a>> {
        let DeValue::Array(array) = self.value else { return vec![self.clone()] };
        array
            .iter()
            .map(|value| Item {
                key: self.key.clone(),
                place: Place { text: self.place.text, start: value.span().start },
                value: value.get_ref(),
            })
            .collect()
    }

    /// Any single value, as the word that it would be on the command line.
    ///
    /// # Errors
    /// It is a list, a table or a date.
    pub fn scalar(&self) -> Result<String, PlanError> {
        match self.value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string())
                .map_err(|_| self.refuse_key("a number too large for 64 bits")),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(flag) => Ok(if *flag { "yes" } else { "no" }.to_owned()),
            DeValue::Array(_) => Err(self.refuse_key("takes one value, not a list")),
            DeValue::Table(_) => Err(self.refuse_key("takes a value, not a table")),
            DeValue::Datetime(_) => {
                Err(self.refuse_key("takes no date; put it into quotation marks"))
            }
        }
    }

    /// Words.
    ///
    /// # Errors
    /// It is no text, or empty.
    pub fn words(&self) -> Result<String, PlanError> {
        match self.value {
            DeValue::String(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            DeValue::String(_) => Err(self.refuse_key("is empty")),
            _ => Err(self.refuse("takes text in quotation marks")),
        }
    }

    /// One of some words.
    ///
    /// # Errors
    /// It is none of them; the nearest.
    pub fn one_of<T: Copy>(&self, known: &[(&str, T)]) -> Result<T, PlanError> {
        let word = self.scalar()?;
        let same = |name: &str| name.replace('_', "-") == word.replace('_', "-");
        known.iter().find(|(name, _)| same(name)).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let near = suggest::hint(&word, names.iter().copied());
            self.refuse(format!("must be one of {}{near}", names.join(", ")))
        })
    }

    /// `true` or `false`, also as `yes` and `no`.
    ///
    /// # Errors
    /// It is neither.
    pub fn flag(&self) -> Result<bool, PlanError> {
        match self.scalar()?.as_str() {
            "yes" | "true" | "on" => Ok(true),
            "no" | "false" | "off" => Ok(false),
            _ => Err(self.refuse("must be true or false")),
        }
    }

    fn quantity<T>(&self, parse: fn(&str) -> Result<T, UnitError>) -> Result<T, PlanError> {
        parse(&self.scalar()?).map_err(|error| self.refuse(error.to_string()))
    }

    /// A size in bytes.
    ///
    /// # Errors
    /// It is none.
    pub fn size(&self) -> Result<u64, PlanError> {
        self.quantity(units::parse_size)
    }

    /// A duration in nanoseconds, at most a year.
    ///
    /// # Errors
    /// It has no unit, or is too long.
    pub fn duration(&self) -> Result<u64, PlanError> {
        const YEAR_NS: u64 = 365 * 86_400_000_000_000;
        match self.quantity(units::parse_duration_ns)? {
            ns if ns <= YEAR_NS => Ok(ns),
            _ => Err(self.refuse("is longer than 365d")),
        }
    }

    /// A share, `3%` or `0.03`.
    ///
    /// # Errors
    /// It is none.
    pub fn share(&self) -> Result<f64, PlanError> {
        self.quantity(units::parse_fraction)
    }

    /// A whole number in a range.
    ///
    /// # Errors
    /// It is none, or outside.
    pub fn count(&self, min: u64, max: u64) -> Result<u64, PlanError> {
        match self.quantity(units::parse_count)? {
            number if (min..=max).contains(&number) => Ok(number),
            _ => Err(self.refuse(format!("must be between {min} and {max}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_other_signs_needs_quotation_marks() {
        let error = parse("[knobs]\nblock.scheduler@members = 'none'\n").unwrap_err().to_string();
        assert!(error.contains("stands in quotation marks"), "{error}");
        assert!(parse("[knobs]\n\"block.scheduler@members\" = 'none'\n").is_ok());
    }
}
