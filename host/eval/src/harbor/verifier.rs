//! The script that verifies a task in its container, with the expectations of a case as shell commands.

use crate::case::{EvaluationCase, FileExpectations};
use crate::{files, workspace};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Maximum bytes of a file that is listed.
const MAX_CONTENT: u64 = 1 << 30;

/// The start of every script. It counts expectations and those that are met.
const HEAD: &str = "#!/bin/sh\n# Verifies the work, and writes the share of met expectations as the reward.\ncd /app || exit 1\nall=0 met=0\n\
     expect() { all=$((all + 1)); if \"$@\"; then met=$((met + 1)); else echo \"not met: $*\"; fi; }\n\
     contains() { content=$(cat \"$1\"; echo .) && part=$(cat \"$2\"; echo .) && case \"${content%.}\" in *\"${part%.}\"*) ;; *) return 1 ;; esac; }\n\
     absent() { ! [ -e \"$1\" ] && ! [ -L \"$1\" ]; }\n";

/// The end of every script. A reward of 1 means that all expectations are met.
const TAIL: &str = "mkdir -p /logs/verifier\nif [ \"$all\" -eq 0 ]; then echo 0; elif [ \"$met\" -eq \"$all\" ]; then echo 1; \
     else awk \"BEGIN { print $met / $all }\"; fi > /logs/verifier/reward.txt\n";

/// The files of a verifier, by their paths in the directory `tests`.
pub(super) type VerifierFiles = Vec<(String, String)>;

/// Returns the script `test.sh` with the files that it reads.
pub(super) fn verifier(case: &EvaluationCase, before: &str) -> VerifierFiles {
    let (mut script, mut texts) = (HEAD.to_owned(), VerifierFiles::new());
    let mut add = |content: &str| {
        let name = format!("expected/{}", texts.len() + 1);
        texts.push((name.clone(), content.to_owned()));
        format!("/tests/{name}")
    };
    // Writing to a string does not fail.
    if let Some(expected) = &case.expect.files {
        for (path, content) in &expected.equal {
            let _ = writeln!(script, "expect cmp -s {} {}", quoted(path), add(content));
        }
        for (path, parts) in &expected.contain {
            for part in parts {
                let _ = writeln!(script, "expect contains {} {}", quoted(path), add(part));
            }
        }
        for path in &expected.absent {
            let _ = writeln!(script, "expect absent {}", quoted(path));
        }
        if expected.unchanged_elsewhere {
            let listed = add(before);
            let _ = write!(script, "{}", unchanged(expected, &listed));
        }
    }
    for command in &case.expect.commands {
        let _ = writeln!(script, "expect sh -c {}", quoted(command));
    }
    script.push_str(TAIL);
    texts.push(("test.sh".to_owned(), script));
    texts
}

/// Returns the digests of the contents of files below a directory, in the format of `sha256sum`.
///
/// # Errors
/// A file cannot be read.
pub(super) fn content_list(directory: &Path) -> io::Result<String> {
    let mut lines = String::new();
    for path in workspace::digests(directory)?.into_keys() {
        let file = directory.join(&path);
        if std::fs::symlink_metadata(&file)?.is_file() {
            let digest = Sha256::digest(files::read(&file, MAX_CONTENT)?);
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            // Writing to a string does not fail.
            let _ = writeln!(lines, "{hex}  ./{path}");
        }
    }
    Ok(lines)
}

/// Returns the commands that compare the files with their list, except those that may change.
fn unchanged(expected: &FileExpectations, listed: &str) -> String {
    let patterns = expected.may_change.iter().map(|pattern| format!("./{}", pattern_of(pattern)));
    let named = expected.paths().map(|path| quoted(&format!("./{path}")));
    let may_change: Vec<String> = named.chain(patterns).collect();
    let except = if may_change.is_empty() { String::new() } else { format!("{}) ;; ", may_change.join("|")) };
    format!(
        "others() {{ while IFS= read -r line; do path=${{line#*  }}; case \"$path\" in {except}*) printf '%s\\n' \"$line\" ;; esac; done | \
         LC_ALL=C sort; }}\n\
         unchanged() {{ [ \"$(find . -path ./.git -prune -o -type f -exec sha256sum {{}} + | others)\" = \"$(others < {listed})\" ]; }}\n\
         expect unchanged\n"
    )
}

/// Turns a pattern into one of the shell: the characters that are no wildcards are quoted.
fn pattern_of(pattern: &str) -> String {
    pattern
        .replace("**/", "*")
        .chars()
        .map(|c| if "*?".contains(c) { c.to_string() } else { quoted(&c.to_string()) })
        .collect()
}

/// Quotes a word for the shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./_-".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('-') {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns whether a pattern has a form that the script understands.
pub(super) fn is_known_pattern(pattern: &str) -> bool {
    !pattern.contains(['[', ']', '{', '}', '\\', '!'])
}

/// Writes files below a directory.
pub(super) fn write_files(directory: &Path, texts: &VerifierFiles) -> io::Result<()> {
    for (name, content) in texts {
        let path = directory.join(name);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        files::create(&path, content.as_bytes())?;
    }
    Ok(())
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "clippy sees no test module in a condition of two parts")]
mod tests {
    use super::super::super::evaluators::EvaluatorRegistry;
    use super::*;
    use crate::load::parse_set;
    use std::process::Command;

    /// Verifies a directory with the script of a case, and returns the reward.
    fn reward(expect: &str, change: impl Fn(&Path)) -> String {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let app = root.join("app");
        std::fs::create_dir_all(app.join("d")).unwrap();
        for (path, text) in [("a b", "one\n"), ("d/c", "two"), ("gone", "x")] {
            std::fs::write(app.join(path), text).unwrap();
        }
        let text = format!("id: s\ncases: [{{id: a, prompt: go, expect: {expect}}}]\n");
        let set = parse_set(&text, Path::new("s.yaml"), &EvaluatorRegistry::default()).unwrap();
        write_files(&root.join("tests"), &verifier(&set.cases[0], &content_list(&app).unwrap())).unwrap();
        change(&app);
        let script = std::fs::read_to_string(root.join("tests/test.sh")).unwrap();
        let at = |path: &str| root.join(path).display().to_string();
        let script =
            script.replace("/app", &at("app")).replace("/tests/", &at("tests/")).replace("/logs/", &at("logs/"));
        std::fs::write(root.join("here.sh"), script).unwrap();
        let output = Command::new("sh").arg(root.join("here.sh")).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        std::fs::read_to_string(root.join("logs/verifier/reward.txt")).unwrap().trim().to_owned()
    }

    #[test]
    fn script_rewards_the_share_of_met_expectations() {
        let files = "{files: {equal: {a b: \"one\\n\"}, contain: {d/c: [w, \"x'y\"]}, absent: [gone]}, commands: ['test -e gone', 'exit 3']}";
        // Of six expectations, the content, one part and one command are met.
        assert_eq!(reward(files, |_| {}), "0.5");
        let met = "{files: {equal: {a b: \"one\\n\"}, absent: [gone]}, commands: ['grep -q w d/c']}";
        assert_eq!(reward(met, |app| std::fs::remove_file(app.join("gone")).unwrap()), "1");
        // A missing final newline is a difference.
        assert_eq!(reward("{files: {equal: {a b: one}}}", |_| {}), "0");
    }

    #[test]
    fn other_files_must_be_unchanged() {
        let expect = "{files: {contain: {a b: [o]}, may-change: ['d/*.log'], unchanged-elsewhere: true}}";
        assert_eq!(reward(expect, |_| {}), "1");
        assert_eq!(reward(expect, |app| std::fs::write(app.join("a b"), "also o").unwrap()), "1");
        assert_eq!(reward(expect, |app| std::fs::write(app.join("d/x.log"), "").unwrap()), "1");
        for (path, text) in [("d/c", "TWO"), ("new", "n"), ("x.log", "n")] {
            assert_eq!(reward(expect, |app| std::fs::write(app.join(path), text).unwrap()), "0.5", "{path}");
        }
        assert_eq!(reward(expect, |app| std::fs::remove_file(app.join("gone")).unwrap()), "0.5");
    }
}
