//! Signatures of authors, and the user's rules.

use pinion_packages::{
    AuthorKey, InstallationCandidate, InstallationRules, OciReference, RuleViolation, SigningKey, verify_signature,
};

const CONTENT: &[u8] = b"the content of a package";

fn keys() -> (SigningKey, SigningKey) {
    (SigningKey::from_seed(&[1; 32]).unwrap(), SigningKey::from_seed(&[2; 32]).unwrap())
}

#[test]
fn signature_covers_content_package_and_time() {
    let (mine, other) = keys();
    let signature = mine.sign(CONTENT, "name:kit version:1.0 expires:100");
    let verify =
        |key: &AuthorKey, content: &[u8], text: &str, package, now| verify_signature(key, content, text, package, now);
    assert_eq!(verify(&mine.public(), CONTENT, &signature, ("kit", "1.0"), 100), Ok(()));
    let lines: Vec<&str> = signature.lines().collect();
    let changed_comment = signature.replace("expires:100", "expires:999");
    let swapped = other.sign(CONTENT, "name:kit version:1.0 expires:100");
    let mixed = [lines[0], swapped.lines().nth(1).unwrap(), lines[2], lines[3]].join("\n");
    let cut = lines[..3].join("\n");
    type Case<'a> = (&'a AuthorKey, &'a [u8], &'a str, (&'a str, &'a str), u64);
    let refused: &[Case<'_>] = &[
        (&other.public(), CONTENT, &signature, ("kit", "1.0"), 1),
        (&mine.public(), b"other content", &signature, ("kit", "1.0"), 1),
        (&mine.public(), CONTENT, &signature, ("kot", "1.0"), 1),
        (&mine.public(), CONTENT, &signature, ("kit", "0.9"), 1),
        (&mine.public(), CONTENT, &signature, ("kit", "1.0"), 101),
        (&mine.public(), CONTENT, &changed_comment, ("kit", "1.0"), 500),
        (&mine.public(), CONTENT, &mixed, ("kit", "1.0"), 1),
        (&mine.public(), CONTENT, &cut, ("kit", "1.0"), 1),
        (&mine.public(), CONTENT, "", ("kit", "1.0"), 1),
        (&mine.public(), CONTENT, &"x".repeat(10_000), ("kit", "1.0"), 1),
    ];
    for (at, (key, content, text, package, now)) in refused.iter().enumerate() {
        assert!(verify(key, content, text, *package, *now).is_err(), "{at}");
    }
    let untimed = mine.sign(CONTENT, "expires:never");
    assert!(verify(&mine.public(), CONTENT, &untimed, ("kit", "1.0"), 1).is_err());
    let parsed = AuthorKey::parse(&format!("untrusted comment: key\n{}\n", mine.public().as_str())).unwrap();
    assert_eq!(parsed, mine.public());
    for text in ["", "RWQ", "not a key", &"A".repeat(56)] {
        assert!(AuthorKey::parse(text).is_err(), "{text}");
    }
}

/// A signature that the program `minisign` made, over the digest of the content.
#[test]
fn signature_of_minisign_itself_is_accepted() {
    let key = AuthorKey::parse("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3").unwrap();
    let signature = "untrusted comment: signature from minisign secret key\n\
        RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
        trusted comment: timestamp:1556193335\tfile:test\n\
        y/rUw2y8/hOUYjZU71eHp/Wo1KZ40fGy2VJEDl34XMJM+TX48Ss/17u3IvIfbVR1FkZZSNCisQbuQY+bHwhEBg==";
    assert_eq!(verify_signature(&key, b"test", signature, ("kit", "1"), 0), Ok(()));
    assert!(verify_signature(&key, b"Test", signature, ("kit", "1"), 0).is_err());
}

#[test]
fn rules_forbid_before_anything_is_installed() {
    let rules = InstallationRules::parse(
        "allowed-sources = ['oci://ghcr.io/acme', 'https://example.com/p/']\nminimum-age-days = 3\n\
         blocked-names = ['evil']\nblocked-digests = ['sha256:AB']\nrevoked-keys = ['K2']\n\
         [[signed]]\nsource = 'oci://ghcr.io/acme'\nkeys = ['K1', 'K2']\n",
    )
    .unwrap();
    let digests = ["cd".to_owned()];
    let good = InstallationCandidate {
        source: "oci://ghcr.io/acme/kit:1",
        origin: None,
        name: "kit",
        digests: &digests,
        signer: Some("K1"),
        published: Some(0),
        now: 3 * 86_400,
    };
    assert_eq!(rules.check(&good), Ok(()));
    let blocked = ["blake3:ee".to_owned(), "ab".to_owned()];
    let cases = [
        (
            InstallationCandidate { source: "oci://ghcr.io/acme-evil/kit:1", ..good },
            RuleViolation::Source("oci://ghcr.io/acme-evil/kit:1".to_owned()),
        ),
        (
            InstallationCandidate { source: "https://example.com/px", ..good },
            RuleViolation::Source("https://example.com/px".to_owned()),
        ),
        (
            InstallationCandidate { source: "/home/me/kit.wasm", ..good },
            RuleViolation::Source("/home/me/kit.wasm".to_owned()),
        ),
        (InstallationCandidate { name: "Evil", ..good }, RuleViolation::Name("Evil".to_owned())),
        (InstallationCandidate { digests: &blocked, ..good }, RuleViolation::Digest("ab".to_owned())),
        (InstallationCandidate { signer: Some("K2"), ..good }, RuleViolation::Revoked("K2".to_owned())),
        (InstallationCandidate { signer: None, ..good }, RuleViolation::Signer("oci://ghcr.io/acme".to_owned())),
        (InstallationCandidate { signer: Some("K3"), ..good }, RuleViolation::Signer("oci://ghcr.io/acme".to_owned())),
        (InstallationCandidate { now: 86_400, ..good }, RuleViolation::Age(3)),
        (InstallationCandidate { published: None, ..good }, RuleViolation::Age(3)),
        (InstallationCandidate { published: Some(9 * 86_400), ..good }, RuleViolation::Age(3)),
    ];
    for (candidate, violation) in cases {
        assert_eq!(rules.check(&candidate), Err(violation));
    }
    assert!(InstallationRules::parse("unknown = 1").is_err());
    // The name in an index, or another spelling of the host, leads to the same place.
    let signed = InstallationRules::parse("[[signed]]\nsource = 'oci://ghcr.io/acme'\nkeys = ['K1']\n").unwrap();
    let indexed = InstallationCandidate { source: "kit", origin: Some(good.source), signer: None, ..good };
    assert_eq!(signed.check(&indexed), Err(RuleViolation::Signer("oci://ghcr.io/acme".to_owned())));
    assert_eq!(OciReference::parse("GHCR.io/acme/kit").unwrap().host, "ghcr.io");
    let open = InstallationCandidate { source: "/a", signer: None, published: None, ..good };
    assert_eq!(InstallationRules::default().check(&open), Ok(()));
}
