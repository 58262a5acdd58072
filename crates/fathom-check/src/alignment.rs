//! Where a byte of a layer lies on the layers below, down to the physical blocks and up to the stripes of arrays.
//!
//! Below a start (a filesystem, a volume, a partition) each layer shifts its addresses or deals them out in chunks. What
//! begins and ends on multiples of M at the top does so in a layer below exactly when the shifts add up to a multiple of
//! M and all borders of chunks on the way lie on multiples of M at the top; [`Position`] keeps just that. Where arrays
//! lie on arrays, rows of one may beat with those of the other so that a disk never meets a border: the disks of an array
//! are told alike all the same, by the worst of them. Stripes are tested in the array's own addresses; the offset of the
//! data on its members matters only for what lies below these.

pub(crate) mod maps;
#[cfg(test)]
mod oracle_tests;
mod position;
#[cfg(test)]
mod tests;

pub use position::{Fit, Position};

use crate::array::Striping;
use crate::rules::geometry::{
    BLOCK_BYTES_MAX, SMALL_BLOCKS_FROM_BYTES, SMALL_PARTITION_BYTES, carries_load,
};
use crate::scene::Scene;
use fathom_base::units::format_size;
use fathom_model::stack::{FsFacts, NodeKind};
use maps::{Below, Place};

/// Layers below each other; real stacks have fewer than ten.
const DEPTH_MAX: usize = 32;
/// Ways from one start to disks that are looked at.
const ROUTES_MAX: usize = 4096;

/// The question whose answer depends on the size of blocks, not on where they begin.
const BLOCK: &str = "block of the filesystem";

/// One question to a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What has to fit: `physical block`, `full stripe`, ...
    pub unit: &'static str,
    /// Its size.
    pub modulus_bytes: u64,
    /// Where the units begin: the `alignment_offset` of drives that are off by themselves, else 0.
    pub origin_bytes: u64,
    /// Bytes that lie over; 0 where it fits.
    pub remainder_bytes: u64,
    /// The answer.
    pub fit: Fit,
}

/// One layer on the way down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The layer's name, such as `/dev/md0`.
    pub layer: String,
    /// How it was reached, such as `data offset on the member`; empty at the start.
    pub through: String,
    /// Byte of this layer where byte 0 of the start lies.
    pub offset_bytes: i128,
    /// Chunks on the way so far cut on multiples of this, in the start's addresses; 0 for no cuts.
    pub cut_bytes: u64,
    /// The byte is known but for multiples of this, as the blocks of a file lie anywhere; 0 where it is known.
    pub loose_bytes: u64,
    /// What was asked.
    pub checks: Vec<Check>,
}

/// A way from the start to one disk, with others that are just like it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// From the top down.
    pub steps: Vec<Step>,
    /// Disks or members at the end of other ways with the same answers.
    pub alike: Vec<String>,
    /// False where it ends in a layer whose addresses are not known.
    pub is_whole: bool,
    /// False where no finding tells of a wrong start: of small partitions that nothing uses.
    pub is_told: bool,
}

impl Route {
    /// The worst answer of all steps.
    #[must_use]
    pub fn fit(&self) -> Fit {
        let least = if self.is_whole { Fit::Aligned } else { Fit::Unknown };
        let checks = self.steps.iter().flat_map(|step| &step.checks);
        checks.map(|check| check.fit).fold(least, Fit::max)
    }

    /// What people are told of it. Blocks that are too small are no wrong start: they are found by a rule of their own, from a size on.
    fn verdict(&self) -> String {
        let checks = || self.steps.iter().flat_map(|step| &step.checks);
        let is_small = |check: &&Check| check.unit == BLOCK && check.fit == Fit::Misaligned;
        let Some(small) = checks().find(is_small) else { return self.told(self.fit()) };
        let least = if self.is_whole { Fit::Aligned } else { Fit::Unknown };
        let rest = checks().filter(|check| check.unit != BLOCK);
        format!(
            "{}, but blocks of {} B are smaller than the drive's of {} B (a finding on ext2-4 and XFS from {} on: \
             fs-block-below-physical)",
            self.told(rest.map(|check| check.fit).fold(least, Fit::max)),
            small.remainder_bytes,
            small.modulus_bytes,
            format_size(SMALL_BLOCKS_FROM_BYTES),
        )
    }

    fn told(&self, fit: Fit) -> String {
        if self.is_told || fit != Fit::Misaligned {
            return fit.word().to_owned();
        }
        let small = format_size(SMALL_PARTITION_BYTES);
        format!("{} (no finding below {small}, as nothing uses it)", fit.word())
    }

    /// What makes ways alike: everything but the names.
    fn answers(&self) -> impl Iterator<Item = (&[Check], i128)> {
        self.steps.iter().map(|step| (step.checks.as_slice(), step.offset_bytes))
    }
}

/// All ways from a node to the disks below, with every test on them: for `fathom check --alignment`.
#[must_use]
pub fn explain(scene: &Scene<'_>, index: usize) -> Vec<Route> {
    let is_told = carries_load(scene, index);
    let mut walk = Walk { scene, fs: None, is_told, routes: Vec::new() };
    let start = scene.node(index);
    let start = match start.kind {
        NodeKind::Mount => scene.below(index).next().map_or(index, |(fs, _)| fs),
        _ => index,
    };
    walk.fs = scene.node(start).fs.as_ref();
    walk.down(start, Position::TOP, String::new(), &mut Vec::new());
    // Volumes begin behind the label and metadata of LVM, which a member of an array shows as the array does.
    let content = scene.node(start).details().content.as_ref();
    let lvm = content.filter(|content| content.md.is_none()).and_then(|c| c.lvm.as_ref());
    if let Some(bytes) = lvm.and_then(|lvm| lvm.extents_start_bytes) {
        let words = format!("extents begin at byte {bytes}");
        walk.down(start, Position::at(bytes), words, &mut Vec::new());
    }
    let mut routes: Vec<Route> = Vec::new();
    for mut route in walk.routes {
        match routes.iter_mut().find(|known| known.answers().eq(route.answers())) {
            Some(known) => known.alike.extend(route.steps.pop().map(|step| step.layer)),
            None => routes.push(route),
        }
    }
    routes
}

struct Walk<'a, 's> {
    scene: &'s Scene<'a>,
    fs: Option<&'a FsFacts>,
    is_told: bool,
    routes: Vec<Route>,
}

impl Walk<'_, '_> {
    fn down(&mut self, index: usize, at: Position, through: String, steps: &mut Vec<Step>) {
        let node = self.scene.node(index);
        steps.push(Step {
            layer: node.label().to_owned(),
            through,
            offset_bytes: at.shift_bytes,
            cut_bytes: at.cut_bytes,
            loose_bytes: at.loose_bytes,
            checks: self.checks(index, at),
        });
        let is_deep = steps.len() >= DEPTH_MAX;
        match maps::below(self.scene, index) {
            Below::Places(places) if !places.is_empty() && !is_deep => {
                for place in places {
                    let next = at.through(&place);
                    self.down(place.below, next, place.words, steps);
                }
            }
            below if self.routes.len() < ROUTES_MAX => {
                let (alike, is_whole) = (Vec::new(), below == Below::End);
                let (steps, is_told) = (steps.clone(), self.is_told);
                self.routes.push(Route { steps, alike, is_whole, is_told });
            }
            _ => {}
        }
        steps.pop();
    }

    fn checks(&self, index: usize, at: Position) -> Vec<Check> {
        let node = self.scene.node(index);
        let mut checks = Vec::new();
        if let Some(striping) = Striping::of(node) {
            let unit = if striping.parity { "full stripe" } else { "chunk" };
            checks.push(at.check(unit, striping.start_unit_bytes(), 0));
            checks.extend(self.fs.and_then(|fs| stripe_check(fs, &striping)));
        }
        if matches!(maps::below(self.scene, index), Below::End)
            && let Some((physical, minimum)) = maps::granularity(node)
        {
            let origin = maps::origin_bytes(node);
            checks.push(at.check("physical block", physical, origin));
            if minimum > physical {
                checks.push(at.check("smallest preferred I/O", minimum, origin));
            }
            let block = self.fs.and_then(|fs| fs.block_bytes);
            // Blocks above 4 KiB are no filesystem's that finds them too small.
            let wanted = physical.min(BLOCK_BYTES_MAX);
            checks.extend(block.map(|block| multiple(BLOCK, block, wanted)));
        }
        checks
    }
}

/// The filesystem's own idea of the stripe against the array's.
fn stripe_check(fs: &FsFacts, striping: &Striping) -> Option<Check> {
    let width = fs.stripe_width_bytes.filter(|&width| width > 0)?;
    Some(multiple("stripe that the filesystem knows", width, striping.full_stripe_bytes()))
}

fn multiple(unit: &'static str, size_bytes: u64, modulus_bytes: u64) -> Check {
    let remainder_bytes = size_bytes % modulus_bytes.max(1);
    let fit = if remainder_bytes == 0 { Fit::Aligned } else { Fit::Misaligned };
    Check { unit, modulus_bytes, origin_bytes: 0, remainder_bytes, fit }
}

/// Every layer that deals out its addresses below a place, with where the start lies on it.
pub(crate) fn stripes_below(
    scene: &Scene<'_>,
    index: usize,
    at: Position,
) -> Vec<(usize, Striping, Position)> {
    layers_below(scene, index, at, |index| Striping::of(scene.node(index)))
}

/// Every disk below a place that tells its physical blocks, with their size and origin and where the start lies on it.
pub(crate) fn disks_below(
    scene: &Scene<'_>,
    index: usize,
    at: Position,
) -> Vec<(usize, (u64, u64), Position)> {
    layers_below(scene, index, at, |index| {
        let node = scene.node(index);
        let (physical, _) = maps::granularity(node)?;
        let is_end = matches!(maps::below(scene, index), Below::End);
        is_end.then(|| (physical, maps::origin_bytes(node)))
    })
}

/// Every layer below a place of which `fact` says something, each place on it once.
fn layers_below<F: PartialEq>(
    scene: &Scene<'_>,
    index: usize,
    at: Position,
    fact: impl Fn(usize) -> Option<F>,
) -> Vec<(usize, F, Position)> {
    let mut found: Vec<(usize, F, Position)> = Vec::new();
    let mut pending = vec![(index, at, 0)];
    while let Some((index, at, depth)) = pending.pop() {
        if depth > DEPTH_MAX || found.len() > ROUTES_MAX {
            break;
        }
        if let Some(fact) = fact(index) {
            let here = (index, fact, at);
            if !found.contains(&here) {
                found.push(here);
            }
        }
        if let Below::Places(places) = maps::below(scene, index) {
            let mut next: Vec<(usize, Position, usize)> = Vec::new();
            for place in places {
                let step = (place.below, at.through(&place), depth + 1);
                if !next.contains(&step) {
                    next.push(step);
                }
            }
            pending.extend(next);
        }
    }
    found
}

/// The first layer below that deals out its addresses, where a single way of mere shifts leads to it: what a filesystem
/// on the node should be made for. None where several such layers are mixed, or where files or thin chunks lie between.
pub(crate) fn stripe_under(scene: &Scene<'_>, index: usize) -> Option<(usize, Striping)> {
    let mut index = index;
    for _ in 0..DEPTH_MAX {
        if let Some(striping) = Striping::of(scene.node(index)) {
            return Some((index, striping));
        }
        let Below::Places(places) = maps::below(scene, index) else { return None };
        let first = places.first()?;
        let mere_shift = |place: &Place| place.cut.is_none() && place.loose_bytes == 0;
        let copies = places.iter().all(|place| place.shift_bytes == first.shift_bytes);
        let one = places.iter().all(|place| place.below == first.below);
        if !places.iter().all(mere_shift) || !(one || copies) {
            return None;
        }
        index = first.below;
    }
    None
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.layer)?;
        match self.through.as_str() {
            "" => write!(f, ": the start")?,
            words if self.loose_bytes > 0 => {
                let over = self.offset_bytes.rem_euclid(i128::from(self.loose_bytes));
                let behind = if over > 0 { format!("{over} B behind") } else { "on".to_owned() };
                write!(
                    f,
                    ": {words}; the start lies {behind} a multiple of {} B",
                    self.loose_bytes
                )?;
            }
            words => write!(f, ": {words}; the start lies at byte {}", self.offset_bytes)?,
        }
        if self.cut_bytes > 0 {
            write!(f, ", cut every {}", format_size(self.cut_bytes))?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { unit, modulus_bytes, origin_bytes, remainder_bytes, fit } = self;
        write!(f, "{unit}, modulo {modulus_bytes} B")?;
        if *origin_bytes > 0 {
            write!(f, " counted from byte {origin_bytes}")?;
        }
        write!(f, ": remainder {remainder_bytes}, {}", fit.word())
    }
}

/// The ways as lines for people, two blanks for each layer further down.
#[must_use]
pub fn lines(routes: &[Route]) -> Vec<String> {
    let mut lines = Vec::new();
    for route in routes {
        for (depth, step) in route.steps.iter().enumerate() {
            let indent = "  ".repeat(depth);
            lines.push(format!("{indent}{step}"));
            lines.extend(step.checks.iter().map(|check| format!("{indent}    {check}")));
        }
        if !route.alike.is_empty() {
            lines.push(format!("the same holds for {}", route.alike.join(", ")));
        }
        lines.push(format!("verdict: {}", route.verdict()));
    }
    lines
}
