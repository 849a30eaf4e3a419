//! Commands that may read an excluded file, where no sandbox hides it.

use crate::command_scene::{Scene, expansions, glob, normal};
use crate::excluded_git::git_may_show;
use crate::readers::shows_no_content;
use crate::shell::{Simple, Word, WordKind};
use std::path::{Path, PathBuf};

/// Programs that search their current directory unless they are given another one.
const SEARCH: &[&str] = &["rg", "ag", "ack"];

/// Returns whether a command that only reads may show the content of an excluded path: it names that path, one below, a
/// directory around it or a pattern for it, or searches a directory around it without naming one.
pub(crate) fn may_read(command: &Simple, excluded: &Path, scene: &Scene<'_>) -> bool {
    let Some(program) = command.program() else { return true };
    let here = [scene.directory.to_owned()];
    let directories = command.directories.as_deref().unwrap_or(&here);
    let redirected = command.redirects.iter().filter(|redirect| !redirect.writes).map(|redirect| &redirect.target);
    if redirected.into_iter().any(|word| reaches(word, directories, excluded)) {
        return true;
    }
    if program == "git" {
        return git_may_show(command, excluded, scene);
    }
    if shows_no_content(program) {
        return false;
    }
    let arguments = files(program, &command.words[1..]);
    let is_recursive = |word: &Word| {
        let letters = word.text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        letters.is_some_and(|letters| letters.contains(['r', 'R'])) || word.text.contains("recurs")
    };
    let searches = SEARCH.contains(&program) || arguments.iter().any(|word| is_recursive(word));
    let is_there = |word: &Word| directories.iter().any(|directory| directory.join(&word.text).exists());
    let has_place = arguments.iter().any(|word| is_there(word));
    let is_around = |directory: &PathBuf| excluded.starts_with(directory);
    (searches && !has_place && directories.iter().any(is_around))
        || arguments.iter().any(|word| reaches(word, directories, excluded))
}

/// Returns the arguments without the expression of a search, which is the first word that is not an option. An option
/// with one of the letters of `-e` and `-f` may hold the expression instead.
fn files<'a>(program: &str, arguments: &'a [Word]) -> Vec<&'a Word> {
    let is_option = |word: &&&Word| word.text.starts_with('-');
    let all: Vec<&Word> = arguments.iter().collect();
    let may_hold = all.iter().filter(is_option).any(|word| word.text.contains(['e', 'f']));
    let searches = SEARCH.contains(&program) || matches!(program, "grep" | "egrep" | "fgrep");
    let expression = all.iter().position(|word| !word.text.starts_with('-'));
    match expression.filter(|_| searches && !may_hold) {
        Some(at) => all.into_iter().enumerate().filter(|(other, _)| *other != at).map(|(_, word)| word).collect(),
        None => all,
    }
}

/// Returns whether a word may stand for an excluded path, for one below or for a directory around it.
fn reaches(word: &Word, directories: &[PathBuf], excluded: &Path) -> bool {
    // `--file=FILE`, `-fFILE`.
    let value = word.text.split_once('=').map(|(_, value)| value);
    let glued = word.text.strip_prefix('-').and_then(|rest| rest.get(1..));
    let texts = [Some(word.text.as_str()), value, glued];
    texts.into_iter().flatten().filter(|text| !text.is_empty()).any(|text| {
        directories.iter().any(|directory| {
            let path = normal(&directory.join(text));
            let is_hit = |path: &Path| excluded.starts_with(path) || path.starts_with(excluded);
            let leads_there = |path: &PathBuf| path.canonicalize().is_ok_and(|path| is_hit(&path));
            if word.kind == WordKind::Pattern
                && expansions(directory, text).is_none_or(|all| all.iter().any(leads_there))
            {
                return true;
            }
            if word.kind != WordKind::Literal {
                let loose = |path: &Path| path.to_string_lossy().replace(['?', '[', ']', '{', '}', '$', '~'], "*");
                let around = excluded.ancestors().any(|around| glob(&loose(&path), &around.to_string_lossy()));
                return word.kind == WordKind::Dynamic || around;
            }
            is_hit(&path) || leads_there(&path)
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::{ModePolicy, Otherwise, PermissionRules, Scene, Verdict, judge};
    use std::fs;

    #[test]
    fn command_that_may_read_an_excluded_file_is_a_question_without_a_sandbox() {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().canonicalize().unwrap();
        for path in ["src/a.rs", "config/token.txt"] {
            fs::create_dir_all(work.join(path).parent().unwrap()).unwrap();
            fs::write(work.join(path), "x").unwrap();
        }
        std::os::unix::fs::symlink("config/token.txt", work.join("link")).unwrap();
        let rules = PermissionRules::built_in(None).excluding(vec![work.join("config/token.txt")]);
        let scene = Scene { workspace: &work, directory: &work, home: None };
        let verdict = |command: &str| {
            judge(command, &scene, &rules, ModePolicy { reads: true, otherwise: Otherwise::Ask }).verdict
        };
        for command in [
            "cat config/token.txt",
            "cat ./src/../config/token.txt",
            "cat link",
            "cat config/*",
            "cat c*/t?ken.txt",
            "grep -rn . .",
            "grep -r x",
            "rg x",
            "rg x config",
            "cd config && cat token.txt",
            "cd config && rg x",
            "head < config/token.txt",
            "wc -l src/a.rs; cat config/token.txt",
            "grep -nex config/token.txt",
            "grep -n -A 3 x config/token.txt",
        ] {
            assert_eq!(verdict(command), Verdict::Ask, "{command}");
        }
        for command in ["ls -la", "cat src/a.rs", "grep -rn . src", "rg x src", "find . -name a", "wc -l src/a.rs"] {
            assert_eq!(verdict(command), Verdict::Allow, "{command}");
        }
    }
}
