//! Random sequences of settings, then everything back.

use crate::machine::{Journal, assert_same, on_device, scope_device, state};
use fathom_base::prng::Prng;
use fathom_knobs::knob::{Group, Knob, Values};
use fathom_knobs::legal::listed;
use fathom_knobs::{KnobError, Undo, all};
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::{LoopDevice, counted, sample};

/// Seed of the first sequence.
const SEED: u64 = 0x006b_6e6f_6273;

fn pick<'a, T>(prng: &mut Prng, from: &'a [T]) -> &'a T {
    &from[usize::try_from(prng.below(from.len() as u64)).unwrap()]
}

fn value(prng: &mut Prng, knob: &Knob, device: &LoopDevice) -> Option<String> {
    let number = |prng: &mut Prng, min: i64, max: i64| {
        let span = u64::try_from(max.min(4096).max(min) - min + 1).unwrap();
        (min + i64::try_from(prng.below(span)).unwrap()).to_string()
    };
    match knob.values {
        Values::Switch => Some(number(prng, 0, 1)),
        Values::Number(min, max) => Some(number(prng, min, max)),
        Values::UpTo(min, _) => Some(number(prng, min, 1280)),
        Values::Requests => Some(number(prng, 4, 128)),
        Values::Words(words) => Some((*pick(prng, words)).to_owned()),
        Values::Listed => {
            let words = listed(&SysRoot::live(), &scope_device(device).place(), knob);
            Some(pick(prng, &words).clone())
        }
        _ => None,
    }
}

/// Up to three cells of up to five settings each; each cell is one change, all are taken back at the end.
pub fn sequences() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let before = state(&device);
    let known: Vec<&Knob> = all()
        .iter()
        .filter(|knob| knob.is_set() && matches!(knob.group, Group::Queue | Group::Bdi))
        .collect();
    let rounds = sample(200, 5000);
    let mut applied = 0;
    for round in 0..rounds {
        let seed = SEED + round as u64;
        let mut prng = Prng::new(seed, 0);
        let mut journal = Journal::new();
        for _ in 0..1 + prng.below(3) {
            let mut cell: Vec<(&str, String)> = Vec::new();
            for _ in 0..1 + prng.below(5) {
                let knob = pick(&mut prng, &known);
                if let Some(value) = value(&mut prng, knob, &device)
                    && cell.iter().all(|(id, _)| *id != knob.id)
                {
                    cell.push((knob.id, value));
                }
            }
            let pairs: Vec<(&str, &str)> =
                cell.iter().map(|(id, value)| (*id, value.as_str())).collect();
            let scheduler = pairs.iter().copied().filter(|(id, _)| *id == "block.scheduler");
            let with_scheduler = |pair: &(&str, &str)| {
                let mut both: Vec<(&str, &str)> = scheduler.clone().collect();
                both.extend((pair.0 != "block.scheduler").then_some(*pair));
                on_device(&device, &both).is_ok()
            };
            let pairs: Vec<(&str, &str)> = pairs.iter().copied().filter(with_scheduler).collect();
            // What the kernel refuses, or takes otherwise because two settings say the same, is taken back like the rest.
            let Ok(settings) = on_device(&device, &pairs) else { continue };
            match journal.apply(&settings) {
                Ok(_) => applied += 1,
                Err(KnobError::Write { .. } | KnobError::NotTaken { .. }) => {}
                Err(error) => panic!("seed {seed:#x}: {pairs:?}: {error}"),
            }
        }
        let outcomes = journal.undo_all(false);
        assert!(outcomes.iter().all(Undo::is_done), "seed {seed:#x}: {outcomes:?}");
        assert_same(&before, &state(&device), &format!("seed {seed:#x}"));
    }
    counted("random sequences of settings put back", rounds);
    assert!(applied > rounds, "{applied} of {rounds}");
}
