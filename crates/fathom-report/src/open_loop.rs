//! How an open loop went: response times beside the service times, what waited, how late fathom itself was.

use crate::figures::{NotEnough, ns_text, quantile_text};
use crate::job::{QUANTILES, latency_row, latency_table};
use crate::series;
use crate::text::push_wrapped_to;
use fathom_base::units;
use fathom_model::record::{JobRecord, OpenLoopRecord};

/// The response times of each class, with the same columns as the service times.
pub(crate) fn push_responses(out: &mut String, open: &OpenLoopRecord, width: usize) {
    let mut table = latency_table("response time");
    let mut not_enough = NotEnough::default();
    for class in &open.classes {
        let latency_ns = class.at_least_ns();
        not_enough.look_at(&latency_ns, &QUANTILES);
        table.row(latency_row(class.class.word(), &latency_ns));
    }
    if table.is_empty() {
        return;
    }
    out.push_str(&table.render_to(2, width));
    if let Some(text) = not_enough.note() {
        push_wrapped_to(out, width, "    ", &text);
    }
}

/// The lines about an open loop, as (name, text).
pub(crate) fn lines(job: &JobRecord, open: &OpenLoopRecord) -> Vec<(&'static str, String)> {
    let mut lines = vec![("open loop", due(open)), ("backlog", backlog(job, open))];
    let delays = &open.start_delay_ns;
    if !delays.is_empty() {
        let text = format!(
            "by fathom p50 {}, p99 {}, max {} after they were due and a place was free",
            quantile_text(delays, 0.5),
            quantile_text(delays, 0.99),
            ns_text(delays.max())
        );
        lines.push(("started", text));
    }
    lines
}

fn due(open: &OpenLoopRecord) -> String {
    let sum = |f: fn(&fathom_model::record::ResponseClass) -> u64| -> u64 {
        open.classes.iter().map(f).sum()
    };
    let ended = sum(|class| class.response_ns.count());
    let unfinished = sum(|class| class.unfinished_ns.count());
    let mut text = format!("{} due", units::format_count(open.due));
    if open.backlog_start > 0 {
        // Of the warm-up.
        let waiting = units::format_count(open.backlog_start);
        text += &format!(" beside {waiting} that waited when the window began");
    }
    text += &format!(", {} ended", units::format_count(ended));
    if unfinished > 0 {
        text += &format!(
            "; {} had not at the end ({} not even started): they count with the age that they had, so their response \
             times are lower bounds",
            units::format_count(unfinished),
            units::format_count(open.not_started)
        );
    }
    text
}

fn backlog(job: &JobRecord, open: &OpenLoopRecord) -> String {
    let of_interval = |kept: &[_]| {
        let max = |i: &fathom_model::record::IntervalRecord| {
            i.open_loop.as_ref().map_or(0, |open| open.backlog_max)
        };
        kept.iter().map(max).max().unwrap_or(0) as f64
    };
    let drawn = series::drawn(job, of_interval)
        .map_or_else(String::new, |(line, scale)| format!("|{line}| {scale} per character; "));
    let most = job.series.iter().filter_map(|i| i.open_loop.as_ref()).map(|o| o.backlog_max).max();
    // The threads of an overloaded generator look at it now and then; the end is counted for itself.
    let most = most.unwrap_or(0).max(open.not_started);
    let oldest = open
        .oldest_not_started_ns
        .map_or_else(String::new, |ns| format!(", the oldest due for {}", units::format_ns(ns)));
    format!(
        "{drawn}at most {} due and not started, {} at the end{oldest}",
        units::format_count(most),
        units::format_count(open.not_started)
    )
}

#[cfg(test)]
mod tests {
    use crate::detail::run_detail;
    use crate::sample::{class, record, series};
    use expect_test::expect;
    use fathom_model::record::{
        IntervalResponse, OpClass, OpenInterval, OpenLoopRecord, Record, ResponseClass,
    };
    use fathom_model::workload::Arrivals;
    use fathom_stats::SparseHistogram;
    use jiff::tz::TimeZone;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Figures as of a storage that falls behind: each request takes as long as before, while what is due waits longer
    /// and longer.
    fn overloaded() -> Record {
        let reads = class(OpClass::Read, 5650, 8_000_000, 4096);
        let mut record = record("randread", "random read at 100/s", vec![reads]);
        let asked = &mut record.workload.jobs[0];
        (asked.rate, asked.arrivals, asked.depth) = (Some(100.0), Arrivals::Poisson, 4);
        let job = &mut record.jobs[0];
        job.engine.depth = 4;
        job.series = series(&[1000, 1000, 1000, 900, 900, 850], 10 * SECOND_NS);
        for (interval, backlog) in job.series.iter_mut().zip([2_u64, 3, 2, 100, 200, 350]) {
            let response_ns =
                SparseHistogram::from(&class(OpClass::Read, 10, 9_000_000, 0).latency_ns);
            let classes = vec![IntervalResponse { class: OpClass::Read, response_ns }];
            let (backlog_max, backlog_end) = (backlog, backlog.saturating_sub(2));
            interval.open_loop = Some(OpenInterval { backlog_max, backlog_end, classes });
        }
        job.open_loop = Some(OpenLoopRecord {
            due: 6000,
            backlog_start: 0,
            not_started: 348,
            oldest_not_started_ns: Some(3_480_000_000),
            start_delay_ns: class(OpClass::Read, 5650, 20_000, 0).latency_ns,
            classes: vec![ResponseClass {
                class: OpClass::Read,
                response_ns: class(OpClass::Read, 5650, 900_000_000, 0).latency_ns,
                unfinished_ns: class(OpClass::Read, 350, 1_700_000_000, 0).latency_ns,
            }],
        });
        record
    }

    #[test]
    fn response_and_service_times_stand_side_by_side_with_the_backlog() {
        let text = run_detail(&overloaded(), &TimeZone::UTC, crate::text::WIDTH);
        let of_job: String = text
            .lines()
            .skip_while(|line| !line.starts_with("job "))
            .take_while(|line| !line.starts_with("CPU "))
            .flat_map(|line| [line, "\n"])
            .collect();
        expect![[r#"
            job read  io_uring (single_issuer, defer_taskrun, fixed_buffers), 1 thread x depth 4, batch 1; about 0.8 of 4
                      in flight on average
              asked for    random, 4 KiB, reads, O_DIRECT, 100/s poisson, whatever has ended
                     count   per second      bytes         rate
              read   5 650           94   22.1 MiB   385.7 kB/s
              service time     min    mean  stddev     p50    p90    p95    p99  p99.9  p99.99     max
              read          4.0 ms  8.3 ms  3.9 ms  8.0 ms  11 ms  12 ms  28 ms    n/a     n/a  165 ms
                n/a: too few operations (ten must lie beyond a percentile: p99.9 needs 10 000, p99.99 needs 100 000).
              response time     min    mean  stddev     p50    p90    p95    p99  p99.9  p99.99   max
              read           450 ms  985 ms  679 ms  927 ms  1.3 s  1.4 s  3.2 s    n/a     n/a  36 s
                n/a: too few operations (ten must lie beyond a percentile: p99.9 needs 10 000, p99.99 needs 100 000).
              open loop    6 000 due, 5 650 ended; 350 had not at the end (348 not even started): they count with the age
                           that they had, so their response times are lower bounds
              backlog      |___:=#| 10 s per character; at most 350 due and not started, 348 at the end, the oldest due
                           for 3.5 s
              started      by fathom p50 20 us, p99 71 us, max 414 us after they were due and a place was free
              CPU          threads 0 % of one core; per I/O 0 ns user + 0 ns system
              IOPS         |###***| 10 s per character; min 85, max 100
        "#]].assert_eq(&of_job);
    }

    #[test]
    fn the_end_of_the_window_and_what_came_before_it_count() {
        let mut record = overloaded();
        if let Some(open) = &mut record.jobs[0].open_loop {
            (open.backlog_start, open.not_started) = (741, 20_000);
        }
        let text = run_detail(&record, &TimeZone::UTC, 500);
        let due =
            "6 000 due beside 741 that waited when the window began, 5 650 ended; 350 had not";
        assert!(text.contains(due), "{text}");
        let most = "at most 20 000 due and not started, 20 000 at the end";
        assert!(text.contains(most), "{text}");
    }
}
