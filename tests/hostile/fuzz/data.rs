//! Random data on its way through the contract: arguments to a plugin, results from it, its settings, and users' files
//! of config and grants.

use super::{Random, SCHEMAS, rounds, text};
use pinion_agent::schema::Schemas;
use pinion_agent::tool::{ToolError, ToolOutput};
use pinion_agent::{Content, ToolDefinition};
use pinion_tests::{Pinion, Sandbox, SandboxBuilder, guest};
use serde_json::{Value, json};
use std::sync::Arc;

/// The limit of one call on its result, in bytes.
const OUTPUT: usize = 32 * 1024 * 1024;
/// Parts and bytes of details that a result may have.
const PARTS: usize = 1_000;
const DETAILS: usize = 4 * 1024 * 1024;

const VALUES: [&str; 8] = [
    r#"{"a":"b","c":[1,2.5,-3e300,null,true]}"#,
    r#"{"a":"\u0000\u001b[2J\u202e\ud83d\ude00","":{"":[[[[{}]]]]}}"#,
    r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":1e-320,"d":0.1}"#,
    r#"{"a":1,"a":2}"#,
    "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
    r#"{"$schema":"x","__proto__":{"a":1},"toString":"x"}"#,
    r#""just a text""#,
    "{}",
];

/// Returns a random JSON value: of the list, changed, nested or repeated.
fn value(random: &mut Random) -> Value {
    let seed = *random.pick(&VALUES);
    let mut value = serde_json::from_str(&text(random, seed)).unwrap_or_else(|_| json!({ "text": text(random, seed) }));
    for _ in 0..random.below(4) {
        value = match random.below(3) {
            0 => json!([value, text(random, "x")]),
            1 => json!({ (text(random, "key")): value }),
            _ => (0..random.below(200)).fold(value, |inner, _| json!([inner])),
        };
    }
    value
}

async fn lister(tools: Value) -> Sandbox {
    SandboxBuilder::default().guest("lister").config("lister", json!({ "tools": tools })).build().await
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "label": "l", "description": "d", "schema": r#"{"type":"object"}"# })
}

/// Arguments that pass the check of a schema reach the plugin as they are, and all others are refused with a bounded text.
#[tokio::test(flavor = "multi_thread")]
async fn random_arguments_are_refused_or_arrive_unchanged() {
    let sandbox = lister(json!([tool("repeat")])).await;
    let repeat = sandbox.tool("repeat");
    let (mut refused, mut arrived) = (0, 0);
    for mut random in rounds(5) {
        // Another tool could have this schema; the code behind it stays the same.
        let schema: Value = match random.below(2) {
            0 => Value::Bool(true),
            _ => serde_json::from_str(SCHEMAS[random.below(SCHEMAS.len())]).unwrap(),
        };
        let checked = Arc::new(ToolDefinition { input_schema: schema, ..ToolDefinition::clone(&repeat) });
        let arguments = value(&mut random);
        match Schemas::default().check(&checked, &arguments).await {
            Err(problem) => {
                assert!(problem.len() < 10_000, "a text of {} bytes", problem.len());
                refused += 1;
            }
            Ok(accepted) => {
                let accepted = accepted.into_owned();
                let said = sandbox.text("repeat", accepted.clone()).await;
                assert_eq!(said, accepted.to_string());
                arrived += 1;
            }
        }
    }
    assert!(refused > 0 && arrived > 0, "{refused} refused, {arrived} arrived");
}

/// Returns a random result as the guest `lister` reads it.
fn result(random: &mut Random) -> Value {
    let part = |random: &mut Random| match random.below(5) {
        0 => json!({ "image": [text(random, "image/png"), [0x89, 0x50, 0x4e, 0x47, random.below(256)]] }),
        1 => json!({ "other": text(random, r#"{"kind":"new"}"#) }),
        2 => json!({ "text": "" }),
        _ => json!({ "text": text(random, "a result") }),
    };
    let count = if random.below(30) == 0 { 990 + random.below(20) } else { random.below(4) };
    let details = match random.below(40) {
        0 => json!("[".repeat(random.below(100_000))),
        1 => json!(format!("[{}0]", "0,".repeat(99_990 + random.below(20)))),
        2..20 => {
            let seed = *random.pick(&VALUES);
            json!(text(random, seed))
        }
        _ => Value::Null,
    };
    let error = if random.below(3) == 0 { json!([random.below(256), text(random, "wrong")]) } else { Value::Null };
    let kind = *random.pick(&["code", "diff", "markdown", "else"]);
    json!({
        "parts": (0..count).map(|_| part(random)).collect::<Vec<_>>(),
        "details": details,
        "display": [kind, text(random, "rust")],
        "extra": text(random, "{}"),
        "error": error,
    })
}

/// Asserts that a result that was accepted is bounded, and that its texts are those that the plugin gave.
fn assert_sound(given: &Value, output: &ToolOutput) {
    assert!(output.content.len() <= PARTS, "{} parts", output.content.len());
    let texts: Vec<&str> = output.content.iter().filter_map(Content::as_text).collect();
    assert!(texts.iter().map(|text| text.len()).sum::<usize>() <= OUTPUT);
    let parts = given["parts"].as_array().unwrap();
    let said = parts.iter().filter_map(|part| part["text"].as_str().or_else(|| part["other"].as_str()));
    let said: Vec<&str> = said.filter(|text| !text.is_empty()).collect();
    assert!(texts == said || (said.is_empty() && texts == [""]), "{texts:?} of {said:?}");
    match given["details"].as_str() {
        None => assert_eq!(output.details, None),
        Some(details) => {
            assert!(details.len() <= DETAILS);
            assert_eq!(output.details, Some(serde_json::from_str(details).unwrap()));
        }
    }
}

/// A result of a plugin arrives unchanged, or becomes a fault of the plugin that names the problem; and the plugin
/// answers the next call.
#[tokio::test(flavor = "multi_thread")]
async fn random_result_is_refused_or_arrives_unchanged() {
    let sandbox = lister(json!([tool("give"), tool("repeat")])).await;
    let (mut faults, mut arrived) = (0, 0);
    for mut random in rounds(6) {
        let given = result(&mut random);
        match sandbox.call("give", given.clone()).await {
            Ok(output) => {
                assert_sound(&given, &output);
                assert!(!output.is_error || !given["error"].is_null());
                arrived += 1;
            }
            Err(ToolError::Fault { source, .. }) => {
                let text = format!("{source:#}");
                assert!(text.contains("lister") && text.len() < 10_000, "{text}");
                faults += 1;
            }
            // An error of the tool, with the message that it gave.
            Err(error) => assert!(!given["error"].is_null(), "{error}"),
        }
        assert_eq!(sandbox.text("repeat", json!({})).await, "{}");
    }
    assert!(faults > 0 && arrived > 0, "{faults} faults, {arrived} arrived");
}

/// A plugin reads the settings that the user wrote, with any content.
#[tokio::test(flavor = "multi_thread")]
async fn random_settings_arrive_unchanged() {
    for mut random in rounds(7) {
        for _ in 0..3 {
            let settings = json!({ "value": value(&mut random) });
            let sandbox = SandboxBuilder::default().guest("keeper").config("keeper", settings.clone()).build().await;
            let said = sandbox.text("keep", json!({ "steps": [["settings"]] })).await;
            assert_eq!(said, format!("ok {settings}"));
        }
    }
}

const CONFIG: &str = "[plugins.echo]\nenabled = true\n[plugins.echo.config]\ncolor = \"red\"\nlist = [1, 2.5, 1979-05-27]\n\
                      [plugins.echo.grants]\nfiles = { \".\" = \"read\" }\n[plugins.echo.limits]\nfuel = 1000000\n\
                      [secrets.a]\nenv = \"A\"\nhosts = [\"https://a.example/\"]\n";
const GRANTS: &str = "version = 1\n[[component]]\nname = \"echo\"\nsource = \"named\"\npath = \"/x/echo.wasm\"\n\
                      digest = \"00\"\nconfig = true\n[component.grants]\nprocess = true\n[component.granted-for]\n\
                      asks = { process = true }\n";

/// Files that users write are read or refused: the command ends by itself, with a text without control sequences.
#[cfg(unix)]
#[test]
fn random_config_and_grants_are_refused_or_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let (plugin, pinion) = (guest("echo"), Pinion::default());
    let grants_file = pinion.home().join("grants.toml");
    std::fs::write(&grants_file, "").unwrap();
    // A file that others can read is refused before it is parsed.
    std::fs::set_permissions(&grants_file, std::fs::Permissions::from_mode(0o600)).unwrap();
    for mut random in rounds(8) {
        let mut bytes = CONFIG.as_bytes().to_vec();
        if random.below(2) == 0 {
            random.mutate(&mut bytes);
        }
        std::fs::write(pinion.home().join("config.toml"), &bytes).unwrap();
        let mut grants = GRANTS.as_bytes().to_vec();
        random.mutate(&mut grants);
        std::fs::write(&grants_file, grants).unwrap();
        let ended = pinion.run(["plugin", "info", plugin.to_str().unwrap()]);
        let shown = format!("{bytes:?}: {ended:?}");
        assert!(matches!(ended.code, Some(0..=4)), "{shown}");
        let said = ended.stdout.clone() + &ended.stderr;
        assert!(!said.contains('\u{1b}') && !said.contains("panicked"), "{shown}");
    }
}
