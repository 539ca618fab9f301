#!/usr/bin/env bash
# Runs clang-tidy-19 with the compile commands of the release build (which has to be built).
#
#   scripts/tidy.sh --all              every source file
#   scripts/tidy.sh --changed [BASE]   those that differ from BASE (default: the commit before);
#                                      src/base and src/arch where there is no such commit; of the
#                                      vector targets that Highway compiles a source for, one (--all:
#                                      each, which takes twice as long)
set -euo pipefail
cd "$(dirname "$0")/.."

# One command line per source; what the build generates is read where the release build put it.
build=build/tidy
[ -f build/release/CMakeCache.txt ] || cmake --preset release >/dev/null
cmake --preset release -B $build -DTESSERA_UNITY=OFF >/dev/null
sed -i "s#$PWD/$build#$PWD/build/release#g" $build/compile_commands.json

# The command lines are GCC's: clang neither knows all its options nor reads its precompiled headers.
options=(--extra-arg=-Wno-unused-command-line-argument --extra-arg=-Wno-ignored-gch)
case "${1:-}" in
  --all) wanted=$(scripts/sources.sh) ;;
  --changed)
    options+=(--extra-arg=-DHWY_COMPILE_ONLY_STATIC)
    base=${2:-HEAD~1}
    if git rev-parse --quiet --verify "$base^{commit}" >/dev/null; then
      wanted=$(git diff --name-only --diff-filter=d "$base" -- '*.cc')
    else
      wanted=$(scripts/sources.sh | grep -E '^src/(base|arch)/')
    fi
    ;;
  *)
    echo "usage: scripts/tidy.sh --all | --changed [BASE]" >&2
    exit 2
    ;;
esac

# Only files that the build compiles have a command line.
files=()
while read -r file; do
  if [ -n "$file" ] && grep -q "\"file\": \"$PWD/$file\"" $build/compile_commands.json; then
    files+=("$file")
  fi
done <<<"$(grep '\.cc$' <<<"$wanted" || true)"

limit=${TESSERA_TIDY_FILES_MAX:-0}
if [ "$limit" -gt 0 ] && [ ${#files[@]} -gt "$limit" ]; then
  echo "clang-tidy: the first $limit of ${#files[@]} files; scripts/tidy.sh --all runs them all"
  files=("${files[@]:0:$limit}")
fi
echo "clang-tidy: ${#files[@]} files"
[ ${#files[@]} -eq 0 ] && exit 0
printf '%s\n' "${files[@]}" |
  xargs -n 1 -P "$(nproc)" clang-tidy-19 -p $build --quiet --warnings-as-errors='*' \
    "${options[@]}"
