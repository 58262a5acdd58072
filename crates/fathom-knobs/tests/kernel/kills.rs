//! A process that is killed before and after each thing it does leaves nothing that the next one cannot put back.

use crate::child;
use crate::machine::{assert_same, scope_device, state, vm_state};
use fathom_testkit::{LoopDevice, counted, is_soak};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn everything(device: &LoopDevice) -> BTreeMap<String, String> {
    state(device).into_iter().chain(vm_state()).collect()
}

fn points(list: &Path) -> Vec<String> {
    let text = fs::read_to_string(list).unwrap();
    text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

/// At every place, while it sets and while it takes back; then the one that takes back is killed too, at each of its places in
/// turn, until one gets through.
pub fn anywhere() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let actor = scope_device(&device);
    let before = everything(&device);
    let list = dir.path().join("points");
    assert!(child::run(dir.path(), &actor, &format!("list:{}", list.display())).success());
    assert_same(&before, &everything(&device), "nobody is killed");
    let points = points(&list);
    assert!(points.len() > 40, "{points:?}");
    let mut kills: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, name) in points.iter().enumerate() {
        let number = index + 1;
        let status = child::run(dir.path(), &actor, &format!("kill:{number}"));
        assert!(!status.success(), "{number} {name}: not killed");
        *kills.entry(name).or_default() += 1;
        // The one that restores dies as well, a little later each time: each starts anew. Where it dies first moves on with
        // the place, so that all come to pass.
        let step = if is_soak() { 1 } else { 7 };
        let mut deaths = 0;
        while !child::run(dir.path(), &actor, &format!("kill:{}", 2 + index % step + deaths * step))
            .success()
        {
            deaths += 1;
            *kills.entry("while restoring").or_default() += 1;
            assert!(deaths < 200, "{number} {name}: never done");
        }
        assert_same(&before, &everything(&device), &format!("killed at {number}: {name}"));
        let left = fs::read_dir(dir.path().join("changes")).unwrap().count();
        assert_eq!(left, 0, "{number} {name}: a journal is left");
    }
    for (name, count) in &kills {
        println!("  killed {count:3} x {name}");
    }
    counted("processes killed while they set or restored knobs", kills.values().sum::<usize>());
}
