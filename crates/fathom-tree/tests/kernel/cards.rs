//! Cards that somebody else wrote.

use crate::kit::{Kit, paths_below, small};
use fathom_testkit::Capability::Root;
use fathom_testkit::{Scratch, Trial, kernel_test};
use fathom_tree::clean::find;
use fathom_tree::error::{TreeError, TreeErrorClass};
use fathom_tree::manifest::{CARD, DRAFT};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{chown, symlink};

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("tree_cards_that_lie_stop_nobody", &[], cards_that_lie),
        kernel_test("tree_cards_of_others_are_not_believed", &[Root], cards_of_others),
        kernel_test("tree_found_is_removed_where_it_was_found", &[], replaced_meanwhile),
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

/// A card of somebody else may say that there are four billion directories, or that what is there is fathom's: who removes does not
/// begin to look for them.
fn cards_of_others() {
    const NOBODY: u32 = 65_534;
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    drop(kit.build(&dir, small(100)).unwrap());
    let path = dir.join(CARD);
    let mut card: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let before = paths_below(&dir);
    card["extent"]["dirs"] = (1u64 << 32).into();
    fs::write(&path, serde_json::to_vec(&card).unwrap()).unwrap();
    chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    let untouched = fs::read(&path).unwrap();
    let refused = || {
        let error = kit.clean(&dir).unwrap_err();
        assert!(matches!(error, TreeError::SomebodyElses { .. }), "{error}");
        assert_eq!(error.class(), TreeErrorClass::Refused);
        error.to_string()
    };
    let text = refused();
    let cure = format!("setpriv --reuid={NOBODY} --clear-groups fathom clean {}", dir.display());
    assert!(text.contains("belongs to user 65534") && text.ends_with(&cure), "{text}");
    assert_eq!((paths_below(&dir), fs::read(&path).unwrap()), (before.clone(), untouched));
    // A card of who removes, that somebody could put here under a second name.
    chown(&path, Some(0), Some(0)).unwrap();
    fs::hard_link(&path, scratch.join("elsewhere")).unwrap();
    refused();
    assert_eq!(paths_below(&dir), before);
    fs::remove_file(scratch.join("elsewhere")).unwrap();
    assert_eq!(kit.clean(&dir).unwrap().files, 100);
}

/// Between looking and removing somebody puts another tree, or a link, in the place of one that was found: neither is touched.
fn replaced_meanwhile() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let (top, aside) = (scratch.join("top"), scratch.join("aside"));
    let (dir, precious) = (top.join("below/tree"), scratch.join("precious"));
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    drop(kit.build(&dir, small(50)).unwrap());
    drop(kit.build(&precious, small(30)).unwrap());
    let found = find::below(&top, &kit.stop, &mut |_| ()).unwrap();
    assert_eq!(found.trees.len(), 1);
    let is_replaced = |error: TreeError| {
        assert!(matches!(error, TreeError::Replaced(_)), "{error}");
        assert!(error.to_string().contains("nothing in it was touched"), "{error}");
        assert_eq!(error.class(), TreeErrorClass::Refused);
    };
    let all = paths_below(&precious);
    // Another tree under its name.
    fs::rename(&dir, &aside).unwrap();
    fs::rename(&precious, &dir).unwrap();
    is_replaced(kit.clean_found(&found).unwrap_err());
    assert_eq!(paths_below(&dir), all);
    // A link to it on the way.
    fs::rename(&dir, &precious).unwrap();
    fs::rename(top.join("below"), top.join("moved")).unwrap();
    fs::create_dir(scratch.join("linked")).unwrap();
    fs::rename(&precious, scratch.join("linked/tree")).unwrap();
    symlink(scratch.join("linked"), top.join("below")).unwrap();
    is_replaced(kit.clean_found(&found).unwrap_err());
    assert_eq!(paths_below(&scratch.join("linked/tree")), all);
    // The one above was moved as a whole: it is found where it is, and not what lies at its path by now.
    fs::remove_file(top.join("below")).unwrap();
    fs::rename(top.join("moved"), top.join("below")).unwrap();
    fs::rename(&aside, &dir).unwrap();
    fs::rename(&top, scratch.join("away")).unwrap();
    symlink(scratch.join("linked"), &top).unwrap();
    assert_eq!(kit.clean_found(&found).unwrap().files, 50);
    assert!(!scratch.join("away/below/tree").exists());
    assert_eq!(paths_below(&scratch.join("linked/tree")), all);
    assert_eq!(kit.clean(&scratch.join("linked/tree")).unwrap().files, 30);
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
