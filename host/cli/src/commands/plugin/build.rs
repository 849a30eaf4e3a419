//! `pinion plugin build`: runs cargo, then strips, checks and installs the component.

use crate::base::Base;
use crate::commands::plugin::{binary, consent, show};
use crate::failure::{Failure, Result};
use crate::files::private::create_directory;
use crate::output::bytes;
use crate::output::{note, print, text};
use pinion_plugin_runtime::{Inspection, read_component};
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "wasm32-wasip2";

pub(crate) async fn run(base: &Base, directory: &Path, out: Option<PathBuf>, install: bool) -> Result<()> {
    let directory = if directory == Path::new(".") { base.workspace.clone() } else { base.workspace.join(directory) };
    let built = cargo(&directory)?;
    let component =
        read_component(&built).map_err(|error| Failure::failed(format!("`{}`", built.display())).because(error))?;
    let inspection =
        Inspection::of(&component).map_err(|error| Failure::failed(format!("`{}`", built.display())).because(error))?;
    let name = &inspection.manifest.name;
    let component = binary::stripped(&component).map_err(Failure::failed)?;
    let write = |file: &Path| {
        put(file, &component).map_err(|e| Failure::failed(format!("could not write `{}`: {e}", file.display())))?;
        consent::follow(base, file, name, &blake3::hash(&component).to_hex())
    };
    // Checked before it gets to where a running pinion loads it.
    let own = directory.join("target/pinion").join(format!("{name}.wasm"));
    write(&own)?;
    let checked = show::examine(base, &own).await?;
    let file = match (install, out) {
        (true, _) => base.paths.plugins().join(format!("{name}.wasm")),
        (false, Some(out)) => base.workspace.join(out),
        (false, None) => own.clone(),
    };
    if file != own {
        write(&file)?;
    }
    print(&text!("{}, {}\n{}", file, bytes(component.len() as u64), checked.warnings))?;
    if install {
        let (_, info) = show::find(base, name).await?;
        if let Some(command) = show::grant_command(&info) {
            note(&text!("plugin `{}` is not granted what it asks for; to grant it: {}", name, command));
        }
    }
    Ok(())
}

/// Replaces a file in one step, so that a running pinion never loads half of it.
fn put(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    create_directory(directory)?;
    let mut builder = tempfile::Builder::new();
    // Ordinary permissions, subject to the umask; a temporary file would be private.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut temporary = builder.tempfile_in(directory)?;
    io::Write::write_all(&mut temporary, bytes)?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
}

/// Builds the package in a directory and returns the path of its component.
fn cargo(directory: &Path) -> Result<PathBuf> {
    if !directory.join("Cargo.toml").is_file() {
        let failure = Failure::usage(format!("no Cargo.toml in `{}`", directory.display()));
        return Err(match packages_in(directory).as_slice() {
            [] => failure.hint("create a plugin with: pinion plugin new NAME"),
            names => failure.hint(format!("name the directory of the plugin: pinion plugin build {}", names.join("|"))),
        });
    }
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

/// Returns the names of the directories in `directory` that have a package.
fn packages_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let packages = entries.filter(|entry| entry.path().join("Cargo.toml").is_file());
    let mut names: Vec<String> = packages.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns whether the compiler has the standard library for a target, as far as it says so.
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
