//! A key goes only to the endpoint that the user configured for it.

use super::*;
use crate::product::command::assert_error;

fn heads(vendor: &Vendor) -> String {
    vendor.asked.lock().unwrap().join("\n")
}

fn good() -> Vendor {
    Vendor::answering(vec![reply(&json!({ "content": "here" }), "stop")])
}

fn refusing() -> Vendor {
    Vendor::answering(vec![answer("404 Not Found", "application/json", "{\"error\":\"no such model\"}")])
}

fn ask(pinion: &Pinion, more: &[&str]) -> Ended {
    let mut command = with_key(pinion, ["-p"].iter().chain(more).copied());
    command.env("MISTRAL_API_KEY", OTHER);
    ended(command)
}

#[test]
fn redirect_gets_no_key() {
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let (pinion, elsewhere) = (Pinion::default(), good());
        let redirect = format!("HTTP/1.1 {status}\r\nlocation: {}/v1\r\ncontent-length: 0\r\n\r\n", elsewhere.url);
        let vendor = Vendor::answering(vec![redirect]);
        let run = ask(&pinion, &["-m", "openai-chat/m", "--base-url", &vendor.url, "hi"]);
        assert_eq!((run.code, heads(&elsewhere).as_str()), (Some(1), ""), "{run:?}");
    }
}

#[test]
fn base_url_without_a_provider_is_refused() {
    let (pinion, vendor) = (Pinion::default(), good());
    let run = ask(&pinion, &["--base-url", &vendor.url, "hi"]);
    assert_error(&run, 2, &["--base-url", "--provider NAME"]);
    assert_eq!(heads(&vendor), "");
}

#[test]
fn fallback_of_the_same_provider_keeps_the_base_url() {
    let (pinion, vendor) = (
        Pinion::default(),
        Vendor::answering(vec![
            answer("404 Not Found", "application/json", "{\"error\":\"no such model\"}"),
            reply(&json!({ "content": "here" }), "stop"),
        ]),
    );
    pinion.config("fallback = ['openai-chat/other']\n");
    let run = ask(&pinion, &["-m", "openai-chat/m", "--base-url", &vendor.url, "hi"]);
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "here"), "{run:?}");
    assert_eq!(vendor.asked.lock().unwrap().len(), 2);
}

#[test]
fn provider_with_the_same_key_keeps_the_base_url() {
    let (pinion, vendor) = (Pinion::default(), refusing());
    pinion.config("fallback = ['openai-responses/other']\n");
    ask(&pinion, &["-m", "openai-chat/m", "--base-url", &vendor.url, "hi"]);
    assert!(heads(&vendor).contains("post /v1/responses"), "{}", heads(&vendor));
}

#[test]
fn each_provider_gets_its_own_key_at_its_own_url() {
    let (pinion, first, second) = (Pinion::default(), refusing(), good());
    let config = format!("fallback = ['mistral/x']\n[providers.mistral]\nbase-url = '{}'\n", second.url);
    pinion.config(&config);
    let run = ask(&pinion, &["-m", "openai-chat/m", "--base-url", &first.url, "hi"]);
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "here"), "{run:?}");
    let (key, other) = (KEY.to_lowercase(), OTHER.to_lowercase());
    assert!(heads(&first).contains(&key) && !heads(&first).contains(&other));
    assert!(heads(&second).contains(&other) && !heads(&second).contains(&key));
}

#[test]
fn recording_cannot_redirect_requests() {
    let (pinion, vendor, evil) = (Pinion::default(), good(), good());
    asked(&pinion, &vendor, &["hi"]);
    let file = pinion.home().join("run.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(&vendor.url, &evil.url)).unwrap();
    let file = file.to_str().unwrap();
    for prompt in ["hi", "something else"] {
        ask(&pinion, &["--replay", file, "--approve", "all", prompt]);
    }
    assert_eq!(heads(&evil), "");
}

#[cfg(target_os = "linux")]
#[test]
fn unencrypted_key_is_announced() {
    let (pinion, vendor) = (Pinion::default(), good());
    let url = vendor.url.replace("127.0.0.1", "0.0.0.0");
    let run = ask(&pinion, &["-m", "openai-chat/m", "--base-url", &url, "hi"]);
    assert!(run.stderr.contains("the key for `openai-chat` is sent unencrypted to `0.0.0.0`"), "{run:?}");
    let run = ask(&pinion, &["-m", "openai-chat/m", "--base-url", &vendor.url, "hi"]);
    assert!(!run.stderr.contains("unencrypted"), "{run:?}");
}

/// Reads until the prompt appears after `awaited`, or until the end.
#[cfg(target_os = "linux")]
fn read_to_prompt_after(output: &mut impl std::io::Read, shown: &mut String, awaited: &str) {
    let start = shown.len();
    let mut bytes = Vec::new();
    let mut byte = [0];
    while output.read(&mut byte).unwrap() > 0 {
        bytes.push(byte[0]);
        let text = String::from_utf8_lossy(&bytes);
        let after = text.find(awaited).map(|at| &text[at..]);
        if after.is_some_and(|after| after.contains("\u{203a} ")) {
            break;
        }
    }
    shown.truncate(start);
    shown.push_str(&String::from_utf8_lossy(&bytes));
}

/// Needs a terminal, from `script` of util-linux.
#[cfg(target_os = "linux")]
#[test]
fn model_command_keeps_the_base_url_and_the_fallback() {
    let (pinion, first, second) = (Pinion::default(), refusing(), good());
    let config = format!("fallback = ['mistral/x']\n[providers.mistral]\nbase-url = '{}'\n", second.url);
    pinion.config(&config);
    let binary = pinion.command([""; 0]).get_program().to_str().unwrap().to_owned();
    let line = format!("{binary} -m openai-chat/m --base-url {}", first.url);
    let mut command = Command::new("timeout");
    command.args(["60", "script", "-qefc", &line, "/dev/null"]).current_dir(pinion.workspace()).env_clear();
    let own = with_key(&pinion, [""; 0]);
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("MISTRAL_API_KEY", OTHER);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let Ok(mut child) = command.spawn() else { return };
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut shown = String::new();
    for (awaited, line) in [("\u{203a}", "/model openai-chat/other"), ("model: ", "hi"), ("here", "/quit")] {
        read_to_prompt_after(&mut output, &mut shown, awaited);
        std::io::Write::write_all(&mut input, format!("{line}\r").as_bytes()).unwrap();
    }
    drop(input);
    std::io::Read::read_to_end(&mut output, &mut Vec::new()).unwrap();
    child.wait().unwrap();
    assert!(heads(&first).contains("post /v1/chat/completions") && shown.contains("here"), "{shown}");
    assert!(heads(&second).contains(&OTHER.to_lowercase()), "{shown}");
    assert_hidden(&shown, SECRET, "a conversation");
}
