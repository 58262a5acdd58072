//! An experiment as the laboratory stores it.

use crate::common::{START_NS, head, record, writer};
use crate::plans::plan;
use fathom_model::change::knob::KnobPlace;
use fathom_model::plan::cell::{CellRecord, KnobReading, Slot};
use fathom_model::record::Ending;

/// An experiment: two factors of two levels, two blocks.
pub fn experiment(store: &mut fathom_store::Store, id: &str) {
    store
        .begin_experiment(&head(id, START_NS + 1), &writer(), &plan("which-scheduler"))
        .expect("begins");
    for trial in 0..8u32 {
        let cell = trial % 4;
        let mut record = record("mix", u64::from(trial));
        let scheduler = ["none", "bfq"][(cell % 2) as usize];
        let levels =
            [("scheduler", scheduler), ("readahead", ["128", "4096"][(cell / 2) as usize])];
        let levels: Vec<(String, String)> =
            levels.iter().map(|(f, l)| ((*f).to_owned(), (*l).to_owned())).collect();
        record.cell = Some(Box::new(CellRecord {
            slot: Slot { block: trial / 4, place: cell, cell, is_sentinel: false },
            levels,
            workload: "mix".into(),
            knobs: vec![KnobReading {
                knob: "block.scheduler".into(),
                place: KnobPlace::Device { id: "wwn-x".into(), name: "sda".into() },
                asked: scheduler.into(),
                found: None,
                before: Some(scheduler.into()),
                after: Some(scheduler.into()),
            }],
            setup: Vec::new(),
            remarks: Vec::new(),
            capacity: None,
            void: None,
            prepare_ns: 2_000_000_000,
            boot_id: None,
            application: std::collections::BTreeMap::new(),
            output: String::new(),
            is_part: false,
        }));
        store.add_trial(id, &record).expect("adds");
    }
    store
        .finish_run(
            id,
            Ending::Complete,
            fathom_model::finding::Verdict::Trusted,
            &[],
            START_NS + 90_000_000_000,
        )
        .expect("ends");
}
