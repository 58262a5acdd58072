//! Personalities as tables: what was asked, the transactions, and what a rate came to.

use crate::figures::{NotEnough, iops_text, ns_text, per_second, quantile_text};
use crate::table::{Align, Table};
use crate::text::push_wrapped_to;
use fathom_base::units::{format_count, format_ns, format_size};
use fathom_model::fsop::FsopRecord;
use fathom_model::play::{PlayAct, PlaySpec, Sizes};
use fathom_model::record::{OpClass, Record};
use fathom_stats::Histogram;
use fathom_study::play::{self, RateSum};

/// The operations that only clients have.
pub(crate) const NAMES: [(OpClass, &str, &str); 9] = [
    (OpClass::Write, "", "write"),
    (OpClass::OpenAppend, "", "open to append"),
    (OpClass::Append, "", "append"),
    (OpClass::Read, "", "read"),
    (OpClass::Unlink, "", "unlink"),
    (OpClass::Rename, "", "rename"),
    (OpClass::Link, "", "link"),
    (OpClass::List, "", "list a directory"),
    (OpClass::RemoveDir, "", "rmdir"),
];

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// What was asked, in one line.
#[must_use]
pub fn settings(play: &PlaySpec) -> String {
    let mut words = vec![
        format!("clients={}", play.clients),
        format!("files={}", play.files),
        format!("sizes={}", sizes(play.sizes)),
    ];
    let mut add = |is_meant: bool, text: String| {
        if is_meant {
            words.push(text);
        }
    };
    let has = |wanted: fn(PlayAct) -> bool| play.acts().any(wanted);
    add(play.writers < play.clients, format!("mix={}", mix(&play.mix)));
    add(play.writers > 0, format!("writers={} writer_mix={}", play.writers, mix(&play.writer_mix)));
    add(play.dirs > 0, format!("dirs={}", play.dirs));
    add(play.shared, "shared=yes".into());
    add(
        has(|act| matches!(act, PlayAct::Append | PlayAct::Log)),
        format!("append_size={}", sizes(play.append_sizes)),
    );
    add(
        has(|act| act == PlayAct::Log),
        format!("log_size_max={}", format_size(play.log_bytes_max)),
    );
    add(
        has(PlayAct::is_on_trees),
        format!("trees={} tree_dirs={} tree_files={}", play.trees, play.tree_dirs, play.tree_files),
    );
    add(true, format!("sync={}", play.sync.word()));
    add(play.batch > 1, format!("batch={}", play.batch));
    if let Some(rate) = play.rate {
        add(true, format!("rate={rate} arrivals={}", play.arrivals.word()));
    }
    words.join(" ")
}

fn mix(mix: &[(PlayAct, u32)]) -> String {
    let one = |(act, weight): &(PlayAct, u32)| format!("{}:{weight}", act.word());
    mix.iter().map(one).collect::<Vec<_>>().join(",")
}

fn sizes(sizes: Sizes) -> String {
    match sizes {
        Sizes::Uniform { min, max } if min == max => format!("{min}"),
        Sizes::Uniform { min, max } => format!("{min}..{max}"),
        Sizes::LogNormal { median, mean, max } => format!("{median}:{mean}:{max}"),
    }
}

/// The transactions of all clients together, and what a rate came to, in lines of `width` columns; empty for other workloads.
#[must_use]
pub fn transactions(record: &Record, fsop: &FsopRecord, width: usize) -> String {
    let acts = fsop.acts();
    if acts.is_empty() {
        return String::new();
    }
    let is_open = acts.iter().any(|act| act.response_ns.is_some());
    let columns = ["per s", "count", "avg", "p50", "p99", "p99.9", "max"];
    let first = if is_open { "transactions (service time)" } else { "transactions" };
    let head = [(first, Align::Left)];
    let mut table = Table::new(head.into_iter().chain(columns.map(|c| (c, Align::Right))), 2);
    let mut missing = NotEnough::default();
    let mut row = |name: &str, times: &Histogram| {
        missing.look_at(times, &QUANTILES);
        let mut cells =
            vec![name.to_owned(), iops_text(per_second(times.count(), record.window_ns))];
        cells.push(format_count(times.count()));
        cells.push(ns_text(times.mean().map(|ns| ns.round() as u64)));
        cells.extend(QUANTILES.map(|(_, q)| quantile_text(times, q)));
        cells.push(ns_text(times.max()));
        table.row(cells);
    };
    let mut all = Histogram::new();
    for act in &acts {
        row(act.act.word(), &act.service_ns);
        all.merge(&act.service_ns);
    }
    if acts.len() > 1 {
        row("all", &all);
    }
    let rate = play::rate(fsop);
    if let Some(rate) = &rate {
        row("response, from when due", &rate.response_ns);
    }
    let mut out = table.render_to(2, width);
    crate::fsop::push_note(&mut out, missing, width);
    if let Some(text) = ageing_text(fsop) {
        push_wrapped_to(&mut out, width, "  age  ", &text);
    }
    if let Some(text) = unfinished_text(fsop) {
        push_wrapped_to(&mut out, width, "  cut  ", &text);
    }
    if let Some(rate) = rate {
        push_wrapped_to(&mut out, width, "  rate  ", &rate_text(record, &rate));
    }
    out
}

/// Whether trees that are built and taken down again and again became slower: the first third of the window against the last one.
/// None for other personalities, and for windows that are too short for thirds.
fn ageing_text(fsop: &FsopRecord) -> Option<String> {
    if !fsop.spec.play.as_ref()?.acts().any(PlayAct::is_on_trees) {
        return None;
    }
    let each = fsop.processes.iter().map(|process| process.operations_by_second.as_slice());
    let seconds = each.clone().map(<[u64]>::len).min()?;
    let third = Some(seconds / 3).filter(|third| *third > 0)?;
    let per_s = |range: std::ops::Range<usize>| {
        let done: u64 = each.clone().flat_map(|one| &one[range.clone()]).sum();
        iops_text(done as f64 / third as f64)
    };
    // The last second may be a part of one.
    let (first, last) = (per_s(0..third), per_s(seconds - 1 - third..seconds - 1));
    Some(format!("{first} calls/s in the first third of the window, {last} in the last one"))
}

/// What the end of the window cut: in no row, and the longest are cut most often.
fn unfinished_text(fsop: &FsopRecord) -> Option<String> {
    let cut = play::unfinished(fsop);
    let first = cut.first()?;
    let many = if cut.len() == 1 {
        "1 transaction,".to_owned()
    } else {
        format!("{} transactions, the longest", cut.len())
    };
    let (act, age) = (first.act.word(), format_ns(first.age_ns));
    Some(format!("by the end of the window: {many} a {act} that had gone on for {age}"))
}

fn rate_text(record: &Record, rate: &RateSum) -> String {
    let per_s = |count| iops_text(per_second(count, record.window_ns));
    let mut text = format!(
        "asked {} transactions/s, due {}/s, done {}/s",
        iops_text(rate.asked),
        per_s(rate.due),
        per_s(rate.response_ns.count())
    );
    if rate.not_started > 0 {
        text +=
            &format!("; {} were due and not started at the end", format_count(rate.not_started));
    }
    if let Some(age_ns) = rate.oldest_not_started_ns {
        text += &format!(", the oldest for {}", format_ns(age_ns));
    }
    if rate.backlog_start > 0 {
        text += &format!("; {} at the start", format_count(rate.backlog_start));
    }
    text
}

#[cfg(test)]
#[path = "play_tests.rs"]
mod tests;
