//! Repeating calls from a journal, without a host: each import returns the recorded value.
//!
//! A component is linked by its own imports: for each, a function of the same name compares its arguments with the
//! next recorded import and returns the recorded result, decoded by its type. So nothing that a component does here
//! reaches files, programs or the network.

mod describe;
pub mod value;

pub use self::describe::RecordedToolCall;
use self::value::{ReplayedResource, decode, encode_all, print, print_next};
use crate::linker::unversioned;
use pinion_journal::difference::{CallDifference, ReplayVerdict};
use pinion_journal::event::{CallOutcome, CallRecord, INSTANTIATION, ImportRecord, JournalValue};
use pinion_plugin_engine::{Engine, EngineError};
use pinion_plugin_limits::EngineLimits;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::timeout;
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, Func, Instance, Linker, ResourceType, Type, Val};
use wasmtime::{AsContextMut as _, Store, StoreContextMut, StoreLimits, StoreLimitsBuilder};

/// Maximum bytes of each memory, whatever a journal says.
const MAX_MEMORY: u64 = 4 << 30;
/// Maximum number of memories of a component.
const MAX_MEMORIES: usize = 16;
/// Time that a call may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Repeats recorded calls.
pub struct CallReplayer {
    engine: Engine,
}

/// The component could not be used.
#[derive(Debug, thiserror::Error)]
#[error("the component cannot be loaded")]
pub struct ReplayError(#[source] Box<dyn std::error::Error + Send + Sync>);

/// The settings of one replay.
#[derive(Debug, Clone, Copy)]
pub struct ReplaySettings {
    /// The limit on the memory of the instance in bytes.
    pub memory_limit: u64,
    /// Whether the fuel is compared, which only the recorded component uses up equally.
    pub compares_fuel: bool,
}

/// A component that is ready to repeat calls.
pub struct ReplayableComponent {
    component: Component,
    linker: Linker<Replayed>,
}

/// The data of a store.
struct Replayed {
    limits: StoreLimits,
    imports: VecDeque<ImportRecord>,
    /// Imports of the call that were repeated.
    done: usize,
    difference: Option<CallDifference>,
    /// An import that the journal does not have in full.
    missing: Option<String>,
}

impl CallReplayer {
    /// Starts an engine with the default limits of a run.
    ///
    /// # Errors
    /// The engine does not start on this machine.
    pub fn start() -> Result<Self, EngineError> {
        Ok(Self { engine: Engine::start(EngineLimits::default())? })
    }

    /// Compiles a component.
    ///
    /// # Errors
    /// The bytes are no component, or its imports cannot be linked.
    pub fn load(&self, bytes: &[u8]) -> Result<ReplayableComponent, ReplayError> {
        let failed = |error: wasmtime::Error| ReplayError(error.into());
        let component = self.engine.compile(bytes).map_err(failed)?;
        let linker = replaying_linker(self.engine.wasmtime(), &component).map_err(failed)?;
        Ok(ReplayableComponent { component, linker })
    }

    /// Prints the arguments of a call, one text for each.
    pub fn arguments(&self, component: &ReplayableComponent, call: &CallRecord) -> Vec<String> {
        let Some(function) = self.function(component, &call.export) else { return Vec::new() };
        let (mut store, types) = (self.store(u64::MAX), function.params().map(|(_, of)| of));
        let Some(mut bytes) = call.arguments.bytes() else { return Vec::new() };
        let store = &mut store.as_context_mut();
        types.map(|of| print_next(&mut bytes, &of, store)).collect()
    }

    /// Finds the type of an export by its name in a journal.
    fn function(&self, component: &ReplayableComponent, export: &str) -> Option<ComponentFunc> {
        let (of, engine) = (component.component.component_type(), self.engine.wasmtime());
        let (interface, function) = export.split_once('#').map_or((export, None), |(name, of)| (name, Some(of)));
        let found = of.exports(engine).find(|(name, _)| unversioned(name) == interface).map(|(_, item)| item.ty);
        let found = match (found?, function) {
            (ComponentItem::ComponentInstance(exports), Some(function)) => exports.get_export(engine, function)?.ty,
            (found, None) => found,
            _ => return None,
        };
        if let ComponentItem::ComponentFunc(function) = found { Some(function) } else { None }
    }

    fn store(&self, memory_limit: u64) -> Store<Replayed> {
        // The recorded limit, which a bundle of a stranger may have made up.
        let memory = usize::try_from(memory_limit.min(MAX_MEMORY)).unwrap_or(usize::MAX);
        let limits = StoreLimitsBuilder::new().memory_size(memory).memories(MAX_MEMORIES).build();
        let data = Replayed { limits, imports: VecDeque::new(), done: 0, difference: None, missing: None };
        let mut store = Store::new(self.engine.wasmtime(), data);
        store.limiter(|data| &mut data.limits);
        store.set_hostcall_fuel(usize::MAX);
        store.epoch_deadline_async_yield_and_update(1);
        store.set_epoch_deadline(1);
        store
    }

    /// Repeats the calls of one instance, in order. After a call that went another way, the later ones are skipped.
    pub async fn replay(
        &self,
        component: &ReplayableComponent,
        calls: &[&CallRecord],
        settings: ReplaySettings,
    ) -> Vec<ReplayVerdict> {
        let _running = self.engine.running();
        let mut store = self.store(settings.memory_limit);
        let (mut instance, mut verdicts, mut broken) = (None, Vec::new(), None);
        for call in calls {
            let verdict = match &broken {
                Some(reason) => ReplayVerdict::Skipped(String::clone(reason)),
                None => {
                    let repeated = repeat(component, &mut store, &mut instance, call, settings);
                    let late = || ReplayVerdict::Skipped(format!("it takes more than {} s", PATIENCE.as_secs()));
                    timeout(PATIENCE, repeated).await.unwrap_or_else(|_| late())
                }
            };
            match &verdict {
                ReplayVerdict::Same | ReplayVerdict::Differs(CallDifference::Fuel { .. }) => {}
                ReplayVerdict::Differs(CallDifference::Outcome { .. }) if instance.is_some() => {}
                ReplayVerdict::Differs(_) => {
                    broken = broken.or_else(|| Some("an earlier call of its instance went another way".to_owned()));
                }
                ReplayVerdict::Skipped(reason) => broken = broken.or_else(|| Some(reason.clone())),
            }
            verdicts.push(verdict);
        }
        verdicts
    }
}

/// Repeats one call.
async fn repeat(
    component: &ReplayableComponent,
    store: &mut Store<Replayed>,
    instance: &mut Option<Instance>,
    call: &CallRecord,
    settings: ReplaySettings,
) -> ReplayVerdict {
    let skipped = |reason: &str| ReplayVerdict::Skipped(reason.to_owned());
    if let Some(interface) = &call.unrecorded {
        return skipped(&format!("it uses `{interface}`, which the journal does not record"));
    }
    if call.outcome == CallOutcome::Stopped {
        return skipped("the host stopped it");
    }
    let data = store.data_mut();
    (data.imports, data.done) = (call.imports.iter().cloned().collect(), 0);
    (data.difference, data.missing) = (None, None);
    if store.set_fuel(call.fuel_limit).is_err() {
        return skipped("the engine does not count fuel");
    }
    let (result, types) = if call.export == INSTANTIATION {
        let created = component.linker.instantiate_async(&mut *store, &component.component).await;
        (created.map(|created| *instance = Some(created)).map(|()| Vec::new()), Vec::new())
    } else {
        let Some(instance) = *instance else { return skipped("the beginning of its instance is in another journal") };
        let Some(function) = export(store, component, instance, &call.export) else {
            return skipped(&format!("the component does not export `{}`", call.export));
        };
        let Some(arguments) = call.arguments.bytes() else { return skipped(absence(&call.arguments)) };
        let types: Vec<Type> = function.ty(&*store).results().collect();
        (invoke(store, function, arguments).await, types)
    };
    let used = call.fuel_limit.saturating_sub(store.get_fuel().unwrap_or(0));
    let fuel = (call.fuel, used);
    let store = &mut store.as_context_mut();
    if let Some(reason) = store.data_mut().missing.take() {
        return ReplayVerdict::Skipped(reason);
    }
    if let Some(difference) = store.data_mut().difference.take() {
        return ReplayVerdict::Differs(difference);
    }
    if let Some(recorded) = store.data_mut().imports.pop_front() {
        let (position, name) = (store.data().done + 1, recorded.name);
        return ReplayVerdict::Differs(CallDifference::Import { position, recorded: Some(name), repeated: None });
    }
    match compare_results(store, call, result, &types) {
        Some(difference) => ReplayVerdict::Differs(difference),
        None if settings.compares_fuel && fuel.0 != fuel.1 => {
            ReplayVerdict::Differs(CallDifference::Fuel { recorded: fuel.0, repeated: fuel.1 })
        }
        None => ReplayVerdict::Same,
    }
}

/// Returns the reason why the journal does not have the bytes of a value.
fn absence(value: &JournalValue) -> &'static str {
    match value {
        JournalValue::Referring { .. } | JournalValue::Lost(_) => {
            "the journal refers to a text that the session's file does not have any more"
        }
        JournalValue::Repeated(_) => "the journal refers to a value that it has lost",
        JournalValue::Digest(..) | JournalValue::Bytes(_) => {
            "the journal has only digests; record with `journal = \"on\"`"
        }
    }
}

/// Calls an export with encoded arguments. Returns the encoded results.
async fn invoke(store: &mut Store<Replayed>, function: Func, mut arguments: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let of = function.ty(&*store);
    let types: Vec<Type> = of.params().map(|(_, of)| of).collect();
    let mut parameters = Vec::new();
    for of in &types {
        parameters.push(decode(&mut arguments, of, &mut store.as_context_mut())?);
    }
    let results: Vec<Type> = of.results().collect();
    let mut returned = vec![Val::Bool(false); results.len()];
    function.call_async(&mut *store, &parameters, &mut returned).await?;
    Ok(encode_all(&returned, results.iter(), &mut store.as_context_mut())?.0)
}

/// Finds an export by its name in a journal: with its interface without a version, or alone for a plain component's
/// function outside interfaces.
fn export(
    store: &mut Store<Replayed>,
    component: &ReplayableComponent,
    instance: Instance,
    name: &str,
) -> Option<Func> {
    let Some((interface, function)) = name.split_once('#') else {
        let index = instance.get_export_index(&mut *store, None, name)?;
        return instance.get_func(&mut *store, index);
    };
    let engine = store.engine().clone();
    let exports = component.component.component_type();
    let full = exports.exports(&engine).map(|(name, _)| name.to_owned()).find(|name| unversioned(name) == interface)?;
    let index = instance.get_export_index(&mut *store, None, &full)?;
    let index = instance.get_export_index(&mut *store, Some(&index), function)?;
    instance.get_func(&mut *store, index)
}

fn compare_results(
    store: &mut StoreContextMut<'_, Replayed>,
    call: &CallRecord,
    result: wasmtime::Result<Vec<u8>>,
    types: &[Type],
) -> Option<CallDifference> {
    let (recorded, repeated) = match (&call.outcome, result) {
        (CallOutcome::Returned(recorded), Ok(repeated)) if recorded.is(&repeated) => return None,
        // The texts have addresses of the code, which depend on the machine.
        (CallOutcome::Trapped(_), Err(_)) => return None,
        (recorded, Ok(repeated)) => (print_outcome(recorded, types, store), print(Some(&repeated), types, store)),
        (recorded, Err(error)) => (print_outcome(recorded, types, store), format!("trap: {error:#}")),
    };
    Some(CallDifference::Outcome { recorded, repeated })
}

fn print_outcome(outcome: &CallOutcome, types: &[Type], store: &mut StoreContextMut<'_, Replayed>) -> String {
    match outcome {
        CallOutcome::Returned(value) => print(value.bytes(), types, store),
        CallOutcome::Trapped(message) => format!("trap: {message}"),
        CallOutcome::Stopped => "(stopped)".to_owned(),
    }
}

/// Links all imports of a component.
fn replaying_linker(engine: &wasmtime::Engine, component: &Component) -> wasmtime::Result<Linker<Replayed>> {
    let mut linker = Linker::new(engine);
    for (interface, item) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(instance) = item.ty else { continue };
        let mut linked = linker.instance(interface)?;
        for (name, item) in instance.exports(engine) {
            match item.ty {
                ComponentItem::ComponentFunc(_) => {
                    let import = format!("{}#{name}", unversioned(interface));
                    linked.func_new(name, move |store, of, arguments, results| {
                        repeat_import(store, &import, &of, arguments, results)
                    })?;
                }
                ComponentItem::Resource(_) => {
                    linked.resource(name, ResourceType::host::<ReplayedResource>(), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    Ok(linker)
}

/// Compares an import with the recorded one and returns its result.
fn repeat_import(
    mut store: StoreContextMut<'_, Replayed>,
    name: &str,
    of: &ComponentFunc,
    arguments: &[Val],
    results: &mut [Val],
) -> wasmtime::Result<()> {
    let types: Vec<Type> = of.params().map(|(_, of)| of).collect();
    let encoded = encode_all(arguments, types.iter(), &mut store)?.0;
    let recorded = store.data_mut().imports.pop_front();
    store.data_mut().done += 1;
    let position = store.data().done;
    let recorded = match recorded {
        Some(recorded) if recorded.name == name && recorded.arguments.is(&encoded) => recorded,
        other => {
            let repeated = format!("{name}({})", print(Some(&encoded), &types, &mut store));
            let recorded = other.map(|other| match other.name == name {
                true => format!("{name}({})", print(other.arguments.bytes(), &types, &mut store)),
                false => other.name,
            });
            let repeated = Some(repeated);
            store.data_mut().difference = Some(CallDifference::Import { position, recorded, repeated });
            return Err(wasmtime::Error::msg("the call differs from the recorded one"));
        }
    };
    match recorded.outcome {
        CallOutcome::Returned(JournalValue::Bytes(bytes)) => {
            let mut bytes = bytes.as_slice();
            for (result, of) in results.iter_mut().zip(of.results()) {
                *result = decode(&mut bytes, &of, &mut store)?;
            }
            Ok(())
        }
        CallOutcome::Returned(value) => {
            let reason = absence(&value);
            store.data_mut().missing = Some(reason.to_owned());
            Err(wasmtime::Error::msg(reason))
        }
        CallOutcome::Trapped(message) => Err(wasmtime::Error::msg(message)),
        CallOutcome::Stopped => Err(wasmtime::Error::msg("the host stopped the recorded call here")),
    }
}
