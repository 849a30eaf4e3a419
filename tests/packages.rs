//! The packages with the helpers for JavaScript and Python are complete, and their types are those of the contract.

use super::authors::{copy, is_there, path, root};
use pinion_tests::{Ended, Pinion};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const VERSION: &str = "0.1.0";

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

/// Copies the helpers and the contract, because packing writes files.
fn checkout() -> Pinion {
    let pinion = Pinion::default();
    for directory in ["plugin-sdk/js", "plugin-sdk/python", "wit"] {
        copy(&root().join(directory), &pinion.workspace().join(directory));
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
    // After what the scripts print.
    let report = packed.stdout.find("[\n").map(|at| &packed.stdout[at..]).unwrap_or_default();
    let report: Value = serde_json::from_str(report).unwrap_or_else(|_| panic!("{packed:?}"));
    let report = &report[0];
    assert_eq!((report["name"].as_str(), report["version"].as_str()), (Some("@pinion/plugin"), Some(VERSION)));
    let files: Vec<&str> = report["files"].as_array().unwrap().iter().map(|f| f["path"].as_str().unwrap()).collect();
    let manifest: Value = serde_json::from_slice(&fs::read(directory.join("package.json")).unwrap()).unwrap();
    let exports =
        manifest["exports"].as_object().unwrap().values().flat_map(|export| export.as_object().unwrap().values());
    for file in exports.map(|file| file.as_str().unwrap().trim_start_matches("./")).chain(["README.md", "package.json"])
    {
        assert!(files.contains(&file), "{file} is not in {files:?}");
    }
    let contract = fs::read_dir(root().join("wit")).unwrap().count();
    assert_eq!(files.iter().filter(|file| file.starts_with("wit/")).count(), contract);
    assert!(!directory.join("wit").exists(), "packing leaves nothing behind");
}

/// Generates the types of all imports with jco, as one file of modules.
fn types_by_jco() -> String {
    let pinion = checkout();
    let made = run("jco", &["guest-types", "wit", "-n", "imports", "-o", "types"], &pinion.workspace());
    assert_eq!(made.code, Some(0), "{made:?}");
    let files = fs::read_dir(pinion.workspace().join("types/interfaces")).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut text = "// The types of the contract, which `jco guest-types` generated from `wit/`; `plugins/build.sh` regenerates them.\n\
                    // Each module needs the same import in `wit/world.wit`.\n"
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

#[test]
fn package_for_python_builds_and_has_the_helper() {
    if !is_there("python") {
        return;
    }
    let pinion = checkout();
    let directory = pinion.workspace().join("plugin-sdk/python");
    let pip = ["-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", "out"];
    let built = run("python3", &pip, &directory);
    assert_eq!(built.code, Some(0), "{built:?}");
    let wheel = format!("out/pinion_plugin-{VERSION}-py3-none-any.whl");
    let listed = run("python3", &["-m", "zipfile", "-l", &wheel], &directory).stdout;
    assert!(listed.contains("pinion/__init__.py"), "{listed}");
    assert_eq!(run("python3", &["-m", "zipfile", "-e", &wheel, "content"], &directory).code, Some(0));
    let metadata = directory.join(format!("content/pinion_plugin-{VERSION}.dist-info/METADATA"));
    let metadata = fs::read_to_string(metadata).unwrap();
    for line in ["Name: pinion-plugin", "License-Expression: MIT OR Apache-2.0", "Requires-Python: >=3.10"] {
        assert!(metadata.lines().any(|found| found == line), "{metadata}");
    }
}

/// A plugin in TypeScript that uses the contract beyond the helper. `SCOPE` is where the test makes a mistake.
const TYPESCRIPT: &str = r#"
import { plugin, string, textOf, tool } from './pinion/index.js';
import { send } from 'pinion:plugin/http@0.1.0';
import { get, type Stored } from 'pinion:plugin/storage@0.1.0';
import { confirm, drawResult, type Block } from 'pinion:plugin/ui@0.1.0';
import { spawn, type Child } from 'pinion:plugin/child-process@0.1.0';

export const { tools, commands } = plugin({
  tools: {
    look: tool({
      description: 'Looks.',
      input: { key: string('A key') },
      run({ key }) {
        const stored: Stored | undefined = get('SCOPE', key);
        const response = send({ method: 'GET', url: 'https://a.example', headers: [], body: new Uint8Array() });
        const blocks: Block[] = [{ tag: 'lines', val: [[{ text: 'a', style: 'dim' }]] }, { tag: 'diff', val: '-a\n+b' }];
        drawResult(blocks);
        const child: Child = spawn({ program: 'sort', args: [], environment: [], stdin: new Uint8Array(), maxOutput: 1 });
        const read = child.read('stdout', 100, 1000);
        const bytes = read.tag === 'data' ? read.val : new Uint8Array();
        return confirm('Go on?') ? textOf(stored?.value ?? bytes) : `${response.status}`;
      },
    }),
  },
});
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
    pinion.write("src/plugin.ts", TYPESCRIPT.replace("SCOPE", "workspace"));
    let checked = run("tsc", &["--project", "."], &directory);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    pinion.write("src/plugin.ts", TYPESCRIPT.replace("SCOPE", "everywhere"));
    let checked = run("tsc", &["--project", "."], &directory);
    assert!(checked.code != Some(0) && checked.stdout.contains("'\"everywhere\"' is not assignable"), "{checked:?}");
}
