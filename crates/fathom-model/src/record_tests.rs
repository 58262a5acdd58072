//! Requests in flight by Little's law; records of other versions.

use super::*;

fn job(window_ns: u64, ended: &[(OpClass, u64)], ages_ns: &[u64]) -> JobRecord {
    let class = |class: OpClass| {
        let mut latency_ns = Histogram::new();
        let own = ended.iter().filter(|(of, _)| *of == class);
        own.for_each(|(_, latency)| latency_ns.record(*latency));
        ClassRecord { class, latency_ns, bytes: 0 }
    };
    let waiting = |age_ns: &u64| CensoredOp {
        class: OpClass::Read,
        age_ns: *age_ns,
        file: 0,
        offset_bytes: 0,
        size_bytes: 512,
    };
    JobRecord {
        name: "mix".into(),
        engine: EngineRecord {
            kind: EngineKind::IoUring,
            fallback: None,
            features: Vec::new(),
            threads: 2,
            depth: 3,
            batch: 1,
        },
        classes: OpClass::ALL.map(class).into(),
        series: Vec::new(),
        slowest: Vec::new(),
        censored: ages_ns.iter().map(waiting).collect(),
        batches: 1,
        cpu: CpuTime::default(),
        thread_operations: Vec::new(),
        thread_times: Vec::new(),
        limits: LimitsRecord::default(),
        busiest_thread_cpu_ns: 0,
        final_sync_ns: None,
        window_ns,
        open_loop: None,
        verify: None,
        delivered: None,
        control_group: None,
    }
}

/// Checked by counting, at each point of time, what is in flight.
#[test]
fn in_flight_is_the_mean_over_time() {
    // (start, end); the last two are not over when the window is. A commit is its two calls and counts once.
    let calls = [
        (OpClass::Read, 0, 10),
        (OpClass::Read, 5, 17),
        (OpClass::SyncedWrite, 2, 4),
        (OpClass::Sync, 4, 19),
    ];
    let unfinished = [12, 18];
    let busy = |t: &u64| {
        calls.iter().filter(|(_, start, end)| start <= t && t < end).count()
            + unfinished.iter().filter(|start| *start <= t).count()
    };
    let counted = (0..20u64).map(|t| busy(&t)).sum::<usize>() as f64 / 20.0;
    let mut ended: Vec<_> = calls.map(|(class, start, end)| (class, end - start)).into();
    ended.push((OpClass::Commit, 17));
    let mean = job(20, &ended, &unfinished.map(|start| 20 - start)).in_flight_mean();
    assert_eq!(mean, Some(counted));
    // Nothing is in flight while all of it is synchronised at the end.
    let mut synced = job(100, &[(OpClass::Write, 80)], &[]);
    synced.final_sync_ns = Some(20);
    assert_eq!(synced.in_flight_mean(), Some(1.0));
}

#[test]
fn operations_of_older_records_are_on_the_first_file() {
    let text = r#"{"class":"read","age_ns":5,"offset_bytes":4096,"size_bytes":512}"#;
    let op: CensoredOp = serde_json::from_str(text).expect("readable");
    assert_eq!((op.file, op.offset_bytes), (0, 4096));
}

#[test]
fn no_more_can_be_in_flight_than_there_may_be() {
    // One of them began long before the window.
    let ended = [(OpClass::Read, 1000), (OpClass::Read, 5)];
    assert_eq!(job(10, &ended, &[3000]).in_flight_mean(), Some(6.0));
    // Six places: what began before the window explains any excess of one longest request for each.
    assert_eq!(job(10, &ended, &[3000]).in_flight_least(), Some(0.0));
    let hundred = [(OpClass::Read, 10); 100];
    assert_eq!(job(100, &hundred, &[]).in_flight_least(), Some(9.4));
    assert_eq!(job(10, &[], &[]).in_flight_least(), None);
    assert_eq!(job(10, &[], &[]).in_flight_mean(), None);
    assert_eq!(job(0, &ended, &[]).in_flight_mean(), None);
}
