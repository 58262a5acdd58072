//! A watch by longer intervals than it was taken in: several of its own are summed up to one.

use super::pieces;
use fathom_model::record::Record;
use fathom_model::watch::{DeviceCounts, DeviceSeries, WatchRecord};
use std::collections::BTreeMap;

/// The shortest length that whole numbers of intervals of both lengths make up; the longest there is where that is longer.
pub(super) fn common_ns(a_ns: u64, b_ns: u64) -> u64 {
    let (mut divisor, mut rest) = (a_ns.max(1), b_ns.max(1));
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a_ns / divisor).saturating_mul(b_ns)
}

/// The first `most` intervals, each `each` of them as one; the last may have fewer. Devices with what was counted of them and their
/// application: nothing else is in it.
pub(super) fn coarser(records: &[Record], most: usize, each: usize) -> Vec<Record> {
    let Some((first, whole)) =
        records.iter().find(|record| record.watch.is_some()).zip(pieces(records).next())
    else {
        return Vec::new();
    };
    let lengths = super::lengths_us(records);
    let lengths = &lengths[..lengths.len().min(most)];
    let interval_ns = whole.interval_ns.saturating_mul(each as u64);
    let mut piece = WatchRecord::new(interval_ns, 0);
    piece.length_us = lengths.chunks(each).map(|part| part.iter().sum()).collect();
    for series in pieces(records).flat_map(|piece| &piece.devices) {
        if !piece.devices.iter().any(|known| known.name == series.name) {
            let sums = sums(records, &series.name, lengths.len(), each);
            piece.devices.extend(series_of(series, sums));
        }
    }
    piece.ended = pieces(records).filter_map(|piece| piece.ended.clone()).last();
    vec![Record { watch: Some(Box::new(piece)), ..first.clone() }]
}

/// What a device did in each of the long intervals in all of which it was there.
fn sums(
    records: &[Record],
    name: &str,
    count: usize,
    each: usize,
) -> BTreeMap<usize, DeviceCounts> {
    let mut there: BTreeMap<usize, (usize, DeviceCounts)> = BTreeMap::new();
    let mut before = 0;
    for piece in pieces(records) {
        for series in piece.devices.iter().filter(|series| series.name == name) {
            let from = before + series.from as usize;
            let end = (from + series.intervals as usize).min(count);
            for at in from..end {
                there.entry(at / each).or_default().0 += 1;
            }
            for (at, counts) in series.active().iter().take_while(|(at, _)| from + at < end) {
                let sum = &mut there.entry((from + at) / each).or_default().1;
                *sum = sum.plus(counts);
            }
        }
        before += piece.intervals();
    }
    let of = |at: usize| each.min(count - at * each);
    let whole = there.into_iter().filter(|(at, (intervals, _))| *intervals == of(*at));
    whole.map(|(at, (_, counts))| (at, counts)).collect()
}

/// The same as series: one for each time without a gap.
fn series_of(of: &DeviceSeries, sums: BTreeMap<usize, DeviceCounts>) -> Vec<DeviceSeries> {
    let mut all: Vec<DeviceSeries> = Vec::new();
    for (at, counts) in sums {
        if all.last().is_none_or(|last| (last.from + last.intervals) as usize != at) {
            all.push(DeviceSeries {
                name: of.name.clone(),
                title: of.title.clone(),
                depth: of.depth,
                from: at as u32,
                ..DeviceSeries::default()
            });
        }
        all.last_mut().into_iter().for_each(|last| last.push(&counts));
    }
    all
}
