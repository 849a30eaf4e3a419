//! Sizes of a component: limits on the bytes that are read at all, and an estimate of the cost of compiling.
//!
//! [`Sizes`] are counted while the sections are read, before anything is compiled. [`Weight`] reads function bodies; it is
//! only used where no child process bounds a compile.

use wasmparser::{FunctionBody, Operator, Parser, Payload};

/// Levels of nested components and modules. `wasm-tools compose` nests two or three deep.
const MAX_NESTING: usize = 16;
/// Components and core modules. CPython with its extension modules has about 60.
const MAX_MODULES: u64 = 512;
/// Functions in all modules together. CPython has about 15,000, a large Go program 60,000.
const MAX_FUNCTIONS: u64 = 250_000;
/// Bytes of one function. The largest of CPython, its interpreter loop, has about 200 KB; the format allows 7.6 MB.
const MAX_BODY_BYTES: u64 = 1024 * 1024;
/// Sections, custom ones included, which some compilers write per function.
const MAX_SECTIONS: u64 = 100_000;
/// Imports and exports in all modules and components together. Each shared library of CPython has a few thousand.
const MAX_NAMES: u64 = 500_000;
/// Types in all modules and components together.
const MAX_TYPES: u64 = 250_000;
/// Imports of the component itself. This host has fewer than 100 interfaces.
const MAX_COMPONENT_IMPORTS: u64 = 1_000;

/// A component has more parts of a kind than may be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("has more than {limit} {what}, the limit of loading")]
pub struct TooManyParts {
    /// The plural noun of the parts.
    pub what: &'static str,
    /// The limit.
    pub limit: u64,
}

/// Counts the parts of a component, payload by payload.
#[derive(Debug, Default)]
pub struct Sizes {
    nesting: usize,
    modules: u64,
    functions: u64,
    sections: u64,
    names: u64,
    types: u64,
    component_imports: u64,
}

impl Sizes {
    /// The depth of the last payload.
    pub fn nesting(&self) -> usize {
        self.nesting
    }

    /// Counts a payload.
    ///
    /// # Errors
    /// The component exceeds a limit.
    pub fn count_payload(&mut self, payload: &Payload<'_>) -> Result<(), TooManyParts> {
        self.sections += 1;
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.nesting += 1;
                self.modules += 1;
            }
            Payload::End(_) => self.nesting = self.nesting.saturating_sub(1),
            Payload::FunctionSection(reader) => self.functions += u64::from(reader.count()),
            Payload::CodeSectionEntry(body) => {
                // A body counts as a function, not as a section.
                self.sections -= 1;
                check("bytes in one function", body.range().len() as u64, MAX_BODY_BYTES)?;
            }
            Payload::TypeSection(reader) => self.types += u64::from(reader.count()),
            Payload::CoreTypeSection(reader) => self.types += u64::from(reader.count()),
            Payload::ComponentTypeSection(reader) => self.types += u64::from(reader.count()),
            Payload::ImportSection(reader) => self.names += u64::from(reader.count()),
            Payload::ExportSection(reader) => self.names += u64::from(reader.count()),
            Payload::ComponentExportSection(reader) => self.names += u64::from(reader.count()),
            Payload::ComponentImportSection(reader) => {
                self.names += u64::from(reader.count());
                if self.nesting == 0 {
                    self.component_imports += u64::from(reader.count());
                }
            }
            _ => {}
        }
        check("levels of modules within each other", self.nesting as u64, MAX_NESTING as u64)?;
        check("modules", self.modules, MAX_MODULES)?;
        check("functions", self.functions, MAX_FUNCTIONS)?;
        check("sections", self.sections, MAX_SECTIONS)?;
        check("imports and exports", self.names, MAX_NAMES)?;
        check("types", self.types, MAX_TYPES)?;
        check("imports of its own", self.component_imports, MAX_COMPONENT_IMPORTS)
    }
}

fn check(what: &'static str, found: u64, limit: u64) -> Result<(), TooManyParts> {
    if found > limit { Err(TooManyParts { what, limit }) } else { Ok(()) }
}

/// An estimate of the cost of compiling, for a process that cannot stop a compile.
///
/// Measured: one function of 76 KB that keeps 10,000 values alive takes 3.4 s, and time grows with the square of that; one
/// of 9 KB with 1,000 nested loops and 200 variables takes 6.5 s and 390 MB, because Cranelift keeps a value
/// for each variable at the head of each loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weight {
    /// Bytes of function bodies.
    code: u64,
    /// The sum of the squares of the functions' bytes.
    squares: u64,
    /// The sum over all functions of variables times loops.
    loops: u64,
}

impl Weight {
    /// Estimates the cost of a component. Parts that cannot be parsed count nothing: they do not compile either.
    pub fn from_component(bytes: &[u8]) -> Self {
        let mut weight = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload {
                Ok(Payload::CodeSectionEntry(body)) => weight.add(&body),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        weight
    }

    fn add(&mut self, body: &FunctionBody<'_>) {
        let bytes = body.range().len() as u64;
        self.code += bytes;
        self.squares = self.squares.saturating_add(bytes.saturating_mul(bytes));
        self.loops = self.loops.saturating_add(loops(body).unwrap_or(0));
    }

    /// Returns whether the component compiles within seconds. The largest built-in plugin has 250 KB of code.
    pub fn is_moderate(&self) -> bool {
        self.code <= 8 * 1024 * 1024 && self.squares <= 20_000_000_000 && self.loops <= 500_000
    }
}

/// Multiplies the variables of one function by its loops.
fn loops(body: &FunctionBody<'_>) -> wasmparser::Result<u64> {
    let mut variables = 1_u64;
    for local in body.get_locals_reader()? {
        variables += u64::from(local?.0);
    }
    let mut loops = 0_u64;
    for operator in body.get_operators_reader()? {
        loops += u64::from(matches!(operator?, Operator::Loop { .. }));
    }
    Ok(variables.saturating_mul(loops))
}
