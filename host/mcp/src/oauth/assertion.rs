//! Assertions that prove a client's identity by a private key (RFC 7523).

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

/// Seconds that an assertion is valid.
const LIFETIME: u64 = 300;

/// A private key with the algorithm that it signs with.
enum AssertionKey {
    Ecdsa(EcdsaKeyPair, &'static str),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair, &'static str),
}

impl AssertionKey {
    /// Reads a key in PEM. `wanted` is the algorithm of the config.
    fn read(pem: &SecretString, wanted: Option<&str>) -> Result<Self, String> {
        let unreadable = "`privateKey` is not a private key in PEM of an algorithm that is supported \
                          (ES256, ES384, EdDSA, RS256, PS256)";
        // Variables often have the line ends as two characters.
        let text = pem.expose_secret().replace("\\n", "\n");
        let der = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| unreadable.to_owned())?;
        let rsa = if wanted == Some("PS256") { "PS256" } else { "RS256" };
        let key = match der {
            PrivateKeyDer::Pkcs8(der) => {
                let der = der.secret_pkcs8_der();
                let random = &SystemRandom::new();
                let ecdsa = |algorithm, name| {
                    EcdsaKeyPair::from_pkcs8(algorithm, der, random).ok().map(|key| Self::Ecdsa(key, name))
                };
                ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING, "ES256")
                    .or_else(|| ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING, "ES384"))
                    .or_else(|| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(Self::Ed25519))
                    .or_else(|| RsaKeyPair::from_pkcs8(der).ok().map(|key| Self::Rsa(key, rsa)))
            }
            PrivateKeyDer::Pkcs1(der) => {
                RsaKeyPair::from_der(der.secret_pkcs1_der()).ok().map(|key| Self::Rsa(key, rsa))
            }
            _ => return Err("`privateKey` must be in PKCS #8 (`openssl pkcs8 -topk8 -nocrypt` converts it)".to_owned()),
        };
        let key = key.ok_or(unreadable)?;
        match wanted.is_none_or(|wanted| wanted == key.algorithm()) {
            true => Ok(key),
            false => Err(format!("`signingAlgorithm` does not fit `privateKey`, which signs with {}", key.algorithm())),
        }
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Ecdsa(_, name) | Self::Rsa(_, name) => name,
            Self::Ed25519(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, ring::error::Unspecified> {
        let random = &SystemRandom::new();
        match self {
            Self::Ecdsa(key, _) => Ok(key.sign(random, message)?.as_ref().to_vec()),
            Self::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
            Self::Rsa(key, name) => {
                let padding: &dyn ring::signature::RsaEncoding =
                    if *name == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(padding, random, message, &mut signature)?;
                Ok(signature)
            }
        }
    }
}

/// Returns an assertion of a client for an authorization server.
///
/// # Errors
/// The key cannot be used; the text says why.
pub(super) fn signed(
    key: &SecretString,
    algorithm: Option<&str>,
    client_id: &str,
    audience: &str,
) -> Result<String, String> {
    let key = AssertionKey::read(key, algorithm)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| error.to_string())?;
    let header = json!({ "alg": key.algorithm(), "typ": "client-authentication+jwt" });
    let claims = json!({
        "iss": client_id, "sub": client_id, "aud": audience, "iat": now, "exp": now + LIFETIME,
        "jti": URL_SAFE_NO_PAD.encode(id),
    });
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&header), part(&claims));
    let signature = key.sign(message.as_bytes()).map_err(|_| "`privateKey` cannot sign".to_owned())?;
    Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, KeyPair as _, UnparsedPublicKey};
    use serde_json::Value;

    fn pem(der: &[u8]) -> SecretString {
        format!("-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----", STANDARD.encode(der)).into()
    }

    fn parts(jwt: &str) -> (Value, Value, String, Vec<u8>) {
        let (message, signature) = jwt.rsplit_once('.').unwrap();
        let (header, claims) = message.split_once('.').unwrap();
        let value = |part: &str| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        (value(header), value(claims), message.to_owned(), URL_SAFE_NO_PAD.decode(signature).unwrap())
    }

    #[test]
    fn assertion_names_client_and_audience_and_is_signed() {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let public = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
        let jwt = signed(&pem(der.as_ref()), Some("ES256"), "client", "https://as.example").unwrap();
        let (header, claims, message, signature) = parts(&jwt);
        assert_eq!((&header["alg"], &claims["aud"]), (&json!("ES256"), &json!("https://as.example")));
        assert_eq!((&claims["iss"], &claims["sub"]), (&json!("client"), &json!("client")));
        assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), LIFETIME);
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public.public_key().as_ref());
        key.verify(message.as_bytes(), &signature).unwrap();
        let again = signed(&pem(der.as_ref()), None, "client", "https://as.example").unwrap();
        assert_ne!(parts(&again).1["jti"], claims["jti"]);
        let wrong = signed(&pem(der.as_ref()), Some("RS256"), "client", "x").unwrap_err();
        assert!(wrong.contains("signs with ES256"), "{wrong}");
    }

    #[test]
    fn kind_of_the_key_decides_on_the_algorithm() {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let public = Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap();
        let (header, _, message, signature) = parts(&signed(&pem(der.as_ref()), None, "c", "a").unwrap());
        assert_eq!(header["alg"], "EdDSA");
        let key = UnparsedPublicKey::new(&ED25519, public.public_key().as_ref());
        key.verify(message.as_bytes(), &signature).unwrap();
        for bad in ["", "hunter2", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"] {
            let error = signed(&bad.to_owned().into(), None, "c", "a").unwrap_err();
            assert!(error.contains("not a private key") && !error.contains("hunter2"), "{error}");
        }
    }
}
