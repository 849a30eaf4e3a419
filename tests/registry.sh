#!/usr/bin/env bash
# Publishes packages to a real registry, Debian's `docker-registry`, and installs, updates and removes them from there.
#
#   tests/registry.sh
#
# Also compares the artifacts with the layout that `wkg` writes, and starts the MCP server of a package. Installs
# `docker-registry` with apt if it is missing and the user is root; exits with 3 if it is not to be had. Needs curl and
# python3. Honours CARGO_TARGET_DIR, and PINION with the path of a built command.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v docker-registry > /dev/null && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  { apt-get install -y -qq docker-registry ||
    { apt-get update -qq && apt-get install -y -qq docker-registry; }; } > /dev/null 2>&1 || true
fi
for program in docker-registry curl python3; do
  command -v $program > /dev/null || { echo "note: $program is missing, so no registry is tested" >&2; exit 3; }
done
if [ -z "${PINION:-}" ]; then
  cargo build --release --locked -p pinion-cli -p pinion-sandbox --bin pinion --bin pinion-sandbox
  PINION=${CARGO_TARGET_DIR:-target}/release/pinion
fi
PINION=$(realpath "$PINION")

work=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2> /dev/null || true
  rm -rf "$work"
}
trap finish EXIT
fail() { echo "error: $*" >&2; tail -n 5 "$work/output" "$work/log" >&2 || true; exit 1; }

cat > "$work/registry.yml" << YAML
version: 0.1
storage: { filesystem: { rootdirectory: $work/registry } }
http: { addr: "127.0.0.1:0" }
YAML
docker-registry serve "$work/registry.yml" > "$work/log" 2>&1 &
server=$!
port=
for _ in $(seq 200); do
  port=$(sed -n 's/.*listening on 127\.0\.0\.1:\([0-9]*\).*/\1/p' "$work/log" | head -n 1)
  [ -z "$port" ] || break
  kill -0 "$server" 2> /dev/null || fail 'the registry did not start'
  sleep 0.1
done
[ -n "$port" ] || fail 'the registry names no port'
registry=localhost:$port

export PINION_HOME=$work/home HOME=$work
mkdir -p "$work/project"
pinion() { "$PINION" -C "$work/project" "$@"; }
# run EXPECTED-STATUS ARGUMENT...: runs the command, whose output is in $work/output.
run() {
  local expected=$1 status=0
  shift
  pinion "$@" > "$work/output" 2>&1 < /dev/null || status=$?
  [ "$status" = "$expected" ] || fail "\`pinion $*\` ended with $status instead of $expected"
}
contains() { grep -qF -- "$1" "$work/output" || fail "the output does not contain: $1"; }
publish() { pinion plugin publish "$1" --to "oci://$registry/$2" --json 2> "$work/output"; }
member() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

echo '== a component'
cp plugins/dist/greeter_one.wasm "$work/project/one.wasm"
cp plugins/dist/greeter_two.wasm "$work/project/two.wasm"
published=$(publish one.wasm acme/greeter:stable) || fail 'the component was not published'
key=$(member key <<< "$published")
first=$(member published <<< "$published")

# layout REPOSITORY TAG REFERENCE: compares an artifact with the layout of `wkg`.
layout() {
  python3 - "http://$registry/v2/$1" "$2" "$3" << 'PYTHON'
import hashlib, json, sys, urllib.request
base, tag, reference = sys.argv[1:]
def get(path):
    accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
    with urllib.request.urlopen(urllib.request.Request(f"{base}/{path}", headers=accept)) as answer:
        return answer.read(), answer.headers
text, headers = get(f"manifests/{tag}")
manifest = json.loads(text)
digest = "sha256:" + hashlib.sha256(text).hexdigest()
assert headers["Content-Type"] == manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json", headers
assert headers["Docker-Content-Digest"] == digest and reference.endswith("@" + digest), (digest, reference)
assert manifest["schemaVersion"] == 2 and len(manifest["layers"]) == 1, manifest
blobs = {}
for blob in [manifest["config"], *manifest["layers"]]:
    content, _ = get("blobs/" + blob["digest"])
    assert len(content) == blob["size"] and "sha256:" + hashlib.sha256(content).hexdigest() == blob["digest"], blob
    blobs[blob["mediaType"]] = content
layer = manifest["layers"][0]
assert manifest["annotations"]["dev.pinion.minisig"].startswith("untrusted comment:"), manifest
if layer["mediaType"] == "application/wasm":
    config = json.loads(blobs["application/vnd.wasm.config.v0+json"])
    assert set(config) == {"created", "author", "architecture", "os", "layerDigests", "component"}, config
    assert (config["architecture"], config["os"]) == ("wasm", "wasip2"), config
    assert config["created"].endswith("Z") and config["layerDigests"] == [layer["digest"]], config
    assert set(config["component"]) == {"exports", "imports", "target"}, config
    assert any(name.startswith("pinion:plugin/tools@") for name in config["component"]["exports"]), config
else:
    assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip", layer
    assert blobs["application/vnd.oci.empty.v1+json"] == b"{}" and manifest["artifactType"], manifest
print("layout:", layer["mediaType"], manifest["config"]["mediaType"])
PYTHON
}
layout acme/greeter stable "$first" || fail 'the artifact has another layout'
again=$(publish one.wasm acme/greeter:again | member published) || fail 'the component was not published again'
[ "${again#*@}" = "${first#*@}" ] || fail 'the same component became two artifacts'

run 4 plugin add "oci://$registry/acme/greeter:stable"
contains 'nothing'
run 0 plugin add "oci://$registry/acme/greeter:stable" --key "$key" --yes
contains 'installed greeter 0.1.0'
run 0 plugin update
contains 'greeter 0.1.0 is up to date'
publish two.wasm acme/greeter:stable > "$work/two" || fail 'the second version was not published'
layout acme/greeter stable "$(member published < "$work/two")" || fail 'the second artifact has another layout'
run 0 plugin update --yes
contains 'installed greeter 0.2.0'
run 4 plugin add "$first" --yes
contains 'older'
run 0 plugin verify
run 1 plugin add "oci://$registry/acme/missing:1" --yes
contains '404'
run 0 plugin remove greeter

echo '== a package with an MCP server'
mkdir -p "$work/project/kit/skills/hello" "$work/project/kit/.claude-plugin" "$work/project/kit/hooks"
echo '{"name": "kit", "version": "1.0.0"}' > "$work/project/kit/.claude-plugin/plugin.json"
printf -- '---\nname: hello\ndescription: Says hello\n---\nSay hello.\n' > "$work/project/kit/skills/hello/SKILL.md"
echo '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "touch /tmp/x"}]}]}}' \
  > "$work/project/kit/hooks/hooks.json"
cat > "$work/project/kit/.mcp.json" << 'JSON'
{"mcpServers": {
  "echo": {"command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"], "env": {"SAID": "${SAID}"}},
  "bad": {"command": "../run"}
}}
JSON
cat > "$work/project/kit/server.py" << 'PYTHON'
import json, os, pathlib, sys
def answer(request):
    method = request["method"]
    if method == "initialize":
        return {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": "said", "description": "Tells", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        root, data = pathlib.Path(os.environ["CLAUDE_PLUGIN_ROOT"]), pathlib.Path(os.environ["PLUGIN_DATA"])
        (data / "kept").write_text("kept")
        try:
            (root / "server.py").write_text("")
            state = "writable"
        except OSError:
            state = "read-only"
        return {"content": [{"type": "text", "text": f"{os.environ['SAID']} {state}"}]}
    return {}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}), flush=True)
PYTHON
export SAID=tangerine
published=$(publish kit acme/kit:1) || fail 'the package was not published'
layout acme/kit 1 "$(member published <<< "$published")" || fail 'the archive has another layout'
run 0 plugin add "oci://$registry/acme/kit:1" --key "$key" --yes
for part in 'kit:echo' 'server.py' 'reads your environment: SAID' '`bad`' 'hook Stop: command `touch /tmp/x`'; do
  contains "$part"
done
run 0 plugin info kit
contains 'kit:echo (enabled)'
run 0 mcp list
contains 'kit:echo'
run 0 mcp test kit:echo
contains 'said'
run 0 mcp call kit:echo said '{}'
contains 'tangerine read-only'
[ "$(cat "$PINION_HOME/packages/data/kit/kept")" = kept ] || fail 'the server did not keep its data'
# Another server is held back until an agreement, and the version with it.
python3 - "$work/project/kit" << 'PYTHON'
import json, pathlib, sys
kit = pathlib.Path(sys.argv[1])
servers = json.loads((kit / ".mcp.json").read_text())
servers["mcpServers"]["second"] = {"url": "https://example.com/mcp", "headers": {"X": "${HOME}"}}
(kit / ".mcp.json").write_text(json.dumps(servers))
(kit / ".claude-plugin/plugin.json").write_text('{"name": "kit", "version": "2.0.0"}')
PYTHON
publish kit acme/kit:1 > "$work/two" || fail 'the second version of the package was not published'
run 4 plugin update
contains '+ MCP server `kit:second` is new: https://example.com/mcp'
run 0 plugin info kit
contains 'kit 1.0.0'
run 0 mcp disable kit:echo
run 0 plugin update --yes
run 0 plugin info kit
contains 'kit:echo (disabled)'
contains 'kit:second (enabled)'
run 0 plugin remove kit
run 0 mcp list
! grep -q 'kit:' "$work/output" || fail 'a server of the removed package is left'
echo 'the registry works'
