//! Manifests, marketplaces, indexes, references and manifests of registries.

use crate::support::{PlainReader, component, files, package};
use pinion_packages::{
    ArtifactContent, Marketplace, MarketplaceSource, OciManifest, OciReference, Package, PackageError, PackageFiles,
    PackageIndex, PackageSource, artifact_manifest, compare_versions, is_on_this_machine, parse_strict, sha256_hex,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const AGENT: &str =
    r#"{"$schema":"https://agent-plugins.org/schemas/1.0.0/plugin.schema.json","name":"kit","version":"2.0.0"}"#;

#[test]
fn package_has_components_skills_prompts_and_servers() {
    let package = package(&[
        ("plugin.json", AGENT),
        ("dev.pinion/greet.wasm", "greet 1.0.0 files=read"),
        ("other.wasm", "stray 1.0.0"),
        ("skills/review/SKILL.md", "text"),
        ("prompts/fix.md", "text"),
        ("commands/go.md", "text"),
        ("mcp.json", r#"{"mcpServers":{"a":{"type":"stdio","command":"a"}}}"#),
        ("hooks/hooks.json", "{}"),
    ]);
    assert_eq!((package.name.as_str(), package.version.as_str()), ("kit", "2.0.0"));
    let components: Vec<&str> = package.components.iter().map(|component| component.facts.name.as_str()).collect();
    assert_eq!(components, ["greet"]);
    assert!(package.has_skills && package.prompts == ["prompts", "commands"]);
    assert_eq!(package.servers.len(), 1);
    assert!(package.notices.is_empty() && package.hooks.is_empty());
}

#[test]
fn plugins_of_claude_and_codex_are_packages() {
    for path in [".claude-plugin/plugin.json", ".codex-plugin/plugin.json", ".plugin/plugin.json"] {
        let package = package(&[
            (path, r#"{"name":"kit","version":"1.0"}"#),
            ("commands/go.md", "text"),
            ("agents/a.md", "text"),
        ]);
        assert_eq!((package.name.as_str(), package.prompts.len(), package.notices.len()), ("kit", 1, 1));
    }
}

#[test]
fn manifests_that_can_be_read_in_two_ways_are_refused() {
    let skill = ("skills/a/SKILL.md", "text");
    let schema = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
    let refused: &[&[(&str, &str)]] = &[
        &[("plugin.json", AGENT), (".claude-plugin/plugin.json", r#"{"name":"other"}"#), skill],
        &[("plugin.json", AGENT), (".claude-plugin/plugin.json", r#"{"name":"kit","version":"9"}"#), skill],
        &[
            (".claude-plugin/plugin.json", r#"{"name":"kit"}"#),
            (".codex-plugin/plugin.json", r#"{"name":"kot"}"#),
            skill,
        ],
        &[("plugin.json", r#"{"$schema":"x","name":"kit","name":"other"}"#), skill],
        &[("plugin.json", "[]"), skill],
        &[("plugin.json", "{"), skill],
        &[(".claude-plugin/plugin.json", r#"{"version":"1"}"#), skill],
        &[(".claude-plugin/plugin.json", r#"{"name":"../kit"}"#), skill],
        &[(".claude-plugin/plugin.json", r#"{"name":7}"#), skill],
        &[("plugin.json", r#"{"$schema":"https://example.com","name":"kit"}"#), skill],
    ];
    for entries in refused {
        let read = Package::read(files(entries), "x", &PlainReader);
        assert!(matches!(read, Err(PackageError::Manifest { .. })), "{entries:?}: {read:?}");
    }
    for wrong in
        [r#""author":"me""#, r#""author":{"phone":"1"}"#, r#""keywords":[1]"#, r#""version":2"#, r#""license":null"#]
    {
        let text = format!(r#"{{"$schema":"{schema}","name":"kit",{wrong}}}"#);
        assert!(Package::read(files(&[("plugin.json", &text), skill]), "x", &PlainReader).is_err(), "{wrong}");
    }
    for name in ["Kit", "a--b", "a..b", "-a", "a_b", ""] {
        let text = format!(r#"{{"$schema":"{schema}","name":"{name}"}}"#);
        assert!(Package::read(files(&[("plugin.json", &text), skill]), "x", &PlainReader).is_err(), "{name}");
    }
    let unknown = format!(r#"{{"$schema":"{schema}","name":"kit","new":1,"extensions":[]}}"#);
    assert_eq!(package(&[("plugin.json", &unknown), skill]).notices.len(), 2);
}

#[test]
fn packages_without_use_or_with_foreign_names_are_refused() {
    let read = |entries: &[(&str, &str)]| Package::read(files(entries), "fallback", &PlainReader);
    assert!(matches!(read(&[("README.md", "x")]), Err(PackageError::Empty)));
    assert!(matches!(read(&[("a.wasm", "shell 1")]), Err(PackageError::ReservedName { .. })));
    assert!(matches!(read(&[("a.wasm", "she1l 1")]), Err(PackageError::ReservedName { .. })));
    assert!(matches!(read(&[("a.wasm", "greet 1"), ("b.wasm", "Greet 1")]), Err(PackageError::SameName { .. })));
    let core = PackageFiles::single("a.wasm", b"not wasm".to_vec()).unwrap();
    assert!(matches!(Package::read(core, "x", &PlainReader), Err(PackageError::Component { .. })));
}

#[test]
fn digest_covers_names_and_contents() {
    let digest = |entries: &[(&str, &str)]| files(entries).digest();
    let one = digest(&[("a", "bc"), ("d", "")]);
    for other in [
        digest(&[("a", "bc")]),
        digest(&[("a", "b"), ("d", "c")]),
        digest(&[("ab", "c"), ("d", "")]),
        digest(&[("a", "bc"), ("e", "")]),
    ] {
        assert_ne!(one, other);
    }
    assert_eq!(one, digest(&[("d", ""), ("a", "bc")]));
}

#[test]
fn marketplace_entries_lead_to_directories_and_archives() {
    let digest = "a".repeat(64);
    let text = json!({ "name": "m", "metadata": { "pluginRoot": "./plugins" }, "plugins": [
        { "name": "a", "source": "./a" },
        { "name": "b", "source": { "source": "local", "path": "./b" } },
        { "name": "c", "source": { "source": "archive", "url": "https://example.com/c.tar.gz", "sha256": digest } },
        { "name": "d", "source": { "source": "github", "repo": "o/r" } },
        { "name": "e", "source": "../e" },
        { "name": "f", "source": { "source": "command", "command": "curl" } },
        { "name": "g", "source": { "source": "archive", "url": "http://example.com/c.tar.gz" } },
        { "name": "h", "source": { "source": "archive", "url": "https://example.com/h", "sha256": "12" } },
        { "name": "i", "source": "./i", "policy": { "installation": "NOT_AVAILABLE" } },
        { "name": "/j", "source": "./j" },
    ]});
    let list = Marketplace::parse(text.to_string().as_bytes()).unwrap();
    let names: Vec<&str> = list.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!((names, list.notices.len()), (vec!["a", "b", "c"], 7));
    assert_eq!(list.entry("a").unwrap().source, MarketplaceSource::Directory("plugins/a".to_owned()));
    assert_eq!(list.entry("b").unwrap().source, MarketplaceSource::Directory("b".to_owned()));
    let twice = r#"{"name":"m","plugins":[{"name":"a","source":"./a"},{"name":"A","source":"./b"}]}"#;
    assert!(Marketplace::parse(twice.as_bytes()).is_err());
}

#[test]
fn sources_are_https_or_on_this_machine() {
    let parse = |text: &str| PackageSource::parse(text, Path::new("/w"));
    assert_eq!(parse("a.wasm"), Ok(PackageSource::Path("/w/a.wasm".into())));
    assert_eq!(parse("./kit"), Ok(PackageSource::Path("/w/./kit".into())));
    assert_eq!(parse("kit@1.0"), Ok(PackageSource::Indexed("kit".to_owned(), Some("1.0".to_owned()))));
    assert!(matches!(parse("https://example.com/a.zip"), Ok(PackageSource::Web(_))));
    assert!(matches!(parse("http://127.0.0.1:8/a.zip"), Ok(PackageSource::Web(_))));
    assert!(matches!(parse("oci://localhost:5000/a/b:1"), Ok(PackageSource::Oci(_))));
    assert!(matches!(parse("https://example.com/marketplace.json#a"), Ok(PackageSource::Marketplace(..))));
    assert!(parse("http://example.com/marketplace.json#a").is_err());
    assert!(is_on_this_machine("http://127.0.0.1:1/a") && !is_on_this_machine("https://example.com/a"));
    assert!(is_on_this_machine("oci://127.0.0.1:5000/a:1") && is_on_this_machine("oci://[::1]:5000/a"));
    assert!(!is_on_this_machine("oci://ghcr.io/acme/kit:1"));
    for text in [
        "http://example.com/a",
        "ftp://example.com/a",
        "file:///a",
        "https://u:p@example.com/a",
        "a\nb",
        "",
        "oci://a",
        "oci://h/A:1",
        "oci://h/a:b c",
        "oci://h/a@sha256:12",
        "oci://u@h/a:1",
        "oci://h/../a",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn versions_are_compared_by_their_numbers() {
    let ascending = ["0.9", "1.0-rc.9", "1.0-rc.10", "1.0", "v1.9", "v2.0", "10.0"];
    for pair in ascending.windows(2) {
        assert!(compare_versions(pair[0], pair[1]).is_lt(), "{pair:?}");
    }
    assert!(compare_versions("v1.2", "1.2+build").is_eq());
}

#[test]
fn registry_that_sends_other_content_is_refused() {
    let content = component("greet 1.0.0");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let (imports, exports) = (names(&["wasi:io/poll@0.2.0"]), names(&["pinion:plugin/tools@0.1.0"]));
    let layer = ArtifactContent::Component { bytes: &content, imports: &imports, exports: &exports };
    let (manifest, config) = artifact_manifest(layer, "1.0.0", Some("signature"));
    let text = manifest.to_string();
    assert_eq!(artifact_manifest(layer, "1.0.0", Some("signature")), (manifest.clone(), config.clone()));
    let about: Value = serde_json::from_slice(&config).unwrap();
    // `wkg` reads no config without a time, and its format requires the world of a component.
    assert!(about["created"].is_string() && about["component"]["exports"][0] == "pinion:plugin/tools@0.1.0", "{about}");
    assert_eq!(manifest["config"]["digest"], format!("sha256:{}", sha256_hex(&config)));
    let (archive, empty) = artifact_manifest(ArtifactContent::Archive(&content), "1.0.0", None);
    assert_eq!((empty.as_slice(), archive["artifactType"].is_string()), (b"{}".as_slice(), true));
    assert!(OciManifest::parse(archive.to_string().as_bytes(), &OciReference::parse("h/a:1").unwrap()).is_ok());
    let digest = sha256_hex(text.as_bytes());
    let pinned = OciReference::parse(&format!("h/a:1@sha256:{digest}")).unwrap();
    let parsed = OciManifest::parse(text.as_bytes(), &pinned).unwrap();
    assert!(parsed.check_layer(&content).is_ok() && parsed.signature.as_deref() == Some("signature"));
    assert!(parsed.check_layer(b"other").is_err() && parsed.check_layer(&content[1..]).is_err());
    let other = OciReference::parse(&format!("h/a:1@sha256:{}", "0".repeat(64))).unwrap();
    assert!(OciManifest::parse(text.as_bytes(), &other).is_err());
    let tagged = OciReference::parse("h/a:1").unwrap();
    let layer = manifest["layers"][0].clone();
    for (member, value) in [
        ("schemaVersion", json!(1)),
        ("mediaType", json!("application/vnd.oci.image.index.v1+json")),
        ("layers", json!([])),
        ("layers", json!([layer, layer])),
        ("layers", json!([{ "mediaType": "text/plain", "digest": layer["digest"], "size": 1 }])),
        ("layers", json!([{ "mediaType": "application/wasm", "digest": "md5:1", "size": 1 }])),
        ("layers", json!([{ "mediaType": "application/wasm", "digest": layer["digest"] }])),
    ] {
        let mut changed = manifest.clone();
        changed[member] = value;
        assert!(OciManifest::parse(changed.to_string().as_bytes(), &tagged).is_err(), "{member}");
    }
    assert!(OciManifest::parse(br#"{"schemaVersion":2,"schemaVersion":2}"#, &tagged).is_err());
    assert_eq!(tagged.manifest(), "https://h/v2/a/manifests/1");
}

#[test]
fn index_that_is_old_expired_or_ambiguous_is_refused() {
    let entry = |name: &str, version: &str| json!({ "name": name, "version": version, "description": "Says hello", "source": "oci://h/a:1", "sha256": "a".repeat(64), "published": 5 });
    let index = |entries: serde_json::Value| {
        json!({ "version": 1, "generated": 10, "expires": 20, "packages": entries }).to_string()
    };
    let text = index(json!([
        entry("greet", "1.9.0"),
        entry("greet", "1.10.0"),
        entry("greet", "2.0.0-rc.1"),
        entry("greet", "1.10.0-rc.1"),
        entry("other", "1")
    ]));
    let parsed = PackageIndex::parse(text.as_bytes(), 10, 15).unwrap();
    assert_eq!(parsed.search("HELLO greet").len(), 1);
    assert_eq!(parsed.release("greet", Some("1.9.0")).unwrap().version, "1.9.0");
    assert_eq!(parsed.release("greet", None).unwrap().version, "2.0.0-rc.1");
    assert!(parsed.release("gr", None).is_none());
    assert!(PackageIndex::parse(text.as_bytes(), 11, 15).is_err());
    assert!(PackageIndex::parse(text.as_bytes(), 10, 21).is_err());
    let mut short = entry("a", "1");
    short["sha256"] = json!("12");
    let mixed = index(json!([entry("../a", "1"), short, entry("other", "1")]));
    let mixed = PackageIndex::parse(mixed.as_bytes(), 0, 15).unwrap();
    assert_eq!((mixed.entries.len(), mixed.left_out.len()), (1, 2), "{mixed:?}");
    for text in [
        r#"{"version":1,"generated":10,"generated":11,"packages":[]}"#,
        r#"{"version":2,"generated":10,"packages":[]}"#,
    ] {
        assert!(PackageIndex::parse(text.as_bytes(), 0, 15).is_err(), "{text}");
    }
}

#[test]
fn member_that_is_there_twice_is_found_at_any_depth() {
    for text in [r#"{"a":1,"a":1}"#, r#"{"a":{"b":1,"b":2}}"#, r#"[{"a":1},{"a":1,"a":2}]"#, r#"{"a":1,"\u0061":2}"#] {
        assert!(parse_strict(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(
        parse_strict(br#"[{"a":1.5},{"a":null,"b":[true,-1]}]"#),
        Ok(json!([{ "a": 1.5 }, { "a": null, "b": [true, -1] }]))
    );
}
