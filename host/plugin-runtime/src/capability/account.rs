//! The use that a call makes of each capability.

use super::definition::{Capability, CapabilityAccount as _};
use super::list::with_capabilities;
use super::*;
use pinion_plugin_limits::Limits;
use pinion_protocol::Ledger;

macro_rules! accounts {
    ($($(#[$cfg:meta])? $name:ident: $Capability:ident, $doc:literal;)+) => {
        /// The accounts of one call.
        pub(crate) struct Accounts {
            $($(#[$cfg])? pub(crate) $name: <$name::$Capability as Capability>::Account,)+
        }

        impl Accounts {
            /// The accounts of a call that begins.
            pub(crate) fn open(limits: &Limits) -> Self {
                Self { $($(#[$cfg])? $name: <$name::$Capability as Capability>::Account::open(limits),)+ }
            }

            /// Enters all counts.
            pub(crate) fn enter(&self, ledger: &mut Ledger) {
                $($(#[$cfg])? self.$name.enter(ledger);)+
            }
        }
    };
}
with_capabilities!(accounts);
