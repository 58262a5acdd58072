//! randomio's table: operations per second and latencies in milliseconds, reads and writes apart.

use crate::figures::per_second;
use fathom_model::record::{OpClass, Record};
use fathom_stats::Histogram;

const HEADER: &str = "  total |  read:         latency (ms)       |  write:        latency (ms)
   iops |   iops   min    avg    max   sdev |   iops   min    avg    max   sdev
--------+-----------------------------------+----------------------------------
";

/// Which samples a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// One for the whole measured window.
    Window,
    /// One for each interval of the series.
    Intervals,
}

/// A write that a sync follows ends with that sync.
const WRITES: [OpClass; 2] = [OpClass::Write, OpClass::Commit];

pub(super) fn table(record: &Record, rows: Rows) -> String {
    let mut out = HEADER.to_owned();
    match rows {
        Rows::Window => {
            let mut sums = Sums::default();
            for job in &record.jobs {
                for class in &job.classes {
                    let rate = per_second(class.latency_ns.count(), job.window_ns);
                    sums.add(class.class, rate, |sum| sum.merge(&class.latency_ns));
                }
            }
            out += &sums.row();
        }
        Rows::Intervals => {
            let samples = record.jobs.iter().map(|job| job.series.len()).max().unwrap_or(0);
            for sample in 0..samples {
                let mut sums = Sums::default();
                for interval in record.jobs.iter().filter_map(|job| job.series.get(sample)) {
                    for class in &interval.classes {
                        let rate = per_second(class.latency_ns.count(), interval.length_ns);
                        sums.add(class.class, rate, |sum| sum.merge_sparse(&class.latency_ns));
                    }
                }
                out += &sums.row();
            }
        }
    }
    out
}

/// One line: what the jobs did side by side, each rate over the job's own time.
#[derive(Default)]
struct Sums {
    reads: Sum,
    writes: Sum,
}

#[derive(Default)]
struct Sum {
    latency_ns: Histogram,
    iops: f64,
}

impl Sums {
    fn add(&mut self, class: OpClass, iops: f64, merge_into: impl FnOnce(&mut Histogram)) {
        let sum = match class {
            OpClass::Read => &mut self.reads,
            class if WRITES.contains(&class) => &mut self.writes,
            _ => return,
        };
        sum.iops += iops;
        merge_into(&mut sum.latency_ns);
    }

    fn row(&self) -> String {
        format!(
            "{:7.1} |{} |{}\n",
            self.reads.iops + self.writes.iops,
            side(&Side::of(&self.reads)),
            side(&Side::of(&self.writes))
        )
    }
}

/// The figures of one direction, in milliseconds.
struct Side {
    iops: f64,
    min: f64,
    mean: f64,
    max: f64,
    sdev: f64,
}

impl Side {
    fn of(sum: &Sum) -> Self {
        let ms = |ns: f64| ns / 1e6;
        let Sum { latency_ns, iops } = sum;
        Self {
            iops: *iops,
            // What the original's arithmetic comes to when nothing was counted.
            min: latency_ns.min().map_or(f64::INFINITY, |ns| ms(ns as f64)),
            mean: latency_ns.mean().map_or(f64::NAN, ms),
            max: latency_ns.max().map_or(0.0, |ns| ms(ns as f64)),
            sdev: latency_ns.stddev().map_or(f64::NAN, ms),
        }
    }
}

fn side(side: &Side) -> String {
    // The standard form of "not a number" has capitals here and none there.
    format!(
        "{:7.1} {:5.1} {:6.1} {:6.1} {:6.1}",
        side.iops, side.min, side.mean, side.max, side.sdev
    )
    .replace("NaN", "nan")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use expect_test::expect;

    #[test]
    fn published_rows_come_out_as_they_were_printed() {
        for line in [
            "  112.3 |   89.1   1.8   11.2  270.9    7.5 |   23.2   0.1    0.2   17.7    0.5",
            "  928.5 |  743.4   0.2   61.5 1175.0   86.3 |  185.1   0.1   12.0  680.9   40.8",
            "   75.7 |   60.5   2.7  617.6 6126.2 1759.7 |   15.2   0.1  622.7 6032.0 1786.2",
            "  231.3 |  185.4   3.4   54.3  524.1   54.6 |   45.9  30.6  822.7 16356.0  705.0",
            "   31.7 |   25.2  56.9 1880.9 8166.9 1052.1 |    6.5   0.3   86.9  909.8  135.3",
            "  261.5 |  209.3   6.1  218.7 1458.5  169.0 |   52.2   0.2   41.2  843.9   86.0",
        ] {
            let figures: Vec<f64> =
                line.split([' ', '|']).filter_map(|word| word.parse().ok()).collect();
            let [total, sides @ ..] = figures.as_slice() else { panic!("{line}") };
            let text = |f: &[f64]| {
                side(&Side { iops: f[0], min: f[1], mean: f[2], max: f[3], sdev: f[4] })
            };
            assert_eq!(format!("{total:7.1} |{} |{}", text(&sides[..5]), text(&sides[5..])), line);
        }
    }

    #[test]
    fn known_latencies_give_known_figures() {
        let mut record = sample::record("randomio", "x", Vec::new());
        let of = |class, values: &[u64]| {
            let mut record = sample::class(class, 0, 1, 0);
            values.iter().for_each(|ms| record.latency_ns.record(ms * 1_000_000));
            record
        };
        // Reads 2, 4, 4, 4, 5, 5, 7, 9: mean 5, sample deviation 2.138. The synced write counts once, with its sync.
        record.jobs[0].classes = vec![
            of(OpClass::Read, &[2, 4, 4, 4, 5, 5, 7, 9]),
            of(OpClass::Write, &[1]),
            of(OpClass::SyncedWrite, &[1]),
            of(OpClass::Sync, &[8]),
            of(OpClass::Commit, &[9]),
        ];
        record.jobs[0].window_ns = 2_000_000_000;
        expect![[r#"
              total |  read:         latency (ms)       |  write:        latency (ms)
               iops |   iops   min    avg    max   sdev |   iops   min    avg    max   sdev
            --------+-----------------------------------+----------------------------------
                5.0 |    4.0   2.0    5.0    9.0    2.1 |    1.0   1.0    5.0    9.0    5.7
        "#]]
        .assert_eq(&table(&record, Rows::Window));
        record.jobs[0].series = sample::series(&[3, 0], 1_000_000_000);
        expect![[r#"
              total |  read:         latency (ms)       |  write:        latency (ms)
               iops |   iops   min    avg    max   sdev |   iops   min    avg    max   sdev
            --------+-----------------------------------+----------------------------------
                3.0 |    3.0   0.5    7.8   21.4   11.8 |    0.0   inf    nan    0.0    nan
                0.0 |    0.0   inf    nan    0.0    nan |    0.0   inf    nan    0.0    nan
        "#]]
        .assert_eq(&table(&record, Rows::Intervals));
    }
}
