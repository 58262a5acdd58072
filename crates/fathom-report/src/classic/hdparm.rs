//! The lines of hdparm -T and -t: MB (2^20 bytes), seconds, rate.

use super::transferred_bytes;
use fathom_model::record::Record;

pub(super) fn lines(records: &[&Record]) -> String {
    let path = records.first().and_then(|r| r.targets.first()).map_or("", |t| t.path.as_str());
    let mut out = format!("{path}:\n");
    out.extend(records.iter().map(|record| line(record)));
    out
}

fn line(record: &Record) -> String {
    let is_direct = record.workload.jobs.iter().all(|job| job.direct);
    let what = match (super::reached(record, "cached"), is_direct) {
        (true, false) => "cached reads:   ",
        (true, true) => "O_DIRECT cached reads:   ",
        (false, false) => "buffered disk reads: ",
        (false, true) => "O_DIRECT disk reads: ",
    };
    let megabytes = transferred_bytes(record) >> 20;
    let seconds = record.window_ns.max(1) as f64 / 1e9;
    let rate = transferred_bytes(record) as f64 / f64::from(1 << 20) / seconds;
    let (rate, unit) = if rate > 1.0 { (rate, "MB") } else { (rate * 1024.0, "kB") };
    format!(" Timing {what}{megabytes:3} MB in {seconds:5.2} seconds = {rate:6.2} {unit}/sec\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use fathom_model::record::OpClass;

    fn read(phase: &str, megabytes: u64, window_ms: u64) -> Record {
        let blocks = vec![sample::class(OpClass::Read, megabytes / 2, 1_000_000, 2 << 20)];
        let mut record = sample::record("hdparm", phase, blocks);
        record.workload = record.workload.of_phase(phase);
        record.window_ns = window_ms * 1_000_000;
        record
    }

    /// Lines that hdparm has printed: their seconds are rounded, so the rate is that of the time behind them.
    #[test]
    fn lines_that_hdparm_has_printed() {
        for (phase, megabytes, window_ms, printed) in [
            (
                "cached",
                2132,
                2000,
                " Timing cached reads:   2132 MB in  2.00 seconds = 1066.00 MB/sec\n",
            ),
            (
                "device",
                120,
                3045,
                " Timing buffered disk reads: 120 MB in  3.04 seconds =  39.41 MB/sec\n",
            ),
            (
                "device",
                98,
                71,
                " Timing buffered disk reads:  98 MB in  0.07 seconds = 1380.28 MB/sec\n",
            ),
            (
                "device",
                2,
                4000,
                " Timing buffered disk reads:   2 MB in  4.00 seconds = 512.00 kB/sec\n",
            ),
        ] {
            assert_eq!(line(&read(phase, megabytes, window_ms)), printed);
        }
        let mut direct = read("device", 98, 71);
        direct.workload.jobs[0].direct = true;
        assert!(lines(&[&direct]).contains(" Timing O_DIRECT disk reads:  98 MB"));
    }
}
