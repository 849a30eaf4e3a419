//! Arguments of calls that a model could use to try to leave the sandbox.

use super::command::bash_with;
use pinion_agent::ToolExecutor as _;
use pinion_tests::{Pinion, SandboxBuilder, builtin};
use serde_json::{Value, json};

/// Parts of names that an argument would have if it turned off or widened the confinement of a call.
const WIDENING: &[&str] = &[
    "sandbox",
    "confine",
    "danger",
    "unsafe",
    "escalat",
    "privilege",
    "permission",
    "approv",
    "trust",
    "bypass",
    "network",
    "host",
    "allow",
    "writable",
    "readable",
    "grant",
    "mount",
    "root",
    "sudo",
    "user",
    "env",
];
/// The built-in plugins.
const PLUGINS: [&str; 6] = ["commands", "fs", "mcp", "shell", "skills", "task"];

/// Returns the names of all properties of a schema, and whether each object refuses others.
fn properties(schema: &Value, names: &mut Vec<String>, open: &mut Vec<Value>) {
    if let Some(properties) = schema["properties"].as_object() {
        names.extend(properties.keys().cloned());
        open.extend(Some(schema.clone()).filter(|schema| schema["additionalProperties"] != false));
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|inner| properties(inner, names, open)),
        Value::Array(items) => items.iter().for_each(|inner| properties(inner, names, open)),
        _ => {}
    }
}

#[tokio::test]
async fn no_argument_of_a_built_in_tool_widens_the_sandbox() {
    let builder = SandboxBuilder::default();
    let with = |builder: SandboxBuilder, name: &&str| builder.file(builtin(name)).trust(name).catalog(name);
    let sandbox = PLUGINS.iter().fold(builder, with).build().await;
    let definitions = sandbox.runtime.definitions();
    let executing: Vec<&str> =
        definitions.iter().filter(|tool| tool.authority.executes).map(|tool| tool.name.as_str()).collect();
    assert_eq!(executing, ["bash"]);
    for tool in &definitions {
        let (mut names, mut open) = (Vec::new(), Vec::new());
        properties(&tool.input_schema, &mut names, &mut open);
        assert!(open.is_empty(), "`{}` takes arguments that its schema does not name: {open:?}", tool.name);
        let widening = |name: &&String| WIDENING.iter().any(|word| name.to_lowercase().contains(word));
        assert_eq!(names.iter().find(widening), None, "of `{}`", tool.name);
    }
}

#[test]
fn arguments_that_no_schema_names_run_nothing() {
    for name in ["sandbox", "dangerouslyDisableSandbox", "with_escalated_permissions", "network", "env", "writable"] {
        let pinion = Pinion::default();
        let ended = bash_with(&pinion, &json!({ "command": "touch made", name: true }), &[]);
        assert!(ended.stdout.contains("\"is_error\":true") && ended.stdout.contains(name), "{name}: {ended:?}");
        assert!(!pinion.workspace().join("made").exists(), "{name}");
    }
}

/// The working directory is where a command starts, and never a directory that it may write to.
#[test]
fn working_directory_of_a_call_widens_nothing() {
    let pinion = Pinion::default();
    let outside = pinion.write("../other/file", "mine").parent().unwrap().canonicalize().unwrap();
    pinion.write("../.git/HEAD", "ref: refs/heads/main\n");
    pinion.write("sub/file", "");
    std::os::unix::fs::symlink(&outside, pinion.workspace().join("link")).unwrap();
    let around = outside.parent().unwrap();
    let home = pinion.home().canonicalize().unwrap();
    let places = [outside.as_path(), around, std::path::Path::new("/"), "/proc/self/cwd/..".as_ref(), &home];
    let places = places.iter().map(|path| path.display().to_string());
    for place in places.chain(["..", "link", "sub/../..", "../other", "~"].map(str::to_owned)) {
        let command = format!("echo x > new; echo x >> file; echo x > {}/new; echo x > .git/new", outside.display());
        bash_with(&pinion, &json!({ "command": command, "cwd": place }), &[]);
        let left = std::fs::read_dir(&outside).unwrap().count();
        let is_new = ["new", ".git/new"].map(|path| around.join(path).exists() || home.join(path).exists());
        assert_eq!((left, is_new), (1, [false; 2]), "in `{place}`");
        assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "mine", "in `{place}`");
    }
    bash_with(&pinion, &json!({ "command": "echo x > new", "cwd": "sub" }), &[]);
    assert!(pinion.workspace().join("sub/new").exists());
}
