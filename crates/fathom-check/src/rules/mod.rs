//! All rules, by what they look at.

pub mod arrays;
pub mod disks;
mod drives;
pub mod filesystems;
pub mod geometry;
pub mod host;
pub mod links;
pub mod measured;
#[cfg(test)]
mod ordinary_tests;
pub mod paths;
pub mod queues;
mod shared;
pub mod vendor;
pub mod volumes;

pub use drives::heads_move;
pub(crate) use shared::drives as drives_under;

use crate::rule::Rule;

/// Every rule there is.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    let groups: [&'static [Rule]; 11] = [
        geometry::RULES,
        arrays::RULES,
        volumes::RULES,
        paths::RULES,
        disks::RULES,
        links::RULES,
        queues::RULES,
        filesystems::RULES,
        host::RULES,
        vendor::RULES,
        measured::RULES,
    ];
    groups.into_iter().flatten()
}

/// The rule of this name.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Rule> {
    all().find(|rule| rule.id == id)
}
