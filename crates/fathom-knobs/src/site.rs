//! Where a setting of a place is to be found now: devices are found again by their IDs, mounts by point and device.

use crate::error::KnobError;
use crate::knob::{Home, Knob, Opt, Values};
use crate::mounted;
use crate::names;
use crate::scope::{self, Scope};
use fathom_inspect::filesystem;
use fathom_inspect::identity::device_id;
use fathom_model::change::knob::{KnobAt, KnobPlace};
use fathom_model::stack::FsFacts;
use fathom_sys::attribute;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::remount::Part;
use fathom_sys::sysfs_block::{BlockDir, subsystem};
use fathom_sys::sysroot::SysRoot;
use std::io;
use std::path::{Path, PathBuf};

/// A place that is there.
#[derive(Debug, Clone)]
pub struct Site {
    // The device of a device, or the first one of a mount.
    device: Option<BlockDir>,
    mount: Option<Mount>,
}

/// Where a value is.
#[derive(Debug, Clone)]
pub enum Spot {
    /// In files that hold the same value.
    Files(Vec<PathBuf>),
    /// In the line of a file that begins with the number of a device.
    Line(PathBuf, String),
    /// In the flags of a mount.
    AccessTime(Mount),
    /// In the options of a filesystem; with the kernel name of its device.
    Option(Mount, Opt, Option<String>),
    /// On the kernel's command line.
    Boot(&'static str),
}

impl Site {
    /// Finds a place again.
    ///
    /// # Errors
    /// What is gone, in words.
    pub fn find(root: &SysRoot, place: &KnobPlace) -> Result<Self, String> {
        match place {
            KnobPlace::Machine | KnobPlace::Own { .. } => Ok(Self { device: None, mount: None }),
            KnobPlace::Device { id, name } => {
                let device = find_device(root, id, name)
                    .ok_or_else(|| format!("the device {name} ({id}) is not there any more"))?;
                Ok(Self { device: Some(device), mount: None })
            }
            KnobPlace::Mount { mount_point, device_id } => {
                let (mount, device) = find_mount(root, mount_point, device_id)
                    .ok_or_else(|| format!("{} is not mounted any more", mount_point.display()))?;
                Ok(Self { device, mount: Some(mount) })
            }
        }
    }

    /// Finds a place again for taking back what was set: what belongs to a filesystem is on each of its mounts. With false when it is not
    /// the very mount; by paths that mean something else here none is.
    ///
    /// # Errors
    /// What is gone, in words.
    pub fn find_again(
        root: &SysRoot,
        place: &KnobPlace,
        has_same_paths: bool,
    ) -> Result<(Self, bool), String> {
        let KnobPlace::Mount { device_id: id, .. } = place else {
            return Self::find(root, place).map(|site| (site, true));
        };
        let gone = match Self::find(root, place) {
            Ok(site) if has_same_paths || site.device.is_none() => return Ok((site, true)),
            Ok(_) => String::new(),
            Err(gone) => gone,
        };
        let is_it = |device: &BlockDir| is_meant(root, device, id);
        Self::best_of(Self::seen_of(root, &is_it)).map(|site| (site, false)).ok_or(gone)
    }

    /// Finds a place by its numbers, in the boot in which they were noted, whatever has become of its names. With false it is another mount
    /// of the same filesystem.
    pub fn find_by_number(root: &SysRoot, at: &KnobAt, is_mount: bool) -> Option<(Self, bool)> {
        let device = device_at(root, at)?;
        if !is_mount {
            return Some((Self { device: Some(device), mount: None }, true));
        }
        let mut seen = Self::seen_of(root, &|other| other.devno() == device.devno());
        let is_very = |site: &Self| {
            // Without the other one: numbers of mounts are given again.
            let is_it = || site.mount.as_ref().map(|mount| mount.id) == at.mount_id;
            site.is_same_mount(at).unwrap_or_else(is_it)
        };
        match seen.iter().position(is_very) {
            Some(very) => Some((seen.swap_remove(very), true)),
            None => Self::best_of(seen).map(|site| (site, false)),
        }
    }

    /// Whether it is the mount of which that was noted; none where the kernel does not tell.
    pub fn is_same_mount(&self, at: &KnobAt) -> Option<bool> {
        let now = mounts::sequence(&self.mount.as_ref()?.mount_point);
        at.mount_sequence.zip(now).map(|(noted, now)| noted == now)
    }

    /// All mounts of a filesystem that can be reached by their paths.
    pub fn seen_of(root: &SysRoot, is_it: &dyn Fn(&BlockDir) -> bool) -> Vec<Self> {
        let own = mounts::own_mounts(root);
        let seen = own.iter().zip(mounts::hidden(&own)).filter(|(_, is_hidden)| !is_hidden);
        let found = seen.filter_map(|(mount, _)| {
            let device = device_of(root, mount, is_it)?;
            Some(Self { device: Some(device), mount: Some(mount.clone()) })
        });
        found.collect()
    }

    /// The one by which options of the filesystem are written: by one that is read-only the filesystem would become so.
    fn best_of(mut sites: Vec<Self>) -> Option<Self> {
        let may_write = |site: &Self| !site.mount.as_ref().is_some_and(mounted::is_read_only_alone);
        let best = sites.iter().position(may_write).unwrap_or(0);
        (!sites.is_empty()).then(|| sites.swap_remove(best))
    }

    /// By what it is found again in this boot. What lies on another machine has no device, and is known by its source.
    pub fn at(&self) -> KnobAt {
        let Some(device) = &self.device else { return KnobAt::default() };
        KnobAt {
            device: device.devno().map(|devno| devno.to_string()),
            sequence: sequence(device),
            mount_id: self.mount.as_ref().map(|mount| mount.id),
            mount_sequence: self.mount.as_ref().and_then(|m| mounts::sequence(&m.mount_point)),
            ..KnobAt::default()
        }
    }

    /// The mount, as it was when it was found.
    pub fn mount(&self) -> Option<&Mount> {
        self.mount.as_ref()
    }

    /// The kernel name of the device now.
    pub fn device_name(&self) -> Option<&str> {
        self.device.as_ref().map(BlockDir::name)
    }

    /// The device.
    pub fn device(&self) -> Option<&BlockDir> {
        self.device.as_ref()
    }

    /// Where the setting is, if the place has it.
    pub fn spot(&self, root: &SysRoot, knob: &Knob) -> Option<Spot> {
        let file = |path: PathBuf| root.exists(&path).then(|| Spot::Files(vec![path]));
        let below = |file: &str| self.device_dir().map(|dir| dir.join(file));
        match knob.home {
            Home::Queue(name) if OF_REQUESTS.contains(&name) && !has_requests(self.device()?) => {
                None
            }
            Home::Queue(name) => file(below("queue")?.join(name)),
            Home::Scheduler(scheduler, name) => {
                let active = active_scheduler(self.device.as_ref()?)?;
                (active == scheduler).then_some(())?;
                file(below("queue/iosched")?.join(name))
            }
            Home::Device(name) => file(below(name)?),
            Home::Bdi(name) => {
                self.device_dir()?;
                file(self.device.as_ref()?.linked("bdi")?.join(name))
            }
            Home::MountBdi(name) => {
                let mount = self.mount.as_ref().filter(|_| self.device.is_none())?;
                file(Path::new("sys/class/bdi").join(mount.devno.to_string()).join(name))
            }
            Home::NvmeSubsystem(name) => file(self.nvme_subsystem(root)?.join(name)),
            Home::NvmeController(name) => self.nvme_controllers(root, name),
            Home::ScsiDisk(name) => file(self.scsi_disk(root)?.join(name)),
            Home::Sysctl(name) => self.machine(file(Path::new("proc/sys").join(name))),
            Home::Module(module, name) => self
                .machine(file(Path::new("sys/module").join(module).join("parameters").join(name))),
            Home::Boot(name) => {
                self.machine(root.exists("proc/cmdline").then_some(Spot::Boot(name)))
            }
            Home::RootGroup(name) => {
                let number = self.device_dir().and(self.device.as_ref()?.devno())?;
                let file = root_group(root)?.join(name);
                root.exists(&file).then(|| Spot::Line(file, number.to_string()))
            }
            // Of a filesystem on another machine its server decides.
            Home::AccessTime => {
                self.device.as_ref().and_then(|_| self.mount_now(root)).map(Spot::AccessTime)
            }
            Home::Option(kinds, opt) => {
                let mount = self.mount_now(root).filter(|m| kinds.contains(&m.fs_type.as_str()))?;
                Some(Spot::Option(mount, opt, self.device_name().map(str::to_owned)))
            }
            Home::FileSystem(kind, name) => file(self.fs_dir(root, kind)?.join(name)),
            Home::Group(_) | Home::Nowhere => None,
        }
    }

    /// Where a setting is that was noted by its ID; those of schedulers need not be in the table.
    pub fn spot_of(&self, root: &SysRoot, id: &str) -> Option<Spot> {
        if let Some(knob) = names::all().iter().find(|knob| knob.id == id) {
            return self.spot(root, knob);
        }
        let (scheduler, name) = id.split_once('.')?;
        let device = self.device.as_ref()?;
        (active_scheduler(device)? == scheduler).then_some(())?;
        let file = device.dir().join("queue/iosched").join(name);
        root.exists(&file).then(|| Spot::Files(vec![file]))
    }

    /// The mount with the options that it has at this moment.
    fn mount_now(&self, root: &SysRoot) -> Option<Mount> {
        let known = self.mount.as_ref()?;
        mounts::own_mounts(root).into_iter().find(|mount| mount.id == known.id)
    }

    fn machine(&self, spot: Option<Spot>) -> Option<Spot> {
        spot.filter(|_| self.device.is_none() && self.mount.is_none())
    }

    /// The directory of the device, unless the place is a mount.
    fn device_dir(&self) -> Option<&Path> {
        self.device.as_ref().filter(|_| self.mount.is_none()).map(BlockDir::dir)
    }

    fn nvme_subsystem(&self, root: &SysRoot) -> Option<PathBuf> {
        self.device_dir()?;
        let parent = self.device.as_ref()?.linked("device")?;
        if subsystem(root, &parent).as_deref() == Some("nvme-subsystem") {
            return Some(parent);
        }
        // Of a namespace with one path: the subsystem that lists its controller.
        let controller = parent.file_name()?.to_owned();
        let class = Path::new("sys/class/nvme-subsystem");
        let names = root.names(class);
        let dirs = names.iter().map(|name| class.join(name));
        dirs.into_iter().find(|dir| root.exists(dir.join(&controller)))
    }

    fn nvme_controllers(&self, root: &SysRoot, name: &str) -> Option<Spot> {
        self.device_dir()?;
        let parent = self.device.as_ref()?.linked("device")?;
        let dirs = match subsystem(root, &parent).as_deref() {
            Some("nvme") => vec![parent],
            Some("nvme-subsystem") => {
                let is_controller = |name: &String| {
                    name.strip_prefix("nvme").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
                };
                root.names(&parent)
                    .into_iter()
                    .filter(is_controller)
                    .map(|n| parent.join(n))
                    .collect()
            }
            _ => return None,
        };
        let files: Vec<PathBuf> = dirs.iter().map(|dir| dir.join(name)).collect();
        (!files.is_empty() && files.iter().all(|file| root.exists(file)))
            .then_some(Spot::Files(files))
    }

    fn scsi_disk(&self, root: &SysRoot) -> Option<PathBuf> {
        self.device_dir()?;
        let dir = self.device.as_ref()?.linked("device")?.join("scsi_disk");
        root.names(&dir).first().map(|name| dir.join(name))
    }

    fn fs_dir(&self, root: &SysRoot, kind: &str) -> Option<PathBuf> {
        let mount = self.mount.as_ref()?;
        let is_ext = kind == "ext4" && mount.fs_type.starts_with("ext");
        (mount.fs_type == kind || is_ext).then_some(())?;
        let device = self.device_name()?;
        if kind != "btrfs" {
            return Some(Path::new("sys/fs").join(kind).join(device));
        }
        let base = Path::new("sys/fs/btrfs");
        let dirs = root.names(base).into_iter().map(|name| base.join(name));
        dirs.into_iter().find(|dir| root.exists(dir.join("devices").join(device)))
    }
}

/// Attributes of queues of requests. Older kernels show them for devices without such a queue too, and refuse every write.
const OF_REQUESTS: &[&str] =
    &["scheduler", "nr_requests", "wbt_lat_usec", "rq_affinity", "io_timeout"];

/// False for devices that hand on what they get as it is: md, most of device-mapper.
fn has_requests(device: &BlockDir) -> bool {
    device.has("mq") || active_scheduler(device).is_some_and(|scheduler| scheduler != "none")
}

/// The scheduler that is active.
pub fn active_scheduler(device: &BlockDir) -> Option<String> {
    device.text("queue/scheduler").map(|text| active_word(&text))
}

/// The word in brackets; the whole text where there is none.
pub fn active_word(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word).trim().to_owned()
}

fn find_device(root: &SysRoot, id: &str, name: &str) -> Option<BlockDir> {
    let is_it = |device: &BlockDir| is_meant(root, device, id);
    // What a loop device is set to stays with its number, whatever file it shows, and goes with a boot.
    if id.starts_with('/') {
        return BlockDir::by_name(root, name);
    }
    // Most devices keep their names, and asking all of a large machine takes a while.
    let same = BlockDir::by_name(root, name).filter(is_it);
    let every = || {
        let names = root.names("sys/class/block");
        names.iter().filter_map(|name| BlockDir::by_name(root, name)).find(is_it)
    };
    same.or_else(every)
}

/// What is mounted there, as it is seen.
pub fn mount_at(root: &SysRoot, point: &Path) -> Option<Mount> {
    let own = mounts::own_mounts(root);
    let hidden = mounts::hidden(&own);
    let seen = own.into_iter().zip(hidden);
    let mut seen = seen.filter(|(mount, hidden)| mount.mount_point == point && !hidden);
    seen.next_back().map(|(mount, _)| mount)
}

fn find_mount(root: &SysRoot, point: &Path, id: &str) -> Option<(Mount, Option<BlockDir>)> {
    // All mounts of an export share what belongs to it: one elsewhere has it still when this one is gone.
    let mut all = mounts::own_mounts(root).into_iter();
    let is_it =
        |mount: &Mount| scope::of_remote(mount).is_some_and(|remote| remote.device_id == id);
    if let Some(remote) = all.find(is_it) {
        return Some((remote, None));
    }
    let mount = mount_at(root, point)?;
    let is_it = |device: &BlockDir| is_meant(root, device, id);
    let device = device_of(root, &mount, &is_it)?;
    Some((mount, Some(device)))
}

fn is_meant(root: &SysRoot, device: &BlockDir, id: &str) -> bool {
    device.devno().is_some_and(|devno| device_id(root, devno).is_meant_by(id))
}

/// The first device of a mount, when the one that is meant is among its devices.
pub fn device_of(
    root: &SysRoot,
    mount: &Mount,
    is_it: &dyn Fn(&BlockDir) -> bool,
) -> Option<BlockDir> {
    let devices = filesystem::devices(root, mount, &FsFacts::default());
    if devices.iter().any(is_it) { devices.into_iter().next() } else { None }
}

/// The device with these numbers, when it is still the same.
pub fn device_at(root: &SysRoot, at: &KnobAt) -> Option<BlockDir> {
    let device = BlockDir::by_devno(root, at.device.as_deref()?.parse().ok()?)?;
    (at.sequence.is_some() && sequence(&device) == at.sequence).then_some(device)
}

/// The running number of its disk; none from kernels before 5.15.
fn sequence(device: &BlockDir) -> Option<u64> {
    device.disk()?.value("diskseq")
}

fn root_group(root: &SysRoot) -> Option<PathBuf> {
    let own = mounts::own_mounts(root);
    let mount = own.into_iter().find(|mount| mount.fs_type == "cgroup2")?;
    Some(mount.mount_point)
}

/// Reads a value in the form in which it is written.
pub fn read_spot(root: &SysRoot, spot: &Spot, values: Values) -> io::Result<String> {
    match spot {
        Spot::Files(files) => {
            let texts: io::Result<Vec<String>> =
                files.iter().map(|file| root.attribute(file)).collect();
            let mut texts: Vec<String> =
                texts?.iter().map(|text| written_form(values, text)).collect();
            texts.dedup();
            Ok(texts.join(" | "))
        }
        Spot::Line(file, number) => {
            let text = root.read(file)?;
            let line =
                text.lines().find_map(|line| line.strip_prefix(number.as_str())?.strip_prefix(' '));
            Ok(line.unwrap_or("none").trim().to_owned())
        }
        Spot::AccessTime(mount) => Ok(mounted::access_time(mount).to_owned()),
        Spot::Option(mount, opt, device) => {
            Ok(mounted::value(*opt, &mounted::in_force(root, mount, device.as_deref())))
        }
        Spot::Boot(name) => {
            let line = root.read("proc/cmdline")?;
            let given =
                line.split_ascii_whitespace().rev().find_map(|word| word.strip_prefix(name));
            let value = given.filter(|rest| rest.is_empty() || rest.starts_with('='));
            Ok(value
                .map_or("not given", |rest| rest.strip_prefix('=').unwrap_or("given"))
                .to_owned())
        }
    }
}

/// `[none] bfq` is none; `1000 (system)` is written as `system`, `5000 (local)` as 5000.
fn written_form(values: Values, text: &str) -> String {
    match values {
        Values::Listed => active_word(text),
        Values::NumberOr(..) => match text.split_once(" (") {
            Some((_, "system)")) => "system".to_owned(),
            Some((number, _)) => number.to_owned(),
            None => text.to_owned(),
        },
        _ => text.to_owned(),
    }
}

/// Writes a value: what [`read_spot`] gave, or what was asked for.
pub fn write_spot(root: &SysRoot, spot: &Spot, value: &str) -> io::Result<()> {
    match spot {
        Spot::Files(files) => {
            let values: Vec<&str> = value.split(" | ").collect();
            let of =
                |index: usize| if values.len() == files.len() { values[index] } else { values[0] };
            files.iter().enumerate().try_for_each(|(i, file)| attribute::write(root, file, of(i)))
        }
        Spot::Line(file, number) => {
            let off = if file.ends_with("io.cost.model") { "ctrl=auto" } else { "enable=0" };
            let words = if value == "none" { off.to_owned() } else { line_to_write(value) };
            attribute::write(root, file, &format!("{number} {words}"))
        }
        Spot::AccessTime(mount) => {
            let options = mounted::with_access_time(mount, value);
            mounted::write(root, mount, Part::Mount, &options)
        }
        Spot::Option(mount, opt, _) => {
            mounted::write(root, mount, Part::FileSystem, &mounted::with(mount, *opt, value))
        }
        Spot::Boot(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Figures beside `ctrl=auto` are the kernel's own; written, they would become the user's, and `ctrl=user` with them.
fn line_to_write(value: &str) -> String {
    let is_auto = value.split_ascii_whitespace().any(|word| word == "ctrl=auto");
    let is_kept =
        |word: &&str| !is_auto || word.starts_with("enable=") || word.starts_with("ctrl=");
    value.split_ascii_whitespace().filter(is_kept).collect::<Vec<_>>().join(" ")
}

/// The value now, in the form in which it is written.
///
/// # Errors
/// [`KnobError::Unknown`]; [`KnobError::Read`] when the place is gone, does not have it, or cannot be read.
pub fn read(root: &SysRoot, place: &KnobPlace, id: &str) -> Result<String, KnobError> {
    let knob = names::find(id)?;
    let failed =
        |reason: String| KnobError::Read { knob: knob.id.to_owned(), place: place.name(), reason };
    let site = Site::find(root, place).map_err(failed)?;
    let spot = site.spot(root, knob).ok_or_else(|| failed("it does not have it".to_owned()))?;
    read_spot(root, &spot, knob.values).map_err(|error| failed(attribute::explained(&error)))
}

/// The places of the scope that have the setting: those that may be changed without naming them.
#[must_use]
pub fn places(root: &SysRoot, scope: &Scope<'_>, knob: &Knob) -> Vec<KnobPlace> {
    let all = layers(scope).chain([KnobPlace::Machine]);
    all.filter(|place| has(root, place, knob)).collect()
}

/// Devices and mounts of the scope, without those behind the file of a loop device: these are other people's.
pub fn layers(scope: &Scope<'_>) -> impl Iterator<Item = KnobPlace> {
    let devices = scope.devices.iter().filter(|device| !device.is_behind_file).map(|d| d.place());
    devices.chain(scope.mounts.iter().map(|mount| mount.place()))
}

/// True when the place has the setting.
pub fn has(root: &SysRoot, place: &KnobPlace, knob: &Knob) -> bool {
    Site::find(root, place).is_ok_and(|site| site.spot(root, knob).is_some())
}
