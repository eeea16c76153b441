#!/usr/bin/env bash
# make-system FOLDER: a small Debian with systemd on unified cgroups, as FOLDER/disk (ext4, no partitions), and FOLDER/kernel.
# The packages come from where this host's own apt gets Debian's.
set -euo pipefail
folder=$1
packages=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,kmod,mount,e2fsprogs,procps,crun,runc,uidmap,python3,libstdc++6
# NVMe and ext4 are built into it: no initial ramdisk is needed.
kernel=linux-image-cloud-amd64

stage=$(mktemp -d)
trap 'rm -rf --one-file-system "$stage"' EXIT
root=$stage/root
export kernel stage

sources() {
  apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' | sort -u
}
[ -n "$(sources)" ] || apt-get update
# shellcheck disable=SC2016
fetch_kernel='cd "$stage" && export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG &&
  name=$(apt-cache depends "$kernel" | sed -n "s/^ *Depends: //p") && apt-get download "$name" && dpkg -x "$name"_*.deb kernel'
sources | mmdebstrap --quiet --variant=essential --include="$packages" --aptopt='APT::Install-Recommends "false"' \
  --aptopt='APT::Sandbox::User "root"' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --customize-hook="$fetch_kernel" "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" -
mv "$stage"/kernel/boot/vmlinuz-* "$folder/kernel"
cp -a "$stage"/kernel/lib/modules "$root/usr/lib/"
chroot "$root" depmod "$(ls "$root/usr/lib/modules")"

chroot "$root" useradd --create-home --home-dir /srv/tester --shell /bin/bash tester
echo guest >"$root/etc/hostname"
# With an id, and nothing newer in /usr, systemd skips what it does on a first boot.
head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$root/etc/machine-id"
touch "$root/etc/.updated" "$root/var/.updated"
cat >"$root/etc/systemd/system/guest.service" <<'END'
[Unit]
After=multi-user.target
[Service]
ExecStartPre=/bin/mount /dev/nvme1n1 /opt
ExecStart=/opt/sandglass/node_modules/.bin/node /opt/sandglass/guest/inside.mjs
ExecStopPost=/bin/systemctl poweroff --force --force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=multi-user.target
END
chroot "$root" systemctl --quiet enable guest.service
# They would only take time.
chroot "$root" systemctl --quiet mask getty@tty1.service serial-getty@ttyS0.service e2scrub_reap.service
mke2fs -q -F -t ext4 -O ^has_journal -d "$root" "$folder/disk" 4G
