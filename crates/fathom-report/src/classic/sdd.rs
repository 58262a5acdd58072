//! The lines of sdd: records and bytes read and written, time and rate. A kByte is 1024 bytes, the rate is cut, not
//! rounded.

use super::{Blocks, blocks, transferred_bytes};
use fathom_model::record::Record;

pub(super) fn lines(record: &Record) -> String {
    let bytes = transferred_bytes(record);
    let time_ms = record.window_ns / 1_000_000;
    let rate = u128::from(bytes >> 10) * 1000 / u128::from(time_ms.max(1));
    let rate = if super::has_rate(record) {
        format!("{rate} kBytes/sec")
    } else {
        super::NO_RATE.to_owned()
    };
    // What comes from nowhere is not read, and what goes there is not written.
    let (moved, none) =
        (counts(&blocks(record), bytes), "0 records + 0 bytes (total of 0 bytes = 0.00k)");
    let writes = record.workload.jobs.iter().any(|job| job.writes_data());
    let (read, wrote) = if writes { (none, moved.as_str()) } else { (moved.as_str(), none) };
    format!(
        "Read  {read}.\nWrote {wrote}.\nTotal time {}.{:03}sec ({rate})\n",
        time_ms / 1000,
        time_ms % 1000
    )
}

fn counts(blocks: &Blocks, bytes: u64) -> String {
    let Blocks { whole, partial_bytes, .. } = blocks;
    // Its hundredths of a kByte, as it computes them.
    let hundredths = ((bytes & 1023) << 10) / 10_485;
    let kbytes = bytes >> 10;
    format!(
        "{whole} records + {partial_bytes} bytes (total of {bytes} bytes = {kbytes}.{hundredths:02}k)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classic::classic;
    use crate::sample::{class, record};
    use fathom_model::record::OpClass;

    #[test]
    fn sdd_prints_published_transcripts() {
        // Bytes and the kBytes/sec of published runs. The millisecond is the one that the rate was computed from.
        for (bytes, time_ms, line) in [
            (1u64 << 30, 3489, "Total time 3.489sec (300537 kBytes/sec)\n"),
            (1 << 30, 11_109, "Total time 11.109sec (94389 kBytes/sec)\n"),
            (24 << 30, 73_937, "Total time 73.937sec (340368 kBytes/sec)\n"),
            (1 << 30, 3902, "Total time 3.902sec (268727 kBytes/sec)\n"),
            (4096, 0, "Total time 0.000sec (4000 kBytes/sec)\n"),
        ] {
            let blocks = vec![class(OpClass::Read, 1, 1_000_000, bytes)];
            let mut read = record("seqread", "x", blocks);
            read.window_ns = time_ms * 1_000_000 + 999_999;
            let text = lines(&read);
            assert_eq!(text.lines().last(), Some(line.trim_end()), "{text}");
            assert_eq!(classic(&[read]).as_deref(), Some(text.as_str()));
        }
    }

    #[test]
    fn records_and_the_bytes_of_a_partial_one() {
        // A file of 2.5 MiB and 300 bytes in records of 1 MiB: what the original prints of it.
        let bytes = (5 << 19) + 300;
        let mut read = record("sdd", "x", vec![class(OpClass::Read, 3, 1_000_000, 1)]);
        read.jobs[0].classes[0].bytes = bytes;
        read.targets[0].size_bytes = bytes;
        let moved = "2 records + 524588 bytes (total of 2621740 bytes = 2560.29k).";
        let none = "0 records + 0 bytes (total of 0 bytes = 0.00k).";
        assert!(
            lines(&read).starts_with(&format!("Read  {moved}\nWrote {none}\n")),
            "{}",
            lines(&read)
        );
        read.jobs[0].window_ns = 180;
        let told = "sec (no rate: all of it began in the warm-up)\n";
        assert!(lines(&read).ends_with(told), "{}", lines(&read));
        read.workload.set("write_fraction", "1").expect("a share");
        assert!(
            lines(&read).starts_with(&format!("Read  {none}\nWrote {moved}\n")),
            "{}",
            lines(&read)
        );
    }
}
