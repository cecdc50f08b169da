#!/usr/bin/env bash
# The tests of control groups of kwok/bsp/local in a virtual machine whose only hierarchy is cgroup v2, for machines that mount v1:
# Debian's kernel with an initial file system of busybox, stress-ng and the test program, emulated by QEMU.
# Needs Debian's qemu-system-x86, busybox-static, stress-ng and cpio, and apt-get for the kernel.
set -euo pipefail
cache=$(readlink -f "$1") # a folder for the kernel and the file system
go=${GO:-go}
for c in qemu-system-x86_64 busybox stress-ng cpio; do
	command -v "$c" >/dev/null || { echo "$c is missing: apt-get install qemu-system-x86 busybox-static stress-ng cpio" >&2; exit 1; }
done
kernel=$cache/vmlinuz
if [ ! -e "$kernel" ]; then
	package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends:/ {print $2; exit}')
	(cd "$cache" && apt-get download -qq "$package" && dpkg-deb --fsys-tarfile "$package"_*.deb | tar -xO --wildcards './boot/vmlinuz-*' >vmlinuz.tmp && rm "$package"_*.deb)
	mv "$kernel.tmp" "$kernel"
fi

root=$(mktemp -d "$cache/root.XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,proc,sys,dev,tmp}
cp "$(command -v busybox)" "$root/bin/busybox"
stress=$(command -v stress-ng)
for f in "$stress" $(ldd "$stress" | grep -o '/[^ ]*'); do
	install -D "$f" "$root$f"
done
CGO_ENABLED=0 "$go" test -c -o "$root/bin/local.test" ./kwok/bsp/local
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin:/usr/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# A group as systemd makes them for services and users: no processes beside groups.
slice=/sys/fs/cgroup/system.slice; mkdir -p $slice/test.service
flags="-test.v -test.run Limits$|Methods$|Dead$ -test.skip affinity -test.timeout 40m"
echo "== in the root group"
local.test $flags
echo "== rc $?"
echo "== in the group of a service"
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
echo $$ >$slice/test.service/cgroup.procs
cat /proc/self/cgroup
local.test $flags
echo "== rc $?"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$cache/initramfs.gz"

timeout 3600 qemu-system-x86_64 -M q35 -m 1024 -smp 2 -accel tcg,thread=multi -nographic -no-reboot -net none \
	-kernel "$kernel" -initrd "$cache/initramfs.gz" -append "console=ttyS0 quiet panic=-1" </dev/null | stdbuf -oL tr -d '\r' | tee "$cache/log"
# Both runs passed, and each limited the CPU by version 2.
[ "$(grep -c '^== rc 0$' "$cache/log")" = 2 ] && [ "$(grep -c -e '--- PASS: TestLimits/cgroup_v2' "$cache/log")" = 2 ]
