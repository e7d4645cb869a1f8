#!/usr/bin/env bash
# Boots a systemd of its own as the first process of a PID namespace: boot.sh DIR CGROUP, where DIR has lib/ (the units of
# the distribution), etc/ (those of the administrator) and bin/ (what is in /usr/local/bin). Everything else of the machine
# can be seen and not be changed, but for the network and what is below DIR's parent. SIGKILL to this process ends all of it.
set -euo pipefail
dir=$1 cgroup=$2

if [ "${3:-}" != inside ]; then
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then roots=/sys/fs/cgroup/; else roots=$(echo /sys/fs/cgroup/*/); fi
  for root in $roots; do
    mkdir -p "$root$cgroup"
    # A new cpuset (v1) may run nowhere until it is told where.
    if [ "$root" != /sys/fs/cgroup/ ]; then
      for file in cpuset.cpus cpuset.mems; do
        if [ -e "$root$cgroup/$file" ]; then cat "$root$file" >"$root$cgroup/$file"; fi
      done
    fi
    echo $$ >"$root$cgroup/cgroup.procs"
  done
  exec unshare --pid --fork --kill-child --mount --uts --ipc --cgroup --mount-proc "$0" "$dir" "$cgroup" inside
fi

mount --make-rprivate /
# The root of each hierarchy is now the run's own cgroup. systemd would make the machine's read-only.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir -p "/sys/fs/cgroup/$cgroup"
else
  hierarchies=$(ls /sys/fs/cgroup)
  mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
  for name in $hierarchies; do
    mkdir "/sys/fs/cgroup/$name"
    case $name in
      systemd) mount -t cgroup -o none,name=systemd cgroup "/sys/fs/cgroup/$name" ;;
      unified) mount -t cgroup2 cgroup2 "/sys/fs/cgroup/$name" ;;
      *) mount -t cgroup -o "$name" cgroup "/sys/fs/cgroup/$name" ;;
    esac
    # The kubelet insists that its root is there before it starts.
    mkdir -p "/sys/fs/cgroup/$name/$cgroup"
    for file in cpuset.cpus cpuset.mems; do
      if [ -e "/sys/fs/cgroup/$name/$cgroup/$file" ]; then
        cat "/sys/fs/cgroup/$name/$file" >"/sys/fs/cgroup/$name/$cgroup/$file"
      fi
    done
  done
fi

# Of other runs nothing may be kept alive by a copy of their mounts.
awk '{ print $5 }' /proc/self/mountinfo | tac | while read -r point; do
  case $point in
    "$(dirname "$dir")"/*) ;;
    "$(dirname "$(dirname "$dir")")"/*) umount --lazy "$point" 2>/dev/null || true ;; # it may have gone with one before it
  esac
done

overlay() { # overlay DIR: changes of it are kept aside
  mkdir -p "$dir/overlay$1" "$dir/work$1"
  mount -t overlay -o "lowerdir=$1,upperdir=$dir/overlay$1,workdir=$dir/work$1" overlay "$1"
}
overlay /etc
overlay /var/lib
# Whatever the machine has of Berth, this one has none.
rm -rf /etc/berth /var/lib/berth
mount --bind "$dir/bin" /usr/local/bin
# Nothing of this machine's own services.
mount --bind "$dir/lib" /lib/systemd/system
mount --bind "$dir/etc" /etc/systemd/system
mount -t tmpfs tmpfs /lib/systemd/system-generators
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/systemd
# As systemd has it where it boots a machine: what is mounted later is seen by the services that have mounts of their own.
mount --make-rshared /
exec env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin container=berth-tests \
  /lib/systemd/systemd --unit=multi-user.target --log-target=console --log-level=info --show-status=no
