//! Programs of an attempt, in the sandbox and outside.

use super::{NOBODY_ARGUMENTS, User, World, as_nobody};
use pinion_sandbox::{Fate, Launcher, Layers, OpenedDirectories, Program, Protection, Reverted, helper_beside};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
use tempfile::TempDir;

const RUN_IN_SANDBOX: &str = "run-in-sandbox-for-parent";
/// Functions for scripts. Every script that ran to its end prints `tried`.
const PRELUDE: &str = r#"
py() { /usr/bin/python3 -c "import ctypes, os
L = ctypes.CDLL(None, use_errno=True)
def ok(r): print('ESCAPED' if r != -1 else 'refused')
$1"; }
call() { py "ok(L.syscall($1, $2, $3, $4, $5))"; }
evil() { mkdir -p "$(dirname "$1")" && printf '#!/bin/sh\necho evil >> "$OUT/file"; cat\n' > "$1" && chmod 755 "$1"; }
repository() { git init -q "$1" && evil "$1/evil" && git -C "$1" config core.fsmonitor ./evil; }
open_to_write() { (: >> $1) 2>/dev/null && echo ESCAPED; }
"#;

impl World {
    /// Makes an attempt in the sandbox. The user continues with `then`, outside.
    ///
    /// # Errors
    /// It reached something that it must not reach, or did not run.
    pub(in super::super) fn attempt(&self, script: &str, then: &str, layers: Layers) -> Result<(), String> {
        let before = self.snapshot();
        let output = self.output(&format!("{script}\necho tried"), layers);
        self.judge(&before, &output)?;
        if !then.is_empty() {
            self.outside(then);
            self.judge(&before, &output)?;
        }
        Ok(())
    }

    /// Runs a script as the user, outside.
    pub(in super::super) fn outside(&self, script: &str) -> Output {
        let mut command = if self.user == User::Other { as_nobody() } else { Command::new("env") };
        let environment = self.environment().into_iter().filter(|(name, _)| name != "LD_PRELOAD");
        command.args(["/bin/bash", "-c", script]).env_clear().envs(environment).stdin(Stdio::null());
        command.current_dir(self.root.join("work")).output().unwrap()
    }

    /// Runs a script that must succeed.
    ///
    /// # Errors
    /// It failed.
    pub(in super::super) fn works(&self, script: &str, layers: Layers) -> Result<(), String> {
        let output = self.output(&format!("set -e\n{script}"), layers);
        let text = || format!("{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(()) } else { Err(text()) }
    }

    /// Runs a script in the sandbox.
    pub(in super::super) fn output(&self, script: &str, layers: Layers) -> Output {
        let mut program = self.start(script, layers);
        drop(program.child.stdin.take());
        let output = program.child.wait_with_output().unwrap();
        self.after(program.protection);
        output
    }

    /// Starts a script in the sandbox.
    fn start(&self, script: &str, layers: Layers) -> Started {
        fs::copy(preload(), self.root.join("work/preload.so")).unwrap();
        // A descriptor that the host forgot to close.
        let outside = self.root.join("outside/file");
        let helper = format!("exec 9>>{}; exec \"$@\"", outside.display());
        let mut arguments = vec!["-c".into(), helper.into(), "bash".into()];
        if self.user == User::Other {
            arguments.extend(NOBODY_ARGUMENTS.map(Into::into));
        }
        let pinion = pinion_tests::binary();
        arguments.extend(match helper_beside(&pinion) {
            Some(small) => vec![small.into_os_string()],
            None => vec![pinion.into_os_string(), RUN_IN_SANDBOX.into()],
        });
        let launcher = Launcher::new("/bin/bash".into(), arguments).with_layers(layers);
        let (policy, environment) = (self.policy(), self.environment());
        let script = ["-c".to_owned(), format!("{PRELUDE}{script}")];
        let work = self.root.join("work");
        let program = Program { program: "/bin/bash", arguments: &script, directory: &work, environment: &environment };
        let protection = Protection::before(&self.protected());
        let mut command = launcher.command(program, &policy).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Started { child: command.spawn().unwrap(), protection }
    }

    /// Checks the files that a program left, as the host does.
    fn after(&self, protection: Protection) -> Vec<Reverted> {
        let mut opened = OpenedDirectories::default();
        let mut found = self.repositories();
        while opened.open(protection.roots(), &found.1) {
            found = self.repositories();
        }
        protection.after(&found.0, &[], &self.root.join("home/.config/pinion/scratch"), None)
    }

    /// Runs a script that prints a line and then waits for one. In between, `change` happens outside. Waits for the end of a
    /// script that `ends` because of that, and otherwise until `path` is covered again. Returns the output, and the measures
    /// after it.
    pub(in super::super) fn during(
        &self,
        script: &str,
        layers: Layers,
        change: &str,
        covered_again: Option<&str>,
    ) -> (Output, Vec<(PathBuf, Fate)>) {
        let mut program = self.start(&format!("echo ready; read line; {script}"), layers);
        let mut stdout = BufReader::new(program.child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let changed = self.outside(change);
        assert!(changed.status.success(), "{changed:?}");
        let input = program.child.stdin.take();
        if let Some(path) = covered_again {
            let path = self.root.join(path);
            let started = Instant::now();
            while !is_mounted(program.child.id(), &path) && program.child.try_wait().unwrap().is_none() {
                assert!(started.elapsed().as_secs() < 60, "`{}` stays open", path.display());
                std::thread::yield_now();
            }
            drop(input);
        }
        let mut output = program.child.wait_with_output().unwrap();
        std::io::Read::read_to_end(&mut stdout, &mut output.stdout).unwrap();
        let reverted = self.after(program.protection).into_iter();
        (output, reverted.map(|reverted| (reverted.path, reverted.fate)).collect())
    }

    /// Runs a script without a sandbox.
    ///
    /// # Errors
    /// It reached something.
    pub(in super::super) fn attempt_unconfined(&self, script: &str, then: &str) -> Result<(), String> {
        let before = self.snapshot();
        let environment = self.environment().into_iter().filter(|(name, _)| name != "LD_PRELOAD");
        let mut command = Command::new("/bin/bash");
        command.arg("-c").arg(format!("{PRELUDE}{script}\necho tried")).env_clear().envs(environment);
        let output = command.current_dir(self.root.join("work")).output().unwrap();
        self.outside(then);
        self.judge(&before, &output)
    }
}

/// A program that runs in the sandbox.
struct Started {
    child: Child,
    protection: Protection,
}

/// Returns whether something is mounted at a path for the first process in the sandbox, whose parent is `helper`.
fn is_mounted(helper: u32, path: &Path) -> bool {
    let children = fs::read_to_string(format!("/proc/{helper}/task/{helper}/children")).unwrap_or_default();
    let first = children.split_whitespace().next().unwrap_or("self");
    let table = fs::read(format!("/proc/{first}/mountinfo")).unwrap_or_default();
    // One of the sockets has a name that is not text.
    String::from_utf8_lossy(&table)
        .lines()
        .any(|line| line.split(' ').nth(4).is_some_and(|place| Path::new(place) == path))
}

/// Returns a library that writes to `$OUT/file` in every program into which it is loaded.
fn preload() -> &'static Path {
    static LIBRARY: std::sync::OnceLock<(TempDir, PathBuf)> = std::sync::OnceLock::new();
    let (_, library) = LIBRARY.get_or_init(|| {
        let directory = TempDir::new().unwrap();
        let (source, library) = (directory.path().join("p.c"), directory.path().join("p.so"));
        let code = "#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void f(void) {\n\
                    char p[4096]; if (!getenv(\"OUT\")) return; snprintf(p, sizeof p, \"%s/file\", getenv(\"OUT\"));\n\
                    FILE *o = fopen(p, \"a\"); if (o) { fputs(\"preloaded\", o); fclose(o); } }\n";
        fs::write(&source, code).unwrap();
        let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
        assert!(status.success());
        (directory, library)
    });
    library
}
