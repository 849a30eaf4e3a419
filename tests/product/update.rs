//! `pinion update`: releases that are installed, and others that change nothing.

use pinion_packages::SigningKey;
use pinion_tests::{Ended, HttpServer, Pinion, answer, binary};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The target that the command was built for.
fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32]).unwrap()
}

/// A release for tests, whose programs print their version.
struct TestRelease {
    version: &'static str,
    /// Version that the program prints.
    printed: &'static str,
    key: SigningKey,
    comment: &'static str,
    target: String,
    files: &'static [&'static str],
}

impl Default for TestRelease {
    fn default() -> Self {
        let files = &["pinion", "pinion-sandbox", "completions/pinion.bash", "man/pinion.1"][..];
        Self { version: "99.0.0", printed: "99.0.0", key: key(1), comment: "name:pinion", target: target(), files }
    }
}

impl TestRelease {
    /// Writes the archive, the list and its signature into a directory, and returns it.
    fn write(&self, pinion: &Pinion, name: &str) -> PathBuf {
        let top = format!("pinion-{}-{}", self.version, self.target);
        for file in self.files {
            let text = format!("#!/bin/sh\necho pinion {}\n", self.printed);
            let file = pinion.write(&format!("{name}-files/{top}/{file}"), text);
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let directory = pinion.workspace().join(name);
        fs::create_dir_all(&directory).unwrap();
        let archive = directory.join(format!("{top}.tar.xz"));
        let mut tar = Command::new("tar");
        tar.arg("-cJf").arg(&archive).arg("-C").arg(pinion.workspace().join(format!("{name}-files"))).arg(&top);
        assert!(tar.status().unwrap().success());
        let digest: String =
            Sha256::digest(fs::read(archive).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect();
        let list = format!("{digest}  {top}.tar.xz\n");
        let place = directory.join(format!("SHA256SUMS-{}", target()));
        fs::write(place.with_extension("minisig"), self.key.sign(list.as_bytes(), self.comment)).unwrap();
        fs::write(place, list).unwrap();
        directory
    }
}

/// Installs the command at a path of the workspace. It is the same file as the tested one, which is large.
fn install(pinion: &Pinion, path: &str) -> PathBuf {
    let program = pinion.workspace().join(path);
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::hard_link(binary(), &program).or_else(|_| fs::copy(binary(), &program).map(drop)).unwrap();
    program
}

fn run(program: &Path, home: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(home).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home);
    let output = command.env("PINION_HOME", home).stdin(Stdio::null()).output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn update(pinion: &Pinion, program: &Path, from: &str) -> Ended {
    run(program, &pinion.workspace(), &["update", "--from", from, "--key", key(1).public().as_str()])
}

/// Returns the names of the files below a directory with their length.
fn content(directory: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())).collect()
}

#[test]
fn newer_release_replaces_programs_and_documents() {
    let pinion = Pinion::default();
    let program = install(&pinion, "app/pinion");
    for file in ["pinion-sandbox", "completions/pinion.bash", "man/pinion.1", "notes.txt"] {
        pinion.write(&format!("app/{file}"), "old");
    }
    let release = TestRelease::default().write(&pinion, "release");
    let from = release.to_str().unwrap();
    let public = pinion.write("release.pub", format!("untrusted comment: key\n{}\n", key(1).public().as_str()));
    let check = ["update", "--check", "--from", from, "--key", public.to_str().unwrap()];
    let checked = run(&program, &pinion.workspace(), &check);
    assert!(checked.stdout.starts_with("pinion 99.0.0 is available; this is 0."), "{checked:?}");
    assert_eq!(fs::read_to_string(pinion.workspace().join("app/pinion-sandbox")).unwrap(), "old");

    let updated = update(&pinion, &program, from);
    assert!(updated.code == Some(0) && updated.stdout.ends_with(" to 99.0.0\n"), "{updated:?}");
    assert_eq!(run(&program, &pinion.workspace(), &["--version"]).stdout, "pinion 99.0.0\n");
    for file in ["pinion-sandbox", "completions/pinion.bash", "man/pinion.1"] {
        assert!(fs::read_to_string(pinion.workspace().join("app").join(file)).unwrap().contains("99.0.0"), "{file}");
    }
    let names: Vec<String> = content(&pinion.workspace().join("app")).into_keys().collect();
    assert_eq!(names, ["completions", "man", "notes.txt", "pinion", "pinion-sandbox"]);
}

/// Next to files of the user's, only the programs are replaced.
#[tokio::test(flavor = "multi_thread")]
async fn release_on_a_server_is_installed() {
    let pinion = Pinion::default();
    let program = install(&pinion, "bin/pinion");
    let release = TestRelease::default().write(&pinion, "release");
    let server = HttpServer::start(move |request| match fs::read(release.join(&request.uri().path()[1..])) {
        Ok(content) => answer(200, &[], content),
        Err(_) => answer(404, &[], ""),
    })
    .await;
    let (workspace, url, elsewhere) = (pinion.workspace(), server.url("/"), server.url("/nowhere"));
    let updated = tokio::task::spawn_blocking(move || {
        let missing = update(&pinion, &program, &elsewhere);
        assert!(missing.code == Some(1) && missing.stderr.contains("status 404"), "{missing:?}");
        let insecure = update(&pinion, &program, "http://example.com/release");
        assert!(insecure.code == Some(2) && insecure.stderr.contains("not an HTTPS address"), "{insecure:?}");
        let updated = update(&pinion, &program, &url);
        let names: Vec<String> = content(&workspace.join("bin")).into_keys().collect();
        assert_eq!(names, ["pinion", "pinion-sandbox"]);
        updated
    });
    let updated = updated.await.unwrap();
    assert_eq!(updated.code, Some(0), "{updated:?}");
}

#[test]
fn release_that_is_not_verified_changes_nothing() {
    let pinion = Pinion::default();
    let program = install(&pinion, "app/pinion");
    pinion.write("app/pinion-sandbox", "old");
    let before = content(&pinion.workspace().join("app"));
    let refused = |name: &str, release: TestRelease, change: &dyn Fn(&Path), expected: &str| {
        let directory = release.write(&pinion, name);
        change(&directory);
        let ended = update(&pinion, &program, directory.to_str().unwrap());
        assert!(ended.code == Some(1) && ended.stderr.contains(expected), "{name}: {ended:?}");
        assert_eq!(content(&pinion.workspace().join("app")), before, "{name}");
    };
    let made = TestRelease::default;
    let list = |directory: &Path| directory.join(format!("SHA256SUMS-{}", target()));
    let archive = |directory: &Path| directory.join(format!("pinion-99.0.0-{}.tar.xz", target()));
    let keep = |_: &Path| {};
    refused("other-key", TestRelease { key: key(2), ..made() }, &keep, "not one of key");
    refused("other-version", TestRelease { comment: "version:98.0.0", ..made() }, &keep, "for version 98.0.0");
    refused("package", TestRelease { comment: "name:greet", ..made() }, &keep, "for package `greet`");
    refused("expired", TestRelease { comment: "expires:1", ..made() }, &keep, "expired");
    refused("older", TestRelease { version: "0.0.9", ..made() }, &keep, "older than");
    refused("other-target", TestRelease { target: "riscv64-x".into(), ..made() }, &keep, "does not name one archive");
    refused("no-program", TestRelease { files: &["pinion"], ..made() }, &keep, "no program `pinion-sandbox`");
    refused("no-start", TestRelease { printed: "98.0.0", ..made() }, &keep, "does not start");
    let tampered = |path: PathBuf, from: &str, to: &str| {
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace(from, to)).unwrap();
    };
    refused("list", made(), &|at| tampered(list(at), "99.0.0", "99.0.1"), "not one of key");
    let unsigned = |at: &Path| fs::remove_file(list(at).with_extension("minisig")).unwrap();
    refused("unsigned", made(), &unsigned, "minisig");
    let cut = |at: &Path| fs::write(archive(at), &fs::read(archive(at)).unwrap()[..100]).unwrap();
    refused("cut", made(), &cut, "is not the file");
    refused("missing", made(), &|at| fs::remove_file(archive(at)).unwrap(), "could not read");
}

#[test]
fn installation_of_a_package_manager_is_left_to_it() {
    let pinion = Pinion::default();
    let release = TestRelease::default().write(&pinion, "release");
    pinion.write("h/.cargo/.crates.toml", "[v1]\n\"pinion-cli 0.1.0 (path)\" = [\"pinion\"]\n");
    pinion.write("t/uv/tools/pinion-agent/lib/python3.12/site-packages/pinion_agent-0.1.0.dist-info/RECORD", "");
    for (path, command) in [
        ("n/node_modules/pinion-agent/bin/pinion", "npm install --global pinion-agent@latest"),
        ("h/.cargo/bin/pinion", "cargo install --path host/cli --locked"),
        ("t/uv/tools/pinion-agent/bin/pinion", "uv tool upgrade pinion-agent"),
    ] {
        let program = install(&pinion, path);
        let ended = update(&pinion, &program, release.to_str().unwrap());
        assert!(ended.code == Some(2) && ended.stderr.contains(command), "{path}: {ended:?}");
        let names: Vec<String> = content(program.parent().unwrap()).into_keys().collect();
        assert_eq!(names, ["pinion"], "{path}");
    }
}

#[test]
fn build_without_a_key_updates_nothing() {
    let pinion = Pinion::default();
    let program = install(&pinion, "app/pinion");
    let ended = run(&program, &pinion.workspace(), &["update", "--from", "."]);
    assert!(ended.code == Some(2) && ended.stderr.contains("no key to verify releases with"), "{ended:?}");
    let ended = run(&program, &pinion.workspace(), &["update", "--from", ".", "--key", "x"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("`x` is not a public key"), "{ended:?}");
}
