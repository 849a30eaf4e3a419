//! The content-addressed store, and the activation of one version of each package.
//!
//! A package is written to `store/DIGEST`, which nothing refers to until `plugins.lock` names it. Replacing that file
//! is the activation: before, the old version is installed, and after, the new one. The file also records that
//! components have to be copied to the plugin directory; the next process that opens the store completes an interrupted
//! copy. The user agreed to each component in the directory, with the grants of its version.

use crate::digest::blake3_hex;
use crate::lock::{LockError, LockedComponent, LockedPackage, LockedRelease, LockedServer, PendingWork, PluginLock};
use crate::package::{ComponentReader, Package};
use crate::servers::PackagedServer;
use crate::store_error::StoreError;
use crate::store_servers::{check_directory, make_executable};
use pinion_files::open::{create_directory, open_regular, read_limited};
use pinion_files::{AtomicWrite, Durability};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum bytes of a file in the store.
const MAX_FILE: u64 = 128 << 20;

/// The places of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePaths {
    /// Directory of all kept versions.
    pub store: PathBuf,
    /// Directory that the host loads the active components from.
    pub plugins: PathBuf,
    /// The lock file.
    pub lock: PathBuf,
}

/// The store of one user.
#[derive(Debug, Clone)]
pub struct PackageStore {
    paths: StorePaths,
    key: [u8; 32],
}

/// A package with everything that the user agreed to.
#[derive(Debug, Clone)]
pub struct InstallRequest<'a> {
    /// The package.
    pub package: &'a Package,
    /// The source that an update asks again.
    pub source: String,
    /// Digest that the source names it by.
    pub source_digest: Option<String>,
    /// Key that signed it.
    pub signer: Option<String>,
    /// Granted capabilities by the name of the component.
    pub granted: BTreeMap<String, Vec<String>>,
    /// Capabilities that the user grants to the components of the active release now, which the lock remembers.
    pub current: BTreeMap<String, Vec<String>>,
    /// Names of the MCP servers that the user agreed to now. Other servers of the package are switched on only if the active
    /// release has the same one, switched on.
    pub servers: Vec<String>,
    /// Digest of the active release that the user compared it with; `None` for a package that was not installed.
    pub seen: Option<String>,
    /// Time of the installation, in seconds since 1970.
    pub now: u64,
}

impl InstallRequest<'_> {
    /// Returns the release for the lock. `active` is the one before.
    fn release(&self, active: Option<&LockedRelease>) -> LockedRelease {
        let server = |server: &PackagedServer| {
            let PackagedServer { name, entry, variables } = server.clone();
            let known = active.and_then(|active| active.server(&name));
            // A server that the user switched off stays off.
            let enabled = match known {
                Some(known) if known.entry == entry => known.enabled,
                Some(known) => known.enabled && self.servers.contains(&name),
                None => self.servers.contains(&name),
            };
            LockedServer { name, entry, variables, enabled }
        };
        let component = |component: &crate::package::PackagedComponent| LockedComponent {
            name: component.facts.name.clone(),
            path: component.path.clone(),
            digest: component.digest.clone(),
            asked: component.facts.asks.clone(),
            granted: self.granted.get(&component.facts.name).cloned().unwrap_or_default(),
        };
        LockedRelease {
            version: self.package.version.clone(),
            digest: self.package.digest.clone(),
            source: self.source.clone(),
            source_digest: self.source_digest.clone(),
            signer: self.signer.clone(),
            added: self.now,
            for_project: false,
            skills: self.package.has_skills,
            prompts: self.package.prompts.clone(),
            former_servers: None,
            components: self.package.components.iter().map(component).collect(),
            servers: self.package.servers.iter().map(server).collect(),
        }
    }
}

impl PackageStore {
    /// The store at these places, whose lock file is sealed with `key`.
    pub fn new(paths: StorePaths, key: [u8; 32]) -> Self {
        Self { paths, key }
    }

    /// Reads the lock file.
    ///
    /// # Errors
    /// It is damaged or was edited.
    pub fn read(&self) -> Result<PluginLock, StoreError> {
        PluginLock::read(&self.paths.lock, &self.key).map_err(|cause| self.lock_error(cause))
    }

    /// Reads the lock file even if its seal is void, to show it to the user.
    ///
    /// # Errors
    /// It cannot be parsed.
    pub fn read_unsealed(&self) -> Result<PluginLock, StoreError> {
        PluginLock::read_unsealed(&self.paths.lock).map_err(|cause| self.lock_error(cause))
    }

    /// Seals the lock file as it is, after the user looked at it.
    ///
    /// # Errors
    /// It is not `seen`, or cannot be written.
    pub fn accept(&self, seen: &PluginLock) -> Result<(), StoreError> {
        let _held = self.hold()?;
        let mut lock = self.read_unsealed()?;
        if lock != *seen {
            return Err(StoreError::Changed("plugins.lock".to_owned()));
        }
        self.write(&mut lock)
    }

    /// Installs a package, or another version of it, and activates it.
    ///
    /// # Errors
    /// A name is taken, another process was faster, or the system refuses. Then everything is as before.
    pub fn install(&self, request: &InstallRequest<'_>, reader: &dyn ComponentReader) -> Result<(), StoreError> {
        let _held = self.hold()?;
        let mut lock = self.settled()?;
        let (package, before) = (request.package, lock.clone());
        let installed = lock.package(&package.name).and_then(LockedPackage::active_release);
        if installed.map(|active| &active.digest) != request.seen.as_ref() {
            return Err(StoreError::Changed(package.name.clone()));
        }
        self.add_content(&mut lock, request, reader)?;
        remember(&mut lock, &package.name, &request.current);
        let active = lock.package(&package.name).and_then(LockedPackage::active_release);
        let release = request.release(active);
        match lock.packages.iter_mut().find(|known| known.name == package.name) {
            Some(known) => known.add(release),
            None => lock.packages.push(LockedPackage::with_release(&package.name, &package.digest, release)),
        }
        self.activate(&mut lock, before, &package.name)
    }

    /// Adds a version for the projects that name it, and activates nothing.
    ///
    /// # Errors
    /// A name is taken, or the system refuses. Then everything is as before.
    pub fn keep(&self, request: &InstallRequest<'_>, reader: &dyn ComponentReader) -> Result<(), StoreError> {
        let _held = self.hold()?;
        let mut lock = self.settled()?;
        self.add_content(&mut lock, request, reader)?;
        let (name, release) = (&request.package.name, LockedRelease { for_project: true, ..request.release(None) });
        match lock.packages.iter_mut().find(|known| known.name == *name) {
            Some(known) => known.keep(release),
            None => lock.packages.push(LockedPackage::with_release(name, "", release)),
        }
        self.write(&mut lock)?;
        self.sweep(&lock);
        Ok(())
    }

    /// Writes the files of a version, whose names must be free, and adds its signer to `lock`, which is not written.
    fn add_content(
        &self,
        lock: &mut PluginLock,
        request: &InstallRequest<'_>,
        reader: &dyn ComponentReader,
    ) -> Result<(), StoreError> {
        let package = request.package;
        self.check_names(lock, package, reader)?;
        if let Err(error) = self.write_tree(package) {
            if !is_kept(lock, &package.digest) {
                drop(fs::remove_dir_all(self.directory(&package.digest)));
            }
            return Err(error);
        }
        if let Some(key) = &request.signer {
            lock.authors.retain(|author| author.package != package.name);
            lock.authors.push(crate::lock::KnownAuthor { package: package.name.clone(), key: key.clone() });
        }
        Ok(())
    }

    /// Activates a kept version, or the other one if `version` is `None`. The lock remembers the `current` grants.
    ///
    /// # Errors
    /// There is no such version, its content was changed, or the system refuses.
    pub fn switch(
        &self,
        name: &str,
        version: Option<&str>,
        current: &BTreeMap<String, Vec<String>>,
    ) -> Result<String, StoreError> {
        let _held = self.hold()?;
        let mut lock = self.settled()?;
        let before = lock.clone();
        remember(&mut lock, name, current);
        let package = lock.packages.iter_mut().find(|package| package.name == name);
        let package = package.ok_or_else(|| StoreError::Unknown(name.to_owned()))?;
        let is_meant = |release: &&LockedRelease| match version {
            Some(version) => release.version == version || (version.len() >= 8 && release.digest.starts_with(version)),
            None => release.digest != package.active,
        };
        let release = package.releases.iter().find(is_meant).cloned();
        let wanted = version.unwrap_or("before").to_owned();
        let release = release.ok_or_else(|| StoreError::NoVersion { name: name.to_owned(), version: wanted })?;
        self.check_tree(&release)?;
        package.active.clone_from(&release.digest);
        self.activate(&mut lock, before, name)?;
        Ok(release.version)
    }

    /// Removes a package with all of its versions.
    ///
    /// # Errors
    /// It is not installed, or the system refuses.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let _held = self.hold()?;
        let mut lock = self.settled()?;
        let package = lock.packages.iter_mut().find(|package| package.name == name);
        package.ok_or_else(|| StoreError::Unknown(name.to_owned()))?.pending = Some(PendingWork::Remove);
        self.write(&mut lock)?;
        self.settle(&mut lock)
    }

    /// Forgets the package of a plugin whose file its author replaced with a build. Returns whether there was one.
    ///
    /// # Errors
    /// The lock file is not usable.
    pub fn release(&self, plugin: &str) -> Result<bool, StoreError> {
        if !self.paths.lock.exists() {
            return Ok(false);
        }
        let _held = self.hold()?;
        let mut lock = self.settled()?;
        let before = lock.packages.len();
        let has = |package: &LockedPackage| package.releases.iter().any(|release| release.component(plugin).is_some());
        lock.packages.retain(|package| !has(package));
        if lock.packages.len() == before {
            return Ok(false);
        }
        self.write(&mut lock)?;
        Ok(true)
    }

    /// Completes the work of a process that was killed. Without such work, only reads the lock file.
    ///
    /// # Errors
    /// The lock file is not usable, or the system refuses.
    pub fn recover(&self) -> Result<(), StoreError> {
        if !PluginLock::may_have_pending(&self.paths.lock) {
            return Ok(());
        }
        let _held = self.hold()?;
        self.settled().map(drop)
    }

    /// Compares everything that is installed with the digests in the lock file. Returns the files that differ.
    ///
    /// # Errors
    /// The lock file is not usable.
    pub fn verify(&self) -> Result<Vec<StoreError>, StoreError> {
        let lock = self.read()?;
        let mut problems = Vec::new();
        for package in &lock.packages {
            problems.extend(package.releases.iter().filter_map(|release| self.check_tree(release).err()));
            for component in package.active_release().into_iter().flat_map(|release| &release.components) {
                let path = self.plugin_file(&component.name);
                match read_limited(&path, MAX_FILE) {
                    Ok(bytes) if blake3_hex(&bytes) == component.digest => {}
                    Ok(_) => problems.push(StoreError::Tampered { path }),
                    Err(cause) => problems.push(StoreError::Io { path, cause }),
                }
            }
        }
        Ok(problems)
    }

    pub(crate) fn lock_file(&self) -> &Path {
        &self.paths.lock
    }

    /// Returns the directory of a version.
    pub fn directory(&self, digest: &str) -> PathBuf {
        self.paths.store.join(digest)
    }

    /// Reads a component of a kept version.
    ///
    /// # Errors
    /// It cannot be read, or differs from its digest.
    pub fn component(&self, release: &LockedRelease, component: &LockedComponent) -> Result<Vec<u8>, StoreError> {
        let path = self.directory(&release.digest).join(&component.path);
        let bytes = read_limited(&path, MAX_FILE).map_err(|cause| StoreError::Io { path: path.clone(), cause })?;
        if blake3_hex(&bytes) == component.digest { Ok(bytes) } else { Err(StoreError::Tampered { path }) }
    }

    /// Returns the place of a plugin's active component.
    pub fn plugin_file(&self, name: &str) -> PathBuf {
        self.paths.plugins.join(format!("{name}.wasm"))
    }

    /// Holds the lock of the store until the result is dropped.
    pub(crate) fn hold(&self) -> Result<File, StoreError> {
        let directory = self.paths.lock.parent().unwrap_or(Path::new("."));
        let path = self.paths.lock.with_extension("lock-held");
        let failed = |cause| StoreError::Io { path: path.clone(), cause };
        create_directory(directory).map_err(failed)?;
        let file = open_regular(&path, OpenOptions::new().write(true).create(true).truncate(false)).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(file)
    }

    /// Reads the lock file and completes unfinished work. The caller holds the lock.
    pub(crate) fn settled(&self) -> Result<PluginLock, StoreError> {
        let mut lock = self.read()?;
        if lock.has_pending() {
            self.settle(&mut lock)?;
        }
        Ok(lock)
    }

    /// Activates the version of a package that the lock names: in one step, and then file by file. If that fails, the
    /// version `before` is active again.
    fn activate(&self, lock: &mut PluginLock, mut before: PluginLock, name: &str) -> Result<(), StoreError> {
        let mark = |lock: &mut PluginLock| {
            let package = lock.packages.iter_mut().find(|package| package.name == name);
            package.into_iter().for_each(|package| package.pending = Some(PendingWork::Activate));
        };
        mark(lock);
        self.write(lock)?;
        let settled = self.settle(lock);
        if settled.is_err() {
            // A package that is new has components that the lock of before does not know.
            for component in
                lock.package(name).into_iter().flat_map(|new| &new.releases).flat_map(|release| &release.components)
            {
                if before.package(name).is_none() {
                    drop(fs::remove_file(self.plugin_file(&component.name)));
                }
            }
            mark(&mut before);
            if self.write(&mut before).is_ok() {
                drop(self.settle(&mut before));
            }
        }
        settled
    }

    /// Makes the plugin directory agree with the lock.
    fn settle(&self, lock: &mut PluginLock) -> Result<(), StoreError> {
        for package in lock.packages.iter().filter(|package| package.pending.is_some()) {
            let active = package.active_release().filter(|_| package.pending == Some(PendingWork::Activate));
            let wanted: BTreeSet<&str> = active
                .iter()
                .flat_map(|release| &release.components)
                .map(|component| component.name.as_str())
                .collect();
            for component in active.iter().flat_map(|release| &release.components) {
                self.place(active, component)?;
            }
            let known = package.releases.iter().flat_map(|release| &release.components);
            for component in known.filter(|component| !wanted.contains(component.name.as_str())) {
                let path = self.plugin_file(&component.name);
                match fs::remove_file(&path) {
                    Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                        return Err(StoreError::Io { path, cause });
                    }
                    _ => {}
                }
            }
        }
        lock.packages.retain(|package| package.pending != Some(PendingWork::Remove));
        lock.packages.iter_mut().for_each(|package| package.pending = None);
        self.write(lock)?;
        self.sweep(lock);
        Ok(())
    }

    /// Puts a component into the plugin directory, unless it is there.
    fn place(&self, release: Option<&LockedRelease>, component: &LockedComponent) -> Result<(), StoreError> {
        let Some(release) = release else { return Ok(()) };
        let path = self.plugin_file(&component.name);
        if read_limited(&path, MAX_FILE).is_ok_and(|bytes| blake3_hex(&bytes) == component.digest) {
            return Ok(());
        }
        let bytes = self.component(release, component)?;
        let failed = |cause| StoreError::Io { path: path.clone(), cause };
        create_directory(&self.paths.plugins).map_err(failed)?;
        AtomicWrite::private().durability(Durability::Content).replace(&path, &bytes).map_err(failed)
    }

    /// Writes the files of a package that are not in the store.
    fn write_tree(&self, package: &Package) -> Result<(), StoreError> {
        let root = self.directory(&package.digest);
        for (path, bytes) in package.files.iter() {
            let file = root.join(path);
            let failed = |cause| StoreError::Io { path: file.clone(), cause };
            // Left by a process that was killed, or kept.
            if read_limited(&file, MAX_FILE).is_ok_and(|found| found == bytes) {
                continue;
            }
            create_directory(file.parent().unwrap_or(&root)).map_err(failed)?;
            AtomicWrite::private().durability(Durability::Content).replace(&file, bytes).map_err(failed)?;
        }
        make_executable(package, &root)
    }

    /// Checks that the files of a version have its digest, without missing or additional files.
    fn check_tree(&self, release: &LockedRelease) -> Result<(), StoreError> {
        check_directory(&self.directory(&release.digest))
    }

    /// Checks that the names of a package and of its components belong to nothing else.
    fn check_names(
        &self,
        lock: &PluginLock,
        package: &Package,
        reader: &dyn ComponentReader,
    ) -> Result<(), StoreError> {
        let others = || lock.packages.iter().filter(|other| other.name != package.name);
        if let Some(other) = others().find(|other| reader.is_alike(&other.name, &package.name)) {
            return Err(StoreError::LooksAlike { name: package.name.clone(), other: other.name.clone() });
        }
        let own = lock.package(&package.name);
        let files = fs::read_dir(&self.paths.plugins).into_iter().flatten().flatten().map(|entry| entry.path());
        let files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "wasm")).collect();
        for component in &package.components {
            let name = &component.facts.name;
            let taken = others().flat_map(|other| &other.releases).flat_map(|release| &release.components);
            if let Some(other) = taken.map(|other| &other.name).find(|other| reader.is_alike(other, name)) {
                return Err(StoreError::LooksAlike { name: name.clone(), other: other.clone() });
            }
            let is_own = |stem: &str| {
                own.is_some_and(|own| own.releases.iter().any(|release| release.component(stem).is_some()))
            };
            for path in &files {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                if reader.is_alike(&stem, name) && !is_own(&stem) {
                    return Err(StoreError::Occupied { path: path.clone() });
                }
            }
        }
        Ok(())
    }

    /// Removes versions that the lock does not name.
    fn sweep(&self, lock: &PluginLock) {
        for entry in fs::read_dir(&self.paths.store).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|digest| !is_kept(lock, digest)) {
                drop(fs::remove_dir_all(entry.path()));
            }
        }
    }

    pub(crate) fn write(&self, lock: &mut PluginLock) -> Result<(), StoreError> {
        lock.write(&self.paths.lock, &self.key).map_err(|cause| self.lock_error(cause))
    }

    fn lock_error(&self, cause: LockError) -> StoreError {
        StoreError::Lock { path: self.paths.lock.clone(), cause }
    }
}

/// Records the present grants of the active release, which the user may have changed since the installation.
fn remember(lock: &mut PluginLock, name: &str, current: &BTreeMap<String, Vec<String>>) {
    let Some(package) = lock.packages.iter_mut().find(|package| package.name == name) else { return };
    let active = package.releases.iter_mut().find(|release| release.digest == package.active);
    for component in active.into_iter().flat_map(|release| &mut release.components) {
        current.get(&component.name).into_iter().for_each(|granted| component.granted.clone_from(granted));
    }
}

/// Returns whether the lock names a version.
fn is_kept(lock: &PluginLock, digest: &str) -> bool {
    lock.packages.iter().flat_map(|package| &package.releases).any(|release| release.digest == digest)
}
