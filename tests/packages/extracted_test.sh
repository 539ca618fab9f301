#!/usr/bin/env bash
# The Debian packages without installing them: their contents below a folder, used there.
#
#   extracted_test.sh PACKAGES_FOLDER WORK_FOLDER
set -euo pipefail
packages=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"

fail() {
  echo "FAILED: $*"
  exit 1
}

for package in "$packages"/*.deb; do dpkg-deb -x "$package" "$work/root"; done
echo "-- what is in them"
[ "$(find "$packages" -name '*.deb' | wc -l)" -eq 3 ] || fail "there are not three packages"
wrong=$(find "$work/root" -type f -not -perm 644 -not -path '*/bin/*' -not -path '*/libexec/*')
[ -z "$wrong" ] || fail "modes of files: $wrong"
wrong=$(find "$work/root" -type d -not -perm 755 -not -path "$work/root")
[ -z "$wrong" ] || fail "modes of folders: $wrong"
for file in "$work/root/usr/bin/tessera" "$work/root/usr/libexec/tessera/tessera-service" "$work/root/usr/lib/libtessera.so.0"; do
  sections=$(objdump -h "$file")
  [[ $sections != *.debug* && -z "$(nm "$file" 2>/dev/null)" ]] || fail "$file is not stripped"
  # Each library that is asked for by name is in a package that this one depends on.
  case $file in *.so.*) package=libtessera0 ;; *) package=tessera ;; esac
  depends=$(dpkg-deb -f "$packages"/${package}_*.deb Depends)
  for library in $(objdump -p "$file" | awk '/NEEDED/ {print $2}'); do
    path=$(ldconfig -p | awk -v name="$library" '$1 == name && !found {print $NF; found = 1}')
    # The package knows the file by one of its two names.
    owner=$({ dpkg -S "$(realpath "$path")" "$path" 2>/dev/null || true; } | awk -F: 'NR == 1 {print $1}')
    grep -q "\b$owner\b" <<<"$depends" || fail "$package does not depend on $owner, which has $library"
  done
done
for name in tessera libtessera0 libtessera-dev; do
  for file in copyright changelog.Debian.gz; do
    [ -f "$work/root/usr/share/doc/$name/$file" ] || fail "$name has no $file"
  done
done
if command -v lintian >/dev/null; then
  echo "-- lintian"
  lintian --fail-on error --allow-root "$packages"/*.deb || fail "lintian"
fi

LD_LIBRARY_PATH=$work/root/usr/lib env -u CMAKE_PREFIX_PATH "$here/use_packages.sh" "$work/root/usr" \
  "$here/../install/consumer" /usr/share/libonnx-testdata/data/node/test_relu/model.onnx
rm -rf "$work"
