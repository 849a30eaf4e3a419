//! `pinion plugin`: from an empty directory to a running tool, with the README's commands.

use pinion_tests::{Pinion, guest};
use serde_json::json;

#[test]
fn plugin_in_a_directory_of_its_name_is_the_users() {
    let pinion = Pinion::default();
    let file = pinion.home().join("plugins/greet/greet.wasm");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::copy(guest("greet_one"), &file).unwrap();
    let project = pinion.workspace().join(".pinion/plugins/other/other.wasm");
    std::fs::create_dir_all(project.parent().unwrap()).unwrap();
    std::fs::copy(guest("greet_two"), &project).unwrap();
    let listed = pinion.run(["plugin", "list"]);
    assert!(listed.code == Some(0) && listed.stdout.contains("greet"), "{listed:?}");
    assert!(!listed.stdout.contains("other.wasm") && !listed.stderr.contains("other.wasm"), "{listed:?}");
    let named = pinion.run(["plugin", "info", file.to_str().unwrap()]);
    assert!(named.code == Some(0) && named.stdout.contains("greet.wasm (user directory)"), "{named:?}");
}

#[test]
fn names_that_a_plugin_lost_are_shown() {
    let pinion = Pinion::default();
    for name in ["collides", "echo"] {
        let file = pinion.home().join(format!("plugins/{name}.wasm"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::copy(guest(name), &file).unwrap();
    }
    let parsed = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&pinion.run(arguments).stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    };
    let lost = "tool `echo`, whose name plugin `collides` uses, or one like it";
    let listed = pinion.run(["plugin", "list"]);
    assert!(listed.stdout.contains(&format!("! left out: {lost}")), "{listed:?}");
    let info = pinion.run(["plugin", "info", "echo"]);
    assert!(info.stdout.contains(&format!("left out     {lost}")), "{info:?}");
    let listed = parsed(&["plugin", "list", "--json"]);
    let echo = listed["plugins"].as_array().unwrap().iter().find(|plugin| plugin["name"] == "echo").unwrap();
    assert_eq!(echo["left_out"], json!([lost]));
    assert_eq!((&echo["origin"], &echo["lifetime"]), (&json!("user directory"), &json!("call")));
    assert_eq!((&listed["not_loaded"], &listed["notices"]), (&json!([]), &json!([])));
    assert_eq!(&parsed(&["plugin", "info", "echo", "--json"]), echo);
    let fs = parsed(&["plugin", "info", "fs", "--json"]);
    let files = fs["capabilities"].as_array().unwrap().iter().find(|capability| capability["name"] == "files").unwrap();
    assert!(files["asks"] == "write files" && files["granted"].is_string(), "{files}");
    assert!(fs["origin"] == "built-in" && fs["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "read"));
    let unknown = parsed(&["plugin", "info", "nothing", "--json"]);
    assert!(unknown["error"].as_str().unwrap().contains("nothing") && unknown["hint"].is_string(), "{unknown}");
    let examined = pinion.run(["doctor"]);
    assert!(examined.stdout.contains(&format!("plugin echo was loaded without the {lost}")), "{examined:?}");
}

#[test]
fn plugin_is_created_built_checked_and_called() {
    let pinion = Pinion::default();
    pinion.write("text.txt", "one two three");
    let made = pinion.run(["plugin", "new", "word-count"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let source = std::fs::read_to_string(pinion.workspace().join("word-count/src/lib.rs")).unwrap();
    let readme = include_str!("../../README.md").split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(source.ends_with(&format!("\n\n{readme}")), "the README has another plugin:\n{source}");

    let built = pinion.run(["plugin", "build", "word-count"]);
    assert_eq!(built.code, Some(0), "{built:?}");
    let component = pinion.workspace().join("word-count/target/pinion/word-count.wasm");
    let size = component.metadata().unwrap().len();
    assert!(size <= 196 * 1024, "{size} bytes");

    let file = component.to_str().unwrap();
    let checked = pinion.run(["plugin", "check", file]);
    assert!(checked.code == Some(0) && checked.stdout.ends_with("ok\n"), "{checked:?}");
    assert!(checked.stdout.contains("word_count (reads files)"), "{checked:?}");

    let arguments = json!({ "path": "text.txt" }).to_string();
    let denied = pinion.run(["plugin", "call", file, "word_count", &arguments]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    assert!(denied.stderr.contains("[plugins.word-count.grants] files"), "{denied:?}");
    assert!(denied.stderr.contains("--grant files=read"), "{denied:?}");
    let called = pinion.run(["plugin", "call", file, "word_count", &arguments, "--grant", "files=read"]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "3 words\n"), "{called:?}");
    assert!(called.stderr.contains("word-count #1") && called.stderr.contains("13 B read"), "{called:?}");

    let installed = pinion.run(["plugin", "build", "word-count", "--install"]);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    let command = "pinion plugin grant word-count files=read";
    assert!(installed.stderr.contains(command), "{installed:?}");
    for arguments in [&["plugin", "list"][..], &["plugin", "info", "word-count"]] {
        let shown = pinion.run(arguments);
        assert!(shown.stdout.contains(command), "{shown:?}");
    }
    pinion.config("[plugins.word-count.grants]\nfiles = { \".\" = \"read\" }\n");
    let called = pinion.run(["plugin", "call", "word-count", "word_count", &arguments]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "3 words\n"), "{called:?}");

    // A rebuild by the user keeps the grants; a change by anyone else loses them.
    pinion.write("word-count/src/lib.rs", source.replace(" words", " words in it"));
    assert_eq!(pinion.run(["plugin", "build", "word-count", "--install"]).code, Some(0));
    let called = pinion.run(["plugin", "call", "word-count", "word_count", &arguments]);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "3 words in it\n"), "{called:?}");
    let mut changed = std::fs::read(&component).unwrap();
    changed.extend([0, 2, 1, b'x']);
    std::fs::write(pinion.home().join("plugins/word-count.wasm"), changed).unwrap();
    let called = pinion.run(["plugin", "call", "word-count", "word_count", &arguments]);
    assert!(called.code == Some(1) && called.stderr.contains("has changed since it was granted"), "{called:?}");
    let listed = pinion.run(["plugin", "list"]);
    assert!(listed.stdout.contains("word-count") && listed.stdout.contains("built-in"), "{listed:?}");
}

#[test]
fn invalid_name_and_existing_directory_are_rejected() {
    let pinion = Pinion::default();
    let ended = pinion.run(["plugin", "new", "../x"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("invalid plugin name"), "{ended:?}");
    pinion.write("taken/a.txt", "x");
    let ended = pinion.run(["plugin", "new", "taken"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("already exists"), "{ended:?}");
}

#[test]
fn pack_adds_a_manifest_to_a_foreign_component() {
    let pinion = Pinion::default();
    let file = pinion.write("echo.wasm", std::fs::read(guest("echo")).unwrap());
    let file = file.to_str().unwrap();
    let packed =
        pinion.run(["plugin", "pack", file, "--name", "parrot", "--description", "Says it again", "--ask", "process"]);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let info = pinion.run(["plugin", "info", file]);
    assert!(info.stdout.starts_with("parrot 0.1.0\n  about        Says it again"), "{info:?}");
    assert!(info.stdout.contains("run programs: not granted"), "{info:?}");
}

#[test]
fn unknown_plugin_is_reported() {
    let pinion = Pinion::default();
    let ended = pinion.run(["plugin", "info", "nothing"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("fs, shell, task, todo, web, commands"), "{ended:?}");
    let ended = pinion.run(["plugin", "call", "fs", "raed", "{}"]);
    assert!(
        ended.code == Some(2) && ended.stderr.contains("its tools are: read, write, edit, list, find, search\n"),
        "{ended:?}"
    );
    // A tool of another plugin is not a tool of this one.
    let ended = pinion.run(["plugin", "call", "shell", "read", "{}"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("its tools are: bash\n"), "{ended:?}");
    let ended = pinion.run(["plugin", "call", "fs", "read", "{path}"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("invalid JSON"), "{ended:?}");
    let ended = pinion.run(["plugin", "check", "nothing.wasm"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("nothing.wasm"), "{ended:?}");
}

#[test]
fn build_in_the_wrong_directory_names_the_right_one() {
    let pinion = Pinion::default();
    let ended = pinion.run(["plugin", "build"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("pinion plugin new NAME"), "{ended:?}");
    assert_eq!(pinion.run(["plugin", "new", "hello"]).code, Some(0));
    let ended = pinion.run(["plugin", "build"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("pinion plugin build hello"), "{ended:?}");
}
