#!/usr/bin/env bash
# Uses what the packages installed below PREFIX, and nothing of the build: the command, its manual
# pages and completion, and the library from a CMake project and by pkg-config.
#
#   use_packages.sh PREFIX CONSUMER_PROJECT MODEL      MODEL: 60 elements through a Relu
set -euo pipefail
prefix=$1 consumer=$2 model=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
expected="60 elements: 0 0 1 2"
export PATH=$prefix/bin:$PATH MANPATH=$prefix/share/man
export CMAKE_PREFIX_PATH=$prefix PKG_CONFIG_PATH=$prefix/lib/pkgconfig

fail() {
  echo "FAILED: $*"
  exit 1
}
equal() { # WHAT FOUND EXPECTED
  [ "$2" = "$3" ] || fail "$1 is '$2', expected '$3'"
}

echo "-- the command"
equal "the command's place" "$(command -v tessera)" "$prefix/bin/tessera"
version=$(tessera --version)
tessera doctor >doctor.txt || fail "tessera doctor: $(cat doctor.txt)"
tessera zoo mobilenet_v1 -o model.onnx >/dev/null
tessera compile model.onnx -o model.tpkg >/dev/null
tessera link model.tpkg -o model.tprog >/dev/null
tessera run model.tprog --device host --input random:7 --output outputs >run.txt
[ -s "$(find outputs -name '*.npy')" ] || fail "tessera run wrote no output"
tessera run model.tprog --timing-only >run.txt
grep -q ' cycles, ' run.txt || fail "tessera run printed no cycles"
tessera compare "$model" >/dev/null || fail "sim and host differ"
tessera run "$model" --arch "$prefix/share/tessera/arch/edge.toml" >/dev/null || fail "an architecture file"

echo "-- its manual pages and completion"
for page in tessera tessera-run tessera-doctor; do
  man -w "$page" >/dev/null || fail "there is no manual page $page"
done
bash -c "source '$prefix/share/bash-completion/completions/tessera'
         COMP_WORDS=(tessera zo) COMP_CWORD=1; _tessera; [ \"\${COMPREPLY[*]}\" = zoo ]" || fail "completion"

echo "-- a project with find_package"
cmake -S "$consumer" -B consumer >cmake.log || fail "find_package: $(cat cmake.log)"
cmake --build consumer >>cmake.log || fail "building the project: $(cat cmake.log)"
equal "what the project's program prints" "$(consumer/consumer "$model")" "$expected"
equal "what its program in C prints" "$(consumer/consumer_in_c "$model")" "$expected"

echo "-- a program with pkg-config"
equal "the version for pkg-config" "$(pkg-config --modversion tessera)" "$version"
# shellcheck disable=SC2046
g++ -std=c++20 $(pkg-config --cflags tessera) "$consumer/consumer.cc" -o program $(pkg-config --libs tessera)
equal "what it prints" "$(./program "$model")" "$expected"
