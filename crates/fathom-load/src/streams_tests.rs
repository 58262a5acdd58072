//! Each kind of offsets through the generator, with several threads.

use crate::generator::tests::requests;
use crate::generator::{Generator, Kind, Request};
use crate::plan::{JobPlan, PlanError, plan, share_cursors};
use crate::target::LoadTarget;
use fathom_model::keys;
use fathom_model::workload::Job;
use fathom_sys::io::OpenMode;
use std::collections::BTreeMap;

const BLOCK: u64 = 4096;

fn job(pairs: &[(&str, &str)]) -> Job {
    let mut job = Job { duration_ns: Some(1), ..Job::default() };
    pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
    job
}

fn planned(pairs: &[(&str, &str)], size: u64) -> JobPlan {
    plan(&job(pairs), size, 512, 42).expect("fits")
}

/// One plan, all its threads, each taking a request in turn until none has more.
fn in_turn(plan: &JobPlan, threads: u32, most: usize) -> Vec<(u32, Request)> {
    let mut streams: Vec<Generator> =
        (0..threads).map(|t| Generator::new(plan, t, threads)).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        for (thread, stream) in (0u32..).zip(&mut streams) {
            all.extend(stream.next().map(|request| (thread, request)));
        }
        if all.len() == before || all.len() >= most {
            return all;
        }
    }
}

fn blocks(requests: &[(u32, Request)]) -> Vec<u64> {
    requests.iter().map(|(_, r)| r.offset_bytes / BLOCK).collect()
}

/// How often each block of each file was covered.
fn covered(requests: &[(u32, Request)], unit: u64) -> BTreeMap<(u32, u64), u32> {
    let mut counts = BTreeMap::new();
    for (_, r) in requests {
        let (first, count) = (r.offset_bytes / unit, u64::from(r.size_bytes) / unit);
        for block in first..first + count {
            *counts.entry((r.file, block)).or_default() += 1;
        }
    }
    counts
}

fn assert_once(requests: &[(u32, Request)], unit: u64, files: u32, per_file: u64) {
    let counts = covered(requests, unit);
    assert!(counts.values().all(|count| *count == 1), "something was visited twice");
    let expected: Vec<(u32, u64)> =
        (0..files).flat_map(|file| (0..per_file).map(move |block| (file, block))).collect();
    assert_eq!(counts.into_keys().collect::<Vec<_>>(), expected);
}

#[test]
fn one_pass_of_every_order_covers_everything_once_whoever_shares_the_position() {
    let orders: [&[(&str, &str)]; 5] = [
        &[("access", "sequential")],
        &[("access", "reverse")],
        &[("access", "strided"), ("stride", "12k")],
        &[("access", "shuffled")],
        &[("access", "iozone")],
    ];
    for order in orders {
        for threads in [1u32, 3, 7] {
            let text = threads.to_string();
            for cursor in ["thread", "job"] {
                if order[0].1 == "shuffled" && cursor == "job" {
                    continue;
                }
                let more = [("cursor", cursor), ("threads", &text), ("amount", "1G")];
                let plan = planned(&[order, &more[..]].concat(), 100 * BLOCK);
                let all = in_turn(&plan, threads, usize::MAX);
                assert_once(&all, BLOCK, 1, 100);
            }
        }
    }
}

#[test]
fn several_files_are_covered_once_in_the_order_asked_for() {
    for access in ["sequential", "reverse", "shuffled", "iozone"] {
        for choice in ["round_robin", "sequential"] {
            for threads in [1u32, 4] {
                let text = threads.to_string();
                let pairs = [
                    ("access", access),
                    ("files", "6"),
                    ("file_choice", choice),
                    ("threads", &text),
                    ("amount", "1G"),
                ];
                let all = in_turn(&planned(&pairs, 8 * BLOCK), threads, usize::MAX);
                assert_once(&all, BLOCK, 6, 8);
            }
        }
    }
    let files = |choice: &str| {
        let pairs = [("access", "sequential"), ("files", "3"), ("file_choice", choice)];
        let all = in_turn(&planned(&pairs, 2 * BLOCK), 1, 7);
        all.iter().map(|(_, r)| (r.file, r.offset_bytes / BLOCK)).collect::<Vec<_>>()
    };
    assert_eq!(files("round_robin"), [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 0)]);
    assert_eq!(files("sequential"), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (0, 0)]);
}

#[test]
fn random_access_to_several_files_takes_turns_or_chances() {
    let counted = |choice: &str| {
        let pairs = [("files", "5"), ("file_choice", choice), ("threads", "2")];
        let all = in_turn(&planned(&pairs, 16 * BLOCK), 2, 80_000);
        let mut counts = BTreeMap::<(u32, u64), f64>::new();
        for (_, r) in &all {
            *counts.entry((r.file, r.offset_bytes / BLOCK)).or_default() += 1.0;
        }
        assert_eq!(counts.len(), 80, "every block of every file");
        // Chi-square with 79 degrees of freedom: 99.99 % of uniform streams stay below 133.
        let chi: f64 = counts.values().map(|c| (c - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 133.0, "{choice}: {chi}");
        all.iter().filter(|(t, _)| *t == 0).map(|(_, r)| r.file).collect::<Vec<_>>()
    };
    assert_eq!(counted("round_robin")[..6], [0, 1, 2, 3, 4, 0]);
    let one_by_one = counted("sequential");
    assert!(one_by_one[..16].iter().all(|f| *f == 0) && one_by_one[16] == 1, "{one_by_one:?}");
    assert_ne!(counted("random")[..6], [0, 1, 2, 3, 4, 0]);
}

#[test]
fn orders_are_as_described() {
    let first = |pairs: &[(&str, &str)], size: u64, count| {
        blocks(&in_turn(&planned(pairs, size * BLOCK), 1, count))
    };
    assert_eq!(first(&[("access", "reverse")], 4, 6), [3, 2, 1, 0, 3, 2]);
    let strided = [("access", "strided"), ("stride", "12k")];
    assert_eq!(first(&strided, 8, 9), [0, 3, 6, 1, 4, 7, 2, 5, 0]);
    let sweep = [("access", "sweep"), ("sweep_points", "5")];
    assert_eq!(first(&sweep, 101, 99), [0, 25, 50, 75, 100], "and then it ends");
}

#[test]
fn a_sweep_is_shared_out_over_threads() {
    for cursor in ["thread", "job"] {
        let pairs =
            [("access", "sweep"), ("sweep_points", "11"), ("threads", "3"), ("cursor", cursor)];
        let mut all = blocks(&in_turn(&planned(&pairs, 101 * BLOCK), 3, usize::MAX));
        all.sort_unstable();
        assert_eq!(all, (0..=10).map(|i| i * 10).collect::<Vec<u64>>(), "{cursor}");
    }
}

#[test]
fn mixed_sizes_leave_no_gap_and_no_overlap() {
    for access in ["sequential", "reverse"] {
        for more in [&[][..], &[("files", "3")], &[("files", "3"), ("file_choice", "sequential")]] {
            let pairs = [
                ("access", access),
                ("block_size", "512-8k:3,16k:1"),
                ("cursor", "job"),
                ("amount", "1G"),
                ("threads", "2"),
            ];
            let plan = planned(&[&pairs[..], more].concat(), 64 << 10);
            let all = in_turn(&plan, 2, usize::MAX);
            assert_once(&all, 512, plan.job.files, 128);
        }
    }
}

/// The tails of the files are no whole pieces: there are fewer of those than threads.
#[test]
fn a_thread_without_a_part_ends() {
    let pairs = [("access", "sequential"), ("files", "2"), ("threads", "3")];
    let plan = planned(&pairs, BLOCK + BLOCK / 2);
    assert!(Generator::new(&plan, 0, 3).next().is_some());
    assert_eq!(Generator::new(&plan, 2, 3).next(), None);
}

#[test]
fn jobs_on_one_target_share_a_position_and_others_do_not() {
    let target = LoadTarget::null(64 * BLOCK);
    let pairs = [("access", "sequential"), ("cursor", "workload"), ("amount", "1G")];
    let mut plans = [planned(&pairs, 64 * BLOCK), planned(&pairs, 64 * BLOCK)];
    share_cursors(plans.iter_mut().map(|plan| (&target, plan))).expect("one range");
    let mut streams: Vec<Generator> = plans.iter().map(|p| Generator::new(p, 0, 1)).collect();
    let turns: Vec<u64> =
        (0..8).map(|i| streams[i % 2].next().expect("goes on").offset_bytes / BLOCK).collect();
    assert_eq!(turns, [0, 1, 2, 3, 4, 5, 6, 7]);
    // Apart, each begins at the start.
    let alone = planned(&pairs, 64 * BLOCK);
    assert_eq!(Generator::new(&alone, 0, 1).next().expect("first").offset_bytes, 0);
}

#[test]
fn a_position_of_unlike_ranges_is_refused() {
    let target = LoadTarget::null(64 * BLOCK);
    let base = [("cursor", "workload"), ("amount", "1G")];
    let of = |more: &[(&str, &str)]| planned(&[&base[..], more].concat(), 64 * BLOCK);
    let half = format!("{}", 32 * BLOCK);
    let sequential = ("access", "sequential");
    let (stride, wide) = (format!("{}", 4 * BLOCK), format!("{}", 8 * BLOCK));
    let strided = |by: &str| of(&[("access", "strided"), ("stride", by)]);
    let share = |mut plans: [JobPlan; 2]| {
        let shared = share_cursors(plans.iter_mut().map(|plan| (&target, plan)));
        shared.map_err(|error| error.to_string())
    };
    for unlike in [("offset", half.as_str()), ("span", half.as_str())] {
        let error = share([of(&[sequential]), of(&[sequential, unlike])]).expect_err("unlike");
        assert!(error.contains("cursor=workload") && error.contains("offset, span"), "{error}");
    }
    share([strided(&stride), strided(&wide)]).expect_err("places of another distance");
    share([strided(&stride), strided(&stride)]).expect("alike");
    for order in [of(&[("access", "reverse")]), strided(&stride)] {
        let error = share([of(&[sequential]), order]).expect_err("another order");
        assert!(error.contains("(access, offset, span"), "{error}");
    }
    // A position in bytes has no places.
    share([of(&[sequential]), of(&[sequential, ("block_size", "512")])]).expect("alike");
    // Over several files it has: pieces of all of them in turn are as long as a request, and files end at whole requests.
    let (files, block_64k) = (("files", "2"), ("block_size", "64k"));
    let turns = |more: &[(&str, &str)]| of(&[&[sequential, files][..], more].concat());
    let one_by_one = ("file_choice", "sequential");
    for (one, other) in [
        (&[][..], &[block_64k][..]),
        (&[], &[one_by_one]),
        (&[one_by_one, ("block_size", "12k")], &[one_by_one]),
    ] {
        let error = share([turns(one), turns(other)]).expect_err("other offsets");
        assert!(error.contains("files, file_choice, align, block_size"), "{error}");
    }
    share([turns(&[]), turns(&[])]).expect("alike");
    share([turns(&[one_by_one]), turns(&[one_by_one, block_64k])]).expect("the same bytes");
    let shuffled = |choice: &str| of(&[("access", "shuffled"), files, ("file_choice", choice)]);
    share([shuffled("round_robin"), shuffled("sequential")]).expect_err("places of other files");
    share([shuffled("round_robin"), shuffled("round_robin")]).expect("alike");
}

#[test]
fn whoever_shares_a_position_does_not_do_so_alone() {
    let pairs = [("access", "sequential"), ("cursor", "workload"), ("amount", "1G")];
    let dir = std::env::temp_dir().join(format!("fathom-alone-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let target = |name: &str| {
        std::fs::write(dir.join(name), name).expect("a file");
        let mode = OpenMode::default();
        LoadTarget::read_only(&dir.join(name), 64 * BLOCK, 512, mode).expect("opened")
    };
    let targets = [target("a"), target("b")];
    std::fs::remove_dir_all(&dir).expect("removed");
    let share = |on: &[usize]| {
        let mut plans: Vec<JobPlan> = on.iter().map(|_| planned(&pairs, 64 * BLOCK)).collect();
        share_cursors(on.iter().map(|&target| &targets[target]).zip(&mut plans))
    };
    for alone in [&[0, 1][..], &[0, 0, 1]] {
        let error = share(alone).expect_err("nothing is shared");
        assert!(error.to_string().contains("no other job with it has the same target"), "{error}");
    }
    for fine in [&[0][..], &[0, 0], &[0, 1, 0, 1]] {
        share(fine).expect("each has another, or there is one");
    }
}

/// What is left behind the last whole place is in no place, and nothing is visited again in its stead.
#[test]
fn one_pass_over_an_odd_range_has_every_place_once() {
    let cursor = ("cursor", "job");
    for (pairs, files) in [
        (&[("access", "reverse")][..], 1),
        (&[("access", "shuffled")], 1),
        (&[("access", "strided"), ("stride", "24k")], 1),
        (&[("access", "sequential"), cursor], 1),
        (&[("access", "sequential"), ("files", "2")], 2),
    ] {
        let mut job = job(&[pairs, &[("block_size", "12k")]].concat());
        job.duration_ns = None;
        let plan = crate::plan::plan(&job, 1 << 20, 512, 1).expect("a plan");
        let mut stream = Generator::new(&plan, 0, 1);
        let all: Vec<Request> = std::iter::from_fn(|| stream.next()).collect();
        let mut places: Vec<(u32, u64)> = all.iter().map(|r| (r.file, r.offset_bytes)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!((all.len(), places.len()), (85 * files, 85 * files), "{pairs:?}");
        assert!(all.iter().all(|request| request.size_bytes == 12 << 10), "{pairs:?}");
    }
    // A plain sequence takes what is left; and every pass is as the first one, whatever ends the job.
    for (pairs, files, rest) in [
        (&[("access", "sequential")][..], 1, true),
        (&[("access", "sequential"), ("write_fraction", "1")], 1, true),
        (&[("access", "sequential"), cursor], 1, false),
        (&[("access", "sequential"), ("files", "2")], 2, false),
        (&[("access", "sequential"), ("block_size", "12k-24k")], 1, false),
        (&[("access", "reverse")], 1, false),
        (&[("access", "shuffled")], 1, false),
        (&[("access", "strided"), ("stride", "24k")], 1, false),
        (&[("access", "iozone")], 1, false),
    ] {
        let size = [("block_size", "12k")];
        let job = job(&[&size, pairs].concat());
        let plan = crate::plan::plan(&job, 1 << 20, 512, 1).expect("a plan");
        let mut stream = Generator::new(&plan, 0, 1);
        let pass_bytes = files * ((85 * 12) << 10) + if rest { 4 << 10 } else { 0 };
        for pass in 0..3 {
            let mut places: Vec<(u32, u64, u64)> = Vec::new();
            let bytes =
                |places: &[(u32, u64, u64)]| places.iter().map(|place| place.2).sum::<u64>();
            while bytes(&places) < pass_bytes {
                let next = stream.next().expect("it goes on");
                places.push((next.file, next.offset_bytes, u64::from(next.size_bytes)));
            }
            places.sort_unstable();
            let is_gapless = places.windows(2).all(|pair| {
                let (file, end) = (pair[0].0, pair[0].1 + pair[0].2);
                (file, end) == (pair[1].0, pair[1].1) || file < pair[1].0
            });
            assert!(is_gapless, "{pairs:?}, pass {pass}");
            assert_eq!(bytes(&places), pass_bytes, "{pairs:?}, pass {pass}");
        }
    }
    // A log is full when nothing is left.
    let log = job(&[("access", "append"), ("write_fraction", "1"), ("block_size", "12k")]);
    let plan = crate::plan::plan(&log, 1 << 20, 512, 1).expect("a plan");
    let mut stream = Generator::new(&plan, 0, 1);
    let bytes: u64 = std::iter::from_fn(|| stream.next()).map(|r| u64::from(r.size_bytes)).sum();
    assert_eq!(bytes, 1 << 20);
    let mut plain = job(&[("access", "sequential"), ("block_size", "12k")]);
    plain.duration_ns = None;
    let plan = crate::plan::plan(&plain, 1 << 20, 512, 1).expect("a plan");
    let mut stream = Generator::new(&plan, 0, 1);
    let bytes: u64 = std::iter::from_fn(|| stream.next()).map(|r| u64::from(r.size_bytes)).sum();
    assert_eq!(bytes, 1 << 20);
}

/// The pass that ends them is one pass of all of them, however many they are and whatever is left at the end.
#[test]
fn jobs_that_share_a_position_share_the_pass() {
    let one = job(&[("access", "sequential"), ("cursor", "workload"), ("align", "512")]);
    let one = Job { duration_ns: None, ..one };
    for (jobs, bytes) in [(1, 10 * BLOCK + 512), (2, 64 * BLOCK), (3, 64 * BLOCK), (5, 3 * BLOCK)] {
        let target = LoadTarget::null(bytes);
        let planned = || crate::plan::plan(&one, bytes, 512, 1).expect("a plan");
        let mut plans: Vec<JobPlan> = (0..jobs).map(|_| planned()).collect();
        share_cursors(plans.iter_mut().map(|plan| (&target, plan))).expect("one range");
        let mut moved = 0;
        for plan in &plans {
            let mut stream = Generator::new(plan, 0, 1);
            moved +=
                std::iter::from_fn(|| stream.next()).map(|r| u64::from(r.size_bytes)).sum::<u64>();
        }
        // With more of them than requests each has one.
        let expected = if jobs == 5 { 5 * BLOCK } else { bytes };
        assert_eq!(moved, expected, "{jobs} jobs on {bytes} B");
    }
    // One that ends by its time leaves the whole pass to the other.
    let target = LoadTarget::null(64 * BLOCK);
    let timed = Job { duration_ns: Some(1_000_000_000), ..one.clone() };
    let mut plans =
        [&one, &timed].map(|j| crate::plan::plan(j, 64 * BLOCK, 512, 1).expect("a plan"));
    share_cursors(plans.iter_mut().map(|plan| (&target, plan))).expect("one range");
    assert_eq!(plans[0].amount_bytes, Some(64 * BLOCK));
}

/// At the same time, on real threads: nothing is lost and nothing comes twice.
#[test]
fn a_shared_position_holds_against_threads_that_race() {
    let pairs = [("access", "sequential"), ("cursor", "job"), ("amount", "1G"), ("threads", "4")];
    let plan = planned(&pairs, 40_000 * BLOCK);
    let plan = &plan;
    let all: Vec<(u32, Request)> = std::thread::scope(|scope| {
        let run = |thread| {
            move || {
                let mut stream = Generator::new(plan, thread, 4);
                std::iter::from_fn(|| stream.next()).map(|r| (thread, r)).collect::<Vec<_>>()
            }
        };
        let handles: Vec<_> = (0..4).map(|thread| scope.spawn(run(thread))).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("no panic")).collect()
    });
    assert_once(&all, BLOCK, 1, 40_000);
}

/// Shares against the laws themselves: sums of k^-s, h of the places with 1 - h of the I/O, the normal integral.
#[test]
fn distributions_follow_their_laws_and_all_threads_have_the_same_hot_places() {
    let draws = 60_000;
    let counts = |distribution: &str| {
        let pairs = [("distribution", distribution), ("threads", "3")];
        let all = in_turn(&planned(&pairs, 1000 * BLOCK), 3, draws);
        let mut counts = vec![[0.0f64; 3]; 1000];
        for (thread, r) in &all {
            counts[(r.offset_bytes / BLOCK) as usize][*thread as usize] += 1.0;
        }
        counts
    };
    let share = |counts: &[[f64; 3]]| counts.iter().flatten().sum::<f64>() / draws as f64;

    let mut zipf = counts("zipf:1.2");
    zipf.sort_by(|a, b| b.iter().sum::<f64>().total_cmp(&a.iter().sum()));
    let law = |ranks: i32| (1..=ranks).map(|k| f64::from(k).powf(-1.2)).sum::<f64>();
    for ranks in [1, 10, 100] {
        let (got, expected) = (share(&zipf[..ranks as usize]), law(ranks) / law(1000));
        assert!((got - expected).abs() < 0.01, "{ranks}: {got} {expected}");
    }
    let hottest = zipf[0];
    assert!(hottest.iter().all(|c| (c / hottest[0] - 1.0).abs() < 0.1), "{hottest:?}");

    let mut pareto = counts("pareto:0.2");
    pareto.sort_by(|a, b| b.iter().sum::<f64>().total_cmp(&a.iter().sum()));
    assert!((share(&pareto[..200]) - 0.8).abs() < 0.01);

    let normal = counts("normal:10%");
    // Within one and two standard deviations of the middle: 68.27 % and 95.45 %.
    assert!((share(&normal[400..600]) - 0.6827).abs() < 0.01);
    assert!((share(&normal[300..700]) - 0.9545).abs() < 0.01);

    let zones = counts("zones:90/10,10/90");
    assert!((share(&zones[..100]) - 0.9).abs() < 0.01);
    assert!(zones.iter().flatten().all(|c| *c < 4.0 * draws as f64 / 1000.0 * 3.0));
}

#[test]
fn hot_places_are_spread_over_all_files_when_chance_chooses() {
    let pairs = [("distribution", "zipf:0.9"), ("files", "10"), ("file_choice", "random")];
    let all = in_turn(&planned(&pairs, 100 * BLOCK), 1, 50_000);
    let mut files = [0u32; 10];
    all.iter().for_each(|(_, r)| files[r.file as usize] += 1);
    assert!(files.iter().all(|count| *count > 500), "{files:?}");
}

/// drand48 without a seed on 1 GiB: the offsets as randomio 1.4 begins.
#[test]
fn randomio_begins_as_published_over_all_threads() {
    let pairs = [
        ("access", "randomio"),
        ("write_fraction", "0.2"),
        ("fsync_fraction", "0.5"),
        ("threads", "3"),
    ];
    let all = in_turn(&planned(&pairs, 1 << 30), 3, 3000);
    assert_eq!(blocks(&all)[..3], [0, 10_913, 95_577]);
    let writes: Vec<bool> = all[..3].iter().map(|(_, r)| r.kind == Kind::Write).collect();
    let syncs: Vec<bool> = all[..3].iter().map(|(_, r)| r.sync_after).collect();
    assert_eq!((writes, syncs), (vec![true; 3], vec![true, false, true]));
    // One stream: with one thread the same requests come.
    let alone = in_turn(&planned(&pairs, 1 << 30), 1, 3000);
    assert_eq!(blocks(&all), blocks(&alone));
}

#[test]
fn iozone_visits_the_records_in_its_own_order() {
    let expected = fathom_base::classic_stream::iozone_order(50);
    let all = in_turn(&planned(&[("access", "iozone")], 50 * BLOCK), 1, 50);
    assert_eq!(blocks(&all), expected);
}

#[test]
fn sizes_differ_by_kind() {
    let pairs = [
        ("block_size", "4k"),
        ("write_block_size", "8k-32k"),
        ("trim_block_size", "64k"),
        ("write_fraction", "0.3"),
        ("trim_fraction", "0.2"),
        ("zero_fraction", "0.1"),
    ];
    for request in requests(&pairs, 1 << 20, 20_000, 0, 1) {
        let expected = match request.kind {
            Kind::Read => 4 << 10..=4 << 10,
            Kind::Write => 8 << 10..=32 << 10,
            Kind::Trim | Kind::Zero => 64 << 10..=64 << 10,
            Kind::SyncAll => 0..=0,
        };
        assert!(expected.contains(&request.size_bytes), "{request:?}");
        assert!(request.offset_bytes + u64::from(request.size_bytes) <= 1 << 20);
        assert!(request.offset_bytes % 4096 == 0);
    }
}

#[test]
fn what_does_not_exist_is_refused_with_the_reason() {
    let error = |pairs: &[(&str, &str)]| {
        plan(&job(pairs), 100 * BLOCK, 512, 1).map(|_| ()).expect_err("refused").to_string()
    };
    for (pairs, part) in [
        (&[("distribution", "zipf:11")][..], "distribution: zipf exponent 11 is out of range"),
        (&[("distribution", "pareto:1")], "pareto share 1 is out of range"),
        (&[("distribution", "normal:0%")], "normal deviation 0 % is out of range"),
        (&[("distribution", "zones:90/10,20/90")], "sum to 110 %, not 100 %"),
        (&[("distribution", "zones:50/0.1,50/99.9")], "holds no block"),
        (
            &[("access", "strided"), ("stride", "1M")],
            "stride=1 MiB is longer than the range of a thread, 400 KiB",
        ),
        (&[("access", "strided"), ("stride", "208k"), ("threads", "2")], "of a thread, 200 KiB;"),
        (&[("access", "strided"), ("stride", "6k")], "stride=6 KiB is not a multiple"),
        (&[("access", "sweep"), ("sweep_points", "101")], "out of range: 1 to 100"),
        (&[("distribution", "zipf:1"), ("span", "512")], "the range has 512 B"),
    ] {
        let text = error(pairs);
        assert!(text.contains(part), "{text}");
    }
    let records = plan(&job(&[("access", "iozone")]), 1 << 50, 512, 1);
    assert!(matches!(records, Err(PlanError::TooManyRecords { .. })));
}

#[test]
fn each_thread_keeps_to_its_own_file() {
    let of = |access: &str, more: &[(&str, &str)]| {
        let pairs = [("access", access), ("file_choice", "thread"), ("threads", "3")];
        in_turn(&planned(&[&pairs[..], more].concat(), 8 * BLOCK), 3, 30_000)
    };
    for access in ["sequential", "reverse", "shuffled", "iozone"] {
        let all = of(access, &[("amount", "96k")]);
        assert_once(&all, BLOCK, 3, 8);
        assert!(all.iter().all(|(thread, request)| *thread == request.file), "{access}");
        let order =
            |file| blocks(&all.iter().copied().filter(|(t, _)| *t == file).collect::<Vec<_>>());
        // Each child of iozone has the same order; by chance three orders of eight are not the same.
        assert_eq!(order(0) == order(1) && order(1) == order(2), access != "shuffled", "{access}");
    }
    let random = of("random", &[("write_fraction", "0.5")]);
    assert!(random.iter().all(|(thread, request)| *thread == request.file));
    assert_eq!(covered(&random, BLOCK).len(), 24, "every block of every file");
    let first =
        |file| blocks(&random.iter().copied().filter(|(t, _)| *t == file).collect::<Vec<_>>());
    assert_ne!(first(0)[..8], first(1)[..8]);
    // More threads than files, where psync takes the place of io_uring.
    let plan = planned(&[("file_choice", "thread"), ("threads", "2")], 8 * BLOCK);
    let file = |thread| Generator::new(&plan, thread, 6).next().expect("a request").file;
    assert_eq!((0..6).map(file).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1]);
}
