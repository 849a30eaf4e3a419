//! A thousand installed packages.

use super::{add, component};
use pinion_packages::SigningKey;
use pinion_tests::{HttpServer, Pinion, answer};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const PACKAGES: usize = 1_000;

fn name(number: usize) -> String {
    format!("package{number:04}")
}

/// Adds copies of the only package under other names to a lock file, and seals it again.
fn multiply(lock: &Path, key: &Path) {
    let text = fs::read_to_string(lock).unwrap();
    let (head, rest) = text.split_once("seal = \"").unwrap();
    let (_, body) = rest.split_once("\"\n").unwrap();
    let copies = (0..PACKAGES).map(|number| body.replace("name = \"greet\"", &format!("name = {:?}", name(number))));
    let body = body.to_owned() + "\n" + &copies.collect::<Vec<_>>().join("\n");
    let key: [u8; 32] = fs::read(key).unwrap().try_into().unwrap();
    let seal = blake3::keyed_hash(&key, body.as_bytes()).to_hex();
    fs::write(lock, format!("{head}seal = \"{seal}\"\n{body}")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn outdated_packages_are_found_with_one_request_for_each_index() {
    let pinion = Pinion::default();
    component(&pinion, "greet_one", "greet.wasm");
    assert_eq!(add(&pinion, "./greet.wasm").code, Some(0));
    multiply(&pinion.home().join("plugins.lock"), &pinion.home().join("packages/seal-key"));
    let signing = SigningKey::from_seed(&[7; 32]).unwrap();
    let entry = |number: usize, version: &str| {
        json!({
            "name": name(number), "version": version, "description": "", "source": "https://example.com/a.wasm",
            "sha256": "0".repeat(64), "published": 1,
        })
    };
    // Every package has three releases, and every second one of them is newer.
    let versions = |number: usize| ["0.0.1", if number.is_multiple_of(2) { "0.2.0" } else { "0.1.0" }, "0.0.2"];
    let entries = (0..PACKAGES).flat_map(|number| versions(number).map(|version| entry(number, version)));
    let half = |packages: Vec<Value>| json!({ "version": 1, "generated": 10, "packages": packages }).to_string();
    let entries: Vec<Value> = entries.collect();
    let (one, two) = entries.split_at(entries.len() / 2);
    let indexes = [half(one.to_vec()), half(two.to_vec())];
    let signatures = indexes.each_ref().map(|index| signing.sign(index.as_bytes(), ""));
    let server = HttpServer::start(move |request| match request.uri().path() {
        "/0.json" => answer(200, &[], indexes[0].clone()),
        "/1.json" => answer(200, &[], indexes[1].clone()),
        "/0.json.minisig" => answer(200, &[], signatures[0].clone()),
        "/1.json.minisig" => answer(200, &[], signatures[1].clone()),
        _ => answer(404, &[], ""),
    })
    .await;
    let key = signing.public();
    let list = |number: usize| {
        let location = server.url(&format!("/{number}.json"));
        format!("[[index]]\nlocation = {location:?}\nkey = {:?}\n", key.as_str())
    };
    fs::write(pinion.home().join("plugin-indexes.toml"), list(0) + &list(1)).unwrap();
    let mut command = pinion.command(["plugin", "outdated", "--json"]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(report["outdated"].as_array().unwrap().len(), PACKAGES / 2);
    assert_eq!(report["outdated"][1], json!({ "name": name(2), "installed": "0.1.0", "newest": "0.2.0" }));
    assert_eq!(report["not_indexed"], json!(["greet"]));
    let lines = server.lines();
    assert_eq!(lines, ["GET /0.json", "GET /0.json.minisig", "GET /1.json", "GET /1.json.minisig"]);
}

#[cfg(target_os = "linux")]
mod opened {
    use super::*;
    use rustix::fs::inotify;
    use std::mem::MaybeUninit;

    /// Returns the number of times that a command opens components in the user's plugin directory.
    fn opened_components(pinion: &Pinion) -> usize {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watch, pinion.home().join("plugins"), inotify::WatchFlags::OPEN).unwrap();
        assert_eq!(pinion.run(["plugin", "list", "--json"]).code, Some(0));
        let mut buffer = [MaybeUninit::uninit(); 1 << 16];
        let mut events = inotify::Reader::new(&watch, &mut buffer);
        let names = std::iter::from_fn(|| events.next().ok().map(|event| event.file_name().map(ToOwned::to_owned)));
        names.flatten().filter(|name| name.to_bytes().ends_with(b".wasm")).count()
    }

    /// A start reads each component at most once in its life: for its description, or for its name if it is disabled.
    #[test]
    fn later_starts_open_no_component_that_is_disabled() {
        const DISABLED: usize = 40;
        let pinion = Pinion::default();
        let plugins = pinion.home().join("plugins");
        fs::create_dir_all(&plugins).unwrap();
        let bytes = fs::read(pinion_tests::guest("greet_one")).unwrap();
        (0..DISABLED).for_each(|number| fs::write(plugins.join(format!("{}.wasm", name(number))), &bytes).unwrap());
        fs::write(pinion.home().join("config.toml"), "[plugins.greet]\nenabled = false\n").unwrap();
        // Files that were written a moment ago may change without another time.
        pinion_tests::wait_until("the files have rested", || {
            let written = fs::metadata(plugins.join(format!("{}.wasm", name(DISABLED - 1)))).unwrap().modified();
            written.unwrap().elapsed().is_ok_and(|age| age.as_millis() > 100)
        });
        assert!(opened_components(&pinion) >= DISABLED);
        assert_eq!(opened_components(&pinion), 0);
        // Enabled again, one of them is loaded, and the others are refused for its name.
        fs::write(pinion.home().join("config.toml"), "").unwrap();
        assert!(super::super::listed(&pinion, "greet").is_some());
    }
}
