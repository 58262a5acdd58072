//! Tests of the order of trials: what each block holds, and that chance alone decides the rest.

use super::*;
use crate::{Unchecked, cells, read};

/// A plan with so many null cells, and whatever else is said.
fn plan(cells_count: usize, more: &str) -> (Plan, Vec<Cell>) {
    let levels: Vec<String> = (0..cells_count).map(|n| n.to_string()).collect();
    let text = format!(
        "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"seeker\"\n[factors]\nnull = [{}]\n{more}",
        levels.join(",")
    );
    made(&text)
}

#[track_caller]
fn made(text: &str) -> (Plan, Vec<Cell>) {
    let plan = read(text, "x", &Unchecked).unwrap_or_else(|error| panic!("{error}"));
    let cells = cells(&plan).expect("cells");
    (plan, cells)
}

fn measured(slots: &[Slot]) -> Vec<u32> {
    slots.iter().filter(|slot| !slot.is_sentinel).map(|slot| slot.cell).collect()
}

#[test]
fn every_block_has_every_cell_once_and_stands_by_itself() {
    let (plan, cells) = plan(7, "[design]\nsentinel = true");
    let all = order(&plan, &cells, 42, 0..50);
    for block in 0..50 {
        let slots: Vec<Slot> = all.iter().copied().filter(|slot| slot.block == block).collect();
        assert_eq!(order(&plan, &cells, 42, block..block + 1), slots, "block {block} alone");
        let mut found = measured(&slots);
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 6]);
        let places: Vec<u32> = slots.iter().map(|slot| slot.place).collect();
        assert_eq!(places, (0..10).collect::<Vec<u32>>());
        let sentinels: Vec<u32> =
            slots.iter().filter(|slot| slot.is_sentinel).map(|slot| slot.place).collect();
        assert_eq!(sentinels, [0, 4, 9], "start, middle, end");
        assert!(slots.iter().filter(|slot| slot.is_sentinel).all(|slot| slot.cell == 0));
    }
    assert_ne!(order(&plan, &cells, 43, 0..50), all, "another seed");
    assert_eq!(all, order(&plan, &cells, 42, 0..50));
}

/// Chi-square of counts that should be equal.
fn chi_square(counts: &[u32]) -> f64 {
    let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
}

#[test]
fn all_orders_are_equally_likely() {
    // 4! = 24 orders, 23 degrees of freedom: above 52 in one of 2,000 seeds; the seed is fixed.
    let (plan, cells) = plan(4, "");
    let mut counts = std::collections::BTreeMap::new();
    for block in 0..24_000 {
        let found = measured(&order(&plan, &cells, 7, block..block + 1));
        *counts.entry(found).or_insert(0u32) += 1;
    }
    let counts: Vec<u32> = counts.into_values().collect();
    assert_eq!(counts.len(), 24);
    assert!(chi_square(&counts) < 52.0, "{}", chi_square(&counts));
}

#[test]
fn each_cell_has_each_place_equally_often() {
    let (plan, cells) = plan(12, "[design]\nsentinel = false");
    let slots = order(&plan, &cells, 3, 0..12_000);
    let mut counts = vec![0u32; 144];
    for slot in &slots {
        counts[(slot.cell * 12 + slot.place) as usize] += 1;
    }
    // Rows and columns are fixed: 121 degrees of freedom, above 178 in one of 2,000 seeds.
    assert!(chi_square(&counts) < 178.0, "{}", chi_square(&counts));
    // And neighbours are no fixed pairs.
    let mut followers = vec![0u32; 144];
    for pair in slots.windows(2).filter(|pair| pair[0].block == pair[1].block) {
        followers[(pair[0].cell * 12 + pair[1].cell) as usize] += 1;
    }
    let pairs: Vec<u32> = followers.into_iter().filter(|count| *count > 0).collect();
    assert_eq!(pairs.len(), 132, "every cell follows every other one");
    assert!(chi_square(&pairs) < 192.0, "{}", chi_square(&pairs));
}

const ARRAYS: &str = "question = \"?\"\n[[workload]]\nuse = \"randread\"\n[setup]\ndevices = [\"4 x loop:1G\"]\n\
    [factors]\narray.level = [\"raid0\", \"raid5\", \"raid6\"]\nblock.read_ahead_kb = [0, 64, 128, 256]\n";

#[test]
fn cells_of_one_setup_stand_together() {
    let (plan, cells) = made(ARRAYS);
    assert!(plan.design.groups_setups && plan.design.has_sentinel);
    let (mut firsts, mut orders) = (vec![0u32; 3], std::collections::BTreeSet::new());
    for block in 0..3_000 {
        let slots = order(&plan, &cells, 11, block..block + 1);
        let found = measured(&slots);
        let setups: Vec<u32> = found.iter().map(|cell| cell / 4).collect();
        let changes = setups.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 2, "three groups: {setups:?}");
        firsts[setups[0] as usize] += 1;
        orders.insert(found[..4].iter().map(|cell| cell % 4).collect::<Vec<u32>>());
        let sentinels: Vec<u32> =
            slots.iter().filter(|slot| slot.is_sentinel).map(|slot| slot.place).collect();
        assert!(sentinels == [0, 5, 14] || sentinels == [0, 9, 14], "{sentinels:?}");
    }
    assert!(chi_square(&firsts) < 15.2, "groups in random order: {firsts:?}");
    assert_eq!(orders.len(), 24, "cells in random order within their group");
    let free = ARRAYS.to_owned() + "[design]\ngroup_setups = false\nsentinel = false";
    let (plan, cells) = made(&free);
    let slots = order(&plan, &cells, 11, 0..1);
    assert!(slots.windows(2).filter(|pair| pair[0].cell / 4 != pair[1].cell / 4).count() > 2);
}

#[test]
fn boots_alternate_and_each_has_its_sentinel() {
    let (plan, cells) = made(
        "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nuse = \"seeker\"\n[factors]\nboot.mitigations = [\"on\", \"off\"]\n\
         null = [1, 2, 3, 4]\n[design]\nblocks = 6",
    );
    let slots = order(&plan, &cells, 5, 0..6);
    let boots: Vec<u32> = slots.iter().map(|slot| slot.cell / 4).collect();
    let changes = boots.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(changes, 6, "one boot for each block, not two");
    for block in 0..6 {
        let of_block: Vec<&Slot> = slots.iter().filter(|slot| slot.block == block).collect();
        let mut found: Vec<u32> =
            of_block.iter().filter(|slot| !slot.is_sentinel).map(|slot| slot.cell).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7]);
        let of_boot = |boot: u32| {
            let own = of_block.iter().filter(move |slot| slot.cell / 4 == boot);
            own.filter(|slot| slot.is_sentinel).map(|slot| slot.cell).collect::<Vec<u32>>()
        };
        assert_eq!((of_boot(0), of_boot(1)), (vec![0; 3], vec![4; 3]));
    }
}

#[test]
fn impossible_cells_are_never_measured() {
    let (plan, cells) = made(
        "question = \"?\"\n[[workload]]\nuse = \"randread\"\n[setup]\ndevices = [\"4 x loop:1G\"]\narray.state = \"normal\"\n\
         [factors]\narray.level = [\"raid0\", \"raid5\"]\narray.layout = [\"left-symmetric\", \"left-asymmetric\"]",
    );
    let reasons: Vec<Option<&str>> = cells.iter().map(|cell| cell.impossible.as_deref()).collect();
    assert_eq!(
        reasons,
        [
            None,
            Some("raid0 has no layouts to choose from; measured once, with the first level"),
            None,
            None
        ]
    );
    let mut found = measured(&order(&plan, &cells, 1, 0..1));
    found.sort_unstable();
    assert_eq!(found, [0, 2, 3]);
}

#[test]
fn places_make_latin_squares() {
    let workload = |label: &str, offset: u32| {
        format!(
            "[[workload]]\nuse = \"randread\"\nlabel = \"{label}\"\noffset = \"{offset}%\"\nspan = \"20%\"\n"
        )
    };
    let jobs: String = [("a", 0), ("b", 30), ("c", 60)].map(|(l, o)| workload(l, o)).concat();
    let (plan, cells) = made(&format!(
        "question = \"?\"\ntarget = \"/srv\"\ntogether = true\n{jobs}[factors]\nworkload.a.io_priority = [\"be/0\", \"be/7\"]\n\
         [design]\nrotate = true"
    ));
    for cell in &cells {
        for square in 0..20 {
            let mut seen = Vec::new();
            for block in square * 3..square * 3 + 3 {
                let workloads = workloads_in(&plan, cell, 9, block);
                let offsets: Vec<String> =
                    workloads.iter().map(|workload| workload.settings["offset"].clone()).collect();
                let mut sorted = offsets.clone();
                sorted.sort();
                assert_eq!(sorted, ["0%", "30%", "60%"], "each place has one workload");
                seen.extend(offsets.into_iter().enumerate());
                // Everything else stays where it was.
                assert_eq!(workloads[0].settings["io_priority"], cell.levels[0].1);
                assert_eq!(workloads[0].label, "a");
            }
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), 9, "each workload has each place once");
        }
    }
}
