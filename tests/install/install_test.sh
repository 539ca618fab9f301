#!/usr/bin/env bash
# install_test.sh CMAKE BUILD_FOLDER WORK_FOLDER CXX CC
set -euo pipefail
cmake=$1 build=$2 work=$3 cxx=$4 cc=$5
here=$(cd "$(dirname "$0")" && pwd)
model=/usr/share/libonnx-testdata/data/node/test_relu/model.onnx
expected="60 elements: 0 0 1 2"

rm -rf "$work"
mkdir -p "$work"
"$cmake" --install "$build" --prefix "$work/prefix" >"$work/install.log"
lib=$(dirname "$(find "$work/prefix" -name libtessera.so)")

fail() {
  echo "FAILED: $*"
  exit 1
}

echo "-- what is installed"
for path in bin/tessera libexec/tessera/tessera-service include/tessera/tessera.h share/tessera/arch/tessera128.toml \
  share/man/man1/tessera.1 share/man/man1/tessera-run.1 share/bash-completion/completions/tessera \
  share/zsh/site-functions/_tessera share/fish/vendor_completions.d/tessera.fish; do
  [ -f "$work/prefix/$path" ] || fail "$path is missing"
done
[ -z "$(find "$work/prefix" -name '*.a')" ] || fail "a folder library was installed"
[ ! -e "$work/prefix/share/doc/libtessera0" ] || fail "what is for Debian packages alone was installed"

echo "-- each public header stands alone"
for header in "$work"/prefix/include/tessera/*.h; do
  name=tessera/$(basename "$header")
  echo "#include <$name>" >"$work/alone.cc"
  "$cxx" -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$work/prefix/include" \
    "$work/alone.cc" || fail "$name does not stand alone"
done
echo "#include <tessera/tessera_c.h>" >"$work/alone.c"
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$work/prefix/include" \
  "$work/alone.c" || fail "tessera/tessera_c.h is not C"

echo "-- the library shows its own names only"
if nm -DC --defined-only "$lib/libtessera.so" | grep -E ' [TW] (fmt|spdlog|google|nlohmann)::'; then
  fail "names of other libraries are visible"
fi

echo "-- a consumer with find_package"
"$cmake" -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" >"$work/consumer.log" || fail "find_package(Tessera)"
"$cmake" --build "$work/consumer" >>"$work/consumer.log" || fail "building the consumer"
found=$("$work/consumer/consumer" "$model")
[ "$found" = "$expected" ] || fail "the consumer printed '$found', expected '$expected'"
found=$("$work/consumer/consumer_in_c" "$model")
[ "$found" = "$expected" ] || fail "the consumer in C printed '$found', expected '$expected'"

echo "-- a consumer with pkg-config"
export PKG_CONFIG_PATH=$lib/pkgconfig
# shellcheck disable=SC2046
"$cxx" -std=c++20 $(pkg-config --cflags tessera) "$here/consumer/consumer.cc" \
  -o "$work/with_pkg_config" $(pkg-config --libs tessera) || fail "building with pkg-config"
found=$(LD_LIBRARY_PATH=$lib "$work/with_pkg_config" "$model")
[ "$found" = "$expected" ] || fail "the consumer printed '$found', expected '$expected'"
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags tessera) \
  "$here/consumer/consumer.c" -o "$work/c_with_pkg_config" $(pkg-config --libs tessera) ||
  fail "building the consumer in C with pkg-config"
found=$(LD_LIBRARY_PATH=$lib "$work/c_with_pkg_config" "$model")
[ "$found" = "$expected" ] || fail "the consumer in C printed '$found', expected '$expected'"

echo "-- the installed command"
"$work/prefix/bin/tessera" --help >"$work/help.txt" || fail "tessera --help"
grep -q run "$work/help.txt" || fail "tessera --help names no verb 'run'"
[ -z "$(readelf -d "$work/prefix/bin/tessera" | grep -i grpc || true)" ] || fail "every call loads gRPC"
found=$("$work/prefix/bin/tessera" serve --model-repository "$work/none" 2>&1 || true)
grep -q "tessera serve: .*$work/none" <<<"$found" || fail "tessera-service is not found where it is installed: $found"
