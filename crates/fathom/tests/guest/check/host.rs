//! The machine around the disks: settings, timers, control groups, the kernel's log, who watches, and what measurements
//! show.

use super::look;
use crate::family::{Family, contains, result};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    Family::new("check_host", &["mdadm", "mkfs.ext4", "mkfs.vfat", "lsblk"], job)
        .test("files_of_the_administrator", files)
        .test("nobody_watches_an_array", |report| {
            look(report, "host_unwatched").has(&["md-no-monitor "]).lacks(&["md-no-alarm"]);
        })
        .test("a_monitor_with_nobody_to_tell", |report| {
            look(report, "host_silent").has(&["md-no-alarm "]).lacks(&["md-no-monitor"]);
            look(report, "host_told").lacks(&["md-no-alarm", "md-no-monitor"]);
        })
        .test("errors_in_the_kernels_log", |report| {
            let look = look(report, "host_errors");
            look.has(&["kernel-log-io-errors /dev/sda"]).lacks(&["kernel-log-resets"]);
            contains(
                &look.defect("kernel-log-io-errors").to_string(),
                &["critical medium error, dev sda"],
            );
        })
        .test("a_drive_that_is_given_up", |report| {
            let look = look(report, "host_resets");
            look.has(&["kernel-log-resets /dev/sdc", "kernel-log-io-errors /dev/sda"]);
            // That its requests then fail is the same trouble.
            assert!(!look.found().contains(&"kernel-log-io-errors /dev/sdc".to_owned()));
        })
        .test("limits_of_control_groups", |report| {
            let look = look(report, "host_limits");
            look.has(&["io-limits-active /dev/sda", "memory-limit "]);
            contains(
                &look.defect("io-limits-active").to_string(),
                &["riops=500", "/sys/fs/cgroup/a/io.max"],
            );
        })
        .test("a_system_on_a_mirror_with_swap_on_one_disk", |report| {
            look(report, "host_mirrored").has(&["swap-not-redundant /dev/ubdb"]);
        })
        .test("a_server_of_files_that_is_read_in_small_pieces", |report| {
            let look = look(report, "host_remote");
            look.has(&["read-ahead-remote /run/remote"]);
            let defect = look.defect("read-ahead-remote").to_string();
            contains(&defect, &["reads 128 KiB ahead", "echo 4096 > ", "rsize=1048576"]);
            self::look(report, "host_remote_cured").lacks(&["read-ahead-remote"]);
        })
        .test("a_client_of_files_is_a_companion", beside)
        .test("how_far_ahead_is_read_of_a_server_is_a_setting", ahead)
        .test("a_server_of_files_that_does_not_answer", |report| {
            let look = look(report, "host_remote_dead");
            let unread = look.result["snapshot"]["unread"].to_string();
            contains(&unread, &["superblocks and its file", "remote: not touched"]);
        })
        .test("tables_of_fat", |report| {
            let look = look(report, "host_tables");
            let unread = look.result["snapshot"]["unread"].to_string();
            contains(&unread, &["space of /run/long", "more than 1 MiB: not asked"]);
            assert!(!unread.contains("/run/short"), "{unread}");
        })
        .test("a_busy_disk", |report| {
            let look = look(report, "host_busy");
            look.has(&["other-io /dev/sdb", "maintenance-running "]);
        })
        .test("what_measurements_show", measured)
        .into_trials()
}

/// Settings, each as somebody may have left it.
const FILES: &str = r#"
mkfs.ext4 -q /dev/sda
mkdir /run/far
mount /dev/sda /run/far
echo '/dev/sda /run/far ext4 defaults 0 2' >/etc/fstab
echo 'ACTION=="add|change", KERNEL=="sd[a-z]", ATTR{queue/scheduler}="none"' >/etc/udev/rules.d/90-first.rules
echo 'KERNEL=="sd[a-z]", ATTR{queue/scheduler}="kyber"' >/etc/udev/rules.d/91-second.rules
mkdir -p /run/systemd/system /etc/systemd/system/timers.target.wants
printf '[Timer]\nOnCalendar=hourly\n' >/etc/systemd/system/copy.timer
printf '[Service]\nExecStart=/usr/bin/rsync -a /srv /copy\n' >/etc/systemd/system/copy.service
ln -s ../copy.timer /etc/systemd/system/timers.target.wants/copy.timer
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
glance
rm -r /run/systemd/system /etc/udev/rules.d/9?-*.rules
echo 500 >/proc/sys/vm/dirty_writeback_centisecs
"#;

/// 0x1234 is where scsi_debug has its bad sectors while it is told to.
const ERRORS: &str = "
echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts
dd if=/dev/sda of=/dev/null bs=512 skip=4660 count=1 iflag=direct && exit 1
echo 0 >/sys/bus/pseudo/drivers/scsi_debug/opts
glance
";

const SILENT: &str = "
echo 'HOMEHOST <system>' >/etc/mdadm/mdadm.conf
mdadm --monitor --scan --syslog --daemonise --pid-file=/run/monitor.pid
glance
";

/// A root directory on a mirror, as a change of root sees it, with the programs of the other one.
const MIRRORED: &str = r#"
mkswap -q /dev/ubdb
swapon /dev/ubdb
mkfs.ext4 -q -E nodiscard /dev/md0
mkdir -p /run/mirrored
mount /dev/md0 /run/mirrored
cd /run/mirrored
mkdir -p usr proc sys dev run tools etc
for part in bin sbin lib lib64; do
    if [ -L /$part ]; then ln -s "$(readlink /$part)" $part; else mkdir $part; mount --bind /$part $part; fi
done
mount --bind /usr usr
mount --bind "$(dirname "$(command -v fathom)")" tools
mount -t proc proc proc
mount -t sysfs sys sys
mount --bind /dev dev
echo "=== fathom"
chroot /run/mirrored /tools/fathom --db=/none/fathom.db --json --quiet check
cd /run
swapoff /dev/ubdb
umount mirrored/{dev,sys,proc,tools,usr}
for part in bin sbin lib lib64; do umount mirrored/$part 2>/dev/null || true; done
umount mirrored
wipefs -qa /dev/ubdb
"#;

const LIMITS: &str = r#"
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd /sys/fs/cgroup
echo '+io +memory' >cgroup.subtree_control
mkdir a
echo '8:0 riops=500' >a/io.max
echo 100M >a/memory.max
(echo $BASHPID >a/cgroup.procs; glance)
"#;

/// The second one lives for as long as it waits: between two of the first a look would find none.
const BUSY: &str = "
while :; do dd if=/dev/sdb of=/dev/null bs=4k iflag=direct status=none; done & busy=$!
sleep 1000 | dd of=/dev/null status=none & waiting=$!
glance
kill $busy $waiting
";

/// A server of NFS, and its client. The kernel's tables of who may see what are filled by hand, as mountd does: the host
/// 127.0.0.1 is called lab; the number 0 is the root of all exports (of a directory in memory, read-only or not, any port).
/// A server that nobody tells of earlier clients lets none open a file until they could have come back: that is 90 s unless it is told.
const REMOTE: &str = r#"
load nfsd nfsv4
busybox ip link set lo up
mount -t nfsd nfsd /proc/fs/nfsd
mkdir /run/exported /run/remote
forever=2147483647
echo "nfsd 127.0.0.1 $forever lab" >/proc/net/rpc/auth.unix.ip/channel
echo "lab /run/exported $forever $((0x2000 + 0x400 + 0x2)) 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
echo "lab 1 \\x00000000 $forever /run/exported" >/proc/net/rpc/nfsd.fh/channel
echo 1048576 >/proc/fs/nfsd/max_block_size
echo '-2 -3 +4 +4.2' >/proc/fs/nfsd/versions
# For so many seconds a new server waits for those that an earlier one served; the usual ninety are too many.
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
echo 1 >/proc/fs/nfsd/threads
mount -i -t nfs4 -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1 127.0.0.1:/ /run/remote
glance
"#;

/// A client that reads without pause beside the load, in half of the cells. What it got is counted by itself, by the server and by the
/// kernel's client; after the experiment nobody reads any more.
const BESIDE: &str = r#"
dd if=/dev/zero of=/run/exported/big bs=1M count=8 status=none
timeout 100 dd if=/run/remote/big of=/dev/null bs=64k count=1 iflag=direct status=none
cat >/run/beside.toml <<'END'
question = "What does a client of files cost?"
target = "null:"
[[workload]]
use = "randread"
duration = "3s"
warmup = "0s"
rate = 100
[factors]
companion = ["none", "while :; do dd if=/run/remote/big of=/dev/null bs=64k iflag=direct status=none || exit; echo >>/run/passes; done"]
[design]
blocks = 2
sentinel = false
[prepare]
settle = "0s"
quiet = "0s"
drop_caches = false
[[objective]]
metric = "iops"
END
served() { sed -n 's/^io \([0-9]*\) .*/\1/p' /proc/net/rpc/nfsd; }
fetched() { awk '/ mounted on /{is = $5 == "/run/remote"} is && $1 == "bytes:" {print $4}' /proc/self/mountstats; }
touch /run/passes
before=$(served) fetched=$(fetched) code=0
fathom --json --quiet lab /run/beside.toml >/run/beside.json || code=$?
after=$(served)
echo served $((after - before))
echo fetched $(($(fetched) - fetched))
echo passes $(wc -l </run/passes)
sleep 1
echo later $(($(served) - after))
grep -l "remote[/]big" /proc/[0-9]*/cmdline 2>/dev/null | grep -v self || echo ENDED
tail -1 /run/beside.json
[ $code -le 1 ]
"#;

/// What is read ahead of the server's files, as each trial finds it. Then the experiment is killed in one.
const AHEAD: &str = r#"
cat >/run/ahead.toml <<'END'
question = "How far ahead are files of a server to be read?"
target = "/run/remote/big"
[[workload]]
label = "look"
command = "cat /sys/class/bdi/$(mountpoint -d /run/remote)/read_ahead_kb >>/run/ahead; sleep 2"
[factors]
bdi.read_ahead_kb = [64, 1024]
[design]
blocks = 1
sentinel = false
[prepare]
settle = "0s"
quiet = "0s"
[[objective]]
metric = "application"
END
now() { cat /sys/class/bdi/$(mountpoint -d /run/remote)/read_ahead_kb; }
echo before $(now)
code=0
fathom --json --quiet lab /run/ahead.toml >/run/ahead.json || code=$?
echo seen $(sort -n /run/ahead)
echo after $(now)
rm /run/ahead
fathom --quiet lab --new /run/ahead.toml >/dev/null 2>&1 & lab=$!
until grep . /run/ahead >/dev/null 2>&1; do sleep 0.1; done
kill -KILL $lab
echo killed $(now)
fathom restore
echo restored $(now)
tail -1 /run/ahead.json
[ $code -le 1 ]
"#;

/// As advised.
const REMOTE_CURED: &str = r#"
echo 4096 >/sys/class/bdi/$(mountpoint -d /run/remote)/read_ahead_kb
glance
"#;

/// A file on the server shows as a disk, and then the server answers no more: whoever asks it waits, from here on.
const REMOTE_DEAD: &str = r#"
load loop
truncate -s 16M /run/exported/image
device=$(losetup --find --show /run/remote/image)
echo device $device
echo 0 >/proc/fs/nfsd/threads
code=0
timeout -s KILL 5 stat /run/remote/absent || code=$?
[ $code = 137 ]
echo "=== fathom"
timeout -s KILL 60 fathom --json --quiet check
"#;

/// A FAT with a table of 8 MiB, and one with a small one.
const TABLES: &str = "
load loop vfat nls_cp437 nls_ascii
mkdir /run/long /run/short
truncate -s 64G long.img
mkfs.vfat -F 32 -f 1 -s 64 long.img >&2
truncate -s 64M short.img
mkfs.vfat -F 16 short.img >&2
mount -o loop long.img /run/long
mount -o loop short.img /run/short
glance
cut -d' ' -f3 /sys/block/loop[0-9]*/stat >&2
umount /run/long /run/short
rm long.img short.img
";

/// The drive answers nothing any more; the kernel gives up after a second, and then gives the drive up.
const RESETS: &str = "
mdadm --stop /dev/md0
echo 1 >/sys/block/sdc/device/timeout
echo 1 >/sys/block/sdc/device/eh_timeout
echo 1 | tee /sys/class/scsi_host/host*/eh_deadline >/dev/null
echo 4 >/sys/bus/pseudo/drivers/scsi_debug/opts
echo 1 >/sys/bus/pseudo/drivers/scsi_debug/every_nth
dd if=/dev/sdc of=/dev/null bs=4k count=1 iflag=direct && exit 1
echo 0 >/sys/bus/pseudo/drivers/scsi_debug/every_nth
echo 0 >/sys/bus/pseudo/drivers/scsi_debug/opts
# Switched on again: while it is offline, that alone is told.
echo running >/sys/block/sdc/device/state
glance
";

/// A disk that says it rotates and answers in microseconds.
const MEASURED: &str = "
mkfs.ext4 -q /dev/ubda
mkdir /run/near
mount /dev/ubda /run/near
echo 1 >/sys/block/ubda/queue/rotational
glance
";

/// With the writes held back by others it takes longer than a minute to write what may be dirty.
const AFTER: &str = "
fathom run randread /run/near size=64M duration=2s depth=1 || [ $? = 1 ]
echo \"$(cat /sys/block/ubda/dev) wbps=4000000\" >/sys/fs/cgroup/a/io.max
(echo $BASHPID >/sys/fs/cgroup/a/cgroup.procs
 fathom run seqwrite /run/near size=64M amount=64M duration=3s || [ $? = 1 ])
echo 1000000000000 >/proc/sys/vm/dirty_bytes
glance
";

fn job(job: GuestJob) -> GuestJob {
    super::job(job)
        .limit(Duration::from_secs(180))
        .memory_mib(768)
        .disk(3 << 30)
        .disk(64 << 20)
        .setup(
            "disks",
            "load sd_mod ext4 raid1 kyber-iosched
             load_with scsi_debug dev_size_mb=64 add_host=3 per_host_store=1 delay=0
             wait_for /dev/sdc",
        )
        .step("host_files", FILES)
        .setup(
            "array",
            "mdadm --create /dev/md0 --run --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/sdb /dev/sdc",
        )
        .step("host_unwatched", "glance")
        .step("host_silent", SILENT)
        .step("host_told", "echo 'MAILADDR root' >>/etc/mdadm/mdadm.conf; glance; kill $(cat /run/monitor.pid)")
        .step("host_mirrored", MIRRORED)
        .step("host_remote", REMOTE)
        .step("host_beside", BESIDE)
        .step("host_ahead", AHEAD)
        .step("host_remote_cured", REMOTE_CURED)
        .step("host_remote_dead", REMOTE_DEAD)
        .step("host_tables", TABLES)
        .step("host_errors", ERRORS)
        .step("host_limits", LIMITS)
        .step("host_busy", BUSY)
        .step("host_resets", RESETS)
        .step("host_unmeasured", MEASURED)
        .step("host_measured", AFTER)
}

fn files(report: &GuestReport) {
    let look = look(report, "host_files");
    look.has(&[
        "fstab-unstable-name /dev/sda",
        "udev-rules-contradict ",
        "udev-rule-not-in-effect /dev/sda",
        "maintenance-soon ",
        "writeback-off ",
    ]);
    contains(&look.defect("maintenance-soon").to_string(), &["copy.timer (a backup) starts in"]);
    contains(&look.defect("udev-rule-not-in-effect").to_string(), &["to kyber, but it is"]);
    self::look_after(report);
}

/// What was taken back is told no more.
fn look_after(report: &GuestReport) {
    look(report, "host_unwatched").lacks(&[
        "udev-rules-contradict",
        "maintenance-soon",
        "writeback-off",
    ]);
}

/// Every trial counts, those with the client had service, and it ended with them.
fn beside(report: &GuestReport) {
    let result = result(report, "host_beside", 0);
    assert_eq!(result["ended"], "complete");
    let records = result["records"].as_array().expect("records");
    assert_eq!(records.len(), 4);
    for record in records {
        assert!(record["cell"]["void"].is_null(), "{}", record["cell"]);
    }
    let said = &report.step("host_beside").stdout;
    contains(said, &["\nENDED\n"]);
    let number = |name: &str| -> u64 {
        let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name}: {said}"))
    };
    let (passes, served) = (number("passes"), number("served"));
    assert!(passes >= 1 && served >= passes * (8 << 20), "{said}");
    assert!(number("fetched") >= served, "{said}");
    assert_eq!(number("later"), 0, "the companion reads on");
}

/// Both values were there while their cells were measured, and before and after it is what it was.
fn ahead(report: &GuestReport) {
    let result = result(report, "host_ahead", 0);
    assert_eq!(result["ended"], "complete");
    let records = result["records"].as_array().expect("records");
    for record in records {
        assert!(record["cell"]["void"].is_null(), "{}", record["cell"]);
        let knob = &record["cell"]["knobs"][0];
        assert_eq!(knob["knob"], "bdi.read_ahead_kb");
        assert_eq!((&knob["before"], &knob["after"]), (&knob["asked"], &knob["asked"]));
    }
    assert_eq!(records.len(), 2);
    let said = &report.step("host_ahead").stdout;
    contains(said, &["before 128\n", "seen 64 1024\n", "after 128\n", "restored 128\n"]);
    assert!(said.contains("killed 64\n") || said.contains("killed 1024\n"), "{said}");
}

fn measured(report: &GuestReport) {
    let before = look(report, "host_unmeasured");
    before.lacks(&["rotational-flag-wrong", "dirty-limits"]);
    contains(
        &before.result["needs_measurement"].to_string(),
        &["rotational-flag-wrong", "fathom quick /run/near"],
    );
    let after = look(report, "host_measured");
    after.has(&["rotational-flag-wrong /dev/ubda", "dirty-limits /run/near"]);
    assert_eq!(after.defect("dirty-limits")["gravity"], "high");
    assert!(!after.result["needs_measurement"].to_string().contains("/run/near"));
}
