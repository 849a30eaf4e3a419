//! The departures of vendors from OpenAI's Chat Completions.

use crate::formats::conversation::IdRule;

/// The differences between a vendor and OpenAI.
#[derive(Debug, Clone, Copy)]
pub struct ChatQuirks {
    /// The name of the output limit: `max_completion_tokens` or `max_tokens`.
    pub max_tokens: &'static str,
    /// Takes the system prompt as a message of the role `developer` and not of `system`.
    pub developer_role: bool,
    /// Accepts `stream_options`, without which most vendors omit token counts.
    pub stream_options: bool,
    /// Accepts `store`, which is sent as false so that the vendor does not retain the conversation.
    pub store: bool,
    /// Accepts `prompt_cache_key`, which routes the requests of a session to the same cache.
    pub cache_key: bool,
    /// The parameter that requests thinking.
    pub thinking: ThinkingParam,
    /// The place for thinking that is sent back to the model.
    pub thinking_back: ThinkingBack,
    /// Accepts `cache_control`, for models whose vendor caches only marked content.
    pub breakpoints: bool,
    /// The constraint on tool call IDs.
    pub(crate) ids: IdRule,
    /// Accepts images in tool results. Otherwise they follow in a user message.
    pub images_in_results: bool,
    /// The roles of messages may have to alternate, as in the templates of Gemma's and Mistral's models.
    pub merges_users: bool,
    /// The texts of a message may have to be a single string.
    pub joins_texts: bool,
    /// Requires a reply between the results of calls and a message of the user.
    pub replies_after_results: bool,
}

/// The parameter that requests thinking from a vendor's model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingParam {
    /// `"reasoning_effort": "high"`.
    Effort,
    /// `"reasoning": {"effort": "high"}`.
    Object,
    /// `"thinking": {"type": "enabled"}` with a `reasoning_effort`.
    Switch,
}

/// The place for thinking that is sent back to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingBack {
    /// Thinking is not sent back.
    No,
    /// Text in this field of the message. While the model thinks, every message has the field, if only with no text.
    Field(&'static str),
    /// Place of the thinking in the reply: a separate field, this field, or the content.
    AsItCame(&'static str),
    /// A part of the message's content, with its signature.
    Chunk,
}

impl ChatQuirks {
    /// OpenAI itself.
    pub const OPENAI: Self = Self {
        max_tokens: "max_completion_tokens",
        developer_role: false,
        stream_options: true,
        store: true,
        cache_key: true,
        thinking: ThinkingParam::Effort,
        thinking_back: ThinkingBack::No,
        breakpoints: false,
        ids: IdRule::AtMost(40),
        images_in_results: false,
        merges_users: false,
        joins_texts: false,
        replies_after_results: false,
    };

    /// The subset that every compatible server understands.
    pub const PLAIN: Self =
        Self { max_tokens: "max_tokens", store: false, cache_key: false, ids: IdRule::OwnOrAtMost(40), ..Self::OPENAI };

    /// The differences at a server that the vendor does not run. Models behind it may choose any call IDs, and expect
    /// them back with their thinking: Kimi rejects calls without it.
    pub const fn elsewhere(self) -> Self {
        let ids = if matches!(self.ids, IdRule::NineLetters) { self.ids } else { IdRule::Any };
        let thinking_back = match self.thinking_back {
            ThinkingBack::No => ThinkingBack::AsItCame("reasoning_content"),
            place => place,
        };
        Self { store: false, cache_key: false, ids, thinking_back, merges_users: true, joins_texts: true, ..self }
    }
}
