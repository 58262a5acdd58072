//! One row per record: what `fathom quick` and `fathom run` print first.

use crate::figures::{
    Counted, Figures, NotEnough, cpu_text, iops_of, iops_text, ns_text, quantile_text, rate_text,
};
use crate::table::{Align, Noted, Table};
use crate::text::{WIDTH, push_wrapped_to};
use fathom_base::units::format_ns;
use fathom_model::record::{CpuTime, Ending, JobRecord, Record};
use fathom_stats::interval::Estimate;
use fathom_stats::percentiles::CellPercentile;
use fathom_study::knee;
use fathom_study::repeats::Repeats;

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
/// when they are mixed, and what repeats of one workload come to. A run is one value there, never an interval inside it. In lines of
/// `width` columns.
#[must_use]
pub fn run_table(records: &[Record], repeats: &[Repeats], width: usize) -> String {
    let below = repeats_rows(repeats);
    let below = below.map_or_else(String::new, |rows| format!("\n{}", rows.render_to(width)));
    run_rows(records).render_to(width) + &below
}

/// The same as a table, without the repeats.
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

/// Said behind figures of single runs.
pub const SINGLE: &str = "One run of each, so without intervals.";

/// The rows of `fathom quick` in a sentence: rates of sequential rows, operations per second of the others.
#[must_use]
pub fn in_a_sentence(records: &[Record]) -> String {
    let of = |record: &Record| {
        let figures = Figures::of_record(record);
        let (iops, label) = (iops_of(&figures), &record.label);
        match figures.counted {
            Counted::Requests if label.starts_with("sequential") => {
                format!("{label} {}", rate_text(&figures))
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
    if words.is_empty() { String::new() } else { format!("{}. {SINGLE}", words.join("; ")) }
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
        let latency_ns = Figures::responses(jobs)?;
        let indent = label.len() - label.trim_start().len() + 2;
        Some(Self {
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
            (rate_text(figures), iops_of(figures))
        };
        let mut cells = vec![shortened(label), rate, iops];
        cells.extend(quantiles);
        cells.push(ns_text(latency_ns.max()));
        cells.extend((!is_part).then(|| cpu_text(figures)));
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

/// The spread of each row that was repeated: of its operations per second and of its percentiles, a run being one value, and the
/// percentiles of all requests together. None without repeats.
#[must_use]
pub fn repeats_rows(all: &[Repeats]) -> Option<Noted> {
    let columns = ["median", "its interval", "min", "max", "together"];
    let columns = columns.map(|title| (title, Align::Right));
    let mut table = Table::new([("", Align::Left)].into_iter().chain(columns), 2);
    for of in all {
        table.row([format!("{}, {} runs", shortened(&of.name), of.iops.count)]);
        let [median, min, max] = [of.iops.value, of.iops_min, of.iops_max].map(iops_text);
        let interval = interval_text(of.iops, iops_text);
        table.row(["  IOPS".to_owned(), median, interval, min, max]);
        for percentile in &of.latency {
            let name = QUANTILES.iter().find(|(_, q)| (q - percentile.quantile).abs() < 1e-9);
            let kind = if of.is_response { "response " } else { "" };
            let name = format!("  {kind}{}", name.map_or("", |(name, _)| *name));
            let (cells, remark) = percentile_cells(percentile);
            table.row_with_remark([name].into_iter().chain(cells), remark);
        }
    }
    (!all.is_empty()).then(|| Noted { table, notes: repeats_notes(all) })
}

/// What stands behind the name of a percentile, and what is remarked.
fn percentile_cells(of: &CellPercentile) -> ([String; 5], &'static str) {
    let ns = |value: f64| format_ns(value.round() as u64);
    let none = || "-".to_owned();
    let all = format_ns(of.merged_ns);
    match (of.across_runs_ns, of.range_ns, of.merged_interval_ns) {
        (Some(runs), Some((min, max)), _) => {
            ([ns(runs.value), interval_text(runs, ns), ns(min), ns(max), all], "")
        }
        (.., Some(drawn)) => {
            ([none(), interval_text(drawn, ns), none(), none(), all], "<- whole runs drawn")
        }
        _ => ([none(), none(), none(), none(), all], "<- too few in a run"),
    }
}

fn interval_text(of: Estimate, text: impl Fn(f64) -> String) -> String {
    of.interval.map_or_else(|| "-".to_owned(), |interval| interval.range(text))
}

fn repeats_notes(all: &[Repeats]) -> Vec<String> {
    let percentiles = || all.iter().flat_map(|of| &of.latency);
    let notes = [
        (
            true,
            "Median, min and max of the runs, each one value; together: of the requests of all runs.",
        ),
        (
            all.iter().any(|of| of.iops.interval.is_some()),
            "Intervals hold the median of such runs in at least 95 of 100 cases, by ranks.",
        ),
        (all.iter().any(|of| of.iops.interval.is_none()), "Fewer than six runs have no interval."),
        (
            percentiles().any(|of| of.bootstrap.is_some()),
            "Whole runs drawn: each run alone has too few requests for the percentile, so the interval is of all together \
             (95 %, bootstrap; of few runs it is somewhat too narrow).",
        ),
        (
            percentiles().any(|of| of.across_runs_ns.is_none() && of.bootstrap.is_none()),
            "Too few in a run: only all runs together have enough requests for the percentile, and ten runs would give an \
             interval.",
        ),
        (
            all.iter().any(|of| of.is_response),
            "Response times count from the intended start of each request.",
        ),
    ];
    let said = notes.into_iter().filter(|(is_said, _)| *is_said);
    said.map(|(_, text)| text.to_owned()).collect()
}

/// The operations per second of each row that was repeated, a sentence each.
#[must_use]
pub fn repeats_sentences(all: &[Repeats]) -> Vec<String> {
    let sentence = |of: &Repeats| {
        let spread = spread("runs", of.iops, [of.iops_min, of.iops_max]);
        format!("IOPS of {} {spread}", of.name)
    };
    all.iter().map(sentence).collect()
}

/// Rates per second of several runs, or whatever they are called: `over n = 8 runs: median 100 (99 %: 92 to 108), min 90, max 110`.
#[must_use]
pub fn spread(runs: &str, median: Estimate, ends: [f64; 2]) -> String {
    let known = match median.interval {
        Some(interval) => interval.sure_range(iops_text),
        None => format!("fewer than six {runs}, no interval"),
    };
    let (n, value, [min, max]) = (median.count, iops_text(median.value), ends.map(iops_text));
    format!("over n = {n} {runs}: median {value} ({known}), min {min}, max {max}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{commit, interrupted, quick, randomio, replication};
    use expect_test::expect;
    use fathom_study::repeats;

    fn text_of(records: &[Record]) -> String {
        run_table(records, &repeats::study(records), WIDTH)
    }

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

                                             median  its interval    min    max  together
            mixed (20 % writes), 48, 3 runs
              IOPS                              100             -     90    120
              p50                             38 ms             -  38 ms  38 ms     38 ms
              p99                             64 ms             -  64 ms  64 ms     64 ms
              p99.9                               -             -      -      -    190 ms   <- too few in a run
              Median, min and max of the runs, each one value; together: of the requests of all runs.
              Fewer than six runs have no interval.
              Too few in a run: only all runs together have enough requests for the percentile, and ten runs would give an
              interval.
        "#]].assert_eq(&text_of(&runs));
    }

    #[test]
    fn several_jobs_and_transactions() {
        let mut both = replication();
        both.jobs.extend(commit().jobs);
        both.label = "a very long label that somebody has given to a workload of two jobs".into();
        let text = text_of(&[both, replication()]);
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
        let text = text_of(&runs);
        assert!(text.contains("\noltp, direct, 2 runs\n"), "{text}");
        let said = "IOPS of oltp, direct over n = 2 runs: median 110 (fewer than six runs, no interval), min 100, max 120";
        assert_eq!(repeats_sentences(&repeats::study(&runs)), [said]);
    }

    /// Twelve runs of 60 s: of 780 requests each alone has no p99, all together have one; of 90 000 each has.
    #[test]
    fn repeats_have_intervals_and_percentiles_of_all_requests() {
        let runs = |iops: u64| (0..12).map(|at| randomio(iops + at % 3)).collect::<Vec<_>>();
        let text = |runs: &[Record]| {
            repeats_rows(&repeats::study(runs)).map_or_else(String::new, |rows| rows.render_to(80))
        };
        expect![[r#"
                                            median    its interval     min     max  together
            mixed (20 % writes), 48, 12
            runs
              IOPS                           1 501  1 500 to 1 502   1 500   1 502
              p50                            38 ms     38 to 38 ms   38 ms   38 ms     38 ms
              p99                            64 ms     64 to 64 ms   64 ms   64 ms     64 ms
              p99.9                         190 ms   190 to 190 ms  190 ms  190 ms    190 ms
              Median, min and max of the runs, each one value; together: of the requests of
              all runs.
              Intervals hold the median of such runs in at least 95 of 100 cases, by ranks.
        "#]]
        .assert_eq(&text(&runs(1500)));
        expect![[r#"
                                              median   its interval    min    max  together
            mixed (20 % writes), 48, 12 runs
              IOPS                                14       13 to 15     13     15
              p50                              38 ms    38 to 38 ms  38 ms  38 ms     38 ms
              p99                                  -  152 to 158 ms      -      -    152 ms
                <- whole runs drawn
              p99.9                                -  910 to 919 ms      -      -    910 ms
                <- whole runs drawn
              Median, min and max of the runs, each one value; together: of the requests of
              all runs.
              Intervals hold the median of such runs in at least 95 of 100 cases, by ranks.
              Whole runs drawn: each run alone has too few requests for the percentile, so
              the interval is of all together (95 %, bootstrap; of few runs it is somewhat
              too narrow).
        "#]]
        .assert_eq(&text(&runs(13)));
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
        let row = text_of(&[record]).lines().nth(1).map(str::to_owned).unwrap_or_default();
        assert!(row.contains(" 1.2 MB/s ") && row.contains(" 300 "), "{row}");
    }

    #[test]
    fn an_even_number_of_repeats_and_a_failed_one() {
        let mut failed = randomio(500);
        failed.ending = Ending::Failed;
        let text = text_of(&[randomio(100), failed, randomio(90)]);
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

                                             median  its interval    min    max  together
            mixed (20 % writes), 48, 2 runs
              IOPS                               95             -     90    100
              p50                             38 ms             -  38 ms  38 ms     38 ms
              p99                             64 ms             -  64 ms  64 ms     64 ms
              p99.9                               -             -      -      -    190 ms   <- too few in a run
              Median, min and max of the runs, each one value; together: of the requests of all runs.
              Fewer than six runs have no interval.
              Too few in a run: only all runs together have enough requests for the percentile, and ten runs would give an
              interval.
        "#]].assert_eq(&text);
    }
}
