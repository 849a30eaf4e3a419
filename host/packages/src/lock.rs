//! `plugins.lock`: the versions that are installed, and the authority that the user gave each of them.
//!
//! The file is for people to read and for the program alone to write. A seal of its content, keyed with a secret that
//! only the user's own processes can read, reveals changes by other programs. After such a change, no package is loaded
//! until the user accepts the file.

use crate::package::is_package_name;
use pinion_files::open::{open_file, read_limited};
use pinion_files::{AtomicWrite, Durability};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// Maximum bytes of the file, and number of packages, above any legitimate ones.
const MAX_BYTES: u64 = 16 << 20;
const MAX_PACKAGES: usize = 10_000;
/// Versions of a package that are kept.
const KEPT_RELEASES: usize = 2;
/// Versions of a package that are kept for projects besides these.
const KEPT_FOR_PROJECTS: usize = 8;
/// The beginning of the file.
const HEAD: &str =
    "# Written by `pinion plugin add`, `update`, `use` and `remove`. An edit voids the seal.\nversion = 1\nseal = \"";
/// The line that only a file with unfinished work has.
const PENDING: &str = "\npending = ";

/// Work on a package that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PendingWork {
    /// The components of the active version are being put into the plugin directory.
    Activate,
    /// The components are being removed.
    Remove,
}

/// All installed packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PluginLock {
    /// Packages in the order of their names.
    #[serde(default, rename = "package", skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<LockedPackage>,
    /// Keys of authors that the user has seen, by the source that they sign for.
    #[serde(default, rename = "author", skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<KnownAuthor>,
}

/// The key that the releases of a package have been signed with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KnownAuthor {
    /// Name of the package.
    pub package: String,
    /// The public key.
    pub key: String,
}

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LockedPackage {
    /// Name of the package.
    pub name: String,
    /// Digest of the active release; empty if only projects use the package.
    pub active: String,
    /// Work that was begun and has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<PendingWork>,
    /// The releases that are kept, the newest first.
    #[serde(rename = "release")]
    pub releases: Vec<LockedRelease>,
}

/// One version of a package that the user agreed to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LockedRelease {
    /// Version in its manifest.
    pub version: String,
    /// BLAKE3 digest of all files.
    pub digest: String,
    /// The source that it came from.
    pub source: String,
    /// Digest that the source names the release by, such as `sha256:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_digest: Option<String>,
    /// Public key that signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// Time of the installation, in seconds since 1970.
    pub added: u64,
    /// True if it was installed for a project, which may be active nowhere else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_project: bool,
    /// True if it has skills.
    #[serde(default)]
    pub skills: bool,
    /// Directories of prompts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<String>,
    /// File of MCP servers, as earlier versions recorded it. It switched none on.
    #[serde(default, rename = "servers", skip_serializing)]
    pub(crate) former_servers: Option<String>,
    /// Components.
    #[serde(default, rename = "component", skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<LockedComponent>,
    /// MCP servers.
    #[serde(default, rename = "server", skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<LockedServer>,
}

/// An MCP server of a release, as the user agreed to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LockedServer {
    /// Name in the package.
    pub name: String,
    /// Entry in the form of `mcp.json`, as [`crate::PackagedServer`] has it.
    pub entry: String,
    /// Variables of the environment whose values it gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// True if the user agreed to it and did not switch it off.
    #[serde(default)]
    pub enabled: bool,
}

/// A component of a release, with the authority that it asked for and got.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LockedComponent {
    /// Name of the plugin.
    pub name: String,
    /// Path in the package.
    pub path: String,
    /// BLAKE3 digest of its bytes.
    pub digest: String,
    /// Capabilities that it asked for.
    #[serde(default)]
    pub asked: Vec<String>,
    /// Capabilities that the user granted.
    #[serde(default)]
    pub granted: Vec<String>,
}

impl LockedPackage {
    /// Creates a package with one version. `active` is the digest of the active one, empty if none is.
    pub(crate) fn with_release(name: &str, active: &str, release: LockedRelease) -> Self {
        Self { name: name.to_owned(), active: active.to_owned(), pending: None, releases: vec![release] }
    }

    /// Returns the active release.
    pub fn active_release(&self) -> Option<&LockedRelease> {
        self.releases.iter().find(|release| release.digest == self.active)
    }

    /// Adds a release in front and forgets the oldest ones, but not the one that was active.
    pub(crate) fn add(&mut self, mut release: LockedRelease) {
        let before = self.active.clone();
        release.for_project |= self.releases.iter().any(|known| known.digest == release.digest && known.for_project);
        self.active.clone_from(&release.digest);
        self.releases.retain(|known| known.digest != release.digest);
        self.releases.insert(0, release);
        let active = self.active.clone();
        self.forget(
            KEPT_RELEASES,
            |known| !known.for_project,
            |known| known.digest != before && known.digest != active,
        );
    }

    /// Adds a release for projects behind the others, and forgets the oldest ones of this kind.
    pub(crate) fn keep(&mut self, release: LockedRelease) {
        match self.releases.iter_mut().find(|known| known.digest == release.digest) {
            Some(known) => known.for_project = true,
            None => self.releases.push(release),
        }
        let active = self.active.clone();
        let is_kind = |known: &LockedRelease| known.for_project && known.digest != active;
        while self.releases.iter().filter(|known| is_kind(known)).count() > KEPT_FOR_PROJECTS {
            let Some(oldest) = self.releases.iter().position(&is_kind) else { break };
            self.releases.remove(oldest);
        }
    }

    /// Forgets the last releases of a kind until at most `kept` are left, but none that may not go.
    fn forget(
        &mut self,
        kept: usize,
        is_kind: impl Fn(&LockedRelease) -> bool,
        may_go: impl Fn(&LockedRelease) -> bool,
    ) {
        while self.releases.iter().filter(|known| is_kind(known)).count() > kept {
            let Some(old) = self.releases.iter().rposition(|known| is_kind(known) && may_go(known)) else { break };
            self.releases.remove(old);
        }
    }
}

impl LockedRelease {
    /// Returns the MCP server of this name.
    pub fn server(&self, name: &str) -> Option<&LockedServer> {
        self.servers.iter().find(|server| server.name == name)
    }

    /// Returns the component of this name.
    pub fn component(&self, name: &str) -> Option<&LockedComponent> {
        self.components.iter().find(|component| component.name == name)
    }
}

/// A lock file that is not used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Something other than this program changed it.
    #[error("something other than pinion changed it")]
    Edited,
    /// It cannot be read or written, or other users can.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl PluginLock {
    /// Returns the package of this name.
    pub fn package(&self, name: &str) -> Option<&LockedPackage> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// Returns the agreed component of the plugin `name` with these bytes, in any kept release.
    pub fn agreed(&self, name: &str, digest: &str) -> Option<&LockedComponent> {
        let releases = self.packages.iter().flat_map(|package| &package.releases);
        let mut components = releases.filter_map(|release| release.component(name));
        components.find(|component| component.digest == digest)
    }

    /// Returns whether a plugin of this name belongs to a package.
    pub fn manages(&self, name: &str) -> bool {
        self.packages.iter().flat_map(|package| &package.releases).any(|release| release.component(name).is_some())
    }

    /// Returns whether work on a package was begun and has not ended.
    pub fn has_pending(&self) -> bool {
        self.packages.iter().any(|package| package.pending.is_some())
    }

    /// Reads the file and checks its seal. A missing file is empty.
    ///
    /// # Errors
    /// The file is damaged, was edited, or is accessible to other users.
    pub fn read(path: &Path, key: &[u8; 32]) -> Result<Self, LockError> {
        let Some(text) = read_text(path)? else { return Ok(Self::default()) };
        let rest = text.strip_prefix(HEAD).ok_or(LockError::Edited)?;
        let (seal, body) = rest.split_once("\"\n").ok_or(LockError::Edited)?;
        // Not in constant time: the file is next to the key, for the same reader.
        if seal != seal_of(body, key) {
            return Err(LockError::Edited);
        }
        let invalid = |error: toml::de::Error| io::Error::other(error.message().to_owned());
        Ok(toml::from_str(body).map_err(invalid)?)
    }

    /// Returns whether the file names unfinished work, without checking its seal.
    pub(crate) fn may_have_pending(path: &Path) -> bool {
        read_text(path).ok().flatten().is_some_and(|text| text.contains(PENDING))
    }

    /// Returns whether the file may name a release with an MCP server, without parsing it.
    pub(crate) fn may_have_servers(path: &Path) -> bool {
        read_text(path).ok().flatten().is_some_and(|text| text.contains("\n[[package.release.server]]"))
    }

    /// Reads a file whose seal does not matter, to show it to the user.
    pub(crate) fn read_unsealed(path: &Path) -> Result<Self, LockError> {
        let Some(text) = read_text(path)? else { return Ok(Self::default()) };
        let mut table: toml::Table =
            toml::from_str(&text).map_err(|error| io::Error::other(error.message().to_owned()))?;
        table.remove("version");
        table.remove("seal");
        let lock: Self =
            table.try_into().map_err(|error: toml::de::Error| io::Error::other(error.message().to_owned()))?;
        // Names and digests become names of files.
        let is_digest = |digest: &str| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_sound = |package: &LockedPackage| {
            let active = Some(&*package.active).filter(|active| !active.is_empty());
            let mut digests = package.releases.iter().map(|release| &*release.digest).chain(active);
            is_package_name(&package.name) && digests.all(is_digest)
        };
        match lock.packages.iter().find(|package| !is_sound(package)) {
            Some(package) => Err(io::Error::other(format!("the entry `{}` is invalid", package.name)).into()),
            None => Ok(lock),
        }
    }

    /// Replaces the file in one step. The caller holds the lock of the store.
    pub(crate) fn write(&mut self, path: &Path, key: &[u8; 32]) -> Result<(), LockError> {
        if self.packages.len() > MAX_PACKAGES {
            return Err(io::Error::other(format!("more than {MAX_PACKAGES} packages")).into());
        }
        self.packages.sort_by(|one, other| one.name.cmp(&other.name));
        let body = toml::to_string(&self).map_err(io::Error::other)?;
        let text = format!("{HEAD}{}\"\n{body}", seal_of(&body, key));
        AtomicWrite::private().durability(Durability::ContentAndName).replace(path, text.as_bytes())?;
        Ok(())
    }
}

fn seal_of(body: &str, key: &[u8; 32]) -> String {
    blake3::keyed_hash(key, body.as_bytes()).to_hex().to_string()
}

fn read_text(path: &Path) -> io::Result<Option<String>> {
    match open_file(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => check_private(&opened?)?,
    }
    let bytes = read_limited(path, MAX_BYTES)?;
    String::from_utf8(bytes).map(Some).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// Checks that only this user can write or read a file.
#[cfg(unix)]
fn check_private(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    match file.metadata()?.mode() & 0o077 {
        0 => Ok(()),
        _ => Err(io::Error::other("other users can access it (it must have mode 0600)")),
    }
}

#[cfg(not(unix))]
fn check_private(_file: &std::fs::File) -> io::Result<()> {
    Ok(())
}
