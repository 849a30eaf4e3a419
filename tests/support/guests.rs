//! Paths of the components under test.

use std::path::PathBuf;

/// Returns the directory into which `tests/run.sh` puts built guests and built-in plugins.
///
/// # Panics
/// The directory does not exist.
pub fn guests_directory() -> PathBuf {
    let directory = std::env::var_os("PINION_GUESTS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/guests/components"), PathBuf::from);
    assert!(
        directory.is_dir(),
        "no components in `{}`: run `tests/run.sh`, or `tests/build-guests.sh`",
        directory.display()
    );
    directory
}

/// Returns a component from `tests/guests`.
///
/// # Panics
/// The component was not built.
pub fn guest(name: &str) -> PathBuf {
    existing(guests_directory().join(format!("{name}.wasm")))
}

/// Returns an example in Rust, from `examples/plugins`.
///
/// # Panics
/// The component was not built.
pub fn example(name: &str) -> PathBuf {
    existing(guests_directory().join(format!("examples/{name}.wasm")))
}

/// Returns a built-in plugin from `$PINION_DIST`, like the command embeds it, or from the repository.
///
/// # Panics
/// The plugin does not exist.
pub fn builtin(name: &str) -> PathBuf {
    let directory = std::env::var_os("PINION_DIST")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist"), PathBuf::from);
    existing(directory.join(format!("{name}.wasm")))
}

fn existing(file: PathBuf) -> PathBuf {
    assert!(file.is_file(), "no `{}`: run `tests/build-guests.sh`", file.display());
    file
}
