//! Builds plugins in Rust with cargo.

use pinion_app::failure::{Failure, Result};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "wasm32-wasip2";

/// Builds the package in a directory and returns the path of its component.
///
/// # Errors
/// Cargo is missing or fails, or the package does not build a component.
pub fn build(directory: &Path) -> Result<PathBuf> {
    let target = env::var("GUEST_TARGET").unwrap_or_else(|_| TARGET.to_owned());
    let program = env::var_os("GUEST_CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(&program);
    command
        .args(["build", "--release", "--target", &target, "--message-format", "json-render-diagnostics"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if let Some(rustc) = env::var_os("GUEST_RUSTC") {
        command.env("RUSTC", rustc);
    }
    let output = command.output().map_err(|error| {
        Failure::failed(format!("could not run `{}`", program.to_string_lossy()))
            .because(error)
            .hint("install Rust from https://rustup.rs")
    })?;
    if !output.status.success() {
        let failure = Failure::failed("cargo failed to build the plugin");
        return Err(match has_target(&target) {
            true => failure,
            false => failure.hint(format!("install the standard library for it: rustup target add {target}")),
        });
    }
    artifact(&String::from_utf8_lossy(&output.stdout), directory)
}

/// Returns whether the compiler says that it has the standard library for a target.
fn has_target(target: &str) -> bool {
    let rustc = env::var_os("GUEST_RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let printed = Command::new(rustc).args(["--print", "target-libdir", "--target", target]).output();
    printed.is_ok_and(|printed| {
        printed.status.success() && Path::new(String::from_utf8_lossy(&printed.stdout).trim_end()).is_dir()
    })
}

/// Finds the component in cargo's messages.
fn artifact(messages: &str, directory: &Path) -> Result<PathBuf> {
    let files = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let files = message.get("filenames")?.as_array()?.iter().filter_map(|file| file.as_str().map(str::to_owned));
        files.into_iter().find(|file| file.ends_with(".wasm"))
    });
    files.map(PathBuf::from).ok_or_else(|| {
        Failure::usage(format!("`{}` does not build a component", directory.display()))
            .hint("add `crate-type = [\"cdylib\"]` to `[lib]` in its Cargo.toml")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_is_the_last_wasm_file_that_cargo_reports() {
        let messages = "{\"reason\":\"compiler-artifact\",\"filenames\":[\"/t/libserde.rlib\"]}\nnoise\n\
                        {\"reason\":\"compiler-artifact\",\"filenames\":[\"/t/a.rlib\",\"/t/a.wasm\"]}\n{}";
        assert_eq!(artifact(messages, Path::new("f")).unwrap(), Path::new("/t/a.wasm"));
        assert!(artifact("", Path::new("f")).unwrap_err().to_string().contains("crate-type"));
    }
}
