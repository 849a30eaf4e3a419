//! Registries, archives on web servers and indexes, honest ones and others.

use super::{component, listed};
use pinion_packages::SigningKey;
use pinion_tests::{Answer, Ended, HttpServer, Pinion, Received, answer, guest};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex};

/// The content of a registry, by path.
type Shelves = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// Answers like a registry of the OCI distribution specification.
fn registry(shelves: &Shelves, request: &Received) -> Answer {
    let (path, mut shelves) = (request.uri().path().to_owned(), shelves.lock().unwrap());
    match request.method().as_str() {
        "POST" => answer(202, &[("location", "/v2/acme/greet/blobs/uploads/1?state=x")], ""),
        "PUT" if path.contains("/uploads/") => {
            let digest = request.uri().query().unwrap().split("digest=").nth(1).unwrap().replace("%3A", ":");
            shelves.insert(format!("/v2/acme/greet/blobs/{digest}"), request.body().to_vec());
            answer(201, &[], "")
        }
        "PUT" => {
            // A manifest is found by its tag and by its digest.
            if path.contains("/manifests/") {
                let digest = sha256(request.body());
                shelves.insert(format!("/v2/acme/greet/manifests/sha256:{digest}"), request.body().to_vec());
            }
            shelves.insert(path, request.body().to_vec());
            answer(201, &[], "")
        }
        _ => match shelves.get(&path) {
            Some(content) => answer(200, &[], content.clone()),
            None => answer(404, &[], ""),
        },
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn run(pinion: &Pinion, arguments: &[&str]) -> Ended {
    let mut command = pinion.command(arguments);
    tokio::task::spawn_blocking(move || {
        let output = command.output().unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn published_package_is_installed_from_a_registry_that_cannot_lie() {
    let (pinion, shelves) = (Pinion::default(), Shelves::default());
    let kept = shelves.clone();
    let server = HttpServer::start(move |request| registry(&kept, request)).await;
    let reference = format!("oci://127.0.0.1:{}/acme/greet:0.1.0", server.port());
    component(&pinion, "greet_armed", "greet.wasm");
    let published = run(&pinion, &["plugin", "publish", "./greet.wasm", "--to", &reference, "--json"]).await;
    let report: Value = serde_json::from_str(&published.stdout).unwrap_or_else(|_| panic!("{published:?}"));
    let key = report["key"].as_str().unwrap();
    let pinned = report["published"].as_str().unwrap();
    let added = run(&pinion, &["plugin", "add", pinned, "--key", key, "--yes"]).await;
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(listed(&pinion, "greet").is_some());
    // The tag has other content as the same version, which the author did not sign.
    let other = fs::read(guest("greet_one")).unwrap();
    let path = "/v2/acme/greet/manifests/0.1.0";
    let mut manifest: Value = serde_json::from_slice(&shelves.lock().unwrap()[path]).unwrap();
    let digest = sha256(&other);
    manifest["layers"][0]["digest"] = json!(format!("sha256:{digest}"));
    manifest["layers"][0]["size"] = json!(other.len());
    shelves.lock().unwrap().insert(format!("/v2/acme/greet/blobs/sha256:{digest}"), other);
    shelves.lock().unwrap().insert(path.to_owned(), manifest.to_string().into_bytes());
    let moved = run(&pinion, &["plugin", "add", &reference, "--yes"]).await;
    assert!(moved.code == Some(4) && moved.stderr.contains("signature"), "{moved:?}");
    // A layer that differs from the manifest.
    let blobs: Vec<String> = shelves.lock().unwrap().keys().filter(|path| path.contains("/blobs/")).cloned().collect();
    blobs.into_iter().for_each(|blob| drop(shelves.lock().unwrap().insert(blob, b"\0asm other".to_vec())));
    let lied = run(&pinion, &["plugin", "add", &reference, "--yes"]).await;
    assert!(lied.code == Some(1) && lied.stderr.contains("sent"), "{lied:?}");
    assert_eq!(run(&pinion, &["plugin", "verify"]).await.code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn indexed_package_has_the_content_that_the_index_names() {
    let (pinion, shelves) = (Pinion::default(), Shelves::default());
    let kept = shelves.clone();
    let server = HttpServer::start(move |request| registry(&kept, request)).await;
    component(&pinion, "greet_one", "greet.wasm");
    let published = run(&pinion, &["plugin", "publish", "greet.wasm", "--out", "new/out", "--json"]).await;
    let report: Value = serde_json::from_str(&published.stdout).unwrap_or_else(|_| panic!("{published:?}"));
    let content = fs::read(pinion.workspace().join("new/out/greet-0.1.0.wasm")).unwrap();
    shelves.lock().unwrap().insert("/greet.wasm".to_owned(), content);
    let entry = json!({
        "name": "greet", "version": "0.1.0", "description": "Says hello", "source": server.url("/greet.wasm"),
        "sha256": report["content"].as_str().unwrap().trim_start_matches("sha256:"), "published": 1,
    });
    let index = json!({ "version": 1, "generated": 10, "packages": [entry] }).to_string();
    shelves.lock().unwrap().insert("/index.json".to_owned(), index.into_bytes());
    let key = report["key"].as_str().unwrap();
    let list = format!("[[index]]\nlocation = {:?}\nkey = {key:?}\n", server.url("/index.json"));
    fs::write(pinion.home().join("plugin-indexes.toml"), &list).unwrap();
    let unsigned = run(&pinion, &["plugin", "search", "hello"]).await;
    assert!(unsigned.code == Some(1) && unsigned.stderr.contains("not signed"), "{unsigned:?}");
    shelves.lock().unwrap().insert("/index.json.minisig".to_owned(), b"damaged".to_vec());
    let damaged = run(&pinion, &["plugin", "search", "hello"]).await;
    assert!(damaged.code == Some(1) && damaged.stderr.contains("damaged"), "{damaged:?}");
    // The key that signs packages signs the index, too.
    let signing =
        SigningKey::from_seed(&fs::read(pinion.home().join("author-key")).unwrap().try_into().unwrap()).unwrap();
    let signed = signing.sign(&shelves.lock().unwrap()["/index.json"], "");
    shelves.lock().unwrap().insert("/index.json.minisig".to_owned(), signed.into_bytes());
    let found = run(&pinion, &["plugin", "search", "hello"]).await;
    assert!(found.code == Some(0) && found.stdout.starts_with("greet "), "{found:?}");
    let added = run(&pinion, &["plugin", "add", "greet", "--yes"]).await;
    assert_eq!(added.code, Some(0), "{added:?}");
    // One request for the index and one for its signature, for any number of packages.
    let before = server.lines().len();
    let outdated = run(&pinion, &["plugin", "outdated", "--json"]).await;
    assert_eq!((outdated.code, server.lines().len() - before), (Some(0), 2), "{outdated:?}");
    assert!(outdated.stdout.contains("\"outdated\""), "{outdated:?}");
    shelves.lock().unwrap().insert("/greet.wasm".to_owned(), fs::read(guest("greet_two")).unwrap());
    let swapped = run(&pinion, &["plugin", "update", "greet", "--yes"]).await;
    assert!(swapped.code == Some(1) && swapped.stderr.contains("not the content"), "{swapped:?}");
    // A search does without an index that fails. An installation does not: the next index could have another `greet`.
    let gone = format!("[[index]]\nlocation = \"gone.json\"\nkey = {key:?}\n{list}");
    fs::write(pinion.home().join("plugin-indexes.toml"), gone).unwrap();
    let found = run(&pinion, &["plugin", "search", "hello"]).await;
    assert!(found.code == Some(0) && found.stdout.starts_with("greet "), "{found:?}");
    assert!(found.stderr.contains("gone.json"), "{found:?}");
    let refused = run(&pinion, &["plugin", "add", "greet", "--yes"]).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("gone.json"), "{refused:?}");
}
