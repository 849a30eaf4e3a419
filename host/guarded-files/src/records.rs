//! Records of one kind in a private TOML file, which is replaced as a whole under a lock.

use crate::private::{check, create_directory, lock, open_file, replace};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Version of the format.
const VERSION: i64 = 1;
/// Maximum size in bytes, and number of records, above any legitimate ones.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const MAX_RECORDS: usize = 10_000;

/// A record in such a file.
pub trait TableRecord: Clone + PartialEq + Serialize + DeserializeOwned {
    /// Name of its table.
    const TABLE: &'static str;
    /// Comment at the top of the file, without the `# `: the commands that change it.
    const COMMENT: &'static str;
}

/// Handle to a file of records.
#[derive(Debug, Clone)]
pub struct RecordFile<R> {
    path: PathBuf,
    record: PhantomData<fn() -> R>,
}

impl<R: TableRecord> RecordFile<R> {
    /// The records of a file, which is not opened yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, record: PhantomData }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all records; a missing file counts as empty.
    ///
    /// # Errors
    /// The file is invalid, belongs to another user, or is accessible to others.
    pub fn read(&self) -> io::Result<Vec<R>> {
        let mut file = match open_file(&self.path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            opened => opened?,
        };
        check(&file)?;
        let mut text = String::new();
        if io::Read::by_ref(&mut file).take(MAX_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_BYTES {
            return Err(io::Error::other(format!("longer than {MAX_BYTES} bytes")));
        }
        parse(&text)
    }

    /// Changes the records under the lock and returns the result of `change`. Writes only if something changed.
    ///
    /// # Errors
    /// See [`RecordFile::read`]. If the file cannot be written, it stays as it was.
    pub fn update<T>(&self, change: impl FnOnce(&mut Vec<R>) -> T) -> io::Result<T> {
        create_directory(self.path.parent().unwrap_or(Path::new(".")))?;
        let _lock = lock(&self.path.with_extension("lock"))?;
        let mut records = self.read()?;
        let before = records.clone();
        let answer = change(&mut records);
        if records.len() > MAX_RECORDS {
            return Err(io::Error::other(format!("more than {MAX_RECORDS} entries")));
        }
        if records != before {
            let mut table = toml::Table::new();
            table.insert("version".to_owned(), VERSION.into());
            table.insert(R::TABLE.to_owned(), toml::Value::try_from(records).map_err(io::Error::other)?);
            replace(&self.path, format!("# {}\n{table}", R::COMMENT).as_bytes())?;
        }
        Ok(answer)
    }

    /// Adds a record, unless it is there.
    ///
    /// # Errors
    /// See [`RecordFile::update`].
    pub fn add(&self, record: R) -> io::Result<()> {
        self.update(|records| {
            if !records.contains(&record) {
                records.push(record);
            }
        })
    }
}

fn parse<R: TableRecord>(text: &str) -> io::Result<Vec<R>> {
    let invalid = |error: toml::de::Error| io::Error::other(error.message().to_owned());
    let mut table: toml::Table = toml::from_str(text).map_err(invalid)?;
    match table.remove("version") {
        Some(toml::Value::Integer(VERSION)) => {}
        Some(other) => return Err(io::Error::other(format!("unsupported version {other}"))),
        None => return Err(io::Error::other("missing field `version`")),
    }
    let records = table.remove(R::TABLE);
    match table.keys().next() {
        Some(key) => Err(io::Error::other(format!("unknown field `{key}`"))),
        None => records.map_or(Ok(Vec::new()), |records| records.try_into().map_err(invalid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Name {
        name: String,
    }

    impl TableRecord for Name {
        const TABLE: &'static str = "name";
        const COMMENT: &'static str = "Written by a test.";
    }

    fn name(text: &str) -> Name {
        Name { name: text.to_owned() }
    }

    #[test]
    fn records_survive_a_round_trip() {
        let directory = tempfile::tempdir().unwrap();
        let file = RecordFile::new(directory.path().join("data/names.toml"));
        assert_eq!(file.read().unwrap(), []);
        file.update(|names| names.extend([name("a"), name("\"\n[x]")])).unwrap();
        assert_eq!(file.read().unwrap(), [name("a"), name("\"\n[x]")]);
        assert!(std::fs::read_to_string(file.path()).unwrap().starts_with("# Written by a test.\nversion = 1\n"));
        let is_first = file.update(|names| names.remove(0) == name("a")).unwrap();
        assert!(is_first && file.read().unwrap().len() == 1);
    }

    #[test]
    fn other_versions_and_unknown_fields_are_refused() {
        let error = |text: &str| parse::<Name>(text).unwrap_err().to_string();
        assert_eq!(error("version = 2"), "unsupported version 2");
        assert_eq!(error("[[name]]\nname = 'a'"), "missing field `version`");
        assert_eq!(error("version = 1\nnames = []"), "unknown field `names`");
        assert!(error("version = 1\n[[name]]\nname = 'a'\nage = 3").contains("unknown field `age`"));
        assert_eq!(parse::<Name>("version = 1").unwrap(), []);
    }

    #[test]
    fn too_many_records_leave_the_file_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let file = RecordFile::new(directory.path().join("names.toml"));
        file.update(|names| names.push(name("a"))).unwrap();
        assert!(file.update(|names| names.resize(MAX_RECORDS + 1, name("b"))).is_err());
        assert_eq!(file.read().unwrap(), [name("a")]);
    }

    #[cfg(unix)]
    #[test]
    fn files_that_others_can_write_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let file = RecordFile::new(directory.path().join("names.toml"));
        file.update(|names| names.push(name("a"))).unwrap();
        assert_eq!(std::fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o660)).unwrap();
        assert!(file.read().is_err() && file.update(|names| names.push(name("b"))).is_err());
    }
}
