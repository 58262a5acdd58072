//! One row per record: what `fathom quick` and `fathom run` print first.

use crate::figures::{Counted, Figures, NotEnough, iops_text, ns_text, quantile_text};
use crate::table::{Align, Noted, Table};
use crate::text::{WIDTH, push_wrapped_to};
use fathom_base::units::format_ns;
use fathom_model::record::{CpuTime, Ending, JobRecord, Record};
use fathom_stats::Histogram;
use fathom_stats::interval::median_interval;
use fathom_stats::percentiles::{CellPercentile, of_cell};
use fathom_study::knee;

/// Longer labels are cut, so that the table keeps its width.
const LABEL_CHARS_MAX: usize = 40;

/// The percentiles of a row.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// The compact table: rate, operations per second, latencies, CPU. `remarks` are texts for rows by their index, such
/// as where throughput stops growing. In lines of `width` columns; at the widest a remark may stand out behind its row.
#[must_use]
pub fn quick_table(records: &[Record], remarks: &[(usize, &str)], width: usize) -> String {
    let Noted { table, notes } = quick_rows(records, remarks);
    let mut out = table.render_to(0, if width < WIDTH { width } else { usize::MAX });
    let notes = notes.iter().map(String::as_str).chain([SINGLE_RUNS]);
    notes.for_each(|note| push_wrapped_to(&mut out, width, "  ", note));
    out
}

/// What figures of single runs are worth.
const SINGLE_RUNS: &str = "Each row is one run, so it has no interval: how far another run would be off shows when quick is run again \
                           (fathom history).";

/// The same as a table.
#[must_use]
pub fn quick_rows(records: &[Record], remarks: &[(usize, &str)]) -> Noted {
    let rows: Vec<Row> = records
        .iter()
        .enumerate()
        .map(|(index, record)| {
            let own = remarks.iter().filter(|(at, _)| *at == index).map(|(_, text)| *text);
            Row::of_record(record, own)
        })
        .collect();
    render(&rows)
}

/// The rows of `fathom run`: one for each record, below it its jobs when there are several or its kinds of operations
/// when they are mixed, and the spread of the operations per second over repeats of one workload. A run is one value
/// there, never an interval inside it. In lines of `width` columns.
#[must_use]
pub fn run_table(records: &[Record], width: usize) -> String {
    run_rows(records).render_to(width) + &repeats(records, width) + &percentiles(records, width)
}

/// The same as a table, without the spread.
#[must_use]
pub fn run_rows(records: &[Record]) -> Noted {
    let mut rows = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let mut row = Row::of_record(record, std::iter::empty());
        let same = |other: &&Record| other.label == record.label;
        if records.iter().filter(same).count() > 1 {
            row.label += &format!(" #{}", records[..=index].iter().filter(same).count());
        }
        let response = Row::of_responses(&row.label, &record.jobs);
        rows.push(row);
        if record.jobs.len() > 1 {
            for job in &record.jobs {
                let label = format!("  {}", job.name);
                let response = Row::of_responses(&label, std::slice::from_ref(job));
                rows.push(Row {
                    label,
                    figures: Figures::of_job(job),
                    is_part: false,
                    is_response: false,
                    remark: String::new(),
                });
                rows.extend(response);
            }
        } else {
            rows.extend(Figures::parts(record).into_iter().map(|(class, figures)| Row {
                label: format!("  {}", class.word()),
                figures,
                is_part: true,
                is_response: false,
                remark: String::new(),
            }));
            rows.extend(response);
        }
    }
    render(&rows)
}

/// The rows of `fathom quick` in a sentence: rates of sequential rows, operations per second of the others.
#[must_use]
pub fn in_a_sentence(records: &[Record]) -> String {
    let of = |record: &Record| {
        let figures = Figures::of_record(record);
        let (iops, label) = (iops_text(figures.iops), &record.label);
        match figures.counted {
            Counted::Requests if label.starts_with("sequential") => {
                format!("{label} {}", figures.rate_text())
            }
            Counted::Requests => format!("{label} {iops} IOPS"),
            _ => format!("{label} {iops}/s"),
        }
    };
    let random: Vec<usize> =
        (0..records.len()).filter(|at| records[*at].label.starts_with("random read")).collect();
    let knee = knee::of_rows(records).map(|of| of.row);
    // Of the random reads the first and the one where throughput stops growing.
    let is_said = |at: &usize| !random[1.min(random.len())..].contains(at) || knee == Some(*at);
    let words: Vec<String> =
        (0..records.len()).filter(is_said).map(|at| of(&records[at])).collect();
    if words.is_empty() {
        String::new()
    } else {
        format!("{}. One run of each, so without intervals.", words.join("; "))
    }
}

struct Row {
    label: String,
    figures: Figures,
    /// Its CPU time cannot be told from that of the other parts.
    is_part: bool,
    /// Its latencies count from the intended start; the rest is in the row that it belongs to.
    is_response: bool,
    remark: String,
}

impl Row {
    fn of_record<'a>(record: &Record, remarks: impl Iterator<Item = &'a str>) -> Self {
        let ending = match record.ending {
            Ending::Complete => None,
            Ending::Interrupted => Some("interrupted"),
            Ending::Failed => Some("failed"),
        };
        let remarks: Vec<&str> = remarks.chain(ending).collect();
        let remark =
            if remarks.is_empty() { String::new() } else { format!("<- {}", remarks.join(", ")) };
        Self {
            label: record.label.clone(),
            figures: Figures::of_record(record),
            is_part: false,
            is_response: false,
            remark,
        }
    }

    /// The response times of open loops; none where all loops were closed.
    fn of_responses(label: &str, jobs: &[JobRecord]) -> Option<Self> {
        let opens = jobs.iter().filter_map(|job| job.open_loop.as_ref());
        let mut latency_ns = Histogram::new();
        opens.flat_map(|open| &open.classes).for_each(|c| latency_ns.merge(&c.at_least_ns()));
        let indent = label.len() - label.trim_start().len() + 2;
        (!latency_ns.is_empty()).then(|| Self {
            label: format!("{}response time", " ".repeat(indent)),
            figures: Figures { latency_ns, ..Figures::of_jobs(jobs.iter(), 0, CpuTime::default()) },
            is_part: true,
            is_response: true,
            remark: String::new(),
        })
    }
}

fn render(rows: &[Row]) -> Noted {
    let mut columns = vec![("", Align::Left), ("rate", Align::Right), ("IOPS", Align::Right)];
    columns.extend(QUANTILES.map(|(title, _)| (title, Align::Right)));
    columns.extend([("max", Align::Right), ("CPU", Align::Right)]);
    let mut table = Table::new(columns, 3);
    let (mut with_syncs, mut transactions) = (false, false);
    let mut not_enough = NotEnough::default();
    let mut is_open = false;
    for Row { label, figures, is_part, is_response, remark } in rows {
        let latency_ns = &figures.latency_ns;
        let quantiles = QUANTILES.map(|(_, q)| quantile_text(latency_ns, q));
        not_enough.look_at(latency_ns, &QUANTILES);
        with_syncs |= figures.with_syncs;
        transactions |= figures.counted == Counted::Transactions;
        is_open |= *is_response;
        let (rate, iops) = if *is_response {
            (String::new(), String::new())
        } else {
            (figures.rate_text(), iops_text(figures.iops))
        };
        let mut cells = vec![shortened(label), rate, iops];
        cells.extend(quantiles);
        cells.push(ns_text(latency_ns.max()));
        cells.extend((!is_part).then(|| figures.cpu_text()));
        table.row_with_remark(cells, remark);
    }
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    note(if is_open {
        "p50 to max: service time (hand-over to end), and below it the response time of an open loop: from the intended \
         start, with what had not ended counted at the age that it had. CPU: of one core."
    } else {
        "p50 to max: service time (closed loop: the next request waits for an earlier one). CPU: of one core."
    });
    if with_syncs {
        note("A write that is followed by a sync counts with it, as one operation.");
    }
    if transactions {
        note("Transactions: IOPS are whole rounds of read, write, log and sync per second.");
    }
    if let Some(text) = not_enough.note() {
        note(&text);
    }
    Noted { table, notes }
}

fn shortened(label: &str) -> String {
    if label.chars().count() <= LABEL_CHARS_MAX {
        return label.to_owned();
    }
    let kept: String = label.chars().take(LABEL_CHARS_MAX - 3).collect();
    format!("{kept}...")
}

/// What a run's repeats have in common: the label without its number.
fn without_number(label: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    label.rsplit_once(" #").filter(|(_, n)| is_number(n)).map_or(label, |(name, _)| name)
}

/// The complete repeats of each label that has several, under its name.
fn repeated(records: &[Record]) -> Vec<(&str, Vec<&Record>)> {
    let mut found: Vec<(&str, Vec<&Record>)> = Vec::new();
    for record in records.iter().filter(|record| record.ending == Ending::Complete) {
        let name = without_number(&record.label);
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, of)) => of.push(record),
            None => found.push((name, vec![record])),
        }
    }
    found.retain(|(_, of)| of.len() > 1);
    found
}

/// Confidence of the intervals of repeats.
const LEVEL: f64 = 0.95;

/// Minimum, median with its interval, and maximum over the complete repeats of each label, a line for each that has several.
#[must_use]
pub fn repeats(records: &[Record], width: usize) -> String {
    let mut out = String::new();
    for (name, of) in repeated(records) {
        let iops: Vec<f64> = of.iter().map(|record| Figures::of_record(record).iops).collect();
        let Ok(median) = median_interval(&iops, LEVEL) else { continue };
        let ends = |pick: fn(f64, f64) -> f64| iops.iter().copied().reduce(pick).unwrap_or(0.0);
        let interval = match median.interval {
            Some(of) => format!(
                " ({:.0} %: {} to {})",
                100.0 * of.coverage,
                iops_text(of.low),
                iops_text(of.high)
            ),
            None => " (fewer than six runs, no interval)".to_owned(),
        };
        let text = format!(
            "IOPS of {} over n = {} runs: min {}, median {}{interval}, max {}",
            shortened(name),
            iops.len(),
            iops_text(ends(f64::min)),
            iops_text(median.value),
            iops_text(ends(f64::max))
        );
        push_wrapped_to(&mut out, width, "", &text);
    }
    out
}

/// The percentiles of each label's repeats: of all their requests together, and across the runs.
fn percentiles(records: &[Record], width: usize) -> String {
    let mut out = String::new();
    for (name, of) in repeated(records) {
        let latencies: Vec<Histogram> =
            of.iter().map(|record| Figures::of_record(record).latency_ns).collect();
        let latencies: Vec<&Histogram> = latencies.iter().collect();
        let said = QUANTILES.iter().filter_map(|(title, q)| {
            let cell = of_cell(&latencies, *q, LEVEL, of.first()?.seed).ok()?;
            Some(format!("{title} {}", cell_text(&cell)))
        });
        let said: Vec<String> = said.collect();
        if !said.is_empty() {
            let text = format!("{}, all runs together: {}", shortened(name), said.join("; "));
            push_wrapped_to(&mut out, width, "", &text);
        }
    }
    out
}

/// `5.1 ms (runs: median 5.0 ms, 97 %: 4.8 ms to 5.3 ms)`.
fn cell_text(cell: &CellPercentile) -> String {
    let ns = |value: f64| format_ns(value.round() as u64);
    let merged = format_ns(cell.merged_ns);
    match (cell.across_runs_ns, cell.merged_interval_ns.and_then(|of| of.interval)) {
        (Some(runs), _) => match runs.interval {
            Some(of) => format!(
                "{merged} (runs: median {}, {:.0} %: {} to {})",
                ns(runs.value),
                100.0 * of.coverage,
                ns(of.low),
                ns(of.high)
            ),
            None => format!("{merged} (runs: median {}, no interval)", ns(runs.value)),
        },
        (None, Some(of)) => format!(
            "{merged} ({:.0} %: {} to {}, by drawing whole runs: each alone has too few)",
            100.0 * of.coverage,
            ns(of.low),
            ns(of.high)
        ),
        (None, None) => format!("{merged} (each run alone has too few, no interval)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{commit, interrupted, quick, randomio, replication};
    use expect_test::expect;

    #[test]
    fn the_table_of_quick() {
        let text = quick_table(&quick(), &[(3, "where throughput stops growing")], WIDTH);
        expect![[r#"
                                                rate   IOPS      p50      p99    p99.9      max   CPU
            sequential read               302.0 MB/s    288   3.4 ms    12 ms    15 ms    70 ms   2 %
            sequential write              118.5 MB/s    113   8.2 ms    29 ms      n/a   171 ms   2 %
            random read, 1 in flight      364.5 kB/s     89    11 ms    39 ms      n/a   234 ms   2 %
            random read, 64 in flight       3.2 MB/s    775    72 ms   253 ms   312 ms    1.5 s   2 %   <- where throughput stops growing
            mixed (20 % writes), 48         3.7 MB/s    900    38 ms    64 ms   190 ms   899 ms   2 %
            commit (append + fdatasync)            -    104   9.1 ms    32 ms      n/a   189 ms   2 %
              p50 to max: service time (closed loop: the next request waits for an earlier one). CPU: of one core.
              A write that is followed by a sync counts with it, as one operation.
              n/a: too few operations (ten must lie beyond a percentile: p99.9 needs 10 000).
              Each row is one run, so it has no interval: how far another run would be off shows when quick is run again
              (fathom history).
        "#]].assert_eq(&text);
        assert!(text.is_ascii());
    }

    #[test]
    fn too_few_operations_and_a_run_cut_short() {
        expect![[r#"
                          rate   IOPS     p50   p99   p99.9      max    CPU
            seeker   18.4 kB/s    4.5   12 ms   n/a     n/a   233 ms   60 %   <- slow, interrupted
              p50 to max: service time (closed loop: the next request waits for an earlier one). CPU: of one core.
              n/a: too few operations (ten must lie beyond a percentile: p99 needs 1 000, p99.9 needs 10 000).
              Each row is one run, so it has no interval: how far another run would be off shows when quick is run again
              (fathom history).
        "#]].assert_eq(&quick_table(&[interrupted()], &[(0, "slow")], WIDTH));
    }

    #[test]
    fn repeats_are_numbered_and_their_spread_is_shown() {
        let runs = [randomio(100), randomio(120), randomio(90), commit()];
        expect![[r#"
                                                rate   IOPS      p50      p99   p99.9      max   CPU
            mixed (20 % writes), 48 #1    409.6 kB/s    100    38 ms    64 ms     n/a   907 ms   2 %
              read                        327.7 kB/s     80    43 ms   152 ms     n/a   907 ms
              write                        75.1 kB/s     18   2.0 ms   7.1 ms     n/a    42 ms
              write + sync                  6.8 kB/s    1.7    31 ms      n/a     n/a   665 ms
            mixed (20 % writes), 48 #2    491.5 kB/s    120    38 ms    64 ms     n/a   912 ms   2 %
              read                        393.2 kB/s     96    43 ms   152 ms     n/a   912 ms
              write                        90.1 kB/s     22   2.0 ms   7.1 ms     n/a    42 ms
              write + sync                  8.2 kB/s    2.0    31 ms      n/a     n/a   640 ms
            mixed (20 % writes), 48 #3    368.6 kB/s     90    38 ms    64 ms     n/a   883 ms   2 %
              read                        294.9 kB/s     72    43 ms   152 ms     n/a   883 ms
              write                        67.6 kB/s     17   2.0 ms      n/a     n/a    43 ms
              write + sync                  6.1 kB/s    1.5    31 ms      n/a     n/a   647 ms
            commit (append + fdatasync)            -    104   9.1 ms    32 ms     n/a   189 ms   2 %
              p50 to max: service time (closed loop: the next request waits for an earlier one). CPU: of one core.
              A write that is followed by a sync counts with it, as one operation.
              n/a: too few operations (ten must lie beyond a percentile: p99 needs 1 000, p99.9 needs 10 000).
            IOPS of mixed (20 % writes), 48 over n = 3 runs: min 90, median 100 (fewer than six runs, no interval), max
            120
            mixed (20 % writes), 48, all runs together: p50 38 ms (runs: median 38 ms, no interval); p99 64 ms (runs:
            median 64 ms, no interval); p99.9 190 ms (each run alone has too few, no interval)
        "#]].assert_eq(&run_table(&runs, WIDTH));
    }

    #[test]
    fn several_jobs_and_transactions() {
        let mut both = replication();
        both.jobs.extend(commit().jobs);
        both.label = "a very long label that somebody has given to a workload of two jobs".into();
        let text = run_table(&[both, replication()], WIDTH);
        expect![[r#"
                                                       rate   IOPS      p50     p99   p99.9      max   CPU
            a very long label that somebody has g...      -     50    19 ms   68 ms     n/a   399 ms   2 %
              apply                                       -     50    19 ms   68 ms     n/a   399 ms   0 %
              log                                         -    104   9.1 ms   32 ms     n/a   189 ms   0 %
            replication                                   -     50    19 ms   68 ms     n/a   399 ms   2 %
              p50 to max: service time (closed loop: the next request waits for an earlier one). CPU: of one core.
              Transactions: IOPS are whole rounds of read, write, log and sync per second.
              n/a: too few operations (ten must lie beyond a percentile: p99.9 needs 10 000).
        "#]].assert_eq(&text);
        assert!(text.lines().all(|line| line.len() <= WIDTH));
    }

    #[test]
    fn repeats_that_carry_a_number_are_one_workload() {
        let mut runs = [randomio(100), randomio(120), commit()];
        (runs[0].label, runs[1].label) = ("oltp, direct #1".into(), "oltp, direct #2".into());
        let text = run_table(&runs, WIDTH);
        let spread = "IOPS of oltp, direct over n = 2 runs: min 100, median 110 (fewer than six runs, no interval), max 120\n";
        assert!(text.contains(spread), "{text}");
        assert_eq!(without_number("a #x"), "a #x");
    }

    /// Twelve runs of 60 s: of 900 requests each alone has no p99, all together have one; of 90 000 each has.
    #[test]
    fn repeats_have_intervals_and_percentiles_of_all_requests() {
        let runs = |iops: u64| (0..12).map(|at| randomio(iops + at % 3)).collect::<Vec<_>>();
        let text = run_table(&runs(1500), WIDTH);
        let lines: Vec<&str> = text.lines().collect();
        let about =
            |what: &str| lines.iter().find(|line| line.contains(what)).copied().unwrap_or("");
        let spread = about("over n = 12 runs");
        assert!(spread.contains("median 1 501 (96 %: 1 500 to 1 502), max 1 502"), "{text}");
        assert!(
            text.contains("all runs together: p50 ") && text.contains("(runs: median "),
            "{text}"
        );
        let short = run_table(&runs(13), WIDTH);
        let drawn = short.split("all runs together: ").nth(1).unwrap_or("").replace('\n', " ");
        assert!(drawn.contains("by drawing whole runs: each alone has too few"), "{short}");
        assert_eq!(short, run_table(&runs(13), WIDTH), "the seed is stored");
    }

    /// A job of 60 s beside one that had done its amount after 15 s: 100/s and 200/s are 300/s while both run.
    #[test]
    fn jobs_of_different_length_are_divided_by_their_own() {
        let read = |count, window_ns| {
            let mut job = crate::sample::job("x");
            job.classes = vec![crate::sample::class(
                fathom_model::record::OpClass::Read,
                count,
                1_000_000,
                4096,
            )];
            job.window_ns = window_ns;
            job
        };
        let mut record = randomio(1);
        record.jobs = vec![read(6000, 60_000_000_000), read(3000, 15_000_000_000)];
        let figures = Figures::of_record(&record);
        assert_eq!((figures.iops, figures.bytes_per_s), (300.0, 300.0 * 4096.0));
        assert_eq!(figures.latency_ns.count(), 9000);
        // A row that is divided by the longest has to fail here.
        let row = run_table(&[record], WIDTH).lines().nth(1).map(str::to_owned).unwrap_or_default();
        assert!(row.contains(" 1.2 MB/s ") && row.contains(" 300 "), "{row}");
    }

    #[test]
    fn an_even_number_of_repeats_and_a_failed_one() {
        let mut failed = randomio(500);
        failed.ending = Ending::Failed;
        let text = run_table(&[randomio(100), failed, randomio(90)], WIDTH);
        expect![[r#"
                                               rate   IOPS      p50      p99    p99.9      max   CPU
            mixed (20 % writes), 48 #1   409.6 kB/s    100    38 ms    64 ms      n/a   907 ms   2 %
              read                       327.7 kB/s     80    43 ms   152 ms      n/a   907 ms
              write                       75.1 kB/s     18   2.0 ms   7.1 ms      n/a    42 ms
              write + sync                 6.8 kB/s    1.7    31 ms      n/a      n/a   665 ms
            mixed (20 % writes), 48 #2     2.0 MB/s    500    38 ms    64 ms   190 ms   882 ms   2 %   <- failed
              read                         1.6 MB/s    400    43 ms   152 ms   190 ms   882 ms
              write                      375.5 kB/s     92   2.0 ms   7.1 ms      n/a    42 ms
              write + sync                34.1 kB/s    8.3    31 ms      n/a      n/a   659 ms
            mixed (20 % writes), 48 #3   368.6 kB/s     90    38 ms    64 ms      n/a   883 ms   2 %
              read                       294.9 kB/s     72    43 ms   152 ms      n/a   883 ms
              write                       67.6 kB/s     17   2.0 ms      n/a      n/a    43 ms
              write + sync                 6.1 kB/s    1.5    31 ms      n/a      n/a   647 ms
              p50 to max: service time (closed loop: the next request waits for an earlier one). CPU: of one core.
              A write that is followed by a sync counts with it, as one operation.
              n/a: too few operations (ten must lie beyond a percentile: p99 needs 1 000, p99.9 needs 10 000).
            IOPS of mixed (20 % writes), 48 over n = 2 runs: min 90, median 95 (fewer than six runs, no interval), max 100
            mixed (20 % writes), 48, all runs together: p50 38 ms (runs: median 38 ms, no interval); p99 64 ms (runs:
            median 64 ms, no interval); p99.9 190 ms (each run alone has too few, no interval)
        "#]].assert_eq(&text);
    }
}
