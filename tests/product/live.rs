//! Real vendors: one prompt with one tool call for each whose key is in `PINION_LIVE_` and the name of its variable, such as
//! `PINION_LIVE_ANTHROPIC_API_KEY`, to the model that this key selects. Other variables with the prefix reach the command,
//! too, such as `PINION_LIVE_AWS_REGION`. Without a key nothing is sent, and a line on stderr says so.

use crate::product::providers::{Vendor, reply};
use pinion_tests::Pinion;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

const PREFIX: &str = "PINION_LIVE_";
const WORD: &str = "pomegranate-7391";
const PROMPT: &str = "Read the file word.txt with the tool `read`. Then answer with the word in it, and nothing else.";

type Variables = BTreeMap<String, String>;

/// Returns the variables with the keys of vendors, as `pinion model list` names them.
fn key_variables() -> BTreeSet<String> {
    let listed = Pinion::default().run(["model", "list"]).stdout;
    listed.split("(set ").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// Returns the environment of each run: one key, and the variables that are no keys.
fn environments(live: &Variables, keys: &BTreeSet<String>) -> BTreeMap<String, Variables> {
    let (with_keys, others): (Variables, Variables) =
        live.clone().into_iter().partition(|(name, _)| keys.contains(name));
    let environment = |(name, key): (String, String)| {
        let variables = others.clone().into_iter().chain([(name.clone(), key)]).collect();
        (name, variables)
    };
    with_keys.into_iter().map(environment).collect()
}

/// Runs the prompt and returns the result of the run, or how it differs from a vendor's right behaviour.
fn ask(arguments: &[&str], environment: &Variables) -> Result<Value, String> {
    let pinion = Pinion::default();
    pinion.write("word.txt", WORD);
    let fixed = ["-p", "--tools", "read", "--max-turns", "4", "--timeout", "180", "--output-format", "stream-json"];
    let mut command = pinion.command(fixed.iter().chain(arguments).chain(&[PROMPT]));
    let output = command.envs(environment).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let events: Vec<Value> = stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let has_read = events.iter().any(|event| event["type"] == "tool_execution_end" && event["is_error"] == false);
    let result = events.into_iter().find(|event| event["type"] == "result").unwrap_or_default();
    let has_answered = result["result"].as_str().is_some_and(|text| text.contains(WORD));
    match output.status.success() && has_read && has_answered {
        true => Ok(result),
        false => Err(format!("{}\n{result}\n{}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

#[test]
fn vendors_with_a_live_key_call_a_tool_and_answer() {
    let live: Variables =
        std::env::vars().filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?.to_owned(), value))).collect();
    let environments = environments(&live, &key_variables());
    if environments.is_empty() {
        // Unlike `eprintln`, this is not captured.
        let _ = writeln!(std::io::stderr(), "note: no vendor is asked, because no key is in {PREFIX}<VARIABLE>");
    }
    let failure = |(name, environment): (&String, &Variables)| match ask(&[], environment) {
        Ok(result) if result["usage"]["output"].as_u64().is_some_and(|tokens| tokens > 0) => None,
        Ok(result) => Some(format!("{name}: no usage: {result}")),
        Err(problem) => Some(format!("{name}: {problem}")),
    };
    let failures: Vec<String> = environments.iter().filter_map(failure).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn each_live_key_has_an_environment_of_its_own() {
    let keys = key_variables();
    assert!(keys.len() > 8 && keys.contains("ANTHROPIC_API_KEY") && keys.contains("OPENAI_API_KEY"), "{keys:?}");
    let variables = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
    assert_eq!(environments(&variables(&["AWS_REGION"]), &keys), BTreeMap::new());
    let found = environments(&variables(&["OPENAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION"]), &keys);
    let expected = [
        ("AWS_BEARER_TOKEN_BEDROCK".to_owned(), variables(&["AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION"])),
        ("OPENAI_API_KEY".to_owned(), variables(&["OPENAI_API_KEY", "AWS_REGION"])),
    ];
    assert_eq!(found, expected.into());
}

#[test]
fn live_prompt_needs_the_call_and_the_answer() {
    let call = json!({ "name": "read", "arguments": "{\"path\":\"word.txt\"}" });
    let calls = reply(&json!({ "tool_calls": [{ "index": 0, "type": "function", "function": call }] }), "tool_calls");
    let says = |text: &str| reply(&json!({ "content": text }), "stop");
    let asked = |replies: Vec<String>| {
        let vendor = Vendor::answering(replies);
        ask(&["-m", "openai-chat/m", "--base-url", &vendor.url], &Variables::new())
    };
    asked(vec![calls.clone(), says(WORD)]).unwrap();
    assert!(asked(vec![says(WORD)]).is_err(), "no call was made");
    assert!(asked(vec![calls, says("done")]).is_err(), "the answer is wrong");
}
