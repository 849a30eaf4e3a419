//! The text that the user sees before a package is installed.

use super::fetch::{Fetched, fetch};
use pinion_app::failure::Result;
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, json, left, print, text, written};
use pinion_packages::{Package, PackagedHook, shown_source};
use pinion_plugin_runtime::Inspection;
use serde_json::{Value, json};
use std::path::Path;

/// Prints the content of a package.
pub(super) async fn inspect(base: &Base, source: &str, as_json: bool) -> Result<()> {
    let fetched = fetch(base, source).await?;
    match as_json {
        true => written(json(&described(&fetched, None))),
        false => print(&about(&fetched, None)),
    }
}

/// Describes a package, its origin and everything that it asks for.
pub(super) fn about(fetched: &Fetched, signer: Option<&str>) -> Text {
    let package = &fetched.package;
    let mut text = text!("{} {}\n", package.name, package.version);
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            text.line(text!("  {} {}", left(name, 10), Text::block(value)));
        }
    };
    line("about", &package.description);
    line("source", &shown_source(&fetched.source));
    line("digest", fetched.source_digest.as_deref().unwrap_or(&package.digest));
    line("signed by", signer.unwrap_or("no author: the digest alone identifies it"));
    for component in &package.components {
        let facts = &component.facts;
        line("plugin", &format!("{} {}", facts.name, facts.version));
        let asks = if facts.asks.is_empty() { "nothing".to_owned() } else { facts.asks.join(" ") };
        line("asks for", &asks);
        let open: Vec<&str> = facts.asks.iter().filter(|ask| !facts.grants.contains(ask)).map(String::as_str).collect();
        if !open.is_empty() {
            line("", &format!("not granted by this: {}", open.join(" ")));
        }
        line("imports", &imports(package, &component.path).join(" "));
    }
    for (name, value) in content(package) {
        line(name, &value);
    }
    package.hooks.iter().for_each(|hook| line("left out", &format!("hook {}", hook.summary())));
    if !package.hooks.is_empty() {
        line("", "hooks of other programs never run: only components have hooks");
    }
    package.notices.iter().for_each(|notice| line("left out", notice));
    text
}

/// A part of a package that is not a component.
pub(super) struct PackagePart {
    /// The kind in the words of lists, such as `skill`.
    pub(super) kind: &'static str,
    /// Its name.
    pub(super) name: String,
    /// True if it runs or connects once the user allows it.
    pub(super) runs: bool,
    /// The program or address of a server; empty for texts.
    pub(super) place: String,
    /// The bytes that a later version is compared with.
    pub(super) content: Vec<u8>,
}

impl PackagePart {
    /// Returns the kind and the name in a sentence.
    pub(super) fn label(&self) -> String {
        format!("{} `{}`", self.kind, self.name)
    }

    /// Returns the place after a colon, if there is one.
    pub(super) fn about(&self) -> String {
        if self.place.is_empty() { String::new() } else { format!(": {}", self.place) }
    }
}

/// Returns the parts of a package that are not components.
pub(super) fn parts(package: &Package) -> Vec<PackagePart> {
    let mut parts = Vec::new();
    let named = |prefix: &str, end: &str| -> Vec<String> {
        let paths =
            package.files.paths().filter_map(|path| path.strip_prefix(prefix)?.strip_prefix('/')?.strip_suffix(end));
        paths.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    };
    if package.has_skills {
        parts.extend(named("skills", "/SKILL.md").into_iter().map(|name| {
            // A skill is a directory, whose files its text refers to.
            let directory = format!("skills/{name}/");
            let files = package.files.iter().filter(|(path, _)| path.starts_with(&directory));
            let content = files.flat_map(|(path, bytes)| [path.as_bytes(), b"\0", bytes, b"\0"].concat()).collect();
            PackagePart { kind: "skill", name, runs: false, place: String::new(), content }
        }));
    }
    for directory in &package.prompts {
        parts.extend(named(directory, ".md").into_iter().map(|name| {
            let content = package.files.get(&format!("{directory}/{name}.md")).unwrap_or_default().to_owned();
            PackagePart { kind: "prompt", name, runs: false, place: String::new(), content }
        }));
    }
    parts.extend(package.servers.iter().map(|server| PackagePart {
        kind: "MCP server",
        name: format!("{}:{}", package.name, server.name),
        runs: true,
        place: server.summary(),
        content: format!("{} {}", server.entry, server.variables.join(" ")).into_bytes(),
    }));
    parts
}

/// Lists the parts of a package that are not components.
pub(super) fn content(package: &Package) -> Vec<(&'static str, String)> {
    let parts = parts(package);
    let mut content = Vec::new();
    for (kind, plural) in [("skill", "skills"), ("prompt", "prompts")] {
        let names: Vec<&str> = parts.iter().filter(|part| part.kind == kind).map(|part| part.name.as_str()).collect();
        if !names.is_empty() {
            content.push((plural, names.join(" ")));
        }
    }
    let servers = parts.iter().filter(|part| part.runs);
    content.extend(servers.map(|part| (part.kind, format!("{}{}", part.name, part.about()))));
    content
}

/// Returns whether an import says something about a component: not the common ones of WASI, which every toolchain adds.
pub(super) fn is_notable(import: &str) -> bool {
    let notable = ["wasi:http/", "wasi:keyvalue/", "wasi:sockets/"];
    !import.starts_with("wasi:") || notable.iter().any(|begin| import.starts_with(begin))
}

/// Returns the interfaces that a component imports, without WASI's common ones.
pub(super) fn imports(package: &Package, path: &str) -> Vec<String> {
    let inspection = package.files.get(path).and_then(|bytes| Inspection::from_file(bytes, Path::new(path)).ok());
    let imports = inspection.map(|inspection| inspection.imports).unwrap_or_default();
    imports.into_iter().filter(|import| is_notable(import)).collect()
}

/// Describes a package for programs.
pub(super) fn described(fetched: &Fetched, signer: Option<&str>) -> Value {
    let package = &fetched.package;
    let components = package.components.iter().map(|component| {
        json!({
            "name": component.facts.name,
            "version": component.facts.version,
            "digest": component.digest,
            "asks": component.facts.asks,
            "imports": imports(package, &component.path),
        })
    });
    let content = content(package).into_iter().map(|(kind, value)| json!({ "kind": kind, "names": value }));
    json!({
        "name": package.name,
        "version": package.version,
        "description": package.description,
        "source": shown_source(&fetched.source),
        "source_digest": fetched.source_digest,
        "digest": package.digest,
        "signer": signer,
        "plugins": components.collect::<Vec<_>>(),
        "content": content.collect::<Vec<_>>(),
        "hooks_left_out": package.hooks.iter().map(PackagedHook::summary).collect::<Vec<_>>(),
        "left_out": package.notices,
    })
}
