//! What `fathom saturate` prints: the curve, the knee, what limited it, the load that keeps a bound.

use crate::answer::how_sure;
use crate::figures::{NOT_ENOUGH, iops_text, ns_text};
use crate::job::plural;
use crate::table::{Align, Noted, Table};
use crate::text::{format_share, push_wrapped_to};
use fathom_base::units::{format_count, format_ns, format_range, format_rate};
use fathom_stats::interval::{Estimate, Interval};
use fathom_study::saturate::limit::Cause;
use fathom_study::saturate::search::Knee;
use fathom_study::saturate::{OfBound, OpenRow, Row, Saturation};

/// The whole answer in so many columns.
#[must_use]
pub fn text(study: &Saturation, width: usize) -> String {
    let mut out = curve(study).render_to(width);
    out.push('\n');
    push_knee(&mut out, study, width);
    push_wrapped_to(&mut out, width, "Limit: ", &study.limit.text);
    push_members(&mut out, study, width);
    if let Some(bound) = &study.bound {
        out.push('\n');
        push_bound(&mut out, bound, width);
    }
    out
}

/// A row for each number of requests in flight.
#[must_use]
pub fn curve(study: &Saturation) -> Noted {
    let right = [
        "in flight",
        "runs",
        "IOPS",
        "95 %",
        "rate",
        "p50",
        "p99",
        "max",
        "held",
        "device",
        "CPU",
        "busy",
    ];
    let mut table = Table::new(right.map(|title| (title, Align::Right)), 2);
    for row in &study.rows {
        let mut marks = Vec::new();
        if study.knee.is_some_and(|knee| knee.concurrency == row.concurrency) {
            marks.push("throughput stops growing");
        }
        if study.highest == row.concurrency {
            marks.push("highest");
        }
        let remark =
            if marks.is_empty() { String::new() } else { format!("<- {}", marks.join(", ")) };
        table.row_with_remark(cells(row), &remark);
    }
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    note(
        "IOPS: median of the runs, beside it its interval where there are six runs or more. p50 to max: service time.",
    );
    note(
        "held: requests that fathom had in flight on average; device: those that the device counted; busy: devices at the \
         bottom that had requests in flight all the time.",
    );
    if study.rows.iter().any(|row| row.latency_ns_p99.is_none()) {
        note("n/a: too few requests in one of the runs (p99 needs 1 000).");
    }
    Noted { table, notes }
}

fn cells(row: &Row) -> [String; 12] {
    let number = |mean: Option<f64>| mean.map_or_else(|| "-".to_owned(), |n| format!("{n:.1}"));
    let (busy, members) = row.members_busy;
    [
        format_count(row.concurrency),
        row.iops.count.to_string(),
        iops_text(row.iops.value),
        row.iops.interval.map_or_else(String::new, interval_text),
        format_rate(row.bytes_per_s),
        percentile_text(row.latency_ns_p50),
        percentile_text(row.latency_ns_p99),
        ns_text(row.latency_ns_max),
        number(row.in_flight),
        number(row.in_flight_device),
        format!("{:.0} %", row.cpu_share * 100.0),
        if members == 0 { "-".to_owned() } else { format!("{busy} of {members}") },
    ]
}

fn percentile_text(ns: Option<u64>) -> String {
    ns.map_or_else(|| NOT_ENOUGH.to_owned(), format_ns)
}

fn interval_text(interval: Interval) -> String {
    interval.range(iops_text)
}

fn push_knee(out: &mut String, study: &Saturation, width: usize) {
    let Some(text) = knee_text(study) else { return };
    push_wrapped_to(out, width, "", &text);
    if let Some(knee) = &study.knee {
        push_wrapped_to(out, width, "  ", &certainty(knee));
    }
}

/// Where throughput stops growing, or that it does not; none without a run.
#[must_use]
pub fn knee_text(study: &Saturation) -> Option<String> {
    let of = |concurrency: u64| study.rows.iter().find(|row| row.concurrency == concurrency);
    let highest = of(study.highest)?;
    let most = highest.iops.value;
    let known = |iops: &Estimate| how_sure(iops, "run", iops_text);
    let Some(knee) = study.knee else {
        let text = format!(
            "Throughput still grows at {} in flight, the most that was tried: {} per second ({}). The highest is not known.",
            format_count(study.rows.last().map_or(0, |row| row.concurrency)),
            iops_text(most),
            known(&highest.iops)
        );
        return Some(text);
    };
    let own = of(knee.concurrency)?;
    let at = own.iops.value;
    let fathom = if study.limit.cause == Cause::Fathom { " (fathom's own)" } else { "" };
    let against = if knee.concurrency == study.highest {
        "the highest".to_owned()
    } else {
        let share = format_share((at / most.max(1e-9)).min(1.0));
        format!(
            "{share} of the highest ({} at {}; {})",
            iops_text(most),
            format_count(study.highest),
            known(&highest.iops)
        )
    };
    let mut text = format!(
        "Throughput{fathom} stops growing at {} in flight: {} per second ({}), {against}. More in flight bring less than 10 \
         %, and wait longer.",
        format_count(knee.concurrency),
        iops_text(at),
        known(&own.iops)
    );
    if let Some(last) = study.rows.last().filter(|row| row.iops.value * 1.1 < most) {
        text += &format!(
            " It falls beyond {}: {} at {} ({}).",
            format_count(study.highest),
            iops_text(last.iops.value),
            format_count(last.concurrency),
            known(&last.iops)
        );
    }
    Some(text)
}

/// How sure the knee is.
#[must_use]
pub fn certainty(knee: &Knee) -> String {
    if knee.blocks == 0 {
        return "Single runs say so: there was no time to repeat them. --time= allows more."
            .to_owned();
    }
    if let Some(concurrency) = knee.rests_on {
        return format!(
            "Not certain: it rests on {} in flight, which was measured fewer than three times. --time= allows more.",
            format_count(concurrency)
        );
    }
    let blocks = format!("{} blocks in random order", knee.blocks);
    let below = knee.above.map(|c| format!("lower at {}", format_count(c)));
    let reached = knee.reached_by.map(|c| format!("reached at {}", format_count(c)));
    let known: Vec<String> = below.into_iter().chain(reached).collect();
    match (knee.is_decided(), known.as_slice()) {
        (true, _) => format!("Certain at 95 %, by {blocks}: {}.", known.join(", ")),
        (false, []) => format!("Not certain: {blocks} do not decide it. --time= allows more."),
        (false, _) => {
            format!(
                "Only this is certain at 95 %, by {blocks}: {}. --time= allows more.",
                known.join(", ")
            )
        }
    }
}

fn push_members(out: &mut String, study: &Saturation, width: usize) {
    // One member is in the text of the limit.
    let [_, _, ..] = study.limit.members.as_slice() else { return };
    let one = |m: &fathom_study::saturate::limit::Member| {
        let in_flight = m.in_flight.map_or_else(String::new, |n| format!(" with {n:.1} in flight"));
        format!("{} {:.0} % busy{in_flight}", m.name, m.busy_share * 100.0)
    };
    let all: Vec<String> = study.limit.members.iter().map(one).collect();
    push_wrapped_to(out, width, "  at the highest: ", &all.join(", "));
}

fn push_bound(out: &mut String, bound: &OfBound, width: usize) {
    *out += &bound_rows(bound).render_to(width);
    out.push('\n');
    push_wrapped_to(out, width, "", &bound_text(bound));
}

/// A row for each rate that was tried under a bound.
#[must_use]
pub fn bound_rows(bound: &OfBound) -> Noted {
    let right = ["due/s", "runs", "kept", "p50", "p99", "max"];
    let mut table = Table::new(right.map(|title| (title, Align::Right)), 2);
    for row in &bound.rows {
        let is_answer = bound.answer.rate == Some(row.rate);
        let OpenRow { runs, kept, response_ns_p50, response_ns_p99, response_ns_max, .. } = row;
        let cells = [
            rate_text(row.rate),
            runs.to_string(),
            kept.to_string(),
            percentile_text(*response_ns_p50),
            percentile_text(*response_ns_p99),
            ns_text(*response_ns_max),
        ];
        let remark = if is_answer { "<- the highest that keeps the bound" } else { "" };
        table.row_with_remark(cells, remark);
    }
    let note = "Response times of an open loop: from the intended start, with what had not ended counted at its age.";
    Noted { table, notes: vec![note.to_owned()] }
}

/// Which load keeps the bound.
#[must_use]
pub fn bound_text(bound: &OfBound) -> String {
    let asked = format!("{} of at most {}", bound.what, format_ns(bound.most_ns));
    let row = |rate: f64| bound.rows.iter().find(|row| row.rate == rate);
    let Some(rate) = bound.answer.rate else {
        return match bound.answer.broken_at {
            Some(rate) if bound.answer.is_finished => none_keeps(bound, &asked, rate),
            Some(rate) => format!(
                "No rate down to {} per second keeps {asked}, and the time was too short to go lower: --time= \
                 allows more.{}",
                rate_text(rate),
                row(rate).map_or_else(String::new, late_text)
            ),
            None => format!("Whether any load keeps {asked} is not known: the time was too short."),
        };
    };
    let seen = row(rate).and_then(|row| row.figure_ns).map_or_else(String::new, |(low, high)| {
        format!(" ({} {})", bound.what, format_range(&format_ns(low), &format_ns(high)))
    });
    let runs = match row(rate).map_or((1, 1), |row| (row.kept, row.runs)) {
        (_, 1) => "in the one run at it".to_owned(),
        (kept, runs) if kept == runs => format!("in all {runs} runs at it"),
        (kept, runs) => format!("in {kept} of {runs} runs at it"),
    };
    let broken = bound.answer.broken_at.map(|rate| (rate, row(rate)));
    let above = match broken {
        Some((rate, row)) => {
            let runs = row.map_or_else(String::new, |row| {
                format!(" in {} of {}", row.runs - row.kept, plural(row.runs as u64, "run"))
            });
            format!("{} per second break it{runs}", rate_text(rate))
        }
        None => "that is the highest throughput itself, so the bound costs nothing".to_owned(),
    };
    let late = broken.and_then(|(_, row)| row).map_or_else(String::new, late_text);
    let sure = if bound.answer.is_verified {
        ""
    } else {
        " The time was too short to make sure: --time= allows more."
    };
    format!("{} per second keep {asked}, {runs}{seen}; {above}.{late}{sure}", rate_text(rate))
}

/// That fathom itself was late at a rate, and not only the storage; nothing where it was not.
fn late_text(row: &OpenRow) -> String {
    if row.late == 0 {
        return String::new();
    }
    format!(
        " At {} per second fathom itself was late, for lack of CPU, in {} of {}: the storage may do better.",
        rate_text(row.rate),
        row.late,
        plural(row.runs as u64, "run")
    )
}

/// That no rate kept the bound, down to `lowest`; one run there is no proof.
fn none_keeps(bound: &OfBound, asked: &str, lowest: f64) -> String {
    let lowest_text = rate_text(lowest);
    let row = bound.rows.iter().find(|row| row.rate == lowest);
    let late = row.map_or_else(String::new, late_text);
    match row {
        Some(row) if row.runs > 1 && row.kept == 0 => format!(
            "No load keeps {asked}: {lowest_text} per second already break it, in all {} runs at it.{late}",
            row.runs
        ),
        row => {
            let (runs, kept) = row.map_or((1, 0), |row| (row.runs, row.kept));
            format!(
                "No rate that was tried keeps {asked}; the lowest, {lowest_text} per second, broke it in {} of {}, which is \
                 no proof: run it again to make sure.{late}",
                runs - kept,
                plural(runs as u64, "run")
            )
        }
    }
}

/// Rates have three digits.
fn rate_text(rate: f64) -> String {
    if rate < 99.95 && rate.fract() != 0.0 {
        format!("{rate}")
    } else {
        format_count(rate.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::WIDTH;
    use expect_test::expect;
    use fathom_stats::interval::Estimate;
    use fathom_study::saturate::bound::Answer;
    use fathom_study::saturate::limit::{Limit, Member};

    fn row(concurrency: u64, iops: f64, runs: usize) -> Row {
        let interval =
            (runs > 5).then_some(Interval { low: iops * 0.98, high: iops * 1.01, coverage: 0.97 });
        let each_ns = (concurrency as f64 / iops * 1e9) as u64;
        Row {
            concurrency,
            iops: Estimate { value: iops, interval, count: runs },
            bytes_per_s: iops * 4096.0,
            latency_ns_p50: Some(each_ns),
            latency_ns_p99: (runs > 5).then_some(each_ns * 4),
            latency_ns_max: Some(each_ns * 20),
            in_flight: Some(concurrency as f64),
            in_flight_device: Some(concurrency as f64 * 0.97),
            cpu_share: 0.034,
            members_busy: (5, 6),
        }
    }

    fn study() -> Saturation {
        let member = |i: usize| Member {
            name: format!("sd{i}"),
            busy_share: if i == 3 { 0.9 } else { 0.998 },
            in_flight: Some(9.5),
            queue: Some(256),
        };
        Saturation {
            rows: vec![row(1, 89.0, 1), row(40, 640.0, 8), row(48, 705.0, 8), row(120, 775.0, 8)],
            knee: Some(Knee {
                concurrency: 48,
                above: Some(40),
                reached_by: Some(48),
                blocks: 7,
                rests_on: None,
            }),
            highest: 120,
            limit: Limit {
                cause: Cause::Device,
                text: "the devices: 5 of 6 members had requests in flight all the time".into(),
                members: (0..6).map(member).collect(),
            },
            bound: Some(OfBound {
                what: "max".into(),
                most_ns: 500_000_000,
                answer: Answer {
                    rate: Some(512.0),
                    runs: 4,
                    broken_at: Some(537.0),
                    is_finished: true,
                    is_verified: true,
                },
                rows: vec![open(512.0, 4, 4), open(537.0, 2, 0)],
            }),
        }
    }

    fn open(rate: f64, runs: usize, kept: usize) -> OpenRow {
        OpenRow {
            rate,
            runs,
            kept,
            response_ns_p50: Some(40_000_000),
            response_ns_p99: Some(200_000_000),
            response_ns_max: Some(480_000_000),
            figure_ns: Some((390_000_000, 480_000_000)),
            late: 0,
        }
    }

    #[test]
    fn the_whole_answer() {
        expect![[r#"
            in flight  runs  IOPS        95 %        rate     p50     p99     max   held  device  CPU    busy
                    1     1    89              364.5 kB/s   11 ms     n/a  225 ms    1.0     1.0  3 %  5 of 6
                   40     8   640  627 to 646    2.6 MB/s   62 ms  250 ms   1.2 s   40.0    38.8  3 %  5 of 6
                   48     8   705  691 to 712    2.9 MB/s   68 ms  272 ms   1.4 s   48.0    46.6  3 %  5 of 6
                <- throughput stops growing
                  120     8   775  760 to 783    3.2 MB/s  155 ms  619 ms   3.1 s  120.0   116.4  3 %  5 of 6   <- highest
              IOPS: median of the runs, beside it its interval where there are six runs or more. p50 to max: service time.
              held: requests that fathom had in flight on average; device: those that the device counted; busy: devices at
              the bottom that had requests in flight all the time.
              n/a: too few requests in one of the runs (p99 needs 1 000).

            Throughput stops growing at 48 in flight: 705 per second (97 %: 691 to 712, 8 runs), 91 % of the highest (775
            at 120; 97 %: 760 to 783, 8 runs). More in flight bring less than 10 %, and wait longer.
              Certain at 95 %, by 7 blocks in random order: lower at 40, reached at 48.
            Limit: the devices: 5 of 6 members had requests in flight all the time
              at the highest: sd0 100 % busy with 9.5 in flight, sd1 100 % busy with 9.5 in flight, sd2 100 % busy with
                              9.5 in flight, sd3 90 % busy with 9.5 in flight, sd4 100 % busy with 9.5 in flight, sd5
                              100 % busy with 9.5 in flight

            due/s  runs  kept    p50     p99     max
              512     4     4  40 ms  200 ms  480 ms   <- the highest that keeps the bound
              537     2     0  40 ms  200 ms  480 ms
              Response times of an open loop: from the intended start, with what had not ended counted at its age.

            512 per second keep max of at most 500 ms, in all 4 runs at it (max 390 to 480 ms); 537 per second break it in
            2 of 2 runs.
        "#]].assert_eq(&text(&study(), WIDTH));
    }

    #[test]
    fn what_is_not_known_is_said() {
        let mut study = study();
        (study.knee, study.bound) = (None, None);
        assert!(
            text(&study, WIDTH).contains("still grows at 120 in flight, the most that was tried")
        );
        let knee = |above, reached_by, blocks| Knee {
            concurrency: 8,
            above,
            reached_by,
            blocks,
            rests_on: None,
        };
        let rests = Knee { rests_on: Some(16), ..knee(Some(7), None, 8) };
        for (knee, words) in [
            (knee(None, None, 0), "Single runs say so"),
            (rests, "Not certain: it rests on 16 in flight"),
            (knee(None, None, 3), "Not certain: 3 blocks in random order do not decide it"),
            (
                knee(Some(7), None, 8),
                "Only this is certain at 95 %, by 8 blocks in random order: lower at 7.",
            ),
            (
                knee(Some(7), Some(8), 8),
                "Certain at 95 %, by 8 blocks in random order: lower at 7, reached at 8.",
            ),
        ] {
            assert!(certainty(&knee).contains(words), "{}", certainty(&knee));
        }
        let mut bound = super::tests::study().bound.expect("given");
        bound.answer = Answer {
            rate: None,
            runs: 0,
            broken_at: Some(1.5),
            is_finished: true,
            is_verified: false,
        };
        bound.rows = vec![open(1.5, 1, 0)];
        assert!(bound_text(&bound).contains("the lowest, 1.5 per second, broke it in 1 of 1 run,"));
        bound.rows = vec![open(1.5, 2, 0)];
        assert_eq!(
            bound_text(&bound),
            "No load keeps max of at most 500 ms: 1.5 per second already break it, in all 2 runs at it."
        );
        bound.rows[0].late = 2;
        assert!(bound_text(&bound).ends_with(
            " At 1.5 per second fathom itself was late, for lack of CPU, in 2 of 2 runs: the storage may do better."
        ));
        bound.answer = Answer {
            rate: Some(99.0),
            runs: 1,
            broken_at: None,
            is_finished: false,
            is_verified: false,
        };
        assert!(
            bound_text(&bound)
                .contains("in the one run at it; that is the highest throughput itself")
        );
        assert!(bound_text(&bound).ends_with("--time= allows more."));
    }

    #[test]
    fn throughput_that_falls_past_the_peak_is_said() {
        let mut study = study();
        study.rows.push(row(480, 300.0, 1));
        let said = text(&study, WIDTH).replace('\n', " ");
        assert!(said.contains("It falls beyond 120: 300 at 480 ("), "{said}");
    }
}
