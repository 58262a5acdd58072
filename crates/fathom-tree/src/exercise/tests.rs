//! The exerciser against a filesystem that is right, a model that is wrong, and a file that somebody else changes.

use super::*;
use std::os::unix::fs::FileExt;

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let own: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Settings::parse(&own).unwrap()
}

fn exercised(seed: u64) -> (Exercised, File) {
    let file = tempfile::tempfile().unwrap();
    let other = file.try_clone().unwrap();
    (Exercised::new(file, Model::new(seed, 0, 1 << 18), 12).unwrap(), other)
}

#[test]
fn a_filesystem_that_is_right_passes_and_does_the_same_from_the_same_seed() {
    let scratch = fathom_testkit::Scratch::new().unwrap();
    let run = |seed| {
        let settings = settings(&[("operations", "400"), ("size", "256k")]);
        let (root, stop) = (SysRoot::live(), StopFlag::default());
        let mut exercise = Exercise {
            root: &root,
            state_dir: scratch.path(),
            run_id: "7f3k",
            seed,
            settings: &settings,
            stop: &stop,
            progress: &mut |_, _| {},
        };
        exercise.run(scratch.path()).unwrap()
    };
    let (one, again, other) = (run(1), run(1), run(2));
    assert!(one.wrong.is_empty(), "{:?}", one.wrong);
    assert_eq!((one.by_kind.clone(), one.bytes), (again.by_kind, again.bytes));
    assert_ne!(one.bytes, other.bytes);
    assert!(one.operations > 750, "{one:?}");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn more_than_half_of_the_free_memory_is_not_taken() {
    let scratch = fathom_testkit::Scratch::new().unwrap();
    let (system, dir) = (scratch.join("system"), scratch.join("files"));
    std::fs::create_dir_all(system.join("proc")).unwrap();
    std::fs::create_dir(&dir).unwrap();
    let meminfo = "MemTotal: 2097152 kB\nMemFree: 524288 kB\nMemAvailable: 1048576 kB\n";
    std::fs::write(system.join("proc/meminfo"), meminfo).unwrap();
    let run = |size: &str| {
        let settings = settings(&[("operations", "1"), ("files", "2"), ("size", size)]);
        let (root, stop) = (SysRoot::at(&system), StopFlag::default());
        let mut exercise = Exercise {
            root: &root,
            state_dir: scratch.path(),
            run_id: "7f3k",
            seed: 1,
            settings: &settings,
            stop: &stop,
            progress: &mut |_, _| {},
        };
        exercise.run(&dir)
    };
    let refused = run("64M").unwrap_err();
    assert!(refused.to_string().contains("memory"), "{refused}");
    assert_eq!(refused.class(), crate::error::TreeErrorClass::Missing);
    assert!(run("32M").unwrap().wrong.is_empty());
}

#[test]
fn a_wrong_model_is_found() {
    let (mut one, _) = exercised(3);
    for _ in 0..200 {
        one.step().unwrap();
    }
    let at = one.model().size_bytes() / 2;
    one.model().spoil(at);
    let Err(Broken::Different(found)) = one.finish() else { panic!("not found") };
    assert_eq!((found.offset_bytes, found.wrong_bytes), (at, 1));
    assert_eq!(found.expected[0] ^ found.found[0], 1);
    assert!(found.changed_by > 0 && found.changed_by <= 200);
}

#[test]
fn what_somebody_else_does_to_the_file_is_found() {
    let mut found = 0;
    for seed in 0..20 {
        let (mut one, file) = exercised(seed);
        for _ in 0..100 {
            one.step().unwrap();
        }
        let size = one.model().size_bytes();
        let is_cut = seed % 2 == 0;
        if is_cut {
            file.set_len(size + 1).unwrap();
        } else {
            let at = size / 3;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[!byte[0]], at).unwrap();
        }
        // At once it is always found.
        let is_at_once = seed < 10;
        let steps = if is_at_once { 0 } else { 200 };
        let broken = (0..steps).find_map(|_| one.step().err()).or_else(|| one.finish().err());
        match broken {
            Some(Broken::Size(expected, got)) if is_cut => assert_eq!(got, expected + 1),
            Some(Broken::Different(difference)) if !is_cut => assert_eq!(difference.wrong_bytes, 1),
            // What is overwritten before it is read is no error, and a truncation repairs the size.
            None if !is_at_once => continue,
            other => panic!("{other:?}"),
        }
        found += 1;
    }
    assert!(found >= 13, "{found}");
}

#[test]
fn settings_are_read_and_refused() {
    let short = settings(&[("operations", "5"), ("direct", "no"), ("files", "3")]);
    assert_eq!((short.operations, short.duration_ns, short.files), (Some(5), None, 3));
    assert_eq!(settings(&[]).duration_ns, Some(10_000_000_000));
    for (key, value, reason) in
        [("size", "1k", "4096"), ("direct", "maybe", "mix"), ("ops", "5", "operations")]
    {
        let error = Settings::parse(&[(key.into(), value.into())]).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}
