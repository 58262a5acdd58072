//! The matrix of arrays as text: what each does, as multiples of one member too, how long a rebuild takes and what the array
//! does meanwhile.

use crate::findings::findings_text;
use crate::ratio::{self, NOT_TOLD, not_told_note};
use crate::table::{Align, Table};
use crate::text::{format_share, push_wrapped_to};
use fathom_base::units::{format_count, format_duration, format_ns, format_rate};
use fathom_stats::interval::{Estimate, Interval};
use fathom_study::raid::{Counted, EventsPerIo, Figure, InState, Pattern, RaidStudy, Row, State};

/// Bytes of a MiB.
pub const MIB: f64 = (1 << 20) as f64;

/// The whole matrix, in lines of `width` columns.
#[must_use]
pub fn text(study: &RaidStudy, width: usize) -> String {
    let mut out = components(study, width);
    for (title, patterns) in [
        ("Sequential", [Pattern::SequentialWrite, Pattern::SequentialRead]),
        ("Random", [Pattern::RandomRead, Pattern::RandomMix]),
    ] {
        let shown = Shown { study, patterns };
        out += &shown.table(&format!("{title}, MiB/s"), &|f| Some(in_mib(f)), width);
        if study.component_bytes_per_s.iter().any(Option::is_some) {
            out += &shown.table(&format!("{title}, multiples of one member"), &multiple, width);
        }
    }
    let legend = "n/a: the level cannot be in that state; -: not measured.";
    push_wrapped_to(&mut out, width, "", &format!("{} {legend}", trials_note(study)));
    out += &latencies(study, width);
    out += &rebuilds(study, width);
    out += &counted(study, width);
    out += &void(study, width);
    out.push('\n');
    out + &findings_text(&study.findings, study.verdict, width)
}

/// A value with its interval in brackets, if it has one.
#[must_use]
pub fn with_interval(of: &Estimate, text: impl Fn(f64) -> String) -> String {
    let range = |i: Interval| if i.says_nothing() { NOT_TOLD.to_owned() } else { i.range(&text) };
    let interval = of.interval.map(|interval| format!(" ({})", range(interval)));
    text(of.value) + &interval.unwrap_or_default()
}

/// The rate in MiB/s.
#[must_use]
pub fn in_mib(figure: &Figure) -> String {
    with_interval(&figure.bytes_per_s.map(|rate| rate / MIB), |rate| format!("{rate:.1}"))
}

/// The rate in multiples of one member's; none where no member was measured.
#[must_use]
pub fn multiple(figure: &Figure) -> Option<String> {
    Some(with_interval(figure.of_one_member.as_ref()?, ratio::times))
}

/// What the figures of the matrix are, and which intervals there are.
#[must_use]
pub fn trials_note(study: &RaidStudy) -> String {
    let states = study.rows.iter().flat_map(|row| &row.states);
    let figures: Vec<&Figure> = states.flat_map(|of| of.figures.iter().flatten()).collect();
    let of_rates = figures.iter().any(|figure| figure.bytes_per_s.interval.is_some());
    let is_repeated = figures.iter().any(|figure| figure.bytes_per_s.count > 1);
    let rates = match (of_rates, is_repeated) {
        (true, _) => {
            "Rates are medians over trials, in brackets their 95 % interval by ranks, from six trials on."
        }
        (false, true) => {
            "Rates are medians over trials, without intervals: fewer than six trials give none of 95 %."
        }
        (false, false) => {
            "One trial each: nothing has an interval, as nobody knows what a second one would have shown."
        }
    };
    let multiples = "Multiples and shares are means over blocks, in brackets their 95 % interval (Student's t of the logarithms).";
    let ratios = figures.iter().flat_map(|figure| [figure.of_one_member, figure.of_whole]);
    let not_told = not_told_note(ratios.flatten()).map(|note| format!(" {note}"));
    let not_told = not_told.unwrap_or_default();
    if is_repeated { format!("{rates} {multiples}{not_told}") } else { rates.to_owned() }
}

fn heading(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::SequentialWrite => "write",
        Pattern::SequentialRead => "read",
        Pattern::RandomRead => "read",
        Pattern::RandomMix => "mix",
    }
}

/// The place of a pattern in a study's figures.
#[must_use]
pub fn place(pattern: Pattern) -> usize {
    Pattern::ALL.iter().position(|known| *known == pattern).unwrap_or(0)
}

fn components(study: &RaidStudy, width: usize) -> String {
    let columns = ["sequential write", "sequential read", "random read", "random mix"];
    let mut table = Table::new(
        [("one member alone", Align::Left)].into_iter().chain(columns.map(|c| (c, Align::Right))),
        2,
    );
    for component in &study.components {
        let figures = component.figures.iter().map(|figure| {
            figure.as_ref().map_or_else(|| "-".to_owned(), |f| mib_per_s(f.bytes_per_s.value))
        });
        table.row(std::iter::once(component.name.clone()).chain(figures));
    }
    if study.components.len() > 1 {
        let medians = study.component_bytes_per_s.iter();
        let medians = medians.map(|rate| rate.map_or_else(|| "-".to_owned(), mib_per_s));
        table.row(std::iter::once("median".to_owned()).chain(medians));
    }
    if table.is_empty() { String::new() } else { table.render_to(0, width) + "\n" }
}

/// A rate in MiB/s, as people compare arrays in it.
#[must_use]
pub fn mib_per_s(bytes_per_s: f64) -> String {
    format!("{:.1} MiB/s", bytes_per_s / MIB)
}

/// Two patterns in all states.
struct Shown<'a> {
    study: &'a RaidStudy,
    patterns: [Pattern; 2],
}

impl Shown<'_> {
    fn states(&self) -> Vec<State> {
        let is_there =
            |state: &State| self.study.rows.iter().any(|row| row.in_state(*state).is_some());
        State::ALL.into_iter().filter(is_there).collect()
    }

    fn table(&self, title: &str, cell: &dyn Fn(&Figure) -> Option<String>, width: usize) -> String {
        let states = self.states();
        let headings: Vec<String> = states
            .iter()
            .flat_map(|state| {
                self.patterns.map(|pattern| match state {
                    State::Normal => heading(pattern).to_owned(),
                    state => format!("{} {}", state.word(), heading(pattern)),
                })
            })
            .collect();
        let columns = std::iter::once((title, Align::Left))
            .chain(headings.iter().map(|heading| (heading.as_str(), Align::Right)));
        let mut table = Table::new(columns, 2);
        for row in &self.study.rows {
            let cells = states.iter().flat_map(|state| {
                self.patterns.map(|pattern| self.cell(row, *state, pattern, cell))
            });
            table.row(std::iter::once(row.name()).chain(cells));
        }
        if table.is_empty() { String::new() } else { table.render_to(0, width) + "\n" }
    }

    fn cell(
        &self,
        row: &Row,
        state: State,
        pattern: Pattern,
        cell: &dyn Fn(&Figure) -> Option<String>,
    ) -> String {
        let of = row.in_state(state);
        let figure = of.and_then(|of| of.figures[place(pattern)].as_ref());
        match figure {
            Some(figure) => cell(figure).unwrap_or_else(|| "-".to_owned()),
            None if state != State::Normal && !row.is_redundant => "n/a".to_owned(),
            None => "-".to_owned(),
        }
    }
}

/// How the table of rebuilds is read.
pub const REBUILDING: &str = "rebuilt at: bytes written to the new member beyond the load's own; times are for that speed all the way; load kept: its rate against the whole array's.";
/// How the table of what members counted is read.
pub const COUNTED: &str = "counted by the members, in brackets what the array's address map and md's rules of writing ask for; bytes by bytes of the load.";
/// What the columns of interrupts and switches count.
pub const EVENTS: &str = "interrupts, switches (from thread to thread): of the whole machine for one request; what others cause is in them.";

/// A rate alone says too little: the latency beside it, and what a request costs in CPU time.
fn latencies(study: &RaidStudy, width: usize) -> String {
    let columns = [
        ("Random read", Align::Left),
        ("state", Align::Left),
        ("IOPS", Align::Right),
        ("p99", Align::Right),
        ("spread", Align::Right),
        ("CPU per I/O", Align::Right),
        ("interrupts", Align::Right),
        ("switches", Align::Right),
    ];
    let mut table = Table::new(columns, 2);
    for row in &study.rows {
        for of in &row.states {
            let Some(figure) = &of.figures[place(Pattern::RandomRead)] else { continue };
            table.row([
                row.name(),
                of.state.word().to_owned(),
                format_count(figure.iops.round() as u64),
                figure.latency_ns_p99.map_or_else(|| "n/a".to_owned(), |ns| format_ns(ns as u64)),
                figure.spread.map_or_else(String::new, format_share),
                figure.cpu_ns_per_io.map_or_else(String::new, |ns| format_ns(ns as u64)),
                events(figure.events_per_io, |e| e.interrupts),
                events(figure.events_per_io, |e| e.context_switches),
            ]);
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}", table.render_to(0, width));
    push_wrapped_to(&mut out, width, "", EVENTS);
    out
}

/// A number of interrupts or switches for one request; nothing where they were not counted.
#[must_use]
pub fn events(of: Option<EventsPerIo>, which: impl Fn(EventsPerIo) -> f64) -> String {
    of.map_or_else(String::new, |of| format!("{:.2}", which(of)))
}

/// How fast a member is rebuilt under each load, and what share of its rate the load keeps.
fn rebuilds(study: &RaidStudy, width: usize) -> String {
    let columns = [
        ("Rebuilding", Align::Left),
        ("load", Align::Left),
        ("rebuilt at", Align::Right),
        ("this member", Align::Right),
        ("1 TB", Align::Right),
        ("load kept", Align::Right),
    ];
    let mut table = Table::new(columns, 2);
    for row in &study.rows {
        let Some(of) = row.in_state(State::Rebuilding) else { continue };
        for pattern in Pattern::ALL {
            let Some(rebuild) = &of.rebuilds[place(pattern)] else { continue };
            table.row([
                row.name(),
                pattern.label().to_owned(),
                format_rate(rebuild.bytes_per_s),
                rebuild.member_ns.map_or_else(|| "-".to_owned(), format_duration),
                format_duration(rebuild.terabyte_ns),
                kept(of, pattern),
            ]);
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}", table.render_to(0, width));
    push_wrapped_to(&mut out, width, "", REBUILDING);
    out
}

/// Which share of its rate on the whole array a load keeps.
#[must_use]
pub fn kept(of: &InState, pattern: Pattern) -> String {
    let share = of.figures[place(pattern)].as_ref().and_then(|figure| figure.of_whole.as_ref());
    share.map_or_else(|| "-".to_owned(), |share| with_interval(share, format_share))
}

/// What members did for one request, and what they must.
fn counted(study: &RaidStudy, width: usize) -> String {
    let columns = [
        ("Members, for one request", Align::Left),
        ("state", Align::Left),
        ("load", Align::Left),
        ("reads", Align::Right),
        ("writes", Align::Right),
        ("bytes read", Align::Right),
        ("bytes written", Align::Right),
    ];
    let mut table = Table::new(columns, 2);
    for row in &study.rows {
        for of in &row.states {
            for pattern in [Pattern::RandomRead, Pattern::RandomMix, Pattern::SequentialWrite] {
                let Some(counted) = &of.counted[place(pattern)] else { continue };
                table.row(counted_row(row, of.state, pattern, counted));
            }
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}", table.render_to(0, width));
    push_wrapped_to(&mut out, width, "", COUNTED);
    out
}

/// What members counted for one request of a load, in brackets what is expected.
#[must_use]
pub fn counted_row(row: &Row, state: State, pattern: Pattern, counted: &Counted) -> Vec<String> {
    let with = |got: f64, expected: Option<f64>| match expected {
        Some(expected) => format!("{got:.2} ({expected:.2})"),
        None => format!("{got:.2}"),
    };
    vec![
        row.name(),
        state.word().to_owned(),
        pattern.label().to_owned(),
        with(counted.reads, counted.reads_expected),
        format!("{:.2}", counted.writes),
        with(counted.read_bytes, counted.read_bytes_expected),
        with(counted.written_bytes, counted.written_bytes_expected),
    ]
}

fn void(study: &RaidStudy, width: usize) -> String {
    const SHOWN_MAX: usize = 12;
    let mut out = String::new();
    for void in study.void.iter().take(SHOWN_MAX) {
        let text = format!("void: {}, {}: {}", void.cell, void.workload, void.cause);
        push_wrapped_to(&mut out, width, "  ", &text);
    }
    if study.void.len() > SHOWN_MAX {
        out += &format!("  and {} more void trials\n", study.void.len() - SHOWN_MAX);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use expect_test::expect;
    use fathom_model::record::{ClassRecord, DeviceDelta, OpClass, Record};
    use fathom_model::stack::{MdFacts, MdMember, Node, NodeKind, Stack};
    use fathom_stats::Histogram;
    use fathom_study::raid::study;
    use serde_json::json;

    fn record(levels: &[(&str, &str)], pattern: Pattern, count: u64, size: u64) -> Record {
        let mut latency_ns = Histogram::new();
        latency_ns.record_n(60_000_000_000 / count, count);
        let class = ClassRecord { class: OpClass::Read, latency_ns, bytes: count * size };
        let mut record = sample::record("randread", "read", vec![class]);
        record.findings.clear();
        let cell = json!({
            "slot": {"block": 0, "place": 0, "cell": 0, "is_sentinel": false},
            "levels": levels, "workload": pattern.label(), "knobs": [], "setup": [], "prepare_ns": 0,
        });
        record.cell = Some(Box::new(serde_json::from_value(cell).expect("a cell")));
        record
    }

    /// A raid1 of two members of a GiB each.
    fn mirror(state: State, written: u64) -> Record {
        let levels = [("level", "raid1"), ("state", state.word())];
        let mut record = record(&levels, Pattern::RandomRead, 60_000, 4096);
        let mut node = Node::new(NodeKind::Md, "md9");
        node.size_bytes = Some(1 << 30);
        node.md = Some(MdFacts {
            level: Some("raid1".into()),
            raid_disks: Some(2),
            members: ["sda", "sdb"]
                .map(|name| MdMember { name: name.into(), ..MdMember::default() })
                .into(),
            ..MdFacts::default()
        });
        record.targets[0].stack = Stack {
            path: "/dev/md9".into(),
            resolved_path: "/dev/md9".into(),
            nodes: vec![node],
            top: 0,
        };
        let delta = |name: &str, written_bytes: u64| DeviceDelta {
            name: name.into(),
            reads: 30_000,
            read_bytes: 30_000 * 4096,
            writes: written_bytes / 4096,
            written_bytes,
            flushes: None,
            busy_ns: 0,
            in_flight_ns: None,
            kernel_thread_cpu_ns: None,
        };
        record.devices = vec![delta("sda", 0), delta("sdb", written)];
        record
    }

    #[test]
    fn a_small_matrix() {
        let member = |name, count| record(&[("member", name)], Pattern::RandomRead, count, 4096);
        let raid0 = [("level", "raid0"), ("layout", "n2"), ("chunk", "64k"), ("state", "normal")];
        let records = [
            member("sda", 30_000),
            member("sdb", 31_000),
            record(&raid0, Pattern::RandomRead, 58_000, 4096),
            record(&raid0, Pattern::SequentialRead, 6_000, 1 << 20),
            mirror(State::Normal, 0),
            mirror(State::Degraded, 0),
            mirror(State::Rebuilding, 3 << 30),
        ];
        let mut found = study(&records);
        found.findings.retain(|finding| !finding.summary.contains(" trials: "));
        found.verdict = fathom_model::finding::Verdict::of(&found.findings);
        let text = text(&found, 110);
        expect![[r#"
            one member alone  sequential write  sequential read  random read  random mix
            sda                              -                -    2.0 MiB/s           -
            sdb                              -                -    2.0 MiB/s           -
            median                           -                -    2.0 MiB/s           -

            Sequential, MiB/s  write   read  degraded write  degraded read  rebuilding write  rebuilding read
            raid0 64k              -  100.0             n/a            n/a               n/a              n/a
            raid1                  -      -               -              -                 -                -

            Sequential, multiples of one     write  read  degraded write  degraded read  rebuilding write  rebuilding read
            member
            raid0 64k                            -     -             n/a            n/a               n/a              n/a
            raid1                                -     -               -              -                 -                -

            Random, MiB/s  read  mix  degraded read  degraded mix  rebuilding read  rebuilding mix
            raid0 64k       3.8    -            n/a           n/a              n/a             n/a
            raid1           3.9    -            3.9             -              3.9               -

            Random, multiples of one member  read  mix  degraded read  degraded mix  rebuilding read  rebuilding mix
            raid0 64k                        1.90    -            n/a           n/a              n/a             n/a
            raid1                            1.97    -           1.97             -             1.97               -

            One trial each: nothing has an interval, as nobody knows what a second one would have shown. n/a: the level
            cannot be in that state; -: not measured.

            Random read  state        IOPS     p99  CPU per I/O  interrupts  switches
            raid0 64k    normal        967  1.0 ms        21 us        2.07      4.14
            raid1        normal      1 000  1.0 ms        20 us        2.00      4.00
            raid1        degraded    1 000  1.0 ms        20 us        2.00      4.00
            raid1        rebuilding  1 000  1.0 ms        20 us        2.00      4.00
            interrupts, switches (from thread to thread): of the whole machine for one request; what others cause is in
            them.

            Rebuilding  load      rebuilt at  this member        1 TB  load kept
            raid1       randread   53.7 MB/s         20 s  5 h 10 min      100 %
            rebuilt at: bytes written to the new member beyond the load's own; times are for that speed all the way; load
            kept: its rate against the whole array's.

            Members, for one request  state       load            reads  writes   bytes read  bytes written
            raid1                     normal      randread  1.00 (1.00)    0.00  1.00 (1.00)    0.00 (0.00)
            raid1                     degraded    randread  1.00 (1.00)    0.00  1.00 (1.00)    0.00 (0.00)
            raid1                     rebuilding  randread         1.00   13.11         1.00          13.11
            counted by the members, in brackets what the array's address map and md's rules of writing ask for; bytes by
            bytes of the load.

            TRUSTED
        "#]].assert_eq(&text);
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }
}
