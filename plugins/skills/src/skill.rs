//! A skill: its directory, its name and description, and its files.

use crate::front_matter;
use pinion_plugin_sdk::prelude::*;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path};

/// File that makes a directory a skill.
const SKILL_MD: &str = "SKILL.md";
/// Bytes of a `SKILL.md`, and of another file that is returned.
const MAX_BYTES: u64 = 256 * 1024;
/// Characters of a name (<https://agentskills.io/specification>).
const MAX_NAME: usize = 64;
/// Files that are listed with the instructions.
const MAX_FILES: usize = 64;
const MAX_DEPTH: usize = 3;

/// A directory with a `SKILL.md`, as the host found it.
#[derive(Deserialize, Debug)]
pub(crate) struct Found {
    pub(crate) directory: String,
    /// True if it is the user's own.
    pub(crate) users: bool,
    /// The reason why it is not used, if the host knows one.
    #[serde(default)]
    pub(crate) problem: Option<String>,
}

/// A skill that can be used.
#[derive(Debug)]
pub(crate) struct Skill {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) is_users: bool,
    /// True if the model neither sees nor starts it.
    pub(crate) is_for_user_only: bool,
    directory: String,
}

impl Skill {
    /// Reads the description in a skill.
    ///
    /// # Errors
    /// The file cannot be read, or it lacks a description, or its name is no name.
    pub(crate) fn read(found: &Found) -> Result<Self, String> {
        if let Some(problem) = &found.problem {
            return Err(problem.clone());
        }
        let text = text(&Path::new(&found.directory).join(SKILL_MD))?;
        let (members, _) = front_matter::split(&text);
        let directory = Path::new(&found.directory).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = if members.name.is_empty() { directory } else { members.name };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
            return Err("its name must have 1 to 64 of a-z, A-Z, 0-9, `-`, `_` and `.`".to_owned());
        }
        if members.description.is_empty() {
            return Err("its `description` is missing".to_owned());
        }
        let (description, directory) = (line(&members.description, 1024), found.directory.clone());
        let (is_users, is_for_user_only) = (found.users, members.is_for_user_only);
        Ok(Self { name, description, is_users, is_for_user_only, directory })
    }

    /// Returns the instructions, headed by the place of the skill and the names of its other files.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn instructions(&self) -> Result<String> {
        let path = Path::new(&self.directory).join(SKILL_MD);
        let text = text(&path).map_err(|problem| Error::failed(format!("`{}`: {problem}", path.display())))?;
        let (_, body) = front_matter::split(&text);
        let mut files = Vec::new();
        list(Path::new(&self.directory), "", MAX_DEPTH, &mut files);
        let files = match files.is_empty() {
            true => String::new(),
            false => format!("Its files: {}\n", files.join(", ")),
        };
        let directory = line(&self.directory, 1024);
        Ok(format!("Skill `{}` in `{directory}`\n{files}\n{}", self.name, body.trim_end()))
    }

    /// Returns one of the other files.
    ///
    /// # Errors
    /// The path leads out of the skill's directory, or the file cannot be read.
    pub(crate) fn file(&self, file: &str) -> Result<String> {
        let is_inside =
            Path::new(file).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if file.is_empty() || file.contains('\0') || !is_inside {
            return Err(Error::invalid_input("`file` must be a path inside the directory of the skill"));
        }
        text(&Path::new(&self.directory).join(file)).map_err(|problem| {
            Error::NotFound(format!("`{}` of the skill `{}`: {problem}", line(file, 200), self.name))
        })
    }
}

/// Lists the files in a directory other than its `SKILL.md`, relative to the skill.
fn list(directory: &Path, prefix: &str, depth: usize, files: &mut Vec<String>) {
    let mut entries: Vec<_> = std::fs::read_dir(directory).into_iter().flatten().flatten().take(1024).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if files.len() >= MAX_FILES {
            return;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let shown = format!("{prefix}{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 && !name.starts_with('.') => {
                list(&directory.join(&name), &format!("{shown}/"), depth - 1, files);
            }
            Ok(kind) if kind.is_file() && shown != SKILL_MD => files.push(line(&shown, 200)),
            _ => {}
        }
    }
}

/// Reads a file of text.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())
}

/// Returns a text in one line of at most `bytes`, in which only letters, digits and common signs are left as they are.
pub(crate) fn line(text: &str, bytes: usize) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c.is_ascii_graphic() || " –—‘’“”…·•→×≤≥°".contains(c);
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line = String::new();
    for c in words.join(" ").chars() {
        let c = if is_plain(c) { c } else { char::REPLACEMENT_CHARACTER };
        if line.len() + c.len_utf8() + '…'.len_utf8() > bytes {
            line.push('…');
            break;
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_show_nothing_hidden() {
        assert_eq!(line("a\n\tb\u{1b}[2J\u{202e}", 80), "a b\u{fffd}[2J\u{fffd}");
        assert_eq!(line("abcdefgh", 8), "abcde…");
    }

    #[test]
    fn unusable_skill_is_refused_with_the_reason() {
        let directory = tempfile::TempDir::new().unwrap();
        let found = Found { directory: directory.path().to_string_lossy().into_owned(), users: true, problem: None };
        let skill = |text: &str| {
            std::fs::write(directory.path().join(SKILL_MD), text).unwrap();
            Skill::read(&found).map(|skill| skill.name)
        };
        assert_eq!(skill("---\nname: pdf\ndescription: x\n---\n").unwrap(), "pdf");
        assert!(skill("---\nname: pdf\n---\n").unwrap_err().contains("description"));
        assert!(skill("---\nname: a b\ndescription: x\n---\n").unwrap_err().contains("name"));
        assert!(skill(&"x".repeat(300_000)).unwrap_err().contains("larger"));
    }

    #[test]
    fn files_outside_of_the_directory_are_refused() {
        let skill = Skill {
            name: "x".to_owned(),
            description: "x".to_owned(),
            is_users: false,
            is_for_user_only: false,
            directory: "/nowhere".to_owned(),
        };
        for file in ["", "..", "../x", "/etc/passwd", "a/../../x", "a\0"] {
            assert!(matches!(skill.file(file), Err(Error::InvalidInput(_))), "{file}");
        }
        assert!(matches!(skill.file("a/b.md"), Err(Error::NotFound(_))));
    }
}
