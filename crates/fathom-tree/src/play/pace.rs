//! Transactions in time: when each is due in an open loop, how long each took from its start and from when it was due, and
//! what had not ended when the window did.

use crate::window::{Place, Window};
use fathom_base::prng::Prng;
use fathom_model::play::{PlayAct, PlaySpec, Played, PlayedAct, PlayedRate, PlayedUnfinished};
use fathom_model::workload::Arrivals;
use fathom_stats::Histogram;

/// Transactions that were never started are looked at one by one up to this; of more, their mean distance is enough.
const SINGLY_MAX: u64 = 100_000;

/// When the transactions of one client are due.
#[derive(Debug, Clone)]
pub(super) struct Arriving {
    start_ns: u64,
    interval_ns: f64,
    arrivals: Arrivals,
    random: Prng,
    /// Since the start.
    next_ns: f64,
}

impl Arriving {
    /// The part of one client; none in a closed loop.
    pub(super) fn new(spec: &PlaySpec, number: u32, start_ns: u64, random: Prng) -> Option<Self> {
        let clients = f64::from(spec.clients.max(1));
        let interval_ns = 1e9 * clients / spec.rate?;
        // At equal distances over all clients.
        let first_ns = interval_ns * f64::from(number) / clients;
        let mut one =
            Self { start_ns, interval_ns, arrivals: spec.arrivals, random, next_ns: first_ns };
        if spec.arrivals == Arrivals::Poisson {
            one.next_ns = one.distance_ns();
        }
        Some(one)
    }

    fn due_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.next_ns as u64)
    }

    fn advance(&mut self) {
        self.next_ns += match self.arrivals {
            Arrivals::Even => self.interval_ns,
            Arrivals::Poisson => self.distance_ns(),
        };
    }

    fn distance_ns(&mut self) -> f64 {
        // In ]0, 1]: 53 bits and one step.
        let unit = ((self.random.next_u64() >> 11) + 1) as f64 / 2f64.powi(53);
        -unit.ln() * self.interval_ns
    }
}

/// The transactions of one client, in one window.
#[derive(Debug)]
pub(super) struct Ledger {
    window: Window,
    acts: Vec<PlayedAct>,
    arriving: Option<Arriving>,
    rate: PlayedRate,
    /// The one that goes on: which, when it was due and when it began.
    current: Option<(PlayAct, u64, u64)>,
    /// The one that the end of the window cut.
    unfinished: Option<PlayedUnfinished>,
    /// Since when the client has nothing to do.
    free_ns: u64,
}

impl Ledger {
    pub(super) fn new(
        mix: &[(PlayAct, u32)],
        arriving: Option<Arriving>,
        window: Window,
        start_ns: u64,
    ) -> Self {
        let acts = mix.iter().map(|(act, _)| nothing_of(*act, arriving.is_some())).collect();
        Self {
            window,
            acts,
            arriving,
            rate: PlayedRate::default(),
            current: None,
            unfinished: None,
            free_ns: start_ns,
        }
    }

    /// When the next transaction is due; none in a closed loop.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.arriving.as_ref().map(Arriving::due_ns)
    }

    /// The one that is due begins.
    pub(super) fn begin(&mut self, act: PlayAct, start_ns: u64) {
        let due_ns = self.next_due_ns().unwrap_or(start_ns);
        self.current = Some((act, due_ns, start_ns));
        let Some(arriving) = &mut self.arriving else { return };
        arriving.advance();
        let Window { start_ns: begin_ns, end_ns } = self.window;
        if start_ns >= end_ns {
            // Nobody counts it any more; what waited is told by the one that is due.
            self.note_not_started(due_ns, end_ns);
            return;
        }
        let is_due_inside = (begin_ns..end_ns).contains(&due_ns);
        self.rate.due += u64::from(is_due_inside);
        self.rate.backlog_start += u64::from(due_ns < begin_ns && start_ns >= begin_ns);
        if start_ns >= begin_ns {
            let delay_ns = start_ns.saturating_sub(due_ns.max(self.free_ns));
            self.rate.start_delay_ns.record(delay_ns);
        }
    }

    fn note_not_started(&mut self, due_ns: u64, end_ns: u64) {
        if due_ns >= end_ns {
            return;
        }
        let begin_ns = self.window.start_ns;
        self.rate.due += u64::from(due_ns >= begin_ns);
        self.rate.backlog_start += u64::from(due_ns < begin_ns);
        let age_ns = end_ns - due_ns;
        self.rate.not_started += 1;
        self.rate.oldest_not_started_ns.get_or_insert(age_ns);
        self.rate.unfinished_ns.record(age_ns);
    }

    /// The one that goes on has ended.
    pub(super) fn end(&mut self, end_ns: u64) {
        let Some((act, due_ns, start_ns)) = self.current.take() else { return };
        self.free_ns = end_ns;
        let Window { start_ns: begin_ns, end_ns: last_ns } = self.window;
        if end_ns > last_ns {
            self.note_unfinished(act, start_ns, last_ns);
        }
        let is_open = self.arriving.is_some();
        let place = self.acts.iter().position(|record| record.act == act);
        let place = place.unwrap_or_else(|| {
            // Not in the mix, but what was in it could not be done.
            self.acts.push(nothing_of(act, is_open));
            self.acts.len() - 1
        });
        let record = &mut self.acts[place];
        if self.window.place(start_ns, end_ns) == Place::Inside {
            record.service_ns.record(end_ns - start_ns);
        }
        let Some(response_ns) = &mut record.response_ns else { return };
        if end_ns > begin_ns && end_ns <= last_ns {
            response_ns.record(end_ns.saturating_sub(due_ns));
        } else if end_ns > last_ns && start_ns < last_ns && due_ns < last_ns {
            self.rate.unfinished_ns.record(last_ns - due_ns);
        }
    }

    fn note_unfinished(&mut self, act: PlayAct, start_ns: u64, end_ns: u64) {
        if start_ns < end_ns {
            let age_ns = end_ns - start_ns;
            self.unfinished.get_or_insert(PlayedUnfinished { act, age_ns });
        }
    }

    /// Time is over: what waits never starts. The window may have been cut short.
    pub(super) fn finish(mut self, end_ns: u64) -> Played {
        if let Some((act, _, start_ns)) = self.current {
            self.note_unfinished(act, start_ns, end_ns);
        }
        if let (Some((_, due_ns, start_ns)), Some(_)) = (self.current, &self.arriving)
            && start_ns < end_ns
            && due_ns < end_ns
        {
            self.rate.unfinished_ns.record(end_ns - due_ns);
        }
        while let Some(due_ns) = self.next_due_ns().filter(|due_ns| *due_ns < end_ns) {
            if self.rate.not_started >= SINGLY_MAX {
                self.count_rest(due_ns, end_ns);
                break;
            }
            self.note_not_started(due_ns, end_ns);
            self.arriving.iter_mut().for_each(Arriving::advance);
        }
        let is_open = self.arriving.is_some();
        let rate = is_open.then_some(self.rate);
        Played { acts: self.acts, unfinished: self.unfinished, rate }
    }

    fn count_rest(&mut self, due_ns: u64, end_ns: u64) {
        let Some(arriving) = &self.arriving else { return };
        let count = ((end_ns - due_ns) as f64 / arriving.interval_ns) as u64 + 1;
        let inside_ns = end_ns - due_ns.clamp(self.window.start_ns, end_ns);
        let inside = ((inside_ns as f64 / arriving.interval_ns) as u64 + 1).min(count);
        self.rate.not_started += count;
        self.rate.due += inside;
        self.rate.backlog_start += count - inside;
    }
}

fn nothing_of(act: PlayAct, is_open: bool) -> PlayedAct {
    let response_ns = is_open.then(Histogram::new);
    PlayedAct { act, service_ns: Histogram::new(), response_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn spec(rate: f64, clients: u32, arrivals: Arrivals) -> PlaySpec {
        PlaySpec { rate: Some(rate), clients, arrivals, ..PlaySpec::default() }
    }

    fn dues(spec: &PlaySpec, number: u32, count: usize) -> Vec<u64> {
        let mut arriving = Arriving::new(spec, number, 5, Prng::new(1, 2)).expect("open");
        let mut next = || {
            let due_ns = arriving.due_ns();
            arriving.advance();
            due_ns
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn clients_share_the_rate_at_equal_distances() {
        let two = spec(2_000.0, 2, Arrivals::Even);
        assert_eq!(dues(&two, 0, 3), [5, MS + 5, 2 * MS + 5]);
        assert_eq!(dues(&two, 1, 3), [MS / 2 + 5, 3 * MS / 2 + 5, 5 * MS / 2 + 5]);
        assert!(Arriving::new(&PlaySpec::default(), 0, 0, Prng::new(1, 2)).is_none());
    }

    #[test]
    fn independent_arrivals_have_the_mean_of_the_rate_and_spread() {
        let all = dues(&spec(1_000.0, 1, Arrivals::Poisson), 0, 20_001);
        let distances: Vec<f64> = all.windows(2).map(|two| (two[1] - two[0]) as f64).collect();
        let mean = distances.iter().sum::<f64>() / 20_000.0;
        // Standard error: 0.7 %.
        assert!((0.97e6..1.03e6).contains(&mean), "{mean}");
        let above = distances.iter().filter(|ns| **ns > mean).count() as f64 / 20_000.0;
        assert!((0.35..0.385).contains(&above), "1/e of them are longer: {above}");
    }

    /// Due each millisecond, in a window from 10 to 20 ms; each takes what the list says.
    fn played(took_ns: &[u64], until_ns: u64) -> Played {
        let spec = spec(1_000.0, 1, Arrivals::Even);
        let arriving = Arriving::new(&spec, 0, 0, Prng::new(1, 2));
        let window = Window { start_ns: 10 * MS, end_ns: 20 * MS };
        let mut ledger = Ledger::new(&[(PlayAct::Stat, 1)], arriving, window, 0);
        let mut now_ns = 0;
        for took_ns in took_ns {
            now_ns = now_ns.max(ledger.next_due_ns().expect("open"));
            ledger.begin(PlayAct::Stat, now_ns);
            now_ns += took_ns;
            ledger.end(now_ns);
        }
        ledger.finish(until_ns)
    }

    #[test]
    fn a_rate_that_is_reached_has_no_backlog() {
        let played = played(&[MS / 10; 30], 20 * MS);
        let rate = played.rate.expect("open");
        assert_eq!((rate.due, rate.not_started, rate.backlog_start), (10, 0, 0));
        let act = &played.acts[0];
        assert_eq!((act.service_ns.count(), act.service_ns.max()), (10, Some(MS / 10)));
        let response = act.response_ns.as_ref().expect("open");
        assert_eq!((response.count(), response.max()), (10, Some(MS / 10)));
        assert_eq!((rate.start_delay_ns.max(), rate.unfinished_ns.count()), (Some(0), 0));
    }

    #[test]
    fn what_hangs_holds_up_those_behind_and_their_response_says_so() {
        // Due at 12: until 15.5; those of 13, 14 and 15 begin then.
        let mut took = [MS / 10; 30];
        took[12] = 7 * MS / 2;
        let played = played(&took, 20 * MS);
        let act = &played.acts[0];
        let response = act.response_ns.as_ref().expect("open");
        assert_eq!(response.count_above(MS), 3);
        assert_eq!(act.service_ns.count_above(MS), 1);
        assert_eq!(played.rate.expect("open").not_started, 0);
    }

    #[test]
    fn what_is_too_slow_falls_behind_and_everything_due_is_accounted_for() {
        // Each takes two milliseconds: of those due at 0, 1, 2, ... the fifth begins at 8 and ends at 10.
        let played = played(&[2 * MS; 10], 20 * MS);
        let rate = played.rate.expect("open");
        assert_eq!((rate.due, rate.backlog_start), (10, 5), "5 to 9 wait when it begins");
        let act = &played.acts[0];
        assert_eq!(act.service_ns.count(), 5);
        assert_eq!(rate.not_started, 10, "10 to 19");
        assert_eq!(rate.oldest_not_started_ns, Some(10 * MS));
        assert_eq!(rate.unfinished_ns.count(), 10);
        let done = rate.due + rate.backlog_start - rate.not_started;
        assert_eq!(act.response_ns.as_ref().expect("open").count(), done);
    }

    /// What began before the window and ends in it has no service time there, but whoever asked for it has waited until then.
    #[test]
    fn one_that_goes_on_at_the_start_answers_in_the_window() {
        // Due at 8: until 12.5; those of 9, 10, 11 and 12 begin then.
        let mut took = [MS / 10; 30];
        took[8] = 9 * MS / 2;
        let played = played(&took, 20 * MS);
        let act = &played.acts[0];
        assert_eq!((act.service_ns.count(), act.service_ns.max()), (11, Some(MS / 10)), "9 to 19");
        let response = act.response_ns.as_ref().expect("open");
        assert_eq!((response.count(), response.max()), (12, Some(9 * MS / 2)));
        let rate = played.rate.expect("open");
        assert_eq!(
            (rate.due, rate.backlog_start, rate.not_started),
            (10, 1, 0),
            "that of 9 waited"
        );
    }

    #[test]
    fn one_that_goes_on_at_the_end_is_censored_also_when_the_window_is_cut() {
        let mut took = vec![MS / 10; 15];
        took.push(30 * MS);
        let whole = played(&took, 20 * MS).rate.expect("open");
        assert_eq!((whole.due, whole.not_started, whole.unfinished_ns.count()), (10, 4, 5));
        assert_eq!(whole.unfinished_ns.max(), Some(5 * MS));
        let cut = played(&took[..13], 13 * MS).rate.expect("open");
        assert_eq!((cut.due, cut.not_started), (3, 0));
    }

    #[test]
    fn what_the_end_of_the_window_cuts_is_told_in_a_closed_loop_too() {
        let window = Window { start_ns: 10 * MS, end_ns: 20 * MS };
        let played = |pieces: &[(PlayAct, u64, u64)], ended_ns| {
            let mut ledger = Ledger::new(&[(PlayAct::TreeRead, 1)], None, window, 0);
            for (act, start_ns, end_ns) in pieces {
                ledger.begin(*act, start_ns * MS);
                if *end_ns > 0 {
                    ledger.end(end_ns * MS);
                }
            }
            ledger.finish(ended_ns)
        };
        let cut = |age_ns| Some(PlayedUnfinished { act: PlayAct::TreeRead, age_ns });
        let read = PlayAct::TreeRead;
        // Over the whole window; ended behind it, or never.
        assert_eq!(played(&[(read, 5, 23)], 20 * MS).unfinished, cut(15 * MS));
        assert_eq!(played(&[(read, 5, 0)], 20 * MS).unfinished, cut(15 * MS));
        // The one that follows belongs to nobody.
        let two = played(&[(read, 11, 12), (read, 19, 22), (read, 22, 30)], 20 * MS);
        assert_eq!((two.unfinished, two.transactions()), (cut(MS), 1));
        assert_eq!(played(&[(read, 11, 20)], 20 * MS).unfinished, None);
        // What began before the window is in no row when it ends in it, and is not cut.
        let over = played(&[(read, 5, 12), (read, 12, 13), (read, 13, 20)], 20 * MS);
        assert_eq!((over.unfinished, over.transactions()), (None, 2), "from 12 and from 13 on");
        // What was done although it is not in the mix has a row of its own.
        let other = played(&[(PlayAct::TreeCreate, 12, 13), (read, 13, 15)], 20 * MS);
        let rows: Vec<_> = other.acts.iter().map(|act| (act.act, act.service_ns.count())).collect();
        assert_eq!(rows, [(read, 1), (PlayAct::TreeCreate, 1)]);
    }

    #[test]
    fn a_rate_beyond_everything_is_counted_in_time() {
        let spec = spec(1e6, 1, Arrivals::Even);
        let arriving = Arriving::new(&spec, 0, 0, Prng::new(1, 2));
        let hour_ns = 3_600_000 * MS;
        let window = Window { start_ns: 0, end_ns: hour_ns };
        let mut ledger = Ledger::new(&[(PlayAct::Stat, 1)], arriving, window, 0);
        ledger.begin(PlayAct::Stat, 0);
        ledger.end(hour_ns + 5);
        let rate = ledger.finish(hour_ns).rate.expect("open");
        assert!(rate.due.abs_diff(3_600_000_000) <= 2, "{}", rate.due);
        assert_eq!(rate.due, rate.not_started + 1);
    }
}
