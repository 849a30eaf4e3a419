//! A repository that lets git run programs: the host never starts them, for any request of the user. It reads the
//! branch from the file, takes checkpoints without git, and runs its own helpers outside of the repository.

use pinion_tests::{Pinion, call, say};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// A way for a repository to make a program that reads it run another one.
struct Vector {
    name: &'static str,
    /// The files and their texts; `RUN` in them is a program that leaves a mark.
    files: &'static [(&'static str, &'static str)],
    /// Variables of the user's environment that point into the repository.
    variables: &'static [(&'static str, &'static str)],
    /// A command that shows that the vector works; `None` if that needs a network or a terminal.
    works: Option<&'static str>,
}

const fn config(name: &'static str, files: &'static [(&'static str, &'static str)], works: &'static str) -> Vector {
    Vector { name, files, variables: &[], works: Some(works) }
}

const VECTORS: &[Vector] = &[
    config("a monitor of files", &[(".git/config", "[core]\n\tfsmonitor = RUN\n")], "git status"),
    config("a hook", &[(".git/hooks/post-index-change", "#!/bin/sh\nRUN\n")], "git reset"),
    config(
        "a directory of hooks",
        &[(".git/config", "[core]\n\thooksPath = h\n"), ("h/post-index-change", "#!/bin/sh\nRUN\n")],
        "git reset",
    ),
    config(
        "a filter",
        &[(".git/config", "[filter \"x\"]\n\tclean = RUN\n\trequired\n"), (".gitattributes", "* filter=x\n")],
        "git add a.txt",
    ),
    config("an external diff", &[(".git/config", "[diff]\n\texternal = RUN\n")], "git diff"),
    config(
        "a conversion to text",
        &[(".git/config", "[diff \"x\"]\n\ttextconv = RUN\n"), (".gitattributes", "* diff=x\n")],
        "git diff",
    ),
    config("a pager", &[(".git/config", "[core]\n\tpager = RUN\n")], "git -p status"),
    config(
        "an included file",
        &[(".git/config", "[include]\n\tpath = ../more\n"), ("more", "[core]\n\tfsmonitor = RUN\n")],
        "git status",
    ),
    config(
        "a command of ssh",
        &[(".git/config", "[core]\n\tsshCommand = RUN\n[remote \"origin\"]\n\turl = git@host:x\n")],
        "git fetch",
    ),
    config(
        "a helper for credentials",
        &[(".git/config", "[credential]\n\thelper = !RUN\n")],
        "printf 'protocol=https\\nhost=x\\n\\n' | GIT_TERMINAL_PROMPT=0 git credential fill",
    ),
    Vector {
        name: "variables of git",
        files: &[("more", "[core]\n\tfsmonitor = RUN\n")],
        variables: &[("GIT_CONFIG_GLOBAL", "more"), ("GIT_EXTERNAL_DIFF", "RUN"), ("GIT_SSH_COMMAND", "RUN")],
        works: Some("GIT_CONFIG_GLOBAL=more git status"),
    },
    Vector {
        name: "a toolchain of Rust",
        files: &[
            ("rust-toolchain.toml", "[toolchain]\npath = \"t\"\n"),
            ("t/bin/rustc", "#!/bin/sh\nRUN\n"),
            ("t/bin/cargo", "#!/bin/sh\nRUN\n"),
            (".cargo/config.toml", "[build]\nrustc-wrapper = \"RUN\"\n"),
        ],
        variables: &[],
        works: None,
    },
];

/// Creates a repository with a vector and with changes, and returns it.
fn repository(vector: &Vector) -> Pinion {
    let pinion = Pinion::default();
    pinion.write("a.txt", "before\n");
    let git = |arguments: &[&str]| {
        let isolated = [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")];
        let status =
            Command::new("git").args(arguments).current_dir(pinion.workspace()).envs(isolated).output().unwrap();
        assert!(status.status.success(), "{status:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]);
    pinion.write("a.txt", "after\n");
    let run = pinion.write("run.sh", format!("#!/bin/sh\ntouch {}\n", mark(&pinion).display()));
    executable(&run);
    for (path, text) in vector.files {
        let text = text.replace("RUN", run.to_str().unwrap());
        let before = fs::read_to_string(pinion.workspace().join(path)).unwrap_or_default();
        executable(&pinion.write(path, before + &text));
    }
    pinion
}

fn executable(path: &std::path::Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn mark(pinion: &Pinion) -> std::path::PathBuf {
    pinion.home().join("mark")
}

#[test]
fn host_runs_no_program_that_a_repository_names() {
    for vector in VECTORS {
        let pinion = repository(vector);
        let replies = [call("write", json!({ "path": "b.txt", "content": "x" })), say("done")];
        let replay = pinion.script(&replies);
        let work = ["-p", "--approve", "all", "--replay", replay.to_str().unwrap(), "go"];
        let commands: &[&[&str]] = &[
            &work,
            &["doctor"],
            &["config", "show"],
            &["trust", "add", "--yes"],
            &["mcp", "list"],
            &["sandbox", "--status"],
            &["permissions", "test", "git status"],
            &["session", "rewind"],
        ];
        for arguments in commands {
            let mut command = pinion.command(*arguments);
            for (name, value) in vector.variables {
                command.env(name, value.replace("RUN", pinion.workspace().join("run.sh").to_str().unwrap()));
            }
            let output = command.output().unwrap();
            assert!(!mark(&pinion).exists(), "{}: {arguments:?}: {output:?}", vector.name);
        }
    }
}

/// Shows that the vectors work where nothing prevents it, so that the test above is able to fail.
#[test]
fn git_itself_runs_what_the_repository_names() {
    for vector in VECTORS {
        let Some(works) = vector.works else { continue };
        let pinion = repository(vector);
        let isolated = [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")];
        // A pager needs a terminal.
        let script =
            if vector.name == "a pager" { format!("script -qec '{works}' /dev/null") } else { works.to_owned() };
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(pinion.workspace()).envs(isolated);
        let output = command.output().unwrap();
        assert!(mark(&pinion).exists(), "{}: {output:?}", vector.name);
    }
}
