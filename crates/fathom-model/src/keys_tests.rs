//! Every key with a good and a bad value, and what contradicts what.

use super::*;

fn set_all(pairs: &[(&str, &str)]) -> Result<Job, KeyError> {
    let mut job = Job { duration_ns: Some(1), ..Job::default() };
    for (key, value) in pairs {
        set(&mut job, key, value)?;
    }
    check(&job).map(|()| job)
}

/// A key, a value that it takes, and one that it does not.
const SAMPLES: &[(&str, &str, &str)] = &[
    ("access", "sequential", "sideways"),
    ("distribution", "zipf:1.2", "zipf:x"),
    ("stride", "1M", "0"),
    ("sweep_points", "100", "0"),
    ("cursor", "job", "nobody"),
    ("block_size", "4k:40,8k:60", "0"),
    ("write_block_size", "4k-64k", "64k-4k"),
    ("trim_block_size", "1M", "x"),
    ("write_fraction", "20%", "2"),
    ("trim_fraction", "20%", "2"),
    ("zero_fraction", "20%", "2"),
    ("metadata", "create", "rename"),
    ("names", "100", "0"),
    ("mix", "interleave", "sideways"),
    ("files", "100", "0"),
    ("file_choice", "random", "any"),
    ("files_open", "10", "0"),
    ("threads", "8", "0"),
    ("depth", "32", "-1"),
    ("batch", "4", "x"),
    ("engine", "psync", "libfoo"),
    ("polled", "yes", "maybe"),
    ("sqpoll", "yes", "2"),
    ("registered", "no", "some"),
    ("batch_submit", "8", "0"),
    ("direct", "no", "maybe"),
    ("open_sync", "dsync", "hard"),
    ("fsync_fraction", "0.1", "1.1"),
    ("fsync_every", "100", "1.5"),
    ("sync_call", "fdatasync", "sync"),
    ("sync_at_end", "fsync", "x"),
    ("sync_all_every", "100", "0"),
    ("write_back_fraction", "10%", "2"),
    ("overwrite", "yes", "x"),
    ("drop_cache", "no", "x"),
    ("record_size", "8G", "0"),
    ("log_block_size", "512", "3G"),
    ("align", "64k", "0"),
    ("offset", "50%", "120%"),
    ("span", "1G", "q"),
    ("size", "1G", "0"),
    ("content", "pattern:00ff", "ones"),
    ("compressible", "50%", "1.5"),
    ("duplicate", "0.3", "-1"),
    ("verify", "during", "later"),
    ("duration", "60s", "60"),
    ("warmup", "5s", "-5s"),
    ("amount", "1G", "1Q"),
    ("operations", "10", "0"),
    ("rate", "2000", "0"),
    ("arrivals", "poisson", "bursty"),
    ("think_time", "10ms", "10"),
    ("cap_iops", "0.5", "0"),
    ("cap_bytes", "10M", "0"),
    ("io_priority", "be/7", "rt/0"),
    ("nice", "-5", "20"),
    ("numa_node", "0", "-1"),
    ("cgroup_weight", "10", "10001"),
    ("cgroup_max", "read_bytes:100MB,write_iops:500", "read_bytes:0"),
    ("cpus", "0,2-3", "3-1"),
    ("target", "/tmp", ""),
];

#[test]
fn every_key_takes_a_good_value_and_refuses_a_bad_one() {
    for key in KEYS {
        let Some((_, good, bad)) = SAMPLES.iter().find(|(name, _, _)| *name == key.name) else {
            panic!("no sample for {}", key.name)
        };
        let mut job = Job::default();
        assert_eq!(set(&mut job, key.name, good), Ok(()), "{}={good}", key.name);
        assert_ne!(job, Job::default(), "{}={good} changes nothing", key.name);
        let error = set(&mut job, key.name, bad).map_err(|e| e.to_string());
        let message = error.expect_err(key.name);
        assert!(message.starts_with(&format!("{}={bad}: ", key.name)), "{message}");
    }
}

#[test]
fn unknown_keys_name_the_nearest() {
    let error = set_all(&[("thread", "1")]).expect_err("unknown").to_string();
    assert_eq!(error, "unknown key 'thread'; did you mean 'threads'?");
    let error = set_all(&[("zzz", "1")]).expect_err("unknown").to_string();
    assert_eq!(error, "unknown key 'zzz'; fathom workloads randread lists all keys");
}

#[test]
fn words_of_other_load_generators_are_understood() {
    for (word, meant) in [
        ("bs", "block_size"),
        ("iodepth", "depth"),
        ("ioengine", "engine"),
        ("numjobs", "threads"),
        ("runtime", "duration"),
        ("rw", "the workload"),
        ("filename", "the target"),
        ("ba", "align"),
        ("blockalign", "align"),
        ("iomem_align", "always that of a page"),
    ] {
        let error = set_all(&[(word, "1")]).expect_err("unknown").to_string();
        assert!(error.starts_with(&format!("unknown key '{word}'; here it is {meant}")), "{error}");
    }
}

#[test]
fn contradictions() {
    for pairs in [
        &[("engine", "psync"), ("depth", "32")][..],
        &[("batch", "2")],
        &[("fsync_every", "1")],
        &[("access", "replication"), ("write_fraction", "0.5"), ("threads", "2")],
        &[("access", "replication"), ("write_fraction", "0.5"), ("fsync_every", "10")],
        &[("access", "append")],
        &[("access", "append"), ("write_fraction", "0.5")],
        &[("access", "replication")],
        &[("access", "replication"), ("write_fraction", "0.9")],
        &[("access", "replication"), ("write_fraction", "0.5"), ("write_block_size", "64k")],
        &[("write_back_fraction", "1"), ("write_block_size", "8k")],
        &[("rate", "100"), ("depth", "8"), ("batch", "4")],
        &[("cap_iops", "100"), ("depth", "8"), ("batch", "4")],
        &[("cap_bytes", "1M"), ("depth", "8"), ("batch", "4")],
        &[("think_time", "1ms"), ("depth", "8"), ("batch", "4")],
        &[("access", "sequential"), ("block_size", "4k:1,6k:1"), ("align", "4k")],
        &[
            ("access", "sequential"),
            ("write_fraction", "0.5"),
            ("write_block_size", "6k"),
            ("align", "4k"),
        ],
        &[("rate", "100"), ("think_time", "1ms")],
        &[("rate", "100"), ("cap_iops", "50")],
        &[("rate", "100"), ("cap_bytes", "1M")],
        &[("rate", "100"), ("access", "replication"), ("write_fraction", "0.5")],
        &[("arrivals", "poisson")],
        &[("distribution", "zipf:0")],
        &[("distribution", "zipf:11")],
        &[("distribution", "pareto:1")],
        &[("distribution", "normal:0%")],
        &[("distribution", "zones:90/10,20/90")],
        &[("access", "sequential"), ("align", "64k")],
        &[("access", "reverse"), ("align", "12k"), ("block_size", "8k")],
    ] {
        assert!(matches!(set_all(pairs), Err(KeyError::Contradiction { .. })), "{pairs:?}");
    }
    for pairs in [
        &[("write_fraction", "1"), ("fsync_every", "1")][..],
        &[("access", "append"), ("write_fraction", "1")],
        &[("access", "replication"), ("write_fraction", "0.5")],
        &[("rate", "0.5"), ("arrivals", "poisson"), ("depth", "8")],
        &[("think_time", "1ms"), ("cap_iops", "50"), ("cap_bytes", "1M")],
        &[("access", "sequential"), ("align", "512"), ("block_size", "4k-64k")],
        &[("access", "strided"), ("stride", "64k"), ("align", "64k")],
        &[("access", "sequential"), ("block_size", "4k:1,6k:1"), ("align", "2k")],
        &[("depth", "8"), ("batch", "4")],
        &[("rate", "100"), ("depth", "8"), ("batch", "1")],
        &[("write_back_fraction", "1"), ("fsync_every", "4")],
    ] {
        assert!(set_all(pairs).is_ok(), "{pairs:?}");
    }
    let endless = Job::default();
    assert!(check(&endless).expect_err("endless").to_string().contains("nothing ends it"));
}

#[test]
fn times_are_within_reason() {
    for key in ["duration", "warmup", "think_time"] {
        // One request needs no time for a second.
        assert!(set_all(&[(key, "365d"), ("operations", "1")]).is_ok(), "{key}");
        let error = set_all(&[(key, "366d")]).expect_err(key).to_string();
        assert!(error.starts_with(&format!("{key}=366d: must be at most 365d")), "{error}");
    }
}

#[test]
fn weights_belong_together() {
    for (sizes, word) in [
        ("4k:50%,8k:60%", "sum to 110 %, not 100 %"),
        ("4k:50%,8k:40", "only some in percent"),
        ("4k:50,8k", "others none"),
        ("4k,8k:50%", "others none"),
        ("-4k", "'-4k' is out of range: it must not be negative"),
        ("4k:1,-8k:2", "'-8k' is out of range: it must not be negative"),
    ] {
        let error = set_all(&[("block_size", sizes)]).expect_err(sizes).to_string();
        assert!(error.contains(word), "{error}");
    }
    for sizes in ["4k:33.3%,8k:66.7%", "4k:1,8k:2", "4k,8k", "4k-64k:70,64k:30"] {
        assert!(set_all(&[("block_size", sizes)]).is_ok(), "{sizes}");
    }
}

#[test]
fn weighted_sizes_have_a_mean() {
    // The oltp mix of the built-in workload: mean 26 KiB.
    let job = set_all(&[("block_size", "4k:40,8k:20,16k:20,32k:10,64k:5,128k:2,256k:2,512k:1")])
        .expect("valid");
    assert!(
        (job.block_size_bytes_mean() / 1024.0 - 25.5).abs() < 0.7,
        "{}",
        job.block_size_bytes_mean()
    );
    assert_eq!((job.block_size_bytes_max(), job.block_size_bytes_min()), (512 << 10, 4 << 10));
}
