//! File operations by name. A script is a list of operations with arguments; the answer has one line for each.

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::process::{self, Command};
use pinion_plugin_sdk::workspace::{self, SearchOptions, WalkOptions};
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fs::{self, File, OpenOptions, ReadDir};
use std::io::{self, Read as _, Seek as _, Write as _};

#[derive(Deserialize, JsonSchema)]
struct Script {
    steps: Vec<Vec<String>>,
}

/// Handles that stay open between steps and, in an instance that lives longer, between calls.
#[derive(Default)]
struct Held {
    file: Option<File>,
    directory: Option<c_int>,
    entries: Option<ReadDir>,
    many: Vec<File>,
    lists: Vec<ReadDir>,
}

thread_local! {
    static HELD: RefCell<Held> = RefCell::default();
}

unsafe extern "C" {
    fn symlink(target: *const c_char, path: *const c_char) -> c_int;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn openat(directory: c_int, path: *const c_char, flags: c_int, ...) -> c_int;
    fn mkdirat(directory: c_int, path: *const c_char, mode: u32) -> c_int;
    fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn write(file: c_int, bytes: *const u8, length: usize) -> isize;
    fn read(file: c_int, bytes: *mut u8, length: usize) -> isize;
    fn close(file: c_int) -> c_int;
}

const READ: c_int = 0x0400_0000;
const WRITE: c_int = 0x1000_0000;
const CREATE: c_int = 0x1000;
const DIRECTORY: c_int = 0x2000;

/// Creates four tools for the same script, which declare reads, writes, nothing, and programs.
pub fn tools([look, change, blind, execute]: [&'static str; 4]) -> Vec<Tool> {
    let tool = |name| Tool::new(name, "Runs a script.", |a: Script, _: &Call| run(&a));
    vec![tool(look).reads(), tool(change).writes(), tool(blind), tool(execute).executes()]
}

fn run(script: &Script) -> Result<String, Error> {
    let line = |step: &Vec<String>| {
        let arguments: Vec<&str> = step.iter().map(String::as_str).collect();
        match step_of(&arguments) {
            Ok(text) => format!("ok {text}"),
            Err(error) => format!("err {error}"),
        }
    };
    Ok(script.steps.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn step_of(step: &[&str]) -> Result<String, String> {
    HELD.with_borrow_mut(|held| match step {
        ["hold", path] => keep(&mut held.file, File::open(path)),
        ["hold-write", path] => keep(&mut held.file, OpenOptions::new().read(true).write(true).create(true).open(path)),
        ["hold-directory", path] => keep(&mut held.directory, c(path, |path| unsafe { open(path, READ | DIRECTORY) })),
        ["hold-entries", path] => keep(&mut held.entries, fs::read_dir(path)),
        ["hold-many", path, count] => {
            let count = count.parse().unwrap_or(0);
            (0..count).try_for_each(|_| File::open(path).map(|file| held.many.push(file))).map_err(text)?;
            Ok(held.many.len().to_string())
        }
        ["hold-all", path] => {
            while let Ok(file) = File::open(path) {
                held.many.push(file);
            }
            Ok(held.many.len().to_string())
        }
        ["hold-lists", path, count] => {
            let count = count.parse().unwrap_or(0);
            (0..count).try_for_each(|_| fs::read_dir(path).map(|list| held.lists.push(list))).map_err(text)?;
            Ok(held.lists.len().to_string())
        }
        ["drop"] => {
            *held = Held::default();
            Ok(String::new())
        }
        ["held-read"] => {
            let file = held.file.as_mut().ok_or("nothing held")?;
            let mut read = String::new();
            file.rewind().and_then(|()| file.read_to_string(&mut read)).map_err(text)?;
            Ok(read)
        }
        ["held-write", content] => {
            let file = held.file.as_mut().ok_or("nothing held")?;
            file.write_all(content.as_bytes()).and_then(|()| file.sync_all()).map(|()| String::new()).map_err(text)
        }
        ["held-truncate"] => held.file.as_ref().ok_or("nothing held")?.set_len(0).map(|()| String::new()).map_err(text),
        ["held-entries"] => {
            let entries = held.entries.take().ok_or("nothing held")?;
            let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.collect::<io::Result<Vec<String>>>().map(|names| names.join(" ")).map_err(text)
        }
        ["at-read", path] => at(held, |directory| read_at(directory, path)),
        ["at-write", path, content] => at(held, |directory| write_at(directory, path, content)),
        ["at-mkdir", path] => at(held, |directory| c(path, |path| unsafe { mkdirat(directory, path, 0o777) })),
        ["at-unlink", path] => at(held, |directory| c(path, |path| unsafe { unlinkat(directory, path, 0) })),
        _ => by_path(step).map_err(text),
    })
}

fn by_path(step: &[&str]) -> io::Result<String> {
    let done = |()| String::new();
    match step {
        ["read", path] => fs::read_to_string(path),
        ["write", path, content] => fs::write(path, content).map(done),
        ["append", path, content] => {
            OpenOptions::new().append(true).open(path)?.write_all(content.as_bytes()).map(done)
        }
        ["truncate", path] => OpenOptions::new().write(true).truncate(true).open(path).map(|_| String::new()),
        ["create", path] => OpenOptions::new().write(true).create_new(true).open(path).map(|_| String::new()),
        ["touch", path] => {
            let file = File::open(path)?;
            file.set_times(fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH)).map(done)
        }
        ["mkdir", path] => fs::create_dir(path).map(done),
        ["rmdir", path] => fs::remove_dir(path).map(done),
        ["remove", path] => fs::remove_file(path).map(done),
        ["rename", from, to] => fs::rename(from, to).map(done),
        ["link", from, to] => fs::hard_link(from, to).map(done),
        ["symlink", target, path] => {
            let target = CString::new(*target)?;
            c(path, |path| unsafe { symlink(target.as_ptr(), path) }).map(|_| String::new())
        }
        ["readlink", path] => fs::read_link(path).map(|target| target.to_string_lossy().into_owned()),
        ["stat", path] => fs::metadata(path).map(|metadata| metadata.len().to_string()),
        ["list", path] => {
            let names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            let mut names = names.collect::<io::Result<Vec<String>>>()?;
            names.sort();
            Ok(names.join(" "))
        }
        ["walk", path] => workspace::walk(&walk(path))
            .map(|found| found.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>().join(" "))
            .map_err(io::Error::other),
        ["search", path] => workspace::search(&walk(path), &everything())
            .map(|found| {
                found.files.into_iter().flat_map(|file| file.lines).map(|line| line.text).collect::<Vec<_>>().join(" ")
            })
            .map_err(io::Error::other),
        ["replace", path, content] => {
            workspace::replace_file(path, content.as_bytes()).map(done).map_err(io::Error::other)
        }
        ["shell", script] => {
            let command = Command {
                program: "sh".to_owned(),
                args: vec!["-c".to_owned(), (*script).to_owned()],
                working_directory: None,
                environment: vec![],
                stdin: vec![],
                timeout_ms: None,
                max_output: 100_000,
                extra: None,
            };
            let output = process::run(&command).map_err(io::Error::other)?;
            Ok(String::from_utf8_lossy(&output.stdout.head).into_owned())
        }
        ["print", line] => {
            println!("{line}");
            io::stdout().flush().map(done)
        }
        _ => Err(io::Error::other(format!("no step {step:?}"))),
    }
}

fn keep<T>(slot: &mut Option<T>, opened: io::Result<T>) -> Result<String, String> {
    *slot = Some(opened.map_err(text)?);
    Ok(String::new())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string().replace('\n', " ")
}

fn c(path: &str, call: impl FnOnce(*const c_char) -> c_int) -> io::Result<c_int> {
    let path = CString::new(path)?;
    match call(path.as_ptr()) {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

fn at<T>(held: &Held, then: impl FnOnce(c_int) -> io::Result<T>) -> Result<String, String>
where
    T: ToString,
{
    then(held.directory.ok_or("nothing held")?).map(|result| result.to_string()).map_err(text)
}

fn read_at(directory: c_int, path: &str) -> io::Result<String> {
    let file = c(path, |path| unsafe { openat(directory, path, READ) })?;
    let mut bytes = vec![0; 4096];
    let length = unsafe { read(file, bytes.as_mut_ptr(), bytes.len()) };
    unsafe { close(file) };
    bytes.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn write_at(directory: c_int, path: &str, content: &str) -> io::Result<String> {
    let file = c(path, |path| unsafe { openat(directory, path, WRITE | CREATE, 0o666) })?;
    let written = unsafe { write(file, content.as_ptr(), content.len()) };
    unsafe { close(file) };
    usize::try_from(written).map(|_| String::new()).map_err(|_| io::Error::last_os_error())
}

fn walk(root: &str) -> WalkOptions {
    WalkOptions {
        root: root.to_owned(),
        globs: vec![],
        types: vec![],
        max_depth: None,
        hidden: true,
        ignore_files: false,
        limit: 10_000,
    }
}

fn everything() -> SearchOptions {
    SearchOptions {
        pattern: ".".to_owned(),
        regex: true,
        case_sensitive: true,
        multiline: false,
        before: 0,
        after: 0,
        max_matches: 1000,
        max_matches_per_file: 1000,
        max_line_bytes: 1000,
    }
}
