//! The files that protected settings run: scripts behind hooks, tasks of editors, hooks of agents.
//!
//! Only commands that a person's tools run because of the settings are followed, and of the files that they name only scripts
//! and programs that exist. The project's own code, which a debugger or a test starts, is not among them.

use super::names::{NAMES, has_tasks};
use pinion_git::{CommandContext, LookBudget, files_of_command};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Extensions of scripts.
const SCRIPTS: &[&str] = &[
    "bash", "cjs", "el", "exs", "fish", "gdb", "ghci", "js", "ksh", "lldb", "lua", "mjs", "php", "pl", "ps1", "py",
    "r", "rb", "sh", "tcl", "ts", "vim", "zsh",
];
/// Extensions of files in settings that people and models read: the scripts that they mention are code of the project.
const TEXTS: &[&str] = &["md", "mdc", "mdx", "rst", "txt"];
/// Names of the project's directory that a shell would read otherwise.
const MACROS: &[&str] = &["$ProjectFileDir$", "$PROJECT_DIR$"];
/// Keys of settings that name files which are looked at, and not run.
const DATA: &[&str] = &["exclude", "exclude_types", "files", "glob", "include", "paths", "types", "types_or"];
/// Bytes of one file of commands, files of one name of settings, levels in it, and of scripts that name others.
const MAX_BYTES: usize = 128 * 1024;
const MAX_FILES: usize = 200;
/// Entries of a directory whose names are compared, instead of a look at each name.
const MAX_ENTRIES: usize = 4_000;
const MAX_LEVELS: usize = 4;
const MAX_SCRIPTS: usize = 200;
const MAX_CALLS: usize = 4;

/// Returns the files that the settings in a directory run, and those that these scripts run, which all exist.
pub(super) fn followed(directory: &Path, home: Option<&Path>, look: &mut LookBudget) -> BTreeSet<PathBuf> {
    let mut left: Vec<(PathBuf, usize)> = Vec::new();
    let entries = entries(directory);
    let exists = |file: &&str| {
        let top = file.split('/').next().unwrap_or(file);
        entries.as_ref().is_none_or(|entries| entries.iter().any(|entry| entry.eq_ignore_ascii_case(top)))
    };
    let known = NAMES.iter().filter_map(|setting| setting.file_of_commands()).filter(exists);
    let workspaces = entries.iter().flatten().map(String::as_str).filter(|name| has_tasks(name));
    for file in known.chain(workspaces) {
        if look.spend(1).is_err() {
            break;
        }
        // One with many files takes nothing from the others.
        let most = left.len() + MAX_FILES;
        files_in(&directory.join(file), 0, most, &mut left);
    }
    let mut found = BTreeSet::new();
    while let Some((file, calls)) = left.pop() {
        let Ok(text) = look.read(&file) else { break };
        let Some(text) = text.filter(|text| text.len() <= MAX_BYTES && !text.contains(&0)) else { continue };
        let text =
            MACROS.iter().fold(String::from_utf8_lossy(&text).into_owned(), |text, name| text.replace(name, "."));
        let beside = file.parent().unwrap_or(directory);
        for command in commands(&text) {
            for tree in [directory, beside] {
                let place = CommandContext { tree, git: &directory.join(".git"), home };
                let Ok(files) = files_of_command(command.as_bytes(), place, false, look) else { return found };
                for file in files.into_iter().filter(|file| is_script(file)) {
                    let Some(real) = file.canonicalize().ok().filter(|real| !found.contains(real)) else { continue };
                    if found.len() >= MAX_SCRIPTS {
                        return found;
                    }
                    if calls < MAX_CALLS {
                        left.push((real.clone(), calls + 1));
                    }
                    found.insert(real);
                }
            }
        }
    }
    found
}

/// Returns the names in a directory that are text; `None` if it cannot be listed or has too many.
fn entries(directory: &Path) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for (number, entry) in fs::read_dir(directory).ok()?.enumerate() {
        if number >= MAX_ENTRIES {
            return None;
        }
        names.extend(entry.ok()?.file_name().into_string());
    }
    names.sort();
    Some(names)
}

/// Adds a file, or those in a directory, up to `most`.
fn files_in(path: &Path, level: usize, most: usize, files: &mut Vec<(PathBuf, usize)>) {
    let is_text = || {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| TEXTS.iter().any(|text| extension.eq_ignore_ascii_case(text)))
    };
    if is_text() || path.ends_with("node_modules") {
        return;
    }
    let Ok(metadata) = fs::metadata(path) else { return };
    if metadata.is_file() {
        files.push((path.to_owned(), 0));
    } else if level < MAX_LEVELS {
        let mut entries: Vec<PathBuf> =
            fs::read_dir(path).into_iter().flatten().flatten().take(MAX_FILES).map(|entry| entry.path()).collect();
        entries.sort();
        // A link to a directory may lead around.
        entries.retain(|entry| level == 0 || !entry.is_symlink());
        for entry in entries {
            if files.len() < most {
                files_in(&entry, level + 1, most, files);
            }
        }
    }
}

/// Returns the texts in a file that may be commands: its lines, the values in them, and quoted texts.
fn commands(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")) {
        let line = line.strip_prefix("- ").unwrap_or(line);
        let key = line.split([':', '=']).next().unwrap_or_default().trim().trim_matches('"');
        if DATA.contains(&key) {
            continue;
        }
        // A permission such as `Edit(a.py)` is not a command.
        let is_permission = |text: &str| {
            text.split_once('(').is_some_and(|(name, _)| {
                name.starts_with(|c: char| c.is_ascii_uppercase()) && name.bytes().all(|b| b.is_ascii_alphanumeric())
            })
        };
        let value = line.split_once(": ").or_else(|| line.split_once(" = ")).map(|(_, value)| value.trim());
        let quoted = quoted(line).into_iter();
        // Also the words of a list.
        let listed = line.replace(['[', ']', ','], " ");
        let plain = [Some(line), value, Some(listed.as_str())].into_iter().flatten();
        let plain = plain.filter(|text| !text.starts_with(['"', '{', '[']) && !line.starts_with(['"', '{', '[']));
        all.extend(plain.map(str::to_owned).chain(quoted).filter(|text| !is_permission(text)));
    }
    all
}

/// Returns the texts between double quotes, without their backslashes.
fn quoted(line: &str) -> Vec<String> {
    let (mut texts, mut open, mut chars) = (Vec::new(), None::<String>, line.chars());
    while let Some(c) = chars.next() {
        match (c, &mut open) {
            ('"', None) => open = Some(String::new()),
            ('"', Some(_)) => texts.extend(open.take()),
            ('\\', Some(text)) => text.extend(chars.next()),
            (c, Some(text)) => text.push(c),
            (_, None) => {}
        }
    }
    texts
}

/// Returns whether a file exists that is a script or a program.
fn is_script(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    let has_extension = || {
        let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        extension.is_some_and(|extension| SCRIPTS.contains(&extension.as_str()))
    };
    metadata.is_file() && (is_program(&metadata) || has_extension())
}

#[cfg(unix)]
fn is_program(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}
#[cfg(not(unix))]
fn is_program(_: &fs::Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn script_of_each_kind_of_settings_is_found() {
        for (settings, script, text) in [
            (".aider.conf.yml", "s/lint.sh", "lint-cmd: s/lint.sh"),
            (".cargo/config.toml", "s/wrap.sh", "[build]\nrustc-wrapper = \"s/wrap.sh\""),
            (".clinerules/hooks/PreToolUse", "s/x.py", "#!/bin/sh\npython3 s/x.py\n"),
            (".crush.json", "s/x.sh", "{ \"lsp\": { \"go\": { \"command\": \"./s/x.sh\" } } }"),
            (".factory/settings.json", "s/x.sh", "{ \"hooks\": [{ \"command\": \"s/x.sh\" }] }"),
            (".dir-locals.el", "s/x.el", "((nil . ((eval . (load-file \"s/x.el\")))))"),
            (".exrc", "s/x.vim", "source s/x.vim"),
            (".gitlint", "s/rules.py", "[general]\nextra-path=s/rules.py"),
            (".helix/languages.toml", "s/fmt.sh", "formatter = { command = \"s/fmt.sh\" }"),
            (".hg/hgrc", "s/x.sh", "[hooks]\nupdate = ./s/x.sh --all"),
            (".irbrc", "s/x.rb", "load \"./s/x.rb\""),
            (".jj/repo/config.toml", "s/fix.py", "command = [\"python3\", \"s/fix.py\"]"),
            (".kiro/hooks/a.kiro.hook", "s/x.sh", "{ \"then\": { \"command\": \"sh s/x.sh\" } }"),
            (".lefthook-local/pre-commit/run", "s/x.js", "#!/bin/sh\nnode s/x.js\n"),
            ("lefthook-local.yml", "s/x.js", "pre-commit:\n  scripts:\n    run: node s/x.js"),
            (".npmrc", "s/x.sh", "script-shell=./s/x.sh"),
            (".nvim.lua", "s/x.lua", "dofile('s/x.lua')"),
            (".pnpmfile.cjs", "s/x.cjs", "const x = require('./s/x.cjs')"),
            (".Rprofile", "renv/activate.R", "source(\"renv/activate.R\")"),
            (".tmuxp.json", "s/x.sh", "{ \"before_script\": \"./s/x.sh\" }"),
            (".tmuxp.yaml", "s/x.sh", "before_script: ./s/x.sh"),
            (".tmuxp.yml", "s/x.sh", "windows:\n- panes:\n  - bash s/x.sh"),
            (".zshenv", "s/x.zsh", ". ./s/x.zsh"),
            ("sitecustomize.py", "s/x.py", "exec(open('s/x.py').read())"),
            (".idea/watcherTasks.xml", "s/x.sh", "<option name=\"program\" value=\"$ProjectFileDir$/s/x.sh\" />"),
            ("my.code-workspace", "s/x.sh", "{ \"tasks\": [{ \"command\": \"s/x.sh\" }] }"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            for (path, text) in [(settings, text), (script, "")] {
                fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
                fs::write(root.join(path), text).unwrap();
            }
            let found = followed(&root, None, &mut LookBudget::new(10_000));
            assert!(found.contains(&root.join(script)), "{settings}: {found:?}");
        }
    }

    #[test]
    fn scripts_behind_hooks_and_tasks_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        for script in [
            "husky.sh",
            "pre.sh",
            "task.sh",
            "agent.py",
            "env.sh",
            "lib.sh",
            "hook.rb",
            "left.js",
            "code.sh",
            "gemini.mjs",
            "yarn.cjs",
            "mise.sh",
            "data.py",
            "editable.py",
            "debugged.js",
            "mentioned.py",
        ] {
            write(&format!("scripts/{script}"), "");
        }
        write("scripts/plain", "");
        write("bin/tool", "");
        fs::set_permissions(root.join("bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        write("scripts/husky.sh", "#!/bin/sh\n. \"$(dirname \"$0\")/lib.sh\"\n");
        write(".husky/pre-commit", "npx lint-staged\nsh ./scripts/husky.sh \"$@\" && bin/tool\n");
        write(
            ".pre-commit-config.yaml",
            "repos:\n- repo: local\n  hooks:\n  - id: x\n    entry: ./scripts/pre.sh --all\n    exclude: scripts/data.py\n",
        );
        write(".vscode/tasks.json", "{ \"tasks\": [{ \"command\": \"${workspaceFolder}/scripts/task.sh\" }] }");
        write(".vscode/launch.json", "{ \"program\": \"${workspaceFolder}/scripts/debugged.js\" }");
        write(
            ".claude/settings.json",
            "{\"permissions\": {\"allow\": [\"Edit(scripts/editable.py)\"]}, \"hooks\": {\"Stop\": [{\"hooks\": [\n\
             {\"type\": \"command\", \"command\": \"python3 \\\"$CLAUDE_PROJECT_DIR\\\"/scripts/agent.py\"},\n\
             {\"type\": \"command\", \"command\": \"$CLAUDE_PROJECT_DIR/scripts/code.sh\"}]}]}}",
        );
        write(".envrc", "source_up\nsource ./scripts/env.sh\n");
        write(".overcommit.yml", "PreCommit:\n  X:\n    command: ['ruby', 'scripts/hook.rb']\n");
        write("lefthook.yml", "pre-commit:\n  commands:\n    x:\n      run: node scripts/left.js {staged_files}\n");
        write(".gemini/settings.json", "{\n  \"command\": \"node scripts/gemini.mjs\"\n}\n");
        write(".yarnrc.yml", "yarnPath: scripts/yarn.cjs\n");
        write("mise.toml", "[tasks.x]\nrun = \"bash scripts/mise.sh\"\n");
        write(".claude/skills/x/SKILL.md", "Run `python3 scripts/mentioned.py`.\n\npython3 scripts/mentioned.py\n");
        (0..MAX_FILES + 10).for_each(|number| write(&format!(".agents/{number}"), ""));
        let found = followed(&root, None, &mut LookBudget::new(10_000));
        let names: Vec<String> =
            found.iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect();
        for expected in [
            "bin/tool",
            "scripts/agent.py",
            "scripts/code.sh",
            "scripts/env.sh",
            "scripts/gemini.mjs",
            "scripts/hook.rb",
            "scripts/husky.sh",
            "scripts/left.js",
            "scripts/lib.sh",
            "scripts/mise.sh",
            "scripts/pre.sh",
            "scripts/task.sh",
            "scripts/yarn.cjs",
        ] {
            assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
        }
        for other in
            ["scripts/data.py", "scripts/editable.py", "scripts/debugged.js", "scripts/plain", "scripts/mentioned.py"]
        {
            assert!(!names.iter().any(|name| name == other), "{other}");
        }
    }
}
