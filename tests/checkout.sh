#!/usr/bin/env bash
# Makes DIR a clean checkout of the commit that is checked out here, and prints its path. In a DIR that an earlier run left,
# files that are the same keep their times, so that cargo compiles only what changed since.
#
#   tests/checkout.sh DIR
set -euo pipefail
directory=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
# Named explicitly, because git would otherwise look for a repository in the directories above.
there() { git --git-dir="$directory/.git" --work-tree="$directory" "$@"; }
# A missing or damaged repository is cloned again.
if ! { there fetch --quiet "$PWD" HEAD && there reset --quiet --hard FETCH_HEAD && there clean --quiet -ffdx; } 2> /dev/null; then
  rm -rf "$directory"
  git clone --quiet . "$directory"
fi
echo "$directory"
