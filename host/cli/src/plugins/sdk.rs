//! The plugin SDK that this program embeds, for the plugins that it creates.

use crate::files::private::create_directory;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/sdk.rs"));

/// Unpacks the SDK into a directory named after its content and returns its path. An existing directory has that
/// content already.
///
/// # Errors
/// The directory cannot be written.
pub(crate) fn unpack(into: &Path) -> io::Result<PathBuf> {
    let directory = into.join(format!("{}-{}", env!("CARGO_PKG_VERSION"), &digest()[..12]));
    if directory.is_dir() {
        return Ok(directory);
    }
    create_directory(into)?;
    // Unpack beside the destination, so that an incomplete copy is never used.
    let temporary = tempfile::Builder::new().prefix(".sdk-").tempdir_in(into)?;
    for (name, text) in SDK {
        let file = temporary.path().join(name);
        fs::create_dir_all(file.parent().unwrap_or(into))?;
        fs::write(file, text)?;
    }
    match fs::rename(temporary.keep(), &directory) {
        // Another process was faster.
        Err(_) if directory.is_dir() => Ok(directory),
        renamed => renamed.map(|()| directory),
    }
}

fn digest() -> String {
    let mut hasher = blake3::Hasher::new();
    for (name, text) in SDK {
        hasher.update(name.as_bytes()).update(&[0]).update(text.as_bytes()).update(&[0]);
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacked_sdk_is_self_contained() {
        let directory = tempfile::tempdir().unwrap();
        let sdk = unpack(directory.path()).unwrap();
        let manifest = fs::read_to_string(sdk.join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("workspace = true") && manifest.contains("wit-bindgen"), "{manifest}");
        assert!(sdk.join("src/bindings/tools.rs").is_file());
        assert_eq!(unpack(directory.path()).unwrap(), sdk);
    }
}
