//! Misbehaves during each step of loading as its config says, with a requested deadline of an hour. Its tools occupy
//! resources that all plugins share.

use pinion_plugin_sdk::log;
use pinion_plugin_sdk::prelude::*;
use std::hint::black_box;
use std::time::Duration;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    init: String,
    self_test: String,
    list: String,
    commands: String,
    /// Prefix of its tools' names, so that several copies can load.
    prefix: String,
}

#[derive(Deserialize, JsonSchema)]
struct Amount {
    amount: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

struct Loiter;

fn settings() -> Config {
    config().unwrap_or_default()
}

fn misbehave(how: &str) {
    // A guest that hangs cannot do so by an event: no one would send it.
    match how {
        "sleep" => std::thread::sleep(Duration::from_secs(3600)),
        "doze" => std::thread::sleep(Duration::from_secs(3)),
        "spin" => loop {
            black_box(());
        },
        "eat" => {
            let mut held = Vec::new();
            loop {
                held.push(black_box(vec![1_u8; 1 << 20]));
            }
        }
        "shout" => loop {
            log::log(log::Level::Debug, "again");
        },
        "panic" => panic!("as planned"),
        _ => {}
    }
}

fn await_cancellation(call: &Call) {
    while !call.cancelled() {
        // The contract has no event for cancellation; a guest can only ask.
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Plugin for Loiter {
    fn tools() -> Vec<Tool> {
        let config = settings();
        misbehave(&config.list);
        let name = |tool: &str| -> &'static str { format!("{}{tool}", config.prefix).leak() };
        vec![
            Tool::new(name("nap"), "Sleeps for that many milliseconds.", |a: Amount, call: &Call| {
                call.progress("napping");
                // The purpose of the tool: a call that takes that long.
                std::thread::sleep(Duration::from_millis(a.amount));
                Ok("slept")
            }),
            Tool::new(name("stay"), "Does not end when it is cancelled.", |_: Nothing, call: &Call| {
                call.progress("waiting");
                await_cancellation(call);
                call.progress("staying");
                std::thread::sleep(Duration::from_secs(3600));
                Ok("left")
            }),
            Tool::new(name("hoard"), "Holds that many bytes until it is cancelled.", |a: Amount, call: &Call| {
                let held = black_box(vec![1_u8; a.amount as usize]);
                call.progress("holding");
                await_cancellation(call);
                Ok(format!("held {}", held.len()))
            }),
        ]
    }

    fn commands() -> Vec<Command> {
        let config = settings();
        misbehave(&config.commands);
        let name: &'static str = format!("{}linger", config.prefix).leak();
        vec![Command::new(name, "Waits until it is cancelled", |_typed, call| {
            await_cancellation(call);
            Ok(vec![Action::Print("lingered until it was cancelled".to_owned())])
        })]
    }

    fn init() -> Result<(), String> {
        misbehave(&settings().init);
        Ok(())
    }

    fn self_test() -> Result<(), String> {
        misbehave(&settings().self_test);
        Ok(())
    }
}

export!(
    Loiter,
    exports = [tools, commands, lifecycle],
    limits = { "deadline-ms": 3600000, "fuel": 200000000000, "memory-bytes": 1073741824 }
);
