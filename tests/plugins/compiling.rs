//! Compiling plugins takes long, once: commands say so, and plugins that a run or a conversation did not wait for are
//! compiled after it.

use pinion_tests::{Pinion, Terminal, guest, say, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;

/// A home that lacks the compiled code of its plugins, and the locks of those who compile them, as if another process did.
struct Compiling {
    pinion: Pinion,
    /// The entries of compiled code, which are missing.
    code: Vec<PathBuf>,
    locks: Vec<File>,
}

impl Compiling {
    /// A home where the user installed a plugin.
    fn installed() -> Self {
        let pinion = Pinion::cold();
        let plugin = plugin_of(&pinion);
        std::fs::create_dir_all(plugin.parent().unwrap()).unwrap();
        std::fs::copy(guest("greet_one"), &plugin).unwrap();
        assert_eq!(pinion.run(["plugin", "check", plugin.to_str().unwrap()]).code, Some(0));
        Self::again(pinion)
    }

    /// Removes a home's compiled code of its plugins.
    fn again(pinion: Pinion) -> Self {
        let code = code(&pinion);
        assert!(!code.is_empty());
        let lock = |entry: &PathBuf| {
            std::fs::remove_file(entry).unwrap();
            let file = File::create(entry.with_extension("lock")).unwrap();
            file.try_lock().unwrap();
            file
        };
        let locks = code.iter().map(lock).collect();
        remove(&pinion, "description");
        Self { pinion, code, locks }
    }

    /// Waits until each command says that it waits for a compile, and succeeds after it.
    fn assert_announced_by(&mut self, commands: &[&[&str]], name: &str) {
        let started = self.waiting(commands, name);
        self.release();
        for (mut child, command) in started.into_iter().zip(commands) {
            assert!(child.wait().unwrap().success(), "{command:?}");
        }
    }

    /// Interrupts each command once it says that it waits for a compile. No process compiles meanwhile, so that it
    /// would wait forever.
    fn assert_interrupted(&self, commands: &[&[&str]], name: &str) {
        for (mut child, command) in self.waiting(commands, name).into_iter().zip(commands) {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            wait_until("the command has ended", || child.try_wait().unwrap().is_some());
            assert_eq!(child.wait().unwrap().code(), Some(130), "{command:?}");
        }
        self.assert_no_code();
    }

    /// Starts commands, and waits until each says that it waits for a compile.
    fn waiting(&self, commands: &[&[&str]], name: &str) -> Vec<Child> {
        let start = |arguments: &&[&str]| self.pinion.command(*arguments).spawn().unwrap();
        let mut started: Vec<Child> = commands.iter().map(start).collect();
        let notice = format!("compiling plugin `{name}`, once");
        for (child, command) in started.iter_mut().zip(commands) {
            assert!(lines(child).any(|line| line.contains(&notice)), "{command:?}");
        }
        started
    }

    fn assert_no_code(&self) {
        assert!(self.code.iter().all(|entry| !entry.exists()));
    }

    /// Lets others compile, and waits until they have.
    fn release_and_wait(&mut self) {
        self.release();
        wait_until("the code is there", || self.code.iter().all(|entry| is_whole(entry)));
    }

    /// Lets others compile.
    fn release(&mut self) {
        self.locks.clear();
    }
}

fn entries(pinion: &Pinion) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(pinion.home().join("cache/components")).unwrap().flatten().map(|entry| entry.path())
}

fn code(pinion: &Pinion) -> Vec<PathBuf> {
    entries(pinion).filter(|path| path.extension().is_none()).collect()
}

fn remove(pinion: &Pinion, extension: &str) {
    entries(pinion)
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .for_each(|path| std::fs::remove_file(path).unwrap());
}

fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok)
}

/// The notice at the end about plugins that are not ready.
const LEFT: &str = "still compiling `greet.wasm` in the background (process ";

fn plugin_of(pinion: &Pinion) -> PathBuf {
    pinion.home().join("plugins/greet.wasm")
}

#[test]
fn commands_say_that_they_wait_for_a_compile_and_can_be_interrupted() {
    let mut compiling = Compiling::installed();
    let plugin = plugin_of(&compiling.pinion).to_str().unwrap().to_owned();
    let commands: [&[&str]; 5] = [
        &["plugin", "check", &plugin],
        &["plugin", "info", &plugin],
        &["plugin", "list"],
        &["plugin", "call", &plugin, "greet", "{}"],
        &["plugin", "bench", &plugin, "greet", "{}", "--calls", "1"],
    ];
    compiling.assert_interrupted(&commands, "greet");
    compiling.assert_announced_by(&commands, "greet");
}

#[test]
fn build_test_and_pack_say_that_they_compile_and_can_be_interrupted() {
    let mut pinion = Pinion::cold();
    pinion.write("greeter/greet.wasm", std::fs::read(guest("greet_one")).unwrap());
    let about = "name = 'greeter'\nversion = '0.1.0'\n[build]\nsteps = [['cp', 'greet.wasm', 'built.wasm']]\n";
    pinion.write("greeter/pinion-plugin.toml", format!("{about}output = 'built.wasm'\n"));
    let case = "[[case]]\nname = 'greets'\ntool = 'greet'\noutput = 'hello from version one'\n";
    pinion.write("greeter/tests/cases.toml", case);
    let out = pinion.workspace().join("packed.wasm");
    let commands: [&[&str]; 3] = [
        &["plugin", "build", "greeter"],
        &["plugin", "test", "greeter"],
        &["plugin", "pack", "greeter/greet.wasm", "--name", "greeter", "--out", out.to_str().unwrap()],
    ];
    // One after the other, because two of them write the same file.
    for command in commands {
        // Each has separate code, if its manifest differs.
        assert_eq!(pinion.run(command).code, Some(0), "{command:?}");
        let mut compiling = Compiling::again(pinion);
        compiling.assert_interrupted(&[command], "greeter");
        compiling.assert_announced_by(&[command], "greeter");
        pinion = compiling.pinion;
    }
}

/// A step of a slow language, on a terminal, whose Ctrl-C reaches it as well.
#[test]
fn interrupt_ends_a_build_during_its_steps() {
    let pinion = Pinion::default();
    let step = "steps = [['sh', '-c', 'echo step $$; exec sleep 1000']]\noutput = 'built.wasm'\n";
    pinion.write("pinion-plugin.toml", format!("name = 'slow'\nversion = '0.1.0'\n[build]\n{step}"));
    let mut terminal = Terminal::start(&pinion.command(["plugin", "build"]), (80, 24), "");
    let seen = terminal.wait_until("the process of the step", |seen| {
        seen.rsplit("\nstep ").next().is_some_and(|rest| seen.contains("\nstep ") && rest.contains('\n'))
    });
    terminal.keys("\x03");
    let (code, seen_at_end) = terminal.end();
    assert_eq!(code, Some(130), "{seen_at_end}");
    let step = seen.rsplit("\nstep ").next().unwrap().split_whitespace().next().unwrap();
    wait_until("the step has ended", || !Path::new("/proc").join(step).exists());
}

#[test]
fn what_a_run_leaves_is_compiled_after_it() {
    let mut compiling = Compiling::installed();
    let script = compiling.pinion.script(&[say("done")]);
    let ended = compiling.pinion.run(["-p", "--replay", script.to_str().unwrap(), "go"]);
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "done"), "{ended:?}");
    assert!(ended.stderr.contains(LEFT), "{ended:?}");
    compiling.assert_no_code();
    compiling.release_and_wait();
    let script = compiling.pinion.script(&[pinion_tests::call("greet", json!({})), say("done")]);
    let ended = compiling.pinion.run(["-p", "-v", "--replay", script.to_str().unwrap(), "go"]);
    assert!(ended.stderr.contains("hello from version one"), "{ended:?}");
    assert!(!ended.stderr.contains("compiling"), "{ended:?}");
}

/// Converses with a form of the UI while a plugin compiles, and returns the terminal's output.
fn converse(compiling: &Compiling, form: &str) -> String {
    let script = compiling.pinion.script(&[say("an answer")]);
    let command = compiling.pinion.command(["--ui", form, "--replay", script.to_str().unwrap(), "go"]);
    let terminal = Terminal::start(&command, (80, 24), "");
    terminal.wait_for("an answer");
    let (code, seen) = terminal.exit();
    assert_eq!(code, Some(0), "{seen}");
    seen
}

#[test]
fn what_a_conversation_leaves_is_compiled_after_it() {
    for form in ["line", "full"] {
        let mut compiling = Compiling::installed();
        let seen = converse(&compiling, form);
        assert!(seen.contains(LEFT), "{form}:\n{seen}");
        compiling.assert_no_code();
        compiling.release_and_wait();
        let seen = converse(&compiling, form);
        assert!(!seen.contains("still compiling"), "{form}:\n{seen}");
    }
}

fn is_whole(entry: &Path) -> bool {
    entry.metadata().is_ok_and(|metadata| metadata.len() > 0)
}
