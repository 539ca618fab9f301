#!/usr/bin/env bash
# Installs the Debian packages that are missing, and does nothing where none is.
#
#   scripts/install_packages.sh build            what building and testing needs
#   scripts/install_packages.sh build check      and the checks of format, rules, tidy and the API reference
#   scripts/install_packages.sh build fuzz       and the fuzz targets (clang)
#   scripts/install_packages.sh derive           what runs derived Python programs
#   scripts/install_packages.sh browser          what tests the web page and the figures for Prometheus
#   scripts/install_packages.sh package          what makes packages
#   scripts/install_packages.sh load             what loads the service for its figures
#   scripts/install_packages.sh shells           what tests the manual pages and completion
#   scripts/install_packages.sh neon             what compiles the kernels for 64-bit ARM and emulates it
#   scripts/install_packages.sh cluster          etcd and Slurm, which tests start; UCX; what bench compares it with
set -euo pipefail

build_packages=(
  ca-certificates curl
  cmake ninja-build g++ ccache pkg-config git
  libfmt-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev
  libprotobuf-dev protobuf-compiler libgrpc++-dev protobuf-compiler-grpc libonnx-dev libonnx-testdata
  libflatbuffers-dev flatbuffers-compiler libhwy-dev libpng-dev libjpeg-dev
  libssl-dev libboost-dev libgtest-dev libgmock-dev libbenchmark-dev libmpfr-dev python3
  pybind11-dev python3-dev python3-numpy python3-pip python3-setuptools python3-venv python3-wheel
  fonts-dejavu-core fonts-liberation fonts-wqy-zenhei python3-pil
)
check_packages=(clang-format-19 clang-tidy-19 doxygen)
fuzz_packages=(clang-19 libclang-rt-19-dev)
derive_packages=(python3-numpy python3-torch)
browser_packages=(chromium python3-prometheus-client)
package_packages=(binutils dpkg-dev file)
cluster_packages=(etcd-server etcd-client slurm-wlm munge libucx-dev libzmq3-dev libnng-dev)
load_packages=(hey nghttp2-client wrk)
neon_packages=(g++-12-aarch64-linux-gnu gcc-12-aarch64-linux-gnu googletest qemu-user)
shells_packages=(fish groff-base man-db mandoc zsh)

wanted=()
for group in "$@"; do
  case "$group" in
    build)
      wanted+=("${build_packages[@]}")
      # Any npm will do; an installation that did not come from Debian is left alone.
      command -v npm >/dev/null || wanted+=(npm)
      ;;
    check) wanted+=("${check_packages[@]}") ;;
    fuzz) wanted+=("${fuzz_packages[@]}") ;;
    derive) wanted+=("${derive_packages[@]}") ;;
    browser) wanted+=("${browser_packages[@]}") ;;
    package) wanted+=("${package_packages[@]}") ;;
    load) wanted+=("${load_packages[@]}") ;;
    shells) wanted+=("${shells_packages[@]}") ;;
    neon) wanted+=("${neon_packages[@]}") ;;
    cluster) wanted+=("${cluster_packages[@]}") ;;
    *)
      echo "unknown group '$group': allowed build, check, fuzz, derive, browser, package, load, shells, neon, cluster" >&2
      exit 2
      ;;
  esac
done

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "these packages are missing, and there is no sudo to install them: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
