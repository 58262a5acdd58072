# Process 1 of a guest. Before this, three variables are set: OUT (the only host directory that can be written), TOOLS
# (the host directory with the programs under test) and LIMIT (seconds, after which the guest powers itself off).
# The root is the host's, read-only; whatever must be writable is memory.
export PATH=/run/tools:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/run LC_ALL=C DM_DISABLE_UDEV=1

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/out /run/tools /run/lock /run/lvm /run/etc/upper /run/etc/work /run/modules/lib
mount -t hostfs -o "$OUT" hostfs /run/out
mount -t hostfs -o "ro,$TOOLS" hostfs /run/tools
echo up >/run/out/up
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp

# A guest that nobody waits for any more must not stay.
(sleep "$LIMIT" && busybox poweroff -f) >/dev/null 2>&1 &

# Modules come from the package of the guest's kernel, also those that the kernel asks for itself.
ln -s /usr/lib/uml/modules /run/modules/lib/modules
printf '#!/bin/sh\nexec /sbin/modprobe -d /run/modules "$@"\n' >/run/modules/modprobe
chmod +x /run/modules/modprobe
echo /run/modules/modprobe >/proc/sys/kernel/modprobe
load() { /run/modules/modprobe -a "$@"; }
load_with() { /run/modules/modprobe "$@"; }
# Disks appear some time after their driver was loaded.
wait_for() {
    for path; do
        for _ in {1..200}; do [ ! -e "$path" ] || continue 2; sleep 0.05; done
        echo "$path does not appear" >&2
        return 1
    done
}

# No udev runs unless a step starts it, so nobody must wait for it; and when it runs, it must not take the disks of
# tests for arrays and volume groups of the machine.
load overlay
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
CONF
ln -sf /dev/null /etc/udev/rules.d/64-md-raid-assembly.rules
ln -sf /dev/null /etc/udev/rules.d/69-lvm.rules

cd /run
[ ! -f /run/out/prelude ] || . /run/out/prelude
for step in /run/out/steps/*; do
    (set -e; . "$step") >"/run/out/results/${step##*/}.out" 2>"/run/out/results/${step##*/}.err" </dev/null
    code=$?
    echo "$code" >"/run/out/results/${step##*/}.code"
    case $step in *.must) [ "$code" = 0 ] || break ;; esac
done
echo done >/run/out/done
# A reboot would start the kernel anew for ever.
busybox poweroff -f
