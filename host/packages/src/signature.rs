//! Signatures of authors, in the format of minisign.
//!
//! A signature is a file next to the signed one, `NAME.minisig`. The trusted comment, which is signed too, may limit it:
//! `name:`, `version:` and `expires:` (seconds since 1970) have to agree with the package.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use minisign_verify::{PublicKey, Signature};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// Algorithm of keys, and of signatures of the bytes themselves.
const ALGORITHM: &[u8; 2] = b"Ed";
/// Maximum bytes of a signature file.
const MAX_SIGNATURE: usize = 4096;

/// The public key of an author, in the form of minisign: 56 characters of base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorKey(String);

impl AuthorKey {
    /// Parses a key, or a file with one.
    ///
    /// # Errors
    /// It is not a public key of minisign.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        PublicKey::from_base64(line).map_err(|error| error.to_string())?;
        Ok(Self(line.to_owned()))
    }

    /// Returns the key in base64.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks a signature, and that its trusted comment agrees with the package.
///
/// # Errors
/// The signature is not the key's, covers other bytes, belongs to another package or version, or has expired.
pub fn verify_signature(
    key: &AuthorKey,
    content: &[u8],
    signature: &str,
    package: (&str, &str),
    now: u64,
) -> Result<(), String> {
    if signature.len() > MAX_SIGNATURE {
        return Err("the signature is too long".to_owned());
    }
    let public = PublicKey::from_base64(&key.0).map_err(|error| error.to_string())?;
    let decoded = Signature::decode(signature).map_err(|_| "the signature is damaged".to_owned())?;
    let matches = public.verify(content, &decoded, true);
    matches.map_err(|_| format!("the signature is not one of key {} for this content", key.as_str()))?;
    for field in decoded.trusted_comment().split_whitespace() {
        let (name, value) = field.split_once(':').unwrap_or((field, ""));
        match name {
            "name" if value != package.0 => return Err(format!("the signature is for package `{value}`")),
            "version" if value != package.1 => return Err(format!("the signature is for version {value}")),
            "expires" if value.parse::<u64>().is_ok_and(|end| end >= now) => {}
            "expires" => return Err("the signature has expired".to_owned()),
            _ => {}
        }
    }
    Ok(())
}

/// The secret key of an author.
pub struct SigningKey {
    id: [u8; 8],
    pair: Ed25519KeyPair,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Derives a key from 32 random bytes.
    ///
    /// # Errors
    /// The cryptographic library refuses them.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, String> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|error| error.to_string())?;
        let mut id = [0; 8];
        id.copy_from_slice(&blake3::hash(pair.public_key().as_ref()).as_bytes()[..8]);
        Ok(Self { id, pair })
    }

    /// Returns the public key.
    pub fn public(&self) -> AuthorKey {
        AuthorKey(STANDARD.encode([ALGORITHM.as_slice(), &self.id, self.pair.public_key().as_ref()].concat()))
    }

    /// Signs bytes. Returns the content of the signature file, with this trusted comment.
    pub fn sign(&self, content: &[u8], comment: &str) -> String {
        let comment: String = comment.chars().filter(|c| !c.is_control()).collect();
        let signature = self.pair.sign(content);
        let whole = self.pair.sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let line = STANDARD.encode([ALGORITHM.as_slice(), &self.id, signature.as_ref()].concat());
        let whole = STANDARD.encode(whole);
        format!("untrusted comment: signature of a Pinion package\n{line}\ntrusted comment: {comment}\n{whole}\n")
    }
}
