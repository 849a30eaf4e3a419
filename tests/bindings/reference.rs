//! `plugin-sdk/REFERENCE.md` is generated from the contract. `PINION_UPDATE=1` regenerates it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use wit_parser::{
    Docs, Function, FunctionKind, Handle, Interface, InterfaceId, Package, Resolve, Stability, Type, TypeDef,
    TypeDefKind, WorldItem,
};

const FILE: &str = "plugin-sdk/REFERENCE.md";

#[test]
fn reference_matches_the_contract() {
    let expected = Reference::read(&root().join("wit")).text();
    let file = root().join(FILE);
    if std::env::var_os("PINION_UPDATE").is_some() {
        fs::write(&file, &expected).unwrap();
    }
    let found = fs::read_to_string(file).unwrap_or_default();
    assert!(found == expected, "`{FILE}` is out of date: run `plugins/build.sh`");
}

#[test]
fn every_import_says_whether_it_needs_a_grant() {
    let reference = Reference::read(&root().join("wit"));
    for (name, interface) in reference.interfaces() {
        if reference.side(interface.0) == "import" {
            let docs = text(&interface.1.docs);
            assert!(docs.contains("Needs no grant") || !reference.grant(&docs).is_empty(), "`{name}` names no grant");
        }
    }
}

#[test]
fn every_link_of_the_reference_leads_to_a_heading() {
    let text = Reference::read(&root().join("wit")).text();
    let headings: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches(['#', ' '])))
        .collect();
    let links: Vec<&str> = text.split("](#").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert!(links.len() > 100, "{} links", links.len());
    for link in links {
        assert!(headings.iter().any(|heading| heading == link), "no heading for `#{link}`");
    }
}

/// The contract as Markdown: one section for each interface, in the order of their names.
struct Reference {
    resolve: Resolve,
    package: wit_parser::PackageId,
}

impl Reference {
    fn read(directory: &Path) -> Self {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_path(directory).unwrap();
        Self { resolve, package }
    }

    fn package(&self) -> &Package {
        &self.resolve.packages[self.package]
    }

    fn interfaces(&self) -> impl Iterator<Item = (&str, (InterfaceId, &Interface))> {
        let mut interfaces: Vec<_> = self.package().interfaces.iter().collect();
        interfaces.sort();
        interfaces.into_iter().map(|(name, id)| (name.as_str(), (*id, &self.resolve.interfaces[*id])))
    }

    /// Returns whether plugins import or export an interface. One without functions only has types.
    fn side(&self, interface: InterfaceId) -> &'static str {
        let world = &self.resolve.worlds[self.package().worlds["plugin"]];
        let is = |item: &WorldItem| matches!(item, WorldItem::Interface { id, .. } if *id == interface);
        match (self.resolve.interfaces[interface].functions.is_empty(), world.exports.values().any(is)) {
            (true, _) => "types",
            (_, true) => "export",
            (_, false) => "import",
        }
    }

    /// Returns the grant and the effects that the text of an interface demands; empty if it demands nothing.
    fn grant(&self, docs: &str) -> String {
        let quoted = |before: &str| {
            let rest = docs.split(&format!("{before} `")).nth(1)?;
            rest.split('`').next().map(|name| format!("`{name}`"))
        };
        if let Some(other) = quoted("See").filter(|_| docs.contains("for what applies to all hooks")) {
            let interface = self.package().interfaces[other.trim_matches('`')];
            return self.grant(&text(&self.resolve.interfaces[interface].docs));
        }
        // All of them are in one sentence.
        let sentence = docs.split("the effect ").nth(1).and_then(|rest| rest.split_inclusive('.').next());
        let effects: Vec<String> =
            sentence.unwrap_or_default().split('`').skip(1).step_by(2).map(|name| format!("`{name}`")).collect();
        match quoted("the grant") {
            Some(grant) if !effects.is_empty() => format!("{grant}, and {} in tools", effects.join(" and ")),
            grant => grant.unwrap_or_default(),
        }
    }

    fn text(&self) -> String {
        let mut out = format!(
            "# Reference of `{}`\n\nEvery interface between plugins and Pinion, with its functions and types. Generated from \
             [`wit/`](../wit) by `plugins/build.sh`; the [author's guide](../docs/plugins/start.md) shows their use. A plugin calls the \
             imports and implements the exports. The user grants, and a tool declares, what the column *needs* \
             names.\n\n| interface | side | needs | since |\n|---|---|---|---|\n",
            self.package().name
        );
        for (name, (id, interface)) in self.interfaces() {
            let needs = self.grant(&text(&interface.docs));
            let since = since(&interface.stability);
            writeln!(out, "| [`{name}`](#{}) | {} | {needs} | {since} |", anchor(name), self.side(id)).unwrap();
        }
        out.push_str("\n## Worlds\n\n");
        for (name, id) in &self.package().worlds {
            writeln!(out, "- `{name}`: {}", one_line(&self.resolve.worlds[*id].docs)).unwrap();
        }
        for (name, (id, interface)) in self.interfaces() {
            let (side, since) = (self.side(id), since(&interface.stability));
            let needs = self.grant(&text(&interface.docs));
            let needs = if needs.is_empty() { needs } else { format!(" · needs {needs}") };
            write!(out, "\n## {name}\n\n*{side} · since {since}{needs}*\n\n{}\n", text(&interface.docs)).unwrap();
            interface.types.values().for_each(|id| self.definition(&mut out, name, &self.resolve.types[*id]));
            let free = interface.functions.values().filter(|function| function.kind.resource().is_none());
            free.for_each(|function| self.function(&mut out, name, function));
        }
        out
    }

    fn definition(&self, out: &mut String, interface: &str, definition: &TypeDef) {
        let (Some(name), kind) = (&definition.name, &definition.kind) else { return };
        if let TypeDefKind::Type(Type::Id(id)) = kind
            && self.resolve.types[*id].name.as_ref() == Some(name)
        {
            return; // Comes from another interface with `use`.
        }
        write!(out, "\n### {interface}.{name}\n\n{}", kind.as_str()).unwrap();
        if let TypeDefKind::Type(alias) = kind {
            write!(out, " = {}", self.name_of(alias)).unwrap();
        }
        let docs = text(&definition.docs);
        writeln!(out, "{}", if docs.is_empty() { String::new() } else { format!(": {docs}") }).unwrap();
        let cell = |docs: &Docs| one_line(docs).replace('|', "\\|");
        let row = |name: &str, ty: Option<&Type>, docs: &Docs| {
            let ty = ty.map(|ty| self.name_of(ty)).unwrap_or_default();
            format!("| `{name}` | {ty} | {} |\n", cell(docs))
        };
        let rows: Vec<String> = match kind {
            TypeDefKind::Record(record) => record.fields.iter().map(|f| row(&f.name, Some(&f.ty), &f.docs)).collect(),
            TypeDefKind::Variant(variant) => {
                variant.cases.iter().map(|c| row(&c.name, c.ty.as_ref(), &c.docs)).collect()
            }
            TypeDefKind::Enum(cases) => {
                cases.cases.iter().map(|case| format!("| `{}` | {} |\n", case.name, cell(&case.docs))).collect()
            }
            TypeDefKind::Flags(flags) => {
                flags.flags.iter().map(|flag| format!("| `{}` | {} |\n", flag.name, cell(&flag.docs))).collect()
            }
            _ => Vec::new(),
        };
        if !rows.is_empty() {
            let head = match kind {
                TypeDefKind::Enum(_) | TypeDefKind::Flags(_) => "| | |\n|---|---|",
                _ => "| | type | |\n|---|---|---|",
            };
            write!(out, "\n{head}\n{}", rows.concat()).unwrap();
        }
        if let TypeDefKind::Resource = kind {
            let all = self.resolve.interfaces.iter().flat_map(|(_, interface)| interface.functions.values());
            let own =
                |f: &&Function| f.kind.resource().is_some_and(|id| std::ptr::eq(&self.resolve.types[id], definition));
            all.filter(own).for_each(|function| self.function(out, &format!("{interface}.{name}"), function));
        }
    }

    fn function(&self, out: &mut String, of: &str, function: &Function) {
        let is_method = matches!(function.kind, FunctionKind::Method(_) | FunctionKind::AsyncMethod(_));
        let params = function.params.iter().skip(usize::from(is_method));
        let params: Vec<String> =
            params.map(|param| format!("`{}`: {}", param.name, self.name_of(&param.ty))).collect();
        let returns = function.result.as_ref().map(|ty| format!(" → {}", self.name_of(ty))).unwrap_or_default();
        write!(out, "\n### {of}.{}\n\nfunction ({}){returns}", function.item_name(), params.join(", ")).unwrap();
        let docs = text(&function.docs);
        writeln!(out, "{}", if docs.is_empty() { String::new() } else { format!("\n\n{docs}") }).unwrap();
    }

    /// Returns a type as Markdown, with links to those that the contract names.
    fn name_of(&self, ty: &Type) -> String {
        let Type::Id(id) = ty else { return format!("{ty:?}").to_lowercase() };
        let definition = &self.resolve.types[*id];
        let or_nothing = |ty: &Option<Type>| ty.as_ref().map_or("\\_".to_owned(), |ty| self.name_of(ty));
        match (&definition.name, &definition.kind) {
            // A name that `use` brings in belongs to another interface.
            (Some(name), TypeDefKind::Type(Type::Id(used)))
                if self.resolve.types[*used].name.as_ref() == Some(name) =>
            {
                self.name_of(&Type::Id(*used))
            }
            (Some(name), _) => {
                let wit_parser::TypeOwner::Interface(owner) = definition.owner else { return name.clone() };
                let owner = self.resolve.interfaces[owner].name.as_deref().unwrap_or_default();
                format!("[{name}](#{})", anchor(&format!("{owner}.{name}")))
            }
            (None, TypeDefKind::List(item)) => format!("list\\<{}>", self.name_of(item)),
            (None, TypeDefKind::Option(item)) => format!("option\\<{}>", self.name_of(item)),
            (None, TypeDefKind::Result(result)) => {
                format!("result\\<{}, {}>", or_nothing(&result.ok), or_nothing(&result.err))
            }
            (None, TypeDefKind::Tuple(tuple)) => {
                let types: Vec<String> = tuple.types.iter().map(|ty| self.name_of(ty)).collect();
                format!("tuple\\<{}>", types.join(", "))
            }
            (None, TypeDefKind::Handle(Handle::Own(id) | Handle::Borrow(id))) => self.name_of(&Type::Id(*id)),
            (None, kind) => panic!("the reference knows no {}", kind.as_str()),
        }
    }
}

/// Returns the anchor that renderers of Markdown give a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == ' ');
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn text(docs: &Docs) -> String {
    docs.contents.clone().unwrap_or_default().trim().to_owned()
}

fn one_line(docs: &Docs) -> String {
    text(docs).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn since(stability: &Stability) -> String {
    match stability {
        Stability::Stable { since, .. } => since.to_string(),
        _ => String::new(),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
