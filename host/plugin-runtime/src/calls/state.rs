//! The host's data for one instance: its WASI view, its limits and its account.

use crate::capability::authority::CallAuthority;
use crate::capability::http::wasi::WasiRequests;
use crate::capability::mcp::port::McpServers;
use crate::capability::model::UsedTokens;
use crate::capability::table::Accounts;
use crate::host_info::{GenerationSettings, HostInfo, LoadedPlugins};
use pinion_egress::Client;
use pinion_plugin_journal::recorder::Recorder;
use pinion_plugin_journal::wasi::RecordedStore;
use pinion_plugin_limits::{Deadline, Exceeded, FaultKind, Limiter, Limits, Share};
use pinion_plugin_programs::{ChildProgram, Confinement};
use pinion_plugin_storage::SharedStores;
use pinion_plugin_streams::handles::Handles;
use pinion_plugin_streams::listing::ListedEntries;
use pinion_plugin_streams::stdio::GuestStderr;
use pinion_protocol::{Content, Ledger, Services, SubAgents, ToolProgress};
use pinion_workspace::ReadFiles;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;
use wasmtime::CallHook;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

/// Bytes of randomness that one WASI call may request; more is a trap.
const MAX_RANDOM_BYTES: u64 = 1024 * 1024;

/// Bytes of memory of an instance that is kept for a later call.
const MAX_IDLE_MEMORY: u64 = 16 * 1024 * 1024;
/// Resources of WASI and of the host, such as streams and timers, that an instance may keep for a later call.
const MAX_IDLE_RESOURCES: usize = 64;

/// The data of a store.
pub(crate) struct State {
    pub(crate) plugin: Arc<str>,
    pub(crate) call: CallState,
    pub(crate) account: CallAccount,
    pub(crate) limiter: Limiter,
    pub(crate) info: Arc<dyn HostInfo>,
    pub(crate) plugins: Weak<dyn LoadedPlugins>,
    pub(crate) wasi: WasiCtx,
    pub(crate) table: ResourceTable,
    pub(crate) wasi_http: WasiRequests,
    /// Open files and directories.
    pub(crate) handles: Handles,
    /// Programs that the call talks to.
    pub(crate) children: ChildPrograms,
    /// Set when guests see the granted directories: this call may use them, or later ones on the same instance may.
    pub(crate) shows_directories: bool,
    /// Entries in open directory streams.
    pub(crate) listed: Arc<ListedEntries>,
    pub(crate) read_files: Arc<ReadFiles>,
    pub(crate) used_tokens: Arc<UsedTokens>,
    pub(crate) settings: GenerationSettings,
    /// The values that plugins stored.
    pub(crate) stores: Arc<SharedStores>,
    pub(crate) client: Client,
    /// Confines the programs of the call.
    pub(crate) confinement: Option<Arc<dyn Confinement>>,
    pub(crate) mcp: Arc<dyn McpServers>,
    pub(crate) stderr: GuestStderr,
    /// Notified when the guest would list other tools or commands.
    pub(crate) changed: Arc<Notify>,
    /// Records the calls; `None` where they are not recorded.
    pub(crate) recorder: Option<Recorder>,
    limits: Arc<Limits>,
}

/// The parts of a new instance that come from its plugin and from the host.
pub(crate) struct InstanceParts {
    pub(crate) plugin: Arc<str>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) share: Arc<Share>,
    /// Bytes of memory that all instances of the plugin may have together.
    pub(crate) total_memory: u64,
    pub(crate) info: Arc<dyn HostInfo>,
    pub(crate) read_files: Arc<ReadFiles>,
    pub(crate) used_tokens: Arc<UsedTokens>,
    pub(crate) settings: GenerationSettings,
    pub(crate) stores: Arc<SharedStores>,
    pub(crate) changed: Arc<Notify>,
    pub(crate) client: Client,
    pub(crate) confinement: Option<Arc<dyn Confinement>>,
    pub(crate) mcp: Arc<dyn McpServers>,
    /// Weak, because the registry owns instances of lifetime `session`.
    pub(crate) plugins: Weak<dyn LoadedPlugins>,
}

/// The call that runs now. An instance of lifetime `session` has many, one after the other.
pub(crate) struct CallState {
    /// The id of the session that made the call; empty for calls of the host itself.
    pub(crate) session: Arc<str>,
    pub(crate) authority: CallAuthority,
    pub(crate) deadline: Deadline,
    pub(crate) progress: Arc<dyn ToolProgress>,
    /// Starts sub-agents of the run that made the call.
    pub(crate) agents: Option<SubAgents>,
    /// The conversation that made the call; `None` for calls of the host itself.
    pub(crate) services: Option<Services>,
    /// True if it has a turn of those that may wait for other calls.
    pub(crate) may_invoke: bool,
}

/// Everything that the call has used so far and that the host counts itself.
pub(crate) struct CallAccount {
    pub(crate) host_calls: u64,
    pub(crate) capabilities: Accounts,
    pub(crate) output: u64,
    /// Bytes of log lines, which are part of the output.
    pub(crate) logged: u64,
}

impl CallAccount {
    fn new(limits: &Limits) -> Self {
        Self { host_calls: 0, capabilities: Accounts::open(limits), output: 0, logged: 0 }
    }
}

impl State {
    pub(crate) fn new(from: InstanceParts, call: CallState) -> Self {
        let InstanceParts {
            plugin,
            limits,
            share,
            total_memory,
            info,
            read_files,
            used_tokens,
            settings,
            stores,
            changed,
            client,
            confinement,
            mcp,
            plugins,
        } = from;
        let stderr = GuestStderr::new(plugin.clone());
        let wasi = WasiCtxBuilder::new()
            .allow_blocking_current_thread(true)
            .max_random_size(MAX_RANDOM_BYTES)
            .stdout(stderr.stdout())
            .stderr(stderr.clone())
            .build();
        let mut table = ResourceTable::new();
        table.set_max_capacity(usize::try_from(limits.handles).unwrap_or(usize::MAX));
        let limiter = Limiter::new(limits.clone(), share, total_memory);
        Self {
            plugin,
            shows_directories: call.authority.files().is_some(),
            call,
            account: CallAccount::new(&limits),
            limiter,
            info,
            plugins,
            wasi,
            table,
            wasi_http: WasiRequests::default(),
            handles: Handles::default(),
            children: ChildPrograms::default(),
            listed: Arc::default(),
            read_files,
            used_tokens,
            settings,
            stores,
            client,
            confinement,
            mcp,
            stderr,
            changed,
            recorder: None,
            limits,
        }
    }

    /// Notes that the call used an interface whose calls are not recorded.
    pub(crate) fn note_unrecorded(&self, interface: &str) {
        if let Some(recorder) = &self.recorder {
            recorder.note_unrecorded(interface);
        }
    }

    /// Begins a call on an instance that has had others.
    pub(crate) fn begin(&mut self, call: CallState) {
        self.call = call;
        self.account = CallAccount::new(&self.limits);
        self.limiter.begin();
    }

    /// Closes the requests that the guest left open, so that the ledger of the call has them.
    pub(crate) async fn end_requests(&mut self) {
        self.wasi_http.forget();
        self.account.capabilities.http.end().await;
    }

    /// Kills the programs that the call talks to. Their resources stay, so that the guest can drop them.
    pub(crate) fn end_programs(&mut self) {
        self.children.end_call(&mut self.table);
    }

    /// Ends a call on an instance that stays: closes everything that it opened, and revokes all authority until the next
    /// call.
    pub(crate) fn end(&mut self) {
        self.handles.end_call(&mut self.table);
        self.call.authority = self.call.authority.none();
        self.call.progress = Arc::new(NoProgress);
        (self.call.agents, self.call.services) = (None, None);
    }

    /// Returns whether the instance takes little, so that it may be kept for a later call.
    pub(crate) fn is_small(&mut self) -> bool {
        self.limiter.memory() <= MAX_IDLE_MEMORY && self.table.iter_mut().count() <= MAX_IDLE_RESOURCES
    }

    /// Revokes the call's authority for code that runs before it. Returns the authority, for [`State::entitle`].
    pub(crate) fn disentitle(&mut self) -> CallAuthority {
        let none = self.call.authority.none();
        std::mem::replace(&mut self.call.authority, none)
    }

    /// Gives the call its authority, and closes everything that was opened before.
    pub(crate) fn entitle(&mut self, authority: CallAuthority) {
        self.handles.end_call(&mut self.table);
        self.call.authority = authority;
    }

    /// Counts one call of the host. wasmtime calls this for every import, including WASI's.
    pub(crate) fn on_call(&mut self, hook: CallHook) -> Result<(), Exceeded> {
        if matches!(hook, CallHook::CallingHost) {
            self.account.host_calls += 1;
            if self.account.host_calls > self.limits.host_calls {
                return Err(Exceeded::HostCalls);
            }
        }
        Ok(())
    }

    /// Counts output of any kind.
    pub(crate) fn spend_output(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.account.output = self.account.output.saturating_add(bytes as u64);
        let wanted = self.account.output;
        if wanted > self.limits.output_bytes { Err(Exceeded::Output { wanted }) } else { Ok(()) }
    }

    /// Explains an error of a call that was refused memory, which interpreters turn into an error of their language.
    /// `None` if nothing was refused.
    pub(crate) fn why_no_memory(&self) -> Option<String> {
        let (limiter, limit) = (&self.limiter, self.limits.memory_bytes);
        let total = limiter.refused_total.map(|limit| FaultKind::TotalMemory { limit });
        let kind = total.or_else(|| limiter.refused_memory.map(|wanted| FaultKind::Memory { wanted, limit }))?;
        Some(format!("{:#}", kind.for_plugin(&self.plugin)))
    }

    /// The call's ledger, without the counts of the store and the clock.
    pub(crate) fn ledger(&self) -> Ledger {
        let mut ledger = Ledger {
            plugin: self.plugin.to_string(),
            granted: self.call.authority.granted(),
            memory: self.limiter.peak_memory,
            host_calls: self.account.host_calls,
            output: self.account.output,
            ..Ledger::default()
        };
        self.account.capabilities.enter(&mut ledger);
        ledger
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl RecordedStore for State {
    fn recorder(&self) -> Option<Recorder> {
        self.recorder.clone()
    }
}

/// Drops all progress, for calls without a listener.
pub(crate) struct NoProgress;

impl ToolProgress for NoProgress {
    fn report(&self, _message: String) {}
    fn update(&self, _partial: Vec<Content>) {}
}

/// Programs that a call may talk to at once. The contract names this number.
pub(crate) const MAX_CHILDREN: usize = 8;

/// The programs that the current call started, by the numbers of their resources.
#[derive(Default)]
pub(crate) struct ChildPrograms(Vec<u32>);

impl ChildPrograms {
    /// Returns whether the call may start another program.
    pub(crate) fn has_room(&self, table: &ResourceTable) -> bool {
        let runs = |number: &&u32| {
            let child = table.get(&Resource::<ChildProgram>::new_borrow(**number));
            child.is_ok_and(ChildProgram::is_running)
        };
        self.0.iter().filter(runs).count() < MAX_CHILDREN
    }

    pub(crate) fn add(&mut self, number: u32) {
        self.0.push(number);
    }

    pub(crate) fn remove(&mut self, number: u32) {
        self.0.retain(|other| *other != number);
    }

    /// Kills all programs. Their resources stay until the guest drops them.
    fn end_call(&mut self, table: &mut ResourceTable) {
        for number in self.0.drain(..) {
            if let Ok(child) = table.get_mut(&Resource::<ChildProgram>::new_borrow(number)) {
                child.end_with_call();
            }
        }
    }
}
