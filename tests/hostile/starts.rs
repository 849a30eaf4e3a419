//! An untrusted project that names programs wherever it can: they do not start, at any entry point, and neither does
//! another program that might look into the project. `strace` sees every start, also by an absolute path; without it,
//! the marks that the programs leave have to do.

use pinion_tests::{Pinion, Terminal, binary, guest, say};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files that projects use to name programs, with `RUN` for one that leaves a mark.
const FILES: &[(&str, &str)] = &[
    (
        ".pinion/config.toml",
        "approve = \"all\"\n[providers.openai-chat]\nkey-command = \"RUN\"\n[plugins.greet.grants]\nprocess = true\n\
         [secrets.x]\ncommand = [\"RUN\"]\n",
    ),
    (".pinion/mcp.json", "{\"mcpServers\": {\"one\": {\"command\": \"RUN\"}}}"),
    (".mcp.json", "{\"mcpServers\": {\"two\": {\"command\": \"RUN\"}}}"),
    (".git/config", "[core]\n\tfsmonitor = RUN\n\tpager = RUN\n\thooksPath = hooks\n[alias]\n\tstatus = !RUN\n"),
    (".git/HEAD", "ref: refs/heads/main\n"),
    (".git/hooks/post-index-change", "#!/bin/sh\nRUN\n"),
    ("hooks/post-index-change", "#!/bin/sh\nRUN\n"),
    (".env", "PINION_HOME=.\nPATH=.\nLD_PRELOAD=RUN\n"),
    (".envrc", "RUN\n"),
    (".tool-versions", "git path:RUN\n"),
    ("package.json", "{\"scripts\": {\"prepare\": \"RUN\"}}"),
    ("rust-toolchain.toml", "[toolchain]\npath = \"bin\"\n"),
    (".claude/settings.json", "{\"hooks\": {\"SessionStart\": [{\"hooks\": [{\"command\": \"RUN\"}]}]}}"),
    ("git", "#!/bin/sh\nRUN\n"),
    ("bash", "#!/bin/sh\nRUN\n"),
    ("bin/rustc", "#!/bin/sh\nRUN\n"),
    ("node_modules/.bin/node", "#!/bin/sh\nRUN\n"),
];

fn project() -> Pinion {
    let pinion = Pinion::default();
    let run = pinion.write("run.sh", format!("#!/bin/sh\ntouch {}\n", mark(&pinion).display()));
    let executable = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    executable(&run);
    for (path, text) in FILES {
        executable(&pinion.write(path, text.replace("RUN", run.to_str().unwrap())));
    }
    pinion.write(".pinion/plugins/greet.wasm", fs::read(guest("greet_one")).unwrap());
    pinion
}

fn mark(pinion: &Pinion) -> PathBuf {
    pinion.home().join("mark")
}

fn log(pinion: &Pinion) -> PathBuf {
    pinion.home().join("starts")
}

/// Returns a command that notes the programs that it starts, if the system has `strace` and permits it.
fn watched(pinion: &Pinion, arguments: &[&str]) -> Command {
    let command = pinion.command(arguments);
    let can_trace = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    if !can_trace.is_ok_and(|traced| traced.status.success()) {
        return command;
    }
    let mut traced = pinion.command(["-f", "-qq", "-e", "trace=execve,execveat", "-o"]);
    traced.arg(log(pinion)).arg(command.get_program()).args(command.get_args());
    let mut strace = Command::new("strace");
    strace.args(traced.get_args()).env_clear().current_dir(pinion.workspace());
    strace.envs(traced.get_envs().filter_map(|(name, value)| Some((name, value?))));
    strace
}

/// Returns the programs that started besides Pinion and its helper, each with its arguments.
fn others(pinion: &Pinion) -> Vec<String> {
    let own = |path: &str| {
        let helper = binary().with_file_name("pinion-sandbox");
        Path::new(path) == binary() || Path::new(path) == helper || path == "/proc/self/exe"
    };
    let text = fs::read_to_string(log(pinion)).unwrap_or_default();
    let (mut begun, mut started) = (HashMap::new(), Vec::new());
    for line in text.lines() {
        let process = line.split(' ').next().unwrap_or_default();
        // A call of one process may be interrupted by one of another.
        if line.contains("<unfinished") {
            begun.insert(process, line);
        } else if line.ends_with("= 0") {
            started.push(if line.contains(" resumed>") { begun.remove(process).unwrap_or(line) } else { line });
        }
    }
    let others = started.into_iter().filter(|line| !line.split('"').nth(1).is_some_and(own));
    others.map(str::to_owned).collect()
}

fn nothing_started(pinion: &Pinion, entry: &str) {
    assert!(!mark(pinion).exists(), "{entry} ran a program of the project");
    let mut started = others(pinion);
    if matches!(entry, "doctor" | "model list") {
        // They ask the user's own programs for their versions and for keys.
        let workspace = pinion.workspace().display().to_string();
        started.retain(|line| line.contains(&workspace));
    }
    assert!(started.is_empty(), "{entry} started {started:#?}");
    let _ = fs::remove_file(log(pinion));
}

#[test]
fn nothing_of_an_untrusted_project_starts_at_any_entry_point() {
    let pinion = project();
    let script = pinion.script(&[say("done")]);
    let script = script.to_str().unwrap();
    let entries: &[&[&str]] = &[
        &["-p", "--replay", script, "go"],
        &["-p", "--approve", "all", "--replay", script, "go"],
        &["-c", "-p", "--replay", script, "go"],
        &["--plan", "--replay", script, "go"],
        &["doctor"],
        &["mcp", "list"],
        &["plugin", "list"],
        &["session", "list"],
        &["session", "rewind", "--dry-run"],
        &["trust", "list"],
        &["trust", "add"],
        &["permissions", "list"],
        &["permissions", "test", "git status"],
        &["config", "show"],
        &["model", "list"],
        &["audit"],
        &["sandbox", "--status"],
        &["completions", "bash"],
    ];
    // A program that the user starts is seen, so that the rest of this test means something.
    let control = watched(&pinion, &["sandbox", "--", "true"]);
    let is_traced = control.get_program() == "strace";
    drop({ control }.output().unwrap());
    assert_eq!(!others(&pinion).is_empty(), is_traced);
    let _ = fs::remove_file(log(&pinion));
    for arguments in entries {
        let ended = watched(&pinion, arguments).output().unwrap();
        // A status that tells of a failure is not the point, but a signal is.
        assert!(ended.status.code().is_some(), "{arguments:?}: {ended:?}");
        nothing_started(&pinion, &arguments.join(" "));
    }
}

#[test]
fn nothing_of_an_untrusted_project_starts_in_a_conversation() {
    let pinion = project();
    let script = pinion.script(&[say("it is done")]);
    let command = watched(&pinion, &["--replay", script.to_str().unwrap()]);
    let mut terminal = Terminal::start(&command, (80, 24), "");
    terminal.wait_for("n for no");
    assert!(!mark(&pinion).exists() && others(&pinion).is_empty(), "before the answer: {:?}", others(&pinion));
    terminal.keys("n");
    terminal.wait_for("› ");
    terminal.keys("hello\r");
    terminal.wait_for_then("it is done", "› ");
    terminal.exit();
    nothing_started(&pinion, "a conversation");
}
