//! Reads, stores, requests, runs and answers in one of 31 ways. A test writes the number of the way into the component's
//! bytes, so that one build stands for a plugin and 30 changed versions of it.

use pinion_plugin_sdk::bindings::imports::pinion::plugin::http;
use pinion_plugin_sdk::bindings::imports::pinion::plugin::storage::{self, Scope};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::process;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

/// The last two digits are the number of the way.
static VARIANT: [u8; 12] = *b"variant = 00";

fn variant() -> u8 {
    let [.., tens, ones] = *black_box(&VARIANT);
    (tens - b'0') * 10 + (ones - b'0')
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The address of a server.
    url: String,
}

struct Variant;

impl Plugin for Variant {
    fn tools() -> Vec<Tool> {
        vec![Tool::new("vary", "Uses many imports.", vary).writes().executes().network()]
    }
}

fn vary(Arguments { url }: Arguments, call: &Call) -> Result<Output> {
    let way = variant();
    files(way, call)?;
    clocks(way);
    stored(way)?;
    requests(way, &url)?;
    programs(way)?;
    call.progress(if way == 21 { "nearly ready" } else { "nearly done" });
    if way == 22 {
        call.progress("and more");
    }
    answer(way)
}

fn files(way: u8, call: &Call) -> Result<()> {
    let path = |name: &str| -> Result<PathBuf> { call.path(name) };
    let mut names = vec!["a.txt", "b.txt"];
    match way {
        1 => names[1] = "c.txt",
        2 => names.reverse(),
        3 => names.push("c.txt"),
        4 => drop(names.pop()),
        _ => {}
    }
    for name in names {
        fs::read_to_string(path(name)?)?;
    }
    match way {
        5 => drop(fs::metadata(path("a.txt")?)?),
        6 => drop(fs::read_dir(call.workspace())?.count()),
        _ => {}
    }
    let text = if way == 7 { "other" } else { "text" };
    fs::write(path(if way == 8 { "made.md" } else { "made.txt" })?, text)?;
    if way == 9 {
        fs::remove_file(path("made.txt")?)?;
    }
    Ok(())
}

fn clocks(way: u8) {
    if way != 10 {
        black_box(SystemTime::now());
    }
    if way == 11 {
        black_box(Instant::now());
    }
}

fn stored(way: u8) -> Result<()> {
    let failed = |error| Error::failed(format!("{error:?}"));
    let scope = if way == 12 { Scope::Plugin } else { Scope::Workspace };
    if way != 13 {
        storage::get(scope, if way == 14 { "other" } else { "key" }).map_err(failed)?;
    }
    storage::set(Scope::Workspace, "key", if way == 15 { b"other" } else { b"value" }).map_err(failed)?;
    Ok(())
}

fn requests(way: u8, url: &str) -> Result<()> {
    let request = http::Request {
        method: if way == 16 { "HEAD" } else { "GET" }.to_owned(),
        url: format!("{url}{}", if way == 17 { "/other" } else { "/page" }),
        headers: if way == 18 { vec![("x-more".to_owned(), "1".to_owned())] } else { Vec::new() },
        body: Vec::new(),
        credential: None,
        timeout_ms: None,
        max_redirects: None,
        max_body: None,
        extra: None,
    };
    for _ in 0..if way == 19 { 2 } else { 1 } {
        http::send(&request).map_err(|error| Error::failed(format!("{error:?}")))?;
    }
    Ok(())
}

fn programs(way: u8) -> Result<()> {
    if way == 20 {
        return Ok(());
    }
    let text = if way == 23 { "echo two" } else { "echo one" };
    let command = process::Command {
        program: if way == 24 { "bash" } else { "sh" }.to_owned(),
        args: vec!["-c".to_owned(), text.to_owned()],
        working_directory: None,
        environment: Vec::new(),
        stdin: if way == 25 { b"in".to_vec() } else { Vec::new() },
        timeout_ms: None,
        max_output: 1000,
        extra: None,
    };
    process::run(&command).map_err(Error::failed)?;
    Ok(())
}

fn answer(way: u8) -> Result<Output> {
    match way {
        26 => Ok(Output::text("another answer")),
        27 => Ok(Output::text("the answer").with_text("and more")),
        28 => Ok(Output::text("the answer").details(json!({ "more": true }))),
        29 => Err(Error::failed("the answer")),
        30 => panic!("no answer"),
        _ => Ok(Output::text("the answer")),
    }
}

export!(Variant, exports = [tools], asks = { "files": "write", "storage": true, "http": true, "process": true });
