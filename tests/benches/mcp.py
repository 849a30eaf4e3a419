#!/usr/bin/env python3
"""Compares a plugin with an MCP server over stdio, in the same language, on the same task and machine, in one run.

    tests/benches/mcp.py [--pinion PATH] [--calls N] [--languages rust,js,python,go,c] [--server go=PATH] [--keep DIR]

Needs cargo with the target wasm32-wasip2 for Rust, npm for JavaScript, and the registries of packages. The toolchains for
plugins come from `plugins/setup-languages.sh` (`--all` for Go and C), the MCP SDKs from their registries, into a temporary
directory. There is no MCP SDK for C. Where no module proxy can be reached, `--server` names a server in Go that was built
elsewhere.

The task is the one of `pinion plugin new`: count the words of a file of 1 KB. Columns, in milliseconds:

  compiled   first call of a plugin whose component was never compiled on this machine
  first      from starting the runtime, or the server, to the first result; the component was compiled before
  warm       p50 and p95 of later calls, from the arguments to the result. A plugin has an instance of its own for each
             call (`call`), an earlier one where that is idle (`reused`), or one that stays (`session`), like a server. A
             star marks the lifetime of `pinion plugin new`
  faster     the server's p50 divided by the p50 of the starred lifetime

Exits with 1 if a plugin is slower than the server when both are warm, which is meant for an optimised build on a machine with
nothing else to do.

Times of a server are measured with raw reads and writes on its pipes, without encoding or decoding JSON in the client.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = "lorem ipsum dolor sit amet " * 37

JS = """
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { readFileSync } from "node:fs";
import { z } from "zod";
const server = new McpServer({ name: "count", version: "0.1.0" });
server.registerTool(
  "count",
  { description: "Counts the words of a file.", inputSchema: { path: z.string() } },
  async ({ path }) => {
    const words = readFileSync(path, "utf8").replaceAll("\\n", " ").split(" ").filter(Boolean);
    return { content: [{ type: "text", text: `${words.length} words` }] };
  },
);
await server.connect(new StdioServerTransport());
"""

PYTHON = """
from pathlib import Path
from mcp.server.mcpserver import MCPServer
server = MCPServer("count")
@server.tool()
def count(path: str) -> str:
    "Counts the words of a file."
    return f"{len(Path(path).read_text().split())} words"
server.run("stdio")
"""

RUST_MANIFEST = """
[package]
name = "count"
version = "0.1.0"
edition = "2024"
[dependencies]
rmcp = { version = "3", features = ["server", "transport-io", "macros", "schemars"] }
schemars = "1"
serde = { version = "1", features = ["derive"] }
tokio = { version = "1", features = ["rt", "macros", "io-std"] }
[workspace]
"""

RUST = """
use rmcp::{ServerHandler, ServiceExt, handler::server::wrapper::Parameters, tool, tool_handler, tool_router};
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Input { path: String }
#[derive(Clone)]
struct Count;
#[tool_router]
impl Count {
    #[tool(description = "Counts the words of a file.")]
    fn count(&self, Parameters(Input { path }): Parameters<Input>) -> Result<String, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        Ok(format!("{} words", text.split_whitespace().count()))
    }
}
#[tool_handler]
impl ServerHandler for Count {}
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Count.serve(rmcp::transport::stdio()).await?.waiting().await?;
    Ok(())
}
"""

GO_MODULE = """
module count
go 1.24
require github.com/modelcontextprotocol/go-sdk v1.0.0
"""

GO = """
package main
import (
	"context"
	"fmt"
	"os"
	"strings"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)
type Input struct { Path string `json:"path"` }
func count(_ context.Context, _ *mcp.CallToolRequest, in Input) (*mcp.CallToolResult, any, error) {
	text, err := os.ReadFile(in.Path)
	if err != nil { return nil, nil, err }
	said := fmt.Sprintf("%d words", len(strings.Fields(string(text))))
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil, nil
}
func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "count", Version: "0.1.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "count", Description: "Counts the words of a file."}, count)
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil { panic(err) }
}
"""


class Unavailable(Exception):
    """A part that cannot be had on this machine."""


def run(command, directory, env=None, seconds=1800):
    ended = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=seconds)
    if ended.returncode:
        lines = (ended.stderr or ended.stdout).strip().splitlines()[-3:]
        raise Unavailable(f"`{' '.join(map(str, command[:3]))}` failed: {' '.join(lines)}")
    return ended.stdout


def server_js(directory):
    run(["npm", "init", "-y"], directory)
    run(["npm", "install", "--silent", "@modelcontextprotocol/sdk"], directory)
    (directory / "server.mjs").write_text(JS)
    return ["node", str(directory / "server.mjs")]


def server_python(directory):
    run([sys.executable, "-m", "venv", "venv"], directory)
    run(["venv/bin/pip", "install", "-q", "mcp>=2"], directory)
    (directory / "server.py").write_text(PYTHON)
    return [str(directory / "venv/bin/python"), str(directory / "server.py")]


def server_rust(directory):
    (directory / "src").mkdir()
    (directory / "Cargo.toml").write_text(RUST_MANIFEST)
    (directory / "src/main.rs").write_text(RUST)
    env = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    run(["cargo", "build", "--release", "--quiet"], directory, env)
    return [str(directory / "target/release/count")]


def server_go(directory):
    (directory / "go.mod").write_text(GO_MODULE)
    (directory / "main.go").write_text(GO)
    run(["go", "mod", "tidy"], directory, seconds=120)
    run(["go", "build", "-o", "count", "."], directory)
    return [str(directory / "count")]


def server_c(_):
    raise Unavailable("no MCP SDK for C")


LIFETIMES = ("call", "reused", "session")
SERVERS = {"rust": server_rust, "js": server_js, "python": server_python, "go": server_go, "c": server_c}


def percentile(samples, percent):
    samples = sorted(samples)
    return samples[min(len(samples) - 1, len(samples) * percent // 100)]


def measure_server(command, file, calls):
    """Returns the time to the first result, and p50 and p95 of later calls, in milliseconds."""
    call = lambda number: json.dumps(
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": "count", "arguments": {"path": str(file)}},
        }
    ).encode() + b"\n"
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}}
    messages = [
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).encode() + b"\n",
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode() + b"\n",
    ]
    requests = [call(number) for number in range(1, calls + 2)]
    begun = time.perf_counter()
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
    try:
        out = open(server.stdout.fileno(), "rb", buffering=65536, closefd=False)
        server.stdin.write(messages[0])
        out.readline()
        server.stdin.write(messages[1])
        samples = []
        for number, request in enumerate(requests):
            sent = time.perf_counter()
            server.stdin.write(request)
            line = out.readline()
            got = time.perf_counter()
            samples.append(1e3 * (got - (begun if number == 0 else sent)))
            if b"185 words" not in line:
                raise Unavailable(f"the server answered {line[:200]!r}")
    finally:
        server.kill()
        server.wait()
    return samples[0], percentile(samples[1:], 50), percentile(samples[1:], 95)


def measure_plugin(pinion, language, directory, path, file, calls):
    """Builds the plugin of the template; returns the times of its first calls, p50 and p95 by lifetime, and its own lifetime."""
    env = dict(os.environ, PINION_HOME=str(directory / "home"), PATH=path)
    if language == "rust":
        env.pop("CARGO_TARGET_DIR", None)
    run([pinion, "plugin", "new", "count", "--lang", language], directory, env)
    project = directory / "count"
    component = run([pinion, "plugin", "build", "--json"], project, env)
    component = json.loads(component).get("file") or json.loads(component)["component"]
    component = str((project / component).resolve())
    own = json.loads(run([pinion, "plugin", "check", component, "--json"], project, env))["lifetime"]
    # Starters differ in their lifetime, so all are packed.
    packed = {}
    for lifetime in LIFETIMES:
        packed[lifetime] = str(directory / f"{lifetime}.wasm")
        pack = [pinion, "plugin", "pack", component, "--name", "count", "--ask", "files=read", "--lifetime", lifetime]
        run([*pack, "-o", packed[lifetime]], directory, env)
    shutil.copy(file, directory / "words.txt")
    bench = [pinion, "plugin", "bench", packed["call"], "count", '{"path": "words.txt"}', "--grant", "files=read"]
    bench += ["--calls", str(calls), "--json"]
    first = lambda report: (report["load_us"] + report["first"]["time_us"]) / 1e3
    shutil.rmtree(directory / "home", ignore_errors=True)
    cold = json.loads(run(bench, directory, env))
    # The second start finds the compiled code; the third one is not the first to read its pages.
    run(bench, directory, env)
    warm = {"call": json.loads(run(bench, directory, env))}
    for lifetime in LIFETIMES[1:]:
        bench[3] = packed[lifetime]
        run(bench, directory, env)
        warm[lifetime] = json.loads(run(bench, directory, env))
    times = {name: (report["p50"]["time_us"] / 1e3, report["p95"]["time_us"] / 1e3) for name, report in warm.items()}
    return first(cold), first(warm["call"]), times, own


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pinion", default=str(ROOT / "target/release/pinion"))
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--languages", default="rust,c,go,js,python")
    parser.add_argument("--server", action="append", default=[], metavar="LANGUAGE=COMMAND", help="a server that is built")
    parser.add_argument("--keep", help="directory that is kept, instead of a temporary one")
    arguments = parser.parse_args()
    languages = arguments.languages.split(",")
    everything = ["--all"] if {"go", "c"} & set(languages) else []
    tools = subprocess.run([str(ROOT / "plugins/setup-languages.sh"), *everything], capture_output=True, text=True)
    path = os.pathsep.join([tools.stdout.strip(), os.environ["PATH"]])
    os.environ["PATH"] = path
    base = pathlib.Path(arguments.keep or tempfile.mkdtemp(prefix="pinion-mcp-"))
    file = base / "file.txt"
    base.mkdir(parents=True, exist_ok=True)
    file.write_text(WORDS)
    # Everything is built before anything is measured.
    built, missing, slower = {}, [], []
    for server in arguments.server:
        language, command = server.split("=", 1)
        built[language] = command.split()
    for language in set(languages) - set(built):
        directory = base / f"server-{language}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        try:
            built[language] = SERVERS[language](directory)
        except (Unavailable, subprocess.TimeoutExpired, FileNotFoundError) as error:
            missing.append(f"{language}, server: {error}")
    print("| language | plugin: compiled | first | warm, call | reused | session | server: first | warm | faster |")
    print("|---|---|---|---|---|---|---|---|---|")
    pair = lambda times: f"{times[0]:.3f}, {times[1]:.3f}"
    for language in languages:
        ours, theirs, ratio, measured = ["-"] * 5, ["-"] * 2, "-", None
        directory = base / f"plugin-{language}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        try:
            measured = measure_plugin(arguments.pinion, language, directory, path, file, arguments.calls)
            cold, first, warm, own = measured
            ours = [f"{cold:.0f}", f"{first:.1f}", *(pair(warm[name]) + "*" * (name == own) for name in LIFETIMES)]
        except (Unavailable, subprocess.TimeoutExpired, FileNotFoundError) as error:
            missing.append(f"{language}, plugin: {error}")
        if language in built:
            server = measure_server(built[language], file, arguments.calls)
            theirs = [f"{server[0]:.1f}", pair(server[1:])]
            if measured:
                ratio = f"{server[1] / warm[own][0]:.1f}"
                if server[1] < warm[own][0]:
                    slower.append(language)
        print("| " + " | ".join([language, *ours, *theirs, ratio]) + " |", flush=True)
    for line in missing:
        print(line)
    if not arguments.keep:
        shutil.rmtree(base, ignore_errors=True)
    if slower:
        sys.exit(f"missed: the server is faster in {', '.join(slower)}")


main()
