//! Where the machine's time and memory are at a moment: processors, pressure, dirty pages, interrupts.

use crate::sysfs_block::BlockDir;
use crate::sysroot::SysRoot;
use fathom_base::order::Order;

/// Time of all processors together since boot, in the kernel's ticks, and what was counted, from /proc/stat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Processors {
    /// Programs, those of low priority included.
    pub user: u64,
    /// The kernel, interrupts included.
    pub system: u64,
    /// Idle with nothing outstanding.
    pub idle: u64,
    /// Idle with I/O outstanding.
    pub iowait: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
    /// Interrupts served, all together.
    pub interrupts: u64,
    /// Those that were asked for, in the order asked.
    pub lines: Vec<u64>,
    /// Switches from one thread to another.
    pub context_switches: u64,
}

/// Reads [`Processors`], with the counts of these interrupt lines; zero where the kernel does not tell.
#[must_use]
pub fn processors(root: &SysRoot, lines: &[u32]) -> Processors {
    parse_stat(&root.read("proc/stat").unwrap_or_default(), lines)
}

fn parse_stat(text: &str, wanted: &[u32]) -> Processors {
    let mut found = Processors { lines: vec![0; wanted.len()], ..Processors::default() };
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        match name {
            "cpu" => {
                let ticks: Vec<u64> =
                    rest.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
                let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
                found.user = u64::saturating_add(at(0), at(1));
                found.system = [2, 5, 6].map(at).into_iter().fold(0, u64::saturating_add);
                (found.idle, found.iowait, found.steal) = (at(3), at(4), at(7));
            }
            "intr" => interrupts(rest, wanted, &mut found),
            "ctxt" => found.context_switches = rest.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
    found
}

/// The sum, then one number for each line.
fn interrupts(rest: &str, wanted: &[u32], found: &mut Processors) {
    let mut words = rest.split(' ');
    found.interrupts = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let Some(last) = wanted.iter().max() else { return };
    let counts: Vec<&str> = words.take(*last as usize + 1).collect();
    for (count, line) in found.lines.iter_mut().zip(wanted) {
        let word = counts.get(*line as usize);
        *count = word.and_then(|word| word.parse().ok()).unwrap_or(0);
    }
}

/// How long tasks have waited for something since boot, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// While at least one waited.
    pub some_us: u64,
    /// While all did; zero for processors on kernels that do not tell.
    pub full_us: u64,
}

/// Pressure of `io`, `memory` or `cpu`; none on kernels without it.
#[must_use]
pub fn pressure(root: &SysRoot, of: &str) -> Option<Pressure> {
    parse_pressure(&root.read(format!("proc/pressure/{of}")).ok()?)
}

fn parse_pressure(text: &str) -> Option<Pressure> {
    let total = |word: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(word))?;
        line.split_once("total=")?.1.trim().parse().ok()
    };
    Some(Pressure { some_us: total("some")?, full_us: total("full").unwrap_or(0) })
}

/// Memory that has to do with writing, from /proc/meminfo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pages {
    /// Waits to be written.
    pub dirty_bytes: u64,
    /// Is being written.
    pub writeback_bytes: u64,
    /// Could be used without swapping.
    pub available_bytes: u64,
}

/// Reads [`Pages`]; zero where the kernel does not tell.
#[must_use]
pub fn pages(root: &SysRoot) -> Pages {
    parse_pages(&root.read("proc/meminfo").unwrap_or_default())
}

fn parse_pages(text: &str) -> Pages {
    let mut pages = Pages::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let into = match key {
            "Dirty" => &mut pages.dirty_bytes,
            "Writeback" => &mut pages.writeback_bytes,
            "MemAvailable" => &mut pages.available_bytes,
            _ => continue,
        };
        let kib: u64 = value.trim().trim_end_matches(" kB").parse().unwrap_or(0);
        *into = kib << 10;
    }
    pages
}

/// How many events about devices the kernel has told since boot: while it is the same, no device has come, gone or changed.
#[must_use]
pub fn device_events(root: &SysRoot) -> Option<u64> {
    root.value("sys/kernel/uevent_seqnum")
}

/// The interrupt lines of a block device's adapter that serve its queues, with their names: of NVMe `nvme0q1`, of virtio
/// `virtio1-req.0`. Empty for devices without any, and where the kernel does not tell. Lines that are `known` keep their names,
/// which takes a file to read for each of the others.
#[must_use]
pub fn interrupt_lines(
    root: &SysRoot,
    device: &BlockDir,
    known: &[(u32, String)],
) -> Vec<(u32, String)> {
    let Some(adapter) = device.pci_dir() else { return Vec::new() };
    let numbers =
        root.names(adapter.join("msi_irqs")).into_iter().filter_map(|name| name.parse().ok());
    let name = |irq: u32| {
        let known = known.iter().find(|(known, _)| *known == irq).map(|(_, name)| name.clone());
        known.or_else(|| root.text(format!("sys/kernel/irq/{irq}/actions")))
    };
    let mut lines: Vec<(u32, String)> = numbers
        .filter_map(|irq: u32| Some((irq, name(irq)?)))
        .filter(|(_, name)| !name.ends_with("-config"))
        .collect();
    lines.order();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_and_their_interrupts() {
        let text = "cpu  10 1 5 100 20 2 3 4 9 9\ncpu0 1 1 1 1\nintr 900 7 0 12 5\nctxt 77\n";
        let found = parse_stat(text, &[2, 0, 9]);
        assert_eq!((found.user, found.system, found.idle), (11, 10, 100));
        assert_eq!((found.iowait, found.steal), (20, 4));
        assert_eq!((found.interrupts, found.context_switches), (900, 77));
        assert_eq!(found.lines, [12, 7, 0]);
        assert_eq!(parse_stat("", &[1]).lines, [0]);
    }

    #[test]
    fn pressure_and_pages() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=90\n";
        assert_eq!(parse_pressure(text), Some(Pressure { some_us: 1500, full_us: 90 }));
        assert_eq!(parse_pressure("some avg10=1 total=3").map(|p| p.full_us), Some(0));
        assert_eq!(parse_pressure("nothing"), None);
        let pages = parse_pages(
            "MemAvailable:    100 kB\nDirty:  8 kB\nWriteback:    4 kB\nWritebackTmp: 9 kB\n",
        );
        let expected = Pages { dirty_bytes: 8192, writeback_bytes: 4096, available_bytes: 102_400 };
        assert_eq!(pages, expected);
    }

    #[test]
    fn this_machine_tells() {
        let live = SysRoot::live();
        assert!(processors(&live, &[]).idle > 0 && pages(&live).available_bytes > 0);
        assert!(device_events(&live).is_some());
    }
}
