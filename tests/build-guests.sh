#!/usr/bin/env bash
# Builds the built-in plugins and the guests of the tests from source, into one folder where the tests look for them.
#
#   tests/build-guests.sh [FOLDER]      FOLDER: $PINION_GUESTS, or target/guests/components
#
# Honours GUEST_CARGO and GUEST_TARGET (and GUEST_RUSTC), see plugins/setup-toolchain.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-${PINION_GUESTS:-target/guests/components}}
target=${GUEST_TARGET:-wasm32-wasip2}
build=${CARGO_TARGET_DIR:-$PWD/target}/guests
mkdir -p "$out/builtin"
out=$(cd "$out" && pwd)

guest_cargo() { # DIR ARGS...
  local dir=$1; shift
  (cd "$dir" && RUSTC=${GUEST_RUSTC:-${RUSTC:-rustc}} CARGO_TARGET_DIR=$build \
    "${GUEST_CARGO:-cargo}" "$@" --release --target "$target" --locked)
}
guest_cargo plugins build
for name in fs shell commands; do install -m 644 "$build/$target/release/$name.wasm" "$out/builtin/$name.wasm"; done
guest_cargo tests/guests build
for dir in tests/guests/*/; do
  name=$(basename "$dir")
  file=$build/$target/release/${name//-/_}.wasm
  [ -f "$dir/Cargo.toml" ] && install -m 644 "$file" "$out/${name//-/_}.wasm"
done
echo "guests: $out"
