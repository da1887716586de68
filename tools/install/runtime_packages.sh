#!/usr/bin/env bash
# runtime_packages.sh PROGRAM: prints the Debian packages of the shared libraries that the program is linked to, one on a
# line: what a machine without its headers and compilers has to install to run it.
set -euo pipefail
[ $# = 1 ] && [ -x "$1" ] || { echo "runtime_packages.sh wants one program, got '$*'" >&2; exit 2; }

# owner FILE: the package that it is of, by its path with or without /usr, which are one folder.
owner() {
  local path=${1#/usr}
  dpkg-query -S "/usr$path" 2>/dev/null || dpkg-query -S "$path" 2>/dev/null ||
    { echo "no package has $1, which $program is linked to" >&2; return 1; }
}

program=$1
needed=$(objdump -p "$program" | awk '$1 == "NEEDED" { print $2 }')
places=$(ldd "$program")
for library in $needed; do
  path=$(awk -v name="$library" '$1 == name && $2 == "=>" { print $3 } $1 ~ "/" name "$" { print $1 }' <<<"$places")
  [ -e "$path" ] || { echo "$library, which $program is linked to, is not there" >&2; exit 1; }
  owner "$path" | cut -d: -f1
done | sort -u
