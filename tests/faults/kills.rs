//! Programs of a host that is killed.

use super::{call, sample, say, scripted};
use pinion_tests::{Pinion, until_gone};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

fn number(pinion: &Pinion, file: &str) -> i32 {
    let path = pinion.workspace().join(file);
    let read = || std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
    pinion_tests::wait_until("the program has started", || read().is_some());
    read().unwrap()
}

#[tokio::test]
async fn programs_do_not_outlive_a_killed_host() {
    let pinion = Pinion::default();
    // A pipeline, a background process, and one that forked twice.
    let command =
        "(sleep 1000 & echo $! > twice) & sleep 1000 & echo $! > background; echo $$ > shell; sleep 1000 | cat";
    // Without a sandbox, whose namespace would end them, and would give them other numbers.
    let options = ["--approve", "all", "--no-sandbox"];
    let mut child = scripted(&pinion, &[call("bash", json!({ "command": command }))], &options).spawn().unwrap();
    let programs = ["shell", "background", "twice"].map(|file| number(&pinion, file));
    // SIGKILL, which the host cannot handle.
    child.kill().unwrap();
    child.wait().unwrap();
    for program in programs {
        until_gone(program).await;
    }
}

#[test]
fn confined_programs_do_not_outlive_a_killed_host() {
    if !pinion_tests::has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let marked = format!("{}.5", 1_000_000 + std::process::id());
    let command = format!("setsid sleep {marked} & (setsid sleep {marked} &) ; touch begun; sleep {marked}");
    let options = ["--approve", "all"];
    let mut child = scripted(&pinion, &[call("bash", json!({ "command": command }))], &options).spawn().unwrap();
    pinion_tests::wait_until("the programs run", || pinion.workspace().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let line = format!("sleep\0{marked}\0");
    let is_marked =
        |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|l| l == line.as_bytes());
    let runs = || std::fs::read_dir("/proc").unwrap().flatten().any(is_marked);
    pinion_tests::wait_until("the programs have ended", || !runs());
}

#[test]
fn write_that_is_killed_leaves_only_complete_files() {
    const SIZE: usize = 1_000_000;
    for moment in sample(100, 10) {
        let pinion = Pinion::default();
        let file = pinion.write("file", "a".repeat(SIZE));
        let script =
            pinion.script(&[call("write", json!({ "path": "file", "content": "b".repeat(SIZE) })), say("done")]);
        let options = ["-p", "--approve", "all", "--no-session", "--output-format", "stream-json", "--replay"];
        let mut child = pinion.start(options.iter().chain(&[script.to_str().unwrap(), "go"]));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.into_iter().any(|line| line.contains(r#""type":"tool_execution_start""#)));
        // Somewhere in the call, or shortly after it.
        (0..moment * 20_000).for_each(|_| std::hint::spin_loop());
        child.kill().unwrap();
        child.wait().unwrap();
        let content = std::fs::read(&file).unwrap();
        assert!(content.len() == SIZE && content.iter().all(|byte| *byte == content[0]), "moment {moment}");
        // A kill between the two system calls that name the new file and rename it leaves both files, each complete.
        let others = std::fs::read_dir(pinion.workspace()).unwrap().map(|entry| entry.unwrap().path());
        let others: Vec<_> = others.filter(|path| *path != file).collect();
        let is_new = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_named = name.starts_with(".pinion-") && name.ends_with(".tmp");
            is_named && content[0] == b'a' && std::fs::read(path).unwrap() == "b".repeat(SIZE).as_bytes()
        };
        assert!(others.len() <= 1 && others.iter().all(is_new), "moment {moment}: {others:?}");
    }
}
