//! Where something is built, or only said how: the same steps serve both, so that a dry run shows what will really be done.

use crate::error::{SetupError, io_at};
use crate::known::{self, Known};
use crate::outline::Outline;
use crate::tools::{Call, Ended, Tools};
use crate::{Builder, causes, old};
use fathom_guard::changes::Step;
use fathom_guard::target::Target;
use fathom_guard::{Claim, Consent, Protected, claim_ours};
use fathom_inspect::identity;
use fathom_model::change::Change;
use fathom_model::change::setup::{BuiltOn, SetupChange};
use fathom_sys::clock;
use fathom_sys::devno::DevNo;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A device to build on.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub path: PathBuf,
    /// Kernel name.
    pub name: String,
    /// As consent names it.
    pub id: String,
    pub size_bytes: u64,
    pub logical_block_bytes: u64,
    /// Over a file of fathom's own: discards would make holes in the file.
    pub is_own_loop: bool,
}

impl Device {
    pub fn built_on(&self) -> BuiltOn {
        BuiltOn { id: self.id.clone(), name: self.name.clone() }
    }

    pub fn word(&self) -> String {
        self.path.display().to_string()
    }
}

/// The place.
pub(crate) struct Site<'s, 'b> {
    pub root: &'s SysRoot,
    pub protected: &'s Protected,
    pub work_dir: &'s Path,
    pub tools: Tools,
    pub commands: Vec<String>,
    pub facts: Vec<String>,
    /// Those of the facts that are otherwise than one would expect.
    pub remarks: Vec<String>,
    pub steps: Vec<Step>,
    /// Devices held until a tool needs them, by path.
    pub claims: BTreeMap<PathBuf, Claim>,
    pub known: Known,
    /// The run's directory, once it is there.
    pub own_dir: Option<PathBuf>,
    pub outline: Outline,
    /// Devices that were said to be paths to one disk.
    pub paths: Vec<DevNo>,
    /// Files of loop devices so far.
    pub files: u32,
    builder: Option<&'s mut Builder<'b>>,
    stop: StopFlag,
}

impl<'s, 'b> Site<'s, 'b> {
    /// To build.
    pub fn real(builder: &'s mut Builder<'b>, tools: Tools) -> Self {
        let (root, protected, work_dir) = (builder.root, builder.protected, builder.work_dir);
        let known = Known::of(builder.log);
        let stop = builder.stop.clone();
        Self { builder: Some(builder), known, ..Self::new(root, protected, work_dir, tools, stop) }
    }

    /// Only to say how.
    pub fn dry(
        root: &'s SysRoot,
        protected: &'s Protected,
        work_dir: &'s Path,
        tools: Tools,
    ) -> Self {
        Self::new(root, protected, work_dir, tools, StopFlag::default())
    }

    fn new(
        root: &'s SysRoot,
        protected: &'s Protected,
        work_dir: &'s Path,
        tools: Tools,
        stop: StopFlag,
    ) -> Self {
        Self {
            root,
            protected,
            work_dir,
            tools,
            commands: Vec::new(),
            facts: Vec::new(),
            remarks: Vec::new(),
            steps: Vec::new(),
            claims: BTreeMap::new(),
            known: Known::default(),
            own_dir: None,
            outline: Outline::default(),
            paths: Vec::new(),
            files: 0,
            builder: None,
            stop,
        }
    }

    pub fn is_dry(&self) -> bool {
        self.builder.is_none()
    }

    /// Of the run, for names.
    pub fn id(&self) -> String {
        self.builder.as_ref().map_or_else(|| "ID".to_owned(), |b| b.log.run_id().to_owned())
    }

    pub fn seed(&self) -> u64 {
        self.builder.as_ref().map_or(0, |builder| builder.seed)
    }

    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// A new UUID, ours from now on.
    pub fn uuid(&mut self) -> Result<String, SetupError> {
        if self.is_dry() {
            return Ok("UUID".to_owned());
        }
        let path = "proc/sys/kernel/random/uuid";
        let uuid = self.root.read(path).map_err(io_at("read", Path::new("/").join(path)))?;
        let uuid = uuid.trim().to_owned();
        self.known.add(&uuid);
        Ok(uuid)
    }

    /// Tells what a reader of results must know, because it is otherwise than one would expect.
    pub fn remark(&mut self, text: String) {
        self.remarks.push(text.clone());
        self.facts.push(text);
    }

    pub fn note(&mut self, text: &str) {
        if let Some(builder) = &mut self.builder {
            (builder.note)(text);
        }
    }

    pub fn fault(&self, name: &str) {
        if let Some(builder) = &self.builder {
            builder.log.fault_point(name);
        }
    }

    pub fn check_stop(&self, doing: &str) -> Result<(), SetupError> {
        if self.stop.is_set() { Err(SetupError::Stopped(doing.to_owned())) } else { Ok(()) }
    }

    /// Notes in the journal what is about to be made.
    pub fn intend(&mut self, change: SetupChange) -> Result<Step, SetupError> {
        let Some(builder) = &mut self.builder else { return Ok(0) };
        let step = builder.log.intend(Change::Setup(change))?;
        self.steps.push(step);
        Ok(step)
    }

    /// Notes that it is made.
    pub fn made(&mut self, step: Step, change: SetupChange) -> Result<(), SetupError> {
        if let Some(builder) = &mut self.builder {
            builder.log.made(step, Change::Setup(change))?;
        }
        Ok(())
    }

    /// Notes once which device it is that was given. Nothing of that is to be taken back.
    pub fn tell_given(&mut self, device: &Device) -> Result<(), SetupError> {
        let found = BlockDir::by_name(self.root, &device.name);
        let Some((builder, found)) = self.builder.as_mut().zip(found) else { return Ok(()) };
        let sequence = found.disk().and_then(|disk| disk.value("diskseq"));
        let Some((devno, sequence)) = found.devno().zip(sequence) else { return Ok(()) };
        let (device_id, device) = (device.id.clone(), devno.to_string());
        let change = Change::Setup(SetupChange::Given { device_id, device, sequence });
        let mut entries = (0..).map_while(|step| builder.log.entry(step));
        if entries.any(|entry| entry.change == change) {
            return Ok(());
        }
        let step = builder.log.intend(change)?;
        Ok(builder.log.undone(step)?)
    }

    /// Notes an intention, runs what makes it, notes that it is made. The devices are let go just before.
    pub fn make(
        &mut self,
        change: SetupChange,
        devices: &[&Device],
        call: &Call,
    ) -> Result<String, SetupError> {
        let step = self.intend(change.clone())?;
        let said = self.on(devices, call)?;
        self.made(step, change)?;
        Ok(said)
    }

    /// The same for what makes a new device of that name: data of old that the devices below hold may show on it. Gives the step that
    /// [`Self::hold_new`] goes on with.
    pub fn make_new(
        &mut self,
        name: &str,
        change: SetupChange,
        devices: &[&Device],
        call: &Call,
    ) -> Result<Step, SetupError> {
        let since_s = clock::unix_ns() / 1_000_000_000;
        let name = name.to_owned();
        let step = self.intend(SetupChange::OldData { name, id: None, since_s, blocks: None })?;
        self.make(change, devices, call)?;
        Ok(step)
    }

    /// Runs a tool on devices: each is checked as a whole, unless it is held since it was checked, and let go just before.
    pub fn on(&mut self, devices: &[&Device], call: &Call) -> Result<String, SetupError> {
        if !self.is_dry() {
            for device in devices {
                if !self.claims.contains_key(&device.path) {
                    self.hold(device)?;
                }
            }
            for device in devices {
                self.claims.remove(&device.path);
            }
        }
        self.run(call)
    }

    /// Runs a tool; gives what it printed.
    pub fn run(&mut self, call: &Call) -> Result<String, SetupError> {
        let ended = self.attempt(call)?;
        match ended {
            None => Ok(String::new()),
            Some(ended) if ended.is_success() => Ok(ended.stdout),
            Some(ended) => Err(SetupError::Tool {
                command: call.line(),
                said: ended.said(),
                cause: causes::of(self.root, call, &ended.said()),
            }),
        }
    }

    /// Runs a tool that may fail; nothing in a dry run.
    pub fn attempt(&mut self, call: &Call) -> Result<Option<Ended>, SetupError> {
        self.commands.push(call.line());
        if self.is_dry() {
            return Ok(None);
        }
        self.check_stop(&format!("before {}", call.tool))?;
        self.note(&call.line());
        self.fault(&format!("before {}", call.tool));
        let ended = self.tools.run(call, &self.stop)?;
        self.fault(&format!("after {}", call.tool));
        Ok(Some(ended))
    }

    /// Checks everything about a device and holds it. Consent to what it was built on is consent to it.
    pub fn hold(&mut self, device: &Device) -> Result<(), SetupError> {
        let consent = Consent::new(vec![device.id.clone()]).with_paths(self.paths.clone());
        let found = known::signatures(&device.path).unwrap_or_default();
        let is_ours = self.known.judge(&found);
        let mode = crate::wipe::FOR_WRITING;
        let claim = claim_ours(self.root, &device.path, &consent, self.protected, mode, &is_ours)?;
        self.claims.insert(device.path.clone(), claim);
        Ok(())
    }

    /// Removes what old data on the devices below makes show on a device that was just built of them, and holds it. `step` is where
    /// the journal tells of that data, which it does before anything is wiped.
    pub fn hold_new(&mut self, device: &Device, step: Option<Step>) -> Result<(), SetupError> {
        // The kernel looks for tables when a new device is first opened, and knows more kinds than are recognised here.
        known::signatures(&device.path).ok();
        let shown = BlockDir::by_name(self.root, &device.name);
        let further = shown.as_ref().map(old::in_partitions).unwrap_or_default();
        if shown.is_some_and(|shown| !shown.partitions().is_empty()) {
            self.note(&format!("old data on {} shows as partitions: forgotten", device.name));
            self.run(&Call::new("partx", ["--delete".to_owned(), device.word()]))?;
        }
        let consent = Consent::new(vec![device.id.clone()]);
        let mode = crate::wipe::FOR_WRITING;
        let any = |_: &_| true;
        let claim = claim_ours(self.root, &device.path, &consent, self.protected, mode, &any)?;
        let found = known::signatures(&device.path).map_err(io_at("read", &device.path))?;
        if !found.is_empty() {
            let names: Vec<&str> = found.iter().map(|signature| signature.name).collect();
            self.note(&format!("old data shows on {} ({}): wiped", device.name, names.join(", ")));
            let places = found.iter().map(|signature| signature.offset_bytes);
            let places = places.chain(further.iter().map(|place| place.0));
            let blocks = old::blocks(claim.file(), claim.size_bytes(), places);
            self.tell_old(step, device, blocks.map_err(io_at("read", &device.path))?)?;
            self.fault("before wiping old data");
            crate::wipe::wipe(&claim).map_err(io_at("wipe", &device.path))?;
            self.fault("after wiping old data");
        }
        self.tell_old(step, device, Vec::new())?;
        self.claims.insert(device.path.clone(), claim);
        Ok(())
    }

    /// Notes what of old data shows on a device that was built, from now on.
    fn tell_old(
        &mut self,
        step: Option<Step>,
        device: &Device,
        blocks: Vec<(u64, u32)>,
    ) -> Result<(), SetupError> {
        let Some((builder, step)) = self.builder.as_mut().zip(step) else { return Ok(()) };
        let entry = builder.log.entry(step).map(|entry| entry.change.clone());
        let Some(Change::Setup(SetupChange::OldData { name, since_s, .. })) = entry else {
            return Ok(());
        };
        let id = Some(device.id.clone());
        let change = SetupChange::OldData { name, id, since_s, blocks: Some(blocks) };
        builder.log.made(step, Change::Setup(change))?;
        Ok(())
    }

    /// Waits until something shows.
    pub fn wait_for<T>(
        &self,
        what: &str,
        mut look: impl FnMut(&SysRoot) -> Option<T>,
    ) -> Result<T, SetupError> {
        const LIMIT: Duration = Duration::from_secs(30);
        let began = Instant::now();
        loop {
            if let Some(found) = look(self.root) {
                return Ok(found);
            }
            self.check_stop(&format!("waiting for {what}"))?;
            if began.elapsed() > LIMIT {
                return Err(SetupError::Device(format!(
                    "{what} does not appear within {} s; the kernel's log (dmesg) may say why",
                    LIMIT.as_secs()
                )));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The device at a path.
    pub fn device(&self, path: &Path) -> Result<Device, SetupError> {
        let target = Target::resolve(self.root, path)?;
        Ok(device_of(self.root, &target.device, target.path))
    }

    /// A device that would be there.
    pub fn imagined(&self, path: &str, size_bytes: u64, below: &Device) -> Device {
        Device {
            path: path.into(),
            name: path.rsplit('/').next().unwrap_or(path).to_owned(),
            id: "UUID".to_owned(),
            size_bytes,
            logical_block_bytes: below.logical_block_bytes,
            is_own_loop: below.is_own_loop,
        }
    }
}

/// A device as the kernel shows it.
pub(crate) fn device_of(root: &SysRoot, device: &BlockDir, path: PathBuf) -> Device {
    let id = device.devno().map(|devno| identity::device_id(root, devno).text).unwrap_or_default();
    let disk = device.disk();
    let block = disk.as_ref().and_then(|disk| disk.value("queue/logical_block_size"));
    Device {
        path,
        name: device.name().to_owned(),
        id,
        size_bytes: device.size_bytes().unwrap_or(0),
        logical_block_bytes: block.unwrap_or(512),
        is_own_loop: false,
    }
}
