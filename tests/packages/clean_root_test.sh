#!/usr/bin/env bash
# The packages installed with dpkg, and the wheel with pip, in a system of their own: an overlay over this
# one, in name spaces of the test. Nothing that is done there lasts, and source tree and build are not there.
#
#   clean_root_test.sh PACKAGES_FOLDER SOURCE_FOLDER BUILD_FOLDER
# Needs root's rights, or sudo without a password. Status 77 (skipped) where it gets no such name spaces.
set -euo pipefail

# The part that runs in the name spaces: makes the root and goes there.
inside() { # BASE PACKAGES SOURCE BUILD PYTHON
  local base=$1 packages=$2 source=$3 build=$4 root=$1/root
  mount -t tmpfs tmpfs "$base"
  mkdir "$base"/{upper,work,root}
  mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$root"
  mkdir -p "$root/packages"
  cp "$packages"/*.deb "$source"/tests/packages/use_*.sh "$root/packages"
  find "$packages" -name '*.whl' -exec cp {} "$root/packages" \;
  cp -r "$source/tests/install/consumer" "$root/packages/consumer"
  cp /usr/share/libonnx-testdata/data/node/test_relu/model.onnx "$root/packages"
  for folder in /tmp /root /run "$source" "$build"; do
    mkdir -p "$root$folder"
    mount -t tmpfs tmpfs "$root$folder"
  done
  for folder in /proc /dev /sys; do mount --rbind "$folder" "$root$folder"; done
  exec chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "$INSTALLATION" installation "$5"
}

# What someone does who has only the packages.
INSTALLATION=$(cat <<'BASH'
cd /packages
rm -f /var/lib/man-db/auto-update  # no index of all manual pages of this system
find /usr /etc | sort >/tmp/before
dpkg --install ./*.deb >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; exit 1; }
changed=$(dpkg --verify tessera libtessera0 libtessera-dev)
[ -z "$changed" ] || { echo "FAILED: files that are not the packages': $changed"; exit 1; }
./use_packages.sh /usr /packages/consumer /packages/model.onnx
dpkg --purge libtessera-dev tessera >>/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; exit 1; }
echo "-- the wheel"
for wheel in ./*.whl; do
  [ -f "$wheel" ] && ./use_wheel.sh "$1" "$wheel" /packages/model.onnx
done
dpkg --purge libtessera0 >>/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; exit 1; }
find /usr /etc | sort >/tmp/after
left=$(comm -13 /tmp/before /tmp/after | grep tessera || true)
[ -z "$left" ] || { echo "FAILED: what is left of the packages: $left"; exit 1; }
BASH
)

if [ "${1:-}" = --inside ]; then
  shift
  inside "$@"
fi
packages=$1 source=$2 build=$3
python=$(sed -n 's/^TESSERA_PYTHON:INTERNAL=//p' "$build/CMakeCache.txt")
as_root=(unshare --mount --propagation private)
[ "$(id -u)" -eq 0 ] || as_root=(sudo -n "${as_root[@]}")
base=$(mktemp -d)
trap 'rmdir "$base"' EXIT
"${as_root[@]}" bash -c "mount -t tmpfs tmpfs '$base' && mkdir '$base'/{u,w,r} &&
  mount -t overlay overlay -o 'lowerdir=/,upperdir=$base/u,workdir=$base/w' '$base/r'" 2>/dev/null || {
  echo "skipped: this system gives the test no overlay of its own"
  exit 77
}
"${as_root[@]}" "$0" --inside "$base" "$packages" "$source" "$build" "${python:-/usr/bin/python3}"
