#!/bin/sh
# run_names.sh PROGRAM ARGUMENTS...: the program, given a name that a terminal would obey as its file
# and as an option, fails and prints the name with nothing but signs and line ends.
set -u
program=$1
shift
name=$(printf '\033]0;evil\007\033[2J\342\200\256\302\233\377')
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf 'RIFF' > "$folder/$name.png"
cp "$folder/$name.png" "$folder/$name.wav"

expect_visible() {
  if "$program" "$@" > "$folder/printed" 2>&1; then
    echo "it ends well"
    exit 1
  fi
  if [ "$(LC_ALL=C tr -d '\n[:print:]' < "$folder/printed" | wc -c)" -ne 0 ] ||
     ! grep -qF 'x1b]0;evil\x07\x1b[2J\u{202e}\u{9b}\xff' "$folder/printed"; then
    cat -v "$folder/printed"
    exit 1
  fi
}

expect_visible "none$name" "$@"
expect_visible "$folder/$name.png" "$@"
expect_visible "$folder/$name.wav" "$@"
expect_visible "none" "$@" "--$name"
