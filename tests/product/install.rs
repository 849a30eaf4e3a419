//! The files that `.ci/package` makes for people: each installs into an empty root and runs from there.

use crate::plugins::authors::{path, root};
use pinion_tests::{Pinion, binary, has_namespaces};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The digests of the files for the machines of CI.
#[cfg(target_arch = "x86_64")]
const SUMS: &str = "SHA256SUMS-x86_64-unknown-linux-gnu";
#[cfg(not(target_arch = "x86_64"))]
const SUMS: &str = "SHA256SUMS-aarch64-unknown-linux-gnu";

/// Runs a program with an empty environment except for `PATH`, and returns its output.
fn run(program: impl AsRef<Path>, arguments: &[&str], home: &Path) -> String {
    let program = program.as_ref();
    let mut command = Command::new(program);
    command.args(arguments).current_dir(home).env_clear().env("PATH", path()).env("HOME", home);
    let output = command.env("SOURCE_DATE_EPOCH", "1700000000").stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{} {arguments:?}: {stdout}{stderr}", program.display());
    stdout.into_owned()
}

/// Writes small scripts in place of the programs of a test build, which take minutes to compress. They run the product
/// for completions and pages, and name versions of the C library, as programs do.
fn programs(pinion: &Pinion) -> PathBuf {
    let product = pinion.command(["--version"]).get_program().to_owned();
    let needed = "# GLIBC_2.9 GLIBC_2.34 GLIBC_ABI_DT_RELR";
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n{needed}\n", Path::new(&product).display());
    for name in ["pinion", "pinion-sandbox"] {
        let file = pinion.write(&format!("built/{name}"), &script);
        fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    pinion.workspace().join("built")
}

/// Packs, and returns the directory of the files.
fn packed(pinion: &Pinion, programs: &Path, name: &str) -> PathBuf {
    packed_at(pinion, programs, name, "1")
}

/// Packs with this effort of the compression.
fn packed_at(pinion: &Pinion, programs: &Path, name: &str, level: &str) -> PathBuf {
    let (out, home) = (pinion.workspace().join(name), pinion.workspace());
    let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap()));
    let mut command = Command::new(root().join(".ci/package"));
    command.arg(programs).arg(&out).args(["--level", level]).current_dir(home);
    command.env("SOURCE_DATE_EPOCH", "1700000000").env("CARGO_HOME", cargo).env("CARGO_NET_OFFLINE", "true");
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    out
}

fn with_ending(directory: &Path, ending: &str) -> PathBuf {
    let files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut found = files.into_iter().filter(|file| file.to_str().unwrap().ends_with(ending));
    found.next().unwrap_or_else(|| panic!("no {ending} in {}", directory.display()))
}

/// Checks that a program is there with its helper, runs, and is documented.
fn assert_installed(root: &Path, program: &str, completion: &str, page: &str) {
    let program = root.join(program);
    assert!(run(&program, &["--version"], root).starts_with("pinion 0."));
    assert_eq!(fs::metadata(program.with_file_name("pinion-sandbox")).unwrap().mode() & 0o777, 0o755);
    assert!(fs::read_to_string(root.join(completion)).unwrap().contains("_pinion"));
    assert!(root.join(page).is_file(), "{page}");
}

#[test]
fn each_package_installs_into_an_empty_root() {
    let pinion = Pinion::default();
    let out = packed(&pinion, &programs(&pinion), "out");
    let file = |ending: &str| with_ending(&out, ending).to_str().unwrap().to_owned();
    let empty = |name: &str| {
        let root = pinion.workspace().join(name);
        fs::create_dir(&root).unwrap();
        root
    };

    let archive = empty("archive");
    run("tar", &["-xf", &file(".tar.xz"), "--strip-components", "1"], &archive);
    assert_installed(&archive, "pinion", "completions/pinion.bash", "man/pinion-plugin-build.1");
    assert!(archive.join("LICENSE-MIT").is_file() && archive.join("README.md").is_file());

    let debian = empty("debian");
    run("dpkg-deb", &["-x", &file(".deb"), "."], &debian);
    let completion = "usr/share/bash-completion/completions/pinion";
    assert_installed(&debian, "usr/bin/pinion", completion, "usr/share/man/man1/pinion.1.gz");
    let fields = run("dpkg-deb", &["-f", &file(".deb"), "Package", "Version", "Depends"], &debian);
    let depends = "Depends: libc6 (>= 2.36), libgcc-s1";
    assert_eq!(fields, format!("Package: pinion\nVersion: {}-1\n{depends}\n", env!("CARGO_PKG_VERSION")));

    assert!(file(".whl").contains("manylinux_2_36_"));
    let wheel = empty("wheel");
    run("python3", &["-m", "venv", "."], &wheel);
    run(wheel.join("bin/pip"), &["install", "--no-index", "--no-deps", "--quiet", &file(".whl")], &wheel);
    let completion = "share/bash-completion/completions/pinion";
    assert_installed(&wheel, "bin/pinion", completion, "share/man/man1/pinion-mcp.1");
    run(wheel.join("bin/pip"), &["uninstall", "--yes", "--quiet", "pinion-agent"], &wheel);
    assert!(!wheel.join("bin/pinion").exists());

    let npm = empty("npm");
    run("npm", &["install", "--global", "--offline", "--prefix", ".", &file(".tgz")], &npm);
    let (package, page) = ("lib/node_modules/pinion-agent", "share/man/man1/pinion.1");
    assert_installed(&npm, &format!("{package}/bin/pinion"), &format!("{package}/completions/pinion.bash"), page);
    assert!(run(npm.join("bin/pinion"), &["--version"], &npm).starts_with("pinion 0."));

    run("sha256sum", &["--check", "--strict", SUMS], &out);
}

#[test]
fn packing_twice_gives_the_same_bytes_and_a_bill_of_materials() {
    let pinion = Pinion::default();
    let programs = programs(&pinion);
    let (first, second) = (packed(&pinion, &programs, "first"), packed(&pinion, &programs, "second"));
    let sums = |directory: &Path| fs::read_to_string(directory.join(SUMS)).unwrap();
    assert_eq!(sums(&first), sums(&second));
    let bill: Value = serde_json::from_slice(&fs::read(with_ending(&first, ".cdx.json")).unwrap()).unwrap();
    let names: BTreeSet<&str> =
        bill["components"].as_array().unwrap().iter().map(|component| component["name"].as_str().unwrap()).collect();
    assert!(names.contains("wasmtime") && names.contains("pinion-sandbox"), "{names:?}");
    // A dependency of tests alone.
    assert!(!names.contains("proptest"), "{names:?}");
}

/// Enters the directory as the root of a file system, without a way back, and runs the demo of the archive in it.
const ENTER: &str = "set -e\n\
    mount --bind . .\n\
    cd \"$PWD\"\n\
    mount -t proc proc proc\n\
    for device in null zero urandom; do touch dev/$device; mount --bind /dev/$device dev/$device; done\n\
    pivot_root . old\n\
    umount -l /old\n\
    exec /pinion/pinion demo\n";

/// Copies programs with the libraries that they need.
fn copy_with_libraries(programs: &[PathBuf], root: &Path) {
    for program in programs {
        let listed = Command::new("ldd").arg(program).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            let place = root.join(library.trim_start_matches('/'));
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::copy(library, place).unwrap();
        }
    }
}

/// The root has the archive, the C library, a shell and `cp`, which the demo runs, and an empty home.
#[test]
fn demo_runs_from_the_archive_in_an_empty_root() {
    if !has_namespaces() {
        return;
    }
    let pinion = Pinion::default();
    let out = packed_at(&pinion, binary().parent().unwrap(), "out", "0");
    let root = pinion.workspace().join("root");
    for directory in ["bin", "dev", "home", "old", "pinion", "proc", "tmp"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let archive = with_ending(&out, ".tar.xz");
    run("tar", &["-xf", archive.to_str().unwrap(), "--strip-components", "1"], &root.join("pinion"));
    let path = path();
    let find =
        |name: &str| std::env::split_paths(&path).map(|place| place.join(name)).find(|file| file.is_file()).unwrap();
    let tools = ["sh", "cp", "umount"].map(|name| (find(name), root.join("bin").join(name)));
    for (program, place) in &tools {
        fs::copy(program, place).unwrap();
    }
    let installed = ["pinion", "pinion-sandbox"].map(|name| root.join("pinion").join(name));
    copy_with_libraries(&tools.into_iter().map(|(program, _)| program).chain(installed).collect::<Vec<_>>(), &root);
    let mut command = Command::new("unshare");
    command.args(["-Urmpf", "sh", "-c", ENTER]).current_dir(&root).env_clear();
    let directories = format!("{}:/bin", path.to_string_lossy());
    let ended = command.env("PATH", directories).env("HOME", "/home").stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && stdout.contains("I am version 0.2.0"), "{stdout}{stderr}");
    assert!(stdout.contains("ok: 42") && stdout.contains("Denied"), "{stdout}{stderr}");
}
