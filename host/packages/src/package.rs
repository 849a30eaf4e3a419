//! A package that was read completely: its manifest, its components and its other content.

use crate::digest::blake3_hex;
use crate::files::PackageFiles;
use crate::hooks::PackagedHook;
use crate::layout::{Layout, read_layout};
use crate::servers::PackagedServer;
use std::io;

/// Reads the description that a component carries, without compiling or running it.
pub trait ComponentReader {
    /// Returns the facts about a component in the file `path`.
    ///
    /// # Errors
    /// The bytes are not a plugin for this host.
    fn read(&self, path: &str, bytes: &[u8]) -> Result<ComponentFacts, String>;

    /// Returns whether people could confuse two names.
    fn is_alike(&self, one: &str, other: &str) -> bool;

    /// Returns whether no package may claim a name.
    fn is_reserved(&self, name: &str) -> bool;
}

/// Facts about a component that its binary states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentFacts {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: String,
    /// Description in one line.
    pub description: String,
    /// Capabilities that it asks for, as words of the command line.
    pub asks: Vec<String>,
    /// The capabilities among them that a grant can name as they are.
    pub grants: Vec<String>,
}

/// A component of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedComponent {
    /// Path in the package.
    pub path: String,
    /// BLAKE3 digest of its bytes.
    pub digest: String,
    /// Facts about it.
    pub facts: ComponentFacts,
}

/// A complete, checked package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// Version of the package.
    pub version: String,
    /// Description in one line.
    pub description: String,
    /// All files.
    pub files: PackageFiles,
    /// Digest of all files.
    pub digest: String,
    /// Components in the order of their paths.
    pub components: Vec<PackagedComponent>,
    /// True if it has skills.
    pub has_skills: bool,
    /// Directories of prompts.
    pub prompts: Vec<String>,
    /// Its MCP servers.
    pub servers: Vec<PackagedServer>,
    /// Its hooks for other programs, which are not used.
    pub hooks: Vec<PackagedHook>,
    /// Parts of the package that are not used, with the reason.
    pub notices: Vec<String>,
}

/// The reason why a package is refused.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A path that leads out of the package, or that not every file system can have.
    #[error("`{path}` is not a plain path")]
    BadPath {
        /// The path.
        path: String,
    },
    /// Two paths that are one file on some system.
    #[error("`{one}` and `{other}` collide")]
    Collision {
        /// The path that was there first.
        one: String,
        /// The other one.
        other: String,
    },
    /// A link, a pipe or a device.
    #[error("`{path}` is a link or a special file")]
    NotAFile {
        /// The path.
        path: String,
    },
    /// More files or bytes than a package may have.
    #[error("has more files or bytes than a package may have")]
    TooLarge,
    /// A file that cannot be read.
    #[error("could not read `{path}`")]
    Unreadable {
        /// The path.
        path: String,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// A damaged archive.
    #[error("damaged archive: {0}")]
    Archive(&'static str),
    /// A manifest that does not follow its format.
    #[error("`{path}`: {problem}")]
    Manifest {
        /// The file.
        path: String,
        /// The violation.
        problem: String,
    },
    /// A component that this host cannot load.
    #[error("`{path}`: {problem}")]
    Component {
        /// The file.
        path: String,
        /// The reason.
        problem: String,
    },
    /// Nothing to install.
    #[error("contains no component, skill, prompt or MCP server")]
    Empty,
    /// A name that another part of the program has.
    #[error("`{name}` is like the name of a built-in plugin")]
    ReservedName {
        /// The name.
        name: String,
    },
    /// Components of one package that people could confuse.
    #[error("two components are called `{name}`")]
    SameName {
        /// The name.
        name: String,
    },
}

impl Package {
    /// Reads a package. `fallback` names one without a manifest.
    ///
    /// # Errors
    /// The files are no package, or a part of it breaks the rules. Then nothing of it is used.
    pub fn read(files: PackageFiles, fallback: &str, reader: &dyn ComponentReader) -> Result<Self, PackageError> {
        let Layout { name, version, description, components, has_skills, prompts, servers, hooks, notices } =
            read_layout(&files)?;
        let components = components.into_iter().map(|path| read_component(&files, path, reader));
        let components: Vec<PackagedComponent> = components.collect::<Result<_, _>>()?;
        for (at, component) in components.iter().enumerate() {
            let own = &component.facts.name;
            if reader.is_reserved(own) {
                return Err(PackageError::ReservedName { name: own.clone() });
            }
            if components[..at].iter().any(|other| reader.is_alike(&other.facts.name, own)) {
                return Err(PackageError::SameName { name: own.clone() });
            }
        }
        if components.is_empty() && !has_skills && prompts.is_empty() && servers.is_empty() {
            return Err(PackageError::Empty);
        }
        let only = if let [only] = &components[..] { Some(&only.facts) } else { None };
        let name = name.or_else(|| only.map(|facts| facts.name.clone())).unwrap_or_else(|| fallback.to_owned());
        if !is_package_name(&name) {
            return Err(PackageError::Manifest {
                path: "package".to_owned(),
                problem: format!("`{}` is not a valid name", name.escape_debug()),
            });
        }
        if reader.is_reserved(&name) {
            return Err(PackageError::ReservedName { name });
        }
        let version = version.or_else(|| only.map(|facts| facts.version.clone())).unwrap_or_else(|| "0.0.0".to_owned());
        let description = description.or_else(|| only.map(|facts| facts.description.clone())).unwrap_or_default();
        let digest = files.digest();
        Ok(Self { name, version, description, files, digest, components, has_skills, prompts, servers, hooks, notices })
    }
}

fn read_component(
    files: &PackageFiles,
    path: String,
    reader: &dyn ComponentReader,
) -> Result<PackagedComponent, PackageError> {
    let bytes = files.get(&path).unwrap_or_default();
    let facts = reader.read(&path, bytes);
    let facts = facts.map_err(|problem| PackageError::Component { path: path.clone(), problem })?;
    Ok(PackagedComponent { digest: blake3_hex(bytes), path, facts })
}

/// Returns whether a word can name a package: 1 to 64 of `a-z A-Z 0-9 _ - .`, with a letter or digit at both ends.
pub(crate) fn is_package_name(name: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    (1..=64).contains(&name.len())
        && is_end(bytes.first())
        && is_end(bytes.last())
        && !name.contains("..")
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte))
}
