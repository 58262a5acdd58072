//! Devices and files that the kernel itself serves to other machines: SCSI targets (LIO), NVMe targets, USB gadgets.
//! These open what they serve without holding it exclusively, and no process has it open.

use crate::refusal::Refusal;
use crate::relations;
use crate::target::Target;
use fathom_sys::devno::DevNo;
use fathom_sys::loopdev;
use fathom_sys::sysroot::SysRoot;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Where configfs is mounted.
const CONFIG: &str = "sys/kernel/config";

/// Something that is served, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Export {
    path: PathBuf,
    by: String,
}

/// Refuses a device that is served to others, whole, in part, or through the file behind it.
///
/// # Errors
/// [`Refusal::Exported`]; [`Refusal::CannotCheck`] when the kernel can serve devices and does not show which.
pub fn check(root: &SysRoot, target: &Target) -> Result<(), Refusal> {
    for (module, place) in [("target_core_mod", "target"), ("nvmet", "nvmet")] {
        let is_hidden = root.exists(format!("sys/module/{module}"))
            && !root.exists(format!("{CONFIG}/{place}"));
        if is_hidden {
            let what = format!(
                "{module} can serve it to other machines, and what it serves cannot be seen: mount -t configfs configfs /{CONFIG}"
            );
            return Err(Refusal::CannotCheck { device: target.path.clone(), what });
        }
    }
    let touched = relations::touching_and_above(root, &target.device);
    let disk = target.device.disk().and_then(|disk| disk.devno());
    let backing = disk.and_then(|disk| loopdev::by_devno(root, disk)?.backing_inode);
    for export in exports(root) {
        let by_device =
            relations::block_number(root, &export.path).is_some_and(|d| touched.contains_key(&d));
        let inode = std::fs::metadata(root.path(&export.path)).ok();
        let by_file = backing.is_some()
            && inode.map(|meta| (DevNo::from_raw(meta.dev()), meta.ino())) == backing;
        if by_device || by_file {
            return Err(Refusal::Exported {
                device: target.path.clone(),
                served: export.path.display().to_string(),
                by: export.by,
            });
        }
    }
    Ok(())
}

fn exports(root: &SysRoot) -> Vec<Export> {
    let mut found = Vec::new();
    each(root, "target/core", 2, |place| {
        let info = root.text(format!("{CONFIG}/{place}/info")).unwrap_or_default();
        let by = format!("the SCSI target {place}");
        let udev = root.text(format!("{CONFIG}/{place}/udev_path"));
        let paths = scsi_paths(&info).into_iter().chain(udev);
        found.extend(paths.map(|path| Export { path: path.into(), by: by.clone() }));
    });
    each(root, "nvmet/subsystems", 1, |subsystem| {
        each(root, &format!("{subsystem}/namespaces"), 1, |place| {
            if let Some(path) = root.text(format!("{CONFIG}/{place}/device_path")) {
                found.push(Export { path: path.into(), by: format!("the NVMe target {place}") });
            }
        });
    });
    each(root, "usb_gadget", 1, |gadget| {
        each(root, &format!("{gadget}/functions"), 2, |place| {
            if let Some(path) = root.text(format!("{CONFIG}/{place}/file")) {
                found.push(Export { path: path.into(), by: format!("the USB gadget {place}") });
            }
        });
    });
    found
}

/// Visits every directory `depth` levels below a place in configfs.
fn each(root: &SysRoot, place: &str, depth: u32, mut visit: impl FnMut(&str)) {
    let mut level = vec![place.to_owned()];
    for _ in 0..depth {
        let below = |dir: &String| {
            let names = root.names(format!("{CONFIG}/{dir}"));
            names.into_iter().map(|name| format!("{dir}/{name}")).collect::<Vec<_>>()
        };
        level = level.iter().flat_map(below).collect();
    }
    level.iter().for_each(|place| visit(place));
}

/// The paths in the description of a SCSI target's store: `File: PATH` of the file kind, `UDEV PATH: PATH` of the
/// block kind.
fn scsi_paths(info: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for label in ["File: ", "UDEV PATH: "] {
        for rest in info.split(label).skip(1) {
            // Paths are followed by two blanks or the end of the line; single blanks belong to them.
            let path =
                rest.lines().next().and_then(|line| line.split("  ").next()).unwrap_or_default();
            let path = path.trim();
            if path.starts_with('/') {
                paths.push(path.to_owned());
            }
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_descriptions_of_stores() {
        let fileio = "Status: ACTIVATED  Max Queue Depth: 0  SectorSize: 512  HwMaxSectors: 16384\n        TCM FILEIO ID: 0        File: /dev/sd g  Size: 41943040  Mode: O_DSYNC Async: 0\n";
        assert_eq!(scsi_paths(fileio), ["/dev/sd g"]);
        let iblock = "Status: ACTIVATED  Max Queue Depth: 128  SectorSize: 512  HwMaxSectors: 1024\n        iBlock device: sdl  UDEV PATH: /dev/sdl  readonly: 0\n        Major: 8 Minor: 176  CLAIMED: IBLOCK\n";
        assert_eq!(scsi_paths(iblock), ["/dev/sdl"]);
        assert_eq!(scsi_paths("TCM RAMDISK ID: 0  Pages: 1024"), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_export_is_found() {
        let dir = std::env::temp_dir().join(format!("fathom-exports-{}", std::process::id()));
        let root = SysRoot::at(&dir);
        for (file, text) in [
            ("target/core/fileio_1/d/info", "File: /srv/disk.img  Size: 1"),
            ("target/core/alua/lu_gps/info", "nothing"),
            ("nvmet/subsystems/nqn/namespaces/1/device_path", "/dev/sdb\n"),
            ("usb_gadget/g1/functions/mass_storage.0/lun.0/file", "/dev/sdc"),
        ] {
            let path = root.path(format!("{CONFIG}/{file}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let paths: Vec<PathBuf> = exports(&root).into_iter().map(|e| e.path).collect();
        std::fs::remove_dir_all(dir).unwrap();
        assert_eq!(paths, ["/srv/disk.img", "/dev/sdb", "/dev/sdc"].map(PathBuf::from));
    }
}
