//! Recordings of models: one from another directory, date, system and user, and the recordings in `tests/recordings`,
//! which the command plays as a whole, in print mode and on the full screen.

use crate::product::providers::{Vendor, ended, reply};
use pinion_tests::{Ended, Pinion, Terminal};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEY: &str = "sk-live-Zq7Xw3Vb9Nm2Kp5Ld8Rt";
/// Time zones whose dates always differ, in the form that needs no database.
const ZONES: [&str; 2] = ["UTC-14", "UTC+11"];

fn date_in(zone: &str) -> String {
    let output = Command::new("date").arg("+%F").env("TZ", zone).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Returns a reply that calls `read`, whose arguments arrive in pieces of three bytes.
fn reads(path: &str) -> String {
    let function = json!({ "name": "read", "arguments": json!({ "path": path }).to_string() });
    let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
    reply(&json!({ "tool_calls": [call] }), "tool_calls")
}

/// Returns a reply whose text arrives in pieces of five bytes.
fn says(text: &str) -> String {
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "id": "c", "model": "m", "choices": [choice] }))
    };
    let pieces = text.as_bytes().chunks(5).map(|piece| std::str::from_utf8(piece).unwrap());
    let body: String = pieces.map(|piece| chunk(json!({ "content": piece }), None)).collect();
    let body = body + &chunk(json!({}), Some("stop")) + "data: [DONE]\n\n";
    crate::product::providers::answer("200 OK", "text/event-stream", &body)
}

/// A run in its own directory and home, as its own user, on its own day.
struct RecordingPlace {
    pinion: Pinion,
    user: &'static str,
    zone: &'static str,
}

impl RecordingPlace {
    fn new(user: &'static str, zone: &'static str) -> Self {
        let pinion = Pinion::default();
        let surroundings = format!(
            "{user} works in {} and {} on {}\n",
            pinion.workspace().display(),
            pinion.home().display(),
            date_in(zone)
        );
        pinion.write("notes.txt", surroundings);
        Self { pinion, user, zone }
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let mut command = self.pinion.command(["-p", "--output-format", "json"].iter().chain(arguments));
        command.env("OPENAI_API_KEY", KEY).env("USER", self.user).env("TZ", self.zone);
        ended(command)
    }

    fn answer(&self) -> String {
        let (work, home) = (self.pinion.workspace(), self.pinion.home());
        format!("{} in {} and {}, {}.", self.user, work.display(), home.display(), date_in(self.zone))
    }
}

fn result_of(run: &Ended) -> Value {
    assert_eq!(run.code, Some(0), "{run:?}");
    serde_json::from_str::<Value>(&run.stdout).unwrap()["result"].clone()
}

#[test]
fn recording_plays_in_another_directory_as_another_user_on_another_day() {
    let (here, there) = (RecordingPlace::new("adalovelace", ZONES[0]), RecordingPlace::new("grace", ZONES[1]));
    let file = here.pinion.home().join("run.jsonl");
    let notes = here.pinion.workspace().join("notes.txt");
    let vendor = Vendor::answering(vec![reads(notes.to_str().unwrap()), says(&here.answer())]);
    let live = ["-m", "openai-chat/m", "--base-url", &vendor.url, "--record", file.to_str().unwrap(), "Who am I?"];
    assert_eq!(result_of(&here.run(&live)), here.answer());
    let recording = fs::read_to_string(&file).unwrap();
    let place = here.pinion.workspace().parent().unwrap().to_owned();
    for value in ["adalovelace", place.to_str().unwrap(), std::env::consts::ARCH, KEY] {
        assert!(!recording.contains(value), "{value}: {recording}");
    }
    assert_eq!(recording.matches(&date_in(here.zone)).count(), 1, "only the first line has the date: {recording}");
    let played = there.run(&["--replay", file.to_str().unwrap(), "Who am I?"]);
    assert_eq!(result_of(&played), there.answer(), "{}", played.stderr);
    assert!(!played.stderr.contains("not replayed"), "{}", played.stderr);
    // Another file is still a difference, which is shown.
    there.pinion.write("notes.txt", "nothing\n");
    let differing = there.run(&["--replay", file.to_str().unwrap(), "Who am I?"]);
    let (place, now) = ("request 2 differs at `$.messages[3].content`: recorded `", "{pinion:user} works");
    assert!(differing.code == Some(1) && differing.stderr.contains(place), "{differing:?}");
    assert!(differing.stderr.contains(now) && differing.stderr.contains("nothing"), "{differing:?}");
}

struct RecordedCase {
    name: String,
    options: Vec<String>,
    prompt: String,
    answer: String,
    status: i64,
}

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings")
}

fn cases() -> Vec<RecordedCase> {
    let cases: Vec<Value> =
        serde_json::from_str(&fs::read_to_string(recordings().join("cases.json")).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let case = |case: &Value| RecordedCase {
        name: text(&case["name"]),
        options: case["options"].as_array().unwrap().iter().map(text).collect(),
        prompt: text(&case["prompt"]),
        answer: text(&case["answer"]),
        status: case["status"].as_i64().unwrap(),
    };
    cases.iter().map(case).collect()
}

impl RecordedCase {
    fn file(&self) -> PathBuf {
        recordings().join(format!("{}.jsonl", self.name))
    }

    fn pinion(&self) -> Pinion {
        let pinion = Pinion::default();
        for entry in fs::read_dir(recordings().join("workspace")).unwrap() {
            let entry = entry.unwrap();
            pinion.write(entry.file_name().to_str().unwrap(), fs::read(entry.path()).unwrap());
        }
        pinion
    }

    fn arguments<'a>(&'a self, file: &'a str) -> impl Iterator<Item = &'a str> {
        self.options.iter().map(String::as_str).chain(["--replay", file, &self.prompt])
    }
}

/// If a prompt or a description of a tool changed, `tests/record.py` records the requests again.
#[test]
fn kept_recordings_play_through_the_loop_and_the_channel() {
    for case in cases() {
        let file = case.file();
        let arguments =
            ["-p", "--output-format", "stream-json"].into_iter().chain(case.arguments(file.to_str().unwrap()));
        let run = case.pinion().run(arguments);
        assert_eq!(run.code.map(i64::from), Some(case.status), "{}: {run:?}", case.name);
        let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let has = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        let has_answer = run.stdout.contains(&case.answer) && !run.stderr.contains("not replayed");
        assert!(has_answer, "{}: {run:?}", case.name);
        let (kind, count) = match case.name.as_str() {
            "parallel-calls" => ("tool_execution_end", 2),
            "rate-limit" => ("retry", 1),
            "overflow" => ("tool_execution_end", 1),
            _ => continue,
        };
        assert_eq!(has(kind), count, "{}: {}", case.name, run.stdout);
    }
}

#[test]
fn kept_recordings_play_on_the_full_screen() {
    for case in cases() {
        let (file, pinion) = (case.file(), case.pinion());
        let arguments = ["--ui", "full"].into_iter().chain(case.arguments(file.to_str().unwrap()));
        let terminal = Terminal::start(&pinion.command(arguments), (80, 24), "");
        // The screen draws only changed cells of a text that scrolls.
        terminal.wait_for(if case.name == "long-output" { "20 out" } else { &case.answer });
    }
}

#[test]
fn kept_recordings_have_no_secrets_and_no_values_of_their_machine() {
    for case in cases() {
        let recording = fs::read_to_string(case.file()).unwrap();
        assert!(recording.contains("{pinion:directory}") && recording.contains("{pinion:date}"), "{}", case.name);
        for text in
            ["sk-recording", "bearer", "authorization", "x-api-key", "set-cookie", "/root", "/home/", "/tmp/", "x86_64"]
        {
            assert!(!recording.to_lowercase().contains(text), "{}: `{text}`", case.name);
        }
    }
}
