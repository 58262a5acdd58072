//! Chunks against the requests that were recorded.

use crate::alignment::stripe_under;
use crate::array;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::snapshot::Measured;
use fathom_model::stack::NodeKind;

/// A chunk that cuts fewer requests costs little.
const CUT_SHARE: f64 = 0.2;

/// Random requests that occupy two disks where one would do.
pub(super) fn chunk_below_requests(scene: &Scene<'_>) -> Vec<Defect> {
    let measured = &scene.snapshot.measured;
    let is_newest = |m: &&Measured| {
        let same = measured.iter().filter(|other| other.random && other.target == m.target);
        same.map(|other| other.made_at_unix_s).max() == Some(m.made_at_unix_s)
    };
    let random =
        measured.iter().filter(|m| m.random && m.verdict != "void" && !m.request_sizes.is_empty());
    random.filter(is_newest).filter_map(|m| cut(scene, m)).collect()
}

fn cut(scene: &Scene<'_>, measured: &Measured) -> Option<Defect> {
    let target = scene.by_key(&measured.target)?;
    let (index, striping) = stripe_under(scene, target)?;
    let array = scene.node(index);
    let chunk = striping.chunk_bytes;
    let share = array::share_of_cut_requests(&measured.request_sizes, chunk);
    let wanted =
        array::chunk_bytes_for(&measured.request_sizes).filter(|&wanted| wanted > chunk)?;
    if share < CUT_SHARE || striping.is_copy || array.kind != NodeKind::Md {
        return None;
    }
    let device = word(array.label());
    let kib = wanted / 1024;
    Some(
        Defect::new(
            "chunk-below-requests",
            Gravity::Low,
            Some(&array.key()),
            format!(
                "{:.0} % of the random requests that were recorded are cut by the chunks of {} of {}",
                share * 100.0,
                format_size(chunk),
                array.name
            ),
        )
        .sure(Certainty::Possible)
        .seen(format!("run {} ({})", measured.run, measured.workload), format!("mean request {}", format_size(measured.request_bytes_mean as u64)))
        .seen(format!("/sys/block/{}/md/chunk_size", array.name), format!("{chunk} B"))
        .because("a request that is cut waits for the slower of two disks and keeps both busy: with many requests at a time the array serves fewer of them")
        .advise(format!("where your programs' requests are like those of the run: a chunk of {} holds the mean and one standard deviation more", format_size(wanted)))
        .command("try it on an array of the same disks without data", format!("mdadm --create /dev/md/NAME --chunk={kib} --level={} --raid-devices={} ...", array.md.as_ref().and_then(|md| md.level.as_deref()).unwrap_or("LEVEL"), striping.disks))
        .advise(format!("then reshape {device} (mdadm --grow --chunk={kib}, with a backup file) or build it anew"))
        .risking("a reshape moves all data, takes days, and a failure on the way can lose them; stripes of filesystems and volumes have to be told afterwards")
        .verified_by(format!("fathom run {} on the target before and after, and fathom compare", measured.workload)),
    )
}
