//! Components that a test describes: their manifest, tools, commands, hooks and imports.
//!
//! The core module has the lists of tools and commands in its memory, in the layout of the canonical ABI, and traps in
//! all other functions.

use serde_json::{Value, json};
use std::path::Path;
use wasm_encoder::{
    CodeSection, ConstExpr, DataSection, EntityType, ExportKind, ExportSection, Function, FunctionSection,
    ImportSection, MemorySection, MemoryType, Module, TypeSection, ValType,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Effects in the order of their bits.
const EFFECTS: [&str; 6] = ["reads", "writes", "executes", "network", "destructive", "delegates"];
/// The first address of the lists.
const BASE: u32 = 1024;

/// A tool of a described component.
#[derive(Debug, Clone)]
pub(super) struct DescribedTool {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) schema: Value,
    pub(super) guidelines: Vec<&'static str>,
    pub(super) effects: Vec<&'static str>,
}

/// A component before it is encoded.
#[derive(Debug, Clone)]
pub(super) struct DescribedComponent {
    pub(super) manifest: Value,
    pub(super) tools: Vec<DescribedTool>,
    pub(super) commands: Vec<&'static str>,
    /// Hooks: `before-prompt`, `session-events`.
    pub(super) hooks: Vec<&'static str>,
    /// Imports among the keys of `IMPORTS`.
    pub(super) imports: Vec<&'static str>,
}

/// Functions to import: the interface, the function, and its core parameters and results.
const IMPORTS: &[(&str, &str, &[ValType], &[ValType])] = &[
    ("pinion:plugin/log@0.1.0", "log", &[ValType::I32; 3], &[]),
    ("pinion:plugin/storage@0.1.0", "remove", &[ValType::I32; 4], &[]),
    ("wasi:clocks/monotonic-clock@0.2.0", "now", &[], &[ValType::I64]),
    ("wasi:clocks/monotonic-clock@0.2.1", "now", &[], &[ValType::I64]),
];
const WASI: &str = "interface monotonic-clock { type instant = u64; now: func() -> instant; }";

impl DescribedTool {
    /// Returns a tool that reads a file.
    pub(super) fn new(name: &'static str) -> Self {
        let schema = json!({
            "type": "object",
            "properties": { "path": { "type": "string", "description": "The file" } },
        });
        Self { name, description: "Looks at a file.", schema, guidelines: Vec::new(), effects: vec!["reads"] }
    }
}

impl DescribedComponent {
    /// Returns a component with the tool `look`.
    pub(super) fn new() -> Self {
        let manifest = json!({
            "manifest": 1, "api": "0.1.0", "name": "pair", "version": "0.1.0", "description": "One of two",
            "capabilities": { "files": "read" },
        });
        let (commands, hooks, imports) = (Vec::new(), Vec::new(), Vec::new());
        Self { manifest, tools: vec![DescribedTool::new("look")], commands, hooks, imports }
    }

    /// Asks for a capability.
    pub(super) fn ask(&mut self, capability: &str, value: Value) {
        self.manifest["capabilities"][capability] = value;
    }

    /// Encodes the component.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut module = self.module();
        let mut resolve = Resolve::default();
        resolve.push_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit")).unwrap();
        for version in ["0.2.0", "0.2.1"] {
            resolve.push_str("clocks.wit", &format!("package wasi:clocks@{version};\n{WASI}")).unwrap();
        }
        let imports: String = self.imports.iter().map(|import| format!("import {import};\n")).collect();
        let exports = ["tools", "commands"].into_iter().chain(self.hooks.iter().copied());
        let exports: String = exports.map(|export| format!("export pinion:plugin/{export}@0.1.0;\n")).collect();
        let world = format!("package test:pair;\nworld pair {{\n{imports}{exports}}}");
        let package = resolve.push_str("pair.wit", &world).unwrap();
        let world = resolve.select_world(&[package], Some("pair")).unwrap();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
        let mut component = ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap();
        append_section(&mut component, "pinion:manifest", self.manifest.to_string().as_bytes());
        component
    }

    fn module(&self) -> Vec<u8> {
        let mut parts = ModuleParts::default();
        for import in &self.imports {
            let (interface, name, parameters, results) =
                IMPORTS.iter().find(|(interface, ..)| interface == import).unwrap();
            parts.import(interface, name, parameters, results);
        }
        let mut memory = StaticMemory::default();
        let tools = memory.answer(self.tools.iter().map(tool_record).collect());
        let commands = memory.answer(self.commands.iter().map(|name| command_record(name)).collect());
        parts.export("cabi_realloc", 4, true, None);
        for (name, parameters, address) in [
            ("tools@0.1.0#list-tools", 0, Some(tools)),
            ("tools@0.1.0#call-tool", 14, None),
            ("commands@0.1.0#list-commands", 0, Some(commands)),
            ("commands@0.1.0#complete-argument", 4, None),
            ("commands@0.1.0#run-command", 14, None),
        ] {
            parts.export(&format!("pinion:plugin/{name}"), parameters, true, address);
        }
        for hook in &self.hooks {
            match *hook {
                "before-prompt" => parts.export("pinion:plugin/before-prompt@0.1.0#check", 12, true, None),
                _ => parts.export("pinion:plugin/session-events@0.1.0#on-events", 2, false, None),
            }
        }
        parts.finish(&memory.bytes)
    }
}

/// A member of a record: bytes of its own, a text, or a list of texts, which are elsewhere in the memory.
enum RecordMember {
    Bytes(Vec<u8>),
    Text(String),
    Texts(Vec<String>),
}

fn tool_record(tool: &DescribedTool) -> Vec<RecordMember> {
    let bit = |effect: &&str| 1_u8 << EFFECTS.iter().position(|known| known == effect).unwrap();
    let effects = tool.effects.iter().map(bit).fold(0, |all, bit| all | bit);
    let texts = tool.guidelines.iter().map(|text| (*text).to_owned()).collect();
    vec![
        RecordMember::Text(tool.name.to_owned()),
        RecordMember::Text(tool.name.to_owned()),
        RecordMember::Text(tool.description.to_owned()),
        RecordMember::Text(tool.schema.to_string()),
        RecordMember::Texts(texts),
        // Effects and execution, then `extra`, which is absent.
        RecordMember::Bytes(vec![effects, 0, 0, 0]),
        RecordMember::Bytes(vec![0; 12]),
    ]
}

fn command_record(name: &str) -> Vec<RecordMember> {
    let text = |text: &str| RecordMember::Text(text.to_owned());
    vec![text(name), text("Does something"), RecordMember::Bytes(vec![0; 24])]
}

/// The content of the memory from `BASE` on.
#[derive(Default)]
struct StaticMemory {
    bytes: Vec<u8>,
}

impl StaticMemory {
    /// Adds the `ok` result with a list of records. Returns its address.
    fn answer(&mut self, records: Vec<Vec<RecordMember>>) -> u32 {
        let count = u32::try_from(records.len()).unwrap();
        let records: Vec<Vec<u8>> = records.into_iter().map(|record| self.record(record)).collect();
        let list = self.add(&records.concat());
        self.add(&[0, list, count].map(u32::to_le_bytes).concat())
    }

    fn record(&mut self, members: Vec<RecordMember>) -> Vec<u8> {
        let mut record = Vec::new();
        for member in members {
            match member {
                RecordMember::Bytes(bytes) => record.extend(bytes),
                RecordMember::Text(text) => record.extend(self.text(&text)),
                RecordMember::Texts(texts) => {
                    let count = u32::try_from(texts.len()).unwrap();
                    let texts: Vec<u8> = texts.iter().flat_map(|text| self.text(text)).collect();
                    let list = self.add(&texts);
                    record.extend([list, count].map(u32::to_le_bytes).concat());
                }
            }
        }
        record
    }

    fn text(&mut self, text: &str) -> Vec<u8> {
        let address = self.add(text.as_bytes());
        [address, u32::try_from(text.len()).unwrap()].map(u32::to_le_bytes).concat()
    }

    /// Adds bytes at an address that is divisible by 4.
    fn add(&mut self, bytes: &[u8]) -> u32 {
        let address = BASE + u32::try_from(self.bytes.len()).unwrap();
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        address
    }
}

/// The sections of a core module.
#[derive(Default)]
struct ModuleParts {
    types: TypeSection,
    imports: ImportSection,
    functions: FunctionSection,
    exports: ExportSection,
    code: CodeSection,
    imported: u32,
}

impl ModuleParts {
    fn import(&mut self, interface: &str, name: &str, parameters: &[ValType], results: &[ValType]) {
        let kind = self.types.len();
        self.types.ty().function(parameters.iter().copied(), results.iter().copied());
        self.imports.import(interface, name, EntityType::Function(kind));
        self.imported += 1;
    }

    /// Exports a function that returns an address, or traps.
    fn export(&mut self, name: &str, parameters: usize, returns: bool, address: Option<u32>) {
        let kind = self.types.len();
        self.types.ty().function(vec![ValType::I32; parameters], vec![ValType::I32; usize::from(returns)]);
        self.exports.export(name, ExportKind::Func, self.imported + self.functions.len());
        self.functions.function(kind);
        let mut body = Function::new([]);
        match address {
            Some(address) => body.instructions().i32_const(i32::try_from(address).unwrap()).end(),
            None => body.instructions().unreachable().end(),
        };
        self.code.function(&body);
    }

    fn finish(mut self, memory: &[u8]) -> Vec<u8> {
        let mut memories = MemorySection::new();
        let kind = MemoryType { minimum: 2, maximum: None, memory64: false, shared: false, page_size_log2: None };
        memories.memory(kind);
        self.exports.export("memory", ExportKind::Memory, 0);
        let mut data = DataSection::new();
        data.active(0, &ConstExpr::i32_const(BASE.cast_signed()), memory.iter().copied());
        let mut module = Module::new();
        module.section(&self.types).section(&self.imports).section(&self.functions).section(&memories);
        module.section(&self.exports).section(&self.code).section(&data);
        module.finish()
    }
}

/// Appends a custom section.
fn append_section(component: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut body = Vec::new();
    leb128(&mut body, name.len());
    body.extend(name.as_bytes());
    body.extend(content);
    component.push(0);
    leb128(component, body.len());
    component.extend(body);
}

fn leb128(bytes: &mut Vec<u8>, mut number: usize) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}
