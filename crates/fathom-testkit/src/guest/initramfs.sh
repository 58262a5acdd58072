# First process of a guest of QEMU, run by the shell of busybox from memory: makes the host's directories the root and
# hands over to INIT, which the line before this sets.
while read -r module; do busybox insmod "/modules/$module"; done </modules/list
# The host's files do not change under a guest, so they may be cached.
busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro root /root
busybox mount -t devtmpfs dev /root/dev
exec busybox switch_root /root "$INIT"
