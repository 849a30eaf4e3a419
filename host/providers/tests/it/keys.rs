//! The sources of keys and their precedence.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use pinion_providers::{AuthFile, KeyCommand, KeyError, KeyOrigin, KeySource, KeySources, Keyring, provider};
use secrecy::{ExposeSecret, SecretString};
use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A keyring with one key in it, for `anthropic`.
#[derive(Debug)]
struct OneKey;

impl Keyring for OneKey {
    fn get<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Result<Option<SecretString>, KeyError>> {
        let key = (provider == "anthropic").then(|| SecretString::from("from the keyring"));
        async { Ok(key) }.boxed()
    }
}

fn keys(name: &str) -> KeySources {
    KeySources::new(provider(name).unwrap())
}

async fn key(keys: &KeySources) -> Option<String> {
    keys.key().await.unwrap().map(|key| key.secret.expose_secret().to_owned())
}

fn write(path: &Path, text: &str, mode: u32) -> PathBuf {
    fs::write(path, text).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    path.to_owned()
}

#[tokio::test]
async fn key_sources_have_a_fixed_precedence() {
    let directory = TempDir::new().unwrap();
    let file = write(&directory.path().join("auth.toml"), "[anthropic]\nkey = \"from the file\"\n", 0o600);
    let variable = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| "from the environment".to_owned());
    let command = || KeyCommand::new("echo from the command");
    let all =
        keys("anthropic").environment(variable).keyring(Arc::new(OneKey)).auth_file(file.clone()).command(command());
    assert_eq!(key(&all).await.unwrap(), "from the environment");
    assert_eq!(all.origin().await.unwrap(), Some(KeyOrigin::Environment("ANTHROPIC_API_KEY")));
    let all = keys("anthropic").environment(|_| Some(" ".to_owned())).keyring(Arc::new(OneKey)).auth_file(file.clone());
    assert_eq!(
        (key(&all).await.unwrap().as_str(), all.origin().await.unwrap()),
        ("from the keyring", Some(KeyOrigin::Keyring))
    );
    let all = keys("anthropic").auth_file(file.clone()).command(command());
    assert_eq!(key(&all).await.unwrap(), "from the file");
    assert_eq!(all.origin().await.unwrap().unwrap().to_string(), file.display().to_string());
    let all = keys("mistral").keyring(Arc::new(OneKey)).auth_file(file).command(command());
    assert_eq!(
        (key(&all).await.unwrap().as_str(), all.origin().await.unwrap()),
        ("from the command", Some(KeyOrigin::Command))
    );
    assert_eq!(key(&keys("mistral")).await, None);
}

#[tokio::test]
async fn vendor_variables_and_files_are_read() {
    let aws = |name: &str| {
        name.starts_with("AWS_").then(|| name.to_lowercase()).filter(|_| name != "AWS_BEARER_TOKEN_BEDROCK")
    };
    let json: serde_json::Value = serde_json::from_str(&key(&keys("bedrock").environment(aws)).await.unwrap()).unwrap();
    assert_eq!(
        (&json["AccessKeyId"], &json["SessionToken"]),
        (&"aws_access_key_id".into(), &"aws_session_token".into())
    );
    let directory = TempDir::new().unwrap();
    let file = write(&directory.path().join("adc.json"), "{\"type\":\"authorized_user\"}", 0o644);
    let named = |name: &str| (name == "GOOGLE_APPLICATION_CREDENTIALS").then(|| file.display().to_string());
    assert_eq!(key(&keys("vertex").environment(named)).await.unwrap(), "{\"type\":\"authorized_user\"}");
    let kept = keys("vertex").google_default_credentials(file.clone());
    assert_eq!(kept.origin().await.unwrap(), Some(KeyOrigin::File(file.clone())));
    assert_eq!(key(&keys("gemini").google_default_credentials(file)).await, None);
    let google = |name: &str| (name == "GOOGLE_API_KEY").then(|| "AIza".to_owned());
    assert_eq!(key(&keys("gemini").environment(google)).await.unwrap(), "AIza");
}

#[cfg(unix)]
#[tokio::test]
async fn key_file_readable_by_others_is_rejected() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("auth.toml");
    for mode in [0o644, 0o660, 0o700] {
        let file = write(&path, "[anthropic]\nkey = \"secret-key\"\n", mode);
        let error = AuthFile::new(file).key("anthropic").unwrap_err();
        assert!(matches!(error, KeyError::Mode { .. }) && error.hint().unwrap().contains("chmod 600"), "{error}");
    }
}

#[test]
fn malformed_key_file_is_reported_by_line_only() {
    let directory = TempDir::new().unwrap();
    for text in
        ["[anthropic]\nkey = secret-key\n", "[anthropic]\nkye = \"secret-key\"\n", "[a]\nkey = [\"secret-key\"]"]
    {
        let error =
            AuthFile::new(write(&directory.path().join("auth.toml"), text, 0o600)).key("anthropic").unwrap_err();
        assert!(error.to_string().contains("line "), "{error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    assert!(AuthFile::new(directory.path().join("none.toml")).key("anthropic").unwrap().is_none());
}

#[tokio::test]
async fn command_runs_once_until_its_key_is_rejected() {
    let directory = TempDir::new().unwrap();
    let line = format!("cd '{}' && echo x >> runs && echo key-$(wc -l < runs)", directory.path().display());
    let keys = keys("xai").command(KeyCommand::new(line));
    assert_eq!(key(&keys).await.unwrap(), "key-1");
    assert_eq!(key(&keys).await.unwrap(), "key-1");
    keys.invalidate();
    assert_eq!(key(&keys).await.unwrap(), "key-2");
}

#[tokio::test]
async fn command_without_key_is_reported_without_its_output() {
    for (line, said) in [
        ("echo secret-key; exit 3", "exit status: 3"),
        ("true", "printed no key"),
        ("printf '\\377secret-key'", "printed no key"),
        ("head -c 100000 /dev/zero | tr '\\0' s; true", "printed no key"),
    ] {
        let error = keys("xai").command(KeyCommand::new(line)).key().await.unwrap_err();
        let cause = error.source().unwrap().to_string();
        assert!(cause.contains(said) && error.to_string().contains("`xai`"), "{error}: {cause}");
        assert!(!format!("{error:?}").contains("secret-key") && !format!("{error:?}").contains("sss"));
    }
}

#[tokio::test]
async fn hanging_command_is_killed_with_its_children() {
    let directory = TempDir::new().unwrap();
    let line = format!("cd '{}'; sleep 600 & echo $! > pid; sleep 600", directory.path().display());
    let command = KeyCommand::new(line).timeout(Duration::from_millis(300));
    let error = keys("xai").command(command).key().await.unwrap_err();
    assert!(error.source().unwrap().to_string().contains("took longer"), "{error:?}");
    #[cfg(target_os = "linux")]
    {
        let pid = fs::read_to_string(directory.path().join("pid")).unwrap();
        let state = || fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        // The process may remain as a zombie until its parent collects it.
        while state().is_ok_and(|state| !state.contains(") Z ")) {
            tokio::task::yield_now().await;
        }
    }
}
