//! `fathom tree`: trees of files are built, scanned, verified.

use super::progress_line::ProgressLine;
use super::{CommandError, CommandResult, finish, key_value};
use crate::args::{Common, TreeBuild, TreeScan, TreeVerify};
use crate::args::{Tree as TreeArgs, TreeCommand};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use crate::sink::Sink;
use fathom_base::id;
use fathom_base::prng::Prng;
use fathom_base::shell;
use fathom_base::units::{format_count, format_ns, format_rate, format_size};
use fathom_guard::MeasuringLock;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_tree::build::{self, Builder, Built};
use fathom_tree::error::{TreeError, TreeErrorClass};
use fathom_tree::manifest::check::{self, Depth, Report};
use fathom_tree::manifest::{Access, Tree};
use fathom_tree::scan::table::Table;
use fathom_tree::scan::{self, Scanned};
use fathom_tree::spec::layout::Layout;
use fathom_tree::spec::settings::Settings;
use fathom_tree::spec::{Amount, TreeSpec};
use flate2::read::GzDecoder;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// A table has some thousand lines at the most.
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// Builds, scans or verifies a tree.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &TreeArgs) -> CommandResult {
    match &args.command {
        TreeCommand::Build(args) => build(common, output, stop, args),
        TreeCommand::Scan(args) => scan_dir(output, stop, args),
        TreeCommand::Verify(args) => verify(common, output, stop, args),
    }
}

/// Prints an error of trees.
pub fn failed(output: Output, error: &TreeError) -> CommandError {
    CommandError::report_as(output, error, exit_of_error(error))
}

/// What an error of trees comes to.
pub fn exit_of_error(error: &TreeError) -> Exit {
    match error.class() {
        TreeErrorClass::Usage => Exit::Usage,
        TreeErrorClass::Refused => Exit::Refused,
        TreeErrorClass::Missing => Exit::Missing,
        TreeErrorClass::TargetIo => Exit::TargetIo,
        TreeErrorClass::Interrupted => Exit::Interrupted,
    }
}

/// What commands about trees hold: the measuring lock, and where the journal lies.
pub struct Held {
    /// The system.
    pub root: SysRoot,
    /// Beside the store.
    pub state_dir: PathBuf,
    _lock: MeasuringLock,
}

/// Takes the lock: what is done to trees disturbs measurements.
pub fn hold(common: &Common, output: Output) -> Result<Held, CommandError> {
    let root = SysRoot::live();
    let store = session::store_path(common)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let lock = MeasuringLock::acquire(&root)
        .map_err(|error| CommandError::report_as(output, &error, Exit::of_lock(&error)))?;
    let state_dir = store.parent().unwrap_or(Path::new(".")).to_owned();
    Ok(Held { root, state_dir, _lock: lock })
}

/// How many threads work on a tree when nobody says.
pub fn threads() -> usize {
    // More than processors: most of the time is waiting.
    std::thread::available_parallelism().map_or(4, |n| n.get() * 2).clamp(4, 32)
}

fn build(common: &Common, output: Output, stop: &StopFlag, args: &TreeBuild) -> CommandResult {
    let usage = |text: &dyn std::fmt::Display| CommandError::usage(output, text);
    let pairs: Vec<_> =
        args.settings.iter().map(|s| key_value(output, s)).collect::<Result<_, _>>()?;
    let settings = Settings::parse(&pairs).map_err(|error| usage(&error))?;
    let table = match &settings.table {
        None => None,
        Some(file) => Some(read_table(file).map_err(|error| usage(&error))?),
    };
    let held = hold(common, output)?;
    let spec = spec(common, &held.root, &args.dir, &settings, table.as_ref())
        .map_err(|error| failed(output, &error))?;
    let run_id = id::new_id(&mut Prng::new(session::system_seed(), 0));
    let mut shown = ProgressLine::new(output);
    let mut progress = |step| shown.tree(step);
    let mut builder = Builder {
        root: &held.root,
        state_dir: &held.state_dir,
        run_id: &run_id,
        threads: settings.threads.unwrap_or_else(threads),
        time_ns: settings.time_ns,
        stop,
        progress: &mut progress,
    };
    let built = builder.build(&args.dir, spec);
    shown.finish();
    let built = built.map_err(|error| failed(output, &error))?;
    let mut text = built_text(&built);
    let mut json = tree_json(&built.tree);
    json["reused"] = built.reused.into();
    json["made_files"] = built.made_files.into();
    json["took_ns"] = built.took_ns.into();
    let mut exit = Exit::Done;
    if args.verify && built.reused {
        let report = checked(output, stop, &built.tree, Depth::Content)?;
        text += &report_text(&built.tree, &report, Depth::Content);
        json["verify"] = serde_json::to_value(&report).unwrap_or_default();
        exit = exit_of(&report);
    }
    let path = shell::path(built.tree.path());
    let _ = writeln!(
        text,
        "It stays; fathom tree verify {path} checks it, fathom clean {path} removes it."
    );
    json["exit_code"] = exit.code().into();
    finish(output, &text, &json, exit)
}

/// The tree that is asked for. A seed that nobody gives is that of the tree that is there, or always the same one: trees are
/// for comparing.
fn spec(
    common: &Common,
    root: &SysRoot,
    dir: &Path,
    settings: &Settings,
    table: Option<&Table>,
) -> Result<TreeSpec, TreeError> {
    let there = Tree::open(dir, Access::Shared).ok();
    let seed =
        common.seed.or_else(|| there.as_ref().map(|tree| tree.card().spec.seed)).unwrap_or(1);
    let default = match &there {
        Some(tree) => tree.card().spec.amount,
        None => Amount::Bytes(build::default_bytes(root, dir)?),
    };
    Ok(settings.spec(seed, table, default))
}

fn read_table(file: &str) -> Result<Table, String> {
    let text = read_bounded(file).map_err(|error| {
        format!("table {file}: {error}; fathom tree scan DIR -o {file} makes one")
    })?;
    Table::parse(&text).map_err(|error| format!("table {file}: {error}"))
}

/// The text of a table, packed or not. What has no end (`/dev/zero`, a bomb) is read up to the limit only.
fn read_bounded(file: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(file)?.take(TABLE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        GzDecoder::new(bytes.as_slice()).take(TABLE_BYTES_MAX + 1).read_to_end(&mut unpacked)?;
        bytes = unpacked;
    }
    if bytes.len() as u64 > TABLE_BYTES_MAX {
        let largest = format_size(TABLE_BYTES_MAX);
        return Err(io::Error::other(format!("more than {largest}, so no table of a tree")));
    }
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn built_text(built: &Built) -> String {
    let layout = built.tree.layout();
    let what = size_text(layout);
    let path = built.tree.path().display();
    let took = format_ns(built.took_ns);
    let seed = layout.spec().seed;
    if built.reused {
        return format!(
            "{path}: {what}, seed {seed}; there already and as it was built, looked through in {took}.\n"
        );
    }
    let extent = layout.extent();
    let seconds = built.took_ns as f64 / 1e9;
    let kept = match extent.files - built.made_files {
        0 => String::new(),
        kept => format!(" ({} files were there already)", format_count(kept)),
    };
    format!(
        "{path}: {what}, seed {seed}; made in {took}, {} files/s{kept}.\n",
        format_count((built.made_files as f64 / seconds.max(1e-9)).round() as u64)
    )
}

fn size_text(layout: &Layout) -> String {
    let extent = layout.extent();
    let deepest = layout.depth(extent.dirs - 1);
    format!(
        "{} files of {} in {} directories up to {deepest} deep",
        format_count(extent.files),
        format_size(extent.bytes),
        format_count(extent.dirs),
    )
}

fn tree_json(tree: &Tree) -> serde_json::Value {
    serde_json::json!({
        "path": tree.path(),
        "run": tree.card().run_id,
        "spec": tree.layout().spec(),
        "extent": tree.layout().extent(),
    })
}

fn verify(common: &Common, output: Output, stop: &StopFlag, args: &TreeVerify) -> CommandResult {
    let _held = hold(common, output)?;
    let tree = Tree::open_complete(&args.dir, Access::Shared).map_err(|e| failed(output, &e))?;
    let depth = if args.names { Depth::Names } else { Depth::Content };
    let report = checked(output, stop, &tree, depth)?;
    let exit = exit_of(&report);
    let mut json = tree_json(&tree);
    json["verify"] = serde_json::to_value(&report).unwrap_or_default();
    json["exit_code"] = exit.code().into();
    finish(output, &report_text(&tree, &report, depth), &json, exit)
}

fn checked(
    output: Output,
    stop: &StopFlag,
    tree: &Tree,
    depth: Depth,
) -> Result<Report, CommandError> {
    let mut shown = ProgressLine::new(output);
    let report = check::check(tree, depth, threads(), stop, &mut |step| shown.tree(step));
    shown.finish();
    report.map_err(|error| failed(output, &error))
}

fn exit_of(report: &Report) -> Exit {
    if report.deviations == 0 { Exit::Done } else { Exit::TargetIo }
}

fn report_text(tree: &Tree, report: &Report, depth: Depth) -> String {
    let path = tree.path().display();
    let took = format_ns(report.took_ns);
    let how = match depth {
        Depth::Names => "names, sizes and times".to_owned(),
        Depth::Content => format!(
            "every byte of {} ({})",
            format_size(report.compared_bytes),
            format_rate(report.compared_bytes as f64 / (report.took_ns as f64 / 1e9).max(1e-9))
        ),
    };
    let files = format_count(report.files);
    if report.deviations == 0 {
        return format!("{path}: {files} files are as they were built: {how}, in {took}.\n");
    }
    let mut text = format!(
        "{path}: NOT as it was built, {} {}; {files} files are as they were: {how}, in {took}.\n",
        format_count(report.deviations),
        if report.deviations == 1 { "deviation" } else { "deviations" }
    );
    for one in &report.listed {
        let kind = match one.kind {
            check::Kind::Missing => "missing",
            check::Kind::Changed => "changed",
            check::Kind::Foreign => "foreign",
        };
        let _ = writeln!(text, "  {kind}  {}: {}", one.path, one.what);
    }
    let more = report.deviations - report.listed.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "  and {} more", format_count(more));
    }
    text
}

fn scan_dir(output: Output, stop: &StopFlag, args: &TreeScan) -> CommandResult {
    let file = args.output.as_deref().filter(|file| *file != Path::new("-"));
    if let Some(file) = file {
        Sink::check(file, args.overwrite)
            .map_err(|refusal| CommandError::report_as(output, &refusal, refusal.exit()))?;
    }
    let mut shown = ProgressLine::new(output);
    let mut tick = |found: &Scanned| {
        shown.line(&format!("reading: {} files so far", format_count(found.table.files)))
    };
    let scanned = scan::scan(&args.dir, stop, &mut tick);
    shown.finish();
    let scanned = scanned.map_err(|error| failed(output, &error))?;
    let table = scanned.table.text(&args.dir.display().to_string());
    let summary = scan_text(&args.dir, &scanned);
    let json = serde_json::json!({
        "table": scanned.table,
        "other_filesystems": scanned.other_filesystems,
        "vanished": scanned.vanished,
        "unread": scanned.unread,
        "exit_code": 0,
    });
    match file {
        None => {
            summary.lines().for_each(|line| output.note(line));
            finish(output, &table, &json, Exit::Done)
        }
        Some(file) => {
            // Only now, lest it be found in the directory that is read.
            let mut sink = Sink::open(file, args.overwrite)
                .map_err(|refusal| CommandError::report_as(output, &refusal, refusal.exit()))?;
            sink.write_all(table.as_bytes())?;
            sink.finish()?;
            let file = shell::path(file);
            let next = format!(
                "Table in {file}; a tree like it: fathom tree build NEW_DIR table={file}\n"
            );
            finish(output, &(summary + &next), &json, Exit::Done)
        }
    }
}

fn scan_text(dir: &Path, scanned: &Scanned) -> String {
    let table = &scanned.table;
    let mut text = format!(
        "{}: {} files of {} in {} directories up to {} deep, read in {}\n",
        dir.display(),
        format_count(table.files),
        format_size(table.bytes),
        format_count(table.directories),
        table.depth,
        format_ns(scanned.took_ns)
    );
    for (count, what) in [
        (table.others, "links, devices, sockets and pipes are not in the table's files"),
        (scanned.other_filesystems, "mounts were not entered"),
        (scanned.vanished, "files and directories were gone before they were looked at"),
        (scanned.unread, "directories could not be read:"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "  {} {what}", format_count(count));
        }
    }
    scanned.unread_listed.iter().for_each(|line| _ = writeln!(text, "    {line}"));
    text
}
