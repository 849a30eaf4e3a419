//! Embeds the built-in components.
//!
//! `PINION_DIST` replaces `plugins/dist` as the directory of built components, so that tests can run fresh builds.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed build stops")]

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../..").canonicalize().unwrap();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    fs::write(out.join("descriptions.rs"), descriptions(&components(&root))).unwrap();
}

/// Returns the directory of the components.
fn components(root: &Path) -> PathBuf {
    println!("cargo::rerun-if-env-changed=PINION_DIST");
    let dist = env::var_os("PINION_DIST").map_or_else(|| root.join("plugins/dist"), PathBuf::from);
    assert!(dist.is_dir(), "no built-in components in `{}`: run `plugins/build.sh`", dist.display());
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rustc-env=PINION_DIST={}", dist.display());
    dist
}

/// Generates a constant with the digest of each built-in plugin, which would take a tenth of each start, and with its
/// description. Freshly built components have no description.
fn descriptions(dist: &Path) -> String {
    let mut constants = String::new();
    for name in ["fs", "shell", "task", "todo", "web", "commands", "mcp", "openapi", "skills"] {
        let file = dist.join(format!("{name}.json"));
        let description = match file.is_file() {
            true => format!("Some(include_str!({:?}))", file.to_str().unwrap()),
            false => "None".to_owned(),
        };
        let digest = blake3::hash(&fs::read(dist.join(format!("{name}.wasm"))).unwrap());
        let name = name.to_uppercase();
        writeln!(constants, "const {name}: (&str, Option<&str>) = (\"{digest}\", {description});").unwrap();
    }
    constants
}
