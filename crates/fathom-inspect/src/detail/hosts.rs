//! Adapters and controllers, and their links to the processor.

use super::unread;
use crate::drive::numbered_name;
use fathom_model::snapshot::Unread;
use fathom_model::system::{PciLink, StorageHost};
use fathom_sys::pci;
use fathom_sys::sysfs_block;
use fathom_sys::sysroot::SysRoot;
use std::path::{Path, PathBuf};

/// An adapter, from its directory in sysfs.
pub(crate) fn read(root: &SysRoot, dir: &Path) -> (StorageHost, Vec<Unread>) {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut host = StorageHost { name, ..StorageHost::default() };
    let mut found = Vec::new();
    if numbered_name(dir, "host").is_some() {
        add_scsi(root, dir, &mut host);
    } else if numbered_name(dir, "nvme").is_some() {
        add_nvme(root, dir, &mut host);
    } else {
        host.driver = sysfs_block::driver(root, dir);
    }
    let path = pci_path(dir);
    if let Some(function) = path.first() {
        add_function(root, function, &mut host);
        host.link = path.iter().filter_map(|dir| link(root, dir, &mut found)).collect();
        let ports =
            host.link.iter_mut().filter(|end| Some(&end.address) != host.pci_address.as_ref());
        for port in ports {
            let dir = path.iter().find(|dir| address(dir).as_ref() == Some(&port.address));
            port.aer_errors = dir.and_then(|dir| aer_errors(root, dir));
        }
    }
    (host, found)
}

fn add_scsi(root: &SysRoot, dir: &Path, host: &mut StorageHost) {
    let class = dir.join("scsi_host").join(&host.name);
    let first = |names: &[&str]| names.iter().find_map(|name| root.text(class.join(name)));
    // `(null)`, on old kernels `<NULL>`, where a driver has none: those of 3ware, Areca and Marvell.
    host.driver = first(&["proc_name"]).filter(|name| !name.starts_with(['(', '<']));
    host.model = first(&["board_name", "model_name", "modelname", "model", "version_product"]);
    host.firmware =
        first(&["version_fw", "fw_version", "fwrev", "firmware_revision", "firmware_version"]);
    host.can_queue = root.value(class.join("can_queue"));
    host.commands_per_lun = root.value(class.join("cmd_per_lun"));
    host.link_power_policy = first(&["link_power_management_policy"]);
    let port = dir.parent().and_then(|port| numbered_name(port, "ata"));
    host.ata_port = port.map(u64::from);
}

fn add_nvme(root: &SysRoot, dir: &Path, host: &mut StorageHost) {
    let text = |name: &str| root.text(dir.join(name));
    host.driver = Some("nvme".to_owned());
    host.model = text("model");
    host.firmware = text("firmware_rev");
    host.transport = text("transport");
    host.numa_node = root.value(dir.join("numa_node"));
    host.latency_tolerance_us = text("power/pm_qos_latency_tolerance_us");
}

/// The PCI functions from the adapter up to the root port.
fn pci_path(dir: &Path) -> Vec<PathBuf> {
    let is_function =
        |dir: &&Path| dir.file_name().and_then(|name| name.to_str()).is_some_and(pci::is_address);
    let above = dir.ancestors().take_while(|dir| dir.starts_with("sys/devices"));
    above.filter(is_function).map(Path::to_path_buf).collect()
}

fn add_function(root: &SysRoot, function: &Path, host: &mut StorageHost) {
    host.pci_address = address(function);
    if host.driver.is_none() {
        host.driver = sysfs_block::driver(root, function);
    }
    host.numa_node = host.numa_node.or_else(|| root.value(function.join("numa_node")));
    host.iommu_type = root.text(function.join("iommu_group/type"));
    host.aer_errors = aer_errors(root, function);
}

/// Errors that a function has counted since boot: the kernel keeps the sums, and asks the function nothing.
fn aer_errors(root: &SysRoot, function: &Path) -> Option<(u64, u64, u64)> {
    let total = |name: &str| pci::errors_total(&root.text(function.join(name))?);
    Some((total("aer_dev_correctable")?, total("aer_dev_nonfatal")?, total("aer_dev_fatal")?))
}

fn address(function: &Path) -> Option<String> {
    function.file_name()?.to_str().map(str::to_owned)
}

/// One end of a link; none for a function without one. Of one that sleeps nothing but the address is read: the kernel
/// would wake it.
fn link(root: &SysRoot, function: &Path, found: &mut Vec<Unread>) -> Option<PciLink> {
    let mut link = PciLink { address: address(function)?, ..PciLink::default() };
    if root.text(function.join("power/runtime_status")).as_deref() == Some("suspended") {
        let what = format!("/{}: PCI Express link", function.display());
        found.push(Unread { what, why: "suspended: not touched".to_owned() });
        return Some(link);
    }
    let text = |name: &str| root.text(function.join(name));
    link.speed_gts_x10 = text("current_link_speed").and_then(|text| pci::speed_gts_x10(&text));
    link.speed_max_gts_x10 = text("max_link_speed").and_then(|text| pci::speed_gts_x10(&text));
    link.width = text("current_link_width").and_then(|text| pci::lanes(&text));
    link.width_max = text("max_link_width").and_then(|text| pci::lanes(&text));
    let told = link.speed_gts_x10.or(link.speed_max_gts_x10).or(link.width).or(link.width_max);
    told?;
    add_limits(root, function, &mut link, found);
    Some(link)
}

/// Sizes of transfers, which stand where only root may read.
fn add_limits(root: &SysRoot, function: &Path, link: &mut PciLink, found: &mut Vec<Unread>) {
    const CONFIGURATION_BYTES_MAX: usize = 4096;
    let path = function.join("config");
    match root.bytes(&path, CONFIGURATION_BYTES_MAX) {
        Ok(bytes) => {
            if let Some((payload, request)) = pci::transfer_limits_bytes(&bytes) {
                link.max_payload_bytes = Some(payload);
                link.max_read_request_bytes = Some(request);
            } else if bytes.len() <= 64 {
                let why = "no permission beyond its first 64 bytes".to_owned();
                found.push(Unread { what: format!("/{}", path.display()), why });
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => found.push(unread(&path, &error)),
    }
}
