//! What a guest is to do: the kind of machine, its disks, and the steps.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kinds of guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Machine {
    /// User Mode Linux: a kernel as a process.
    Uml,
    /// A whole PC, emulated by QEMU.
    Qemu,
}

/// How a disk of a QEMU guest is attached. Its serial number is `fathom-N`, N its place among the job's disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    /// `/dev/vda` and so on; module `virtio_blk`.
    Virtio,
    /// `/dev/sda` and so on; modules `virtio_scsi`, `sd_mod`.
    Scsi,
    /// One SCSI disk that is seen twice, with one WWN, over two host adapters.
    TwoPathScsi,
    /// `/dev/nvme0n1` and so on, a controller for each, which may come up in any order; module `nvme`.
    Nvme,
    /// One namespace over two controllers of one subsystem. The kernel joins the paths itself; with
    /// `load_with nvme_core multipath=N` before, they are two disks.
    TwoPathNvme,
    /// `/dev/sda` and so on, of the model LAB-DISK, turning 7200 times a minute; modules `ahci`, `sd_mod`. Six at most.
    Sata,
    /// The same of another model.
    SataOf(&'static str),
    /// An NVMe disk with one queue, on a bridge of its own that belongs to a memory node; with [`GuestJob::two_nodes`].
    NvmeNear(u8),
}

/// A blank disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disk {
    pub(super) bus: Bus,
    pub(super) size_bytes: u64,
    /// It confirms flushes and does not do them.
    pub(super) lies: bool,
}

/// What a guest is to do.
#[derive(Debug, Clone)]
pub struct GuestJob {
    pub(super) machine: Machine,
    pub(super) memory_mib: u32,
    pub(super) has_two_nodes: bool,
    pub(super) cpus: u32,
    pub(super) kernel_words: String,
    pub(super) arguments: Vec<String>,
    pub(super) limit: Duration,
    pub(super) tools: PathBuf,
    pub(super) disks: Vec<Disk>,
    pub(super) prelude: String,
    pub(super) steps: Vec<Step>,
}

/// What the end of a step means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepKind {
    /// A failure ends the job.
    Must,
    /// Whatever comes is recorded.
    May,
    /// The power is cut; there is no script.
    Cut,
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) kind: StepKind,
    pub(super) script: String,
}

impl Step {
    /// The name of its file: the order, the name, and what its end means.
    pub(super) fn file_name(&self, index: usize) -> String {
        let kind = match self.kind {
            StepKind::Must => "must",
            StepKind::May => "may",
            StepKind::Cut => "cut",
        };
        format!("{index:03}-{}.{kind}", self.name)
    }
}

impl GuestJob {
    /// An empty job for User Mode Linux that may take five minutes. The programs in the `tools` directory of the host come
    /// first on the guest's `PATH`.
    #[must_use]
    pub fn new(tools: &Path) -> Self {
        Self {
            machine: Machine::Uml,
            memory_mib: 768,
            has_two_nodes: false,
            cpus: 2,
            kernel_words: String::new(),
            arguments: Vec::new(),
            limit: Duration::from_secs(300),
            tools: tools.to_owned(),
            disks: Vec::new(),
            prelude: String::new(),
            steps: Vec::new(),
        }
    }

    /// Makes it a job for QEMU: two CPUs, NVMe, tracing, and disks that lose what was not flushed when the power is
    /// cut. Emulated, so all is several times as slow; unless [`GuestJob::limit`] follows, it may take a quarter of an hour.
    #[must_use]
    pub fn qemu(mut self) -> Self {
        self.machine = Machine::Qemu;
        self.limit = Duration::from_secs(900);
        self
    }

    /// Leaves out all steps that may fail but these.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.steps.retain(|step| step.kind != StepKind::May || names.contains(&step.name.as_str()));
        self
    }

    /// How long the guest may live, over all its boots.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// That long at least.
    #[must_use]
    pub fn limit_at_least(mut self, limit: Duration) -> Self {
        self.limit = self.limit.max(limit);
        self
    }

    /// The guest's memory, in MiB; RAM disks must fit into it.
    #[must_use]
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }

    /// So many CPUs, an even number; only under QEMU, which has two otherwise.
    #[must_use]
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// Further words of the kernel's command line, after those of the kit; only under QEMU.
    #[must_use]
    pub fn kernel_words(mut self, words: &str) -> Self {
        self.kernel_words.push(' ');
        self.kernel_words.push_str(words);
        self
    }

    /// Two NUMA nodes, each with half of the CPUs and of the memory; only under QEMU.
    #[must_use]
    pub fn two_nodes(mut self) -> Self {
        self.has_two_nodes = true;
        self
    }

    /// Further words of QEMU's command line, as for devices of other kinds; only under QEMU.
    #[must_use]
    pub fn arguments(mut self, words: &[&str]) -> Self {
        self.arguments.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// One more blank disk over a sparse file: `/dev/ubda`, `/dev/ubdb` and so on, eight at most; under QEMU one on
    /// [`Bus::Virtio`].
    #[must_use]
    pub fn disk(self, size_bytes: u64) -> Self {
        self.disk_on(Bus::Virtio, size_bytes)
    }

    /// One more blank disk over a sparse file, attached in that way; only under QEMU. Steps load the drivers, with the
    /// parameters that they want.
    #[must_use]
    pub fn disk_on(mut self, bus: Bus, size_bytes: u64) -> Self {
        self.disks.push(Disk { bus, size_bytes, lies: false });
        self
    }

    /// One more blank disk on [`Bus::Virtio`], only under QEMU, that confirms flushes and writes through without doing
    /// them: at a power cut it loses everything.
    #[must_use]
    pub fn lying_disk(mut self, size_bytes: u64) -> Self {
        self.disks.push(Disk { bus: Bus::Virtio, size_bytes, lies: true });
        self
    }

    /// Shell functions that all steps know.
    #[must_use]
    pub fn prelude(mut self, script: &str) -> Self {
        self.prelude.push_str(script);
        self
    }

    /// A script that prepares what follows: at its first failing command it ends, and the job with it. The name is a
    /// plain word. Scripts have `load MODULE...` to load kernel modules, `load_with MODULE NAME=VALUE...` for one with
    /// parameters, `wait_for PATH...`, which waits until all of these exist, and `nvme_disk fathom-N`, which waits for
    /// that NVMe disk and prints its name.
    #[must_use]
    pub fn setup(self, name: &str, script: &str) -> Self {
        self.add(name, StepKind::Must, script)
    }

    /// A script whose end is recorded, whatever it is; like [`GuestJob::setup`] it ends at its first failing command.
    #[must_use]
    pub fn step(self, name: &str, script: &str) -> Self {
        self.add(name, StepKind::May, script)
    }

    /// Cuts the power and boots again with the same disks; the steps that follow run there, where nothing is loaded or
    /// mounted any more. What earlier steps left running in the background is at work until that moment.
    ///
    /// The guest's memory is lost, and under QEMU also everything that the disks were not told to flush (or to write
    /// through). The disks of User Mode Linux keep all that reached them.
    #[must_use]
    pub fn power_cut(self, name: &str) -> Self {
        self.add(name, StepKind::Cut, "")
    }

    /// True when a step cuts the power.
    pub(super) fn has_power_cut(&self) -> bool {
        self.steps.iter().any(|step| step.kind == StepKind::Cut)
    }

    fn add(mut self, name: &str, kind: StepKind, script: &str) -> Self {
        self.steps.push(Step { name: name.to_owned(), kind, script: script.to_owned() });
        self
    }
}
