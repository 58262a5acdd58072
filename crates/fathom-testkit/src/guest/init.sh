# Process 1 of a guest. Before this come variables: OUT (the only host directory that can be written), TOOLS (the host
# directory with the programs under test), LIMIT (seconds, after which the guest powers itself off) and MODULES (where
# the package of its kernel has the modules), and what mount_out does in this kind of guest.
# The root is the host's, read-only; whatever must be writable is memory.
export PATH=/run/tools:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/run LC_ALL=C DM_DISABLE_UDEV=1

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/out /run/tools /run/lock /run/lvm /run/etc/upper /run/etc/work /run/modules/lib /dev/shm /dev/pts
mount_out
mount --bind "$TOOLS" /run/tools
read -r up _ </proc/uptime
echo "$up" >/run/out/up
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
[ ! -d /sys/kernel/tracing ] || mount -t tracefs tracefs /sys/kernel/tracing

# A guest that nobody waits for any more must not stay.
(sleep "$LIMIT" && busybox poweroff -f) >/dev/null 2>&1 &

# Also the modules that the kernel asks for itself.
ln -s "$MODULES" /run/modules/lib/modules
printf '#!/bin/sh\nexec /sbin/modprobe -d /run/modules "$@"\n' >/run/modules/modprobe
chmod +x /run/modules/modprobe
echo /run/modules/modprobe >/proc/sys/kernel/modprobe
load() { modprobe -d /run/modules -a "$@"; }
load_with() { modprobe -d /run/modules "$@"; }
# Disks appear some time after their driver was loaded.
wait_for() {
    for path; do
        for _ in {1..1200}; do [ ! -e "$path" ] || continue 2; sleep 0.05; done
        echo "$path does not appear" >&2
        return 1
    done
}
# The name of the NVMe disk with that serial number, when it has appeared: names vary with the order of controllers.
nvme_disk() {
    local disk serial
    for _ in {1..1200}; do
        for disk in /sys/block/nvme*; do
            # Such as nvme0c1n1: one of several paths.
            case ${disk##*/nvme} in *c*) continue ;; esac
            read -r serial 2>/dev/null <"$disk/device/serial" || continue
            [ "$serial" != "$1" ] || { echo "${disk##*/}"; return; }
        done
        sleep 0.05
    done
    echo "no NVMe disk $1 appears" >&2
    return 1
}

# No udev runs unless a step starts it, so nobody must wait for it; and when it runs, it must not take the disks of
# tests for arrays and volume groups of the machine.
mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work overlay /etc
mkdir -p /etc/lvm /etc/udev/rules.d
cat >/etc/lvm/lvmlocal.conf <<'CONF'
activation {
    udev_sync = 0
    udev_rules = 0
}
devices {
    obtain_device_list_from_udev = 0
    external_device_info_source = "none"
    use_devicesfile = 0
}
# Where the machine keeps them is closed to an ordinary user, who is root in here only.
backup {
    backup = 0
    archive = 0
}
CONF
ln -sf /dev/null /etc/udev/rules.d/64-md-raid-assembly.rules
ln -sf /dev/null /etc/udev/rules.d/69-lvm.rules

# The code of a step appears as a whole: the host may cut the power as soon as it sees it.
step_ended() { echo "$2" >"$1.new"; mv "$1.new" "$1.code"; }

cd /run
[ ! -f /run/out/prelude ] || . /run/out/prelude
for step in /run/out/steps/*; do
    result=/run/out/results/${step##*/}
    # Done before the power was cut.
    [ ! -e "$result.code" ] || continue
    case $step in *.cut)
        step_ended "$result" "0 0 0"
        # The host sees it and cuts the power; until then, whatever else runs here goes on.
        sleep "$LIMIT"
    esac
    began=$EPOCHREALTIME
    (set -e; . "$step") >"$result.out" 2>"$result.err" </dev/null
    code=$?
    step_ended "$result" "$code $began $EPOCHREALTIME"
    case $step in *.must) [ "$code" = 0 ] || break ;; esac
done
echo done >/run/out/done
# A reboot would start the kernel of User Mode Linux anew for ever.
busybox poweroff -f
