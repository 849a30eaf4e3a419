//! `--output-schema`, and pictures in prompts of runs without a conversation.

use crate::product::command::assert_error;
use pinion_tests::{Ended, Pinion, say};
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"type":"object","properties":{"slow":{"type":"array","items":{"type":"string"}}},"required":["slow"],"additionalProperties":false}"#;

fn answer(arguments: &Value) -> Value {
    json!({ "calls": [{ "tool": "final_answer", "arguments": arguments }] })
}

fn run(pinion: &Pinion, replies: &[Value], more: &[&str]) -> Ended {
    let script = pinion.script(replies);
    let options = ["-p", "--replay", script.to_str().unwrap(), "--output-schema", "schema.json"];
    pinion.run(options.iter().chain(more).chain(&["which tests are slow?"]))
}

fn with_schema(schema: &str) -> Pinion {
    let pinion = Pinion::default();
    pinion.write("schema.json", schema);
    pinion
}

#[test]
fn answer_matches_the_schema() {
    let pinion = with_schema(SCHEMA);
    pinion.write("a.txt", "hello");
    let read = json!({ "calls": [{ "tool": "read", "arguments": { "path": "a.txt" } }] });
    let replies = [read, answer(&json!({ "slow": ["a", "b"] }))];
    let ended = run(&pinion, &replies, &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "{\"slow\":[\"a\",\"b\"]}\n"), "{ended:?}");
    let object: Value = serde_json::from_str(&run(&pinion, &replies, &["--output-format", "json"]).stdout).unwrap();
    assert_eq!(object["structured"], json!({ "slow": ["a", "b"] }));
    assert_eq!(object["result"], "{\"slow\":[\"a\",\"b\"]}");
}

#[test]
fn invalid_answer_is_returned_once_with_the_error() {
    let pinion = with_schema(SCHEMA);
    let wrong = answer(&json!({ "slow": "a" }));
    let right = answer(&json!({ "slow": [] }));
    let ended = run(&pinion, &[wrong.clone(), right.clone()], &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "{\"slow\":[]}\n"), "{ended:?}");
    let ended = run(&pinion, &[wrong.clone(), wrong, right], &[]);
    assert_error(&ended, 1, &["no valid answer in 2 attempts", "/slow"]);
    assert_eq!(ended.stdout, "");
    let ended = run(&pinion, &[say("I do not know."), say("really")], &[]);
    assert_error(&ended, 1, &["no valid answer"]);
    assert!(ended.stderr.contains("the model wrote instead: I do not know."), "{ended:?}");
}

#[test]
fn unsuitable_schema_fails_before_a_request() {
    for (schema, problem) in [
        ("[", "invalid schema"),
        (r#"{"type":"string"}"#, "does not say `\"type\": \"object\"`"),
        (r#"{"type":"object","properties":{"a":{"type":"nonsense"}}}"#, "schema"),
    ] {
        let ended = run(&with_schema(schema), &[], &[]);
        assert_error(&ended, 2, &[problem]);
    }
    assert_error(&run(&Pinion::default(), &[], &[]), 2, &["could not read the schema", "schema.json"]);
    assert_eq!(run(&with_schema(SCHEMA), &[], &["--plan"]).code, Some(2));
}

#[test]
fn picture_in_the_prompt_goes_to_the_model() {
    let pinion = Pinion::default();
    let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 0, 0, 2, 0, 0, 0, 3]].concat();
    pinion.write("shot.png", png);
    let script = pinion.script(&[say("seen"), say("seen"), say("seen")]);
    let run = |prompt: &str| pinion.run(["-p", "--replay", script.to_str().unwrap(), prompt]);
    assert_eq!(run("look at @shot.png").code, Some(0));
    let id = pinion.run(["session", "list"]).stdout.chars().take(8).collect::<String>();
    let session = pinion.run(["session", "show", &id]).stdout;
    assert!(session.contains("image/png"), "{session}");
    // Text from a pipe may be a stranger's.
    let arguments = ["-p", "--replay", script.to_str().unwrap(), "judge this"];
    let piped = pinion.run_with_stdin(arguments, b"@gone.png");
    assert!(piped.code == Some(0) && !piped.stderr.contains("gone.png"), "{piped:?}");
    let missing = run("look at @gone.png");
    assert!(missing.code == Some(0) && missing.stderr.contains("`gone.png` is not attached"), "{missing:?}");
}
