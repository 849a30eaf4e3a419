//! The plugin SDK that this program embeds, for the plugins that it creates.

use crate::files::private::create_folder;
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
    let folder = into.join(format!("{}-{}", env!("CARGO_PKG_VERSION"), &digest()[..12]));
    if folder.is_dir() {
        return Ok(folder);
    }
    create_folder(into)?;
    // Unpack beside the destination, so that an incomplete copy is never used.
    let temporary = tempfile::Builder::new().prefix(".sdk-").tempdir_in(into)?;
    for (name, text) in SDK {
        let file = temporary.path().join(name);
        fs::create_dir_all(file.parent().unwrap_or(into))?;
        fs::write(file, text)?;
    }
    match fs::rename(temporary.keep(), &folder) {
        // Another process was faster.
        Err(_) if folder.is_dir() => Ok(folder),
        renamed => renamed.map(|()| folder),
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
    fn the_sdk_stands_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let sdk = unpack(folder.path()).unwrap();
        let manifest = fs::read_to_string(sdk.join("Cargo.toml")).unwrap();
        assert!(!manifest.contains("workspace = true") && manifest.contains("wit-bindgen"), "{manifest}");
        assert!(sdk.join("src/bindings/tools.rs").is_file());
        assert_eq!(unpack(folder.path()).unwrap(), sdk);
    }
}
