#!/usr/bin/env bash
# Builds the built-in plugins to components.
#
#   plugins/build.sh                         into plugins/dist, and records the digests of the sources there
#   plugins/build.sh --out DIR [WORKSPACE]   into DIR, optionally from another cargo workspace; records nothing
#
# GUEST_CARGO, GUEST_TARGET and GUEST_RUSTC select another toolchain than rustup's; see setup-toolchain.sh.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
case $# in
  0) out=$root/plugins/dist ;;
  2 | 3) [ "$1" = --out ] && out=$2 ;;
  *) false ;;
esac || { echo "usage: plugins/build.sh [--out DIR [WORKSPACE]]" >&2; exit 2; }
workspace=$(cd "${3:-$root/plugins}" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
"$root/plugins/setup-toolchain.sh"

cd "$root"
target=${GUEST_TARGET:-wasm32-wasip2}
build=${CARGO_TARGET_DIR:-$root/target}/guests
# A panic message names its source file; keep this machine's paths out of it.
flags="'--remap-path-prefix=$root/=', '--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src/='"
RUSTC=${GUEST_RUSTC:-${RUSTC:-rustc}} "${GUEST_CARGO:-cargo}" build --release --locked --target "$target" \
  --manifest-path "$workspace/Cargo.toml" --target-dir "$build" --config "target.$target.rustflags = [$flags]"
for manifest in "$workspace"/Cargo.toml "$workspace"/*/Cargo.toml; do
  [ -f "$manifest" ] || continue                      # A workspace of one package.
  # A workspace of its own, unless it is this one.
  [ "$manifest" = "$workspace/Cargo.toml" ] || ! grep -q '^\[workspace\]' "$manifest" || continue
  grep -q '"cdylib"' "$manifest" || continue          # A library of others.
  name=$(basename "$(dirname "$manifest")" | tr - _)
  install -m 644 "$build/$target/release/$name.wasm" "$out/$name.wasm"
done
echo "components: $out"

if [ $# -eq 0 ]; then
  (cd "$root/plugins" && PINION_UPDATE=1 cargo test --quiet --locked -p pinion-bindings)
  PINION_UPDATE=1 cargo test --quiet --release --workspace --test integration generated
  PINION_UPDATE=1 cargo test --quiet --release --workspace --test integration packages::types
fi
