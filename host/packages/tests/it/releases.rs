//! Releases of Pinion itself: the signed list and its archive.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pinion_packages::archive::unpack_release;
use pinion_packages::{SignedRelease, SigningKey, sha256_hex};

/// The files `pinion` and `man/pinion.1` in the directory `pinion-2.0.0-t`, packed by `tar` and `xz -9`.
const ARCHIVE: &str = "/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4Cf/AIBdADgaSh9mbilgWMKZP+OHd2/D+gBD+noSHQp6RVyEDkjgKZZrtFUQFdQnlDaI\
                       RdgZDUPne7FDUA2A1Qx4JPQ55rLHMoCrQzK/PfwqOg00A8bUC8FDMOOe2B0C558pDYnOWFuvnd00aqU6mRMXkQYs5pjQT6Ia\
                       58O7SBO1KvHdaBAAABUUojjI39DeAAGcAYBQAADes3QVscRn+wIAAAAABFla";

fn archive() -> Vec<u8> {
    STANDARD.decode(ARCHIVE).unwrap()
}

/// Returns a list with the archive under this name.
fn list(name: &str) -> String {
    format!("{}  {name}\n{}  pinion_agent-2.0.0-py3-none-any.whl\n", sha256_hex(&archive()), "0".repeat(64))
}

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32]).unwrap()
}

fn read(list: &str, comment: &str) -> Result<SignedRelease, String> {
    SignedRelease::read(list, &key(1).sign(list.as_bytes(), comment), &key(1).public(), "t", 100)
}

#[test]
fn signed_list_names_the_archive_and_its_version() {
    let release = read(&list("pinion-2.0.0-t.tar.xz"), "name:pinion version:2.0.0 expires:100").unwrap();
    assert_eq!((release.version.as_str(), release.archive.as_str()), ("2.0.0", "pinion-2.0.0-t.tar.xz"));
    let files = release.unpack(&archive()).unwrap();
    let files: Vec<_> = files.iter().collect();
    assert_eq!(files, [("man/pinion.1", &b"page"[..]), ("pinion", &b"program"[..])]);
    assert_eq!(SignedRelease::list_name("t"), "SHA256SUMS-t");
}

#[test]
fn list_that_is_not_for_this_release_is_refused() {
    let good = list("pinion-2.0.0-t.tar.xz");
    for comment in ["name:other", "version:2.0.1", "expires:99", "expires:soon"] {
        assert!(read(&good, comment).is_err(), "{comment}");
    }
    let other = key(2).sign(good.as_bytes(), "");
    assert!(SignedRelease::read(&good, &other, &key(1).public(), "t", 0).is_err());
    let tampered = good.replace("2.0.0-t", "3.0.0-t");
    let signature = key(1).sign(good.as_bytes(), "");
    assert!(SignedRelease::read(&tampered, &signature, &key(1).public(), "t", 0).is_err());
    assert!(read(&good.repeat(2), "").is_err(), "two archives");
    for name in ["pinion-2.0.0-u.tar.xz", "pinion--t.tar.xz", "pinion-../2-t.tar.xz", "pinion-v2-t.tar.xz", "other"] {
        assert!(read(&list(name), "").is_err(), "{name}");
    }
    assert!(read("", "").is_err());
}

#[test]
fn archive_that_the_list_does_not_name_is_not_unpacked() {
    let release = read(&list("pinion-2.0.0-t.tar.xz"), "").unwrap();
    let whole = archive();
    for length in [0, 1, whole.len() / 2, whole.len() - 1] {
        assert!(release.unpack(&whole[..length]).unwrap_err().contains("is not the file"), "{length}");
    }
}

#[test]
fn damaged_archive_is_an_error() {
    let whole = archive();
    for length in 0..whole.len() {
        assert!(unpack_release(&whole[..length]).is_err(), "{length}");
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        // Some bytes mean nothing, such as padding.
        let _ = unpack_release(&changed);
    }
}
