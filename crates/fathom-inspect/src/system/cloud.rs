//! Which cloud a machine runs in, from the firmware's tables (`/sys/class/dmi/id`).

use fathom_sys::sysroot::SysRoot;

/// File, the words that its content begins with, and the cloud. Tags are those that the makers document for telling their
/// machines: Azure's chassis tag is the same on all of its virtual machines.
const MARKS: [(&str, &str, &str); 18] = [
    ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "Microsoft Azure"),
    ("chassis_asset_tag", "OracleCloud", "Oracle Cloud"),
    ("chassis_asset_tag", "ibmcloud", "IBM Cloud"),
    ("sys_vendor", "Amazon EC2", "Amazon EC2"),
    ("board_vendor", "Amazon EC2", "Amazon EC2"),
    ("bios_vendor", "Amazon EC2", "Amazon EC2"),
    ("product_name", "Google Compute Engine", "Google Compute Engine"),
    ("sys_vendor", "Alibaba Cloud", "Alibaba Cloud"),
    ("sys_vendor", "Tencent Cloud", "Tencent Cloud"),
    ("sys_vendor", "Huawei Cloud", "Huawei Cloud"),
    ("sys_vendor", "DigitalOcean", "DigitalOcean"),
    ("sys_vendor", "Hetzner", "Hetzner Cloud"),
    ("sys_vendor", "Linode", "Linode"),
    ("sys_vendor", "Akamai", "Akamai"),
    ("sys_vendor", "Scaleway", "Scaleway"),
    ("sys_vendor", "UpCloud", "UpCloud"),
    ("sys_vendor", "Vultr", "Vultr"),
    ("product_name", "OpenStack", "OpenStack"),
];

/// The cloud; none on machines of one's own, and where the firmware does not tell.
#[must_use]
pub fn cloud(root: &SysRoot) -> Option<String> {
    let of = |mark: &&(&str, &str, &str)| {
        let text = root.text(format!("sys/class/dmi/id/{}", mark.0));
        text.is_some_and(|text| text.starts_with(mark.1))
    };
    let named = MARKS.iter().find(of).map(|mark| mark.2.to_owned());
    // Older Amazon machines run on Xen and say so in the version of their firmware only.
    let version = || root.text("sys/class/dmi/id/bios_version");
    named.or_else(|| version()?.ends_with(".amazon").then(|| "Amazon EC2".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[track_caller]
    fn expect(file: &str, text: &str, cloud_expected: Option<&str>) {
        let tree = Tree::new();
        tree.put(format!("sys/class/dmi/id/{file}"), format!("{text}\n"));
        assert_eq!(cloud(&tree.root()).as_deref(), cloud_expected, "{file} {text}");
    }

    #[test]
    fn clouds_are_told_by_their_firmware() {
        expect("sys_vendor", "Amazon EC2", Some("Amazon EC2"));
        expect("bios_version", "4.11.amazon", Some("Amazon EC2"));
        expect("product_name", "Google Compute Engine", Some("Google Compute Engine"));
        expect("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", Some("Microsoft Azure"));
        expect("product_name", "OpenStack Nova", Some("OpenStack"));
        expect("sys_vendor", "Microsoft Corporation", None);
        expect("sys_vendor", "QEMU", None);
    }
}
