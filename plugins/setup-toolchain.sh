#!/usr/bin/env bash
# Installs Rust's target wasm32-wasip2, which builds plugins, with rustup.
#
# Does nothing if the target is installed, or if GUEST_CARGO and GUEST_TARGET select another toolchain, whose cargo then
# runs with GUEST_RUSTC if set. Exit status 0: plugins can be built; 1: they cannot, and stderr has a hint.
set -euo pipefail
target=wasm32-wasip2
timeout=120 # Seconds; rustup needs two if it can download at all.

is_there() {
  local libraries
  libraries=$("${RUSTC:-rustc}" --print target-libdir --target "$target" 2>/dev/null) && [ -d "$libraries" ]
}

fetch() { # Without `timeout`, which macOS does not have.
  rustup target add "$target" &
  local rustup=$!
  SECONDS=0
  while kill -0 "$rustup" 2>/dev/null && [ "$SECONDS" -lt "$timeout" ]; do sleep 0.2; done
  if kill "$rustup" 2>/dev/null; then echo "error: rustup did not finish within $timeout s" >&2; fi
  wait "$rustup"
}

give_up() { # WHY
  cat >&2 <<END
error: plugins cannot be built: $1
hint: install the target with \`rustup target add $target\`, or from the source of your rustc
hint: or set GUEST_CARGO, GUEST_TARGET and, if needed, GUEST_RUSTC to another toolchain that builds components
END
  exit 1
}

cd "$(dirname "$0")"
if [ -n "${GUEST_CARGO:-}" ] && [ -n "${GUEST_TARGET:-}" ]; then
  command -v "$GUEST_CARGO" >/dev/null || give_up "command not found: \`$GUEST_CARGO\`, from GUEST_CARGO"
  exit 0
fi
if is_there; then exit 0; fi
command -v rustup >/dev/null || give_up "the target \`$target\` is not installed, and neither is rustup"
fetch || give_up "rustup cannot install the target \`$target\`"
is_there || give_up "the target \`$target\` is installed for rustup but not for \`${RUSTC:-rustc}\`"
