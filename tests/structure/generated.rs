//! Generated files are current. `PINION_UPDATE=1` regenerates them.

use pinion_tests::SandboxBuilder;
use std::fs;
use std::path::{Path, PathBuf};

/// The committed components were built from the current sources.
#[test]
fn committed_components_match_their_sources() {
    let record = root().join("plugins/dist/SOURCES");
    assert_current(&record, &sources());
}

/// Each built-in component brings the description that it gives of itself.
#[tokio::test]
async fn committed_descriptions_match_their_components() {
    for name in ["fs", "shell", "task", "todo", "web", "commands", "skills"] {
        let component = root().join(format!("plugins/dist/{name}.wasm"));
        let sandbox = SandboxBuilder::default().file(component).build().await;
        // The cache may describe it already, without its code.
        sandbox.runtime.load_code().await;
        let described = sandbox.runtime.description(name).await.unwrap();
        assert_current(&root().join(format!("plugins/dist/{name}.json")), &format!("{described}\n"));
    }
}

/// Returns a digest for each source file of the built-in components.
fn sources() -> String {
    let mut files = Vec::new();
    for directory in ["plugins", "plugin-sdk/src"] {
        collect(&root().join(directory), &mut files);
    }
    files.push(root().join("plugin-sdk/Cargo.toml"));
    files.sort();
    let line = |file: &PathBuf| {
        let digest = blake3::hash(&fs::read(file).unwrap()).to_hex();
        format!("{digest} {}\n", file.strip_prefix(root()).unwrap().display())
    };
    files.iter().map(line).collect()
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "dist", "proptest-regressions"].contains(&name.as_str()) {
            collect(&path, files);
        } else if [".rs", ".toml", ".lock"].iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn assert_current(file: &Path, expected: &str) {
    if std::env::var_os("PINION_UPDATE").is_some() {
        fs::write(file, expected).unwrap();
    }
    let found = fs::read_to_string(file).unwrap_or_default();
    let name = file.strip_prefix(root()).unwrap().display();
    assert!(found == expected, "`{name}` is out of date: run `plugins/build.sh`");
}
