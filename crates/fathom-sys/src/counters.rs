//! Counters of the running kernel: CPU time, page-cache traffic, block devices, memory.

use crate::sysroot::SysRoot;

/// CPU time of all processors together, in clock ticks since boot, from /proc/stat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemCpuTicks {
    /// Everything, idle included.
    pub total: u64,
    /// Idle with nothing outstanding.
    pub idle: u64,
    /// Idle with I/O outstanding.
    pub iowait: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

/// Reads [`SystemCpuTicks`]; all zero when /proc/stat cannot be read.
#[must_use]
pub fn system_cpu_ticks(root: &SysRoot) -> SystemCpuTicks {
    let text = root.read("proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let fields: Vec<u64> =
        line.split_ascii_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    let field = |i: usize| fields.get(i).copied().unwrap_or(0);
    // Guest time (fields 8 and 9) is already inside user and nice.
    SystemCpuTicks {
        total: fields.iter().take(8).copied().fold(0, u64::saturating_add),
        idle: field(3),
        iowait: field(4),
        steal: field(7),
    }
}

/// How often processors were interrupted and went from one thread to another since boot, all together, from /proc/stat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelEvents {
    /// Interrupts served, those of timers and between processors included.
    pub interrupts: u64,
    /// Switches from one thread to another.
    pub context_switches: u64,
}

/// Reads [`KernelEvents`]; none when the kernel does not tell both.
#[must_use]
pub fn kernel_events(root: &SysRoot) -> Option<KernelEvents> {
    let text = root.read("proc/stat").ok()?;
    // The first number is the sum; interrupts have one more each behind it.
    let first = |name: &str| {
        let mut words = text.lines().find_map(|l| l.strip_prefix(name))?.split_ascii_whitespace();
        words.next()?.parse::<u64>().ok()
    };
    Some(KernelEvents { interrupts: first("intr ")?, context_switches: first("ctxt ")? })
}

/// One line of /proc/diskstats, see Documentation/admin-guide/iostats.rst of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCounters {
    /// Kernel name.
    pub name: String,
    /// Reads completed.
    pub reads: u64,
    /// Sectors of 512 bytes read.
    pub read_sectors: u64,
    /// Writes completed.
    pub writes: u64,
    /// Sectors of 512 bytes written.
    pub written_sectors: u64,
    /// Requests in flight at this moment.
    pub in_flight: u64,
    /// Milliseconds with at least one request in flight.
    pub busy_ms: u64,
    /// Milliseconds that requests spent in flight, summed over requests: divided by the time that passed, the mean number
    /// in flight.
    pub in_flight_ms: Option<u64>,
    /// Flushes completed; kernels from 5.5 on.
    pub flushes: Option<u64>,
}

/// All block devices' counters.
#[must_use]
pub fn disk_counters(root: &SysRoot) -> Vec<DiskCounters> {
    disk_lines(root).0
}

/// The same, and how many lines make no sense.
#[must_use]
pub fn disk_lines(root: &SysRoot) -> (Vec<DiskCounters>, usize) {
    let text = root.read("proc/diskstats").unwrap_or_default();
    let counters: Vec<DiskCounters> = text.lines().filter_map(parse_disk_line).collect();
    let nonsense = text.lines().count() - counters.len();
    (counters, nonsense)
}

fn parse_disk_line(line: &str) -> Option<DiskCounters> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |i: usize| fields.get(3 + i).and_then(|f| f.parse::<u64>().ok());
    Some(DiskCounters {
        name: (*fields.get(2)?).to_owned(),
        reads: number(0)?,
        read_sectors: number(2)?,
        writes: number(4)?,
        written_sectors: number(6)?,
        in_flight: number(8)?,
        busy_ms: number(9)?,
        in_flight_ms: number(10),
        flushes: number(15),
    })
}

/// Page-cache traffic since boot, in bytes, from /proc/vmstat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageTraffic {
    /// Bytes of pages that were dirtied.
    pub dirtied_bytes: u64,
    /// Bytes that were read from devices into memory.
    pub paged_in_bytes: u64,
}

/// Reads [`PageTraffic`]; zero when the kernel does not tell.
#[must_use]
pub fn page_traffic(root: &SysRoot) -> PageTraffic {
    let text = root.read("proc/vmstat").unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|v| v.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    PageTraffic {
        dirtied_bytes: value("nr_dirtied").saturating_mul(4096),
        paged_in_bytes: value("pgpgin").saturating_mul(1024),
    }
}

/// CPU time of the kernel thread that serves a software array (`md0_raid5`), user and system together; none when there
/// is no such thread (levels 0 and linear have none).
#[must_use]
pub fn array_thread_cpu_ns(root: &SysRoot, array: &str) -> Option<u64> {
    // The kernel counts in ticks of 10 ms for user space, whatever its own tick is.
    const TICK_NS: u64 = 10_000_000;
    let prefix = format!("{array}_raid");
    let pids =
        root.names("proc").into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let mut threads = pids.filter(|pid| {
        root.text(format!("proc/{pid}/comm")).is_some_and(|comm| comm.starts_with(&prefix))
    });
    let stat = root.text(format!("proc/{}/stat", threads.next()?))?;
    // The name in brackets may hold blanks; after it the fields are plain. utime and stime are numbers 14 and 15.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    ticks(14)?.checked_add(ticks(15)?)?.checked_mul(TICK_NS)
}

/// Memory that could be used without swapping, in bytes, from /proc/meminfo.
#[must_use]
pub fn memory_available_bytes(root: &SysRoot) -> Option<u64> {
    memory_bytes(root, "MemAvailable:")
}

/// All memory of the machine, in bytes.
#[must_use]
pub fn memory_total_bytes(root: &SysRoot) -> Option<u64> {
    memory_bytes(root, "MemTotal:")
}

fn memory_bytes(root: &SysRoot, which: &str) -> Option<u64> {
    let text = root.read("proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(which))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_lines_of_three_kernel_ages() {
        let old = "   8       0 sda 10 1 80 5 20 2 160 9 0 12 14";
        let discard = "8 16 sdb 10 1 80 5 20 2 160 9 0 12 14 1 0 8 2";
        let flush = " 254 0 vda 26527 5488 1989994 8641 5166 5792 312136 1175 4 4588 10045 3113 88 140280 215 238 12";
        let parsed: Vec<_> =
            [old, discard, flush].into_iter().filter_map(parse_disk_line).collect();
        assert_eq!(parsed.len(), 3);
        assert_eq!((parsed[0].reads, parsed[0].read_sectors, parsed[0].busy_ms), (10, 80, 12));
        assert_eq!(parsed.iter().map(|disk| disk.in_flight).collect::<Vec<_>>(), [0, 0, 4]);
        let in_flight: Vec<_> = parsed.iter().map(|disk| disk.in_flight_ms).collect();
        assert_eq!(in_flight, [Some(14), Some(14), Some(10_045)]);
        assert_eq!((parsed[1].flushes, parsed[2].flushes), (None, Some(238)));
        assert_eq!(
            (parsed[2].writes, parsed[2].written_sectors, parsed[2].busy_ms),
            (5166, 312_136, 4588)
        );
        assert_eq!(parse_disk_line("8 0 sda 1 2"), None);
    }

    #[test]
    fn interrupts_and_context_switches_are_the_sums_of_their_lines() {
        let dir = std::env::temp_dir().join(format!("fathom-events-{}", std::process::id()));
        let root = SysRoot::at(&dir);
        std::fs::create_dir_all(root.path("proc")).unwrap();
        let told = |text: &str| {
            std::fs::write(root.path("proc/stat"), text).unwrap();
            kernel_events(&root)
        };
        let text = "cpu  1 2 3 4\ncpu0 1 2 3 4\nintr 5000000123 7 0 12\nctxt 98765\nbtime 1\nsoftirq 9 1\n";
        let expected = KernelEvents { interrupts: 5_000_000_123, context_switches: 98_765 };
        assert_eq!(told(text), Some(expected));
        assert_eq!(told("cpu  1 2 3 4\nintr 5\n"), None);
        std::fs::remove_dir_all(dir).unwrap();
        assert_eq!(kernel_events(&root), None);
    }

    #[test]
    fn the_thread_of_an_array_is_found_by_its_name() {
        let dir = std::env::temp_dir().join(format!("fathom-counters-{}", std::process::id()));
        let root = SysRoot::at(&dir);
        for (pid, comm, stat) in [
            ("7", "kworker/0:1", "7 (kworker/0:1) S 2 0 0 0 -1 1 0 0 0 0 9 9 0 0"),
            ("81", "md10_raid10", "81 (md10_raid10) S 2 0 0 0 -1 2129984 0 0 0 0 5 120 0 0 20 0"),
        ] {
            std::fs::create_dir_all(root.path(format!("proc/{pid}"))).unwrap();
            std::fs::write(root.path(format!("proc/{pid}/comm")), comm).unwrap();
            std::fs::write(root.path(format!("proc/{pid}/stat")), stat).unwrap();
        }
        assert_eq!(array_thread_cpu_ns(&root, "md10"), Some(1_250_000_000));
        assert_eq!(array_thread_cpu_ns(&root, "md1"), None);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn this_machine_tells() {
        let live = SysRoot::live();
        assert!(system_cpu_ticks(&live).total > 0);
        assert!(memory_available_bytes(&live).unwrap_or(0) > 1 << 20);
        assert!(page_traffic(&live).paged_in_bytes > 0);
        let before = kernel_events(&live).expect("told");
        std::thread::sleep(std::time::Duration::from_millis(20));
        let after = kernel_events(&live).expect("told");
        assert!(after.context_switches > before.context_switches && before.interrupts > 0);
    }
}
