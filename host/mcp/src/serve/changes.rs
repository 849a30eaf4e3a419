//! Changes to the offer, as clients are notified of them.

use super::offered::{Offered, OfferedPrompt};
use super::resources;
use pinion_protocol::{Resource, ResourceAddress, ServedTool, ToolDefinition};
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer, ServiceError, SubscriptionSendError, SubscriptionSink};
use std::collections::BTreeSet;

/// The offer at a time.
#[derive(Default)]
pub(super) struct OfferSnapshot {
    tools: Vec<ServedTool>,
    prompts: Vec<OfferedPrompt>,
}

/// The differences between two times.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OfferChanges {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    /// The list of resources.
    pub(super) resources: bool,
    /// The resources whose content may have changed, among those that a client subscribed to.
    pub(super) updated: Vec<String>,
}

impl OfferChanges {
    /// Notifies a client that began with `initialize`. Fails when it is gone.
    pub(super) async fn notify(self, peer: &Peer<RoleServer>) -> Result<(), ServiceError> {
        if self.tools {
            peer.notify_tool_list_changed().await?;
        }
        if self.prompts {
            peer.notify_prompt_list_changed().await?;
        }
        if self.resources {
            peer.notify_resource_list_changed().await?;
        }
        for uri in self.updated {
            peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await?;
        }
        Ok(())
    }

    /// Notifies a client that listens of changes that it subscribed to. Fails when it is gone.
    pub(super) async fn notify_subscription(self, sink: &SubscriptionSink) -> Result<(), SubscriptionSendError> {
        let wants = sink.accepted();
        if self.tools && wants.tools_list_changed == Some(true) {
            sink.notify_tool_list_changed().await?;
        }
        if self.prompts && wants.prompts_list_changed == Some(true) {
            sink.notify_prompt_list_changed().await?;
        }
        if self.resources && wants.resources_list_changed == Some(true) {
            sink.notify_resource_list_changed().await?;
        }
        for uri in self.updated {
            sink.notify_resource_updated(uri).await?;
        }
        Ok(())
    }
}

impl OfferSnapshot {
    pub(super) fn from_offered(offered: &dyn Offered, can_ask: bool) -> Self {
        Self { tools: offered.tools(can_ask), prompts: offered.prompts() }
    }

    /// Returns the differences to a later snapshot.
    pub(super) fn changes(&self, later: &Self, wanted: &BTreeSet<String>) -> OfferChanges {
        let is_updated = |uri: &&String| matches!((self.version(uri), later.version(uri)), (Some(before), Some(after)) if before != after);
        OfferChanges {
            tools: !self.has_tools_of(later),
            prompts: self.prompts != later.prompts,
            resources: self.resources() != later.resources(),
            updated: wanted.iter().filter(is_updated).cloned().collect(),
        }
    }

    /// Returns whether both list the same versions of the same tools.
    fn has_tools_of(&self, other: &Self) -> bool {
        let (own, others) = (self.callable(), other.callable());
        let is_same =
            |(a, b): (&&ToolDefinition, &&ToolDefinition)| a.description == b.description && a.is_same_version(b);
        own.len() == others.len() && own.iter().zip(&others).all(is_same)
    }

    fn callable(&self) -> Vec<&ToolDefinition> {
        self.tools.iter().filter(|tool| tool.is_callable()).map(|tool| &*tool.definition).collect()
    }

    /// Returns everything that the lists of resources show.
    fn resources(&self) -> Vec<(&ResourceAddress, Option<&str>, [&str; 3])> {
        let mut resources = Vec::new();
        for ServedTool { definition, resource, .. } in &self.tools {
            if let Some(Resource { address, mime_type, .. }) = resource.as_deref() {
                let texts = [definition.name.as_str(), &definition.label, &definition.description];
                resources.push((address, mime_type.as_deref(), texts));
            }
        }
        resources
    }

    /// Returns the version of a resource, and the component whose code reads it.
    fn version(&self, uri: &str) -> Option<(Option<&str>, &str)> {
        let (tool, _) = resources::find(&self.tools, uri)?;
        let version = tool.resource.as_deref().and_then(|resource| resource.version.as_deref());
        Some((version, &tool.definition.source.digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tests::tool;
    use std::sync::Arc;

    fn resource(uri: &str, version: &str, is_only: bool) -> ServedTool {
        let (address, version) = (ResourceAddress::Uri(uri.to_owned()), Some(version.to_owned()));
        ServedTool { resource: Some(Arc::new(Resource { address, mime_type: None, version, is_only })), ..tool("r") }
    }

    fn snapshot(tools: Vec<ServedTool>) -> OfferSnapshot {
        OfferSnapshot { tools, prompts: Vec::new() }
    }

    fn changes(before: Vec<ServedTool>, after: Vec<ServedTool>, wanted: &[&str]) -> OfferChanges {
        let wanted = wanted.iter().map(|uri| (*uri).to_owned()).collect();
        snapshot(before).changes(&snapshot(after), &wanted)
    }

    #[test]
    fn client_is_notified_of_what_changed_and_of_nothing_else() {
        let none = OfferChanges { tools: false, prompts: false, resources: false, updated: Vec::new() };
        let one = || resource("a://b", "1", true);
        assert_eq!(changes(vec![one(), tool("t")], vec![one(), tool("t")], &["a://b"]), none);
        let updated = changes(vec![one()], vec![resource("a://b", "2", true)], &["a://b", "a://c"]);
        assert_eq!(updated, OfferChanges { updated: vec!["a://b".to_owned()], ..none });
        let unwanted = changes(vec![one()], vec![resource("a://b", "2", true)], &[]);
        assert_eq!(unwanted.updated, [""; 0]);
        let added = changes(vec![one()], vec![one(), resource("a://c", "1", true)], &["a://c"]);
        assert!(added.resources && !added.tools && added.updated.is_empty(), "{added:?}");
        let callable = changes(vec![one()], vec![resource("a://b", "1", false)], &[]);
        assert!(callable.tools && !callable.resources, "{callable:?}");
    }
}
