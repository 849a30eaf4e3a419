//! Faults of plugins in every language as their authors see them: a failure shows the message and the function that
//! failed, and a limit shows the wanted amount and the line of the config that raises it.
//!
//! Each project comes from `pinion plugin new`, with a helper function that fails. Compilers merge small functions into
//! their callers, so the helpers are marked.

use super::authors::{author, is_there, run};
use super::guide::failures_have_content;
use pinion_tests::{Ended, Pinion};
use serde_json::{Value, json};
use std::fs;

/// Replaces a line of a project's source. The line must be there once.
type Change = (&'static str, &'static str);

/// A built plugin.
struct Plugin {
    pinion: Pinion,
    file: String,
}

impl Plugin {
    /// Creates, changes and builds a project; `None` if there is no toolchain.
    fn build(language: &str, source: &str, changes: &[Change]) -> Option<Self> {
        Self::importing(&[], language, source, changes)
    }

    /// The same, of a project whose world imports these interfaces as well.
    fn importing(interfaces: &[&str], language: &str, source: &str, changes: &[Change]) -> Option<Self> {
        if !is_there(language) {
            return None;
        }
        let pinion = author();
        assert_eq!(run(&pinion, ["plugin", "new", "word-count", "--lang", language]).code, Some(0));
        let source = format!("word-count/{source}");
        let mut code = fs::read_to_string(pinion.workspace().join(&source)).unwrap();
        for (from, to) in changes {
            assert_eq!(code.matches(from).count(), 1, "{source}: {from}");
            code = code.replace(from, to);
        }
        pinion.write(&source, code);
        // A project in Rust has no separate world.
        for interface in interfaces {
            let world = "word-count/wit/world.wit";
            let text = fs::read_to_string(pinion.workspace().join(world)).unwrap();
            let export = "  export pinion:plugin/tools";
            pinion.write(world, text.replace(export, &format!("  import {interface};\n{export}")));
        }
        let built = run(&pinion, ["plugin", "build", "word-count", "--json"]);
        let report: Value = serde_json::from_str(&built.stdout).unwrap_or_else(|_| panic!("{built:?}"));
        let file = report["file"].as_str().unwrap_or_else(|| panic!("{built:?}")).to_owned();
        Some(Self { pinion, file })
    }

    /// Calls the tool, which fails in the way that the path names.
    fn failure(&self, path: &str) -> Ended {
        let input = json!({ "path": path }).to_string();
        let ended = run(&self.pinion, ["plugin", "call", &self.file, "word_count", &input, "--grant", "files=read"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended
    }

    /// Asserts that a trap shows its message, and these functions first.
    fn assert_trap_names(&self, message: &str, functions: &[&str]) {
        let trapped = self.failure("trap").stderr;
        assert!(trapped.contains("plugin `word-count` trapped: ") && trapped.contains(message), "{trapped}");
        let shown = trapped.lines().filter_map(|line| line.trim_start().strip_prefix("in "));
        assert_eq!(shown.take(functions.len()).collect::<Vec<_>>(), functions, "{trapped}");
        assert!(!trapped.contains("RUST_BACKTRACE"), "{trapped}");
    }

    /// Asserts that an exception is an error with this message, and that the log names the function.
    fn assert_exception_names(&self, message: &str, function: &str) {
        let failed = self.failure("trap").stderr;
        assert!(failed.contains(&format!("error: `word_count`: {message}\n")), "{failed}");
        let is_logged = |line: &str| line.starts_with("! plugin `word-count`: ") && line.contains(function);
        assert!(failed.lines().any(is_logged), "{failed}");
    }

    /// Asserts that a call that allocates 300 MiB at once names the limit, and that one that fails otherwise does not.
    fn assert_memory_limit_is_named(&self) {
        self.assert_limit_is_named("memory");
        assert!(!self.failure("missing").stderr.contains("out of memory"));
    }

    /// Asserts that a call fails with the limit of memory, the wanted amount, and the line of the config.
    fn assert_limit_is_named(&self, path: &str) {
        let failed = self.failure(path).stderr;
        let parts = [
            "plugin `word-count` ran out of memory (limit 256 MiB): it wanted ",
            "hint: raise `memory-bytes` in the config: [plugins.word-count.limits] memory-bytes = ",
        ];
        assert!(parts.iter().all(|part| failed.contains(part)), "{failed}");
    }
}

#[test]
fn faults_in_rust_name_function_and_limit() {
    let helper = r#"#[inline(never)]
fn check(path: &str) {
    assert_ne!(path, "trap", "no luck");
    if path == "memory" {
        std::hint::black_box(vec![1_u8; 300 << 20]);
    }
}

fn count("#;
    let changes = [("fn count(", helper), ("    let text", "    check(&input.path);\n    let text")];
    let plugin = Plugin::build("rust", "src/lib.rs", &changes).unwrap();
    plugin.assert_trap_names("src/lib.rs:", &["word_count::check"]);
    plugin.assert_memory_limit_is_named();
}

#[test]
fn faults_in_c_name_function_and_limit() {
    let helper = r#"#include <stdlib.h>
#include <string.h>

static __attribute__((noinline)) void check(const char *path) {
  if (!strcmp(path, "trap")) {
    fputs("no luck\n", stderr);
    abort();
  }
  char *volatile room = strcmp(path, "memory") ? malloc(1) : malloc(300u << 20);
  if (!room) abort();
  free(room);
}

static bool count("#;
    let changes = [
        ("static bool count(", helper),
        ("  const char *path", "  check(pinion_string(call, \"path\"));\n  const char *path"),
    ];
    let Some(plugin) = Plugin::build("c", "src/plugin.c", &changes) else { return };
    plugin.assert_trap_names("no luck", &["check", "count"]);
    plugin.assert_memory_limit_is_named();
}

#[test]
fn faults_in_zig_name_function_and_limit() {
    let helper = r#"noinline fn check(call: pinion.Call, path: []const u8) !void {
    if (std.mem.eql(u8, path, "trap")) @panic("no luck");
    if (std.mem.eql(u8, path, "memory")) std.mem.doNotOptimizeAway(try call.arena.alloc(u8, 300 << 20));
}

fn count("#;
    let changes =
        [("fn count(", helper), ("    call.progress(", "    try check(call, input.path);\n    call.progress(")];
    let Some(plugin) = Plugin::build("zig", "src/plugin.zig", &changes) else { return };
    plugin.assert_trap_names("no luck", &["plugin.check", "plugin.count"]);
    plugin.assert_memory_limit_is_named();
}

/// Failures have content and details.
#[test]
fn faults_in_go_name_function_and_limit() {
    let helper = r#"var room []byte

//go:noinline
func check(path string) {
	if path == "trap" {
		panic("no luck")
	}
	if path == "memory" {
		room = make([]byte, 300<<20)
	}
}

type command struct {
	Command string `json:"command"`
}

func shell(call *pinion.Call, in command) (string, error) {
	result := invoke.CallTool("bash", `{"command": "`+in.Command+`"}`)
	if result.IsErr() {
		return "", pinion.Relay(result.Err())
	}
	return result.Ok().Content[0].Text(), nil
}

func fail(call *pinion.Call, in struct{}) (string, error) {
	output := pinion.Output{Text: "line 1\nline 2", Details: map[string]int{"code": 1}, Markdown: true}
	return "", &pinion.Error{Kind: pinion.Failed, Message: "exit code 1", Output: &output}
}

func init() {
	pinion.Tool("shell", "Runs a command.", pinion.Executes|pinion.Destructive, shell)
	pinion.Tool("fail", "Fails.", 0, fail)
}

func count("#;
    let import =
        ("\t\"project/pinion\"\n", "\t\"project/pinion\"\n\tinvoke \"project/pinion/contract/pinion_plugin_invoke\"\n");
    let changes = [import, ("func count(", helper), ("\ttext, err", "\tcheck(in.Path)\n\ttext, err")];
    let Some(plugin) = Plugin::importing(&["pinion:plugin/invoke@0.1.0"], "go", "plugin.go", &changes) else { return };
    plugin.assert_trap_names("no luck", &["main.check", "main.count"]);
    plugin.assert_memory_limit_is_named();
    let pack = ["plugin", "pack", &plugin.file, "--name", "facts", "--ask", "invoke", "--out", "facts.wasm"];
    let packed = run(&plugin.pinion, pack);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    failures_have_content(&plugin.pinion, &plugin.pinion.workspace().join("facts.wasm"));
}

/// Exceptions of JavaScript and Python become errors of the tool, and their stack is in the log.
#[test]
fn faults_in_javascript_name_function_and_limit() {
    let helper = r"const room = [];
function check(path) {
  if (path === 'trap') throw new Error('no luck');
  if (path === 'memory') new Uint8Array(300 << 20);
  while (path === 'little by little') room.push(new Uint8Array(1 << 20));
}

export const";
    let changes = [("export const", helper), ("        call.progress", "        check(path);\n        call.progress")];
    let Some(plugin) = Plugin::build("js", "src/plugin.js", &changes) else { return };
    plugin.assert_exception_names("no luck", "check");
    plugin.assert_memory_limit_is_named();
    plugin.assert_limit_is_named("little by little");
}

#[test]
fn faults_in_python_name_function_and_limit() {
    let helper = r#"def check(path):
    if path == "trap":
        raise ValueError("no luck")
    if path == "memory":
        bytearray(300 << 20)
    room = []
    while path == "little by little":
        room.append(bytearray(1 << 20))


@tool("#;
    let changes = [("@tool(", helper), ("    call.progress", "    check(path)\n    call.progress")];
    let Some(plugin) = Plugin::build("python", "src/plugin.py", &changes) else { return };
    plugin.assert_exception_names("ValueError: no luck", "check");
    plugin.assert_memory_limit_is_named();
    plugin.assert_limit_is_named("little by little");
}
