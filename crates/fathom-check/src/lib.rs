//! What a storage expert would say on looking at a machine: pure rules from a [`Snapshot`] to [`Defect`]s.
//!
//! Nothing here reads the system. A rule looks at one thing; its page under `pages/` says what that is, why it matters,
//! how it is recognised, how it is mended, what that risks, where the rule comes from and how it was tested.

pub mod alignment;
pub mod anonymise;
pub mod array;
pub mod array_map;
mod conditions;
mod content;
pub mod describe;
pub mod dm;
mod elsewhere;
#[cfg(test)]
mod fixtures;
pub mod glossary;
mod images;
pub mod known;
pub mod measuring;
pub mod rule;
pub mod rules;
pub mod scene;
pub mod tree;
mod unify;

pub use describe::one_line;
pub use measuring::{Surroundings, cache_bytes_assumed, judge};
pub use rule::{Proof, Rule};
pub use scene::Scene;
pub use tree::{forest, ordered_tops, tree};

use fathom_model::defect::Defect;
use fathom_model::snapshot::Snapshot;

/// Everything that the rules find, the gravest first; one cause is told once, on the layer that causes it.
#[must_use]
pub fn check(snapshot: &Snapshot) -> Vec<Defect> {
    let scene = Scene::new(snapshot);
    let found = rules::all().flat_map(|rule| (rule.check)(&scene));
    let found = found.map(|defect| elsewhere::told(&scene, defect)).collect();
    unify::one_for_each_cause(&scene, found)
}
