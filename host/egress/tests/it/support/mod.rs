//! A network whose answers a test sets, and servers behind its addresses.

pub(crate) mod answering;
pub(crate) mod certificates;
pub(crate) mod network;
pub(crate) mod proxy;
pub(crate) mod server;

use crate::support::certificates::AUTHORITY;
use crate::support::network::TestNetwork;
use pinion_egress::{
    Client, ClientSettings, Credential, Credentials, Exchange, Observer, Placement, Policy, Request, RequestAccess,
    SendError,
};
use secrecy::SecretString;
use std::sync::{Arc, Mutex};

/// The secret of all credentials in tests.
pub(crate) const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5Ld8Rt";

pub(crate) fn policy(rules: &[&str]) -> Policy {
    Policy::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
}

/// A credential `key` for these rules.
pub(crate) fn credentials(placement: Placement, rules: &[&str]) -> Credentials {
    let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    Credentials::new(vec![Credential::new("key", SecretString::from(SECRET), placement, rules).unwrap()])
}

pub(crate) fn client(network: &Arc<TestNetwork>) -> Client {
    Client::new(ClientSettings { certificates: AUTHORITY.to_vec(), network: network.clone() }).unwrap()
}

pub(crate) fn with_key(request: Request) -> Request {
    Request { credential: Some("key".to_owned()), ..request }
}

/// Sends a request without credentials and reads its body.
pub(crate) async fn fetch(network: &Arc<TestNetwork>, rules: &[&str], request: Request) -> Result<String, SendError> {
    let (policy, none) = (policy(rules), Credentials::default());
    read(&client(network), request, &RequestAccess::new(&policy, &none)).await
}

/// Sends a request and reads its body.
pub(crate) async fn read(client: &Client, request: Request, access: &RequestAccess<'_>) -> Result<String, SendError> {
    let body = client.send(request, access).await?.collect(u64::MAX).await?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Keeps all reports.
#[derive(Default)]
pub(crate) struct Reports(pub(crate) Mutex<Vec<Exchange>>);

impl Observer for Reports {
    fn exchange_ended(&self, exchange: &Exchange) {
        self.0.lock().unwrap().push(exchange.clone());
    }
}
