//! A capability of the unit tests, as the smallest example: this file and its row in [`with_capabilities`](super::with_capabilities) are all of it.
//!
//! A plugin that is granted `echo` may call `pinion:plugin/echo` from tools that declare the effect `network`.

use super::definition::{Capability, GrantContext};
use pinion_plugin_limits::Limits;
use pinion_protocol::{Authority, Ledger};
use std::path::Path;

/// True if a manifest asks for it.
pub(crate) type Ask = bool;
/// True if the user grants it.
pub(crate) type Entry = bool;
/// True if it is granted.
pub(crate) type Grant = bool;

/// The capability.
pub(crate) struct Echo;

impl Capability for Echo {
    const NAME: &'static str = "echo";
    const INTERFACES: &'static [&'static str] = &["echo"];
    const EFFECT: &'static str = "network";
    const MOST: Ask = true;

    type Ask = Ask;
    type Entry = Entry;
    type Grant = Grant;
    type Held = ();
    type Account = EchoAccount;

    fn parse(value: Option<&str>, _workspace: &Path) -> Option<Entry> {
        value.is_none().then_some(true)
    }

    fn ask_for(entry: &Entry) -> Ask {
        *entry
    }

    fn resolve(entry: &Entry, _context: &GrantContext<'_>) -> Grant {
        *entry
    }

    fn held(grant: &Grant) -> Option<&()> {
        grant.then_some(&())
    }

    fn phrase(_ask: Ask) -> &'static str {
        "hear an echo"
    }

    fn needed(ask: Ask, declared: Authority) -> Ask {
        ask && declared.network
    }

    fn effects(grant: &Grant) -> Authority {
        Authority { network: *grant, ..Authority::default() }
    }
}

/// Echoes that a call has heard.
pub(crate) struct EchoAccount {
    echoes: u64,
}

impl super::definition::CapabilityAccount for EchoAccount {
    fn open(_limits: &Limits) -> Self {
        Self { echoes: 0 }
    }

    fn enter(&self, ledger: &mut Ledger) {
        ledger.counts.insert("echo".to_owned(), self.echoes);
    }
}

/// The import. A real one comes from `wit/` and its generated bindings.
pub(crate) mod import {
    use super::Echo;
    use crate::calls::state::State;
    use pinion_plugin_journal::linker::Linker;
    use wasmtime::StoreContextMut;

    pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
        linker.instance("pinion:plugin/echo@0.1.0")?.func_wrap(
            "say",
            |mut store: StoreContextMut<'_, State>, (number,): (u32,)| {
                let state = store.data_mut();
                let is_allowed = state.call.authority.check::<Echo>().is_ok();
                state.account.capabilities.echo.echoes += u64::from(is_allowed);
                Ok((is_allowed.then_some(number),))
            },
        )
    }
}

mod tests {
    use super::*;
    use crate::capability::authority::{PluginAuthority, SharedAuthority};
    use crate::capability::secrets::{NoSecrets, SecretSource};
    use crate::capability::table::{Accounts, Asks, GrantTable, Grants, capability_forms};
    use pinion_plugin_engine::Engine;
    use pinion_plugin_limits::EngineLimits;
    use pinion_workspace::grants::roots::WorkspaceRoot;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use wasm_encoder::{ComponentBuilder, ComponentTypeRef, ComponentValType, InstanceType, PrimitiveValType};
    use wasmtime::component::Component;

    const NETWORK: Authority = Authority { network: true, ..Authority::READ_ONLY };

    fn asks() -> Asks {
        serde_json::from_str(r#"{ "echo": true }"#).unwrap()
    }

    fn granted(table: &GrantTable) -> Grants {
        let no_secrets: Arc<dyn SecretSource> = Arc::new(NoSecrets);
        table.resolve(&GrantContext {
            workspace: Path::new("/w"),
            usual_variables: &[],
            variables: &BTreeMap::new,
            output: Path::new("/o"),
            storage: Path::new("/s"),
            secrets: &no_secrets,
        })
    }

    fn authority(grants: &Grants) -> Arc<PluginAuthority> {
        let surroundings =
            SharedAuthority { workspace: WorkspaceRoot::new(Path::new("/w")), protected: Arc::default() };
        Arc::new(PluginAuthority::new("p", &surroundings, &asks(), grants, Arc::default()))
    }

    #[test]
    fn new_capability_is_asked_for_and_granted_by_name() {
        let table: GrantTable = toml::from_str("echo = true").unwrap();
        let mut typed = GrantTable::default();
        typed.add(&["echo".to_owned()], Path::new("/w")).unwrap();
        assert_eq!(typed, table);
        assert_eq!((table.spell_grants(), asks().spell_asks()), (vec!["echo".to_owned()], vec!["echo".to_owned()]));
        assert!(capability_forms().contains(&"echo") && asks().covers(&table.asks()));
        assert!(asks().covers_import("echo") && !Asks::default().covers_import("echo"));
        assert_eq!(Asks::default().excess(&asks()), ["hear an echo"]);
        assert_eq!(granted(&table).extents(&asks()), [("echo", "hear an echo".to_owned(), Some(String::new()))]);
    }

    #[test]
    fn new_capability_needs_grant_ask_and_declared_effect() {
        let granted = Grants { echo: true, ..Grants::default() };
        assert!(authority(&granted).for_tool(NETWORK).check::<Echo>().is_ok());
        let undeclared = authority(&granted).for_tool(Authority::READ_ONLY).check::<Echo>().unwrap_err().to_string();
        assert!(undeclared.contains("may not hear an echo") && undeclared.contains("the effect `network`"));
        assert!(authority(&granted).none().check::<Echo>().is_err());
        assert_eq!(granted.cut_to(&Asks::default()), Grants::default());

        let refused = authority(&Grants::default());
        assert!(!refused.of_tool(NETWORK).network);
        let missing = refused.missing(NETWORK).unwrap().to_string();
        assert!(missing.contains("[plugins.p.grants] echo = true"), "{missing}");
    }

    #[test]
    fn new_capability_is_counted_in_the_ledger() {
        let mut accounts = Accounts::open(&Limits::default());
        accounts.echo.echoes = 2;
        let mut ledger = Ledger::default();
        accounts.enter(&mut ledger);
        assert!(ledger.to_string().ends_with("2 echos"), "{ledger}");
    }

    #[test]
    fn import_of_a_new_capability_is_linked() {
        let mut interface = InstanceType::new();
        let number = ComponentValType::Primitive(PrimitiveValType::U32);
        interface.ty().defined_type().option(number);
        interface.ty().function().params([("number", number)]).result(Some(ComponentValType::Type(0)));
        interface.export("say", ComponentTypeRef::Func(1));
        let mut component = ComponentBuilder::default();
        let interface = component.type_instance(None, &interface);
        component.import("pinion:plugin/echo@0.1.0", ComponentTypeRef::Instance(interface));

        let engine = Engine::new(EngineLimits::default()).unwrap();
        let component = Component::new(engine.wasmtime(), component.finish()).unwrap();
        crate::host::linker::linker(&engine).unwrap().instantiate_pre(&component).unwrap();
    }
}
