//! The layers of a stack as text, from the disks upward.

use crate::findings::findings_text;
use crate::raid::{EVENTS, events, with_interval};
use crate::ratio::not_told_note;
use crate::table::{Align, Table};
use crate::text::{format_share, push_wrapped_to};
use fathom_base::units::{format_count, format_ns, format_rate};
use fathom_study::layers::{LayersStudy, OfWorkload, Row};

/// All layers, in lines of `width` columns.
#[must_use]
pub fn text(study: &LayersStudy, width: usize) -> String {
    let mut out = String::new();
    for of in &study.workloads {
        out += &table(of).render_to(0, width);
        out.push('\n');
    }
    let shares = study.workloads.iter().flat_map(|of| &of.rows).filter_map(|row| row.efficiency);
    let not_told = not_told_note(shares).map(|note| format!(" {note}")).unwrap_or_default();
    push_wrapped_to(&mut out, width, "", &format!("{LEGEND}{not_told} {EVENTS}"));
    out.push('\n');
    out + &findings_text(&study.findings, study.verdict, width)
}

/// How the table of layers is read.
pub const LEGEND: &str = "Medians over trials, from the disks upward. of below: share of what the layer below does in the same block, the mean over blocks with its 95 % interval (Student's t of the logarithms; one trial has none); of all disks at once, of their sum one after the other. A disk alone has the workload's requests in flight, what stands on several disks as many for each of them. disk reads: counted by the disks, for one read of the layer.";

fn table(of: &OfWorkload) -> Table {
    let columns = [
        (of.workload.as_str(), Align::Left),
        ("rate", Align::Right),
        ("of below", Align::Right),
        ("IOPS", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("CPU per I/O", Align::Right),
        ("disk reads", Align::Right),
        ("spread", Align::Right),
        ("trials", Align::Right),
        ("interrupts", Align::Right),
        ("switches", Align::Right),
    ];
    let mut table = Table::new(columns, 2);
    for row in &of.rows {
        table.row(cells(row));
    }
    table
}

/// Its share of what the layer below does, with its interval.
#[must_use]
pub fn of_below(row: &Row) -> String {
    row.efficiency.map_or_else(String::new, |share| with_interval(&share, format_share))
}

fn cells(row: &Row) -> Vec<String> {
    let time = |ns: Option<f64>| ns.map_or_else(|| "n/a".to_owned(), |ns| format_ns(ns as u64));
    vec![
        row.layer.name(),
        format_rate(row.bytes_per_s.value),
        of_below(row),
        format_count(row.iops.round() as u64),
        time(row.latency_ns_p50),
        time(row.latency_ns_p99),
        row.cpu_ns_per_io.map_or_else(String::new, |ns| format_ns(ns as u64)),
        row.disk_reads.map_or_else(String::new, |reads| format!("{reads:.2}")),
        row.spread.map_or_else(String::new, format_share),
        row.bytes_per_s.count.to_string(),
        events(row.events_per_io, |e| e.interrupts),
        events(row.events_per_io, |e| e.context_switches),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use expect_test::expect;
    use fathom_model::record::{ClassRecord, OpClass, Record};
    use fathom_stats::Histogram;
    use fathom_study::layers::study;

    #[test]
    fn two_disks_and_what_stands_on_them() {
        let record = |label: &str, count: u64| -> Record {
            let mut latency_ns = Histogram::new();
            latency_ns.record_n(5_000_000, count);
            let class = ClassRecord { class: OpClass::Read, latency_ns, bytes: count * 4096 };
            let mut record = sample::record("randread", "read", vec![class]);
            record.label = label.to_owned();
            record
        };
        let records = [
            record("sda alone: randread #1", 60_000),
            record("sdb alone: randread #1", 61_000),
            record("all 2 at once: randread #1", 118_000),
            record("md0: randread #1", 110_000),
            record("/srv: randread #1", 60_000),
        ];
        let mut found = study(&records);
        found.findings.retain(|finding| finding.id == "costly-layer");
        found.verdict = fathom_model::finding::Verdict::of(&found.findings);
        expect![[r#"
            randread           rate  of below   IOPS     p50     p99  CPU per I/O  trials  interrupts  switches
            sda alone      4.1 MB/s            1 000  5.0 ms  5.0 ms        20 us       1        2.00      4.00
            sdb alone      4.2 MB/s            1 017  5.0 ms  5.0 ms        20 us       1        1.97      3.93
            all 2 at once  8.1 MB/s      98 %  1 967  5.0 ms  5.0 ms        10 us       1        1.02      2.03
            md0            7.5 MB/s      93 %  1 833  5.0 ms  5.0 ms        11 us       1        1.09      2.18
            /srv           4.1 MB/s      55 %  1 000  5.0 ms  5.0 ms        20 us       1        2.00      4.00

            Medians over trials, from the disks upward. of below: share of what the layer below does in the same
            block, the mean over blocks with its 95 % interval (Student's t of the logarithms; one trial has
            none); of all disks at once, of their sum one after the other. A disk alone has the workload's
            requests in flight, what stands on several disks as many for each of them. disk reads: counted by
            the disks, for one read of the layer. interrupts, switches (from thread to thread): of the whole
            machine for one request; what others cause is in them.

            TRUSTED
              note  /srv, randread: 55 % (one trial, no interval) of what the layer below it does
        "#]].assert_eq(&text(&found, 100));
    }
}
