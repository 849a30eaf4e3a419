#!/usr/bin/env bash
# Sets up what builds plugins: Rust's target wasm32-wasip2, by rustup.
#
# Does nothing where it is there, and where GUEST_CARGO and GUEST_TARGET name another toolchain for plugins; its cargo
# then runs with GUEST_RUSTC, where that is set. Exit status 0: plugins can be built; 1: they cannot, and stderr says
# what to do.
set -euo pipefail
target=wasm32-wasip2
patience=120 # Seconds; rustup needs two of them where it can fetch at all.

is_there() {
  local libraries
  libraries=$("${RUSTC:-rustc}" --print target-libdir --target "$target" 2>/dev/null) && [ -d "$libraries" ]
}

fetch() { # Without `timeout`, which macOS does not have.
  rustup target add "$target" &
  local rustup=$!
  SECONDS=0
  while kill -0 "$rustup" 2>/dev/null && [ "$SECONDS" -lt "$patience" ]; do sleep 0.2; done
  if kill "$rustup" 2>/dev/null; then echo "error: rustup did not end within $patience s" >&2; fi
  wait "$rustup"
}

give_up() { # WHY
  cat >&2 <<END
error: plugins cannot be built: $1
hint: install the target: \`rustup target add $target\`, or from where your rustc comes from
hint: or name another toolchain that builds components: set GUEST_CARGO, GUEST_TARGET and, if it needs one, GUEST_RUSTC
END
  exit 1
}

cd "$(dirname "$0")"
if [ -n "${GUEST_CARGO:-}" ] && [ -n "${GUEST_TARGET:-}" ]; then
  command -v "$GUEST_CARGO" >/dev/null || give_up "there is no \`$GUEST_CARGO\`, which GUEST_CARGO names"
  exit 0
fi
if is_there; then exit 0; fi
command -v rustup >/dev/null || give_up "the target \`$target\` is not installed, and there is no rustup to install it"
fetch || give_up "rustup cannot install the target \`$target\`"
is_there || give_up "the target \`$target\` is not installed for \`${RUSTC:-rustc}\`, though it is for rustup"
