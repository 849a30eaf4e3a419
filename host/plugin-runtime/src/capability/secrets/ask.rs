//! The secrets that a manifest asks for: any, or those with these names.

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

/// An ask for secrets. Manifests say `true`, or list the names that the plugin's code uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SecretsAsk {
    /// None.
    #[default]
    Nothing,
    /// Those with these names; never empty.
    Names(BTreeSet<String>),
    /// Any that the user grants.
    Any,
}

impl SecretsAsk {
    pub(super) fn for_names(names: BTreeSet<String>) -> Self {
        if names.is_empty() { Self::Nothing } else { Self::Names(names) }
    }
}

impl PartialOrd for SecretsAsk {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let rank = |ask: &Self| match ask {
            Self::Nothing => 0,
            Self::Names(_) => 1,
            Self::Any => 2,
        };
        match (self, other) {
            (Self::Names(ours), Self::Names(theirs)) if ours == theirs => Some(Ordering::Equal),
            (Self::Names(ours), Self::Names(theirs)) if ours.is_subset(theirs) => Some(Ordering::Less),
            (Self::Names(ours), Self::Names(theirs)) if theirs.is_subset(ours) => Some(Ordering::Greater),
            (Self::Names(_), Self::Names(_)) => None,
            _ => Some(rank(self).cmp(&rank(other))),
        }
    }
}

impl Serialize for SecretsAsk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => serializer.serialize_bool(false),
            Self::Any => serializer.serialize_bool(true),
            Self::Names(names) => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SecretsAsk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = SecretsAsk;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, or the names of secrets")
            }

            fn visit_bool<E>(self, asks: bool) -> Result<SecretsAsk, E> {
                Ok(if asks { SecretsAsk::Any } else { SecretsAsk::Nothing })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<SecretsAsk, A::Error> {
                let mut all = BTreeSet::new();
                while let Some(name) = names.next_element::<String>()? {
                    if name.is_empty() || name.len() > super::MAX_NAME || name.contains(',') {
                        return Err(A::Error::custom(format!("`{}` is not the name of a secret", name.escape_debug())));
                    }
                    all.insert(name);
                }
                Ok(SecretsAsk::for_names(all))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
