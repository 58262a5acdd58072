//! What stands beside the answer about settings of filesystems: what each level costs in integrity and recovery, which levels
//! came to the same, and what has become of settings that classic studies had.

use fathom_base::order::Order;
use fathom_model::finding::{Finding, Severity};
use fathom_model::plan::{Factor, FactorKind, Plan};
use fathom_model::record::Record;
use fathom_model::stack::{MountFacts, Stack};

use crate::safety::{self, Price};

/// All of it, as notes; no load is said not to meet a setting of a factor that was shown to matter.
#[must_use]
pub fn notes(plan: &Plan, records: &[&Record], matters: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let all = |id: &'static str, of: &dyn Fn(&Factor) -> Vec<String>| {
        let lines: Vec<String> = plan.factors.iter().flat_map(of).collect();
        lines.into_iter().map(move |line| Finding::new(id, Severity::Note, line))
    };
    let prices = all("price-of-settings", &|factor| prices(factor, records));
    let same = all("settings-without-effect", &|factor| same(factor, records));
    let gone = all("settings-of-today", &|factor| history(plan, factor));
    let unmet = all("settings-without-effect", &|factor| match matters(&factor.name) {
        true => Vec::new(),
        false => unmet(factor, records),
    });
    prices.chain(same).chain(gone).chain(unmet).collect()
}

/// What read-ahead has to do with direct reads.
pub const READ_AHEAD_DIRECT: &str = "block.read_ahead_kb: every load reads with direct I/O, which never uses it, so that its levels differ by \
     chance only; direct = \"no\" in the workload reads through the page cache";

/// What read-ahead of the block device is varied for where the files lie on a filesystem that has one of its own. An overlay has none: it
/// reads the file below it as that is read without it.
#[must_use]
pub fn read_ahead_elsewhere(kind: &str) -> Option<String> {
    (kind == "btrfs").then(|| {
        "block.read_ahead_kb: btrfs has a read-ahead of its own and ignores that of the device, so that its levels differ by chance only; \
         btrfs.read_ahead_kb is what it follows"
            .to_owned()
    })
}

/// The filesystem that holds the files of a target: below an overlay that of its upper directory; none of a device, and where it is not
/// known.
#[must_use]
pub fn holding_filesystem(stack: &Stack) -> Option<&str> {
    let own = stack.mount()?.fs_type.as_str();
    let mounts = stack.walk().into_iter().filter_map(|node| node.mount.as_ref());
    let mut kinds = mounts.map(|mount| mount.fs_type.as_str());
    if own == "overlay" { kinds.find(|kind| *kind != own) } else { Some(own) }
}

/// A setting that no load met.
fn unmet(factor: &Factor, records: &[&Record]) -> Vec<String> {
    if id(factor).split('@').next() != Some("block.read_ahead_kb") {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let mut jobs = records.iter().flat_map(|record| &record.workload.jobs).peekable();
    // Those of a program or a file server are not known.
    let are_known = records.iter().all(|record| !record.workload.jobs.is_empty());
    if are_known && jobs.peek().is_some() && jobs.all(|job| job.direct) {
        lines.push(READ_AHEAD_DIRECT.to_owned());
    }
    let targets = records.iter().flat_map(|record| &record.targets);
    let mut kinds = targets.filter_map(|target| holding_filesystem(&target.stack));
    lines.extend(kinds.find_map(read_ahead_elsewhere));
    lines
}

/// The name in a plan.
fn id(factor: &Factor) -> &str {
    match &factor.sets {
        FactorKind::Knob { id } => id,
        FactorKind::Setup { key } => key,
        _ => &factor.name,
    }
}

/// The records at a level.
fn at<'r>(factor: &Factor, level: &str, records: &[&'r Record]) -> Vec<&'r Record> {
    let is_there = |record: &&&Record| {
        let cell = record.cell.as_ref();
        cell.is_some_and(|cell| cell.levels.iter().any(|(f, l)| *f == factor.name && l == level))
    };
    records.iter().filter(is_there).copied().collect()
}

/// The prices that all records of a level have, and not all others: those are the level's own.
fn prices(factor: &Factor, records: &[&Record]) -> Vec<String> {
    let of = |record: &&Record| {
        let target = record.targets.first();
        target.map(|target| safety::prices(&target.stack)).unwrap_or_default()
    };
    let common = |level: &String| {
        // Where the plan puts the journal is known; not every filesystem shows it.
        if id(factor) == "filesystem.journal" {
            let place = if level == "internal" { "int" } else { "ext" };
            return vec![safety::of_journal(place, None)];
        }
        let mut all = at(factor, level, records).into_iter().map(|record| of(&record));
        let first = all.next().unwrap_or_default();
        all.fold(first, |common, one| common.into_iter().filter(|p| one.contains(p)).collect())
    };
    let levels: Vec<(&String, Vec<Price>)> =
        factor.levels.iter().map(|level| (level, common(level))).collect();
    let tried = levels.iter().filter(|(level, _)| !at(factor, level, records).is_empty());
    let tried: Vec<&(&String, Vec<Price>)> = tried.collect();
    let is_own = |price: &&Price| tried.iter().any(|(_, all)| !all.contains(price));
    let lines = tried.iter().flat_map(|(level, all)| {
        let own = all.iter().filter(is_own);
        own.map(|price| format!("{}={level} ({}): {}", id(factor), price.setting, price.text))
            .collect::<Vec<_>>()
    });
    lines.collect()
}

/// Levels of a mount option with which the kernel shows the very same options.
fn same(factor: &Factor, records: &[&Record]) -> Vec<String> {
    if !id(factor).starts_with("mount.") {
        return Vec::new();
    }
    // Of the same cell but for this factor, so that nothing else differs.
    let others = |record: &Record| {
        let levels = record.cell.as_ref().map(|cell| cell.levels.clone()).unwrap_or_default();
        levels.into_iter().filter(|(name, _)| *name != factor.name).collect::<Vec<_>>()
    };
    let options = |record: &Record| {
        let mount: &MountFacts = record.targets.first()?.stack.mount()?;
        let lists = [&mount.options, &mount.super_options, &mount.effective_options];
        let mut all: Vec<String> = lists.into_iter().flatten().cloned().collect();
        all.order();
        Some(all)
    };
    let mut lines = Vec::new();
    for (place, a) in factor.levels.iter().enumerate() {
        for b in &factor.levels[place + 1..] {
            let (left, right) = (at(factor, a, records), at(factor, b, records));
            let pairs = left.iter().flat_map(|x| right.iter().map(move |y| (x, y)));
            let mut pairs = pairs.filter(|(x, y)| others(x) == others(y)).peekable();
            let is_any = pairs.peek().is_some();
            if is_any && pairs.all(|(x, y)| options(x).is_some() && options(x) == options(y)) {
                lines.push(format!(
                    "{}={a} and ={b}: the kernel shows the same options in force; a difference between them is chance",
                    id(factor)
                ));
            }
        }
    }
    lines
}

/// What a kernel of today makes of the factor, where classic studies knew it otherwise.
fn history(plan: &Plan, factor: &Factor) -> Vec<String> {
    let has = |words: &[&str]| factor.levels.iter().any(|level| words.contains(&level.as_str()));
    let kind = plan.setup.filesystem.as_ref().map(|fs| fs.kind.as_str());
    let id = id(factor);
    let mut lines = Vec::new();
    let mut add = |is_so: bool, text: &str| {
        if is_so {
            lines.push(format!("{id}: {text}"));
        }
    };
    match id.split('@').next().unwrap_or(id) {
        "block.scheduler" => {
            add(
                kind.is_some() && has(&["bfq", "mq-deadline"]),
                "cfq, deadline, anticipatory and noop went with Linux 5.0; bfq is the nearest to cfq, mq-deadline to deadline, \
                 none to noop",
            );
        }
        "mount.atime" => {
            add(
                has(&["relatime", "strictatime"]),
                "atime alone has meant relatime since Linux 2.6.30; strictatime is what atime was",
            );
        }
        "mount.barrier" => {
            add(
                matches!(kind, Some("ext3" | "ext4")),
                "ext4 still has barrier and nobarrier; xfs dropped both with Linux 4.19 and always flushes",
            );
        }
        "mount.data" => {
            add(
                has(&["journal"]),
                "data=journal also turns delayed allocation off, and direct I/O is buffered",
            );
        }
        "filesystem.type" => {
            add(
                has(&["ext2", "ext3"]),
                "ext2 and ext3 are modes of the ext4 driver: the drivers of that name went with Linux 4.3 (ext3), or are hardly \
                 built any more",
            );
        }
        _ => {}
    }
    if kind == Some("ext3") && id == "mount.data" {
        lines.push("filesystem=ext3: a mode of the ext4 driver since Linux 4.3".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::{self, Sample};
    use crate::safety::fixture;
    use fathom_model::plan::setup::FilesystemSpec;

    /// An experiment on a factor of a setup; each level is mounted with these options.
    fn measured(key: &str, levels: &[(&str, &[&str])]) -> (Plan, Vec<Record>) {
        let name = key.rsplit('.').next().unwrap_or(key);
        let words: Vec<&str> = levels.iter().map(|(level, _)| *level).collect();
        let sample = Sample::new(&[(name, &words)], 2, |_, _| 1000.0);
        let mut plan = sample.plan;
        plan.factors[0].sets = FactorKind::Setup { key: key.to_owned() };
        let mut records = sample.records;
        for record in &mut records {
            let level = record.cell.as_ref().expect("a cell").levels[0].1.clone();
            let options = levels.iter().find(|(known, _)| *known == level).expect("known").1;
            record.targets[0].stack = fixture("ext4", options, Some(true));
        }
        (plan, records)
    }

    fn lines(key: &str, levels: &[(&str, &[&str])], id: &str) -> Vec<String> {
        let (plan, records) = measured(key, levels);
        let records: Vec<&Record> = records.iter().collect();
        let found =
            notes(&plan, &records, &|_| false).into_iter().filter(|finding| finding.id == id);
        found.map(|finding| finding.summary).collect()
    }

    #[test]
    fn each_level_has_its_own_price() {
        let levels: [(&str, &[&str]); 3] = [
            ("ordered", &["data=ordered"]),
            ("writeback", &["data=writeback"]),
            ("journal", &["data=journal"]),
        ];
        let got = lines("mount.data", &levels, "price-of-settings");
        assert_eq!(got.len(), 3, "the barrier is on at all levels: {got:?}");
        assert!(got[0].starts_with("mount.data=ordered (data=ordered): after a crash no file"));
        assert!(got[2].contains("data is written twice"), "{got:?}");
        let barrier =
            lines("mount.barrier", &[("on", &[]), ("off", &["nobarrier"])], "price-of-settings");
        assert!(
            barrier[1].starts_with("mount.barrier=off (barrier=0): a power cut"),
            "{barrier:?}"
        );
        let journal = lines(
            "filesystem.journal",
            &[("internal", &[]), ("/dev/ram0", &[])],
            "price-of-settings",
        );
        assert!(journal[1].starts_with("filesystem.journal=/dev/ram0 (journal on another device)"));
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let same = lines("mount.barrier", &[("on", &[]), ("off", &[])], "settings-without-effect");
        assert_eq!(same.len(), 1);
        assert!(same[0].starts_with("mount.barrier=on and =off: the kernel shows the same"));
        let other = lines(
            "mount.atime",
            &[("relatime", &["relatime"]), ("strictatime", &[])],
            "settings-without-effect",
        );
        assert!(other.is_empty(), "{other:?}");
    }

    #[test]
    fn read_ahead_that_no_load_meets_is_told() {
        let told = |direct: bool, kind: &str| {
            let sample = Sample::new(&[("read_ahead_kb", &["0", "4096"])], 2, |_, _| 1000.0);
            let mut records = sample.records;
            for record in &mut records {
                record.workload.jobs.iter_mut().for_each(|job| job.direct = direct);
                record.targets[0].stack = fixture(kind, &[], Some(true));
            }
            let records: Vec<&Record> = records.iter().collect();
            let found = notes(&sample.plan, &records, &|_| false).into_iter();
            found.map(|finding| finding.summary).collect::<Vec<_>>()
        };
        assert!(told(false, "ext4").is_empty());
        assert!(told(false, "overlay").is_empty(), "what lies below it is asked");
        assert_eq!(told(true, "ext4"), [READ_AHEAD_DIRECT]);
        let own = told(false, "btrfs");
        assert!(own.len() == 1 && own[0].contains("btrfs.read_ahead_kb"), "{own:?}");
    }

    /// What lies below an overlay holds its files; and what was shown to matter is not said to differ by chance.
    #[test]
    fn read_ahead_that_has_an_effect_is_believed() {
        let iops = |cell: &fathom_model::plan::cell::Cell, block: u32| {
            1000.0 * f64::from(1 + cell.index) + f64::from(block * 7 % 5)
        };
        let mut sample = Sample::new(&[("read_ahead_kb", &["0", "4096"])], 8, iops);
        for record in &mut sample.records {
            record.workload.jobs.iter_mut().for_each(|job| job.direct = false);
            let mut stack = fixture("overlay", &[], Some(true));
            let below = MountFacts { fs_type: "btrfs".to_owned(), ..MountFacts::default() };
            stack.nodes[1].mount = Some(below);
            record.targets[0].stack = stack;
        }
        let records: Vec<&Record> = sample.records.iter().collect();
        let said = notes(&sample.plan, &records, &|_| false);
        assert!(said.len() == 1 && said[0].summary.contains("btrfs.read_ahead_kb"), "{said:?}");
        let study = super::super::study(&sample.plan, &sample.cells, &sample.records);
        assert!(study.shows_effect("read_ahead_kb") && !study.shows_effect("another"));
        let found: Vec<&str> = study.findings.iter().map(|finding| finding.id.as_str()).collect();
        assert!(!found.contains(&"settings-without-effect"), "{found:?}");
    }

    #[test]
    fn classic_settings_have_their_history() {
        let of =
            |key| lines(key, &[("relatime", &[]), ("strictatime", &["x"])], "settings-of-today");
        assert!(of("mount.atime")[0].contains("since Linux 2.6.30"));
        assert!(of("mount.commit").is_empty());
        let mut plan = sample::plan(&[("scheduler", &["mq-deadline", "bfq"])]);
        assert!(notes(&plan, &[], &|_| false).is_empty(), "nothing of a filesystem");
        plan.setup.filesystem = Some(FilesystemSpec {
            kind: "ext4".to_owned(),
            make_options: Vec::new(),
            is_aligned: true,
            mount_options: Vec::new(),
            journal: None,
            is_lazy: false,
            fill_percent: None,
            ageing_rounds: None,
            data_profile: None,
            metadata_profile: None,
            is_on_each: false,
        });
        let found = notes(&plan, &[], &|_| false);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].summary.contains("bfq is the nearest to cfq"));
        assert!(
            notes(&sample::plan(&[("nr_requests", &["32", "64"])]), &[], &|_| false).is_empty()
        );
    }
}
