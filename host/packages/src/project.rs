//! `.pinion/plugins.toml`: the packages that a project names, each with the digest of its content.
//!
//! The file is part of the project's content, so it has no effect until the user trusts the project. It decides which
//! versions are loaded in the project, and installs nothing: the user agrees to each version that is not installed.

use crate::package::is_package_name;
use serde::{Deserialize, Serialize};

/// Maximum packages of a project.
const MAX_PACKAGES: usize = 256;
/// Maximum bytes of a source or a version.
const MAX_TEXT_BYTES: usize = 2_048;
/// The beginning of the file.
const HEAD: &str = "# Packages of this project. Written by `pinion plugin add --project`.\n\n";

/// One version of a package that a project uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectPackage {
    /// Name of the package.
    pub name: String,
    /// The source that has it. A path begins at the directory of the project.
    pub source: String,
    /// Version in its manifest.
    pub version: String,
    /// BLAKE3 digest of all files, in hexadecimal.
    pub digest: String,
}

/// All packages of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectPackages {
    /// Packages in the order of the file.
    #[serde(default, rename = "plugin")]
    pub packages: Vec<ProjectPackage>,
}

impl ProjectPackages {
    /// Parses the file.
    ///
    /// # Errors
    /// It is invalid, or a row is: the text names the row.
    pub fn parse(text: &str) -> Result<Self, String> {
        let packages: Self = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if packages.packages.len() > MAX_PACKAGES {
            return Err(format!("it names more than {MAX_PACKAGES} plugins"));
        }
        for (at, package) in packages.packages.iter().enumerate() {
            package.check().map_err(|problem| format!("row {}: {problem}", at + 1))?;
            if packages.packages[..at].iter().any(|other| other.name == package.name) {
                return Err(format!("row {}: it names `{}` twice", at + 1, package.name));
            }
        }
        Ok(packages)
    }

    /// Adds a package in place of a row of its name.
    pub fn set(&mut self, package: ProjectPackage) {
        match self.packages.iter_mut().find(|known| known.name == package.name) {
            Some(known) => *known = package,
            None => self.packages.push(package),
        }
    }

    /// Returns the text of the file.
    ///
    /// # Errors
    /// There are too many packages.
    pub fn to_text(&self) -> Result<String, String> {
        if self.packages.len() > MAX_PACKAGES {
            return Err(format!("it would name more than {MAX_PACKAGES} plugins"));
        }
        toml::to_string(self).map(|rows| format!("{HEAD}{rows}")).map_err(|error| error.to_string())
    }
}

impl ProjectPackage {
    fn check(&self) -> Result<(), String> {
        if !is_package_name(&self.name) {
            return Err(format!("`{}` is not the name of a package", self.name.escape_debug()));
        }
        for (key, text) in [("source", &self.source), ("version", &self.version)] {
            if text.is_empty() || text.len() > MAX_TEXT_BYTES || text.contains(char::is_control) {
                return Err(format!("`{key}` of `{}` is empty, too long, or has invisible characters", self.name));
            }
        }
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if self.digest.len() != 64 || !self.digest.bytes().all(is_digit) {
            return Err(format!("`digest` of `{}` is not 64 hexadecimal digits", self.name));
        }
        Ok(())
    }
}
