//! Parameters of the kernel's storage modules.

use super::reader::Reader;

/// Modules of drives, adapters, arrays, volumes and filesystems.
const MODULES: [&str; 38] = [
    "3w_9xxx",
    "aacraid",
    "ahci",
    "arcmsr",
    "bcache",
    "dm_bufio",
    "dm_cache",
    "dm_crypt",
    "dm_mirror",
    "dm_mod",
    "dm_multipath",
    "dm_raid",
    "dm_snapshot",
    "dm_thin_pool",
    "dm_verity",
    "hpsa",
    "libata",
    "libiscsi",
    "loop",
    "lpfc",
    "md_mod",
    "megaraid_sas",
    "mpi3mr",
    "mpt3sas",
    "nbd",
    "nvme",
    "nvme_core",
    "nvme_tcp",
    "qla2xxx",
    "raid1",
    "raid10",
    "raid456",
    "scsi_mod",
    "sd_mod",
    "smartpqi",
    "virtio_blk",
    "virtio_scsi",
    "zram",
];

/// The longest value that is kept.
const VALUE_CHARS_MAX: usize = 200;

/// `module.parameter` and value of all parameters that can be read.
pub(crate) fn module_parameters(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for module in MODULES {
        let dir = format!("sys/module/{module}/parameters");
        for parameter in reader.names(&dir) {
            let path = format!("{dir}/{parameter}");
            if !reader.is_readable_by_anybody(&path) {
                continue;
            }
            let Some(value) = reader.line(&path) else { continue };
            let value = value.chars().filter(|c| !c.is_control()).take(VALUE_CHARS_MAX).collect();
            found.push((format!("{module}.{parameter}"), value));
        }
    }
    found
}

/// The command line with what is secret in it left out: snapshots are sent around.
pub(crate) fn without_secrets(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let lower = name.to_ascii_lowercase();
        let is_secret = ["pass", "secret", "token"].iter().any(|part| lower.contains(part));
        // netroot=iscsi:user:password@server
        let has_login = value.contains('@') && value.contains(':');
        if !value.is_empty() && (is_secret || has_login) {
            format!("{name}=...")
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn parameters_of_storage_modules_only() {
        let tree = Tree::of_text(
            "[sys/module]\nnvme_core/parameters/default_ps_max_latency_us = 100000\n\
             nvme_core/parameters/force_apst = N\nvirtio_net/parameters/napi_tx = Y\n\
             md_mod/parameters/new_array = x\nloop/version = 1\n",
        );
        let root = tree.root();
        let path = root.path("sys/module/md_mod/parameters/new_array");
        set_permissions(path, Permissions::from_mode(0o200)).expect("its mode");
        let mut reader = Reader::new(&root);
        let found = module_parameters(&mut reader);
        let found: Vec<_> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found, ["nvme_core.default_ps_max_latency_us=100000", "nvme_core.force_apst=N"]);
        assert!(reader.into_unread().is_empty());
    }
}
