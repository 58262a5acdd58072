//! The words of other load generators, for those who come from there.

/// What other load generators call it, and what is meant here.
const ELSEWHERE: [(&str, &str); 34] = [
    ("ba", "align"),
    ("blockalign", "align"),
    ("blocksize", "block_size"),
    ("bs", "block_size"),
    ("bsrange", "block_size=4k-64k"),
    ("bssplit", "block_size=4k:60,64k:40"),
    ("buffered", "direct=no"),
    ("cpus_allowed", "cpus"),
    ("end_fsync", "sync_at_end=fsync"),
    ("fdatasync", "fsync_every=N sync_call=fdatasync"),
    ("filename", "the target, which comes after the workload"),
    ("filesize", "size"),
    ("fsync", "fsync_every"),
    ("io_size", "amount"),
    ("iodepth", "depth"),
    ("iodepth_batch", "batch_submit"),
    ("ioengine", "engine"),
    ("iomem_align", "always that of a page, as direct=yes needs"),
    ("loops", "the option --repeats=N"),
    ("norandommap", "access=random (access=shuffled is without repetition)"),
    ("nrfiles", "files"),
    ("number_ios", "operations"),
    ("numjobs", "threads"),
    ("openfiles", "files_open"),
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
    ("thinktime", "think_time"),
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
            let mut words = meant.split([' ', '=', ',']);
            let is_known = words.any(|part| KEYS.iter().any(|key| key.name == part));
            assert!(is_known || meant.starts_with("the "), "{word}: {meant}");
        }
    }
}
