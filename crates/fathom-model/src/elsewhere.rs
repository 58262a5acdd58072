//! The words of other load generators, for those who come from there.

/// What other load generators call it, and what is meant here.
const ELSEWHERE: [(&str, &str); 59] = [
    ("ba", "align"),
    ("blockalign", "align"),
    ("blocksize", "block_size"),
    ("bs", "block_size"),
    ("bsrange", "block_size=4k-64k"),
    ("bssplit", "block_size=4k:60,64k:40"),
    ("buffered", "direct=no"),
    ("conv", "sync_at_end=fdatasync (or fsync)"),
    ("count", "operations"),
    ("cpus_allowed", "cpus"),
    ("end_fsync", "sync_at_end=fsync"),
    ("events", "operations"),
    ("fdatasync", "fsync_every=N sync_call=fdatasync"),
    ("file-block-size", "block_size"),
    ("file-extra-flags", "direct=yes or open_sync=sync"),
    ("file-fsync-all", "fsync_every=1"),
    ("file-fsync-end", "sync_at_end=fsync"),
    ("file-fsync-freq", "sync_all_every"),
    ("file-io-mode", "engine"),
    ("file-num", "files"),
    ("file-rw-ratio", "write_fraction: 1 / (1 + ratio)"),
    ("file-test-mode", "the option --phase=rndrw (seqwr, seqrewr, seqrd, rndrd, rndwr)"),
    ("file-total-size", "size"),
    ("filename", "the target, which comes after the workload"),
    ("filesize", "size"),
    ("fsync", "fsync_every"),
    ("if", "the target, which comes after the workload"),
    ("iflag", "direct=yes"),
    ("io_size", "amount"),
    ("iodepth", "depth"),
    ("iodepth_batch", "batch_submit"),
    ("ioengine", "engine"),
    ("iomem_align", "always that of a page, as direct=yes needs"),
    ("iseek", "offset"),
    ("loops", "the option --repeats=N"),
    ("max-requests", "operations"),
    ("max-time", "duration"),
    ("norandommap", "access=random (access=shuffled is without repetition)"),
    ("nrfiles", "files"),
    ("num-threads", "threads"),
    ("number_ios", "operations"),
    ("numjobs", "threads"),
    ("of", "the target, which comes after the workload"),
    ("oflag", "direct=yes or open_sync=dsync"),
    ("openfiles", "files_open"),
    ("oseek", "offset"),
    ("ramp_time", "warmup"),
    ("random_distribution", "distribution"),
    ("rate_iops", "cap_iops, or rate for an open loop"),
    (
        "readwrite",
        "the workload (randread, randwrite, seqread, ...), or access with write_fraction",
    ),
    ("runtime", "duration"),
    ("rw", "the workload (randread, randwrite, seqread, ...), or access with write_fraction"),
    ("rwmixread", "write_fraction, the share of the others"),
    ("rwmixwrite", "write_fraction"),
    ("seek", "offset"),
    ("skip", "offset"),
    ("thinktime", "think_time"),
    ("time", "duration"),
    ("time_based", "duration alone"),
];

/// What is meant by a word of other load generators.
#[must_use]
pub fn of_others(word: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(other, _)| *other == word).map(|(_, meant)| *meant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KEYS;

    #[test]
    fn each_word_is_about_a_key_and_none_takes_its_place() {
        for (word, meant) in ELSEWHERE {
            assert!(KEYS.iter().all(|key| key.name != word), "{word}");
            let mut words = meant.split([' ', '=', ',', ':']);
            let is_known = words.any(|part| KEYS.iter().any(|key| key.name == part));
            assert!(is_known || meant.starts_with("the "), "{word}: {meant}");
        }
    }
}
