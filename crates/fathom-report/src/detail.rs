//! One record in full: what `fathom show` prints.

use crate::figures::{CPU_WINDOW_NS_MIN, NO_CPU_SHARE, per_second};
use crate::job::{self, plural, seconds};
use crate::table::{Align, Table};
use crate::text::{format_share, format_time, push_wrapped_to};
use fathom_base::units;
use fathom_model::extents::FileExtents;
use fathom_model::record::{DeviceDelta, Ending, Record, TargetKind, TargetRecord};
use jiff::tz::TimeZone;

/// Everything about one record: what was asked and where, every job with every class of operations, what the
/// devices and the CPUs did. Latencies of closed loops are called service times. Findings and verdict belong to the
/// whole run and are not repeated for each record. In lines of `width` columns.
#[must_use]
pub fn run_detail(record: &Record, zone: &TimeZone, width: usize) -> String {
    let mut out = String::new();
    let ending = match record.ending {
        Ending::Complete => "complete",
        Ending::Interrupted => "interrupted",
        Ending::Failed => "failed",
    };
    let head = format!(
        "{} (workload {}): {ending}, {} from {}",
        record.label,
        record.workload.name,
        seconds(record.window_ns),
        format_time(record.started_unix_ns, zone),
    );
    push_wrapped_to(&mut out, width, "", &head);
    if let Some(failure) = &record.failure {
        push_wrapped_to(&mut out, width, "error  ", &failure.message);
    }
    for target in &record.targets {
        push_target(&mut out, target, width);
    }
    for job in &record.jobs {
        let asked = record.workload.jobs.iter().find(|asked| asked.name == job.name);
        job::push(&mut out, job, asked, width);
        let is_complete = record.ending == Ending::Complete;
        let asked = asked.filter(|_| is_complete);
        if let Some(text) = asked.and_then(|asked| job::early_end(job, asked)) {
            push_wrapped_to(&mut out, width, "  ended early  ", &text);
        }
    }
    push_machine(&mut out, record, width);
    push_devices(&mut out, &record.devices, record.window_ns, width);
    out
}

fn push_target(out: &mut String, target: &TargetRecord, width: usize) {
    let (kind, only_read) = match target.kind {
        TargetKind::OwnFile => ("test file", ""),
        TargetKind::ForeignFile => ("existing file", "only read, "),
        TargetKind::BlockDevice => ("block device", ""),
        TargetKind::OwnDirectory => {
            push_wrapped_to(
                out,
                width,
                "target  ",
                &format!("{}: directory of test files", target.path),
            );
            return;
        }
        TargetKind::Null => {
            push_wrapped_to(out, width, "target  ", "nothing (null engine)");
            return;
        }
    };
    let cache = if target.direct { "O_DIRECT" } else { "buffered" };
    let size = units::format_size(target.size_bytes);
    let text = format!("{}: {kind} of {size}, {only_read}{cache}", target.path);
    push_wrapped_to(out, width, "target  ", &text);
    if let Some(extents) = &target.extents {
        push_wrapped_to(out, width, "  lies    ", &extents_text(extents));
    }
    let mut caches = target.device_cache_reason.clone();
    if !target.direct {
        caches += &format!(", {} of memory", units::format_size(target.memory_bytes));
    }
    push_wrapped_to(out, width, "  caches  ", &caches);
}

fn extents_text(extents: &FileExtents) -> String {
    let pieces = match (extents.extents, extents.fragments) {
        (Some(extents), Some(fragments)) => {
            format!("in {}, {}", plural(extents, "extent"), plural(fragments, "piece"))
        }
        (Some(extents), None) => format!("in {}", plural(extents, "extent")),
        _ => "in an unknown number of extents".to_owned(),
    };
    let place = match (extents.first_byte, extents.last_byte) {
        _ if extents.physical_is_logical => {
            ", at positions unknown: the filesystem has its own addresses".to_owned()
        }
        (Some(first), Some(last)) => {
            let share = extents.share_of_device.map_or_else(String::new, |share| {
                format!(" and so spread over {} of it", format_share(share))
            });
            let (from, to) = units::format_sizes(first, last + 1);
            format!(", between {from} and {to} of the device{share}")
        }
        _ => ", at positions unknown".to_owned(),
    };
    let mut text = pieces + &place;
    for (bytes, what) in
        [(extents.hole_bytes, "holes"), (extents.unwritten_bytes, "allocated but never written")]
    {
        if bytes > 0 {
            text += &format!("; {} are {what}", units::format_size(bytes));
        }
    }
    for (is, what) in [
        (extents.shared, "shares extents with other files or snapshots"),
        (extents.inline, "partly inside the metadata"),
        (extents.encoded, "compressed or encrypted"),
    ] {
        if is {
            text += &format!("; {what}");
        }
    }
    text
}

fn push_machine(out: &mut String, record: &Record, width: usize) {
    let of_core = |ns: u64| {
        let share = if record.window_ns == 0 { 0.0 } else { ns as f64 / record.window_ns as f64 };
        format_share(share)
    };
    let cpu = format!(
        "fathom {} of one core ({} user, {} system); all CPUs: {} busy, {} idle with I/O outstanding, {} taken \
         by the hypervisor",
        of_core(record.process_cpu.total_ns()),
        of_core(record.process_cpu.user_ns),
        of_core(record.process_cpu.system_ns),
        format_share(record.system_cpu.busy_share),
        format_share(record.system_cpu.iowait_share),
        format_share(record.system_cpu.steal_share),
    );
    let is_short = (1..CPU_WINDOW_NS_MIN).contains(&record.window_ns);
    push_wrapped_to(out, width, "CPU  ", if is_short { NO_CPU_SHARE } else { &cpu });
    if let Some(text) = events_text(record) {
        push_wrapped_to(out, width, "kernel  ", &text);
    }
    if record.page_cache.dirtied_bytes > 0 {
        let dirtied = units::format_size(record.page_cache.dirtied_bytes);
        push_wrapped_to(
            out,
            width,
            "page cache  ",
            &format!("of the whole machine: {dirtied} dirtied"),
        );
    }
    if let Some(group) = &record.control_group {
        push_wrapped_to(out, width, "cgroup  ", &format!("all jobs: {}", group.text()));
    }
    if record.suspended_ns > 0 {
        let slept = units::format_ns(record.suspended_ns);
        push_wrapped_to(out, width, "suspended  ", &format!("for {slept} during the measurement"));
    }
    if record.held_up_ns > 0 {
        let stopped = units::format_ns(record.held_up_ns);
        push_wrapped_to(
            out,
            width,
            "stopped  ",
            &format!("fathom itself for {stopped} during the measurement"),
        );
    }
}

/// What the machine's processors were interrupted for and switched between, of everybody.
fn events_text(record: &Record) -> Option<String> {
    let events = record.system_events?;
    let requests: u64 = record.jobs.iter().map(|job| job.transfers().latency_ns.count()).sum();
    let rate = |count: u64| crate::figures::iops_text(per_second(count, record.window_ns));
    let each = |count: u64| match requests {
        0 => String::new(),
        requests => format!(" ({:.2} per I/O)", count as f64 / requests as f64),
    };
    Some(format!(
        "of the whole machine: {} interrupts/s{}, {} context switches/s{}",
        rate(events.interrupts),
        each(events.interrupts),
        rate(events.context_switches),
        each(events.context_switches),
    ))
}

/// What the devices' own counters say.
fn push_devices(out: &mut String, devices: &[DeviceDelta], window_ns: u64, width: usize) {
    if devices.is_empty() {
        return;
    }
    let right = |title| (title, Align::Right);
    let mut columns = vec![("device", Align::Left)];
    columns.extend(
        ["reads/s", "read", "mean", "writes/s", "written", "mean", "flushes/s", "busy"].map(right),
    );
    let mut table = Table::new(columns, 3);
    for device in devices {
        let mean = |bytes: u64, requests: u64| {
            bytes.checked_div(requests).map_or_else(|| "-".to_owned(), units::format_size)
        };
        let rate = |count| crate::figures::iops_text(per_second(count, window_ns));
        let bytes = |bytes| units::format_rate(per_second(bytes, window_ns));
        table.row([
            device.name.clone(),
            rate(device.reads),
            bytes(device.read_bytes),
            mean(device.read_bytes, device.reads),
            rate(device.writes),
            bytes(device.written_bytes),
            mean(device.written_bytes, device.writes),
            device.flushes.map_or_else(|| "-".to_owned(), rate),
            format_share(device.busy_share(window_ns)),
        ]);
    }
    out.push_str(&table.render_to(0, width));
    for device in devices {
        if let Some(cpu_ns) = device.kernel_thread_cpu_ns {
            let share = format_share(cpu_ns as f64 / window_ns.max(1) as f64);
            push_wrapped_to(
                out,
                width,
                &format!("{}  ", device.name),
                &format!("its kernel thread used {share} of one core"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{commit, interrupted, quick, randomio};
    use crate::text::WIDTH;
    use expect_test::{Expect, expect};
    use fathom_model::finding::{Finding, Severity};
    use fathom_model::record::{ClassRecord, IoFailure, OpClass, PageCacheDelta};
    use fathom_model::workload::Access;
    use fathom_stats::Histogram;

    fn check(record: &Record, expected: &Expect) {
        let text = run_detail(record, &TimeZone::UTC, WIDTH);
        expected.assert_eq(&text);
        assert!(text.is_ascii());
        let wide = text.lines().find(|line| line.len() > WIDTH);
        assert_eq!(wide, None);
    }

    /// Ticks of the kernel's counters are longer than such a window, and what begins with its end has no age.
    #[test]
    fn a_short_window_has_no_share_of_cpu() {
        let mut record = randomio(900);
        let text = |record: &Record| run_detail(record, &TimeZone::UTC, WIDTH);
        (record.window_ns, record.jobs[0].window_ns) = (1_000_000, 1_000_000);
        assert!(text(&record).matches("of one core").count() > 1);
        (record.window_ns, record.jobs[0].window_ns) = (999_999, 999_999);
        let short = text(&record);
        assert!(!short.contains("of one core"), "{short}");
        assert!(short.contains("\nCPU  - (the window is too short to tell)\n"), "{short}");
        assert!(text(&record).contains("still in flight at the end, oldest "));
        record.jobs[0].censored.iter_mut().for_each(|op| op.age_ns = 0);
        let begun = "still in flight at the end, just begun: ";
        assert!(text(&record).contains(begun), "{}", text(&record));
    }

    #[test]
    fn a_mix_with_everything() {
        let mut record = randomio(900);
        record.findings.push(
            Finding::new("small-span", Severity::Note, "the test file covers 0.3 % of the device")
                .advise("for the whole of it: fathom quick --span=full"),
        );
        check(
            &record,
            &expect![[r#"
                mixed (20 % writes), 48 (workload randomio): complete, 60.0 s from 2026-11-21 03:00:00 +00:00
                target  /srv/data/.fathom-7f3k/f0: test file of 8 GiB, O_DIRECT
                  lies    in 5 extents, 3 pieces, between 1 GiB and 13 GiB of the device and so spread over 0.3 % of it
                  caches  256 MiB assumed for each of 2 disks
                job mix  io_uring (single_issuer, defer_taskrun, fixed_buffers), 48 threads x depth 1, batch 1; about 33.7 of
                         48 in flight on average
                  asked for    random, 4 KiB, 20 % writes, fsync after 10 % of them, O_DIRECT
                                             count   per second       bytes         rate
                  read                      43 200          720   168.8 MiB     2.9 MB/s
                  write                      9 900          165    38.7 MiB   675.8 kB/s
                  write (before its sync)      900           15     3.5 MiB    61.4 kB/s
                  sync                         900           15           -            -
                  write + sync                 900           15           -            -
                  service time                min    mean  stddev     p50     p90     p95     p99   p99.9  p99.99     max
                  read                      22 ms   44 ms   18 ms   43 ms   61 ms   63 ms  152 ms  190 ms     n/a  899 ms
                  write                    1.0 ms  2.1 ms  949 us  2.0 ms  2.8 ms  2.9 ms  7.1 ms     n/a     n/a   47 ms
                  write (before its sync)  500 us  1.1 ms  792 us  1.0 ms  1.4 ms  1.5 ms     n/a     n/a     n/a   21 ms
                  sync                      15 ms   32 ms   24 ms   30 ms   42 ms   44 ms     n/a     n/a     n/a  632 ms
                  write + sync              16 ms   33 ms   25 ms   31 ms   44 ms   45 ms     n/a     n/a     n/a  653 ms
                    n/a: too few operations (ten must lie beyond a percentile: p99 needs 1 000, p99.9 needs 10 000, p99.99
                    needs 100 000).
                  CPU          threads 1.0 % of one core, busiest thread < 0.1 %; per I/O 1.8 us user + 9.1 us system
                  IOPS         |#####___##| 6 s per character; min 0, max 152
                  slowest      1.2 s: read of 4 KiB at offset 8589934592, 31.2 s after the start
                               1.1 s: sync, 31.2 s after the start
                               1.1 s: read of 4 KiB at offset 8589942784, 31.2 s after the start
                               1.0 s: sync, 31.2 s after the start
                               975 ms: read of 4 KiB at offset 8589950976, 31.2 s after the start
                               (3 more are stored)
                  not ended    3 still in flight at the end, oldest 19.6 s: write of 4 KiB at offset 12288
                CPU  fathom 2.0 % of one core (0.3 % user, 1.7 % system); all CPUs: 3.1 % busy, 25 % idle with I/O
                     outstanding, 0 % taken by the hypervisor
                kernel  of the whole machine: 2 000 interrupts/s (2.22 per I/O), 4 000 context switches/s (4.44 per I/O)
                device   reads/s       read    mean   writes/s      written    mean   flushes/s   busy
                sda          720   2.9 MB/s   4 KiB        165   675.8 kB/s   4 KiB          15   99 %
                md10         720   2.9 MB/s   4 KiB        165   675.8 kB/s   4 KiB           -   99 %
            "#]],
        );
    }

    #[test]
    fn no_device_is_busier_than_the_time() {
        // Counted in ticks of the kernel's clock, which a short window is less than.
        let mut devices = randomio(10).devices.split_off(1);
        devices[0].busy_ns = 4_000_000;
        let mut out = String::new();
        push_devices(&mut out, &devices, 1_500_000, WIDTH);
        assert!(out.trim_end().ends_with("100 %"), "{out}");
    }

    #[test]
    fn a_sequential_write_with_its_final_sync() {
        let mut record = quick().swap_remove(1);
        record.jobs[0].final_sync_ns = Some(1_234_000_000);
        let extents = record.targets[0].extents.as_mut().expect("a file");
        extents.physical_is_logical = true;
        (extents.hole_bytes, extents.unwritten_bytes, extents.shared) = (4096, 1 << 20, true);
        record.page_cache = PageCacheDelta { dirtied_bytes: 3 << 30, paged_in_bytes: 17 << 20 };
        check(
            &record,
            &expect![[r#"
                sequential write (workload seqwrite): complete, 60.0 s from 2026-11-21 03:00:00 +00:00
                target  /srv/data/.fathom-7f3k/f0: test file of 8 GiB, O_DIRECT
                  lies    in 5 extents, 3 pieces, at positions unknown: the filesystem has its own addresses; 4 KiB are holes;
                          1 MiB are allocated but never written; shares extents with other files or snapshots
                  caches  256 MiB assumed for each of 2 disks
                job write  io_uring (single_issuer, defer_taskrun, fixed_buffers), 1 thread x depth 1, batch 1; about 1.0 of 1
                           in flight on average
                  asked for    sequential, 1 MiB, writes, fdatasync at the end, O_DIRECT
                          count   per second     bytes         rate
                  write   6 780          113   6.6 GiB   118.5 MB/s
                  service time     min    mean  stddev     p50    p90    p95    p99  p99.9  p99.99     max
                  write         4.1 ms  8.5 ms  4.0 ms  8.2 ms  12 ms  12 ms  29 ms    n/a     n/a  171 ms
                    n/a: too few operations (ten must lie beyond a percentile: p99.9 needs 10 000, p99.99 needs 100 000).
                  final sync   1.2 s, inside the measured time; without it the rate would be 121.0 MB/s
                  CPU          threads 0 % of one core; per I/O 0 ns user + 0 ns system
                CPU  fathom 2.0 % of one core (0.3 % user, 1.7 % system); all CPUs: 3.1 % busy, 25 % idle with I/O
                     outstanding, 0 % taken by the hypervisor
                kernel  of the whole machine: 2 000 interrupts/s (17.70 per I/O), 4 000 context switches/s (35.40 per I/O)
                page cache  of the whole machine: 3 GiB dirtied
            "#]],
        );
    }

    #[test]
    fn an_engine_that_fell_back_and_an_error() {
        let mut record = interrupted();
        record.ending = Ending::Failed;
        record.suspended_ns = 90_000_000_000;
        record.jobs[0].engine.fallback =
            Some("io_uring is switched off (kernel.io_uring_disabled = 2); psync is used".into());
        record.jobs[0].engine.features.clear();
        record.jobs[0].classes.clear();
        record.targets[0].kind = TargetKind::BlockDevice;
        record.targets[0].extents = None;
        record.failure = Some(IoFailure {
            job: "seek".into(),
            operation: "read".into(),
            offset_bytes: 4096,
            size_bytes: 4096,
            errno: 5,
            message:
                "/dev/sda: read of 4096 bytes at offset 4096 failed: I/O error (EIO); see dmesg"
                    .into(),
        });
        check(
            &record,
            &expect![[r#"
                seeker (workload seeker): failed, 2.0 s from 2026-11-21 03:00:00 +00:00
                error  /dev/sda: read of 4096 bytes at offset 4096 failed: I/O error (EIO); see dmesg
                target  /srv/data/.fathom-7f3k/f0: block device of 8 GiB, O_DIRECT
                  caches  256 MiB assumed for each of 2 disks
                job seek  io_uring, 1 thread x depth 1, batch 1
                  not as asked io_uring is switched off (kernel.io_uring_disabled = 2); psync is used
                  asked for    random, 4 KiB, reads, O_DIRECT
                  no operation ended in the measured window
                  CPU          threads 0 % of one core
                CPU  fathom 60 % of one core (10 % user, 50 % system); all CPUs: 3.1 % busy, 25 % idle with I/O outstanding,
                     0 % taken by the hypervisor
                kernel  of the whole machine: 60 000 interrupts/s, 120 000 context switches/s
                suspended  for 90 s during the measurement
            "#]],
        );
    }

    #[test]
    fn what_came_before_the_time_is_said() {
        let mut record = randomio(900);
        let text = |record: &Record| run_detail(record, &TimeZone::UTC, WIDTH);
        record.workload.jobs[0].operations = Some(1000);
        assert!(!text(&record).contains("ended early"), "the time came first");
        record.jobs[0].window_ns = 2_000_000_000;
        let early = "  ended early  after 2.0 s of 60.0 s: operations=1000 came first\n";
        assert!(text(&record).contains(early), "{}", text(&record));
        record.workload.jobs[0].operations = None;
        assert!(!text(&record).contains("ended early"), "nothing else ends it");
        record.workload.jobs[0].access = Access::Sweep;
        assert!(text(&record).contains(": the end of the sweep came first\n"));
        record.workload.jobs[0].access = Access::Random;
        record.workload.jobs[0].amount_bytes = Some(1 << 20);
        assert!(text(&record).contains(": amount, which is one pass at the most, came first\n"));
        // With both that which was used up, also by what is neither read nor written.
        record.workload.jobs[0].operations = Some(10);
        record.jobs[0].thread_operations = vec![0];
        assert!(text(&record).contains(": amount, which"), "{}", text(&record));
        let mut latency_ns = Histogram::new();
        (0..10).for_each(|_| latency_ns.record(1000));
        record.jobs[0].classes.push(ClassRecord { class: OpClass::Trim, latency_ns, bytes: 0 });
        assert!(text(&record).contains(": operations=10 came first\n"), "{}", text(&record));
        record.ending = Ending::Interrupted;
        assert!(!text(&record).contains("ended early"), "somebody ended it");
    }

    #[test]
    fn a_commit() {
        check(
            &commit(),
            &expect![[r#"
                commit (append + fdatasync) (workload commit): complete, 60.0 s from 2026-11-21 03:00:00 +00:00
                target  /srv/data/.fathom-7f3k/f0: test file of 8 GiB, O_DIRECT
                  lies    in 5 extents, 3 pieces, between 1 GiB and 13 GiB of the device and so spread over 0.3 % of it
                  caches  256 MiB assumed for each of 2 disks
                job log  io_uring (single_issuer, defer_taskrun, fixed_buffers), 1 thread x depth 1, batch 1; about 1.0 of 1
                         in flight on average
                  asked for    append, 4 KiB, writes, fdatasync after each write, buffered
                                            count   per second      bytes         rate
                  write (before its sync)   6 240          104   24.4 MiB   426.0 kB/s
                  sync                      6 240          104          -            -
                  write + sync              6 240          104          -            -
                  service time                min    mean  stddev     p50    p90    p95     p99  p99.9  p99.99     max
                  write (before its sync)   30 us   62 us   29 us   60 us  84 us  88 us  212 us    n/a     n/a  1.2 ms
                  sync                     4.5 ms  9.3 ms  4.4 ms  9.1 ms  13 ms  13 ms   32 ms    n/a     n/a  187 ms
                  write + sync             4.5 ms  9.4 ms  4.4 ms  9.1 ms  13 ms  13 ms   32 ms    n/a     n/a  189 ms
                    n/a: too few operations (ten must lie beyond a percentile: p99.9 needs 10 000, p99.99 needs 100 000).
                  CPU          threads 0 % of one core; per I/O 0 ns user + 0 ns system
                CPU  fathom 2.0 % of one core (0.3 % user, 1.7 % system); all CPUs: 3.1 % busy, 25 % idle with I/O
                     outstanding, 0 % taken by the hypervisor
                kernel  of the whole machine: 2 000 interrupts/s (19.23 per I/O), 4 000 context switches/s (38.46 per I/O)
            "#]],
        );
    }
}
