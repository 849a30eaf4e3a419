#!/usr/bin/env bash
# Builds the built-in plugins, the test guests and the examples in Rust into the directory where the tests look for them.
#
#   tests/build-guests.sh [DIR]      DIR: $PINION_GUESTS, or target/guests/components
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-${PINION_GUESTS:-target/guests/components}}
plugins/build.sh --out "$out" tests/guests
plugins/build.sh --out "$out/examples" examples/plugins
plugins/build.sh --out "$out/examples" examples/plugins/repeated-lines
plugins/build.sh --out "$out/examples" examples/plugins/personal-data
plugins/build.sh --out "$out/builtin"
