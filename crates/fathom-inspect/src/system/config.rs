//! Configuration files that say something on storage. Each parser is a pure function from text; what it does not understand
//! it passes over, as the programs that the files are for do.

pub mod fstab;
pub mod lvm;
pub mod mdadm;
pub mod multipath;
pub mod smartd;
pub mod udev;

use super::reader::Reader;
use fathom_model::system::{
    Configuration, LvmConfiguration, MdadmConfiguration, MultipathConfiguration,
    SmartdConfiguration,
};

/// All configuration files.
pub(crate) fn all(reader: &mut Reader<'_>) -> Configuration {
    Configuration {
        multipath: multipath(reader),
        lvm: lvm(reader),
        mdadm: mdadm(reader),
        smartd: smartd(reader),
        fstab: fstab::parse(&reader.text("etc/fstab").unwrap_or_default()),
        udev_queue_rules: udev_rules(reader),
    }
}

/// The files of a directory that end in `.conf`, in the order of their names.
fn parts(reader: &mut Reader<'_>, directory: &str) -> Vec<String> {
    let names = reader.names(directory).into_iter().filter(|name| name.ends_with(".conf"));
    let paths: Vec<String> = names.map(|name| format!("{directory}/{name}")).collect();
    paths.iter().filter_map(|path| reader.text(path)).collect()
}

fn multipath(reader: &mut Reader<'_>) -> Option<MultipathConfiguration> {
    let text = reader.text("etc/multipath.conf");
    let parts = parts(reader, "etc/multipath/conf.d");
    if text.is_none() && parts.is_empty() {
        return None;
    }
    let mut found = MultipathConfiguration::default();
    for text in text.iter().chain(&parts) {
        multipath::parse_into(&mut found, text);
    }
    Some(found)
}

fn lvm(reader: &mut Reader<'_>) -> Option<LvmConfiguration> {
    let text = reader.text("etc/lvm/lvm.conf");
    // What stands in the local file wins.
    let local = reader.text("etc/lvm/lvmlocal.conf");
    if text.is_none() && local.is_none() {
        return None;
    }
    let mut settings = lvm::parse(&text.unwrap_or_default());
    settings.extend(lvm::parse(&local.unwrap_or_default()));
    let devices_file_exists = reader.root.exists("etc/lvm/devices/system.devices");
    Some(LvmConfiguration { devices_file_exists, ..lvm::configuration(&settings) })
}

fn mdadm(reader: &mut Reader<'_>) -> Option<MdadmConfiguration> {
    // Debian's place first, then everybody else's.
    let places = ["etc/mdadm/mdadm.conf", "etc/mdadm.conf"];
    let main = places.iter().find_map(|path| reader.text(path));
    let mut texts: Vec<String> = main.into_iter().collect();
    for directory in ["etc/mdadm/mdadm.conf.d", "etc/mdadm.conf.d"] {
        texts.extend(parts(reader, directory));
    }
    (!texts.is_empty()).then(|| mdadm::parse(&texts.join("\n")))
}

fn smartd(reader: &mut Reader<'_>) -> Option<SmartdConfiguration> {
    let places = ["etc/smartd.conf", "etc/smartmontools/smartd.conf"];
    let text = places.iter().find_map(|path| reader.text(path))?;
    Some(smartd::parse(&text))
}

fn udev_rules(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for directory in ["etc/udev/rules.d", "run/udev/rules.d"] {
        for name in reader.names(directory) {
            if !name.ends_with(".rules") {
                continue;
            }
            let path = format!("{directory}/{name}");
            let text = reader.text(&path).unwrap_or_default();
            let lines = udev::queue_rules(&text).into_iter();
            found.extend(lines.map(|line| (format!("/{path}"), line)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[test]
    fn files_are_found_in_the_places_of_distributions() {
        let tree = Tree::of_text(
            "[etc]\nmultipath/conf.d/a.conf = defaults {\\n  no_path_retry 12\\n}\n\
             multipath/conf.d/b.txt = defaults {\\n  no_path_retry 13\\n}\n\
             lvm/lvm.conf = devices {\\n issue_discards = 0\\n use_devicesfile = 1\\n}\n\
             lvm/lvmlocal.conf = devices/issue_discards = 1\n\
             lvm/devices/system.devices = x\n\
             mdadm.conf = MAILADDR root\nsmartmontools/smartd.conf = DEVICESCAN\n\
             fstab = /dev/sda1 / ext4 defaults 0 1\n\
             udev/rules.d/60-io.rules = KERNEL==\"sd*\", ATTR{queue/scheduler}=\"none\"\n",
        );
        let root = tree.root();
        let mut reader = Reader::new(&root);
        let found = all(&mut reader);
        let multipath = found.multipath.expect("multipath");
        assert_eq!(multipath.defaults, [("no_path_retry".to_owned(), "12".to_owned())]);
        let lvm = found.lvm.expect("lvm");
        assert_eq!((lvm.issue_discards, lvm.use_devices_file), (Some(true), Some(true)));
        assert!(lvm.devices_file_exists && found.mdadm.is_some_and(|mdadm| mdadm.alarm));
        assert!(found.smartd.is_some_and(|smartd| smartd.scan));
        assert_eq!((found.fstab.len(), found.udev_queue_rules.len()), (1, 1));
        assert_eq!(found.udev_queue_rules[0].0, "/etc/udev/rules.d/60-io.rules");
        assert!(reader.into_unread().is_empty());
    }

    #[test]
    fn a_machine_without_any_has_none() {
        let root = Tree::new();
        assert_eq!(all(&mut Reader::new(&root.root())), Configuration::default());
    }
}
