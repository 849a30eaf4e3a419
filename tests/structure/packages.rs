//! The packages with the helpers for JavaScript and Python are complete, and their types match the contract.

use crate::plugins::authors::{self, author, copy, is_there, path, root};
use crate::plugins::guide::{lines_of_world, snippet};
use pinion_agent::ToolExecutor as _;
use pinion_tests::{Ended, Pinion, Sandbox, SandboxBuilder, until};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const VERSION: &str = "0.1.0";
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Runs a tool of a toolchain in a directory, with an empty home.
fn run(program: &str, arguments: &[&str], directory: &Path) -> Ended {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).stdin(Stdio::null()).env("PATH", path()).env("HOME", directory);
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Copies the helpers, the contract and the licences, because packing writes files.
fn checkout() -> Pinion {
    let pinion = author();
    for directory in ["plugin-sdk/js", "plugin-sdk/python", "wit"] {
        copy(&root().join(directory), &pinion.workspace().join(directory));
    }
    for licence in LICENCES {
        pinion.write(licence, fs::read(root().join(licence)).unwrap());
    }
    pinion
}

#[test]
fn package_for_javascript_has_what_it_exports_and_the_contract() {
    if !is_there("js") {
        return;
    }
    let pinion = checkout();
    let directory = pinion.workspace().join("plugin-sdk/js");
    let packed = run("npm", &["pack", "--dry-run", "--json"], &directory);
    // After the output of the scripts.
    let report = packed.stdout.find("[\n").map(|at| &packed.stdout[at..]).unwrap_or_default();
    let report: Value = serde_json::from_str(report).unwrap_or_else(|_| panic!("{packed:?}"));
    let report = &report[0];
    assert_eq!((report["name"].as_str(), report["version"].as_str()), (Some("@pinion/plugin"), Some(VERSION)));
    let files: Vec<&str> = report["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
    let manifest: Value = serde_json::from_slice(&fs::read(directory.join("package.json")).unwrap()).unwrap();
    let exports =
        manifest["exports"].as_object().unwrap().values().flat_map(|export| export.as_object().unwrap().values());
    let exports = exports.map(|file| file.as_str().unwrap().trim_start_matches("./"));
    for file in exports.chain(["README.md", "package.json"]).chain(LICENCES) {
        assert!(files.contains(&file), "{file} is not in {files:?}");
    }
    assert_eq!(files.iter().filter(|file| file.starts_with("wit/")).count(), contract().len());
    assert!(!directory.join("wit").exists(), "packing leaves nothing behind");
}

/// Returns the files of the package `pinion:plugin`.
fn contract() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("wit")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).collect()
}

/// Generates the types of all imports and exports with jco, as one file of modules.
fn types_by_jco() -> String {
    let pinion = checkout();
    let made = run("jco", &["guest-types", "wit", "-n", "plugin", "-o", "types"], &pinion.workspace());
    assert_eq!(made.code, Some(0), "{made:?}");
    let files = fs::read_dir(pinion.workspace().join("types/interfaces")).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut text = "// The types of the contract, which `jco guest-types` generated from `wit/`; `plugins/build.sh` regenerates them.\n\
                    // Each module needs the same import or export in `wit/world.wit`.\n"
        .to_owned();
    for file in files {
        let module = fs::read_to_string(file).unwrap();
        // The files refer to each other, and need a library of TypeScript that is not there by default.
        let lines = module.lines().filter(|line| !line.starts_with("///") && !line.contains("[Symbol.dispose]"));
        lines.map(str::trim_end).for_each(|line| {
            text.push_str(&line.replace(" implements Disposable", ""));
            text.push('\n');
        });
    }
    // QuickJS has numbers in place of BigInts.
    text.replace("bigint", "number | bigint")
}

#[test]
fn types_of_the_package_for_javascript_are_those_of_the_contract() {
    if !is_there("js") {
        return;
    }
    let (file, expected) = (root().join("plugin-sdk/js/contract.d.ts"), types_by_jco());
    if std::env::var_os("PINION_UPDATE").is_some() {
        fs::write(&file, &expected).unwrap();
    }
    let found = fs::read_to_string(file).unwrap_or_default();
    assert!(found == expected, "`contract.d.ts` is out of date: run `plugins/build.sh`");
}

/// Builds the wheel of the helper for Python in a checkout.
fn wheel(pinion: &Pinion) -> PathBuf {
    let directory = pinion.workspace().join("plugin-sdk/python");
    let pip = ["-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", "out"];
    let built = run("python3", &pip, &directory);
    assert_eq!(built.code, Some(0), "{built:?}");
    directory.join(format!("out/pinion_plugin-{VERSION}-py3-none-any.whl"))
}

#[test]
fn package_for_python_has_the_helper_the_contract_and_the_licences() {
    if !is_there("python") {
        return;
    }
    let pinion = checkout();
    let (wheel, directory) = (wheel(&pinion), pinion.workspace());
    assert_eq!(run("python3", &["-m", "zipfile", "-e", wheel.to_str().unwrap(), "content"], &directory).code, Some(0));
    let content = |file: &str| fs::read_to_string(directory.join("content").join(file)).unwrap();
    let about = format!("pinion_plugin-{VERSION}.dist-info");
    let metadata = content(&format!("{about}/METADATA"));
    for line in ["Name: pinion-plugin", "License-Expression: MIT OR Apache-2.0", "Requires-Python: >=3.10"] {
        assert!(metadata.lines().any(|found| found == line), "{metadata}");
    }
    for licence in LICENCES {
        assert_eq!(content(&format!("{about}/licenses/{licence}")), fs::read_to_string(root().join(licence)).unwrap());
    }
    assert!(content("pinion/__init__.py").contains("class Tools"));
    for entry in contract() {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(content(&format!("pinion/wit/{name}")), fs::read_to_string(entry).unwrap());
    }
}

/// Creates a project with tools that change, from the guide, that uses an installed package in place of its copy of the helper.
fn changing_tools(pinion: &Pinion, language: &str, code: &str) -> PathBuf {
    assert_eq!(authors::run(pinion, ["plugin", "new", "lists", "--lang", language]).code, Some(0));
    let project = pinion.workspace().join("lists");
    fs::remove_dir_all(project.join("src/pinion")).unwrap();
    pinion.write(if language == "js" { "lists/src/plugin.js" } else { "lists/src/plugin.py" }, code);
    let world = fs::read_to_string(project.join("wit/world.wit")).unwrap();
    let world = world.replacen("  import", &format!("  {}  import", lines_of_world("offers")), 1);
    let commands = "  export pinion:plugin/commands@0.1.0;\n";
    assert!(world.contains(commands));
    pinion.write("lists/wit/world.wit", world.replace(commands, ""));
    let about = fs::read_to_string(project.join("pinion-plugin.toml")).unwrap();
    pinion.write("lists/pinion-plugin.toml", about.replace("lifetime = \"reused\"", "lifetime = \"session\""));
    project
}

/// Builds a project and changes its tools.
async fn tools_change(pinion: &Pinion) -> Sandbox {
    let built = authors::run(pinion, ["plugin", "build", "lists"]);
    assert_eq!(built.code, Some(0), "{built:?}");
    let component = pinion.workspace().join("lists/build/lists.wasm");
    let sandbox = SandboxBuilder::default().file(component).build().await;
    assert_eq!(sandbox.text("new_list", json!({ "name": "risks" })).await, "created risks");
    let is_offered = || sandbox.runtime.definitions().iter().any(|tool| tool.name == "list_risks");
    until("the new list is a tool", is_offered).await;
    assert_eq!(sandbox.text("list_risks", json!({})).await, "the list risks is empty");
    sandbox
}

/// With a dependency from npm along with it. A reload keeps the tools.
#[tokio::test(flavor = "multi_thread")]
async fn installed_package_for_javascript_builds_a_plugin_whose_tools_change() {
    let code = snippet("lists.js");
    if !is_there("js") {
        return;
    }
    let pinion = checkout();
    let directory = pinion.workspace();
    let packed = run("npm", &["pack", "--silent", "--pack-destination", "../.."], &directory.join("plugin-sdk/js"));
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let code = code.replace("./pinion/index.js", "@pinion/plugin").replace("is empty", "is ${empty}");
    let project = changing_tools(&pinion, "js", &format!("import {{ empty }} from 'words';\n{code}"));
    pinion
        .write("lists/node_modules/words/package.json", r#"{ "name": "words", "type": "module", "main": "words.js" }"#);
    pinion.write("lists/node_modules/words/words.js", "export const empty = 'empty';\n");
    let installed = project.join("node_modules/@pinion/plugin");
    fs::create_dir_all(&installed).unwrap();
    let package = format!("../../../../pinion-plugin-{VERSION}.tgz");
    let unpacked = run("tar", &["-xzf", &package, "--strip-components=1"], &installed);
    assert_eq!(unpacked.code, Some(0), "{unpacked:?}");
    let sandbox = tools_change(&pinion).await;
    let about = fs::read_to_string(project.join("pinion-plugin.toml")).unwrap();
    pinion.write("lists/pinion-plugin.toml", about.replace("version = \"0.1.0\"", "version = \"0.2.0\""));
    assert_eq!(authors::run(&pinion, ["plugin", "build", "lists"]).code, Some(0));
    assert_eq!(sandbox.text("list_risks", json!({})).await, "the list risks is empty");
    assert_eq!(sandbox.runtime.plugins()[0].version, "0.2.0");
}

/// Tools whose schemas and arguments have types beyond the basic ones, in a module with lazy annotations.
const TYPES: &str = r#"from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Item:
    name: str


@dataclass
class Options:
    tags: list[str] = field(default_factory=list)
    limit: int = 3


@tool()
def types(call: Call, options: Options, items: dict[str, Item] | None = None, pair: tuple[int, str] = (0, "")):
    """Shows its arguments."""
    return f"{options.tags} {options.limit} {items['a'].name if items else None} {pair!r}"
"#;

/// In the project's virtual environment, without commands.
#[tokio::test(flavor = "multi_thread")]
async fn installed_package_for_python_builds_a_plugin_whose_tools_change() {
    let code = snippet("lists.py");
    if !is_there("python") {
        return;
    }
    let pinion = checkout();
    let wheel = wheel(&pinion);
    let types = TYPES.split_once("\n\n").unwrap();
    let project = changing_tools(&pinion, "python", &format!("{}\n{code}\n{}", types.0, types.1));
    assert_eq!(run("python3", &["-m", "venv", "--without-pip", ".venv"], &project).code, Some(0));
    let pip = ["-m", "pip", "--python", ".venv", "install", "--no-deps", "--no-index", wheel.to_str().unwrap()];
    let installed = run("python3", &pip, &project);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    let sandbox = tools_change(&pinion).await;
    let schema = sandbox.tool("types").input_schema.clone();
    assert_eq!(schema["required"], json!(["options"]));
    assert_eq!(schema["properties"]["options"]["required"], json!([]));
    let pair = &schema["properties"]["pair"];
    assert_eq!(pair["prefixItems"], json!([{ "type": "integer" }, { "type": "string" }]));
    assert_eq!((&pair["minItems"], &pair["maxItems"]), (&json!(2), &json!(2)));
    assert_eq!(sandbox.text("types", json!({ "options": {} })).await, "[] 3 None (0, '')");
    let input =
        json!({ "options": { "tags": ["x"], "limit": 1 }, "items": { "a": { "name": "b" } }, "pair": [7, "c"] });
    assert_eq!(sandbox.text("types", input).await, "['x'] 1 b (7, 'c')");
}

/// A plugin in TypeScript that uses the contract beyond the helper. `SCOPE` and `VERDICT` are where the test makes a mistake.
const TYPESCRIPT: &str = r#"
import { plugin, string, textOf, tool, ToolError } from './pinion/index.js';
import { callTool } from 'pinion:plugin/invoke@0.1.0';
import { send } from 'pinion:plugin/http@0.1.0';
import { get, type Stored } from 'pinion:plugin/storage@0.1.0';
import { confirm, drawResult, type Block } from 'pinion:plugin/ui@0.1.0';
import { spawn, type Child } from 'pinion:plugin/child-process@0.1.0';

export const { tools, commands } = plugin({
  tools: {
    look: tool({
      description: 'Looks.',
      input: { key: string('A key') },
      extra: { route: { page: 1 } },
      run({ key }, call) {
        const stored: Stored | undefined = get('SCOPE', key);
        const response = send({ method: 'GET', url: 'https://a.example', headers: [], body: new Uint8Array() });
        const blocks: Block[] = [{ tag: 'lines', val: [[{ text: 'a', style: 'dim' }]] }, { tag: 'diff', val: '-a\n+b' }];
        drawResult(blocks);
        const child: Child = spawn({ program: 'sort', args: [], environment: [], stdin: new Uint8Array(), maxOutput: 1 });
        const read = child.read('stdout', 100, 1000);
        const bytes = read.tag === 'data' ? read.val : new Uint8Array();
        const route = call.route as { page: number } | undefined;
        const content = callTool('bash', '{}').content;
        if (!route) throw new ToolError('failed', 'no route', { content, details: { page: 0 }, display: 'code:sh' });
        return confirm('Go on?') ? textOf(stored?.value ?? bytes) : `${response.status} ${route?.page}`;
      },
    }),
  },
});

export const beforeToolCall: typeof import('pinion:plugin/before-tool-call@0.1.0') = {
  check: (_context, call) => (call.effects.executes ? { tag: 'VERDICT', val: 'This runs a program.' } : { tag: 'proceed' }),
};
"#;

#[test]
fn types_of_the_contract_accept_what_is_right_and_nothing_else() {
    if !is_there("ts") {
        return;
    }
    let pinion = checkout();
    let directory = pinion.workspace();
    copy(&directory.join("plugin-sdk/js"), &directory.join("src/pinion"));
    fs::copy(root().join("host/cli/templates/ts/tsconfig.json"), directory.join("tsconfig.json")).unwrap();
    let check = |scope: &str, verdict: &str| {
        pinion.write("src/plugin.ts", TYPESCRIPT.replace("SCOPE", scope).replace("VERDICT", verdict));
        run("tsc", &["--project", "."], &directory)
    };
    let checked = check("workspace", "ask");
    assert_eq!(checked.code, Some(0), "{checked:?}");
    for (scope, verdict, mistake) in [
        ("everywhere", "ask", "'\"everywhere\"' is not assignable"),
        ("workspace", "allow", "'\"allow\"' is not assignable"),
    ] {
        let checked = check(scope, verdict);
        assert!(checked.code != Some(0) && checked.stdout.contains(mistake), "{checked:?}");
    }
}
