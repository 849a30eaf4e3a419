//! wasmtime without the runtime, with the same settings.

use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, InstancePre, Linker, ResourceTable, ResourceType};
use wasmtime::{
    Config, Enabled, Engine, Instance, InstanceAllocationStrategy, Module, PoolingAllocationConfig, Store, TypedFunc,
};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "tool-plugin",
        exports: { default: async },
    });
}

use bindings::exports::pinion::plugin::tools::GuestIndices;
use bindings::pinion::plugin::types::{CallContext, Content};

pub(crate) struct State {
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

pub(crate) struct Bare {
    engine: Engine,
    pre: InstancePre<State>,
    indices: GuestIndices,
    workspace: std::path::PathBuf,
}

fn config() -> Config {
    let mut config = Config::new();
    config.consume_fuel(true).epoch_interruption(true);
    config
}

impl Bare {
    pub(crate) fn new(file: &Path, workspace: &Path) -> Self {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_component_instances(128).total_stacks(128);
        if PoolingAllocationConfig::is_pagemap_scan_available() {
            pool.pagemap_scan(Enabled::Yes)
                .linear_memory_keep_resident(1024 * 1024)
                .table_keep_resident(64 * 1024)
                .async_stack_keep_resident(64 * 1024);
        }
        let mut config = config();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        Self::on(&Engine::new(&config).unwrap(), file, workspace)
    }

    /// Another component on the engine of this one.
    #[allow(dead_code, reason = "for one of the benches that include this file")]
    pub(crate) fn beside(&self, file: &Path) -> Self {
        Self::on(&self.engine, file, &self.workspace)
    }

    fn on(engine: &Engine, file: &Path, workspace: &Path) -> Self {
        let engine = engine.clone();
        let component = Component::from_file(&engine, file).unwrap();
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
        trap_functions_of_the_host(&mut linker, &component);
        let pre = linker.instantiate_pre(&component).unwrap();
        Self { indices: GuestIndices::new(&pre).unwrap(), engine, pre, workspace: workspace.to_owned() }
    }

    pub(crate) async fn call(&self, arguments: &str) {
        drop(self.call_and_keep(arguments).await);
    }

    /// Sends the answer before the thread drops the store.
    pub(crate) async fn call_on_blocking_thread(self: Arc<Self>, arguments: String) {
        let (answer, answered) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let store = Handle::current().block_on(self.call_and_keep(&arguments));
            answer.send(()).unwrap();
            drop(store);
        });
        answered.await.unwrap();
    }

    pub(crate) async fn call_and_keep(&self, arguments: &str) -> Store<State> {
        let (store, text) = self.tool_call("echo", arguments).await;
        assert_eq!(text.len(), 1000);
        store
    }

    /// Calls a tool on a fresh instance. Returns its store and the first text of the result.
    pub(crate) async fn tool_call(&self, tool: &str, arguments: &str) -> (Store<State>, String) {
        let mut builder = WasiCtxBuilder::new();
        builder.allow_blocking_current_thread(true);
        builder.preopened_dir(&self.workspace, self.workspace.to_string_lossy(), FsPerms::ReadOnly).unwrap();
        let mut store = Store::new(&self.engine, State { wasi: builder.build(), table: ResourceTable::new() });
        store.set_fuel(20_000_000_000).unwrap();
        store.set_epoch_deadline(1_000_000);
        store.epoch_deadline_async_yield_and_update(1);
        let instance = self.pre.instantiate_async(&mut store).await.unwrap();
        let guest = self.indices.load(&mut store, &instance).unwrap();
        let context = CallContext {
            call_id: "c".into(),
            session_id: "s".into(),
            workspace: self.workspace.to_string_lossy().into_owned(),
            deadline_ms: 120_000,
            extra: None,
        };
        let output = guest.call_call_tool(&mut store, &context, tool, &arguments.to_owned()).await.unwrap().unwrap();
        let Some(Content::Text(text)) = output.content.into_iter().next() else { panic!("no text") };
        (store, text)
    }
}

/// Defines the functions of the host as traps. WASI's functions are in the linker, possibly in another patch version.
fn trap_functions_of_the_host(linker: &mut Linker<State>, component: &Component) {
    let engine = component.engine();
    let imports = component.component_type();
    for (name, import) in imports.imports(engine).filter(|(name, _)| name.starts_with("pinion:")) {
        let ComponentItem::ComponentInstance(interface) = import.ty else { continue };
        let mut linked = linker.instance(name).unwrap();
        for (name, export) in interface.exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) => {
                    linked.func_new(name, |_, _, _, _| wasmtime::bail!("the bench has no host")).unwrap();
                }
                ComponentItem::Resource(_) => {
                    linked.resource(name, ResourceType::host::<()>(), |_, _| Ok(())).unwrap();
                }
                _ => {}
            }
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Metering {
    Epoch,
    FuelAndEpoch,
}

/// A loop, with or without fuel.
pub(crate) struct Spin {
    store: Store<()>,
    spin: TypedFunc<u64, u64>,
    metering: Metering,
}

impl Spin {
    pub(crate) fn new(metering: Metering) -> Self {
        let mut config = config();
        config.consume_fuel(matches!(metering, Metering::FuelAndEpoch));
        let engine = Engine::new(&config).unwrap();
        let module = Module::new(&engine, spin_module()).unwrap();
        let mut store = Store::new(&engine, ());
        store.set_epoch_deadline(1_000_000);
        if matches!(metering, Metering::FuelAndEpoch) {
            store.set_fuel(u64::MAX).unwrap();
        }
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let spin = instance.get_typed_func(&mut store, "spin").unwrap();
        Self { store, spin, metering }
    }

    pub(crate) fn run(&mut self, rounds: u64) -> u64 {
        if matches!(self.metering, Metering::FuelAndEpoch) {
            self.store.set_fuel(u64::MAX).unwrap();
        }
        self.spin.call(&mut self.store, rounds).unwrap()
    }
}

/// `spin(n)` repeats `x = x * 6364136223846793005 + n` until `n` is 0, and returns `x`.
fn spin_module() -> Vec<u8> {
    use wasm_encoder::{
        BlockType, CodeSection, ExportKind, ExportSection, Function, FunctionSection, Module, TypeSection, ValType,
    };
    let mut types = TypeSection::new();
    types.ty().function([ValType::I64], [ValType::I64]);
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut exports = ExportSection::new();
    exports.export("spin", ExportKind::Func, 0);
    let mut body = Function::new([(1, ValType::I64)]);
    body.instructions()
        .loop_(BlockType::Empty)
        .local_get(1)
        .i64_const(6_364_136_223_846_793_005)
        .i64_mul()
        .local_get(0)
        .i64_add()
        .local_set(1)
        .local_get(0)
        .i64_const(1)
        .i64_sub()
        .local_tee(0)
        .i64_const(0)
        .i64_ne()
        .br_if(0)
        .end()
        .local_get(1)
        .end();
    let mut code = CodeSection::new();
    code.function(&body);
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&exports).section(&code);
    module.finish()
}
