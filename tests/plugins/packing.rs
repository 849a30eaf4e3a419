//! The commands of `pinion plugin` for authors, for components that are built already: the contract, packing, checking,
//! measuring and watching.

use super::authors::{root, run};
use pinion_tests::{Pinion, guest};
use serde_json::Value;
use std::fs;

#[test]
fn contract_is_written_where_toolchains_look_for_it() {
    let pinion = Pinion::default();
    let printed = run(&pinion, ["plugin", "wit"]);
    assert!(printed.stdout.contains("interface tools") && printed.stdout.contains("world plugin"), "{printed:?}");
    assert_eq!(run(&pinion, ["plugin", "wit", "."]).code, Some(0));
    let types = pinion.workspace().join("wit/deps/pinion-plugin/types.wit");
    assert_eq!(fs::read(&types).unwrap(), fs::read(root().join("wit/types.wit")).unwrap());
    let reference = run(&pinion, ["plugin", "wit", "--reference"]);
    assert_eq!(reference.stdout, fs::read_to_string(root().join("plugin-sdk/REFERENCE.md")).unwrap());
    let again: Value = serde_json::from_str(&run(&pinion, ["plugin", "wit", ".", "--json"]).stdout).unwrap();
    assert_eq!(again["files"], serde_json::json!([]));
    fs::write(&types, "my notes").unwrap();
    let refused = run(&pinion, ["plugin", "wit", "."]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("types.wit` is not a file of the contract"),
        "{refused:?}"
    );
}

/// The unit test of the command decodes it.
#[test]
fn contract_is_written_as_a_binary_package() {
    let pinion = Pinion::default();
    let wrote = run(&pinion, ["plugin", "wit", "--package", "pinion-plugin.wasm", "--json"]);
    let report: Value = serde_json::from_str(&wrote.stdout).unwrap_or_else(|_| panic!("{wrote:?}"));
    assert_eq!(report["package"], "pinion:plugin@0.1.0");
    let package = fs::read(pinion.workspace().join("pinion-plugin.wasm")).unwrap();
    // The layer of a component: WIT packages are components without code.
    assert_eq!((&package[..8], report["bytes"].as_u64()), (&b"\0asm\x0d\0\x01\0"[..], Some(package.len() as u64)));
    let again = run(&pinion, ["plugin", "wit", "--package", "pinion-plugin.wasm"]);
    assert!(again.stdout.contains("pinion-plugin.wasm, pinion:plugin@0.1.0, "), "{again:?}");
    assert_eq!(
        fs::read(pinion.workspace().join("pinion-plugin.wasm")).unwrap(),
        package,
        "the package is reproducible"
    );
}

#[test]
fn pack_sets_limits_and_lifetime_and_installs() {
    let pinion = Pinion::default();
    let file = pinion.write("echo.wasm", fs::read(guest("echo")).unwrap());
    let file = file.to_str().unwrap();
    let pack = ["plugin", "pack", file, "--name", "parrot", "--json"];
    let more = ["--limit", "memory-bytes=1000000", "--lifetime", "session", "--install"];
    let packed = run(&pinion, pack.iter().chain(&more));
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let report: Value = serde_json::from_str(&packed.stdout).unwrap();
    assert_eq!(report["file"].as_str(), pinion.home().join("plugins/parrot.wasm").to_str());
    let info = run(&pinion, ["plugin", "info", "parrot"]);
    assert!(info.stdout.contains("lifetime     session"), "{info:?}");
    let wrong = run(&pinion, pack.iter().chain(&["--limit", "memory=1"]));
    assert!(wrong.code == Some(2) && wrong.stderr.contains("unknown field `memory`"), "{wrong:?}");
}

/// A finished component can be installed without its source, and nothing that its author wrote gets lost.
#[test]
fn pack_keeps_the_manifest_of_a_finished_component() {
    let pinion = Pinion::default();
    let project = "name = 'lines'\nversion = '3.2.1'\ndescription = 'Counts lines'\nlifetime = 'reused'\n\
                   asks = { files = 'read', hooks = true, storage = true }\nlimits = { fuel = 7000000000, memory-bytes = 33554432 }\n\
                   [build]\nsteps = [['cp', 'source.wasm', 'build/out.wasm']]\noutput = 'build/out.wasm'\n";
    pinion.write("pinion-plugin.toml", project);
    pinion.write("source.wasm", fs::read(guest("guide")).unwrap());
    assert_eq!(run(&pinion, ["plugin", "build", "--out", "lines.wasm"]).code, Some(0));
    let pack = |options: &[&str]| {
        let packed = run(&pinion, ["plugin", "pack", "lines.wasm"].iter().chain(options));
        assert_eq!(packed.code, Some(0), "{packed:?}");
    };
    let info = |plugin: &str| -> Value {
        let info = run(&pinion, ["plugin", "info", plugin, "--json"]);
        serde_json::from_str(&info.stdout).unwrap_or_else(|_| panic!("{info:?}"))
    };
    pack(&["--install"]);
    let installed = info("lines");
    assert_eq!((&installed["version"], &installed["description"]), (&"3.2.1".into(), &"Counts lines".into()));
    assert_eq!(installed["asks"], serde_json::json!(["files=read", "storage", "hooks"]), "{installed:#}");
    assert_eq!(installed["lifetime"], "reused");
    let one = ["--name", "other", "--ask", "files=write", "--limit", "fuel=8000000000", "--plugin-version", "4.0.0"];
    pack(&[&one[..], &["--out", "other.wasm"]].concat());
    let changed = info("./other.wasm");
    assert_eq!((&changed["name"], &changed["version"]), (&"other".into(), &"4.0.0".into()));
    assert_eq!(changed["asks"], serde_json::json!(["files=write", "storage", "hooks"]), "the others stay");
    assert_eq!((&changed["description"], &changed["lifetime"]), (&"Counts lines".into(), &"reused".into()));
    let bytes = fs::read(pinion.workspace().join("other.wasm")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("\"memory-bytes\":33554432") && text.contains("\"fuel\":8000000000"), "limits stay");
    pack(&["--name", "bare", "--no-manifest", "--out", "bare.wasm"]);
    let bare = info("./bare.wasm");
    assert_eq!(
        (&bare["asks"], &bare["version"], &bare["lifetime"]),
        (&serde_json::json!([]), &"0.1.0".into(), &"call".into())
    );
}

#[test]
fn pack_refuses_a_manifest_that_it_cannot_keep() {
    let pinion = Pinion::default();
    let bytes = fs::read(guest("echo")).unwrap();
    let replaced = |from: &str, to: &str| {
        let at = bytes.windows(from.len()).rposition(|window| window == from.as_bytes()).unwrap();
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    };
    pinion.write("odd.wasm", replaced("{\"manifest\":1,\"api\":\"0.1.0\"", "{\"manifest\":7,\"api\":\"0.1.0\""));
    let refused = run(&pinion, ["plugin", "pack", "odd.wasm", "--install"]);
    assert!(refused.code == Some(2) && refused.stderr.contains('7'), "{refused:?}");
    assert!(refused.stderr.contains("hint: ignore it with --no-manifest"), "{refused:?}");
    assert!(!pinion.home().join("plugins/echo.wasm").exists());
}

#[test]
fn pack_writes_nothing_that_does_not_load() {
    let pinion = Pinion::default();
    let file = pinion.write("broken.wasm", fs::read(guest("broken")).unwrap());
    let packed = run(&pinion, ["plugin", "pack", "broken.wasm", "--name", "broken", "--out", "packed.wasm"]);
    assert_eq!(packed.code, Some(1), "{packed:?}");
    assert!(!file.with_file_name("packed.wasm").exists());
    let module = pinion.write("core.wasm", b"\0asm\x01\0\0\0");
    let packed = run(&pinion, ["plugin", "pack", module.to_str().unwrap(), "--name", "core"]);
    assert!(packed.code == Some(2) && packed.stderr.contains("`pinion plugin wit` writes one"), "{packed:?}");
    let checked = run(&pinion, ["plugin", "check", "core.wasm"]);
    assert!(checked.stderr.contains("hint: make it a plugin with: pinion plugin pack FILE --name NAME"), "{checked:?}");
}

#[test]
fn pack_asks_for_servers_of_the_users_choice() {
    let pinion = Pinion::default();
    let file = pinion.write("fetcher.wasm", fs::read(guest("fetcher")).unwrap());
    let packed = run(&pinion, ["plugin", "pack", file.to_str().unwrap(), "--name", "fetcher", "--ask", "http"]);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let info = run(&pinion, ["plugin", "info", file.to_str().unwrap()]);
    assert!(info.stdout.contains("send requests to any server that the user names"), "{info:?}");
    let unknown = run(&pinion, ["plugin", "pack", file.to_str().unwrap(), "--name", "fetcher", "--ask", "https"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("`https` is not a capability"), "{unknown:?}");
}

#[test]
fn failures_are_json_where_results_are() {
    let pinion = Pinion::default();
    let file = guest("echo");
    let echo = file.to_str().unwrap();
    pinion.write("broken/pinion-plugin.toml", "name = 1");
    for (command, part) in [
        (&["build", "nowhere"][..], "no pinion-plugin.toml"),
        (&["build", "broken"], "invalid `"),
        (&["test", "nowhere"], "could not read `"),
        (&["check", "nowhere.wasm"], "nowhere.wasm"),
        (&["call", echo, "nosuch"], "plugin `echo` has no tool `nosuch`"),
        (&["bench", echo, "fail", r#"{"message": "no luck"}"#], "no luck"),
        (&["pack", echo, "--name", "no name!"], "name"),
        (&["new", "9lives"], "invalid plugin name `9lives`"),
        (&["wit", "--package", "broken/pinion-plugin.toml/x.wasm"], "could not write `"),
        (&["watch", "nowhere"], "no directory `"),
    ] {
        let ended = run(&pinion, ["plugin"].iter().chain(command).chain(&["--json"]));
        let failure: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{command:?}: {ended:?}"));
        assert!(failure["error"].as_str().is_some_and(|error| error.contains(part)), "{command:?}: {ended:?}");
        assert!(
            ended.code != Some(0) && failure.get("hint").is_some() && ended.stderr.contains("error: "),
            "{ended:?}"
        );
    }
    // A call that fails has its own result, and no second one.
    let failed = run(&pinion, ["plugin", "call", echo, "fail", r#"{"message": "no luck"}"#, "--json"]);
    let result: Value = serde_json::from_str(&failed.stdout).unwrap_or_else(|_| panic!("{failed:?}"));
    assert!(result["error"].as_str().unwrap().contains("no luck") && result["ledger"].is_object(), "{result}");
}

#[test]
fn tool_that_reads_without_asking_for_files_is_reported() {
    let pinion = Pinion::default();
    let file = pinion.write("echo.wasm", fs::read(guest("echo")).unwrap());
    let file = file.to_str().unwrap();
    assert_eq!(run(&pinion, ["plugin", "pack", file, "--name", "parrot", "--no-manifest"]).code, Some(0));
    let checked = run(&pinion, ["plugin", "check", file]);
    assert!(checked.stdout.contains("but the plugin asks for no files"), "{checked:?}");
    let report: Value = serde_json::from_str(&run(&pinion, ["plugin", "check", file, "--json"]).stdout).unwrap();
    assert!(
        report["tools"][0]["declares"].is_array() && !report["warnings"].as_array().unwrap().is_empty(),
        "{report:#}"
    );
}

/// The cases of a project pass or fail alike for all users, with any grants of the component.
#[test]
fn cases_have_no_grants_but_their_own() {
    let pinion = Pinion::default();
    let project = "name = 'lines'\nversion = '0.1.0'\nasks = { files = 'read' }\n[build]\n\
                   steps = [['cp', 'source.wasm', 'build/out.wasm']]\noutput = 'build/out.wasm'\n";
    pinion.write("pinion-plugin.toml", project);
    pinion.write("source.wasm", fs::read(guest("guide")).unwrap());
    let case = "[[case]]\nname = 'reads nothing'\ntool = 'count_lines'\ninput = { path = 'a.txt' }\n\
                files = { 'a.txt' = 'one' }\nerror = 'denied'\n";
    pinion.write("tests/cases.toml", case);
    for command in [&["build"][..], &["grant", "build/lines.wasm", "files=read"]] {
        assert_eq!(run(&pinion, ["plugin"].iter().chain(command)).code, Some(0), "{command:?}");
    }
    pinion.write("a.txt", "one");
    let called = run(&pinion, ["plugin", "call", "build/lines.wasm", "count_lines", r#"{"path": "a.txt"}"#]);
    assert!(called.stdout.starts_with("1 lines\n"), "{called:?}");
    let tested = run(&pinion, ["plugin", "test"]);
    assert!(tested.stdout.ends_with("1 passed, 0 failed\n"), "{tested:?}");
}

#[test]
fn bench_reports_percentiles() {
    let pinion = Pinion::default();
    let file = guest("echo");
    let bench = ["plugin", "bench", file.to_str().unwrap(), "echo", r#"{"message": "a"}"#, "--json"];
    let benched = run(&pinion, bench.iter().chain(&["--grant", "files=read", "--calls", "5"]));
    let report: Value = serde_json::from_str(&benched.stdout).unwrap_or_else(|_| panic!("{benched:?}"));
    assert_eq!(report["calls"], 5);
    assert!(report["p50"]["time_us"].as_u64() <= report["p95"]["time_us"].as_u64(), "{report:#}");
    assert!(report["p50"]["fuel"].as_u64() > Some(0), "{report:#}");
}

/// Saving a file builds and installs the plugin; a build that fails leaves it as it was.
#[cfg(unix)]
#[test]
fn watch_installs_each_saved_version() {
    use std::io::{BufRead as _, BufReader};
    let pinion = Pinion::default();
    let project = "name = \"parrot\"\nversion = \"0.1.0\"\n[build]\nsteps = [[\"cp\", \"source.wasm\", \"build/out.wasm\"]]\noutput = \"build/out.wasm\"\n";
    pinion.write("pinion-plugin.toml", project);
    pinion.write("source.wasm", fs::read(guest("echo")).unwrap());
    let mut child = pinion.start(["plugin", "watch", "--json"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["version"], "0.1.0");
    pinion.write("pinion-plugin.toml", project.replace("0.1.0", "0.2.0"));
    assert_eq!(next()["version"], "0.2.0");
    pinion.write("source.wasm", "not a component");
    assert!(next()["error"].is_string());
    let info = run(&pinion, ["plugin", "info", "parrot"]);
    assert!(info.stdout.starts_with("parrot 0.2.0\n"), "{info:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}
