//! The data set: one instance per line, and the repositories that the instances name.

use pinion_app::failure::{Failure, Result};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One task of the data set. Other fields, such as tests and the reference solution, are not read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct BenchInstance {
    pub(crate) instance_id: String,
    /// `OWNER/NAME`.
    pub(crate) repo: String,
    pub(crate) base_commit: String,
    pub(crate) problem_statement: String,
}

/// Reads a data set.
///
/// # Errors
/// The file cannot be read, or a line has no instance, an unsafe id, or the id of an earlier line.
pub(crate) fn read_dataset(path: &Path) -> Result<Vec<BenchInstance>> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read `{}`", path.display())).because(error))?;
    parse_dataset(&text, &path.display().to_string())
}

fn parse_dataset(text: &str, name: &str) -> Result<Vec<BenchInstance>> {
    let (mut instances, mut ids) = (Vec::new(), BTreeSet::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = format!("{name}:{}", number + 1);
        let instance: BenchInstance = serde_json::from_str(line)
            .map_err(|error| Failure::usage(format!("invalid instance at {at}")).because(error))?;
        let BenchInstance { instance_id: id, repo, base_commit, .. } = &instance;
        if !is_name(id) {
            return Err(Failure::usage(format!("invalid instance at {at}: `instance_id` cannot name a directory")));
        }
        if repo.split('/').count() > 2 || !repo.split('/').all(is_name) {
            return Err(Failure::usage(format!("invalid instance at {at}: `repo` is not OWNER/NAME")));
        }
        if base_commit.len() < 7 || !base_commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Failure::usage(format!("invalid instance at {at}: `base_commit` is not the name of a commit")));
        }
        if !ids.insert(id.clone()) {
            return Err(Failure::usage(format!("invalid instance at {at}: `{id}` occurs twice")));
        }
        instances.push(instance);
    }
    Ok(instances)
}

/// Returns whether a text can be the name of a file or directory.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+');
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.len() <= 200 && text.bytes().all(is_letter)
}

/// Finds the local clone of a repository: `OWNER/NAME`, `OWNER__NAME` or `NAME`, each also with `.git` at the end.
pub(crate) fn find_clone(repositories: &Path, repo: &str) -> Result<PathBuf> {
    let name = repo.rsplit('/').next().unwrap_or(repo);
    let names = [repo.to_owned(), repo.replace('/', "__"), name.to_owned()];
    let places = names.iter().flat_map(|name| [repositories.join(name), repositories.join(format!("{name}.git"))]);
    places.into_iter().find(|place| place.is_dir()).ok_or_else(|| {
        let url = format!("https://github.com/{repo}");
        let to = repositories.join(repo.replace('/', "__"));
        Failure::usage(format!("no clone of `{repo}` in `{}`", repositories.display()))
            .hint(format!("git clone --bare {url} {}", to.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, repo: &str, commit: &str) -> String {
        serde_json::json!({
            "instance_id": id, "repo": repo, "base_commit": commit, "problem_statement": "text", "patch": "unread",
        })
        .to_string()
    }

    #[test]
    fn instances_are_read_and_checked_with_their_line() {
        let sound = line("a__b-1", "a/b", "0123456789");
        assert_eq!(parse_dataset(&format!("{sound}\n\n"), "d").unwrap()[0].repo, "a/b");
        let wrong = [
            (line("../x", "a/b", "0123456789"), "`instance_id` cannot name a directory"),
            (line("x", "a/../b", "0123456789"), "`repo` is not OWNER/NAME"),
            (line("x", "a/b", "--upload-pack=x"), "`base_commit` is not the name of a commit"),
            (sound.clone(), "`a__b-1` occurs twice"),
            ("{}".to_owned(), "missing field"),
        ];
        for (wrong, message) in wrong {
            let error = parse_dataset(&format!("{sound}\n{wrong}\n"), "d").unwrap_err().message();
            assert!(error.contains("d:2") && error.contains(message), "{error}");
        }
    }
}
