//! Digests of files and of sets of files.

use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns the BLAKE3 digest of bytes in hexadecimal, which names content in the store and in grants.
pub fn blake3_hex(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Returns the SHA-256 digest of bytes in hexadecimal, which registries and marketplaces name content by.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes).iter() {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Returns the digest of a set of files. Names and lengths are part of it, so that no two sets have one digest.
pub(crate) fn tree_digest(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"pinion package 1\n");
    for (path, bytes) in files {
        hasher.update(&(path.len() as u64).to_le_bytes());
        hasher.update(path.as_bytes());
        hasher.update(blake3::hash(bytes).as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}
