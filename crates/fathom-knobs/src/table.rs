//! The settings that are known, in one file for each family.

mod bdi;
mod block;
mod cgroup;
mod filesystem;
mod loops;
mod md;
mod scheduler;
mod scsi_nvme;
mod vm;

use crate::knob::Knob;
use std::sync::LazyLock;

static ALL: LazyLock<Vec<Knob>> = LazyLock::new(|| {
    let families: [&[Knob]; 9] = [
        block::KNOBS,
        scheduler::KNOBS,
        scsi_nvme::KNOBS,
        loops::KNOBS,
        md::KNOBS,
        vm::KNOBS,
        bdi::KNOBS,
        cgroup::KNOBS,
        filesystem::KNOBS,
    ];
    families.concat()
});

/// All of them.
pub fn all() -> &'static [Knob] {
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::{Access, Group, Values, order};
    use std::collections::BTreeSet;

    #[test]
    fn every_setting_says_what_a_person_must_know() {
        let mut ids = BTreeSet::new();
        for knob in all() {
            let id = knob.id;
            assert!(ids.insert(id), "{id} twice");
            assert!(id.contains('.') && !id.contains(' '), "{id}");
            assert!(!knob.title.is_empty() && knob.does.ends_with('.'), "{id}: {}", knob.does);
            assert!(knob.trap.is_empty() || knob.trap.ends_with('.'), "{id}: {}", knob.trap);
            assert!(knob.title.len() <= 60, "{id}: {}", knob.title);
            match knob.access {
                Access::Set => assert_ne!(knob.values, Values::Shown, "{id}"),
                Access::Refused(reason) | Access::Fixed(reason) => {
                    assert!(reason.len() > 20, "{id}")
                }
            }
        }
        assert!(ids.len() >= 100, "{}", ids.len());
    }

    #[test]
    fn the_order_follows_the_couplings() {
        let order = |id: &str| all().iter().find(|knob| knob.id == id).unwrap().order;
        let chain = [
            "block.scheduler",
            "block.max_sectors_kb",
            "block.nr_requests",
            "mq-deadline.async_depth",
            "block.wbt_lat_usec",
            "block.read_ahead_kb",
        ];
        assert!(chain.windows(2).all(|pair| order(pair[0]) < order(pair[1])));
        assert!(order("bfq.strict_guarantees") < order("bfq.slice_idle"));
        assert!(order("bfq.slice_idle") < order("bfq.slice_idle_us"));
        assert!(order("md.stripe_cache_size") < order("md.preread_bypass_threshold"));
        let queue = all().iter().filter(|knob| knob.group == Group::Queue);
        assert!(queue.clone().count() >= 30 && queue.clone().all(|k| k.order <= order::READ_AHEAD));
    }
}
