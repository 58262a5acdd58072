//! What the arrays do for one request: latency, CPU time, what members count; and what a rebuild costs.

use crate::page::{Axis, Cell, Chart, ChartKind, Column, Point, Section, Table, Unit};
use crate::pages::parts;
use fathom_base::units::{format_count, format_duration, format_ns, format_rate};
use fathom_report::answer;
use fathom_report::raid::{COUNTED, EVENTS, REBUILDING, counted_row, events, kept, place};
use fathom_report::text::format_share;
use fathom_study::raid::{EventsPerIo, Figure, Pattern, RaidStudy, State};

pub(super) fn sections(study: &RaidStudy) -> Vec<Section> {
    [requests(study), rebuilding(study), members(study)].into_iter().flatten().collect()
}

/// A rate alone says too little: the latency beside it, and what a request costs.
fn requests(study: &RaidStudy) -> Option<Section> {
    let columns = [Column::left("array"), Column::left("state")];
    let numbers = ["IOPS", "p99", "spread", "CPU per I/O", "interrupts", "switches"];
    let mut table = Table::new("", columns.into_iter().chain(numbers.map(Column::right)));
    table.is_sortable = true;
    for row in &study.rows {
        for of in &row.states {
            let Some(figure) = &of.figures[place(Pattern::RandomRead)] else { continue };
            let start = [Cell::from(row.name()), of.state.word().into()];
            table.row(start.into_iter().chain(request(figure)));
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    table.notes.push(EVENTS.to_owned());
    Some(Section::new("Random reads, one by one", "Medians over trials.").block(table))
}

fn request(figure: &Figure) -> [Cell; 6] {
    let time = |ns: f64| Cell::number(format_ns(ns as u64), ns);
    let event = |which: fn(EventsPerIo) -> f64| {
        let of = figure.events_per_io;
        of.map_or_else(|| "".into(), |own| Cell::number(events(of, which), which(own)))
    };
    [
        Cell::number(format_count(figure.iops.round() as u64), figure.iops),
        figure.latency_ns_p99.map_or_else(|| "n/a".into(), time),
        figure.spread.map_or_else(|| "".into(), |share| Cell::number(format_share(share), share)),
        figure.cpu_ns_per_io.map_or_else(|| "".into(), time),
        event(|events| events.interrupts),
        event(|events| events.context_switches),
    ]
}

/// How fast a member is rebuilt under each load, and what share of its rate the load keeps.
fn rebuilding(study: &RaidStudy) -> Option<Section> {
    let columns = [Column::left("array"), Column::left("load")];
    let numbers = ["rebuilt at", "this member", "1 TB", "load kept"].map(Column::right);
    let mut table = Table::new("", columns.into_iter().chain(numbers));
    table.is_sortable = true;
    let mut names: Vec<String> = Vec::new();
    let mut series: Vec<(Pattern, Vec<Point>)> = Vec::new();
    for row in &study.rows {
        let Some(of) = row.in_state(State::Rebuilding) else { continue };
        for pattern in Pattern::ALL {
            let Some(rebuild) = &of.rebuilds[place(pattern)] else { continue };
            let name = row.name();
            let at = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            });
            let point = Point::new(at as f64, rebuild.bytes_per_s);
            match series.iter_mut().find(|(of, _)| *of == pattern) {
                Some((_, points)) => points.push(point),
                None => series.push((pattern, vec![point])),
            }
            let time = |ns: u64| Cell::number(format_duration(ns), ns as f64);
            table.row([
                Cell::from(name),
                answer::load(pattern).into(),
                Cell::number(format_rate(rebuild.bytes_per_s), rebuild.bytes_per_s),
                rebuild.member_ns.map_or_else(|| "-".into(), time),
                time(rebuild.terabyte_ns),
                kept(of, pattern).into(),
            ]);
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    table.notes.push(REBUILDING.to_owned());
    let (x, y) = (Axis::names("array", names), Axis::new("rebuilt at", Unit::BytesPerSecond));
    let mut chart = Chart::new("Rebuilding under load", ChartKind::Bars, x, y)
        .n("medians over trials")
        .interval(parts::OF_THESE_TRIALS)
        .note("The faster, the sooner the array can lose a member again.");
    for (pattern, points) in series {
        chart = chart.series(format!("beside {}", answer::load(pattern)), points);
    }
    Some(Section::new("Rebuilding", "").block(chart).block(table))
}

/// What members did for one request, and what they must.
fn members(study: &RaidStudy) -> Option<Section> {
    let columns = ["array", "state", "load"].map(Column::left);
    let numbers = ["reads", "writes", "bytes read", "bytes written"].map(Column::right);
    let mut table = Table::new("", columns.into_iter().chain(numbers));
    for row in &study.rows {
        for of in &row.states {
            for pattern in [Pattern::RandomRead, Pattern::RandomMix, Pattern::SequentialWrite] {
                let Some(counted) = &of.counted[place(pattern)] else { continue };
                table.row(counted_row(row, of.state, pattern, counted));
            }
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    table.notes.push(COUNTED.to_owned());
    Some(Section::new("Members, for one request of the load", "").block(table))
}
