//! The member `oauth` of a server.

use std::net::Ipv6Addr;

use secrecy::SecretString;
use url::{Host, Url};

use super::expand::Unexpanded;
use super::{IdpConfig, OAuthConfig};

/// The member as it is written.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct OAuth {
    client_id: Option<String>,
    client_secret: Option<String>,
    private_key: Option<String>,
    signing_algorithm: Option<String>,
    scopes: Vec<String>,
    redirect_uri: Option<String>,
    redirect_port: Option<u16>,
    /// Claude Code's form of `http://localhost:PORT/callback`.
    callback_port: Option<u16>,
    client_metadata_url: Option<String>,
    idp: Option<Idp>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Idp {
    issuer: String,
    token_endpoint: String,
    client_id: String,
    client_secret: Option<String>,
    id_token: String,
}

impl OAuth {
    /// Converts the member; `filled` expands variables.
    pub(super) fn config(
        &self,
        filled: impl Fn(&str) -> Result<String, Unexpanded>,
    ) -> Result<OAuthConfig, Unexpanded> {
        let wrong = |message: String| Unexpanded { message, hint: None };
        let text = |text: &Option<String>| text.as_deref().map(&filled).transpose();
        let secret = |written: &Option<String>| text(written).map(|secret| secret.map(SecretString::from));
        let callback = self.callback_port.map(|port| format!("http://localhost:{port}/callback"));
        let redirect = text(&self.redirect_uri)?.or(callback).as_deref().map(redirect).transpose().map_err(wrong)?;
        if self.redirect_port.is_some() && redirect.as_ref().is_some_and(|redirect| redirect.port().is_some()) {
            return Err(wrong("`redirectUri` has a port, so that `redirectPort` cannot name one".to_owned()));
        }
        if self.client_secret.is_some() && self.private_key.is_some() {
            return Err(wrong("it has both `clientSecret` and `privateKey`".to_owned()));
        }
        for (member, has_id) in [
            ("clientSecret", self.client_secret.is_some()),
            ("privateKey", self.private_key.is_some()),
            ("idp", self.idp.is_some()),
        ] {
            if has_id && self.client_id.is_none() {
                return Err(wrong(format!("`{member}` needs the `clientId` of a registered client")));
            }
        }
        let document = self.client_metadata_url.as_deref().map(document).transpose().map_err(wrong)?;
        let idp = self.idp.as_ref().map(|idp| {
            Ok(IdpConfig {
                issuer: filled(&idp.issuer)?,
                token_endpoint: endpoint(&filled(&idp.token_endpoint)?).map_err(wrong)?,
                client_id: filled(&idp.client_id)?,
                client_secret: secret(&idp.client_secret)?,
                id_token: SecretString::from(filled(&idp.id_token)?),
            })
        });
        Ok(OAuthConfig {
            client_id: text(&self.client_id)?,
            client_secret: secret(&self.client_secret)?,
            private_key: secret(&self.private_key)?,
            signing_algorithm: self.signing_algorithm.clone(),
            scopes: self.scopes.clone(),
            redirect,
            redirect_port: self.redirect_port,
            client_metadata: document,
            idp: idp.transpose()?,
        })
    }
}

/// Parses a redirect address, which must be one of this machine.
fn redirect(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`redirectUri`: {error}"))?;
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address == Ipv6Addr::LOCALHOST,
        None => false,
    };
    let is_plain = url.username().is_empty() && url.password().is_none();
    match url.scheme() == "http" && is_here && is_plain && url.query().is_none() && url.fragment().is_none() {
        true => Ok(url),
        false => {
            Err("`redirectUri` must be an address of this machine, such as http://localhost:8123/callback".to_owned())
        }
    }
}

fn endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`tokenEndpoint`: {error}"))?;
    match url.scheme() {
        "https" | "http" => Ok(url),
        _ => Err("`tokenEndpoint` must begin with http:// or https://".to_owned()),
    }
}

/// Parses the address of a client's metadata document; the protocol requires https and a path.
fn document(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`clientMetadataUrl`: {error}"))?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    match url.scheme() == "https" && url.path() != "/" && is_plain {
        true => Ok(url),
        false => {
            Err("`clientMetadataUrl` must begin with https:// and have a path, and no user and fragment".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<OAuthConfig, String> {
        let oauth: OAuth = serde_json::from_str(json).map_err(|error| error.to_string())?;
        oauth.config(|text| Ok(text.replace("${X}", "x"))).map_err(|unexpanded| unexpanded.message)
    }

    #[test]
    fn redirect_addresses_are_those_of_this_machine() {
        for good in ["http://localhost:8123/callback", "http://127.0.0.1/cb", "http://[::1]:1/a/b"] {
            assert_eq!(read(&format!(r#"{{"redirectUri":"{good}"}}"#)).unwrap().redirect.unwrap().as_str(), good);
        }
        for bad in
            ["https://localhost/cb", "http://evil.example/cb", "http://localhost:1/?a", "http://u@localhost/", "x"]
        {
            assert!(read(&format!(r#"{{"redirectUri":"{bad}"}}"#)).unwrap_err().contains("`redirectUri`"), "{bad}");
        }
        let of_claude = read(r#"{"callbackPort":8123}"#).unwrap().redirect.unwrap();
        assert_eq!(of_claude.as_str(), "http://localhost:8123/callback");
        let both = read(r#"{"redirectUri":"http://localhost:1/cb","redirectPort":2}"#);
        assert!(both.unwrap_err().contains("`redirectPort`"));
    }

    #[test]
    fn clients_without_a_user_need_an_id() {
        let idp = r#"{"issuer":"https://i","tokenEndpoint":"https://i/t","clientId":"${X}","idToken":"${X}"}"#;
        let config = read(&format!(r#"{{"clientId":"c","privateKey":"${{X}}","idp":{idp}}}"#)).unwrap();
        let idp_config = config.idp.unwrap();
        assert_eq!((idp_config.client_id.as_str(), idp_config.token_endpoint.as_str()), ("x", "https://i/t"));
        for (json, member) in [
            (r#"{"clientSecret":"s"}"#, "clientSecret"),
            (r#"{"privateKey":"k"}"#, "privateKey"),
            (&format!(r#"{{"idp":{idp}}}"#), "idp"),
        ] {
            assert!(read(json).unwrap_err().contains(&format!("`{member}` needs")), "{json}");
        }
        assert!(read(r#"{"clientId":"c","clientSecret":"s","privateKey":"k"}"#).unwrap_err().contains("both"));
    }
}
