//! Embeds the contract with plugins and the files of new projects, and arranges the executable.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed build stops"
)]

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..").canonicalize().unwrap();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    fs::write(out.join("contract.rs"), contract(&root) + &templates(&root, &out)).unwrap();
    // Releases have an archive for each target.
    println!("cargo::rustc-env=PINION_TARGET={}", env::var("TARGET").unwrap());
    arrange(&out);
}

/// Places the functions that a run executes together, and packs relocations, so that a run maps and changes fewer pages.
/// Linkers without these options, and systems whose loader does not know packed relocations (glibc before 2.36), do
/// without. A release records the functions of its own programs and names the file in `PINION_LAYOUT`.
fn arrange(out: &Path) {
    println!("cargo::rerun-if-env-changed=PINION_LAYOUT");
    let recorded = env::var_os("PINION_LAYOUT").map(PathBuf::from);
    let layout =
        recorded.unwrap_or_else(|| PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("layout/run.ld"));
    println!("cargo::rerun-if-changed={}", layout.display());
    // Unoptimised programs have other functions.
    if env::var("CARGO_CFG_TARGET_OS").unwrap() != "linux" || env::var("OPT_LEVEL").unwrap() == "0" {
        return;
    }
    let is_native = env::var("HOST").unwrap() == env::var("TARGET").unwrap();
    let layout = format!("-T{}", layout.display());
    let packed = "-Wl,-z,pack-relative-relocs";
    if linked(out, &layout).is_some() {
        println!("cargo::rustc-link-arg-bin=pinion={layout}");
    }
    if is_native && linked(out, packed).is_some_and(|program| succeeds(&mut Command::new(program))) {
        println!("cargo::rustc-link-arg-bin=pinion={packed}");
    }
}

/// Links an empty program with an option of the linker, in the way that cargo links the command.
fn linked(out: &Path, option: &str) -> Option<PathBuf> {
    let (source, program) = (out.join("empty.rs"), out.join("empty"));
    fs::write(&source, "fn main() {}").unwrap();
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap());
    rustc.arg(&source).arg("-o").arg(&program).arg("--target").arg(env::var_os("TARGET").unwrap());
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.display()));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty())).arg("-C").arg(format!("link-arg={option}"));
    succeeds(&mut rustc).then_some(program)
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Generates lists of the files of the contract, and of its package of hooks, as Rust source.
fn contract(root: &Path) -> String {
    let files = tree(&root.join("wit"), "").into_iter().filter(|(name, _)| name.ends_with(".wit"));
    let (hooks, own): (Vec<_>, Vec<_>) = files.partition(|(name, _)| name.starts_with("hooks/"));
    let hooks = hooks.into_iter().map(|(name, path)| (name["hooks/".len()..].to_owned(), path)).collect();
    let declare = |name, files| format!("pub(crate) static {name}: &[(&str, &str)] = &{};\n", list(files));
    declare("CONTRACT", own) + &declare("HOOKS", hooks)
}

/// The directories that make up a new project in each language, with their places in it.
const TEMPLATES: &[(&str, &[(&str, &str)])] = &[
    ("c", &[("host/cli/templates/c", ""), ("plugin-sdk/c", "pinion/")]),
    ("go", &[("host/cli/templates/go", ""), ("plugin-sdk/go", "")]),
    ("js", &[("host/cli/templates/js", ""), ("plugin-sdk/js", "src/pinion/")]),
    ("python", &[("host/cli/templates/python", ""), ("plugin-sdk/python/pinion", "src/pinion/")]),
    ("rust", &[("host/cli/templates/rust", ""), ("plugin-sdk/src", "pinion/src/")]),
    ("ts", &[("host/cli/templates/ts", ""), ("plugin-sdk/js", "src/pinion/")]),
    ("zig", &[("host/cli/templates/zig", ""), ("plugin-sdk/c", "pinion/"), ("plugin-sdk/zig", "pinion/")]),
];

/// Generates the lists of template files as Rust source.
fn templates(root: &Path, out: &Path) -> String {
    let manifest = out.join("sdk.toml");
    fs::write(&manifest, standalone_manifest(root, &root.join("plugin-sdk"))).unwrap();
    let mut source = "pub(crate) static TEMPLATES: &[(&str, &[(&str, &str)])] = &[\n".to_owned();
    for (language, parts) in TEMPLATES {
        let files = parts.iter().flat_map(|(directory, place)| tree(&root.join(directory), place));
        let manifest = (*language == "rust").then(|| ("pinion/Cargo.toml".to_owned(), manifest.clone()));
        let files = files.chain(manifest).collect();
        writeln!(source, "    ({language:?}, &{}),", list(files)).unwrap();
    }
    source.push_str("];\n");
    source
}

/// Returns the text files below a directory, with their names in a project. Files that only packages on a registry need
/// stay out.
fn tree(directory: &Path, place: &str) -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    collect(directory, &mut files);
    files.sort();
    let is_packaging = |name: &str| place.ends_with("pinion/") && ["README.md", "package.json"].contains(&name);
    let names = files.iter().map(|file| file.strip_prefix(directory).unwrap().to_str().unwrap().to_owned());
    let named = names.zip(files.clone()).filter(|(name, _)| !is_packaging(name) && !name.contains("__pycache__"));
    named.map(|(name, file)| (format!("{place}{name}"), file)).collect()
}

fn list(files: Vec<(String, PathBuf)>) -> String {
    let mut list = "[\n".to_owned();
    for (name, file) in files {
        writeln!(list, "        ({name:?}, include_str!({:?})),", file.to_str().unwrap()).unwrap();
    }
    list + "    ]"
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", directory.display());
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

/// Returns the SDK's manifest with all workspace values filled in.
fn standalone_manifest(root: &Path, directory: &Path) -> String {
    let read = |path: PathBuf| -> toml::Table {
        println!("cargo::rerun-if-changed={}", path.display());
        toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let workspace = read(root.join("Cargo.toml"))["workspace"].as_table().unwrap().clone();
    let mut manifest = read(directory.join("Cargo.toml"));
    manifest.remove("lints");
    manifest.remove("dev-dependencies");
    for (table, source) in [("package", "package"), ("dependencies", "dependencies")] {
        let inherited = workspace[source].as_table().unwrap();
        for (key, value) in manifest[table].as_table_mut().unwrap().iter_mut() {
            let is_inherited = value.get("workspace").and_then(toml::Value::as_bool) == Some(true);
            if is_inherited {
                *value = inherited[key].clone();
            }
        }
    }
    toml::to_string(&manifest).unwrap()
}
