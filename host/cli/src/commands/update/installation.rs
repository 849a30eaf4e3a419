//! The installation of the running program: an unpacked archive, or files of a package manager.

use pinion_files::open::read_limited;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Maximum bytes of a package manager's list of files.
const MAX_LIST: u64 = 4 << 20;

/// Directories that only package managers write to.
const SYSTEM: &[&str] = &["usr/bin", "usr/sbin", "usr/lib", "usr/libexec", "bin", "nix", "gnu", "snap", "opt/homebrew"];

/// A package manager that owns the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackageManager {
    /// Name for messages.
    pub(super) name: &'static str,
    /// Command that updates the program.
    pub(super) remedy: &'static str,
}

/// The way in which a program was installed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Installation {
    /// Files of an archive in this directory.
    Unpacked(PathBuf),
    /// Files of a package manager, which would notice or undo a change.
    Managed(PackageManager),
}

impl Installation {
    /// Finds the installation of a program, whose path has no links. `root` is the root of the file system.
    pub(super) fn for_program(program: &Path, root: &Path) -> Self {
        let directory = program.parent().unwrap_or(root);
        let found = built(directory)
            .or_else(|| by_cargo(directory))
            .or_else(|| by_npm(program))
            .or_else(|| by_python(directory))
            .or_else(|| by_dpkg(program, root))
            .or_else(|| by_system(program, root));
        found.map_or_else(|| Self::Unpacked(directory.to_owned()), Self::Managed)
    }
}

/// The target directory of a build.
fn built(directory: &Path) -> Option<PackageManager> {
    let manager =
        PackageManager { name: "a build of the sources", remedy: "git pull && cargo build --release --locked" };
    directory.join(".fingerprint").is_dir().then_some(manager)
}

fn by_cargo(directory: &Path) -> Option<PackageManager> {
    let list = read_limited(&directory.parent()?.join(".crates.toml"), MAX_LIST).ok()?;
    let manager = PackageManager { name: "cargo", remedy: "git pull && cargo install --path host/cli --locked" };
    String::from_utf8_lossy(&list).contains("\"pinion-cli ").then_some(manager)
}

fn by_npm(program: &Path) -> Option<PackageManager> {
    let manager = PackageManager { name: "npm", remedy: "npm install --global pinion-agent@latest" };
    has_component(program, "node_modules").then_some(manager)
}

/// An environment, or a user's or system's directory of Python.
fn by_python(directory: &Path) -> Option<PackageManager> {
    let libraries = directory.parent()?.join("lib");
    let versions = std::fs::read_dir(libraries).ok()?.flatten().map(|entry| entry.path());
    let mut packages = versions.flat_map(|version| ["site-packages", "dist-packages"].map(|name| version.join(name)));
    let is_ours = |name: &OsStr| name.to_string_lossy().starts_with("pinion_agent-");
    let is_installed = packages.any(|path| {
        std::fs::read_dir(path)
            .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|e| is_ours(&e.file_name()))))
    });
    let manager = match () {
        () if has_component(directory, "uv") => PackageManager { name: "uv", remedy: "uv tool upgrade pinion-agent" },
        () if has_component(directory, "pipx") => PackageManager { name: "pipx", remedy: "pipx upgrade pinion-agent" },
        () => PackageManager { name: "pip", remedy: "pip install --upgrade pinion-agent" },
    };
    is_installed.then_some(manager)
}

fn by_dpkg(program: &Path, root: &Path) -> Option<PackageManager> {
    let list = read_limited(&root.join("var/lib/dpkg/info/pinion.list"), MAX_LIST).ok()?;
    let path = Path::new("/").join(program.strip_prefix(root).ok()?);
    let is_listed = String::from_utf8_lossy(&list).lines().any(|line| Path::new(line) == path);
    let manager = PackageManager {
        name: "dpkg",
        remedy: "sudo apt install ./pinion_VERSION_ARCHITECTURE.deb, with the new release's file",
    };
    is_listed.then_some(manager)
}

fn by_system(program: &Path, root: &Path) -> Option<PackageManager> {
    let is_system = SYSTEM.iter().any(|directory| program.starts_with(root.join(directory)));
    let manager =
        PackageManager { name: "the system's package manager", remedy: "the package manager that installed it" };
    (is_system || has_component(program, "Cellar")).then_some(manager)
}

fn has_component(path: &Path, name: &str) -> bool {
    path.components().any(|component| component.as_os_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    /// Returns the manager of a program at a path, in a root with these files.
    fn manager(program: &str, files: &[(&str, &str)]) -> Option<&'static str> {
        let root = TempDir::new().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        match Installation::for_program(&root.path().join(program), root.path()) {
            Installation::Managed(manager) => Some(manager.name),
            Installation::Unpacked(directory) => {
                assert_eq!(directory, root.path().join(program).parent().unwrap());
                None
            }
        }
    }

    type InstalledFiles = Vec<(String, &'static str)>;

    #[test]
    fn each_package_manager_is_recognized() {
        let python = "lib/python3.12/site-packages/pinion_agent-0.1.0.dist-info/RECORD";
        let list = ("var/lib/dpkg/info/pinion.list", "/usr/bin\n/usr/bin/pinion\n");
        let cases: &[(&str, &str, InstalledFiles)] = &[
            (
                "a build of the sources",
                "src/target/release/pinion",
                vec![("src/target/release/.fingerprint/a".into(), "")],
            ),
            ("cargo", "h/.cargo/bin/pinion", vec![("h/.cargo/.crates.toml".into(), "\"pinion-cli 0.1.0 (x)\" = []")]),
            ("npm", "usr/local/lib/node_modules/pinion-agent/bin/pinion", vec![]),
            ("uv", "h/uv/tools/pinion-agent/bin/pinion", vec![(format!("h/uv/tools/pinion-agent/{python}"), "")]),
            ("pipx", "h/pipx/venvs/p/bin/pinion", vec![(format!("h/pipx/venvs/p/{python}"), "")]),
            ("pip", "h/.local/bin/pinion", vec![(format!("h/.local/{python}"), "")]),
            ("dpkg", "usr/bin/pinion", vec![(list.0.into(), list.1)]),
            ("the system's package manager", "usr/bin/pinion", vec![]),
            ("the system's package manager", "home/linuxbrew/Cellar/pinion/1/bin/pinion", vec![]),
            ("the system's package manager", "nix/store/x/bin/pinion", vec![]),
        ];
        for (expected, program, files) in cases {
            let files: Vec<(&str, &str)> = files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
            assert_eq!(manager(program, &files), Some(*expected), "{program}");
        }
    }

    #[test]
    fn other_places_have_an_unpacked_archive() {
        assert_eq!(manager("opt/pinion/pinion", &[]), None);
        assert_eq!(manager("usr/local/bin/pinion", &[("var/lib/dpkg/info/pinion.list", "/usr/bin/pinion\n")]), None);
        let other = [("h/.cargo/.crates.toml", "\"ripgrep 14.0.0 (x)\" = []")];
        assert_eq!(manager("h/.cargo/bin/pinion", &other), None);
        let library = [("h/.local/lib/python3.12/site-packages/other-1.dist-info/RECORD", "")];
        assert_eq!(manager("h/.local/bin/pinion", &library), None);
    }
}
