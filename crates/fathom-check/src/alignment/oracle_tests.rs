//! The calculation against brute force: random stacks are simulated sector by sector, by address maps that were written
//! down apart from the code under test, and every piece of every request is looked at.

use super::*;
use crate::fixtures::Bench;
use fathom_model::stack::NodeKind;
use proptest::prelude::*;

/// Sectors of each simulated disk, and of the top that are looked at.
const DISK_SECTORS: u64 = 480;
const TOP_SECTORS: u64 = 2400;
const SECTOR_BYTES: u64 = 512;
/// Units that are asked for, in sectors; all divide 48, and so do the seams of volumes of two pieces.
const UNITS: [u64; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
const SEAM_SECTORS: u64 = 96;

/// A layer as the simulation sees it.
#[derive(Debug, Clone)]
enum Sim {
    Disk {
        name: usize,
    },
    /// Partition, encryption or a volume of one piece.
    Shifted {
        kind: Shift,
        sectors: u64,
        below: Box<Sim>,
    },
    /// A volume whose second piece lies elsewhere on the same disk.
    TwoPieces {
        first: u64,
        second: u64,
        below: Box<Sim>,
    },
    Array {
        level: Level,
        chunk: u64,
        data_offset: u64,
        members: Vec<Sim>,
    },
}

#[derive(Debug, Clone, Copy)]
enum Shift {
    Partition,
    Crypt,
    Linear,
}

#[derive(Debug, Clone, Copy)]
enum Level {
    Raid0,
    Raid1,
    Raid5 { layout: u64 },
    Raid6,
    Raid10 { near: u64, far: u64, is_offset: bool },
}

/// A disk and a sector of it.
type Address = (usize, u64);

impl Sim {
    fn sectors(&self) -> u64 {
        match self {
            Self::Disk { .. } => DISK_SECTORS,
            Self::Shifted { sectors, below, .. } => below.sectors().saturating_sub(*sectors),
            Self::TwoPieces { second, below, .. } => {
                SEAM_SECTORS + below.sectors().saturating_sub(*second)
            }
            Self::Array { level, chunk, data_offset, members } => {
                let smallest = members.iter().map(Sim::sectors).min().unwrap_or(0);
                let rows = smallest.saturating_sub(*data_offset) / chunk;
                level.rows_of_data(rows, members.len() as u64) * chunk
            }
        }
    }

    /// Every place that a write of a sector writes, copies and parity in a fixed order.
    fn map(&self, sector: u64) -> Vec<Address> {
        match self {
            Self::Disk { name } => vec![(*name, sector)],
            Self::Shifted { sectors, below, .. } => below.map(sector + sectors),
            Self::TwoPieces { first, second, below } => below.map(match sector {
                early if early < SEAM_SECTORS => first + early,
                late => second + late - SEAM_SECTORS,
            }),
            Self::Array { level, chunk, data_offset, members } => {
                let smallest = members.iter().map(Sim::sectors).min().unwrap_or(0);
                let rows = smallest.saturating_sub(*data_offset) / chunk;
                let places = level.places(sector / chunk, members.len() as u64, rows);
                let on_member = |(member, row): (u64, u64)| {
                    let inside = data_offset + row * chunk + sector % chunk;
                    members[member as usize].map(inside)
                };
                places.into_iter().flat_map(on_member).collect()
            }
        }
    }

    /// Builds the same in a machine; gives its node.
    fn build(&self, bench: &mut Bench, number: &mut usize) -> usize {
        *number += 1;
        let own = *number;
        match self {
            Self::Disk { name } => bench.disk(&format!("disk{name}")),
            Self::Shifted { kind, sectors, below } => {
                let below = below.build(bench, number);
                let device = bench.node(below).devno.clone().unwrap_or_default();
                let table = match kind {
                    Shift::Partition => {
                        return bench.partition(
                            &format!("part{own}"),
                            sectors * SECTOR_BYTES,
                            below,
                        );
                    }
                    Shift::Crypt => format!("0 99 crypt aes-xts-plain64 - 0 {device} {sectors}"),
                    Shift::Linear => format!("0 99 linear {device} {sectors}"),
                };
                bench.dm(&format!("dm-{own}"), "v", "x", &[table], &[below])
            }
            Self::TwoPieces { first, second, below } => {
                let below = below.build(bench, number);
                let device = bench.node(below).devno.clone().unwrap_or_default();
                let table = [
                    format!("0 {SEAM_SECTORS} linear {device} {first}"),
                    format!("{SEAM_SECTORS} 99 linear {device} {second}"),
                ];
                bench.dm(&format!("dm-{own}"), "v", "x", &table, &[below])
            }
            Self::Array { level, chunk, data_offset, members } => {
                let members: Vec<usize> = members.iter().map(|m| m.build(bench, number)).collect();
                let (word, layout) = level.words();
                let index = bench.md(&format!("md{own}"), word, &members);
                let md = bench.md_of(index);
                md.layout = Some(layout);
                md.chunk_bytes = Some(if word == "raid1" { 0 } else { chunk * SECTOR_BYTES });
                for member in &mut md.members {
                    member.offset_bytes = Some(data_offset * SECTOR_BYTES);
                }
                index
            }
        }
    }
}

impl Level {
    fn words(self) -> (&'static str, u64) {
        match self {
            Self::Raid0 => ("raid0", 0),
            Self::Raid1 => ("raid1", 0),
            Self::Raid5 { layout } => ("raid5", layout),
            Self::Raid6 => ("raid6", 2),
            Self::Raid10 { near, far, is_offset } => {
                ("raid10", near | far << 8 | u64::from(is_offset) << 16)
            }
        }
    }

    /// Chunks of data in so many rows of members.
    fn rows_of_data(self, rows: u64, disks: u64) -> u64 {
        match self {
            Self::Raid0 => rows * disks,
            Self::Raid1 => rows,
            Self::Raid5 { .. } => rows * (disks - 1),
            Self::Raid6 => rows * (disks - 2),
            Self::Raid10 { near, far, .. } => rows / far * disks / near,
        }
    }

    /// Member and row of everything that a write of a chunk writes: its copies, or the chunk and its parity.
    fn places(self, chunk: u64, n: u64, rows: u64) -> Vec<(u64, u64)> {
        match self {
            Self::Raid0 => vec![(chunk % n, chunk / n)],
            Self::Raid1 => (0..n).map(|member| (member, chunk)).collect(),
            Self::Raid5 { layout } => {
                let (row, j) = (chunk / (n - 1), chunk % (n - 1));
                let parity = if layout % 2 == 0 { n - 1 - row % n } else { row % n };
                let member =
                    if layout < 2 { j + u64::from(j >= parity) } else { (parity + 1 + j) % n };
                vec![(member, row), (parity, row)]
            }
            Self::Raid6 => {
                let (row, j) = (chunk / (n - 2), chunk % (n - 2));
                let parity = n - 1 - row % n;
                vec![((parity + 2 + j) % n, row), (parity, row), ((parity + 1) % n, row)]
            }
            Self::Raid10 { near, far, is_offset } => {
                let slot = chunk * near;
                let section = if is_offset { 1 } else { rows / far };
                let stretch = if is_offset { far } else { 1 };
                let copies = (0..near).flat_map(|copy| {
                    let (member, row) = ((slot + copy) % n, (slot + copy) / n);
                    (0..far).map(move |f| ((member + f * near) % n, row * stretch + f * section))
                });
                copies.collect()
            }
        }
    }
}

/// True when every piece on `disk` of every whole request of `unit` sectors begins and ends on a multiple of `unit`.
fn is_aligned(top: &Sim, disk: usize, unit: u64) -> bool {
    let sectors = top.sectors().min(TOP_SECTORS) / unit * unit;
    let places: Vec<Vec<Address>> = (0..sectors).map(|sector| top.map(sector)).collect();
    places.chunks(unit as usize).all(|request| {
        (0..request[0].len()).all(|copy| {
            let place = |i: usize| request.get(i).map(|all| all[copy]);
            (0..request.len()).filter(|&i| place(i).is_some_and(|(d, _)| d == disk)).all(|i| {
                let (_, sector) = request[i][copy];
                let continues = i > 0 && place(i - 1) == Some((disk, sector.wrapping_sub(1)));
                let goes_on = place(i + 1) == Some((disk, sector + 1));
                (continues || sector.is_multiple_of(unit))
                    && (goes_on || (sector + 1).is_multiple_of(unit))
            })
        })
    })
}

/// The answers of the code under test for each disk, by its name.
fn answers(bench: &Bench, top: usize) -> std::collections::BTreeMap<String, Fit> {
    let mut worst = std::collections::BTreeMap::new();
    for route in explain(&Scene::new(&bench.snapshot), top) {
        let last = route.steps.last().expect("a way has steps");
        let fit = last.checks.iter().find(|c| c.unit == "physical block").expect("asked").fit;
        for name in std::iter::once(&last.layer).chain(&route.alike) {
            let known = worst.entry(name.clone()).or_insert(fit);
            *known = fit.max(*known);
        }
    }
    worst
}

fn disks_of(sim: &Sim, found: &mut Vec<usize>) {
    match sim {
        Sim::Disk { name } => found.push(*name),
        Sim::Shifted { below, .. } | Sim::TwoPieces { below, .. } => disks_of(below, found),
        Sim::Array { members, .. } => members.iter().for_each(|member| disks_of(member, found)),
    }
}

/// Arrays on top of each other.
fn arrays_deep(sim: &Sim) -> usize {
    match sim {
        Sim::Disk { .. } => 0,
        Sim::Shifted { below, .. } | Sim::TwoPieces { below, .. } => arrays_deep(below),
        Sim::Array { members, .. } => 1 + members.iter().map(arrays_deep).max().unwrap_or(0),
    }
}

/// Gives every disk a number of its own.
fn number_disks(sim: &mut Sim, next: &mut usize) {
    match sim {
        Sim::Disk { name } => {
            *name = *next;
            *next += 1;
        }
        Sim::Shifted { below, .. } | Sim::TwoPieces { below, .. } => number_disks(below, next),
        Sim::Array { members, .. } => members.iter_mut().for_each(|m| number_disks(m, next)),
    }
}

fn level() -> impl Strategy<Value = (Level, usize)> {
    let raid10 =
        (1..=3u64, 1..=3u64, any::<bool>(), 0..3usize).prop_map(|(near, far, is_offset, more)| {
            // Mixed copies on members that near ones do not divide map two chunks to one place: the kernel's formula.
            let far = if near > 1 { 1 } else { far };
            let level = Level::Raid10 { near, far, is_offset: is_offset && far > 1 };
            (level, (near * far) as usize + more)
        });
    prop_oneof![
        (1..5usize).prop_map(|n| (Level::Raid0, n)),
        (2..4usize).prop_map(|n| (Level::Raid1, n)),
        (2..6usize, 0..4u64).prop_map(|(n, layout)| (Level::Raid5 { layout }, n)),
        (3..6usize).prop_map(|n| (Level::Raid6, n)),
        raid10,
    ]
}

/// Chunks and shifts that often divide each other.
fn some_sectors() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![1, 2, 3, 4, 5, 6, 8, 12, 16, 24])
}

fn stack() -> impl Strategy<Value = Sim> {
    let disk = Just(Sim::Disk { name: 0 }).boxed();
    let inner = disk.prop_recursive(2, 16, 5, |below| {
        let shift = prop::sample::select(vec![Shift::Partition, Shift::Crypt, Shift::Linear]);
        let shifted = (shift, some_sectors(), below.clone()).prop_map(|(kind, sectors, below)| {
            Sim::Shifted { kind, sectors, below: Box::new(below) }
        });
        let array = (level(), some_sectors(), some_sectors(), below).prop_map(
            |((level, disks), chunk, data_offset, member)| {
                let members = vec![member; disks];
                Sim::Array { level, chunk, data_offset, members }
            },
        );
        prop_oneof![shifted, array]
    });
    let two = (some_sectors(), some_sectors(), inner.clone()).prop_map(|(first, second, below)| {
        let second = SEAM_SECTORS + first + second;
        Sim::TwoPieces { first, second, below: Box::new(below) }
    });
    prop_oneof![3 => inner, 1 => two].prop_map(|mut sim| {
        number_disks(&mut sim, &mut 0);
        sim
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_piece_of_every_request(sim in stack()) {
        // Too small a top does not show what its layers do.
        prop_assume!(sim.sectors() >= 480);
        let mut bench = Bench::new();
        let top = sim.build(&mut bench, &mut 0);
        let mut disks = Vec::new();
        disks_of(&sim, &mut disks);
        for unit in UNITS {
            for node in &mut bench.snapshot.machine.nodes {
                if let (NodeKind::Disk, Some(queue)) = (node.kind, node.queue.as_mut()) {
                    queue.physical_block_bytes = Some(unit * SECTOR_BYTES);
                    queue.minimum_io_bytes = None;
                }
            }
            let answers = answers(&bench, top);
            let expected = |disk: usize| {
                if is_aligned(&sim, disk, unit) { Fit::Aligned } else { Fit::Misaligned }
            };
            let found = |disk: usize| answers.get(&format!("/dev/disk{disk}")).copied();
            let worst = disks.iter().map(|&disk| expected(disk)).max();
            let told = disks.iter().filter_map(|&disk| found(disk)).max();
            prop_assert_eq!(told, worst, "unit {} of {:?}", unit, &sim);
            // A first piece may be too short to reach all disks.
            if matches!(sim, Sim::TwoPieces { .. }) {
                continue;
            }
            for &disk in &disks {
                let (told, expected) = (found(disk), expected(disk));
                // An array on an array may deal its bad pieces always to the same disks; all are told alike.
                let is_told_well =
                    if arrays_deep(&sim) > 1 { told >= Some(expected) } else { told == Some(expected) };
                prop_assert!(is_told_well, "disk {}: {:?}, not {:?}; unit {} of {:?}", disk, told, expected, unit, &sim);
            }
        }
    }

    /// In the array's own addresses: whole stripes of what lies on a partition of it fill single rows exactly when the
    /// partition starts on one, whatever the offset of the data on the members is.
    #[test]
    fn full_stripes_fill_rows(n in 3..7u64, chunk in some_sectors(), start in 0..200u64, data_offset in 0..50u64) {
        let stripe = chunk * (n - 1);
        let member = Sim::Disk { name: 0 };
        let members = vec![member; n as usize];
        let array = Sim::Array { level: Level::Raid5 { layout: 2 }, chunk, data_offset, members };
        let mut bench = Bench::new();
        let array = array.build(&mut bench, &mut 0);
        let part = bench.partition("p1", start * SECTOR_BYTES, array);
        let rows_touched = |request: u64| {
            let sectors = (request * stripe..(request + 1) * stripe).map(|s| (s + start) / chunk / (n - 1));
            sectors.collect::<std::collections::BTreeSet<u64>>().len()
        };
        let expected = (0..7).all(|request| rows_touched(request) == 1);
        let scene = Scene::new(&bench.snapshot);
        let found = stripes_below(&scene, part, Position::TOP);
        let (index, striping, at) = found[0];
        prop_assert_eq!((found.len(), index), (1, array));
        prop_assert_eq!(!at.misses(striping.full_stripe_bytes()), expected);
    }
}
