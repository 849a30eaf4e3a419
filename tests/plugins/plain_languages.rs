//! Components in several languages without the SDK and without a manifest: one command of the language's own tool builds
//! each, and the next one calls it.

use super::authors::{author, is_there, path, run};
use pinion_tests::Pinion;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The WIT file of the components whose toolchains generate bindings.
const WORDS: &str = "package demo:text@1.2.0;

interface words {
  variant order { alphabet, by-length }
  record counted { lines: u32, words: u32, longest: option<string> }
  count: func(text: string) -> counted;
  sorted: func(words: list<string>, order: order) -> result<list<string>, string>;
}

world text { export words; }
";

const JAVASCRIPT: &str = r#"export const words = {
  count(text) {
    const all = text.split(/\s+/).filter((word) => word);
    const longest = [...all].sort((a, b) => b.length - a.length)[0];
    return { lines: text.split("\n").length, words: all.length, longest };
  },
  sorted(words, order) {
    if (!words.length) throw "nothing to sort";
    return order.tag === "alphabet" ? words.sort() : words.sort((a, b) => a.length - b.length);
  },
};
"#;

const PYTHON: &str = "from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import words


class Words(exports.Words):
    def count(self, text):
        every = text.split()
        return words.Counted(len(text.splitlines()), len(every), max(every, key=len, default=None))

    def sorted(self, every, order):
        if not every:
            raise Err('nothing to sort')
        return sorted(every, key=None if isinstance(order, words.Order_Alphabet) else len)
";

/// The WIT file of the components that have no bindings: their exports follow the canonical ABI.
const BYTES: &str = "package demo:bytes@1.0.0;

interface letters {
  reversed: func(text: string) -> string;
  sum: func(numbers: list<s32>) -> s64;
}

world bytes { export letters; }
";

const C: &str = r#"#include <stdint.h>
#include <stdlib.h>

__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
  return realloc(old, size);
}

typedef struct { char *data; size_t size; } text;

__attribute__((export_name("demo:bytes/letters@1.0.0#reversed"))) text *reversed(char *data, size_t size) {
  static text result;
  result.data = malloc(size);
  result.size = size;
  for (size_t i = 0; i < size; i++) result.data[i] = data[size - 1 - i];
  return &result;
}

__attribute__((export_name("demo:bytes/letters@1.0.0#sum"))) int64_t sum(int32_t *numbers, size_t count) {
  int64_t total = 0;
  for (size_t i = 0; i < count; i++) total += numbers[i];
  return total;
}
"#;

const ZIG: &str = r#"const Text = extern struct { data: [*]const u8, size: usize };

var memory: [1 << 16]u8 align(16) = undefined;
var used: usize = 0;
var result: Text = undefined;

export fn cabi_realloc(_: ?*anyopaque, _: usize, _: usize, size: usize) [*]u8 {
    const start = used;
    used += (size + 15) & ~@as(usize, 15);
    return memory[start..].ptr;
}

fn reversed(data: [*]const u8, size: usize) callconv(.c) *const Text {
    const copy = cabi_realloc(null, 0, 1, size);
    for (0..size) |i| copy[i] = data[size - 1 - i];
    result = .{ .data = copy, .size = size };
    return &result;
}

fn sum(numbers: [*]const i32, count: usize) callconv(.c) i64 {
    var total: i64 = 0;
    for (0..count) |i| total += numbers[i];
    return total;
}

comptime {
    @export(&reversed, .{ .name = "demo:bytes/letters@1.0.0#reversed" });
    @export(&sum, .{ .name = "demo:bytes/letters@1.0.0#sum" });
}
"#;

const GO: &str = r#"package main

import "unsafe"

//go:linkname sbrk runtime.sbrk
func sbrk(n uintptr) unsafe.Pointer

// Pointers have 32 bits for the host and 64 for Go.
type text struct{ data, size uint32 }

var result text
var kept []byte

// Allocates outside of the heap of Go, which does not exist before the first call.
//
//go:wasmexport cabi_realloc
func realloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	return sbrk(size)
}

//go:wasmexport demo:bytes/letters@1.0.0#reversed
func reversed(data unsafe.Pointer, size uint32) unsafe.Pointer {
	given := unsafe.Slice((*byte)(data), size)
	kept = make([]byte, size)
	for i := range given {
		kept[i] = given[len(given)-1-i]
	}
	result = text{uint32(uintptr(unsafe.Pointer(unsafe.SliceData(kept)))), size}
	return unsafe.Pointer(&result)
}

//go:wasmexport demo:bytes/letters@1.0.0#sum
func sum(numbers unsafe.Pointer, count uint32) int64 {
	total := int64(0)
	for _, number := range unsafe.Slice((*int32)(numbers), count) {
		total += int64(number)
	}
	return total
}

func main() {}
"#;

/// Runs the command that builds a component, with the toolchains in PATH.
fn build(pinion: &Pinion, words: &[&str]) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(pinion.workspace()).env("PATH", path());
    let caches = Path::new(env!("CARGO_TARGET_TMPDIR"));
    command.env("ZIG_GLOBAL_CACHE_DIR", caches.join("zig")).env("GOCACHE", caches.join("go"));
    command.envs([("GOOS", "wasip1"), ("GOARCH", "wasm"), ("GOTOOLCHAIN", "local"), ("GO111MODULE", "off")]);
    let built = command.output().unwrap();
    assert!(built.status.success(), "{words:?}: {built:?}");
}

fn call(pinion: &Pinion, file: &str, tool: &str, input: Value) -> pinion_tests::Ended {
    run(pinion, ["plugin", "call", file, tool, &input.to_string()])
}

/// Builds a component with generated bindings and calls it.
fn words_in(language: &str, source: (&str, &str), command: &[&str]) {
    if !is_there(language) {
        return;
    }
    let pinion = author();
    pinion.write("wit/text.wit", WORDS);
    pinion.write(source.0, source.1);
    build(&pinion, command);
    let counted = call(&pinion, "text.wasm", "text_count", json!({ "text": "to be or\nnot" }));
    let first = counted.stdout.lines().next().unwrap_or_default();
    let counted: Value = serde_json::from_str(first).unwrap_or_else(|_| panic!("{counted:?}"));
    assert_eq!(counted, json!({ "lines": 2, "words": 4, "longest": "not" }));
    let sorted =
        call(&pinion, "text.wasm", "text_sorted", json!({ "words": ["ccc", "a", "bb"], "order": "by-length" }));
    assert!(sorted.stdout.starts_with(r#"["a","bb","ccc"]"#), "{sorted:?}");
    let failed = call(&pinion, "text.wasm", "text_sorted", json!({ "words": [], "order": "alphabet" }));
    assert!(failed.code == Some(1) && failed.stderr.contains("nothing to sort"), "{failed:?}");
    let listed = run(&pinion, ["plugin", "check", "text.wasm"]);
    // Functions of the toolchain, such as the one that starts Python, are no tools.
    assert!(listed.stdout.contains("text_sorted") && !listed.stdout.contains("_init"), "{listed:?}");
}

/// Builds a core module and calls it. The WIT next to it makes it a component.
fn letters_in(language: &str, source: (&str, &str), command: &[&str]) {
    if !is_there(language) {
        return;
    }
    let pinion = author();
    pinion.write("wit/bytes.wit", BYTES);
    pinion.write(source.0, source.1);
    build(&pinion, command);
    let reversed = call(&pinion, "bytes.wasm", "bytes_reversed", json!({ "text": "abc" }));
    assert_eq!((reversed.code, reversed.stdout.trim()), (Some(0), "cba"), "{reversed:?}");
    let sum = call(&pinion, "bytes.wasm", "bytes_sum", json!({ "numbers": [1, -5, 2] }));
    assert!(sum.code == Some(0) && sum.stdout.starts_with("-2"), "{sum:?}");
}

#[test]
fn plain_component_in_javascript_takes_two_commands() {
    let backend = ["--backend", "quickjs", "--backend-qjs-disable-async"];
    let command = ["jco", "componentize", "text.js", "--wit", "wit", "-n", "text", "-o", "text.wasm"];
    words_in("js", ("text.js", JAVASCRIPT), &[&command[..], &backend[..]].concat());
}

#[test]
fn plain_component_in_python_takes_two_commands() {
    let command = ["componentize-py", "-d", "wit", "-w", "text", "componentize", "app", "-o", "text.wasm"];
    words_in("python", ("app.py", PYTHON), &command);
}

#[test]
fn plain_component_in_c_takes_two_commands() {
    let flags = ["-target", "wasm32-wasi", "-mexec-model=reactor", "-O2", "bytes.c", "-o", "bytes.wasm"];
    letters_in("c", ("bytes.c", C), &[&["python-zig", "cc"], &flags[..]].concat());
}

#[test]
fn plain_component_in_zig_takes_two_commands() {
    let flags = ["-target", "wasm32-wasi", "-mexec-model=reactor", "-fno-entry", "-rdynamic", "-O", "ReleaseSmall"];
    letters_in(
        "zig",
        ("bytes.zig", ZIG),
        &[&["python-zig", "build-exe"], &flags[..], &["bytes.zig", "-femit-bin=bytes.wasm"]].concat(),
    );
}

#[test]
fn plain_component_in_go_takes_two_commands() {
    let command =
        ["go", "build", "-buildmode=c-shared", "-ldflags=-checklinkname=0 -w", "-o", "bytes.wasm", "bytes.go"];
    letters_in("go", ("bytes.go", GO), &command);
}
