//! The words of refusals.

use super::{Http, HttpAsk};
use crate::capability::authority::CallAuthority;
use crate::capability::definition::Capability as _;
use pinion_egress::Denial;

/// Words a refusal. If the user could grant the request, it names the line of the config.
pub(super) fn denied(denial: &Denial, request_sent: bool, authority: &CallAuthority) -> String {
    let redirected = if request_sent { ", to which the server redirected it" } else { "" };
    match denial {
        Denial::NotCovered { method, origin, granted } => {
            let only = if granted.is_empty() { String::new() } else { format!(" beyond `{}`", granted.join("`, `")) };
            let what = format!("send `{method}` to `{origin}`{only}{redirected}");
            let ask = format!("{method} {origin}").parse().map(|rule| HttpAsk::from_rules(vec![rule]));
            match ask {
                Ok(ask) if granted.is_empty() && ask <= authority.asks().http => {
                    authority.not_granted(&what, &Http::line(ask)).to_string()
                }
                _ if granted.is_empty() => authority.denied(&what, "its manifest does not ask for it").to_string(),
                _ => authority.denied(&what, "other methods and paths need a rule of their own").to_string(),
            }
        }
        Denial::Address { .. } => format!(
            "{denial}{redirected}\nhint: the user can grant the address itself or, in a private network, \
             the name after the word `private`"
        ),
        other => format!("{other}{redirected}"),
    }
}
