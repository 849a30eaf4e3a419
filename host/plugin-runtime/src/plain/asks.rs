//! The capabilities that a plain component asks for, derived from the functions that it imports.
//!
//! Toolchains link the whole of WASI's files into programs that only print. So the interfaces alone tell little, and the
//! imported functions decide: a component that cannot open a file asks for none.

use crate::capability::table::Asks;
use pinion_protocol::Authority;
use pinion_workspace::grants::access::FileAccess;
use std::collections::BTreeSet;
use wasmparser::{
    BinaryReaderError, ComponentAlias, ComponentExternalKind, ComponentOuterAliasKind, ComponentType, ComponentTypeRef,
    InstanceTypeDeclaration, Parser, Payload,
};

/// Functions of `wasi:filesystem/types` that reach files in a directory.
const READS: [&str; 5] = ["open-at", "read-directory", "stat-at", "readlink-at", "metadata-hash-at"];
/// Functions of `wasi:filesystem/types` that change a directory.
const CHANGES_DIRECTORY: [&str; 7] = [
    "create-directory-at",
    "unlink-file-at",
    "remove-directory-at",
    "rename-at",
    "link-at",
    "symlink-at",
    "set-times-at",
];
/// Functions of `wasi:filesystem/types` that change a file that was opened.
const CHANGES_FILE: [&str; 4] = ["write-via-stream", "append-via-stream", "write", "set-size"];

/// Returns the capabilities that the imported functions need.
///
/// # Errors
/// The bytes are no component.
pub(super) fn asks(bytes: &[u8]) -> Result<Asks, BinaryReaderError> {
    let imports = ImportedFunctions::from_component(bytes)?;
    let mut asks = Asks { files: imports.file_access(), ..Asks::default() };
    for interface in &imports.interfaces {
        if interface.starts_with("wasi:http/outgoing-handler@") {
            asks.add_interface("http");
        }
        if interface.starts_with("wasi:keyvalue/") {
            asks.add_interface("storage");
        }
        if let Some(own) = interface.strip_prefix("pinion:plugin/").and_then(|own| own.split('@').next()) {
            asks.add_interface(own);
        }
    }
    Ok(asks)
}

/// Returns the effects that these asks make possible.
pub(crate) fn possible_effects(asks: &Asks) -> Authority {
    Authority {
        reads: asks.files.is_some(),
        writes: asks.files == Some(FileAccess::Write),
        executes: asks.process || asks.mcp,
        network: asks.covers_import("http") || asks.mcp,
        destructive: false,
        delegates: asks.covers_import("model") || asks.covers_import("agents"),
    }
}

/// The interfaces that a component imports, and its functions for files.
#[derive(Default)]
struct ImportedFunctions<'a> {
    interfaces: BTreeSet<&'a str>,
    /// Functions of all versions of `wasi:filesystem/types`.
    file_functions: BTreeSet<&'a str>,
    /// The component's types; for instance types, the names of their functions.
    types: Vec<Option<Vec<&'a str>>>,
}

impl<'a> ImportedFunctions<'a> {
    fn from_component(bytes: &'a [u8]) -> Result<Self, BinaryReaderError> {
        let (mut imports, mut depth) = (Self::default(), 0_usize);
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                payload if depth == 0 => imports.add_section(payload)?,
                _ => {}
            }
        }
        Ok(imports)
    }

    /// Follows the numbering of types, to which types, imports, aliases and exports add.
    fn add_section(&mut self, payload: Payload<'a>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::ComponentTypeSection(reader) => {
                for defined in reader {
                    self.types.push(match defined? {
                        ComponentType::Instance(declarations) => Some(function_names(&declarations)),
                        _ => None,
                    });
                }
            }
            Payload::ComponentImportSection(reader) => {
                for import in reader {
                    let import = import?;
                    match import.ty {
                        ComponentTypeRef::Instance(index) => {
                            let name = import.name.name;
                            self.interfaces.insert(name);
                            // Each type counts once, so that many imports of a large one cost no more than one.
                            if name.starts_with("wasi:filesystem/types@")
                                && let Some(functions) = self.types.get_mut(index as usize).and_then(Option::take)
                            {
                                self.file_functions.extend(functions);
                            }
                        }
                        ComponentTypeRef::Type(_) => self.types.push(None),
                        _ => {}
                    }
                }
            }
            Payload::ComponentAliasSection(reader) => {
                for alias in reader {
                    let is_type = match alias? {
                        ComponentAlias::InstanceExport { kind, .. } => kind == ComponentExternalKind::Type,
                        ComponentAlias::Outer { kind, .. } => kind == ComponentOuterAliasKind::Type,
                        ComponentAlias::CoreInstanceExport { .. } => false,
                    };
                    self.types.extend(is_type.then_some(None));
                }
            }
            Payload::ComponentExportSection(reader) => {
                for export in reader {
                    self.types.extend((export?.kind == ComponentExternalKind::Type).then_some(None));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The access to files that the imported functions make possible.
    fn file_access(&self) -> Option<FileAccess> {
        let methods: BTreeSet<&str> =
            self.file_functions.iter().filter_map(|name| name.strip_prefix("[method]descriptor.")).collect();
        let imports_one_of = |names: &[&str]| names.iter().any(|name| methods.contains(name));
        // Files that are open from the start are the standard streams alone.
        let is_opened = imports_one_of(&READS);
        match imports_one_of(&CHANGES_DIRECTORY) || (is_opened && imports_one_of(&CHANGES_FILE)) {
            true => Some(FileAccess::Write),
            false => is_opened.then_some(FileAccess::Read),
        }
    }
}

fn function_names<'a>(declarations: &[InstanceTypeDeclaration<'a>]) -> Vec<&'a str> {
    let name = |declaration: &InstanceTypeDeclaration<'a>| match declaration {
        InstanceTypeDeclaration::Export { name, ty: ComponentTypeRef::Func(_) } => Some(name.name),
        _ => None,
    };
    declarations.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(methods: &[&'static str]) -> Option<FileAccess> {
        let file_functions = methods.iter().copied().collect();
        ImportedFunctions { file_functions, ..ImportedFunctions::default() }.file_access()
    }

    #[test]
    fn imported_functions_decide_on_the_access_to_files() {
        assert_eq!(access(&["[method]descriptor.write-via-stream", "[method]descriptor.get-type"]), None);
        assert_eq!(access(&["[method]descriptor.open-at"]), Some(FileAccess::Read));
        assert_eq!(
            access(&["[method]descriptor.open-at", "[method]descriptor.write-via-stream"]),
            Some(FileAccess::Write)
        );
        assert_eq!(access(&["[method]descriptor.unlink-file-at"]), Some(FileAccess::Write));
    }

    #[test]
    fn effects_follow_from_the_asks() {
        let mut asks = Asks { files: Some(FileAccess::Read), ..Asks::default() };
        assert_eq!(possible_effects(&asks), Authority::READ_ONLY);
        asks.add_interface("http");
        assert!(possible_effects(&asks).network && !possible_effects(&Asks::default()).network);
    }
}
