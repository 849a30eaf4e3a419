//! A reader of components that are a line of text, and a store in a temporary directory.

use pinion_packages::{
    ComponentFacts, ComponentReader, InstallRequest, Package, PackageFiles, PackageStore, StoreError, StorePaths,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Reads `NAME VERSION ASK…` after the magic number of WebAssembly.
pub(crate) struct PlainReader;

impl ComponentReader for PlainReader {
    fn read(&self, _path: &str, bytes: &[u8]) -> Result<ComponentFacts, String> {
        let text = bytes.strip_prefix(b"\0asm").ok_or("it does not begin like a WebAssembly file")?;
        let text = String::from_utf8_lossy(text).into_owned();
        let mut words = text.split_whitespace().map(str::to_owned);
        let (name, version) = (words.next().ok_or("no name")?, words.next().unwrap_or_default());
        let asks: Vec<String> = words.collect();
        Ok(ComponentFacts { name, version, description: String::new(), grants: asks.clone(), asks })
    }

    fn is_alike(&self, one: &str, other: &str) -> bool {
        let folded = |name: &str| name.to_lowercase().replace('_', "-").replace(['1', 'l'], "i").replace('0', "o");
        folded(one) == folded(other)
    }

    fn is_reserved(&self, name: &str) -> bool {
        self.is_alike(name, "shell")
    }
}

pub(crate) fn component(text: &str) -> Vec<u8> {
    [b"\0asm".as_slice(), text.as_bytes()].concat()
}

pub(crate) fn files(entries: &[(&str, &str)]) -> PackageFiles {
    let mut files = PackageFiles::default();
    for (path, text) in entries {
        let bytes = if path.ends_with(".wasm") { component(text) } else { text.as_bytes().to_vec() };
        files.insert(path, bytes).unwrap();
    }
    files
}

pub(crate) fn package(entries: &[(&str, &str)]) -> Package {
    Package::read(files(entries), "fallback", &PlainReader).unwrap()
}

/// A package with one component.
pub(crate) fn single(text: &str) -> Package {
    package(&[("plugin.wasm", text)])
}

pub(crate) struct TestStore {
    pub(crate) root: tempfile::TempDir,
    pub(crate) store: PackageStore,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = PackageStore::new(paths(root.path().to_owned()), [7; 32]);
        Self { root, store }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Installs a package over the version that is active now.
    pub(crate) fn install(&self, package: &Package) -> Result<(), StoreError> {
        let seen = self.store.read()?.package(&package.name).map(|known| known.active.clone());
        self.install_over(package, seen)
    }

    pub(crate) fn install_over(&self, package: &Package, seen: Option<String>) -> Result<(), StoreError> {
        self.store.install(&request(package, seen), &PlainReader)
    }

    /// Returns the text of the active component.
    pub(crate) fn active(&self, name: &str) -> Option<String> {
        let bytes = fs::read(self.store.plugin_file(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes[4..]).into_owned())
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.path("plugins.lock")).unwrap_or_default()
    }
}

pub(crate) fn paths(root: PathBuf) -> StorePaths {
    StorePaths { store: root.join("store"), plugins: root.join("plugins"), lock: root.join("plugins.lock") }
}

pub(crate) fn request(package: &Package, seen: Option<String>) -> InstallRequest<'_> {
    let granted =
        package.components.iter().map(|component| (component.facts.name.clone(), component.facts.asks.clone()));
    InstallRequest {
        package,
        source: "/somewhere/plugin.wasm".to_owned(),
        source_digest: None,
        signer: None,
        granted: granted.collect::<BTreeMap<_, _>>(),
        current: BTreeMap::new(),
        servers: Vec::new(),
        seen,
        now: 1,
    }
}
