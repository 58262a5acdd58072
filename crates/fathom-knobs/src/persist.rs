//! How a setting survives a boot: the exact text, to be put where it says. fathom prints it and never installs it.

use crate::knob::{Home, Knob, Opt, Persist};
use crate::site::{Site, Spot};
use fathom_model::change::knob::KnobPlace;
use fathom_sys::sysroot::SysRoot;

/// A piece of configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Persistent {
    /// The file that it goes to.
    pub file: String,
    /// The text.
    pub text: String,
    /// What has to be done for it to hold, and what to mind.
    pub then: String,
}

/// The text that makes a value of a place hold after a boot; `VALUE` and `DEV` stand for what is not given.
#[must_use]
pub fn text(
    root: &SysRoot,
    knob: &Knob,
    place: Option<&KnobPlace>,
    value: Option<&str>,
) -> Persistent {
    let value = value.unwrap_or("VALUE");
    // 0 is how the kernel shows that the ratio holds; it takes no 0.
    if let ("vm.dirty_bytes" | "vm.dirty_background_bytes", "0") = (knob.id, value) {
        let ratio = knob.id.replace("bytes", "ratio");
        if let Ok(other) = crate::find(&ratio) {
            let now = crate::read(root, &KnobPlace::Machine, &ratio).ok();
            return text(root, other, place, now.as_deref());
        }
    }
    let made = |file: &str, text: String, then: &str| Persistent {
        file: file.to_owned(),
        text,
        then: then.to_owned(),
    };
    match knob.persist {
        Persist::Udev => made(
            "/etc/udev/rules.d/99-storage.rules",
            udev_rule(knob, place, value),
            "udevadm control --reload; udevadm trigger --action=change --subsystem-match=block",
        ),
        Persist::Sysctl => {
            let Home::Sysctl(name) = knob.home else { return other(knob.id) };
            made(
                "/etc/sysctl.d/99-storage.conf",
                format!("{} = {value}", name.replace('/', ".")),
                "sysctl --system",
            )
        }
        Persist::Fstab => made(
            "/etc/fstab",
            format!("{} in the fourth field of the mount", option_word(knob, value)),
            "mount -o remount MOUNTPOINT, where the kernel changes it while mounted; otherwise mount anew",
        ),
        Persist::Modprobe => {
            let Home::Module(module, name) = knob.home else { return other(knob.id) };
            made(
                "/etc/modprobe.d/99-storage.conf",
                format!("options {module} {name}={value}"),
                &format!(
                    "update-initramfs -u (or dracut -f), then boot; for a driver built into the kernel: {module}.{name}={value} on its command line"
                ),
            )
        }
        Persist::CommandLine => {
            let Home::Boot(name) = knob.home else { return other(knob.id) };
            made(
                "/etc/default/grub",
                format!("GRUB_CMDLINE_LINUX=\"... {name}={value}\""),
                "update-grub, then boot",
            )
        }
        Persist::Tmpfiles => made(
            "/etc/tmpfiles.d/99-storage.conf",
            format!(
                "w {} - - - - {}",
                path(root, knob, place),
                line_value(root, knob, place, value)
            ),
            "systemd-tmpfiles --create; the filesystem must be mounted before, else write it from a unit that follows the mount",
        ),
        Persist::Other(words) => other(words),
    }
}

fn other(words: &str) -> Persistent {
    Persistent { file: String::new(), text: words.to_owned(), then: String::new() }
}

fn option_word(knob: &Knob, value: &str) -> String {
    match knob.home {
        Home::Option(_, Opt::Value(name, _)) => format!("{name}={value}"),
        Home::Option(_, Opt::Flag(on, off, _)) => match value {
            "0" => off.to_owned(),
            "1" => on.to_owned(),
            _ => format!("{on} or {off}"),
        },
        Home::Option(_, Opt::Choice(several)) => several
            .iter()
            .find(|(word, ..)| *word == value)
            .map_or_else(|| value.to_owned(), |(.., write)| (*write).to_owned()),
        _ => value.to_owned(),
    }
}

/// The rule names the device by what never changes about it, as far as it has that.
fn udev_rule(knob: &Knob, place: Option<&KnobPlace>, value: &str) -> String {
    let attribute = match knob.home {
        Home::Queue(file) => format!("queue/{file}"),
        Home::Scheduler(_, file) => format!("queue/iosched/{file}"),
        Home::Device(file) => file.to_owned(),
        Home::Bdi(file) => format!("bdi/{file}"),
        Home::NvmeController(file) => format!("device/{file}"),
        _ => "ATTRIBUTE".to_owned(),
    };
    let device = match place {
        Some(KnobPlace::Device { id, name }) => device_match(id, name),
        _ => "KERNEL==\"DEV\"".to_owned(),
    };
    let scheduler = match knob.home {
        Home::Scheduler(scheduler, _) => format!("ATTR{{queue/scheduler}}=\"{scheduler}\", "),
        _ => String::new(),
    };
    format!(
        "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {device}, {scheduler}ATTR{{{attribute}}}=\"{value}\""
    )
}

fn device_match(id: &str, name: &str) -> String {
    let is_wwid =
        ["naa.", "eui.", "t10.", "uuid.", "nvme."].iter().any(|start| id.starts_with(start));
    if is_wwid {
        format!("ATTRS{{wwid}}==\"{id}\"")
    } else if name.starts_with("dm-") {
        format!("ENV{{DM_UUID}}==\"{id}\"")
    } else if name.starts_with("md") {
        format!("ENV{{MD_UUID}}==\"{id}\"")
    } else if id.starts_with('/') || id.starts_with(&format!("{name}:")) {
        format!("KERNEL==\"{name}\"")
    } else {
        format!("ENV{{ID_SERIAL_SHORT}}==\"{id}\"")
    }
}

fn spot(root: &SysRoot, knob: &Knob, place: Option<&KnobPlace>) -> Option<Spot> {
    Site::find(root, place?).ok()?.spot(root, knob)
}

fn path(root: &SysRoot, knob: &Knob, place: Option<&KnobPlace>) -> String {
    match spot(root, knob, place) {
        Some(Spot::Files(files)) => format!("/{}", files[0].display()),
        Some(Spot::Line(file, _)) => {
            format!("/{}", file.strip_prefix("/").unwrap_or(&file).display())
        }
        _ => knob.place(),
    }
}

fn line_value(root: &SysRoot, knob: &Knob, place: Option<&KnobPlace>, value: &str) -> String {
    match spot(root, knob, place) {
        Some(Spot::Line(_, number)) => format!("{number} {value}"),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
#[path = "persist_tests.rs"]
mod tests;
