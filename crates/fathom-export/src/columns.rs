//! Columns and cells that tables are made of, whatever form they are written in.

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Whole numbers.
    Whole,
    /// Numbers.
    Number,
    /// True or false.
    Truth,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, with the unit last.
    pub name: String,
    /// What its cells are.
    pub kind: Kind,
}

/// A cell; its variant is that of its column, or empty.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing: not known, or no meaning here.
    Empty,
    /// Text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number.
    Number(f64),
    /// True or false.
    Truth(bool),
}

impl Cell {
    /// A count; what does not fit stays at the largest number.
    #[must_use]
    pub fn count(value: u64) -> Self {
        Self::Whole(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// Text, unless there is none.
    #[must_use]
    pub fn text(value: impl Into<String>) -> Self {
        Self::Text(value.into())
    }

    /// A number, unless it is none.
    #[must_use]
    pub fn number(value: f64) -> Self {
        if value.is_finite() { Self::Number(value) } else { Self::Empty }
    }
}

impl From<Option<u64>> for Cell {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::Empty, Self::count)
    }
}

impl From<Option<&str>> for Cell {
    fn from(value: Option<&str>) -> Self {
        value.map_or(Self::Empty, Self::text)
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Empty, Self::number)
    }
}
