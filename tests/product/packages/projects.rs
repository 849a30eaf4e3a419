//! Packages that a project names: one question, exact digests, and two versions at once.

use super::{call, component, granted, listed};
use pinion_tests::{Ended, Pinion};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const FILE: &str = ".pinion/plugins.toml";

fn name(pinion: &Pinion, source: &str) -> Ended {
    pinion.run(["plugin", "add", source, "--project", "--yes"])
}

fn file(pinion: &Pinion) -> PathBuf {
    pinion.workspace().join(FILE)
}

fn trust(pinion: &Pinion) {
    let ended = pinion.run(["trust", "add", "--yes"]);
    assert!(ended.code == Some(0) && ended.stdout.contains("uses the plugin `greet`"), "{ended:?}");
}

/// Takes the project to a colleague who has nothing installed.
fn colleague(from: &Pinion, files: &[&str]) -> Pinion {
    let colleague = Pinion::default();
    for name in files {
        colleague.write(name, fs::read(from.workspace().join(name)).unwrap());
    }
    colleague
}

#[test]
fn colleague_gets_the_named_versions_after_trust_and_one_question() {
    let author = Pinion::default();
    component(&author, "greet_armed", "tools/greet.wasm");
    let named = name(&author, "tools/greet.wasm");
    let expected = "named greet 0.1.0 in .pinion/plugins.toml\n";
    assert_eq!((named.code, named.stdout.as_str()), (Some(0), expected), "{named:?}");
    assert!(named.stderr.contains("files=write") && named.stderr.contains("pinion trust add"), "{named:?}");
    // Active nowhere else, and not here before the project is trusted.
    assert!(listed(&author, "greet").is_none());
    trust(&author);
    assert_eq!(granted(&listed(&author, "greet").unwrap()), ["files"]);

    let pinion = colleague(&author, &[FILE, "tools/greet.wasm"]);
    let untrusted = pinion.run(["plugin", "install", "--yes"]);
    assert!(untrusted.code == Some(4) && untrusted.stderr.contains("pinion trust add"), "{untrusted:?}");
    trust(&pinion);
    let started = pinion.run(["plugin", "list"]);
    assert!(
        started.stdout.contains("`greet` 0.1.0") && started.stdout.contains("pinion plugin install"),
        "{started:?}"
    );
    let asked = pinion.run(["plugin", "install"]);
    assert!(asked.code == Some(4) && asked.stderr.contains("files=write"), "{asked:?}");
    assert!(listed(&pinion, "greet").is_none());
    let installed = pinion.run(["plugin", "install", "--yes"]);
    let expected = "installed 1 plugin for this project\n";
    assert_eq!((installed.code, installed.stdout.as_str()), (Some(0), expected), "{installed:?}");
    assert_eq!(granted(&listed(&pinion, "greet").unwrap()), ["files"]);
    assert_eq!(call(&pinion, "greet").code, Some(0));
    assert_eq!(pinion.run(["plugin", "install"]).stdout, "1 plugin of this project installed\n");
}

#[test]
fn other_content_and_missing_sources_are_refused_by_name_and_others_go_on() {
    let author = Pinion::default();
    for (guest, file) in [("greet_one", "greet.wasm"), ("keeper", "keeper.wasm"), ("plain", "calc.wasm")] {
        component(&author, guest, file);
        assert_eq!(name(&author, &format!("./{file}")).code, Some(0));
    }
    let pinion = colleague(&author, &[FILE, "keeper.wasm"]);
    component(&pinion, "greet_two", "greet.wasm");
    trust(&pinion);
    let ended = pinion.run(["plugin", "install", "--yes", "--json"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    // The error follows in a line of its own, as for an update.
    let report = ended.stdout.lines().next().unwrap_or_default();
    let report: Value = serde_json::from_str(report).unwrap_or_else(|_| panic!("{ended:?}"));
    let error = |name: &str| {
        let packages = report["packages"].as_array().unwrap();
        packages.iter().find(|package| package["name"] == name).unwrap()["error"].as_str().map(str::to_owned)
    };
    assert!(error("greet").unwrap().contains("its digest is"), "{report}");
    assert!(error("calc").is_some() && error("keeper").is_none(), "{report}");
    assert!(listed(&pinion, "keeper").is_some() && listed(&pinion, "greet").is_none());
    assert!(ended.stderr.contains("greet: not installed: its digest is"), "{ended:?}");
}

#[test]
fn changed_file_names_nothing_until_it_is_trusted_again() {
    let pinion = Pinion::default();
    component(&pinion, "greet_one", "greet.wasm");
    name(&pinion, "./greet.wasm");
    trust(&pinion);
    assert!(listed(&pinion, "greet").is_some());
    let text = fs::read_to_string(file(&pinion)).unwrap();
    fs::write(file(&pinion), text.replace("./greet.wasm", "./other.wasm")).unwrap();
    assert!(listed(&pinion, "greet").is_none());
    let refused = pinion.run(["plugin", "install", "--yes"]);
    assert!(refused.code == Some(4) && refused.stderr.contains("not trusted"), "{refused:?}");
    trust(&pinion);
    assert!(listed(&pinion, "greet").is_some());
}

#[test]
fn project_has_its_version_while_another_one_is_active() {
    let pinion = Pinion::default();
    component(&pinion, "greet_one", "one.wasm");
    component(&pinion, "greet_two", "two.wasm");
    assert_eq!(pinion.run(["plugin", "add", "./two.wasm", "--yes"]).code, Some(0));
    assert_eq!(name(&pinion, "./one.wasm").code, Some(0));
    assert!(call(&pinion, "greet").stdout.contains("version two"));
    trust(&pinion);
    assert!(call(&pinion, "greet").stdout.contains("version one"));
    let elsewhere = tempfile::tempdir().unwrap();
    let mut other = pinion.command(["plugin", "call", "greet", "greet", "{}"]);
    let output = other.current_dir(elsewhere.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("version two"), "{output:?}");
    assert_eq!(pinion.run(["plugin", "verify"]).code, Some(0));
}

#[test]
fn project_cannot_name_sources_on_this_machine() {
    let pinion = Pinion::default();
    component(&pinion, "greet_one", "greet.wasm");
    name(&pinion, "./greet.wasm");
    let text = fs::read_to_string(file(&pinion)).unwrap();
    let home = pinion.home().join("greet.wasm");
    fs::copy(pinion.workspace().join("greet.wasm"), &home).unwrap();
    assert_eq!(name(&pinion, &home.to_string_lossy()).code, Some(2));
    assert_eq!(pinion.run(["plugin", "remove", "greet"]).code, Some(0));
    for source in [&*home.to_string_lossy(), "http://127.0.0.1:9/greet.wasm", "oci://localhost:9/greet:1"] {
        fs::write(file(&pinion), text.replace("./greet.wasm", source)).unwrap();
        trust(&pinion);
        let ended = pinion.run(["plugin", "install", "--yes"]);
        assert!(ended.code == Some(4) && ended.stderr.contains("which is on this machine"), "{ended:?}");
    }
}
