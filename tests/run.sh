#!/usr/bin/env bash
# Runs all checks: formatting, lints, plugins rebuilt from source, unit and integration tests against those plugins,
# and the demo from a clean clone with an empty home.
#
#   tests/run.sh
#
# The fault injection of tests/faults takes samples. PINION_LONG=1 tries every byte at which a disk can be full:
#
#   PINION_LONG=1 env --default-signal=HUP,INT,QUIT,TERM cargo test --release --locked -p pinion-tests --test integration faults
#
# So are the random schedules and histories of the loop. It tries 10,000 of each:
#
#   PINION_LONG=1 cargo test --release --locked -p pinion-agent -p pinion-orchestration --lib
#
# Keys between reports of terminals, and random bytes, are tried a million times, and histories that go to vendors 20,000 times:
#
#   PINION_LONG=1 cargo test --release --locked -p pinion-tui -p pinion-providers
#
# Random data wherever a plugin supplies some is tried for 120 s per target instead of 2 s, or for PINION_FUZZ_SECONDS:
#
#   PINION_LONG=1 cargo test --release --locked -p pinion-tests --test integration hostile::fuzz
#
# No vendor is asked without a key for that purpose, such as PINION_LIVE_ANTHROPIC_API_KEY (tests/product/live.rs).
#
# The commands of the author's guide that install toolchains run only if asked for:
#
#   PINION_LONG=1 cargo test --release --locked -p pinion-tests --test integration authors
#
# The demo and the installed command are compiled as quickly as the tests. As their users compile them, which takes ten minutes
# more:
#
#   PINION_OPTIMIZED=1 tests/run.sh
#
# Needs Rust with rustfmt and clippy; installs the target for plugins if it is missing. Honours CARGO_TARGET_DIR, and
# GUEST_CARGO, GUEST_TARGET and GUEST_RUSTC for another guest toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."
# A shell ignores Ctrl-C for programs in the background, and nohup ignores hang-ups. An ignored signal stays ignored in the
# programs that the tests start.
if [ -z "${PINION_SIGNALS_RESET:-}" ] && env --default-signal=INT true 2>/dev/null; then
  exec env --default-signal=HUP,INT,QUIT,TERM PINION_SIGNALS_RESET=1 "$PWD/tests/run.sh" "$@"
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export PINION_GUESTS=$CARGO_TARGET_DIR/guests/components

# Of the same commit from the start: cargo takes what both compile for the same, and looks for changes where it was compiled.
clone=$(tests/checkout.sh "$CARGO_TARGET_DIR/clone")

clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT

# With the seconds since the start, and the processor time in programs and in the kernel, which show where the time goes.
step() {
  # Not in a pipe or a substitution, whose shell has no children.
  times > "$clean/times"
  printf '\n== %s (%d s, processor time %s)\n' "$*" "$SECONDS" "$(tail -n 1 "$clean/times")"
}

step toolchain
plugins/setup-toolchain.sh

step 'toolchains of other languages'
# Without them, the tests of plugins in these languages check only that `pinion plugin build` reports what is missing.
if PINION_LANGUAGES_PATH=$(plugins/setup-languages.sh --all); then
  export PINION_LANGUAGES_PATH PINION_LANGUAGES_REQUIRED='js ts python go c zig'
else
  echo 'note: plugins in other languages than Rust are not built: needs npm and python3' >&2
fi

step 'terminal multiplexers'
# The tests in them pass without.
for program in tmux screen; do
  if ! command -v $program > /dev/null && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    { apt-get install -y -qq $program || { apt-get update -qq && apt-get install -y -qq $program; }; } > /dev/null 2>&1 || true
  fi
  if command -v $program > /dev/null; then export "PINION_${program^^}_REQUIRED=1"; else echo "note: $program is missing" >&2; fi
done

step formatting
cargo fmt --all --check
# cargo fmt does not see modules that a macro declares.
find host/plugin-runtime/src/capability host/session-store/src/record -name "*.rs" -exec rustfmt --edition 2024 --check {} +
(cd plugins && cargo fmt --all --check)
(cd tests/guests && cargo fmt --all --check)
(cd examples/plugins && cargo fmt --all --check)

step 'plugins and guests from source'
tests/build-guests.sh
# The command and its tests embed the plugins just built.
export PINION_DIST=$PINION_GUESTS/builtin

step lints
cargo clippy --workspace --all-targets --release --locked -- -D warnings
(cd plugins && CARGO_TARGET_DIR=$CARGO_TARGET_DIR/plugins cargo clippy --all-targets --locked -- -D warnings)
(cd examples/plugins && CARGO_TARGET_DIR=$CARGO_TARGET_DIR/plugins cargo clippy --all-targets --locked -- -D warnings)

step documentation
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --release --locked --quiet

step 'tests of the plugins'
(cd plugins && CARGO_TARGET_DIR=$CARGO_TARGET_DIR/plugins cargo test --locked --quiet)
(cd examples/plugins && CARGO_TARGET_DIR=$CARGO_TARGET_DIR/plugins cargo test --locked --quiet)

step 'the demo, from a clean clone with an empty home'
mkdir "$clean/home"
(
  cd "$clone"
  export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup} HOME=$clean/home
  unset PINION_DIST
  # The commands stay the same as in the README.
  if [ -z "${PINION_OPTIMIZED:-}" ]; then
    cargo() { command cargo --config "$clone/tests/profile.toml" "$@"; }
  fi
  cargo run --release --locked --quiet -- demo

  # With the code that the demo compiled.
  step 'the command, installed from there'
  cargo install --path host/cli --root "$clean/installed" --locked --quiet
  "$clean/installed/bin/pinion" --version
)

step tests
# The tests start the command of this build, and the helper beside it.
cargo --config tests/profile.toml build --workspace --release --locked --bin pinion --bin pinion-sandbox
run_tests() { cargo --config tests/profile.toml test --workspace --release --locked --no-fail-fast "$@" 2>&1; }
results=$clean/results
# The reasons once more, at the end, where a reader of a long log looks.
# Without stack traces, and in lines that a log keeps.
show_failures() {
  sed -n '/^---- .* stdout ----$/,/^failures:$/p' "$results" | sed '/^stack backtrace:$/,/^note: /d' | cut -c1-4000 | fold -w 900 | tail -n 200
}
if ! run_tests | tee "$results"; then
  mapfile -t failed < <(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$results" | sort -u)
  # Only a test in quarantine may depend on the load of the machine: it has to pass alone.
  quarantined=$(sed -n 's/^\([^#][^ ]*\) .*/\1/p' tests/quarantine.txt)
  for test in "${failed[@]}"; do
    grep -qxF -- "$test" <<< "$quarantined" || { show_failures; exit 1; }
  done
  if [ ${#failed[@]} -eq 0 ]; then exit 1; fi
  step "tests that failed, alone: ${failed[*]}"
  run_tests -- --exact --test-threads=1 "${failed[@]}" | tee "$results"
  for test in "${failed[@]}"; do
    grep -qxF "test $test ... ok" "$results" || { echo "error: \`$test\` did not pass alone" >&2; exit 1; }
  done
fi

step 'conformance of MCP'
status=0
tests/conformance.sh || status=$?
if [ $status = 3 ]; then
  echo 'note: the conformance suite was not run: needs npm and its registry' >&2
elif [ $status != 0 ]; then
  exit $status
fi
