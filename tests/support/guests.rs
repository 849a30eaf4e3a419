//! Where the components are that the tests run.

use std::path::PathBuf;

/// The folder into which `tests/run.sh` puts the built guests and built-in plugins.
///
/// # Panics
/// They were not built.
pub fn guests_folder() -> PathBuf {
    let folder = std::env::var_os("PINION_GUESTS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/guests/components"), PathBuf::from);
    assert!(folder.is_dir(), "no components in `{}`: run `tests/run.sh`, or `tests/build-guests.sh`", folder.display());
    folder
}

/// A component from `tests/guests`.
///
/// # Panics
/// It was not built.
pub fn guest(name: &str) -> PathBuf {
    existing(guests_folder().join(format!("{name}.wasm")))
}

/// A built-in plugin: out of `$PINION_DIST`, as the command embeds it, or as it lies in the repository.
///
/// # Panics
/// It is not there.
pub fn builtin(name: &str) -> PathBuf {
    let folder = std::env::var_os("PINION_DIST")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist"), PathBuf::from);
    existing(folder.join(format!("{name}.wasm")))
}

fn existing(file: PathBuf) -> PathBuf {
    assert!(file.is_file(), "no `{}`: run `tests/build-guests.sh`", file.display());
    file
}
