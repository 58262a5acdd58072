//! Results of other tools, and old ones: rows of a table, each with the factors it was measured under and the metrics
//! that came out. Nothing more is known about how they were measured, so a row counts as one run, and two rows are
//! compared only when they agree in all factors but the one in question.

mod ask;
mod checks;
mod compare;
mod csv;
mod one_disk;
mod sweep;

pub use ask::{Answers, Question, Questions};
pub use checks::{Copied, InFlight, LITTLE_TOLERANCE, Law};
pub use compare::{Claim, Comparison, Difference, Outcome, PAIRS_MIN, Pair, Paired};
pub use one_disk::{Arrays, LikeOneDisk};
pub use sweep::{Best, Ranked, Sweep, Trend};

use fathom_base::suggest;
use fathom_stats::equivalence::Better;
use fathom_stats::error::StatsError;
use std::collections::{BTreeSet, HashMap};

/// What a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// What was set or given; compared as text.
    Factor,
    /// What was measured; a number.
    Metric(Better),
    /// Left out of everything.
    Skip,
}

/// A column and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// As the file's first line has it.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// The unit of a metric, as it is to be shown; empty when nobody said.
    pub unit: String,
}

/// A row: the line of the file it begins at, counted from 1, is its name.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    line: usize,
    cells: Vec<String>,
}

/// The most rows of a table. Each is held against all others, and a result is a run of minutes: nobody has more.
pub const ROWS_MAX: usize = 10_000;
/// The most columns.
pub const COLUMNS_MAX: usize = 1_000;

/// Rows of factors and metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

/// The factors that a group of rows has in common, as `name value`.
pub type Group = Vec<(String, String)>;

/// Why a table cannot be read or asked so.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TableError {
    /// A quote that opens and never closes.
    #[error("line {line}: a quote opens here and is never closed")]
    OpenQuote {
        /// Where.
        line: usize,
    },
    /// A row has more or fewer cells than the first line names.
    #[error(
        "line {line} has {found} values, the first line names {expected} columns; quote values with commas"
    )]
    Width {
        /// Where.
        line: usize,
        /// Its values.
        found: usize,
        /// The columns.
        expected: usize,
    },
    /// No line with values.
    #[error(
        "the table has no rows: the first line names the columns, each further one is a result"
    )]
    NoRows,
    /// No column is said to be a metric.
    #[error(
        "which of its columns were measured? name them, and whether more or less is better, such as --columns=iops:higher:1/s,p99:lower:ms; the columns are: {columns}"
    )]
    NoMetric {
        /// All names.
        columns: String,
    },
    /// More rows or columns than anybody has measured.
    #[error(
        "line {line}: more than {most} {what} are no table of results; import a part of it, or cut what nobody asks about"
    )]
    TooMany {
        /// Where the limit was passed.
        line: usize,
        /// `rows` or `columns`.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// A column name stands twice in the first line.
    #[error("the first line names two columns '{name}'; rename one")]
    TwoColumns {
        /// The name.
        name: String,
    },
    /// A metric that is no number.
    #[error(
        "line {line}, column {column}: '{value}' is no number; leave it empty, write n/a, or make the column a factor or skip it"
    )]
    NoNumber {
        /// Where.
        line: usize,
        /// In which column.
        column: String,
        /// What stands there.
        value: String,
    },
    /// No such column.
    #[error("no column '{name}'; there are: {known}{hint}")]
    NoColumn {
        /// What was asked for.
        name: String,
        /// A likely cure.
        hint: String,
        /// All columns.
        known: String,
    },
    /// No row has this value of a factor.
    #[error("no row has {factor} '{level}'; there are: {known}{hint}")]
    NoLevel {
        /// The factor.
        factor: String,
        /// What was asked for.
        level: String,
        /// A likely cure.
        hint: String,
        /// All values.
        known: String,
    },
    /// A word that does not say what a column is.
    #[error(
        "'{text}' does not say what a column is; write NAME:higher:UNIT or NAME:lower:UNIT for a metric (which is better), NAME:factor or NAME:skip"
    )]
    NoRole {
        /// The text.
        text: String,
    },
    /// A column that is something else than the analysis needs.
    #[error("column '{name}' must be {needed}")]
    WrongColumn {
        /// The column.
        name: String,
        /// What it must be.
        needed: &'static str,
    },
    /// Rows match, but their values cannot be compared.
    #[error("column '{metric}': rows match, but no ratio of their values exists: {why}")]
    NoRatio {
        /// The metric.
        metric: String,
        /// What statistics miss.
        why: StatsError,
    },
    /// A question with too few or too many parts.
    #[error("'{text}' has the wrong number of parts between colons; see --help")]
    NoQuestion {
        /// The text.
        text: String,
    },
    /// A formula of Little's law that is none.
    #[error(
        "'{text}' is no law; write IN_FLIGHT=RATE*LATENCY+RATE*LATENCY with names of columns, IN_FLIGHT may be a number"
    )]
    NoLaw {
        /// The text.
        text: String,
    },
}

/// Reads what a user says about columns: `NAME:higher[:UNIT]`, `NAME:lower[:UNIT]`, `NAME:factor`, `NAME:skip`.
///
/// # Errors
/// [`TableError::NoRole`].
pub fn parse_column(text: &str) -> Result<Column, TableError> {
    let mut parts = text.splitn(3, ':').map(str::trim);
    let (name, role, unit) = (parts.next(), parts.next(), parts.next());
    let role = match role {
        Some("higher") => Some(Role::Metric(Better::Higher)),
        Some("lower") => Some(Role::Metric(Better::Lower)),
        Some("factor") if unit.is_none() => Some(Role::Factor),
        Some("skip") if unit.is_none() => Some(Role::Skip),
        _ => None,
    };
    match (name, role) {
        (Some(name), Some(role)) if !name.is_empty() => {
            Ok(Column { name: name.to_owned(), role, unit: unit.unwrap_or_default().to_owned() })
        }
        _ => Err(TableError::NoRole { text: text.to_owned() }),
    }
}

/// A number, or minutes and seconds as the shell's `time` prints them (`2m1.135s`, in seconds).
fn number(text: &str) -> Option<f64> {
    let plain = || text.parse::<f64>().ok();
    let minutes = || {
        let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<u32>().ok().map(f64::from)? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    plain().or_else(minutes).filter(|value| value.is_finite())
}

/// Nothing was measured.
fn is_missing(text: &str) -> bool {
    matches!(text, "" | "n/a" | "-")
}

impl Table {
    /// Reads a table. What `said` does not name is a factor: two rows that differ in a column that nobody explained
    /// are then not compared, which is the safe mistake.
    ///
    /// # Errors
    /// When the text is no table, or `said` does not fit it.
    pub fn parse(text: &str, said: &[Column]) -> Result<Self, TableError> {
        let mut records = csv::records(text)?.into_iter();
        let names = records.next().ok_or(TableError::NoRows)?.cells;
        let as_factor =
            |name: &String| Column { name: name.clone(), role: Role::Factor, unit: String::new() };
        let mut table = Self { columns: names.iter().map(as_factor).collect(), rows: Vec::new() };
        if let Some(at) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
            return Err(TableError::TwoColumns { name: names[at].clone() });
        }
        for column in said {
            let at = table.index(&column.name)?;
            table.columns[at] = column.clone();
        }
        for csv::Record { line, cells } in records {
            if cells.len() != names.len() {
                let (found, expected) = (cells.len(), names.len());
                return Err(TableError::Width { line, found, expected });
            }
            table.rows.push(Row { line, cells });
        }
        if table.rows.is_empty() {
            return Err(TableError::NoRows);
        }
        if table.metrics().next().is_none() {
            return Err(TableError::NoMetric { columns: names.join(", ") });
        }
        table.check_numbers()?;
        Ok(table)
    }

    fn check_numbers(&self) -> Result<(), TableError> {
        for (at, column) in self.metrics() {
            let is_wrong = |row: &&Row| {
                let text = row.cells[at].as_str();
                !is_missing(text) && number(text).is_none()
            };
            if let Some(row) = self.rows.iter().find(is_wrong) {
                let value = row.cells[at].clone();
                let column = column.name.clone();
                return Err(TableError::NoNumber { line: row.line, column, value });
            }
        }
        Ok(())
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True when no row is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows in which a factor has this value.
    ///
    /// # Errors
    /// When there is no such column or value.
    pub fn only(&self, factor: &str, level: &str) -> Result<Self, TableError> {
        let at = self.index(factor)?;
        self.check_level(at, level)?;
        Ok(self.retain(|row| row.cells[at] == level))
    }

    /// The rows but those that begin at these lines.
    #[must_use]
    pub fn without(&self, lines: &[usize]) -> Self {
        self.retain(|row| !lines.contains(&row.line))
    }

    /// The values of a metric, in the order of the rows, missing ones left out.
    ///
    /// # Errors
    /// When there is no such metric.
    pub fn values(&self, metric: &str) -> Result<Vec<f64>, TableError> {
        let at = self.metric(metric)?;
        Ok(self.rows.iter().filter_map(|row| row.number(at)).collect())
    }

    /// The factors of the row that begins at a line.
    #[must_use]
    pub fn factors_of(&self, line: usize) -> Group {
        let row = self.rows.iter().find(|row| row.line == line);
        row.map_or_else(Vec::new, |row| self.group(row, &[]))
    }

    fn retain(&self, keep: impl Fn(&Row) -> bool) -> Self {
        let rows = self.rows.iter().filter(|row| keep(row)).cloned().collect();
        Self { columns: self.columns.clone(), rows }
    }

    fn index(&self, name: &str) -> Result<usize, TableError> {
        let known = || self.columns.iter().map(|column| column.name.as_str());
        known().position(|column| column == name).ok_or_else(|| TableError::NoColumn {
            name: name.to_owned(),
            hint: suggest::hint(name, known()),
            known: known().collect::<Vec<_>>().join(", "),
        })
    }

    /// The index of a factor.
    fn factor(&self, name: &str) -> Result<usize, TableError> {
        let at = self.index(name)?;
        let needed = "a factor";
        match self.columns[at].role {
            Role::Factor => Ok(at),
            _ => Err(TableError::WrongColumn { name: name.to_owned(), needed }),
        }
    }

    /// The index of a metric.
    fn metric(&self, name: &str) -> Result<usize, TableError> {
        let at = self.index(name)?;
        let needed = "a metric: say NAME:higher:UNIT or NAME:lower:UNIT";
        match self.columns[at].role {
            Role::Metric(_) => Ok(at),
            _ => Err(TableError::WrongColumn { name: name.to_owned(), needed }),
        }
    }

    /// Which way a metric is good.
    fn better(&self, metric: usize) -> Better {
        match self.columns[metric].role {
            Role::Metric(better) => better,
            Role::Factor | Role::Skip => Better::Higher,
        }
    }

    fn check_level(&self, factor: usize, level: &str) -> Result<(), TableError> {
        let known: BTreeSet<&str> = self.rows.iter().map(|r| r.cells[factor].as_str()).collect();
        if known.contains(level) {
            return Ok(());
        }
        Err(TableError::NoLevel {
            factor: self.columns[factor].name.clone(),
            level: level.to_owned(),
            hint: suggest::hint(level, known.iter().copied()),
            known: known.into_iter().collect::<Vec<_>>().join(", "),
        })
    }

    fn metrics(&self) -> impl Iterator<Item = (usize, &Column)> {
        let is_metric = |(_, column): &(usize, &Column)| matches!(column.role, Role::Metric(_));
        self.columns.iter().enumerate().filter(is_metric)
    }

    /// The indexes of the factors but these.
    fn factors_but(&self, but: &[usize]) -> Vec<usize> {
        let is_wanted = |at: &usize| self.columns[*at].role == Role::Factor && !but.contains(at);
        (0..self.columns.len()).filter(is_wanted).collect()
    }

    /// The factors of a row but these, with their names.
    fn group(&self, row: &Row, but: &[usize]) -> Group {
        let named = |at: usize| (self.columns[at].name.clone(), row.cells[at].clone());
        self.factors_but(but).into_iter().map(named).collect()
    }

    /// The rows that agree in these factors, groups in the order in which they begin in the table.
    fn groups(&self, by: &[usize]) -> Vec<Vec<&Row>> {
        let mut groups: Vec<Vec<&Row>> = Vec::new();
        let mut known: HashMap<Vec<&str>, usize> = HashMap::new();
        for row in &self.rows {
            let group = *known.entry(row.values(by)).or_insert(groups.len());
            if group == groups.len() {
                groups.push(Vec::new());
            }
            groups[group].push(row);
        }
        groups
    }
}

impl Row {
    fn number(&self, at: usize) -> Option<f64> {
        number(&self.cells[at])
    }

    /// The cells of these columns.
    fn values(&self, of: &[usize]) -> Vec<&str> {
        of.iter().map(|at| self.cells[*at].as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(texts: &[&str]) -> Vec<Column> {
        texts.iter().map(|text| parse_column(text).unwrap()).collect()
    }

    fn error(text: &str, said: &[&str]) -> String {
        Table::parse(text, &columns(said)).unwrap_err().to_string()
    }

    #[test]
    fn columns_are_factors_unless_said() {
        let text = "disk,iops,real\nsda,10.5,2m1.135s\nsdb,n/a,0m0.5s\n";
        let table = Table::parse(text, &columns(&["iops:higher:1/s", "real:lower:s"])).unwrap();
        assert_eq!(table.columns()[0].role, Role::Factor);
        assert_eq!(table.columns()[1], parse_column("iops:higher:1/s").unwrap());
        assert_eq!(table.values("iops").unwrap(), [10.5]);
        assert_eq!(table.values("real").unwrap(), [121.135, 0.5]);
        assert_eq!(table.only("disk", "sdb").unwrap().len(), 1);
        assert_eq!(table.factors_of(3), [("disk".to_owned(), "sdb".to_owned())]);
        assert!(table.without(&[2, 3]).is_empty());
    }

    #[test]
    fn numbers() {
        assert_eq!(number("1e3"), Some(1000.0));
        assert_eq!(number("19m37.522s"), Some(1177.522));
        for text in ["", "inf", "NaN", "1,5", "12 ms", "m1s", "1ms"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn roles() {
        assert_eq!(parse_column("a:lower").unwrap().unit, "");
        assert_eq!(parse_column("a:skip").unwrap().role, Role::Skip);
        for text in ["a", "a:", ":lower", "a:best", "a:skip:ms", "a:factor:ms"] {
            assert!(parse_column(text).is_err(), "{text}");
        }
    }

    #[test]
    fn errors_name_the_place_and_the_cure() {
        assert!(error("a,b\n1,2\n3\n", &[]).starts_with("line 3 has 1 values, the first line"));
        assert!(error("a,b\n", &[]).starts_with("the table has no rows"));
        assert!(error("", &[]).starts_with("the table has no rows"));
        assert!(error("a,a\n1,2\n", &[]).starts_with("the first line names two columns 'a'"));
        let text = error("threads,iops\n1,2\n", &["thread:skip"]);
        assert_eq!(text, "no column 'thread'; there are: threads, iops; did you mean 'threads'?");
        let text = error("a,iops\n1,2 k\n", &["iops:higher"]);
        assert!(text.starts_with("line 2, column iops: '2 k' is no number"), "{text}");
        let text = error("disk,iops\nsda,2\n", &["disk:skip"]);
        assert!(text.starts_with("which of its columns were measured?"), "{text}");
        assert!(text.ends_with("the columns are: disk, iops"), "{text}");
        let table = Table::parse("disk,iops\nsda,2\n", &columns(&["iops:higher"])).unwrap();
        let text = table.only("disk", "sdb").unwrap_err().to_string();
        assert!(text.starts_with("no row has disk 'sdb'") && text.contains("there are: sda"));
        assert!(table.values("disk").unwrap_err().to_string().contains("must be a metric"));
    }
}
