#!/usr/bin/env bash
# Runs the MCP conformance suite, pinned, against the client and the server of this checkout.
#
#   tests/conformance.sh [client|server] [SCENARIO]      both, and all that the revisions require, unless named
#
# The suite and a Node that is new enough for it come from the npm registry, once, into $PINION_CONFORMANCE (by default
# ~/.cache/pinion-conformance); exits with 3 if they are not to be had. Fails if a scenario fails that is not in
# tests/conformance/REVISION.yml, or passes although it is. Honours CARGO_TARGET_DIR and PINION_GUESTS.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=0.2.0-alpha.12
node=24.21.0
revisions=(2026-07-28 2025-11-25)
role=${1:-both} scenario=${2:-}
case $role in client | server | both) ;; *) sed -n '2,9p' "$0" >&2; exit 2 ;; esac
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export PINION_GUESTS=${PINION_GUESTS:-$CARGO_TARGET_DIR/guests/components}
export PINION_DIST=${PINION_DIST:-$PINION_GUESTS/builtin}
built=$CARGO_TARGET_DIR/release

home=${PINION_CONFORMANCE:-$HOME/.cache/pinion-conformance}
if [ "$(cat "$home/.version" 2> /dev/null)" != "$suite/$node" ]; then
  command -v npm > /dev/null || { echo 'error: npm is missing, which brings the suite' >&2; exit 3; }
  mkdir -p "$home"
  (cd "$home" && { [ -f package.json ] || npm init -y > /dev/null; } &&
    npm install --no-audit --no-fund --silent "node@$node" "@modelcontextprotocol/conformance@$suite" >&2) || exit 3
  echo "$suite/$node" > "$home/.version"
fi
work=$(mktemp -d)
started=()
finish() {
  for process in "${started[@]}"; do kill "$process" 2> /dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

conformance() {
  "$home/node_modules/.bin/node" "$home/node_modules/@modelcontextprotocol/conformance/dist/index.js" "$@" 2>&1 < /dev/null
}

# run REVISION client|server ARGUMENT...: runs all scenarios, those that the revision does not score included.
run() {
  local revision=$1 role=$2 name status=0
  shift 2
  printf '\n== %s, %s\n' "$role" "$revision"
  if [ -n "$scenario" ]; then
    # A scenario that is not of this revision is run all the same.
    conformance "$role" "$@" --spec-version "$revision" --force --output-dir "$work/results" --scenario "$scenario"
    return
  fi
  rm -rf "$work/results"
  # Its status tells less than its summary.
  conformance "$role" "$@" --requirements "$revision" --output-dir "$work/results" > "$work/log" || true
  sed -n '/SUMMARY ===$/,$p' "$work/log" > "$work/summary"
  cat "$work/summary"
  if ! grep -q '^Total: [0-9]' "$work/summary"; then tail -n 60 "$work/log"; return 1; fi
  sed -n 's/^✗ \([^:]*\):.*/\1/p' "$work/summary" | sort > "$work/failed"
  awk -v role="$role:" '/^[a-z]+:/ { section = $1 } section == role && $1 == "-" { print $2 }' \
    "tests/conformance/$revision.yml" | sort > "$work/expected"
  while read -r name; do
    cat "$work/results/"*"$name"-[0-9]*/{checks.json,stderr.txt} 2> /dev/null || true
    echo "error: \`$name\` fails" >&2
    status=1
  done < <(comm -13 "$work/expected" "$work/failed")
  while read -r name; do
    echo "error: \`$name\` passes, or does not run: remove it from tests/conformance/$revision.yml" >&2
    status=1
  done < <(comm -23 "$work/expected" "$work/failed")
  return $status
}

# Waits for the first line of a file.
first_line() {
  for _ in $(seq 600); do
    if [ -s "$1" ]; then sed -n 1p "$1"; return; fi
    sleep 0.1
  done
  echo "error: nothing in $1" >&2
  return 1
}

if [ "$role" != server ]; then
  cargo --config tests/profile.toml build --workspace --release --locked --example conformance_client
  for revision in "${revisions[@]}"; do
    run "$revision" client --command "$built/examples/conformance_client"
  done
fi

if [ "$role" != client ]; then
  [ -f "$PINION_GUESTS/conformant.wasm" ] || tests/build-guests.sh
  cargo --config tests/profile.toml build --workspace --release --locked --bin pinion --bin pinion-sandbox
  mkdir -m 700 "$work/home"
  printf '[plugins.conformant.grants]\nui = true\nmodel = true\n' > "$work/home/config.toml"
  token=conformance-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  "$home/node_modules/.bin/node" tests/conformance/proxy.mjs "$work/target" "$token" > "$work/proxy" &
  started+=($!)
  port=$(first_line "$work/proxy")
  HOME=$work/home PINION_HOME=$work/home PINION_MCP_TOKEN=$token "$built/pinion" mcp serve --http 127.0.0.1:0 \
    --allow-origin "http://localhost:$port" --allow-origin "http://127.0.0.1:$port" \
    --no-plugins --no-builtin-plugins --plugin "$PINION_GUESTS/conformant.wasm" --approve all 2> "$work/serving" &
  started+=($!)
  first_line "$work/serving" | sed 's/^serving MCP on //' > "$work/target"
  for revision in "${revisions[@]}"; do
    run "$revision" server --url "http://127.0.0.1:$port/mcp"
  done
fi
