//! `fathom export`.

mod hidden;

use super::list::{open, state_of};
use super::{CommandError, CommandResult, standing};
use crate::args::{Common, Export, ExportFormat, ExportTable};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use crate::sink::Sink;
use fathom_check::anonymise::runs::Hider;
use fathom_export::openmetrics::Metrics;
use fathom_export::tables::{Table, What};
use fathom_export::trace::Trace;
use fathom_export::{Run, csv, hdr, parquet};
use fathom_store::transfer::jsonl::{self, WriteError};
use fathom_store::{Filter, Store, StoreError};
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::cell::RefCell;
use std::io::Write;
use std::path::Path;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes stored runs in the form of another program.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Export) -> CommandResult {
    let format = format(output, args)?;
    let is_stdout = args.output == Path::new("-");
    if is_stdout && output.json && format != ExportFormat::Jsonl {
        // Programs read standard output: two forms there do not mix.
        let text = "--json and the export both want standard output; write the export to a file with -o FILE";
        return Err(CommandError::usage(output, &text));
    }
    if args.what.is_some() && !matches!(format, ExportFormat::Csv | ExportFormat::Parquet) {
        let text = "--what names a table, and only csv and parquet are tables: add --format=csv, or leave it out";
        return Err(CommandError::usage(output, &text));
    }
    let Some(store) = open(common, output)? else {
        return Err(CommandError::nothing_stored(output));
    };
    let ids = chosen(output, &store, args)?;
    let mut sink = Sink::open(&args.output, args.overwrite)
        .map_err(|refusal| CommandError::report_as(output, &refusal, refusal.exit()))?;
    let mut job = Job { store: &store, ids: &ids, args, stop, output, hider: None };
    job.learn()?;
    match format {
        ExportFormat::Jsonl => job.jsonl(&mut sink)?,
        ExportFormat::Csv => job.csv(&mut sink)?,
        ExportFormat::Parquet => job.parquet(&mut sink)?,
        ExportFormat::Hdr => job.hdr(&mut sink)?,
        ExportFormat::Openmetrics => job.openmetrics(&mut sink)?,
        ExportFormat::ChromeTrace => job.trace(&mut sink)?,
    }
    let bytes = sink.finish()?;
    if !is_stdout {
        let name = args.output.display();
        output.text(&format!("{} to {name} ({bytes} bytes)\n", counted(ids.len())))?;
        let path = std::path::absolute(&args.output).unwrap_or_else(|_| args.output.clone());
        let fields =
            serde_json::json!({ "path": path.display().to_string(), "bytes": bytes, "runs": ids });
        output.json("result", &fields)?;
    }
    Ok(Exit::Done)
}

fn counted(runs: usize) -> String {
    if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") }
}

/// What was asked for, else what the name of the file says.
fn format(output: Output, args: &Export) -> Result<ExportFormat, CommandError> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    if args.output == Path::new("-") {
        let is_table = args.what.is_some();
        return Ok(if is_table { ExportFormat::Csv } else { ExportFormat::Jsonl });
    }
    let name = args.output.to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let endings = [
        (".jsonl", ExportFormat::Jsonl),
        (".csv", ExportFormat::Csv),
        (".parquet", ExportFormat::Parquet),
        (".hlog", ExportFormat::Hdr),
        (".hdr", ExportFormat::Hdr),
        (".prom", ExportFormat::Openmetrics),
        (".om", ExportFormat::Openmetrics),
        (".trace", ExportFormat::ChromeTrace),
        (".trace.json", ExportFormat::ChromeTrace),
    ];
    let found = endings.into_iter().find(|(ending, _)| name.ends_with(ending));
    found.map(|(_, format)| format).ok_or_else(|| {
        let text = format!(
            "{}: no form is known by that ending; name it with --format, or end in .jsonl, .csv, .parquet, .hlog, .prom or .trace.json",
            args.output.display()
        );
        CommandError::usage(output, &text)
    })
}

/// The runs, the oldest first: so they come to stand in another store as they stand here.
fn chosen(output: Output, store: &Store, args: &Export) -> Result<Vec<String>, CommandError> {
    let failed = |e: StoreError| CommandError::store(output, &e);
    let root = SysRoot::live();
    let filter = Filter {
        label: args.label.clone(),
        target: args.target.as_deref().map(|word| standing::absolute_target(&root, word)),
        since_unix_ns: None,
        limit: args.limit,
    };
    let named = args.runs.iter().map(|run| store.resolve(run));
    let named: Vec<String> = named.collect::<Result<_, _>>().map_err(failed)?;
    let all = store.list(&filter).map_err(failed)?;
    let wanted = |id: &String| named.is_empty() || named.contains(id);
    let ids: Vec<String> = all.into_iter().rev().map(|run| run.id).filter(wanted).collect();
    if ids.is_empty() {
        let text = "no stored run is like that; all runs: fathom list";
        return Err(CommandError::usage(output, &text));
    }
    Ok(ids)
}

/// One export.
struct Job<'a> {
    store: &'a Store,
    ids: &'a [String],
    args: &'a Export,
    stop: &'a StopFlag,
    output: Output,
    /// What takes out what identifies, when that was asked for.
    hider: Option<RefCell<Hider>>,
}

impl Job<'_> {
    /// Nothing half-written takes the name of the file.
    fn go_on(&self) -> Result<(), CommandError> {
        if self.stop.is_set() { Err(Exit::Interrupted.into()) } else { Ok(()) }
    }

    fn failed(&self, error: &StoreError) -> CommandError {
        CommandError::store(self.output, error)
    }

    fn load(&self, id: &str) -> Result<Run, CommandError> {
        let run = self.load_as_stored(id)?;
        match &self.hider {
            Some(hider) => self.hidden(hidden::run(&mut hider.borrow_mut(), &run), id),
            None => Ok(run),
        }
    }

    fn hidden<T>(&self, hidden: Option<T>, id: &str) -> Result<T, CommandError> {
        hidden.ok_or_else(|| {
            let text = format!("run {id} cannot be written without what identifies; leave it out");
            CommandError::report_as(self.output, &text, Exit::Internal)
        })
    }

    /// Everything is learned before the first run is written: a name of one may stand in a sentence of another.
    fn learn(&mut self) -> Result<(), CommandError> {
        if self.args.anonymise {
            let mut hider = Hider::new(session::system_seed());
            for id in self.ids {
                hidden::learn(&mut hider, &self.load_as_stored(id)?);
            }
            self.hider = Some(RefCell::new(hider));
        }
        Ok(())
    }

    fn load_as_stored(&self, id: &str) -> Result<Run, CommandError> {
        self.go_on()?;
        let stored = self.store.load(id).map_err(|e| self.failed(&e))?;
        let plan = self.store.plan(id).map_err(|e| self.failed(&e))?;
        Ok(Run {
            state: state_of(stored.state, &stored.writer).to_owned(),
            head: stored.head,
            finished_unix_ns: stored.finished_unix_ns,
            verdict: stored.verdict,
            findings: stored.findings,
            plan,
            records: stored.records,
        })
    }

    fn jsonl(&self, out: &mut Sink) -> Result<(), CommandError> {
        let mut writer = jsonl::Writer::begin(&mut *out, VERSION, self.args.anonymise)?;
        for id in self.ids {
            self.go_on()?;
            if self.hider.is_some() {
                let copied = hidden::copy(&self.load(id)?, self.store.copy_run(id));
                let (copy, trials) = copied.map_err(|e| self.failed(&e))?;
                writer.run(&copy)?;
                trials.iter().try_for_each(|trial| writer.trial(trial))?;
                continue;
            }
            writer.stored(self.store, id).map_err(|error| match error {
                WriteError::Store(error) => self.failed(&error),
                WriteError::Output(error) => error.into(),
            })?;
        }
        writer.end()?;
        Ok(())
    }

    fn table(&self) -> Result<Table, CommandError> {
        let what = match self.args.what.unwrap_or(ExportTable::Rows) {
            ExportTable::Rows => What::Rows,
            ExportTable::Series => What::Series,
            ExportTable::Histogram => What::Histogram,
            ExportTable::Trials => What::Trials,
            ExportTable::Findings => What::Findings,
            ExportTable::Devices => What::Devices,
            ExportTable::Watch => What::Watch,
            ExportTable::WatchHost => What::WatchHost,
            ExportTable::Operations => What::Operations,
            ExportTable::CaptureSeries => What::CaptureSeries,
        };
        let mut factors = Vec::new();
        for id in self.ids {
            let plan = self.store.plan(id).map_err(|e| self.failed(&e))?;
            // A setting of somebody's own is a factor by its name.
            let plan = match &self.hider {
                Some(hider) => self.hidden(hider.borrow_mut().hide(&plan), id)?,
                None => plan,
            };
            factors.extend(plan.into_iter().flat_map(|plan| plan.factors).map(|f| f.name));
        }
        Ok(Table::new(what, &factors))
    }

    fn csv(&self, out: &mut Sink) -> Result<(), CommandError> {
        let table = self.table()?;
        csv::header(out, &table.columns)?;
        let mut rows = 0u64;
        for id in self.ids {
            table.rows(&self.load(id)?, |cells| {
                rows += 1;
                csv::row(out, &cells)
            })?;
        }
        self.say_where(rows);
        Ok(())
    }

    fn parquet(&self, out: &mut Sink) -> Result<(), CommandError> {
        let table = self.table()?;
        let mut writer = parquet::Writer::begin(out, &table.columns)?;
        let mut rows = 0u64;
        for id in self.ids {
            table.rows(&self.load(id)?, |cells| {
                rows += 1;
                writer.row(&cells)
            })?;
        }
        writer.end(&format!("fathom {VERSION}"))?;
        self.say_where(rows);
        Ok(())
    }

    /// Watches, captures and replays are in tables of their own.
    fn say_where(&self, rows: u64) {
        if rows == 0 {
            self.output.note(
                "no row: that table has nothing of these runs; --what=watch has watches, --what=capture-series captures and replays, --what=trials all",
            );
        }
    }

    /// The earliest begin of the runs.
    fn begin_unix_ns(&self) -> Result<i64, CommandError> {
        let all = self.store.list(&Filter::default()).map_err(|e| self.failed(&e))?;
        let begins = all.iter().filter(|run| self.ids.contains(&run.id)).map(|r| r.started_unix_ns);
        Ok(begins.min().unwrap_or(0))
    }

    fn hdr(&self, out: &mut Sink) -> Result<(), CommandError> {
        hdr::begin(out, self.begin_unix_ns()?, VERSION)?;
        for id in self.ids {
            hdr::run(out, &self.load(id)?)?;
        }
        Ok(())
    }

    fn openmetrics(&self, out: &mut Sink) -> Result<(), CommandError> {
        let mut metrics = Metrics::default();
        for id in self.ids {
            metrics.add(&self.load(id)?);
        }
        out.write_all(metrics.text().as_bytes())?;
        Ok(())
    }

    fn trace(&self, out: &mut Sink) -> Result<(), CommandError> {
        let mut trace = Trace::begin(&mut *out, self.begin_unix_ns()?, VERSION)?;
        for id in self.ids {
            trace.run(&self.load(id)?)?;
        }
        trace.end()?;
        Ok(())
    }
}
