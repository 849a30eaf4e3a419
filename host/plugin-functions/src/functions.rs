//! The exported functions of a compiled component, and the tools that they become.

use crate::documentation::{FunctionTexts, key, short_name};
use crate::schema::SchemaBuilder;
use crate::signature::signature;
use pinion_plugin_offers::names::{FoldedNames, MAX_NAME_BYTES};
use pinion_plugin_offers::offer::{Description, OfferedTool};
use pinion_plugin_offers::wording;
use pinion_protocol::Authority;
use pinion_protocol::text::clip;
use serde_json::Value;
use std::collections::BTreeMap;
use wasmtime::component::types::{ComponentFunc, ComponentItem, Type};
use wasmtime::component::{Component, ComponentExportIndex};

/// Tools of one component; the rest is skipped.
const MAX_TOOLS: usize = 128;
/// Bytes of all texts and schemas together; the rest is skipped. Less than the bound on lists, which counts more.
const MAX_TOTAL_BYTES: usize = 100 * 1024;
/// Bytes of a long name that are kept before a hash of the whole.
const KEPT_NAME_BYTES: usize = 55;
/// Characters of a label.
const MAX_LABEL: usize = 80;

/// The functions of a plain component that are tools.
pub struct PlainFunctions {
    functions: Vec<PlainFunction>,
    /// Phrases for the functions that are no tools, with the reasons.
    skipped: Vec<String>,
}

/// A function that is a tool.
pub struct PlainFunction {
    tool: String,
    interface: Option<String>,
    name: String,
    schema: Value,
    /// The function in the component.
    pub export: ComponentExportIndex,
    /// The names and types of the parameters.
    pub parameters: Vec<(String, Type)>,
    /// The type of the result.
    pub result: Option<Type>,
}

/// An exported function.
struct ExportedFunction {
    interface: Option<String>,
    name: String,
    ty: ComponentFunc,
    export: ComponentExportIndex,
}

impl PlainFunctions {
    /// Finds the functions, and names the tools after them and `plugin`.
    pub fn from_component(component: &Component, plugin: &str) -> Self {
        let mut found = Self { functions: Vec::new(), skipped: Vec::new() };
        let exported = exported_functions(component);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        exported.iter().for_each(|function| *counts.entry(&function.name).or_default() += 1);
        let (mut names, mut bytes) = (FoldedNames::default(), 0);
        for function in &exported {
            let is_unique = counts.get(function.name.as_str()) == Some(&1);
            let tool = tool_name(plugin, function.interface.as_deref().filter(|_| !is_unique), &function.name);
            let checked = PlainFunction::checked(function, tool).and_then(|function| {
                let size = function.size();
                match () {
                    () if found.functions.len() == MAX_TOOLS => {
                        Err(format!("is one of more than {MAX_TOOLS} functions"))
                    }
                    () if bytes + size > MAX_TOTAL_BYTES => Err("does not fit into the size of all tools".to_owned()),
                    () if !names.insert(&function.tool) => Err("has a name that looks like another one's".to_owned()),
                    () => {
                        bytes += size;
                        Ok(function)
                    }
                }
            });
            match checked {
                Ok(function) => found.functions.push(function),
                Err(problem) if found.skipped.len() < MAX_TOOLS => {
                    found.skipped.push(format!("function `{}` {problem}", function.path()));
                }
                Err(_) => {}
            }
        }
        found
    }

    /// Finds the function of a tool.
    pub fn by_tool(&self, tool: &str) -> Option<&PlainFunction> {
        self.functions.iter().find(|function| function.tool == tool)
    }

    /// Describes the tools, all with these effects.
    ///
    /// # Errors
    /// The component has no usable function; the text names the reasons.
    pub fn description(&self, texts: &FunctionTexts, effects: Authority) -> Result<Description, String> {
        let mut left = MAX_TOTAL_BYTES.saturating_sub(self.functions.iter().map(PlainFunction::size).sum());
        let tool = |function: &PlainFunction| {
            let tool = OfferedTool { effects, ..function.described(texts, left) };
            left = left.saturating_sub(tool.description.len());
            tool
        };
        let tools: Vec<OfferedTool> = self.functions.iter().map(tool).collect();
        if tools.is_empty() {
            let skipped = self.skipped.join("; ");
            let why = if skipped.is_empty() { "it exports no functions" } else { &skipped };
            return Err(format!("the component has no function that can be a tool: {why}"));
        }
        Ok(Description { tools, skipped: self.skipped.clone(), ..Description::default() })
    }
}

impl PlainFunction {
    fn checked(function: &ExportedFunction, tool: String) -> Result<Self, String> {
        let ExportedFunction { interface, name, ty, export } = function;
        if name.starts_with('[') {
            return Err("belongs to a resource".to_owned());
        }
        if ty.async_() {
            return Err("is asynchronous".to_owned());
        }
        let parameters: Vec<(String, Type)> = ty.params().map(|(name, ty)| (name.to_owned(), ty)).collect();
        let result = ty.results().next();
        let mut types = SchemaBuilder::new();
        let schema = types.object(parameters.iter().map(|(name, ty)| (name.as_str(), ty.clone())))?;
        result.iter().try_for_each(|ty| types.check(ty))?;
        let checked = Self {
            tool,
            interface: interface.clone(),
            name: name.clone(),
            schema,
            export: *export,
            parameters,
            result,
        };
        wording::check_tool(&checked.described(&FunctionTexts::new(), usize::MAX))?;
        wording::check_schema(&checked.schema)?;
        pinion_protocol::check_schema(&checked.schema).map_err(|error| format!("cannot be used: {error}"))?;
        Ok(checked)
    }

    /// Its interface, and its name there.
    pub fn full_name(&self) -> (Option<&str>, &str) {
        (self.interface.as_deref(), &self.name)
    }

    /// Bytes of the parts that no lack of room shortens.
    fn size(&self) -> usize {
        self.schema.to_string().len() + self.tool.len()
    }

    /// Describes the tool. Without room for them, its doc comment and its signature are left out.
    fn described(&self, texts: &FunctionTexts, room: usize) -> OfferedTool {
        let place = match &self.interface {
            Some(interface) => format!("`{}` of `{interface}`", self.name),
            None => format!("`{}`", self.name),
        };
        let signature = signature(&self.name, &self.parameters, self.result.as_ref());
        let text = texts.get(&key(self.interface.as_deref(), &self.name)).cloned();
        let text = text.unwrap_or_else(|| format!("Calls the function {place}."));
        let long = format!("{text}\n\n{signature}");
        OfferedTool {
            name: self.tool.clone(),
            label: clip(&self.name, MAX_LABEL),
            description: if long.len() > room { "Calls a function.".to_owned() } else { long },
            input_schema: self.schema.to_string(),
            ..OfferedTool::default()
        }
    }
}

impl ExportedFunction {
    fn path(&self) -> String {
        let path = self.interface.as_ref().map_or(String::new(), |interface| format!("{interface}#"));
        clip(&format!("{path}{}", self.name), 200)
    }
}

fn exported_functions(component: &Component) -> Vec<ExportedFunction> {
    let (ty, engine) = (component.component_type(), component.engine());
    let mut functions = Vec::new();
    for (name, export) in ty.exports(engine) {
        let Some(index) = component.get_export_index(None, name) else { continue };
        match export.ty {
            ComponentItem::ComponentFunc(ty) if !starts_interpreter(None, name, &ty) => {
                functions.push(ExportedFunction { interface: None, name: name.to_owned(), ty, export: index });
            }
            ComponentItem::ComponentInstance(instance) if is_plain_interface(name) => {
                for (function, export) in instance.exports(engine) {
                    let ComponentItem::ComponentFunc(ty) = export.ty else { continue };
                    if starts_interpreter(Some(name), function, &ty) {
                        continue;
                    }
                    let Some(export) = component.get_export_index(Some(&index), function) else { continue };
                    let (interface, name) = (Some(name.to_owned()), function.to_owned());
                    functions.push(ExportedFunction { interface, name, ty, export });
                }
            }
            _ => {}
        }
    }
    functions
}

/// Returns whether an exported instance may contain functions that become tools.
pub fn is_plain_interface(name: &str) -> bool {
    !["wasi:", "pinion:plugin/", "pinion:hooks/"].iter().any(|package| name.starts_with(package))
}

/// Returns whether `componentize-py` or `componentize-qjs` added a function, which it called itself when it made the
/// component.
fn starts_interpreter(interface: Option<&str>, name: &str, ty: &ComponentFunc) -> bool {
    let first: Vec<&str> = ty.params().map(|(name, _)| name).take(2).collect();
    name == "init"
        && match interface {
            Some(interface) => interface == "exports" && first.first() == Some(&"app-name"),
            None => first == ["shim", "script"],
        }
}

/// Names a tool `PLUGIN_FUNCTION`, or like the plugin if both are equal; with the interface if several have the function.
fn tool_name(plugin: &str, interface: Option<&str>, function: &str) -> String {
    let name = match interface {
        Some(interface) => format!("{plugin}_{}_{function}", short_name(interface)),
        None if plugin == function => plugin.to_owned(),
        None => format!("{plugin}_{function}"),
    };
    if name.len() <= MAX_NAME_BYTES {
        return name;
    }
    let digest = blake3::hash(name.as_bytes()).to_hex();
    format!("{}_{}", &name[..name.floor_char_boundary(KEPT_NAME_BYTES)], &digest[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_named_after_plugin_and_function() {
        assert_eq!(tool_name("calc", None, "add"), "calc_add");
        assert_eq!(tool_name("add", None, "add"), "add");
        assert_eq!(tool_name("calc", Some("a:b/ops@1.0.0"), "add"), "calc_ops_add");
        let long = tool_name("calc", None, &"x".repeat(80));
        assert!(long.len() == 64 && long != tool_name("calc", None, &"x".repeat(81)), "{long}");
    }
}
