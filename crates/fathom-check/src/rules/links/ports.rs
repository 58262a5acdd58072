//! Speeds of SATA, SAS and USB.

use crate::rules::drives::{is_flash, is_virtual, transport};
use crate::rules::shared::sysfs;
use crate::scene::Scene;
use fathom_base::shell::word;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::stack::{Node, NodeKind};

/// The number in `6.0 Gbps`, `6.0 Gb/s` or `12.0 Gbit`, in tenths; none for words such as `Phy disabled`.
pub(super) fn gbit_x10(text: &str) -> Option<u64> {
    let number = text.split_whitespace().next()?;
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let tenths: u64 = tenths.get(..1)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(10)?.checked_add(tenths).filter(|&speed| speed > 0)
}

fn gbit(x10: u64) -> String {
    format!("{}.{} Gbit/s", x10 / 10, x10 % 10)
}

/// A SATA link that came up, or was put, below what drive and port can do.
pub(super) fn sata_slow(scene: &Scene<'_>) -> Vec<Defect> {
    scene.nodes(&[NodeKind::Disk]).filter(|(_, node)| transport(node) == "sata" && !is_virtual(node)).filter_map(|(_, node)| {
        let drive = node.drive.as_ref()?;
        let told = node.details().sata_speed.as_ref();
        let runs = told.map(|(now, _)| now.as_str()).or(drive.link_speed.as_deref())?;
        let port = told.map(|(_, limit)| limit.as_str()).or(drive.link_speed_max.as_deref());
        let own = node.details().identity.as_ref().and_then(|identity| identity.interface_speed_max.as_deref());
        let (now, port, own) = (gbit_x10(runs)?, port.and_then(gbit_x10), own.and_then(gbit_x10));
        let could = match (port, own) {
            (Some(port), Some(own)) => port.min(own),
            (port, own) => port.or(own)?,
        };
        if now >= could {
            return None;
        }
        // Without the drive's own word it may be one of an older generation.
        let (gravity, sure) = match (own, port) {
            // Flash of the first generation is gone; the kernel falls back to its speed after errors.
            (None, Some(_)) if is_flash(node) && now <= FIRST_GENERATION_X10 => {
                (Gravity::High, Certainty::Likely)
            }
            (None, _) => (Gravity::Low, Certainty::Possible),
            (_, Some(_)) if is_flash(node) => (Gravity::High, Certainty::Certain),
            (_, None) if is_flash(node) => (Gravity::High, Certainty::Likely),
            (_, Some(_)) => (Gravity::Medium, Certainty::Certain),
            (_, None) => (Gravity::Medium, Certainty::Likely),
        };
        let mut defect = Defect::new(
            "sata-link-slow",
            gravity,
            Some(&node.key()),
            format!("the SATA link of {} runs at {} instead of {}", node.name, gbit(now), gbit(could)),
        )
        .sure(sure)
        .seen("/sys/class/ata_link/linkN/sata_spd", runs);
        if let Some(own) = own {
            defect = defect.seen(format!("identity of {}", node.label()), format!("up to {}", gbit(own)));
        }
        if let Some(port) = port {
            defect = defect.seen("/sys/class/ata_link/linkN/hw_sata_spd_limit", gbit(port));
        }
        Some(
            defect
                .because(if is_flash(node) {
                    "sequential rates are halved or worse; a link that the kernel slowed down had errors before"
                } else {
                    "the drive may still be slower than its link, but a link that was slowed down had errors, which stall it now and then"
                })
                .command("see whether the kernel slowed it down after errors, or the port cannot do more", "dmesg | grep -E 'SATA link up|limiting SATA link'")
                .advise("other cable or bay; a port of an older standard on the board: use another one")
                .risking("none; with the machine off, or in a hot-swap bay")
                .verified_by("dmesg shows the full speed after the next start; fathom run seqread DIR before and after"),
        )
    })
    .collect()
}

/// What SAS of the second generation (2009) runs at.
const SECOND_GENERATION_X10: u64 = 60;
/// Of SATA, in tenths of Gbit/s.
const FIRST_GENERATION_X10: u64 = 15;

/// A SAS link below the highest rate of its phy.
pub(super) fn sas_slow(scene: &Scene<'_>) -> Vec<Defect> {
    scene.nodes(&[NodeKind::Disk]).filter_map(|(_, node)| {
        // A SATA drive behind SAS never does more than 6 Gbit/s, whatever the phy can.
        if transport(node) != "sas" || is_virtual(node) {
            return None;
        }
        let rates = node.details().sas_rates.iter();
        let rates = rates.filter_map(|(now, max)| Some((gbit_x10(now)?, gbit_x10(max)?)));
        let (now, best) = rates.min_by_key(|(now, _)| *now).filter(|(now, best)| now < best)?;
        // A drive may be some generations older than its phy, but drives of 3 Gbit/s are hardly left.
        let lost_more = now < SECOND_GENERATION_X10 && now.saturating_mul(2) < best;
        let gravity = if lost_more && is_flash(node) { Gravity::High } else if lost_more { Gravity::Medium } else { Gravity::Low };
        Some(
            Defect::new(
                "sas-link-slow",
                gravity,
                Some(&node.key()),
                format!("the SAS link of {} runs at {}; its port can do {}", node.name, gbit(now), gbit(best)),
            )
            .sure(if lost_more { Certainty::Likely } else { Certainty::Possible })
            .seen("/sys/class/sas_phy/phy-N/negotiated_linkrate", gbit(now))
            .seen("/sys/class/sas_phy/phy-N/maximum_linkrate", gbit(best))
            .because("either the drive, expander or cable is of an older generation, or the link trained badly")
            .command("see what the drive itself can do", format!("smartctl -x {} | grep -i 'link rate'", word(node.label())))
            .advise("if the drive can do more: other cable, other bay, then the expander's firmware")
            .risking("none; in a hot-swap bay or with the machine off")
            .verified_by("fathom run seqread DIR before and after"),
        )
    })
    .collect()
}

/// A disk behind a USB link of the second generation or older.
pub(super) fn usb2(scene: &Scene<'_>) -> Vec<Defect> {
    const USB2_MBIT_PER_S: u64 = 480;
    scene.nodes(&[NodeKind::Disk]).filter_map(|(index, node): (usize, &Node)| {
        let speed = node.details().usb_mbit_per_s.filter(|&speed| speed <= USB2_MBIT_PER_S)?;
        if transport(node) != "usb" || is_virtual(node) {
            return None;
        }
        Some(
            Defect::new(
                "usb2-disk",
                if scene.in_use(index) { Gravity::Medium } else { Gravity::Low },
                Some(&node.key()),
                format!("{} hangs on a USB link of {speed} Mbit/s: at most some 40 MB/s", node.name),
            )
            .seen(format!("speed of the USB device above {}", sysfs(node, "device")), format!("{speed} Mbit/s"))
            .because("every disk of the last ten years is faster than that, and the old protocol has one request in flight")
            .advise("another port (blue, or marked SS), a cable with all wires, no hub of the second generation between")
            .command("see where it hangs", "lsusb -t")
            .risking("none; unmount it before it is unplugged")
            .verified_by("lsusb -t shows 5000M or more; fathom run seqread DIR before and after"),
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::gbit_x10;

    #[test]
    fn speeds_in_their_forms() {
        assert_eq!(gbit_x10("6.0 Gbps"), Some(60));
        assert_eq!(gbit_x10("1.5 Gb/s"), Some(15));
        assert_eq!(gbit_x10("22.5 Gbit"), Some(225));
        assert_eq!(gbit_x10("12 Gbit"), Some(120));
        for none in ["<unknown>", "Phy disabled", "Unknown", "", "0.0 Gbit"] {
            assert_eq!(gbit_x10(none), None, "{none}");
        }
    }
}
