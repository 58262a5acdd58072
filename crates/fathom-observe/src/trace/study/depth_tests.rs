//! Simulated devices: how many are in flight by the trace, held against how many really were.

use super::*;
use fathom_base::order::Order;
use fathom_base::prng::{Prng, chance_threshold};

#[derive(Debug, Clone, Copy)]
enum Service {
    Fifo,
    Lifo,
    Elevator,
    ReadsFirst,
}

/// A load in a closed loop on a device, and how much of its trace is lost.
#[derive(Debug, Clone, Copy)]
struct Scene {
    service: Service,
    depth: usize,
    /// The device works on so many at once.
    slots: usize,
    /// So much goes to a few hot places.
    hot_share: f64,
    hot_places: u64,
    /// So many follow the one before, and are merged with it where that still waits.
    follow_share: f64,
    /// Nobody asks at once after an end in so many cases.
    think_share: f64,
}

/// What waits: one request or several that are merged, each with its arrival.
#[derive(Debug, Clone)]
struct Asked {
    class: Class,
    sector: u64,
    sectors: u32,
    arrived_ns: Vec<u64>,
}

struct Simulation {
    scene: Scene,
    prng: Prng,
    now_ns: u64,
    waiting: Vec<Asked>,
    served: Vec<(u64, Asked)>,
    thinking: Vec<u64>,
    next_sector: u64,
    head: u64,
    events: Vec<Event>,
    /// When each began and ended.
    truth: Vec<(u64, u64)>,
}

impl Simulation {
    fn chance(&mut self, share: f64) -> bool {
        self.prng.chance(chance_threshold(share))
    }

    fn push(&mut self, action: Action, class: Class, sector: u64, sectors: u32) {
        let event = Event::new(action, self.now_ns);
        self.events.push(Event { sector, sectors, class, name: 1, ..event });
    }

    fn arrive(&mut self) {
        let class = if self.chance(0.5) { Class::Read } else { Class::Write };
        let sector = if self.chance(self.scene.hot_share) {
            self.prng.below(self.scene.hot_places) * 8
        } else if self.chance(self.scene.follow_share) {
            self.next_sector
        } else {
            self.prng.below(1 << 24) * 8
        };
        self.next_sector = sector + 8;
        self.push(Action::Queue, class, sector, 8);
        let before = self.waiting.iter().position(|asked| {
            asked.class == class && asked.sector + u64::from(asked.sectors) == sector
        });
        if let Some(before) = before {
            self.push(Action::BackMerge, class, sector, 8);
            let now_ns = self.now_ns;
            let asked = &mut self.waiting[before];
            asked.sectors += 8;
            asked.arrived_ns.push(now_ns);
        } else {
            let arrived_ns = vec![self.now_ns];
            self.waiting.push(Asked { class, sector, sectors: 8, arrived_ns });
        }
    }

    fn serve(&mut self) {
        while self.served.len() < self.scene.slots && !self.waiting.is_empty() {
            let way = |sector: u64| (sector < self.head, sector);
            let at = match self.scene.service {
                Service::Fifo => Some(0),
                Service::Lifo => self.waiting.len().checked_sub(1),
                Service::Elevator => {
                    (0..self.waiting.len()).min_by_key(|at| way(self.waiting[*at].sector))
                }
                Service::ReadsFirst => {
                    let is_read = |asked: &Asked| asked.class == Class::Read;
                    self.waiting.iter().position(is_read).or(Some(0))
                }
            };
            let Some(at) = at else { return };
            let asked = self.waiting.remove(at);
            self.head = asked.sector;
            self.push(Action::Issue, asked.class, asked.sector, asked.sectors);
            let slow_ns = if self.chance(0.01) { 2_000_000 } else { 0 };
            let end_ns = self.now_ns + 50_000 + self.prng.below(100_000) + slow_ns;
            self.served.push((end_ns, asked));
        }
    }

    fn end(&mut self) {
        let next = self.served.iter().map(|(end_ns, _)| *end_ns).min();
        let arrival = self.thinking.iter().copied().min();
        let Some(now_ns) = next.into_iter().chain(arrival).min() else { return };
        self.now_ns = now_ns.max(self.now_ns);
        let real_ns = self.now_ns;
        if arrival == Some(now_ns) {
            self.thinking.retain(|at| *at != now_ns);
            self.arrive();
            return;
        }
        let Some(at) = self.served.iter().position(|(end_ns, _)| *end_ns == now_ns) else { return };
        let (_, asked) = self.served.swap_remove(at);
        self.push(Action::Complete, asked.class, asked.sector, asked.sectors);
        for arrived_ns in asked.arrived_ns {
            self.truth.push((arrived_ns, real_ns));
            if self.chance(self.scene.think_share) {
                let think_ns = 1 + self.prng.below(400_000);
                self.thinking.push(real_ns + think_ns);
            } else {
                self.now_ns += 1;
                self.arrive();
            }
        }
    }

    fn run(scene: Scene, seed: u64, requests: usize) -> Self {
        let mut simulation = Self {
            scene,
            prng: Prng::new(seed, 7),
            now_ns: 1_000_000,
            waiting: Vec::new(),
            served: Vec::new(),
            thinking: Vec::new(),
            next_sector: 0,
            head: 0,
            events: Vec::new(),
            truth: Vec::new(),
        };
        for _ in 0..scene.depth {
            simulation.now_ns += 1;
            simulation.arrive();
        }
        while simulation.truth.len() < requests {
            simulation.serve();
            simulation.end();
        }
        let now_ns = simulation.now_ns;
        let waits = simulation.waiting.iter().chain(simulation.served.iter().map(|(_, w)| w));
        let waits = waits.flat_map(|asked| asked.arrived_ns.iter().map(|from| (*from, now_ns)));
        simulation.truth.extend(waits.collect::<Vec<_>>());
        simulation
    }

    /// The same figures as a study has, counted one by one.
    fn truth(&self) -> CaptureRecord {
        let ends = self
            .truth
            .iter()
            .filter(|(from, to)| from < to)
            .flat_map(|(from, to)| [(*from, 1i64), (*to, -1)]);
        let mut steps: Vec<_> = ends.collect();
        steps.order();
        let (mut since_ns, mut depth) = (self.events[0].time_ns, 0i64);
        let mut depth_ns = vec![0; self.scene.depth + 1];
        for (at_ns, step) in steps {
            depth_ns[depth as usize] += at_ns - since_ns;
            (since_ns, depth) = (at_ns, depth + step);
        }
        depth_ns[depth as usize] += self.now_ns - since_ns;
        CaptureRecord { depth_ns, ..CaptureRecord::default() }
    }

    fn seen(&mut self, lost_share: f64, only_ends: bool) -> CaptureRecord {
        let mut study = Study::new(1 << 40);
        study.begin(self.events[0].time_ns);
        if lost_share > 0.0 {
            study.had_losses();
        }
        let names = Names::default();
        let threshold = chance_threshold(lost_share);
        for event in &self.events {
            let may_be_lost = !only_ends || event.action == Action::Complete;
            if lost_share == 0.0 || !may_be_lost || !self.prng.chance(threshold) {
                study.event(event, &names);
            }
        }
        study.finish(Some(self.now_ns))
    }
}

const SERVICES: [Service; 4] =
    [Service::Fifo, Service::Lifo, Service::Elevator, Service::ReadsFirst];

/// One after the other, on flash, on a disk, and a queue far longer than the device takes: how many are asked for, and how many are worked on.
const DEPTHS: [(usize, usize); 5] = [(1, 1), (4, 4), (32, 1), (32, 32), (256, 32)];

/// Every service with every depth, with and without pauses; so much goes to so many hot places.
fn scenes((hot_share, hot_places): (f64, u64)) -> impl Iterator<Item = Scene> {
    let ways = [0.0, 0.8].into_iter().flat_map(|think| DEPTHS.map(|depths| (think, depths)));
    ways.flat_map(move |(think_share, (depth, slots))| {
        SERVICES.map(|service| Scene {
            service,
            depth,
            slots,
            hot_share,
            hot_places,
            follow_share: 0.2,
            think_share,
        })
    })
}

/// Whatever starves or waits at one place with others: in flight is what has begun and not ended.
#[test]
fn without_losses_the_depth_is_exact() {
    for (seed, hot) in [(0.1, 1), (0.9, 4)].into_iter().enumerate() {
        for scene in scenes(hot) {
            let mut simulation = Simulation::run(scene, seed as u64, 1500);
            let (seen, mut truth) = (simulation.seen(0.0, true), simulation.truth());
            truth.depth_ns.truncate(seen.depth_ns.len());
            assert_eq!(seen.depth_ns, truth.depth_ns, "{scene:?}");
            assert_eq!(seen.faults.abandoned, 0, "{scene:?}");
        }
    }
}

/// How far mean, 90 % and maximum are off, as shares; of what is small a request is no large share.
fn errors(seen: &CaptureRecord, truth: &CaptureRecord) -> [f64; 3] {
    let off = |seen: f64, truth: f64, least: f64| (seen - truth) / truth.max(least);
    let quantile = |share, least| {
        off(seen.depth_quantile(share) as f64, truth.depth_quantile(share) as f64, least)
    };
    [off(seen.depth_mean(), truth.depth_mean(), 1.0), quantile(0.9, 10.0), quantile(1.0, 15.0)]
}

/// The bounds that docs/capture.md states. Where the newest is served first some starve to the end of the trace, and so do writes where reads go
/// first and come all the time: these cannot be told from those whose end is missing.
#[test]
fn with_few_losses_the_depth_is_near() {
    let bounds = [0.1, 0.1, 0.2];
    let is_starving = |scene: &Scene| match scene.service {
        Service::Lifo => true,
        Service::ReadsFirst => scene.think_share < 0.5,
        Service::Fifo | Service::Elevator => false,
    };
    let (mut far, mut count) = (Vec::new(), 0);
    for hot in [(0.0, 1), (0.3, 16)] {
        for scene in scenes(hot).filter(|scene| !is_starving(scene)) {
            let mut simulation = Simulation::run(scene, 101, 3000);
            let (seen, truth) = (simulation.seen(0.005, true), simulation.truth());
            assert!(seen.knows_depth(), "{scene:?} {:?}", seen.faults);
            let errors = errors(&seen, &truth);
            count += 1;
            if errors.iter().zip(bounds).any(|(error, bound)| error.abs() > bound) {
                far.push(format!("{errors:.2?} {scene:?}"));
            }
        }
    }
    assert!(far.is_empty() && count > 45, "{} of {count}\n{}", far.len(), far.join("\n"));
}

/// One end in 20 is missing, or one event in 200, wherever requests go and whatever starves: what is told is near, or is not known.
#[test]
fn with_any_losses_the_depth_is_near_or_not_known() {
    let bounds = [0.15, 0.2, 0.3];
    let (mut far, mut known, mut count) = (Vec::new(), 0, 0);
    for hot in [(0.0, 1), (0.3, 16), (1.0, 1), (1.0, 64)] {
        let losses = [(0.05, true), (0.005, false)];
        let all = scenes(hot).flat_map(|scene| losses.map(|lost| (scene, lost)));
        for (scene, (lost_share, only_ends)) in all {
            let mut simulation = Simulation::run(scene, 102, 1500);
            let (seen, truth) = (simulation.seen(lost_share, only_ends), simulation.truth());
            let errors = errors(&seen, &truth);
            count += 1;
            known += u32::from(seen.knows_depth());
            let is_far = errors.iter().zip(bounds).any(|(error, bound)| error.abs() > bound);
            if seen.knows_depth() && is_far {
                far.push(format!("{errors:.2?} {lost_share} {only_ends} {scene:?}"));
            }
        }
    }
    assert!(
        far.is_empty() && known > 60,
        "{} of {known} of {count}\n{}",
        far.len(),
        far.join("\n")
    );
}
