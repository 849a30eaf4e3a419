//! Grants of single files, hints of denials followed literally, and spellings of the workspace.

use pinion_tests::{HttpServer, Pinion, answer, blocks, call, document, say};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Runs calls one after the other and returns the text of their results, and standard error.
fn results(pinion: &Pinion, calls: &[Value]) -> (Vec<String>, String) {
    let script = pinion.script(&[calls, &[say("done")]].concat());
    let arguments = ["-p", "--approve", "all", "--output-format", "stream-json", "--replay"];
    let ended = pinion.run(arguments.into_iter().chain([script.to_str().unwrap(), "go"]));
    let events = ended.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let messages = events.filter(|event| event["type"] == "message_end" && event["message"]["role"] == "tool_result");
    let text = |event: Value| event["message"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    (messages.map(text).collect(), ended.stderr)
}

/// The lines of the config that a hint names.
fn hinted(text: &str) -> String {
    let line = text.split("[plugins.").nth(1).unwrap_or_else(|| panic!("no hint: {text}"));
    let (section, line) = line.lines().next().unwrap().split_once("] ").unwrap();
    format!("[plugins.{section}]\n{line}\n")
}

/// Writes a file outside of the workspace.
fn outside(pinion: &Pinion, name: &str, text: &str) -> PathBuf {
    pinion.write(&format!("../outside/{name}"), text).canonicalize().unwrap()
}

fn read(path: &Path) -> Value {
    call("read", json!({ "path": path }))
}

#[test]
fn hint_of_a_denied_file_works_as_written_and_keeps_the_workspace() {
    let pinion = Pinion::default();
    let (secret, own) = (outside(&pinion, "secret.txt", "top"), pinion.write("own.txt", "mine"));
    let file = outside(&pinion, "one.txt", "outside\n");
    let (denied, _) = results(&pinion, &[read(&file)]);
    pinion.config(&hinted(&denied[0]));
    let write = |path: &Path| call("write", json!({ "path": path, "content": "new\n" }));
    let directory = file.parent().unwrap();
    let list = call("list", json!({ "path": directory }));
    let calls = [read(&file), read(&own), read(&secret), list, write(&file)];
    let (texts, err) = results(&pinion, &calls);
    assert!(texts[0].contains("outside") && texts[1].contains("mine"), "{texts:?} {err}");
    assert!(texts[2].contains("in no granted directory") && texts[3].contains("Denied"), "{texts:?}");
    assert!(texts[4].contains("may only read"), "{texts:?}");
    assert!(!err.contains("is not used"), "{err}");
    // The hint for writing, and for a file that is not there yet.
    pinion.config(&hinted(&texts[4]));
    let new = directory.join("new.txt");
    let (texts, _) = results(&pinion, &[write(&file), write(&new), read(&own)]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "new\n", "{texts:?}");
    assert!(texts[2].contains("mine"));
    pinion.config(&hinted(&texts[1]));
    let (texts, _) = results(&pinion, &[write(&new), read(&new), read(&file), read(&secret)]);
    assert!(texts[1].contains("new") && texts[2].contains("new"), "{texts:?}");
    assert!(texts[3].contains("in no granted directory"), "{texts:?}");
}

#[test]
fn granted_file_that_is_a_link_is_not_opened() {
    let pinion = Pinion::default();
    let secret = outside(&pinion, "secret.txt", "top");
    let granted = outside(&pinion, "granted.txt", "fine");
    let link = secret.with_file_name("link.txt");
    symlink("secret.txt", &link).unwrap();
    pinion.config(&format!("[plugins.fs.grants]\nfiles = {{ {link:?} = \"read\", {granted:?} = \"read\" }}\n"));
    let (texts, _) = results(&pinion, &[read(&link), read(&granted)]);
    assert!(!texts[0].contains("top") && texts[1].contains("fine"), "{texts:?}");
    std::fs::remove_file(&granted).unwrap();
    symlink("secret.txt", &granted).unwrap();
    let (texts, _) = results(&pinion, &[read(&granted)]);
    assert!(!texts[0].contains("top"), "{texts:?}");
}

#[test]
fn path_through_a_link_to_the_workspace_is_in_the_workspace() {
    let pinion = Pinion::default();
    pinion.write("sub/a.txt", "inside");
    let secret = outside(&pinion, "secret.txt", "top");
    let (link, sub) = (secret.with_file_name("work"), secret.with_file_name("sub"));
    symlink(pinion.workspace(), &link).unwrap();
    symlink(pinion.workspace().join("sub"), &sub).unwrap();
    symlink(&secret, pinion.workspace().join("out")).unwrap();
    let write = call("write", json!({ "path": link.join("new.txt"), "content": "x" }));
    let calls = [read(&link.join("sub/a.txt")), read(&sub.join("a.txt")), write, read(&link.join("out"))];
    let (texts, _) = results(&pinion, &calls);
    assert!(texts[0].contains("inside") && texts[1].contains("inside"), "{texts:?}");
    assert!(pinion.workspace().join("new.txt").exists(), "{texts:?}");
    assert!(!texts[3].contains("top"), "{texts:?}");
}

#[test]
fn config_blocks_of_the_pages_on_built_in_plugins_are_accepted() {
    let pages = ["docs/plugins/built-in.md", "docs/plugins/bridges.md", "docs/user/agents.md"].map(document);
    let blocks: Vec<String> = pages.iter().flat_map(|page| blocks(&page.text, "toml")).collect();
    assert!(blocks.len() >= 4);
    for block in blocks {
        let pinion = Pinion::default();
        pinion.config(&block);
        let ended = pinion.run(["plugin", "list"]);
        assert_eq!(ended.code, Some(0), "{block}\n{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn config_of_an_interface_on_the_page_works_as_written() {
    let server = HttpServer::start(|_| answer(200, &[("content-type", "application/json")], "{}".to_owned())).await;
    let page = document("docs/plugins/bridges.md").text;
    let block = blocks(&page, "toml").into_iter().find(|block| block.contains("plugins.openapi")).unwrap();
    let pinion = Pinion::default();
    let get = json!({ "get": { "operationId": "getPet", "tags": ["read"], "parameters": [
        { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } } ] } });
    let spec = json!({ "openapi": "3.1.0", "servers": [], "paths": { "/pets/{id}": get } });
    let spec = outside(&pinion, "pets.yaml", &spec.to_string());
    let block = block.replace("/home/me/pets.yaml", spec.to_str().unwrap());
    let secret = format!("[secrets.pets]\nenv = \"PETS_TOKEN\"\nhosts = [\"{}/\"]\n", server.url(""));
    pinion.config(&(secret + &block.replace("https://pets.example/v1", &server.url("/v1"))));
    let script = pinion.script(&[call("pets__getPet", json!({ "id": "1" })), say("done")]);
    let ended = tokio::task::spawn_blocking(move || {
        let arguments = ["-p", "--approve", "all", "--output-format", "stream-json", "--replay"];
        let mut command = pinion.command(arguments.into_iter().chain([script.to_str().unwrap(), "go"]));
        command.env("PETS_TOKEN", "t0psecret-t0psecret").output().unwrap()
    });
    let ended = ended.await.unwrap();
    assert_eq!(server.lines(), ["GET /v1/pets/1"], "{}", String::from_utf8_lossy(&ended.stderr));
}
