//! Compiling plugins takes long, once: commands say so, and what a run leaves is compiled after it.

use pinion_tests::{Pinion, guest, say, wait_until};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;

/// A home whose user installed a plugin, and the locks of those who compile it, as if another process did.
struct Compiling {
    pinion: Pinion,
    plugin: PathBuf,
    /// The entries of compiled code, which are missing.
    code: Vec<PathBuf>,
    locks: Vec<File>,
}

impl Compiling {
    fn new() -> Self {
        let pinion = Pinion::cold();
        let plugin = pinion.home().join("plugins/greet.wasm");
        std::fs::create_dir_all(plugin.parent().unwrap()).unwrap();
        std::fs::copy(guest("greet_one"), &plugin).unwrap();
        assert_eq!(pinion.run(["plugin", "check", plugin.to_str().unwrap()]).code, Some(0));
        let code = code(&pinion);
        assert_eq!(code.len(), 1);
        let lock = |entry: &PathBuf| {
            std::fs::remove_file(entry).unwrap();
            let file = File::create(entry.with_extension("lock")).unwrap();
            file.try_lock().unwrap();
            file
        };
        let locks = code.iter().map(lock).collect();
        remove(&pinion, "description");
        Self { pinion, plugin, code, locks }
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

#[test]
fn commands_say_that_they_wait_for_a_compile() {
    let mut compiling = Compiling::new();
    let plugin = compiling.plugin.to_str().unwrap().to_owned();
    let commands: [&[&str]; 5] = [
        &["plugin", "check", &plugin],
        &["plugin", "info", &plugin],
        &["plugin", "list"],
        &["plugin", "call", &plugin, "greet", "{}"],
        &["plugin", "bench", &plugin, "greet", "{}", "--calls", "1"],
    ];
    let mut started: Vec<Child> =
        commands.iter().map(|arguments| compiling.pinion.command(*arguments).spawn().unwrap()).collect();
    for (child, command) in started.iter_mut().zip(commands) {
        assert!(lines(child).any(|line| line.contains("compiling plugin `greet`, once")), "{command:?}");
    }
    compiling.release();
    for (mut child, command) in started.into_iter().zip(commands) {
        assert!(child.wait().unwrap().success(), "{command:?}");
    }
}

#[test]
fn what_a_run_leaves_is_compiled_after_it() {
    let mut compiling = Compiling::new();
    let script = compiling.pinion.script(&[say("done")]);
    let ended = compiling.pinion.run(["-p", "--replay", script.to_str().unwrap(), "go"]);
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "done"), "{ended:?}");
    assert!(ended.stderr.contains("still compiling `greet.wasm` in the background (process "), "{ended:?}");
    assert!(compiling.code.iter().all(|entry| !entry.exists()));
    compiling.release();
    wait_until("the code is there", || compiling.code.iter().all(|entry| is_whole(entry)));
    let script = compiling.pinion.script(&[pinion_tests::call("greet", json!({})), say("done")]);
    let ended = compiling.pinion.run(["-p", "-v", "--replay", script.to_str().unwrap(), "go"]);
    assert!(ended.stderr.contains("hello from version one"), "{ended:?}");
    assert!(!ended.stderr.contains("compiling"), "{ended:?}");
}

fn is_whole(entry: &Path) -> bool {
    entry.metadata().is_ok_and(|metadata| metadata.len() > 0)
}
