//! Encrypted reasoning items, stored between the reply that contained them and the request that returns them.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// An encrypted reasoning item, stored as the signature of its part.
#[derive(Serialize, Deserialize)]
pub(super) struct EncryptedItem<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) encrypted_content: Cow<'a, str>,
}
