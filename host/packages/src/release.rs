//! Releases of Pinion itself: a signed list of digests, and the archive that it names.

use crate::archive::unpack_release;
use crate::digest::sha256_hex;
use crate::files::PackageFiles;
use crate::signature::{AuthorKey, verify_signature};

/// Name that a signature may be limited to.
const NAME: &str = "pinion";
/// Maximum characters of a version.
const MAX_VERSION: usize = 64;

/// The archive of a release for one target, as a signed list names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedRelease {
    /// Version of the programs in the archive.
    pub version: String,
    /// File name of the archive.
    pub archive: String,
    sha256: String,
}

impl SignedRelease {
    /// Returns the file name of the list for a target. The name of its signature ends with `.minisig` in addition.
    pub fn list_name(target: &str) -> String {
        format!("SHA256SUMS-{target}")
    }

    /// Reads a list in the format of `sha256sum`.
    ///
    /// # Errors
    /// The signature is not the key's, is for another version or has expired, or the list does not name exactly one archive
    /// for the target.
    pub fn read(list: &str, signature: &str, key: &AuthorKey, target: &str, now: u64) -> Result<Self, String> {
        let ending = format!("-{target}.tar.xz");
        let mut archives = list.lines().filter_map(|line| {
            let (sha256, name) = line.split_once("  ")?;
            Some((sha256, name, name.strip_prefix("pinion-")?.strip_suffix(&ending)?))
        });
        let (Some((sha256, archive, version)), None) = (archives.next(), archives.next()) else {
            return Err(format!("the list does not name one archive for {target}"));
        };
        verify_signature(key, list.as_bytes(), signature, (NAME, version), now)?;
        if !is_version(version) {
            return Err(format!("`{}` is not a version", version.escape_debug()));
        }
        Ok(Self { version: version.to_owned(), archive: archive.to_owned(), sha256: sha256.to_owned() })
    }

    /// Returns the files of the archive.
    ///
    /// # Errors
    /// It is not the archive that the list names, is damaged, or has too many or unusable files.
    pub fn unpack(&self, archive: &[u8]) -> Result<PackageFiles, String> {
        if sha256_hex(archive) != self.sha256 {
            return Err(format!("`{}` is not the file that the signed list names", self.archive));
        }
        unpack_release(archive).map_err(|error| error.to_string())
    }
}

/// Returns whether a text is a version that can be a part of a file name.
fn is_version(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    text.len() <= MAX_VERSION && text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(is_plain)
}
