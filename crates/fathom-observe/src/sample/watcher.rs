//! Looks at everything, interval by interval.

use super::between::between;
use super::companions::{Companion, stand_out};
use super::family::Family;
use super::host;
use super::layers::{self, Layer};
use fathom_model::watch::{ApplicationSample, ArraySample, DeviceCounts, DeviceSample, Sample};
use fathom_sys::diskstats::{self, DiskLine};
use fathom_sys::family::Usage;
use fathom_sys::pressure;
use fathom_sys::sysroot::SysRoot;
use std::collections::{BTreeMap, BTreeSet};

/// Which devices are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// All that have ever had a request, with all layers below them.
    All,
    /// These, by kernel name, with all layers below them.
    Named(Vec<String>),
}

/// When a look is taken.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// By the clock that never goes back.
    pub monotonic_ns: u64,
    /// UTC, nanoseconds since 1970.
    pub unix_ns: i64,
}

/// How often arrays are looked at for kernel threads that have come or gone: threads are no devices, and nothing tells of them.
const THREADS_EVERY_NS: u64 = 10_000_000_000;

/// Not everything that the kernel tells of is about these devices, and it may tell every second: then they are read again so often.
const LAYERS_EVERY_NS: u64 = 5_000_000_000;

/// Looks at the counters whenever it is asked to, and says what happened since the last time.
#[derive(Debug)]
pub struct Watcher {
    root: SysRoot,
    choice: Choice,
    layers: Vec<Layer>,
    lines: Vec<u32>,
    events: Option<u64>,
    layers_read_ns: u64,
    threads_read_ns: u64,
    names: BTreeSet<String>,
    begun: Moment,
    before: Look,
    index: u64,
}

/// One look.
#[derive(Debug, Default)]
struct Look {
    at_ns: u64,
    disks: BTreeMap<String, DiskLine>,
    /// Those that have just lost their medium: what they did until then is theirs.
    emptied: BTreeMap<String, DiskLine>,
    /// All that the kernel counts, watched or not.
    there: BTreeSet<String>,
    disk_numbers: BTreeMap<String, Option<u64>>,
    /// Arrays that stand on each.
    above: BTreeMap<String, BTreeSet<String>>,
    /// Of each kernel thread of each array: threads come and go.
    thread_cpu_ns: BTreeMap<String, BTreeMap<u32, u64>>,
    /// Interrupts by line.
    interrupts: BTreeMap<u32, u64>,
    host: host::Look,
    family: Usage,
}

impl Watcher {
    /// Takes the first look.
    #[must_use]
    pub fn new(root: &SysRoot, choice: Choice, now: Moment, family: Option<&mut Family>) -> Self {
        let mut watcher = Self {
            root: root.clone(),
            choice,
            layers: Vec::new(),
            lines: Vec::new(),
            events: None,
            layers_read_ns: 0,
            threads_read_ns: 0,
            names: BTreeSet::new(),
            begun: now,
            before: Look::default(),
            index: 0,
        };
        watcher.before = watcher.take(now, family);
        watcher
    }

    /// The devices that are watched, those that stand on others before them.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// What happened since the last look.
    pub fn look(&mut self, now: Moment, mut family: Option<&mut Family>) -> Sample {
        let look = self.take(now, family.as_deref_mut());
        let length_ns = look.at_ns.saturating_sub(self.before.at_ns);
        let mut sample = Sample {
            index: self.index,
            unix_ns: now.unix_ns,
            start_ns: self.before.at_ns.saturating_sub(self.begun.monotonic_ns),
            length_ns,
            host: look.host.since(&self.before.host, length_ns),
            ..Sample::default()
        };
        self.devices(&look, &mut sample);
        sample.application = family.map(|family| ApplicationSample {
            processes: family.processes(),
            ..Family::between(&self.before.family, &look.family, length_ns)
        });
        self.index += 1;
        self.before = look;
        sample
    }

    fn take(&mut self, now: Moment, family: Option<&mut Family>) -> Look {
        // The counters first: the moment is theirs.
        let read = diskstats::read(&self.root);
        // Where they cannot be read, as without a free descriptor, nothing has gone: the devices stand still.
        let again = || self.before.disks.values().chain(self.before.emptied.values()).cloned();
        let unread = read.is_none().then(|| self.names.clone());
        let disks = read.unwrap_or_else(|| again().collect());
        let used = |disk: &DiskLine| {
            let watched = self.choice != Choice::All || disk.fields.iter().any(|field| *field > 0);
            watched.then(|| disk.name.clone())
        };
        let names = unread.unwrap_or_else(|| disks.iter().filter_map(used).collect());
        self.refresh(names, now.monotonic_ns);
        let wanted: BTreeSet<&str> = self.layers.iter().map(|layer| layer.name.as_str()).collect();
        let disks = disks.into_iter().filter(|disk| wanted.contains(disk.name.as_str()));
        let is_empty =
            |disk: &DiskLine| self.layers.iter().any(|l| l.is_empty && l.name == disk.name);
        let (emptied, disks): (Vec<_>, Vec<_>) = disks.partition(is_empty);
        let by_name = |disks: Vec<DiskLine>| {
            disks.into_iter().map(|disk| (disk.name.clone(), disk)).collect::<BTreeMap<_, _>>()
        };
        let host = host::Look::take(&self.root, &self.lines, &self.before.host);
        let interrupts = self.lines.iter().copied().zip(host.processors.lines.iter().copied());
        let arrays = self.layers.iter().filter(|layer| layer.is_array);
        let mut above: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for layer in self.layers.iter().filter(|layer| layer.is_array) {
            for name in &layer.below {
                above.entry(name.clone()).or_default().insert(layer.name.clone());
            }
        }
        Look {
            above,
            at_ns: now.monotonic_ns,
            disks: by_name(disks),
            emptied: by_name(emptied),
            there: self.names.clone(),
            disk_numbers: self.layers.iter().map(|l| (l.name.clone(), l.disk_number)).collect(),
            thread_cpu_ns: arrays.map(|l| (l.name.clone(), self.thread_cpu_ns(l))).collect(),
            interrupts: interrupts.collect(),
            host,
            family: family.map(Family::look).unwrap_or_default(),
        }
    }

    /// Reads the layers again when another set of devices is used or one was replaced by another of its name, and some time after the
    /// kernel has told of a change of any device: arrays and volumes may stand on others. Of arrays the threads are looked for more
    /// often.
    fn refresh(&mut self, names: BTreeSet<String>, now_ns: u64) {
        let events = pressure::device_events(&self.root);
        let age_ns = now_ns.saturating_sub(self.layers_read_ns);
        let has_emptied = self.layers.iter().any(|layer| layer.is_empty);
        let is_known = names == self.names && !self.layers.is_empty() && !has_emptied;
        let may_wait = || age_ns < LAYERS_EVERY_NS && !self.has_replaced();
        let is_same = || !layers::has_other_members(&self.root, &self.layers);
        if is_known && (events == self.events || may_wait()) && is_same() {
            let has_arrays = self.layers.iter().any(|layer| layer.is_array);
            if has_arrays && now_ns.saturating_sub(self.threads_read_ns) >= THREADS_EVERY_NS {
                layers::refresh_threads(&self.root, &mut self.layers);
                self.threads_read_ns = now_ns;
            }
            return;
        }
        let tops = match &self.choice {
            Choice::Named(tops) => tops.clone(),
            Choice::All => layers::tops(&self.root),
        };
        self.layers = layers::below(&self.root, &tops, &self.layers);
        // What lost its medium since the last look is there once more, for what it did before.
        let known = &self.before.disks;
        let is_there = |layer: &Layer| !layer.is_empty || known.contains_key(&layer.name);
        self.layers.retain(|layer| names.contains(&layer.name) && is_there(layer));
        let lines: BTreeSet<u32> = self
            .layers
            .iter()
            .flat_map(|layer| layer.interrupts.iter().map(|(irq, _)| *irq))
            .collect();
        self.lines = lines.into_iter().collect();
        (self.events, self.names) = (events, names);
        (self.layers_read_ns, self.threads_read_ns) = (now_ns, now_ns);
    }

    /// Whether a disk has become another one of the same name or lost what it had, or one that was empty has got something: a loop
    /// device its file, a drive its medium.
    fn has_replaced(&self) -> bool {
        let size = |name: &str| self.root.value::<u64>(format!("sys/class/block/{name}/size"));
        let is_other = |layer: &Layer| {
            let number = self.root.value(format!("sys/class/block/{}/diskseq", layer.name));
            let is_other = number.is_some_and(|number: u64| layer.disk_number != Some(number));
            is_other || size(&layer.name) == Some(0)
        };
        let is_filled = |name: &String| size(name).is_some_and(|size| size > 0);
        let known: BTreeSet<&str> = self.layers.iter().map(|layer| layer.name.as_str()).collect();
        let mut others = self.names.iter().filter(|name| !known.contains(name.as_str()));
        self.layers.iter().any(is_other)
            || others.any(|name| self.is_meant(name) && is_filled(name))
    }

    /// Whether a device is watched for itself, and not only as long as another one stands on it.
    fn is_meant(&self, name: &String) -> bool {
        match &self.choice {
            Choice::All => true,
            Choice::Named(tops) => tops.contains(name),
        }
    }

    /// CPU time of the kernel threads of an array, of each since it began.
    fn thread_cpu_ns(&self, layer: &Layer) -> BTreeMap<u32, u64> {
        let of_one = |pid: &u32| {
            let usage = fathom_sys::family::usage(&self.root, *pid)?;
            Some((*pid, usage.cpu_ns))
        };
        layer.threads.iter().filter_map(of_one).collect()
    }

    fn devices(&self, look: &Look, sample: &mut Sample) {
        let counted: BTreeMap<&str, DeviceCounts> = look
            .disks
            .iter()
            .filter_map(|(name, now)| {
                let before = self.before.disks.get(name)?;
                let is_same = self.before.disk_numbers.get(name) == look.disk_numbers.get(name);
                Some((name.as_str(), is_same.then(|| between(before, now)).flatten()?))
            })
            .chain(look.emptied.iter().filter_map(|(name, now)| {
                Some((name.as_str(), between(self.before.disks.get(name)?, now)?))
            }))
            .collect();
        // What other devices stand on stays when these go, and was there before they came.
        let is_own =
            |name: &String, there: &BTreeSet<String>| self.is_meant(name) || !there.contains(name);
        // A member that joins or leaves an array is told, too: what stands on it is there before and afterwards.
        let stays = |above: &Look, name: &String, other: &Look| {
            let holders = above.above.get(name);
            holders.is_some_and(|holders| {
                holders.iter().any(|top| {
                    let is_same = other.disk_numbers.get(top) == above.disk_numbers.get(top);
                    is_same && other.disks.contains_key(top)
                })
            })
        };
        let is_new = |name: &&String| {
            let is_known = self.before.disks.contains_key(*name);
            let joins = || stays(look, name, &self.before);
            !counted.contains_key(name.as_str())
                && (is_known || is_own(name, &self.before.there) || joins())
        };
        sample.came = look.disks.keys().filter(is_new).cloned().collect();
        let is_gone = |name: &&String| {
            let leaves = || stays(&self.before, name, look);
            !look.disks.contains_key(*name) && (is_own(name, &look.there) || leaves())
        };
        let replaced = sample.came.iter().filter(|name| self.before.disks.contains_key(*name));
        let gone = self.before.disks.keys().filter(is_gone);
        sample.went = gone.chain(replaced).cloned().collect();
        let mut reasons = self.reasons(&counted, sample.length_ns);
        for layer in &self.layers {
            let Some(counts) = counted.get(layer.name.as_str()) else { continue };
            sample.devices.push(DeviceSample {
                name: layer.name.clone(),
                title: layer.title.clone(),
                depth: layer.depth,
                counts: *counts,
                rates: counts.rates(sample.length_ns),
                stands_out: reasons.remove(layer.name.as_str()),
                array: layer.is_array.then(|| self.array(layer, look, sample.length_ns)),
                interrupts: self.interrupts(layer, look),
                latency: None,
            });
        }
    }

    /// Why devices stand out from those that serve the same one.
    fn reasons(
        &self,
        counted: &BTreeMap<&str, DeviceCounts>,
        length_ns: u64,
    ) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for layer in self.layers.iter().filter(|layer| layer.companions.len() > 1) {
            let members: Vec<(&String, Companion)> = layer
                .companions
                .iter()
                .filter_map(|name| {
                    let counts = counted.get(name.as_str())?;
                    let rates = counts.rates(length_ns);
                    let requests = [counts.reads.requests, counts.writes.requests];
                    let flows = [rates.reads, rates.writes];
                    Some((name, Companion { requests, flows, util_percent: rates.util_percent }))
                })
                .collect();
            let companions: Vec<Companion> = members.iter().map(|(_, one)| *one).collect();
            let reasons = members.iter().zip(stand_out(&companions));
            found
                .extend(reasons.filter_map(|((name, _), reason)| Some(((*name).clone(), reason?))));
        }
        found
    }

    fn array(&self, layer: &Layer, look: &Look, length_ns: u64) -> ArraySample {
        let read = |what: &str| self.root.text(format!("sys/block/{}/md/{what}", layer.name));
        let completed = read("sync_completed").unwrap_or_default();
        let sync_done = completed.split_once('/').and_then(|(done, all)| {
            let (done, all): (f64, f64) = (done.trim().parse().ok()?, all.trim().parse().ok()?);
            (all > 0.0).then_some(done / all)
        });
        let both =
            self.before.thread_cpu_ns.get(&layer.name).zip(look.thread_cpu_ns.get(&layer.name));
        let cpu_ns = both.and_then(|(before, now)| {
            // What one did before it was seen for the first time belongs to no interval.
            let of_one = |(pid, now): (&u32, &u64)| Some(now.saturating_sub(*before.get(pid)?));
            let known: Vec<u64> = now.iter().filter_map(of_one).collect();
            (!known.is_empty()).then(|| known.iter().sum::<u64>())
        });
        ArraySample {
            sync_action: read("sync_action").unwrap_or_default(),
            sync_done,
            sync_kib_per_s: read("sync_speed").and_then(|speed| speed.parse().ok()),
            degraded: read("degraded").and_then(|count| count.parse().ok()).unwrap_or(0),
            thread_cpu_share: cpu_ns
                .filter(|_| length_ns > 0)
                .map(|ns| ns as f64 / length_ns as f64),
        }
    }

    fn interrupts(&self, layer: &Layer, look: &Look) -> Vec<(String, u64)> {
        let since = |irq: &u32| {
            let before = self.before.interrupts.get(irq)?;
            look.interrupts.get(irq).map(|now| now.saturating_sub(*before))
        };
        let of_one = |(irq, name): &(u32, String)| Some((name.clone(), since(irq)?));
        layer.interrupts.iter().filter_map(of_one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    fn moment(ms: u64) -> Moment {
        Moment { monotonic_ns: ms * 1_000_000, unix_ns: 0 }
    }

    fn line(devno: &str, name: &str, reads: u64) -> String {
        format!(
            "{devno} {name} {reads} 0 {} {reads} 0 0 0 0 0 {} {} 0 0 0 0 0 0\n",
            8 * reads,
            reads / 2,
            2 * reads
        )
    }

    fn disk(tree: &Tree, name: &str, devno: &str, number: &str) {
        tree.device(&format!("x/block/{name}"), devno, &[("diskseq", number)]);
    }

    #[test]
    fn devices_come_go_and_are_replaced() {
        let tree = Tree::new();
        let root = tree.root();
        disk(&tree, "sda", "8:0", "1");
        disk(&tree, "sdb", "8:16", "2");
        tree.put("sys/kernel/uevent_seqnum", "100");
        tree.put("proc/diskstats", line("8 0", "sda", 100) + &line("8 16", "sdb", 0));
        let mut watcher = Watcher::new(&root, Choice::All, moment(1000), None);
        // The second disk has never had a request: it is none of those that are shown.
        tree.put("proc/diskstats", line("8 0", "sda", 150) + &line("8 16", "sdb", 0));
        let sample = watcher.look(moment(1500), None);
        assert_eq!((sample.index, sample.start_ns, sample.length_ns), (0, 0, 500_000_000));
        let names = |s: &Sample| s.devices.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&sample), ["sda"]);
        let rates = &sample.devices[0].rates;
        assert_eq!((rates.reads.per_s, rates.reads.await_ms, rates.queue), (100.0, Some(1.0), 0.2));
        // Then it has one: it comes, with figures from the next look on.
        tree.put("proc/diskstats", line("8 0", "sda", 150) + &line("8 16", "sdb", 10));
        let sample = watcher.look(moment(2000), None);
        assert_eq!((sample.came, sample.went.len()), (vec!["sdb".to_owned()], 0));
        tree.put("proc/diskstats", line("8 0", "sda", 150) + &line("8 16", "sdb", 30));
        let sample = watcher.look(moment(2500), None);
        assert_eq!((names(&sample).len(), sample.devices[1].counts.reads.requests), (2, 20));
        // Pulled out, and another one put in its place, with more requests than the first one had.
        disk(&tree, "sdb", "8:16", "3");
        tree.put("sys/kernel/uevent_seqnum", "103");
        tree.put("proc/diskstats", line("8 0", "sda", 150) + &line("8 16", "sdb", 9000));
        let sample = watcher.look(moment(3000), None);
        assert_eq!(
            (&sample.came, &sample.went),
            (&vec!["sdb".to_owned()], &vec!["sdb".to_owned()])
        );
        assert_eq!(names(&sample), ["sda"]);
        tree.put("proc/diskstats", line("8 0", "sda", 150));
        let sample = watcher.look(moment(3500), None);
        assert_eq!((sample.came.len(), sample.went), (0, vec!["sdb".to_owned()]));
        // What cannot be read has not gone.
        std::fs::remove_file(root.path("proc/diskstats")).expect("removed");
        let sample = watcher.look(moment(4000), None);
        assert_eq!(
            (sample.went.len(), sample.came.len(), names(&sample)),
            (0, 0, vec!["sda".into()])
        );
        tree.put("proc/diskstats", line("8 0", "sda", 170));
        let sample = watcher.look(moment(4500), None);
        assert_eq!((sample.came.len(), sample.devices[0].counts.reads.requests), (0, 20));
    }

    /// The kernel tells nobody when an array gets another member.
    #[test]
    fn members_join_without_a_word() {
        let tree = Tree::new();
        disk(&tree, "sda", "8:0", "1");
        disk(&tree, "sdb", "8:16", "2");
        tree.device("v/block/md0", "9:0", &[("md/level", "raid1"), ("slaves/sda/x", "")]);
        tree.put("sys/kernel/uevent_seqnum", "100");
        let lines = line("8 0", "sda", 1) + &line("8 16", "sdb", 1) + &line("9 0", "md0", 1);
        tree.put("proc/diskstats", lines);
        let choice = Choice::Named(vec!["md0".to_owned()]);
        let mut watcher = Watcher::new(&tree.root(), choice, moment(1000), None);
        let mut names = |ms| {
            let sample = watcher.look(moment(ms), None);
            sample.devices.iter().map(|d| d.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(1500), ["md0", "sda"]);
        tree.put("sys/devices/v/block/md0/slaves/sdb/x", "");
        names(2000);
        assert_eq!(names(2500), ["md0", "sda", "sdb"]);
    }

    /// The kernel tells of something every second: what stands on what is found out all the same, a little later.
    #[test]
    fn a_volume_that_moves_is_found_within_seconds() {
        let tree = Tree::new();
        disk(&tree, "sda", "8:0", "1");
        disk(&tree, "sdb", "8:16", "2");
        tree.device("v/block/dm-0", "252:0", &[("dm/name", "vg-a"), ("slaves/sda/x", "")]);
        let lines = |n| line("8 0", "sda", n) + &line("8 16", "sdb", n) + &line("252 0", "dm-0", n);
        tree.put("proc/diskstats", lines(1)).put("sys/kernel/uevent_seqnum", "100");
        let choice = Choice::Named(vec!["dm-0".to_owned()]);
        let mut watcher = Watcher::new(&tree.root(), choice, moment(0), None);
        tree.put("sys/devices/v/block/dm-0/slaves/sdb/x", "");
        let mut names = |second: u64| {
            tree.put("sys/kernel/uevent_seqnum", (100 + second).to_string());
            tree.put("proc/diskstats", lines(1 + second));
            watcher.look(moment(1000 * second), None);
            watcher.layers().iter().map(|layer| layer.name.clone()).collect::<Vec<_>>()
        };
        for second in 1..5 {
            assert_eq!(names(second), ["dm-0", "sda"], "{second}");
        }
        assert_eq!(names(5), ["dm-0", "sda", "sdb"]);
    }

    /// A loop device without a file is none that is watched; once it has one, it comes at the next look.
    #[test]
    fn an_empty_disk_comes_when_it_is_filled() {
        let tree = Tree::new();
        disk(&tree, "sda", "8:0", "1");
        tree.device("v/block/loop1", "7:1", &[("diskseq", "2"), ("size", "0")]);
        let lines = line("8 0", "sda", 100) + &line("7 1", "loop1", 100);
        tree.put("proc/diskstats", &lines).put("sys/kernel/uevent_seqnum", "100");
        let mut watcher = Watcher::new(&tree.root(), Choice::All, moment(0), None);
        let count = |watcher: &Watcher| watcher.layers().len();
        assert_eq!(count(&watcher), 1);
        tree.put("sys/kernel/uevent_seqnum", "101");
        tree.put("sys/devices/v/block/loop1/size", "2048");
        let sample = watcher.look(moment(100), None);
        assert_eq!((sample.came, count(&watcher)), (vec!["loop1".to_owned()], 2));
    }

    /// What it did before it lost its file is its own; the disk below it went nowhere.
    #[test]
    fn a_loop_device_goes_and_the_disk_below_it_stays() {
        let tree = Tree::new();
        disk(&tree, "sda", "8:0", "1");
        tree.device(
            "v/block/loop1",
            "7:1",
            &[("diskseq", "2"), ("size", "2048"), ("slaves/sda/x", "")],
        );
        let lines = |n| line("8 0", "sda", 100 + n) + &line("7 1", "loop1", n);
        tree.put("proc/diskstats", lines(1)).put("sys/kernel/uevent_seqnum", "100");
        let choice = Choice::Named(vec!["loop1".to_owned()]);
        let mut watcher = Watcher::new(&tree.root(), choice, moment(0), None);
        let mut look = |size: &str, number: &str, n: u64| {
            tree.put("sys/devices/v/block/loop1/size", size);
            tree.put("sys/devices/v/block/loop1/diskseq", number);
            tree.put("sys/kernel/uevent_seqnum", (100 + n).to_string());
            tree.put("proc/diskstats", lines(n));
            let sample = watcher.look(moment(1000 * n), None);
            let own = sample.devices.iter().find(|device| device.name == "loop1");
            (own.map(|device| device.counts.reads.requests), sample.came, sample.went)
        };
        let (none, own) = (Vec::new, || vec!["loop1".to_owned()]);
        assert_eq!(look("2048", "2", 11), (Some(10), none(), none()));
        assert_eq!(look("0", "3", 31), (Some(20), none(), own()));
        assert_eq!(look("0", "3", 32), (None, none(), none()));
        assert_eq!(look("4096", "4", 40), (None, own(), none()));
        assert_eq!(look("4096", "4", 45), (Some(5), none(), none()));
        assert_eq!(look("4096", "6", 99), (None, own(), own()));
    }

    /// What an array or a volume stands on changes while nothing comes or goes: a member that leaves an array is told, what a volume was
    /// moved from, and the disk below the former file of a loop device, are not.
    #[test]
    fn a_member_that_leaves_goes_and_the_disk_of_a_volume_or_file_does_not() {
        let change = |top: &str, devno: &str, facts: &[(&str, &str)], number: &str| {
            let tree = Tree::new();
            for (at, name) in ["sda", "sdb", "sdc"].iter().enumerate() {
                disk(&tree, name, &format!("8:{}", 16 * at), "1");
            }
            let below = [("diskseq", "4"), ("size", "2048"), ("slaves/sda/x", "")];
            let below: Vec<_> = below.into_iter().chain(facts.iter().copied()).collect();
            tree.device(&format!("v/block/{top}"), devno, &below);
            let lines = [("8 0", "sda"), ("8 16", "sdb"), ("8 32", "sdc"), (devno, top)];
            let lines = lines.map(|(devno, name)| line(&devno.replace(':', " "), name, 9));
            tree.put("proc/diskstats", lines.concat()).put("sys/kernel/uevent_seqnum", "100");
            let choice = Choice::Named(vec![top.to_owned()]);
            let mut watcher = Watcher::new(&tree.root(), choice, moment(0), None);
            let slaves = tree.root().path(format!("sys/devices/v/block/{top}/slaves"));
            std::fs::remove_dir_all(slaves.join("sda")).unwrap();
            tree.put(format!("sys/devices/v/block/{top}/slaves/sdc/x"), "");
            tree.put(format!("sys/devices/v/block/{top}/diskseq"), number);
            tree.put("sys/kernel/uevent_seqnum", "101");
            let sample = watcher.look(moment(6000), None);
            assert!(watcher.layers().iter().any(|layer| layer.name == "sdc"), "{top}");
            (sample.came.join(" "), sample.went.join(" "))
        };
        let told = |came: &str, went: &str| (came.to_owned(), went.to_owned());
        let array = [("md/level", "raid1\n"), ("slaves/sdb/x", "")];
        assert_eq!(change("md0", "9:0", &array, "4"), told("sdc", "sda"));
        assert_eq!(change("dm-0", "252:0", &[("dm/name", "vg-a")], "4"), told("", ""));
        assert_eq!(change("loop1", "7:1", &[], "5"), told("loop1", "loop1"));
    }

    #[test]
    fn a_member_that_stands_out_and_an_array_that_synchronises() {
        let tree = Tree::new();
        let root = tree.root();
        for (at, name) in ["sda", "sdb", "sdc"].iter().enumerate() {
            tree.device(
                &format!("x/block/{name}"),
                &format!("8:{}", 16 * at),
                &[("holders/md0/x", "")],
            );
            tree.put(format!("sys/devices/v/block/md0/slaves/{name}/x"), "");
        }
        tree.device(
            "v/block/md0",
            "9:0",
            &[
                ("md/level", "raid5"),
                ("md/sync_action", "resync\n"),
                ("md/sync_completed", "250 / 1000\n"),
                ("md/sync_speed", "51200\n"),
                ("md/degraded", "0\n"),
            ],
        );
        tree.put("proc/81/comm", "md0_raid5\n");
        let stat = |ticks: u64| {
            format!("81 (md0_raid5) S 2 0 0 0 -1 1 0 0 0 0 0 {ticks} 0 0 20 0 1 0 9 0 0")
        };
        let writes = |name: &str, devno: &str, requests: u64, ms: u64| {
            format!("{devno} {name} 0 0 0 0 {requests} 0 {} {ms} 0 5 5\n", 8 * requests)
        };
        let lines = |n: u64| {
            [("sda", "8 0", 4), ("sdb", "8 16", 40), ("sdc", "8 32", 4), ("md0", "9 0", 30)]
                .map(|(name, devno, each)| writes(name, devno, 1 + n, n * each))
                .concat()
        };
        tree.put("proc/81/stat", stat(100)).put("proc/diskstats", lines(0));
        let choice = Choice::Named(vec!["md0".to_owned()]);
        let mut watcher = Watcher::new(&root, choice, moment(0), None);
        tree.put("proc/81/stat", stat(130)).put("proc/diskstats", lines(50));
        let sample = watcher.look(moment(1000), None);
        let told: Vec<_> = sample
            .devices
            .iter()
            .map(|d| (d.depth, d.name.as_str(), d.stands_out.as_deref()))
            .collect();
        let reason = Some("w_await 40 ms, its companions 4.0 ms");
        assert_eq!(
            told,
            [(0, "md0", None), (1, "sda", None), (1, "sdb", reason), (1, "sdc", None)]
        );
        let array = sample.devices[0].array.clone().expect("an array");
        assert_eq!((array.sync_action.as_str(), array.sync_done), ("resync", Some(0.25)));
        assert_eq!((array.sync_kib_per_s, array.thread_cpu_share), (Some(51_200), Some(0.3)));
        // The thread that synchronises has run for nine seconds when it is found: they are not those of one second.
        tree.put("proc/82/comm", "md0_resync\n").put("proc/82/stat", stat(900).replace("81", "82"));
        tree.put("proc/81/stat", stat(150));
        let share = |sample: &Sample| sample.devices[0].array.clone().unwrap().thread_cpu_share;
        let sample = watcher.look(moment(11_000), None);
        assert_eq!(share(&sample), Some(0.02));
        tree.put("proc/82/stat", stat(940).replace("81", "82"));
        assert_eq!(share(&watcher.look(moment(12_000), None)), Some(0.4));
        // It ends: the other one goes on.
        tree.put("proc/82/stat", "");
        tree.put("proc/81/stat", stat(160));
        assert_eq!(share(&watcher.look(moment(13_000), None)), Some(0.1));
    }
}
