//! Chunks against the requests that were recorded.

use crate::alignment::stripe_under;
use crate::array::{self, Striping};
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_base::units::format_size;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::snapshot::Measured;
use fathom_model::stack::{Node, NodeKind};

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

/// Drives that rotate read ahead by so much at least; what they find there is of other chunks then.
const SMALL_CHUNK_BYTES: u64 = 16 << 10;

/// Chunks so short that sequential readers lose the look-ahead of the drives. Where requests were recorded that they cut, that
/// is told.
pub(super) fn chunk_small(scene: &Scene<'_>) -> Vec<Defect> {
    let told = chunk_below_requests(scene);
    let is_told = |node: &Node| told.iter().any(|defect| defect.node == Some(node.key()));
    let arrays = scene.nodes(&[NodeKind::Md, NodeKind::Dm]);
    arrays
        .filter_map(|(index, node)| {
            let striping = Striping::of(node).filter(|striping| !striping.is_copy)?;
            let chunk = striping.chunk_bytes;
            if chunk > SMALL_CHUNK_BYTES || scene.rotates(index) != Some(true) || is_told(node) {
                return None;
            }
            let defect = Defect::new(
                "chunk-small",
                Gravity::Low,
                Some(&node.key()),
                format!("{} deals out chunks of only {} to drives that rotate", node.name, format_size(chunk)),
            )
            .sure(Certainty::Likely)
            .seen(chunk_source(node), format!("{chunk} B"))
            .because("a drive reads its track ahead, and what it has read there belongs to other chunks than the next that it is asked for: sequential readers lose that look-ahead, and larger requests occupy all drives at once");
            let anew = "when it is made anew (that destroys what is on it): 32 to 64 KiB for a single sequential reader, 256 to 512 KiB for random requests or several readers";
            let defect = match node.kind {
                NodeKind::Md => defect.advise(format!("{anew} (mdadm --create --chunk=64); RAID4, 5, 6 and 10 can also be reshaped (mdadm --grow --chunk=64 {}, with a backup file)", word(node.label()))),
                _ => defect.advise(format!("{anew} (lvcreate --stripesize 64k)")),
            };
            Some(
                defect
                    .risking("a reshape moves all data, takes days, and a failure on the way can lose them; stripes of filesystems and volumes have to be told afterwards")
                    .verified_by(format!("fathom run seqread {} before and after", word(node.label()))),
            )
        })
        .collect()
}

fn chunk_source(node: &Node) -> String {
    match node.kind {
        NodeKind::Md => format!("/sys/block/{}/md/chunk_size", node.name),
        _ => format!("table of {}", node.label()),
    }
}
