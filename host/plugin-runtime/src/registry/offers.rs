//! Tools and commands that change while a plugin runs.
//!
//! A plugin that exports `offers` has an [`OfferTask`]. It asks for the plugin's offer, with the plugin's grants: once
//! after the load, and after each sign of a change. It answers signs within [`DEBOUNCE`] together. Signs come from the
//! plugin, and for one with the grant `mcp` from the list of servers. An answer is checked like the lists of a load and
//! replaces the one before as a whole, in one snapshot; the generation stays. An answer that is invalid, and a failure,
//! leave the one before in place and are reported.
//!
//! Until the first answer, the plugin's latest offer is shown, and calls of it wait. Nothing happens before
//! [`Runtime::begin_offers`](crate::Runtime::begin_offers), so that looking at a plugin does not run it.

use crate::capability::mcp::Mcp;
use crate::convert::clip;
use crate::loading::blocking;
use crate::loading::last_offer;
use crate::loading::source::PluginSource;
use crate::registry::Registry;
use crate::registry::loaded::{Loaded, Offer};
use crate::registry::names::{left_out, remove_taken};
use crate::registry::notice::NoticeEvent;
use crate::registry::plugin_set::PluginSet;
use crate::registry::slot::{OfferTask, PluginSlot};
use futures_util::future::join_all;
use pinion_plugin_limits::PluginFault;
use pinion_plugin_offers::lists::Lists;
use pinion_plugin_offers::offer::Description;
use std::future::pending;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Signs of a change within this time count as one.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// Milliseconds that one list may take. The contract names this number.
const MAX_LIST_MS: u64 = 10_000;
/// Multiple of the computing time of a list that passes before the next one, so that lists take at most a fifth of a core.
const REST: u32 = 4;
/// Units of fuel in a nanosecond of computing, at least; see `limits.toml`.
const FUEL_PER_NS: u64 = 2;
/// Time between two notices about the lists of one plugin.
const NOTICE_PAUSE: Duration = Duration::from_secs(30);
/// Bytes of a plugin's own message that are shown.
const MAX_MESSAGE_BYTES: usize = 1024;

impl Registry {
    /// Returns whether plugins are asked for their offers while they run.
    pub(super) fn follows_offers(&self) -> bool {
        self.follows_offers.load(Ordering::Acquire)
    }

    /// Begins to ask plugins for their offers while they run: the loaded ones, and all that will be loaded.
    pub(crate) fn begin_offers(self: &Arc<Self>) {
        self.follows_offers.store(true, Ordering::Release);
        self.slots().iter_mut().filter(|slot| slot.offers.is_none()).for_each(|slot| self.follow_offers(slot));
    }

    /// Waits until every loaded plugin has been asked once.
    pub(crate) async fn offers_settled(&self) {
        let first: Vec<_> = self.slots().iter().filter_map(|slot| Some(slot.offers.as_ref()?.settled())).collect();
        join_all(first).await;
    }

    /// Waits until the plugin from this source has been asked once. A list ends within its time, so the wait does, too.
    pub(super) async fn offer_settled(&self, source: &PluginSource, token: &CancellationToken) {
        let first = || Some(self.slots().iter().find(|slot| slot.source == *source)?.offers.as_ref()?.settled());
        if let Some(first) = first() {
            token.run_until_cancelled(first).await;
        }
    }

    /// Begins to ask the current generation of a slot, if it can answer.
    pub(super) fn follow_offers(self: &Arc<Self>, slot: &mut PluginSlot) {
        let can_answer = |loaded: &Arc<Loaded>| loaded.generation.has_offers() && !loaded.generation.is_described();
        let Some(loaded) = slot.loaded.clone().filter(can_answer).filter(|_| self.follows_offers()) else { return };
        let (sender, first) = watch::channel(());
        let registry = Arc::downgrade(self);
        let following =
            Following { registry, slot: slot.number, loaded, reports: Reports::default(), first: Some(sender) };
        slot.offers = Some(OfferTask::new(tokio::spawn(following.run()), first));
    }
}

/// The task that asks one generation.
struct Following {
    registry: Weak<Registry>,
    /// The number of the slot.
    slot: u64,
    loaded: Arc<Loaded>,
    reports: Reports,
    first: Option<watch::Sender<()>>,
}

/// An answer that passed all checks but those against other plugins.
struct Checked {
    lists: Lists,
    description: Arc<Description>,
    /// Phrases for effects that the ceiling does not cover.
    held_back: Vec<String>,
}

impl Following {
    async fn run(mut self) {
        let changed = self.loaded.program().changed.clone();
        let mut servers = self.servers();
        loop {
            let Some(shared) = self.registry.upgrade().map(|registry| registry.shared.clone()) else { return };
            // The answer covers all changes so far.
            servers.as_mut().map(watch::Receiver::borrow_and_update);
            let mcp = shared.mcp.clone();
            let digest = servers.as_ref().map(|_| last_offer::digest(&*mcp)).unwrap_or_default();
            let (listed, hold) = self.loaded.list_offer(&shared, MAX_LIST_MS).await;
            drop(shared);
            // Not its time: a plugin that waits for a server uses no core.
            let used = Duration::from_nanos(listed.ledger.fuel / FUEL_PER_NS);
            let checked = self.checked(listed.result, digest).await;
            if !self.settle(checked) {
                return;
            }
            // Calls that waited for the instance see the new list.
            drop((self.first.take(), hold));
            next_change(&changed, servers.as_mut(), used).await;
        }
    }

    /// The counter of changes of the servers that the plugin may use.
    fn servers(&self) -> Option<watch::Receiver<u64>> {
        self.loaded.program().authority.held::<Mcp>()?;
        Some(self.registry.upgrade()?.shared.mcp.changed())
    }

    async fn checked(
        &self,
        listed: Result<Result<Description, String>, PluginFault>,
        servers: String,
    ) -> Result<Checked, String> {
        let description = listed.map_err(|fault| format!("{fault:#}"))?;
        let description = description.map_err(|message| clip(&message, MAX_MESSAGE_BYTES).to_owned())?;
        let (loaded, registry) = (self.loaded.clone(), self.registry.upgrade());
        let checking = blocking(move || {
            let (lists, held_back) = loaded.generation.running_lists(description.clone())?;
            if let Some(cache) = registry.as_ref().and_then(|registry| registry.shared.cache.as_ref()) {
                last_offer::store(cache, loaded.source(), &loaded.generation, servers, &description);
            }
            Ok(Checked { lists, description: Arc::new(description), held_back })
        });
        checking.await.map_err(|error| format!("{error:#}"))
    }

    /// Puts an answer into effect. Returns false if the generation was replaced.
    fn settle(&mut self, checked: Result<Checked, String>) -> bool {
        let Some(registry) = self.registry.upgrade() else { return false };
        let mut slots = registry.slots();
        let is_current = |slot: &PluginSlot| {
            let generation = slot.loaded.as_ref().map(|loaded| &loaded.generation);
            slot.number == self.slot && generation.is_some_and(|own| Arc::ptr_eq(own, &self.loaded.generation))
        };
        let Some(at) = slots.iter().position(is_current) else { return false };
        let Some(current) = slots[at].loaded.clone() else { return false };
        let mut problems = Vec::new();
        let next = match checked {
            Ok(checked) => accepted(&slots, at, &current, checked, &mut problems),
            Err(problem) => {
                problems.push(format!("its list is refused, and the one before stays: {problem}"));
                // No instance confirmed the shown offer, and this one cannot.
                let is_unconfirmed = current.offer().is_some_and(|offer| !offer.is_confirmed);
                is_unconfirmed.then(|| current.offering(current.own.clone(), None))
            }
        };
        if let Some(next) = next {
            slots[at].loaded = Some(Arc::new(next));
            registry.current.store(Arc::new(PluginSet::from_slots(&slots)));
        }
        let notice = self.reports.next(&problems).map(|text| slots[at].notice(NoticeEvent::Offer(text)));
        drop(slots);
        if let Some(notice) = notice {
            (registry.on_notice)(notice);
        }
        true
    }
}

/// The plugin with its current offer. `None` if nothing changes.
fn accepted(
    slots: &[PluginSlot],
    at: usize,
    current: &Loaded,
    checked: Checked,
    problems: &mut Vec<String>,
) -> Option<Loaded> {
    let Checked { mut lists, description, held_back } = checked;
    let removed = remove_taken(slots, at, &mut lists);
    if !removed.is_empty() {
        problems.push(left_out(&removed));
    }
    if !held_back.is_empty() {
        problems.push(format!(
            "held back, because no tool declared it when the plugin was granted: {}\n\
             hint: the author can declare it in a tool of `list-tools`",
            held_back.join("; ")
        ));
    }
    let lists = lists.in_order_of(&current.lists);
    let is_same = lists.is_same(&current.lists);
    if is_same && current.offer().is_some_and(|offer| offer.is_confirmed) {
        return None;
    }
    let lists = if is_same { current.lists.clone() } else { Arc::new(lists) };
    Some(current.offering(lists, Some(Offer { description, is_confirmed: true })))
}

/// Waits for a sign of a change, and until those that follow it can be answered together. `used` is the computing
/// time of the list before.
async fn next_change(changed: &Notify, servers: Option<&mut watch::Receiver<u64>>, used: Duration) {
    let rested = Instant::now() + used * REST;
    let of_servers = async {
        let is_over = match servers {
            Some(servers) => servers.changed().await.is_err(),
            None => true,
        };
        if is_over {
            pending().await
        }
    };
    tokio::select! {
        () = changed.notified() => {}
        () = of_servers => {}
    }
    sleep_until(rested.max(Instant::now() + DEBOUNCE)).await;
}

/// Bounds the notices about one plugin: a problem is reported once until an answer has another problem or no problem,
/// and no two reports are closer than [`NOTICE_PAUSE`].
#[derive(Default)]
struct Reports {
    last: Option<String>,
    at: Option<Instant>,
}

impl Reports {
    /// Returns the text of a notice, if one is due.
    fn next(&mut self, problems: &[String]) -> Option<String> {
        if problems.is_empty() {
            self.last = None;
            return None;
        }
        let text = problems.join("\n");
        if self.last.as_ref() == Some(&text) {
            return None;
        }
        if self.at.is_some_and(|at| at.elapsed() < NOTICE_PAUSE) {
            tracing::warn!(problem = text, "a list of tools and commands was refused or cut");
            return None;
        }
        (self.last, self.at) = (Some(text.clone()), Some(Instant::now()));
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    /// Signs of a change every `every`, for `times` times.
    async fn signs(changed: &Notify, every: Duration, times: u32) {
        for _ in 0..times {
            changed.notify_one();
            sleep(every).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn signs_within_a_quarter_of_a_second_count_as_one() {
        let (changed, begun) = (Notify::new(), Instant::now());
        tokio::join!(next_change(&changed, None, Duration::ZERO), signs(&changed, Duration::from_millis(10), 20));
        assert_eq!(begun.elapsed(), DEBOUNCE);
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_signs_causes_four_lists_per_second() {
        let (changed, mut lists) = (Notify::new(), 0);
        let listing = async {
            loop {
                next_change(&changed, None, Duration::ZERO).await;
                lists += 1;
            }
        };
        tokio::select! {
            () = listing => {}
            () = signs(&changed, Duration::from_millis(1), 10_000) => {}
        }
        assert!((38..=40).contains(&lists), "{lists}");
    }

    #[tokio::test(start_paused = true)]
    async fn change_of_the_servers_is_a_sign() {
        let (changed, begun) = (Notify::new(), Instant::now());
        let (sender, mut servers) = watch::channel(0);
        sender.send_replace(1);
        next_change(&changed, Some(&mut servers), Duration::ZERO).await;
        assert_eq!(begun.elapsed(), DEBOUNCE);
        servers.borrow_and_update();
        drop(sender);
        let next = next_change(&changed, Some(&mut servers), Duration::ZERO);
        assert!(
            tokio::time::timeout(Duration::from_secs(60), next).await.is_err(),
            "the end of the servers is no sign"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn slow_lists_are_rare() {
        let (changed, begun) = (Notify::new(), Instant::now());
        changed.notify_one();
        next_change(&changed, None, Duration::from_secs(9)).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(36));
    }

    #[tokio::test(start_paused = true)]
    async fn problem_is_reported_once_and_problems_are_rare() {
        let mut reports = Reports::default();
        let (one, other) = (["one".to_owned()], ["other".to_owned()]);
        assert_eq!(reports.next(&one).as_deref(), Some("one"));
        sleep(NOTICE_PAUSE).await;
        assert_eq!(reports.next(&one), None, "known");
        assert_eq!(reports.next(&other).as_deref(), Some("other"));
        assert_eq!(reports.next(&one), None, "too soon");
        assert_eq!(reports.next(&[]), None);
        sleep(NOTICE_PAUSE).await;
        assert_eq!(reports.next(&other).as_deref(), Some("other"), "it was gone meanwhile");
    }
}
