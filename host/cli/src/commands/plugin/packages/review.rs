//! The text that the user sees before a package is installed.

use super::fetch::{Fetched, fetch};
use pinion_app::failure::Result;
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, json, left, print, text, written};
use pinion_packages::{Package, shown_source};
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
    package.notices.iter().for_each(|notice| line("left out", notice));
    text
}

/// Lists the parts of a package that are not components.
pub(super) fn content(package: &Package) -> Vec<(&'static str, String)> {
    let mut content = Vec::new();
    let named = |prefix: &str, end: &str| -> Vec<String> {
        let paths =
            package.files.paths().filter_map(|path| path.strip_prefix(prefix)?.strip_prefix('/')?.strip_suffix(end));
        paths.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    };
    if package.has_skills {
        content.push(("skills", named("skills", "/SKILL.md").join(" ")));
    }
    for directory in &package.prompts {
        content.push(("prompts", named(directory, ".md").join(" ")));
    }
    if let Some(path) = &package.servers {
        let servers: Value = serde_json::from_slice(package.files.get(path).unwrap_or_default()).unwrap_or_default();
        for (name, server) in servers["mcpServers"].as_object().into_iter().flatten() {
            let place = server["command"].as_str().or_else(|| server["url"].as_str()).unwrap_or_default();
            content.push(("MCP server", format!("{name}: {place} (add it with: pinion mcp add)")));
        }
    }
    content
}

/// Returns the interfaces that a component imports, without WASI's common ones.
pub(super) fn imports(package: &Package, path: &str) -> Vec<String> {
    let inspection = package.files.get(path).and_then(|bytes| Inspection::from_file(bytes, Path::new(path)).ok());
    let imports = inspection.map(|inspection| inspection.imports).unwrap_or_default();
    let notable = ["wasi:http/", "wasi:keyvalue/", "wasi:sockets/"];
    let is_notable = |name: &String| !name.starts_with("wasi:") || notable.iter().any(|begin| name.starts_with(begin));
    imports.into_iter().filter(is_notable).collect()
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
        "left_out": package.notices,
    })
}
