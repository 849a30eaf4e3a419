//! A client that guesses a key of the host by the names of files, which errors repeat.

use super::*;
use crate::hostile::credential_theft::guesses::guesses;

const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G";

#[test]
fn client_gets_back_every_guess() {
    let pinion = Pinion::default();
    let mut command = pinion.command(["mcp", "serve"]);
    command.env("OPENAI_API_KEY", format!("sk-ant-api03-{SECRET}"));
    let mut client = Client::spawn(command);
    client.initialize(json!({}));
    // As many as a name of a file can hold, in all of them; and the whole key, which the client may not learn to be one.
    let mut names: Vec<String> = guesses(SECRET).chunks(10).map(|batch| batch.join("!")).collect();
    names.retain(|name| name.len() < 200 && !name.contains(['/', '\\', '%']));
    assert!(names.len() > 200, "{}", names.len());
    names.extend([SECRET.to_owned(), SECRET.to_lowercase(), SECRET.chars().rev().collect()]);
    for name in names {
        let failed = client.call("read", json!({ "path": name }));
        assert!(failed["isError"] == true && !text(&failed).contains("[redacted]"), "{name}: {failed}");
    }
    let unknown = client.request("tools/call", json!({ "name": SECRET, "arguments": {} }));
    assert!(!unknown.to_string().contains("[redacted]"), "{unknown}");
    // The content of a file is not one of its guesses.
    pinion.write("settings", format!("KEY={SECRET}\n"));
    let read = client.call("read", json!({ "path": "settings" }));
    assert!(text(&read).contains("KEY=[redacted]"), "{read}");
    assert_eq!(client.end(), Some(0));
}
