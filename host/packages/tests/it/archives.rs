//! Hostile and ordinary archives, and paths in packages.

use crate::support::{component, files};
use flate2::{Compression, write::GzEncoder};
use pinion_packages::archive::{pack, unpack};
use pinion_packages::{PackageError, PackageFiles};
use std::io::Write as _;

/// Returns an entry of a tar archive with any kind and path.
fn entry(kind: u8, path: &[u8], data: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    header[..path.len().min(100)].copy_from_slice(&path[..path.len().min(100)]);
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[148..156].fill(b' ');
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn tar(entries: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries.iter().flat_map(|(kind, path, data)| entry(*kind, path, data)).collect();
    bytes.extend_from_slice(&[0; 1024]);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a zip archive of stored files. `mode` is a mode of Unix; `central` may differ from the local name.
fn zip(entries: &[(&str, &str, &[u8], u32)]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (local, central, data, mode) in entries {
        let start = bytes.len() as u32;
        let mut sum = flate2::Crc::new();
        sum.update(data);
        let sizes = [sum.sum(), data.len() as u32, data.len() as u32];
        bytes.extend_from_slice(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0");
        sizes.iter().for_each(|size| bytes.extend_from_slice(&size.to_le_bytes()));
        bytes.extend_from_slice(&(local.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(local.as_bytes());
        bytes.extend_from_slice(data);
        directory.extend_from_slice(b"PK\x01\x02\x14\x03\x14\0\0\0\0\0\0\0\0\0");
        sizes.iter().for_each(|size| directory.extend_from_slice(&size.to_le_bytes()));
        directory.extend_from_slice(&(central.len() as u16).to_le_bytes());
        directory.extend_from_slice(&[0; 8]);
        directory.extend_from_slice(&(mode << 16).to_le_bytes());
        directory.extend_from_slice(&start.to_le_bytes());
        directory.extend_from_slice(central.as_bytes());
    }
    let start = bytes.len() as u32;
    let count = (entries.len() as u16).to_le_bytes();
    bytes.extend_from_slice(&directory);
    bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    bytes.extend_from_slice(&[count, count].concat());
    bytes.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&start.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes
}

#[test]
fn same_files_come_out_of_every_kind_of_archive() {
    let wasm = component("greet 1.0.0");
    let expected = files(&[("plugin.wasm", "greet 1.0.0"), ("README.md", "hello")]);
    let plain = tar(&[(b'0', b"./README.md", b"hello"), (b'0', b"plugin.wasm", &wasm)]);
    let nested = tar(&[
        (b'g', b"pax_global_header", b""),
        (b'5', b"greet-1.0/", b""),
        (b'0', b"greet-1.0/plugin.wasm", &wasm),
        (b'0', b"greet-1.0/README.md", b"hello"),
    ]);
    let long = tar(&[
        (b'L', b"././@LongLink", b"plugin.wasm\0"),
        (b'0', b"cut", &wasm),
        (b'x', b"pax", b"18 path=README.md\n"),
        (b'0', b"cut", b"hello"),
    ]);
    let zipped = zip(&[("plugin.wasm", "plugin.wasm", &wasm, 0o100_644), ("README.md", "README.md", b"hello", 0)]);
    for archive in [&plain, &gzip(&plain), &gzip(&nested), &gzip(&long), &zipped] {
        assert_eq!(unpack(archive).unwrap(), expected);
    }
}

#[test]
fn packed_files_come_out_again_and_always_are_the_same_bytes() {
    let long = format!("{}/{}.md", "d".repeat(90), "n".repeat(60));
    let files = files(&[("a.md", ""), ("b/c.md", "text"), (&long, "x")]);
    let archive = pack(&files).unwrap();
    assert_eq!(unpack(&archive).unwrap(), files);
    assert_eq!(pack(&files).unwrap(), archive);
    let name = "n".repeat(150);
    assert!(pack(&crate::support::files(&[(&name, "x")])).is_err());
}

#[test]
fn entries_that_are_no_plain_files_are_refused() {
    let link = |kind: u8| gzip(&tar(&[(kind, b"plugin.wasm", b"")]));
    for kind in [b'1', b'2', b'3', b'4', b'6', b'7', b'S'] {
        assert!(matches!(unpack(&link(kind)), Err(PackageError::NotAFile { .. })), "{kind}");
    }
    for mode in [0o120_777, 0o010_644, 0o020_644, 0o060_644, 0o140_755] {
        let archive = zip(&[("a", "a", b"target", mode)]);
        assert!(matches!(unpack(&archive), Err(PackageError::NotAFile { .. })), "{mode:o}");
    }
}

#[test]
fn paths_that_leave_or_hide_are_refused() {
    let paths: &[&str] = &[
        "../plugin.wasm",
        "a/../../b",
        "/etc/passwd",
        "a//b",
        "a/./b",
        "..",
        ".",
        "",
        "C:/a",
        "a\\b",
        "a\0b",
        "a\nb",
        "nul",
        "con.txt",
        "com1",
        "LPT9.md",
        "a.",
        "a ",
        " a",
        "a/.git/config",
        ".GIT/hooks/x",
        "a\u{202e}b",
        "a\u{200b}b",
        "a?b",
    ];
    for path in paths {
        assert!(PackageFiles::default().insert(path, Vec::new()).is_err(), "{path:?}");
    }
    for path in ["../x", "/x", "a/../../x", "..\\x"] {
        assert!(unpack(&gzip(&tar(&[(b'0', path.as_bytes(), b"")]))).is_err(), "{path}");
        assert!(unpack(&zip(&[(path, path, b"", 0)])).is_err(), "{path}");
    }
    let deep = "a/".repeat(40) + "b";
    assert!(PackageFiles::default().insert(&deep, Vec::new()).is_err());
}

#[test]
fn names_that_some_file_systems_take_for_one_are_refused() {
    let pairs = [
        ("a.md", "a.md"),
        ("skills/a/SKILL.md", "skills/a/skill.md"),
        ("Skills/a", "skills/b"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("A", "a/b"),
        ("caf\u{e9}", "cafe\u{301}"),
        ("\u{212a}.md", "k.md"),
    ];
    for (one, other) in pairs {
        let mut files = PackageFiles::default();
        files.insert(one, Vec::new()).unwrap();
        assert!(matches!(files.insert(other, Vec::new()), Err(PackageError::Collision { .. })), "{one} {other}");
    }
    let twice = gzip(&tar(&[(b'0', b"a.wasm", b"1"), (b'0', b"a.wasm", b"2")]));
    assert!(matches!(unpack(&twice), Err(PackageError::Collision { .. })));
}

#[test]
fn archive_bombs_end_early() {
    let zeros = gzip(&vec![0; 200 << 20]);
    assert!(zeros.len() < 2 << 20);
    assert!(matches!(unpack(&zeros), Err(PackageError::TooLarge)));
    let many: Vec<String> = (0..2_500).map(|number| format!("f{number}")).collect();
    let entries: Vec<(u8, &[u8], &[u8])> = many.iter().map(|name| (b'0', name.as_bytes(), b"".as_slice())).collect();
    assert!(matches!(unpack(&gzip(&tar(&entries))), Err(PackageError::TooLarge)));
    // A member that says it is larger than everything.
    let mut huge = entry(b'0', b"a", b"");
    huge[124..136].copy_from_slice(b"77777777777\0");
    assert!(unpack(&gzip(&huge)).is_err());
    // The directory of a zip says so before anything is inflated.
    let mut zipped = zip(&[("a", "a", b"x", 0)]);
    let entry = zipped.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    zipped[entry + 24..entry + 28].copy_from_slice(&(200_u32 << 20).to_le_bytes());
    assert!(matches!(unpack(&zipped), Err(PackageError::TooLarge)));
}

#[test]
fn damaged_archives_are_refused_at_every_length() {
    let wasm = component("greet 1.0.0");
    let tarred = gzip(&tar(&[(b'0', b"plugin.wasm", &wasm)]));
    let zipped = zip(&[("plugin.wasm", "plugin.wasm", &wasm, 0)]);
    for archive in [tarred, zipped] {
        for end in 0..archive.len() - 1 {
            assert!(unpack(&archive[..end]).is_err(), "{end}");
        }
    }
    let mut broken = zip(&[("plugin.wasm", "plugin.wasm", &wasm, 0)]);
    broken[45] ^= 1;
    assert!(unpack(&broken).is_err());
}

#[test]
fn zip_with_two_names_for_a_file_is_refused() {
    assert!(unpack(&zip(&[("harmless.md", "plugin.wasm", b"x", 0)])).is_err());
    // A second archive behind the first one.
    let mut joined = zip(&[("a.md", "a.md", b"x", 0)]);
    joined.extend_from_slice(b"trailing bytes");
    assert!(unpack(&joined).is_err());
}

#[cfg(unix)]
#[test]
fn links_and_pipes_in_a_directory_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join(".git")).unwrap();
    std::fs::write(directory.path().join(".git/config"), "x").unwrap();
    std::fs::write(directory.path().join("a.md"), "x").unwrap();
    assert_eq!(PackageFiles::read_directory(directory.path()).unwrap().paths().collect::<Vec<_>>(), ["a.md"]);
    std::os::unix::fs::symlink("/etc/passwd", directory.path().join("b.md")).unwrap();
    assert!(matches!(PackageFiles::read_directory(directory.path()), Err(PackageError::NotAFile { .. })));
}
