//! The page model: what a report says, before it is HTML or Markdown.
//!
//! All texts are plain text as they are: whoever writes a page out escapes them. Numbers in charts are in base units
//! (nanoseconds, bytes, per second), so that what can be downloaded is exact; how they are shown follows from their [`Unit`].

use fathom_model::finding::{Finding, Verdict};
use fathom_model::stack::Stack;

/// A report.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// What the browser's tab says: `quick 7f3k on /srv/data`.
    pub title: String,
    /// What was to be found out, one sentence.
    pub question: String,
    /// What came out, one sentence with its figures; empty when nothing can be said.
    pub answer: String,
    /// Whether it can be believed; none where that is not the question.
    pub verdict: Option<Verdict>,
    /// The rest of the first screen: findings, stack, the winning setting or next command. Findings come first.
    pub first: Vec<Block>,
    /// Everything else, the most telling first.
    pub sections: Vec<Section>,
}

/// A part of a page with its own heading, which is also its entry in the table of contents.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// A few words.
    pub heading: String,
    /// How to read what follows; empty for none.
    pub note: String,
    /// What it shows.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section without blocks; see [`Section::block`].
    #[must_use]
    pub fn new(heading: impl Into<String>, note: impl Into<String>) -> Self {
        Self { heading: heading.into(), note: note.into(), blocks: Vec::new() }
    }

    /// Adds a block.
    #[must_use]
    pub fn block(mut self, block: impl Into<Block>) -> Self {
        self.blocks.push(block.into());
        self
    }
}

/// A piece of a page.
#[expect(clippy::large_enum_variant, reason = "a page has few of them")]
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Lines in columns, as a terminal shows them: a text of fathom-report.
    Plain(String),
    /// Rows and columns.
    Table(Table),
    /// A picture of numbers.
    Chart(Chart),
    /// The layers under a target as a picture.
    Stack(Box<Stack>),
    /// The verdict with what made it so, the gravest first.
    Findings(Vec<Finding>),
    /// Something to copy into a shell.
    Command {
        /// What it does: `repeat this run`.
        caption: String,
        /// The command line; several lines when there are several.
        command: String,
    },
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<Chart> for Block {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

/// How the cells of a column stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its title.
    pub title: String,
    /// What its figures are in, when the cells do not say it; empty otherwise.
    pub unit: String,
    /// How its cells stand.
    pub align: Align,
}

impl Column {
    /// A column of words.
    #[must_use]
    pub fn left(title: impl Into<String>) -> Self {
        Self { title: title.into(), unit: String::new(), align: Align::Left }
    }

    /// A column of numbers.
    #[must_use]
    pub fn right(title: impl Into<String>) -> Self {
        Self { title: title.into(), unit: String::new(), align: Align::Right }
    }

    /// With a unit for all cells.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }
}

/// What a cell says.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// What the column is sorted by; none for words, and for what is not there.
    pub value: Option<f64>,
}

impl Cell {
    /// A number as it is shown, and as it is.
    #[must_use]
    pub fn number(text: impl Into<String>, value: f64) -> Self {
        Self { text: text.into(), value: Some(value) }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), value: None }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, value: None }
    }
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// One for each column; missing ones are empty.
    pub cells: Vec<Cell>,
    /// A remark on the row, such as `<- where throughput stops growing`; empty for none. The row stands out.
    pub remark: String,
}

/// Rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What it shows; empty when the heading above says it.
    pub caption: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Footnotes, one line each.
    pub notes: Vec<String>,
    /// Rows may be put into another order by a click on a title; not where the order of rows means something.
    pub is_sortable: bool,
}

impl Table {
    /// A table without rows, in the order of its rows.
    #[must_use]
    pub fn new(caption: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            caption: caption.into(),
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            notes: Vec::new(),
            is_sortable: false,
        }
    }

    /// Adds a row.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.row_with_remark(cells, "");
    }

    /// Adds a row that stands out.
    pub fn row_with_remark<C: Into<Cell>>(
        &mut self,
        cells: impl IntoIterator<Item = C>,
        remark: impl Into<String>,
    ) {
        let cells = cells.into_iter().map(Into::into).collect();
        self.rows.push(Row { cells, remark: remark.into() });
    }

    /// The places of the columns that say something in some row: the others are not shown.
    #[must_use]
    pub fn used(&self) -> Vec<usize> {
        let says = |row: &Row, at: usize| row.cells.get(at).is_some_and(|c| !c.text.is_empty());
        (0..self.columns.len()).filter(|at| self.rows.iter().any(|row| says(row, *at))).collect()
    }
}

impl From<&fathom_report::table::Table> for Table {
    /// The same rows; columns that are empty in every row are left out, and the arrow before a remark.
    fn from(text: &fathom_report::table::Table) -> Self {
        use fathom_report::table::Align as Stands;
        let is_used = |at: &usize| {
            let cell = |row: &(Vec<String>, String)| row.0.get(*at).is_some_and(|c| !c.is_empty());
            text.rows().iter().any(cell)
        };
        let used: Vec<usize> = (0..text.columns().len()).filter(is_used).collect();
        let column = |at: &usize| {
            let (title, stands) = &text.columns()[*at];
            let align = if *stands == Stands::Right { Align::Right } else { Align::Left };
            Column { title: title.clone(), unit: String::new(), align }
        };
        let mut table = Self::new("", used.iter().map(column));
        for (cells, remark) in text.rows() {
            let cells = used.iter().map(|at| cells.get(*at).cloned().unwrap_or_default());
            table.row_with_remark(cells, remark.trim_start_matches("<- "));
        }
        table
    }
}

impl From<fathom_report::table::Noted> for Table {
    fn from(noted: fathom_report::table::Noted) -> Self {
        Self { notes: noted.notes, ..Self::from(&noted.table) }
    }
}

/// How numbers are shown: ticks of axes, what hovers over a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, shown as ns, us, ms, s.
    Nanoseconds,
    /// Seconds since something began.
    Seconds,
    /// Seconds since 1970, UTC, shown as a date with time.
    UnixSeconds,
    /// Operations per second.
    PerSecond,
    /// Bytes per second, shown in powers of 1000.
    BytesPerSecond,
    /// Bytes, shown in powers of 1024.
    Bytes,
    /// A share of one, shown in percent.
    Share,
    /// A share of all operations, 0 to below 1, on an axis of nines: 0, 90 %, 99 %, 99.9 %, ...
    Nines,
    /// How many times as much as something else.
    Times,
    /// A count, or a number without unit.
    Count,
}

impl Unit {
    /// What the column of such numbers is called in tables and downloads, behind its name.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Seconds => "s",
            Self::UnixSeconds => "unix_s",
            Self::PerSecond => "per_s",
            Self::BytesPerSecond => "bytes_per_s",
            Self::Bytes => "bytes",
            Self::Share | Self::Nines => "share",
            Self::Times => "times",
            Self::Count => "",
        }
    }
}

/// An axis, or a scale of colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// What it shows: `latency`, `requests in flight`. The unit is added.
    pub title: String,
    /// How its numbers are shown.
    pub unit: Unit,
    /// In powers: each step is ten times the last. Nothing may be at or below zero.
    pub is_log: bool,
    /// Names instead of numbers: a point's coordinate is an index here. Empty for an axis of numbers.
    pub categories: Vec<String>,
    /// The axis need not begin at zero. Bars always do.
    pub is_cropped: bool,
}

impl Axis {
    /// An axis of numbers that begins at zero.
    #[must_use]
    pub fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, is_log: false, categories: Vec::new(), is_cropped: false }
    }

    /// The same in powers of ten.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.is_log = true;
        self
    }

    /// The same without the zero, where only differences matter.
    #[must_use]
    pub fn cropped(mut self) -> Self {
        self.is_cropped = true;
        self
    }

    /// An axis of names.
    #[must_use]
    pub fn names<S: Into<String>>(
        title: impl Into<String>,
        names: impl IntoIterator<Item = S>,
    ) -> Self {
        let categories = names.into_iter().map(Into::into).collect();
        Self { categories, ..Self::new(title, Unit::Count) }
    }
}

/// Kinds of charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartKind {
    /// Points in their order, joined; `low` and `high` are drawn as a band.
    Line,
    /// As [`ChartKind::Line`], each value held until the next: counters, levels.
    Steps,
    /// Bars from zero; `low` and `high` are error bars. Several series stand side by side.
    Bars,
    /// Bars that stand on each other: parts of a whole.
    StackedBars,
    /// Points.
    Scatter,
    /// Coloured cells: both axes have names, `weight` is the colour, by [`Chart::scale`].
    HeatMap,
    /// Boxes: `low` and `high` are the whiskers, `quartiles` the box, `y` the line in it.
    Box,
}

/// A point.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// Across, or the index of a name.
    pub x: f64,
    /// Up, or the index of a name.
    pub y: f64,
    /// Lower end of its interval, or lower whisker.
    pub low: Option<f64>,
    /// Upper end of its interval, or upper whisker.
    pub high: Option<f64>,
    /// Lower and upper edge of a box.
    pub quartiles: Option<(f64, f64)>,
    /// What colours a cell of a heat map.
    pub weight: Option<f64>,
}

impl Point {
    /// A point without interval.
    #[must_use]
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }

    /// With an interval.
    #[must_use]
    pub fn between(x: f64, y: f64, low: f64, high: f64) -> Self {
        Self { x, y, low: Some(low), high: Some(high), ..Self::default() }
    }

    /// A cell of a heat map.
    #[must_use]
    pub fn cell(column: usize, row: usize, weight: f64) -> Self {
        Self { x: column as f64, y: row as f64, weight: Some(weight), ..Self::default() }
    }
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order in which a line joins them.
    pub points: Vec<Point>,
    /// They are not joined, also in a chart of lines.
    pub is_loose: bool,
}

/// A line across a chart that says something: a limit, the knee, a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// On which axis it stands: true for a vertical line.
    pub is_on_x: bool,
    /// Where, in the axis's unit or as an index of its names.
    pub at: f64,
    /// What it says, a few words.
    pub text: String,
}

/// A picture of numbers, with what is needed to read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows, a few words; also the name of its download.
    pub title: String,
    /// What is drawn.
    pub kind: ChartKind,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// The colours of a heat map; none otherwise.
    pub scale: Option<Axis>,
    /// What is drawn, in the order of the legend.
    pub series: Vec<Series>,
    /// Lines across.
    pub marks: Vec<Mark>,
    /// Points of a line that are further apart than this across are not joined, because something is missing between them;
    /// none joins all.
    pub joined_within: Option<f64>,
    /// What a point stands for and how many there are: `n = 12 runs`, `1 234 operations in 60 intervals of 1 s`.
    pub n: String,
    /// What the intervals are (`95 % interval over runs`), where they stand, or why points that sum up several runs have none; empty where
    /// every point is a figure of its own.
    pub interval: String,
    /// How to read it, one sentence, which is also what is read out to those who cannot see it; empty for none.
    pub note: String,
    /// What was left out of the points, and how; empty when they are all there.
    pub reduction: String,
}

impl Chart {
    /// A chart without series.
    #[must_use]
    pub fn new(title: impl Into<String>, kind: ChartKind, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            kind,
            x,
            y,
            scale: None,
            series: Vec::new(),
            marks: Vec::new(),
            joined_within: None,
            n: String::new(),
            interval: String::new(),
            note: String::new(),
            reduction: String::new(),
        }
    }

    /// Adds a series.
    #[must_use]
    pub fn series(mut self, name: impl Into<String>, points: Vec<Point>) -> Self {
        self.series.push(Series { name: name.into(), points, is_loose: false });
        self
    }

    /// Adds a series whose points are not joined, also where others are.
    #[must_use]
    pub fn loose_series(mut self, name: impl Into<String>, points: Vec<Point>) -> Self {
        self.series.push(Series { name: name.into(), points, is_loose: true });
        self
    }

    /// Says what the points stand for.
    #[must_use]
    pub fn n(mut self, n: impl Into<String>) -> Self {
        self.n = n.into();
        self
    }

    /// Says what the intervals are.
    #[must_use]
    pub fn interval(mut self, interval: impl Into<String>) -> Self {
        self.interval = interval.into();
        self
    }

    /// Says how to read it.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// With a line only between neighbours of a course whose points are that far apart across. Half of it more is for intervals that
    /// began late.
    #[must_use]
    pub fn joined(mut self, apart: f64) -> Self {
        self.joined_within = Some(1.5 * apart);
        self
    }

    /// With a line across: vertical at `x`.
    #[must_use]
    pub fn mark_x(mut self, at: f64, text: impl Into<String>) -> Self {
        self.marks.push(Mark { is_on_x: true, at, text: text.into() });
        self
    }

    /// With a line across: horizontal at `y`.
    #[must_use]
    pub fn mark_y(mut self, at: f64, text: impl Into<String>) -> Self {
        self.marks.push(Mark { is_on_x: false, at, text: text.into() });
        self
    }

    /// True when nothing would be drawn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }
}
