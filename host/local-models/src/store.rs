//! The directory of models on this machine: one file for each, named after the model.

use crate::disk_space::free_space;
use crate::error::{GgufError, LocalModelError};
use crate::gguf::GgufHeader;
use pinion_files::open::{create_directory, open_file, open_regular};
use sha2::{Digest as _, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The ending of files in the format.
const ENDING: &str = "gguf";
/// The ending of a file that is not complete.
const PART_ENDING: &str = "gguf.part";
/// Bytes that are copied at once.
const COPIED: usize = 1 << 20;

/// The store cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The name is not one of a model.
    #[error("`{0}` is not a name of a model: letters, digits, `.`, `_` and `-`, at most 64")]
    Name(String),
    /// There is no such model.
    #[error("there is no model `{0}`")]
    Unknown(String),
    /// The disk is full.
    #[error("no space left for the model in `{}`", .0.display())]
    Space(PathBuf),
    /// The content is not the expected one.
    #[error("the file has the digest {found}, and not {expected}")]
    Digest {
        /// The digest of the file.
        found: String,
        /// The digest that was named.
        expected: String,
    },
    /// The file is no model that can be used.
    #[error(transparent)]
    Model(#[from] LocalModelError),
    /// A file could not be read or written.
    #[error("`{path}`")]
    File {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
}

/// A model in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredModel {
    /// The name, as in `local/NAME`.
    pub name: String,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The architecture, the tokens of the context window and the licence in the file, or the reason that it is unusable.
    pub content: Result<ModelSummary, String>,
}

/// The description that a file has of its model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelSummary {
    /// The architecture, such as `llama`.
    pub architecture: String,
    /// Tokens of the context window.
    pub window: Option<u64>,
    /// The licence.
    pub licence: Option<String>,
}

/// The models below a directory.
#[derive(Debug, Clone)]
pub struct ModelStore {
    directory: PathBuf,
}

impl ModelStore {
    /// Opens the store in a directory, which need not exist.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Returns the file of a model.
    ///
    /// # Errors
    /// The name is invalid, or there is no such model.
    pub fn find(&self, name: &str) -> Result<PathBuf, StoreError> {
        let path = self.path(name)?;
        match path.is_file() {
            true => Ok(path),
            false => Err(StoreError::Unknown(name.to_owned())),
        }
    }

    /// Lists the models by name.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(&self) -> Result<Vec<StoredModel>, StoreError> {
        let in_directory = |source| StoreError::File { path: self.directory.display().to_string(), source };
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(in_directory)?,
        };
        let mut models = Vec::new();
        for entry in entries {
            let path = entry.map_err(in_directory)?.path();
            let is_model = path.extension().is_some_and(|ending| ending == ENDING);
            let Some(name) = path.file_stem().and_then(|name| name.to_str()).filter(|_| is_model) else { continue };
            let bytes = path.metadata().map_or(0, |metadata| metadata.len());
            let content = read_summary(&path).map_err(|error| error.to_string());
            models.push(StoredModel { name: name.to_owned(), bytes, content });
        }
        models.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(models)
    }

    /// Copies a file into the store, under a name. `progress` is called with the bytes so far.
    ///
    /// # Errors
    /// The file is no usable model or has another digest, or the disk is full.
    pub fn add(
        &self,
        name: &str,
        file: &Path,
        digest: Option<&str>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<PathBuf, StoreError> {
        read_summary(file)?;
        let mut part = self.part(name, false)?;
        let mut source =
            open_file(file).map_err(|source| StoreError::File { path: file.display().to_string(), source })?;
        let mut buffer = vec![0; COPIED];
        loop {
            let count = source
                .read(&mut buffer)
                .map_err(|source| StoreError::File { path: file.display().to_string(), source })?;
            if count == 0 {
                return part.complete(digest);
            }
            part.write(&buffer[..count])?;
            progress(part.length());
        }
    }

    /// Starts or resumes a file of the store.
    ///
    /// # Errors
    /// The name is invalid, or the file cannot be created.
    pub fn part(&self, name: &str, resumes: bool) -> Result<PartialModel, StoreError> {
        let path = self.path(name)?;
        let part = path.with_extension(PART_ENDING);
        let failed = |source| file_error(&part, source);
        create_directory(&self.directory).map_err(failed)?;
        let file = open_regular(&part, OpenOptions::new().create(true).append(true)).map_err(failed)?;
        if !resumes {
            file.set_len(0).map_err(failed)?;
        }
        let length = file.metadata().map_err(failed)?.len();
        Ok(PartialModel { file, part, path, length })
    }

    /// Checks that the disk has room for so many bytes more. Where the system does not say, writing finds it out.
    ///
    /// # Errors
    /// The disk has less free space.
    pub fn require_space(&self, bytes: u64) -> Result<(), StoreError> {
        match free_space(&self.directory).is_some_and(|free| free < bytes) {
            true => Err(StoreError::Space(self.directory.clone())),
            false => Ok(()),
        }
    }

    /// Removes a model.
    ///
    /// # Errors
    /// There is no such model, or its file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name)?;
        let part = path.with_extension(PART_ENDING);
        let had_part = std::fs::remove_file(&part).is_ok();
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound && had_part => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(StoreError::Unknown(name.to_owned())),
            Err(source) => Err(file_error(&path, source)),
        }
    }

    fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        match (1..=64).contains(&name.len()) && name.chars().all(is_valid) && !name.starts_with('.') {
            true => Ok(self.directory.join(format!("{name}.{ENDING}"))),
            false => Err(StoreError::Name(name.chars().filter(|c| !c.is_control()).take(80).collect())),
        }
    }
}

/// A model that is being written. Its bytes stay on disk when this is dropped, so that a download can resume.
#[derive(Debug)]
pub struct PartialModel {
    file: File,
    part: PathBuf,
    path: PathBuf,
    length: u64,
}

impl PartialModel {
    /// Returns the bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The disk is full, or the file cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).map_err(|source| file_error(&self.part, source))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Forgets the bytes so far.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn restart(&mut self) -> Result<(), StoreError> {
        self.file.set_len(0).map_err(|source| file_error(&self.part, source))?;
        self.length = 0;
        Ok(())
    }

    /// Checks the file, and gives it the name of the model. A file that is not the expected one is removed.
    ///
    /// # Errors
    /// The file has another digest, or is no usable model.
    pub fn complete(self, digest: Option<&str>) -> Result<PathBuf, StoreError> {
        let failed = |source| file_error(&self.part, source);
        self.file.sync_all().map_err(failed)?;
        let checked = match digest {
            Some(expected) => sha256_of(&self.part).map_err(failed).and_then(|found| {
                let expected = expected.to_lowercase();
                if found == expected { Ok(()) } else { Err(StoreError::Digest { found, expected }) }
            }),
            None => Ok(()),
        };
        if let Err(error) = checked.and_then(|()| read_summary(&self.part).map_err(StoreError::from)) {
            // The error matters more than a file that stays.
            let _ = std::fs::remove_file(&self.part);
            return Err(error);
        }
        std::fs::rename(&self.part, &self.path).map_err(failed)?;
        Ok(self.path)
    }
}

fn file_error(path: &Path, source: io::Error) -> StoreError {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            StoreError::Space(path.parent().unwrap_or(path).to_owned())
        }
        _ => StoreError::File { path: path.display().to_string(), source },
    }
}

/// Reads the description of a model from the header of its file.
///
/// # Errors
/// The file is no usable model.
pub fn read_summary(path: &Path) -> Result<ModelSummary, LocalModelError> {
    let in_file = |source: GgufError| LocalModelError::File { path: path.display().to_string(), source };
    let file = open_file(path).map_err(|error| in_file(error.into()))?;
    let length = file.metadata().map_err(|error| in_file(error.into()))?.len();
    let header = GgufHeader::read(file, length).map_err(in_file)?;
    Ok(ModelSummary {
        architecture: header.architecture().to_owned(),
        window: header.context_length(),
        licence: header.text("general.license").map(str::to_owned),
    })
}

fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = open_file(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; COPIED];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_files::tiny_model;

    #[test]
    fn models_are_added_listed_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let store = ModelStore::new(directory.path().join("models"));
        assert_eq!(store.list().unwrap(), []);
        let file = directory.path().join("source.gguf");
        std::fs::write(&file, tiny_model()).unwrap();
        let digest = sha256_of(&file).unwrap();
        let mut seen = 0;
        let path = store.add("tiny", &file, Some(&digest.to_uppercase()), &mut |bytes| seen = bytes).unwrap();
        assert_eq!((seen, store.find("tiny").unwrap()), (tiny_model().len() as u64, path));
        let listed = store.list().unwrap();
        let summary = listed[0].content.as_ref().unwrap();
        assert_eq!((summary.architecture.as_str(), summary.window), ("llama", Some(64)));
        store.remove("tiny").unwrap();
        assert!(matches!(store.remove("tiny"), Err(StoreError::Unknown(_))));
        assert!(matches!(store.find("tiny"), Err(StoreError::Unknown(_))));
    }

    #[test]
    fn files_that_are_not_the_model_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let store = ModelStore::new(directory.path().join("models"));
        let file = directory.path().join("source.gguf");
        std::fs::write(&file, "not a model").unwrap();
        assert!(matches!(
            store.add("x", &file, None, &mut |_| {}),
            Err(StoreError::Model(LocalModelError::File { .. }))
        ));
        std::fs::write(&file, tiny_model()).unwrap();
        assert!(matches!(store.add("x", &file, Some("00"), &mut |_| {}), Err(StoreError::Digest { .. })));
        assert_eq!(std::fs::read_dir(directory.path().join("models")).unwrap().count(), 0);
        for name in ["", "../x", ".x", "a/b", "a b", &"x".repeat(65)] {
            assert!(matches!(store.find(name), Err(StoreError::Name(_))), "{name}");
        }
    }

    #[test]
    fn download_resumes_where_it_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let store = ModelStore::new(directory.path().to_owned());
        let whole = tiny_model();
        store.part("tiny", true).unwrap().write(&whole[..1000]).unwrap();
        let mut part = store.part("tiny", true).unwrap();
        assert_eq!(part.length(), 1000);
        part.write(&whole[1000..]).unwrap();
        part.complete(None).unwrap();
        assert_eq!(std::fs::read(store.find("tiny").unwrap()).unwrap(), whole);
        let mut part = store.part("other", true).unwrap();
        part.write(b"wrong").unwrap();
        part.restart().unwrap();
        part.write(&whole[..whole.len() - 1]).unwrap();
        assert!(matches!(part.complete(None), Err(StoreError::Model(_))));
        assert_eq!(store.list().unwrap().len(), 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn full_disk_is_a_lack_of_space() {
        let directory = tempfile::tempdir().unwrap();
        let store = ModelStore::new(directory.path().to_owned());
        store.require_space(1).unwrap();
        assert!(matches!(store.require_space(u64::MAX), Err(StoreError::Space(_))));
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut part = PartialModel { file, ..store.part("tiny", true).unwrap() };
        assert!(matches!(part.write(b"x"), Err(StoreError::Space(_))));
    }
}
