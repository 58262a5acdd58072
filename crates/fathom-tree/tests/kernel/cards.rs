//! Cards that somebody else wrote.

use crate::kit::{Kit, paths_below, small};
use fathom_testkit::{Scratch, Trial, kernel_test};
use fathom_tree::error::{TreeError, TreeErrorClass};
use fathom_tree::manifest::{CARD, DRAFT};
use serde_json::{Value, json};
use std::fs;

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("tree_cards_that_lie_stop_nobody", &[], cards_that_lie),
        kernel_test("tree_begun_in_an_empty_directory_is_gone_on_with", &[], only_begun),
    ]
}

/// Anybody can write a card into a directory of his: what cannot be is refused, and what is not there is not looked for.
fn cards_that_lie() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    drop(kit.build(&dir, small(100)).unwrap());
    let path = dir.join(CARD);
    let card: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let forge = |pointer: &str, value: Value| {
        let mut forged = card.clone();
        *forged.pointer_mut(pointer).unwrap() = value;
        fs::write(&path, serde_json::to_vec(&forged).unwrap()).unwrap();
    };
    let empty = || json!({ "table": [] });
    for (pointer, value) in [
        ("/spec/fan_out", json!(0)),
        ("/spec/fan_out", json!(u64::MAX)),
        ("/spec/files_per_directory", empty()),
        ("/spec/files_per_directory", json!({ "fixed": 0 })),
        ("/spec/sizes", empty()),
        ("/spec/name_bytes", json!([])),
        ("/extent/dirs", json!(0)),
        ("/extent/dirs", json!(u64::MAX)),
        ("/extent/files", json!(u64::MAX)),
        ("/extent/last_files", json!(u64::MAX)),
        ("/extent/times", json!(0)),
        ("/stamp_step_ns", json!(i64::MAX)),
    ] {
        forge(pointer, value.clone());
        let refused = kit.clean(&dir).map_err(|error| error.class());
        assert_eq!(refused, Err(TreeErrorClass::Refused), "{pointer} {value}");
    }
    let mut deep = card.clone();
    deep["spec"]["fan_out"] = 1.into();
    deep["extent"]["dirs"] = (1u64 << 32).into();
    fs::write(&path, serde_json::to_vec(&deep).unwrap()).unwrap();
    assert!(kit.clean(&dir).is_err());
    assert_eq!(paths_below(&dir).len() as u64, 100 + card["extent"]["dirs"].as_u64().unwrap());
    // Four billion directories of which a few are there.
    forge("/extent/dirs", json!(1u64 << 32));
    let cleaned = kit.clean(&dir).unwrap();
    assert!(cleaned.files == 100 && !dir.exists(), "{cleaned:?}");
}

/// A build that was killed before its card was whole leaves the beginning of one in a directory that was there before.
fn only_begun() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    fs::create_dir(&dir).unwrap();
    let draft = dir.join(DRAFT);
    fs::write(&draft, "notes").unwrap();
    assert!(matches!(kit.build(&dir, small(10)), Err(TreeError::NotEmpty { .. })));
    assert_eq!((fs::read_to_string(&draft).unwrap().as_str(), kit.noted()), ("notes", 0));
    for begin in ["", "{\n  \"for", "{\n  \"format\": 1,\n  \"run_id\""] {
        fs::write(&draft, begin).unwrap();
        drop(kit.build(&dir, small(10)).unwrap());
        assert_eq!(kit.clean(&dir).unwrap().files, 10);
        assert_eq!(paths_below(&dir).len(), 0, "it was there before and is empty");
    }
}
