//! Places of credentials, conversations and histories in the home directory, and those that programs need.

use pinion_tests::Pinion;
use std::fs;

/// Well-known places, below the home directory, one a line.
const HIDDEN: &str = "
    .ssh/id_ed25519
    .ssh/config
    .gnupg/private-keys-v1.d/x.key
    .password-store/mail.gpg
    .local/share/keyrings/login.keyring
    .local/share/kwalletd/kdewallet.kwl
    .config/sops/age/keys.txt
    .config/age/key.txt
    .config/op/config
    .config/Bitwarden CLI/data.json
    .config/rbw/config.json
    .vault-token
    .config/doppler/config.yaml
    .doppler/.doppler.yaml
    .infisical/infisical-config.json
    .netrc
    .authinfo
    .git-credentials
    .config/git/credentials
    .step/secrets/root_ca_key
    .aws/credentials
    .aws/sso/cache/x.json
    .azure/msal_token_cache.json
    .config/gcloud/application_default_credentials.json
    .config/gcloud/credentials.db
    .boto
    .s3cfg
    .oci/config
    .aliyun/config.json
    .tccli/default.credential
    .bluemix/config.json
    .config/doctl/config.yaml
    .config/hcloud/cli.toml
    .config/scw/config.yaml
    .config/linode-cli
    .fly/config.yml
    .config/heroku/config.json
    .config/netlify/config.json
    .local/share/com.vercel.cli/auth.json
    .config/.wrangler/config/default.toml
    .cloudflared/cert.pem
    .railway/config.json
    .supabase/access-token
    .config/configstore/firebase-tools.json
    .config/stripe/config.toml
    .config/ngrok/ngrok.yml
    .databrickscfg
    .snowsql/config
    .snowflake/connections.toml
    .pulumi/credentials.json
    .terraform.d/credentials.tfrc.json
    .terraformrc
    .vault_pass.txt
    .chef/user.pem
    .saml2aws
    .okta/okta.yaml
    .sentryclirc
    .circleci/cli.yml
    .config/rclone/rclone.conf
    .config/gh/hosts.yml
    .config/hub
    .config/glab-cli/config.yml
    .config/tea/config.yml
    .docker/config.json
    .config/containers/auth.json
    .kube/config
    .config/helm/repositories.yaml
    .config/argocd/config
    .npmrc
    .yarnrc.yml
    .pypirc
    .cargo/credentials.toml
    .gem/credentials
    .bundle/config
    .config/composer/auth.json
    .m2/settings.xml
    .gradle/gradle.properties
    .nuget/NuGet/NuGet.Config
    .sbt/.credentials
    .config/pypoetry/auth.toml
    .hex/hex.config
    .jfrog/jfrog-cli.conf.v6
    .cache/huggingface/token
    .huggingface/token
    .kaggle/kaggle.json
    .config/wandb/settings
    .config/openai/key
    .replicate/auth
    .modal.toml
    .ollama/id_ed25519
    .pgpass
    .my.cnf
    .mylogin.cnf
    .mongorc.js
    .config/usql/config.yaml
    .claude/.credentials.json
    .claude.json
    .codex/auth.json
    .gemini/oauth_creds.json
    .config/github-copilot/hosts.json
    .local/share/opencode/auth.json
    .cursor/mcp.json
    .aider.conf.yml
    .config/goose/secrets.yaml
    .pi/agent/auth.json
    .config/io.datasette.llm/keys.json
    .config/Code/User/globalStorage/state.vscdb
    .mozilla/firefox/x/logins.json
    .config/google-chrome/Default/Cookies
    .config/chromium/Default/Login Data
    .thunderbird/x/logins.json
    .msmtprc
    .mbsyncrc
    .mutt/muttrc
    .config/Signal/config.json
    .bitcoin/wallet.dat
    .electrum/wallets/default_wallet
    .ethereum/keystore/x
    .config/solana/id.json
    .monero/x.keys
    .config/Exodus/exodus.wallet
    .wireguard/wg0.conf
    .config/protonvpn/x
    .bash_history
    .zsh_history
    .local/share/fish/fish_history
    .local/share/atuin/history.db
    .python_history
    .node_repl_history
    .psql_history
    .mysql_history
    .sqlite_history
    .rediscli_history
    .mongodb/mongosh/mongosh_repl_history
    .lesshst
    .viminfo
    .local/state/nvim/shada/main.shada
    .config/newtool/credentials.json
    .newtool/access_token
    .local/share/newtool/auth.json
    .newtool_history
";

/// Files that programs read, with any mode.
const OPEN: &str = "
    .bashrc
    .profile
    .gitconfig
    .gitconfig-work
    .config/git/config
    .config/git/ignore
    .cargo/config.toml
    .cargo/bin/cargo
    .cargo/registry/index/x
    .rustup/settings.toml
    .rustup/toolchains/x/bin/rustc
    .nvm/nvm.sh
    .nvm/versions/node/x/bin/node
    .pyenv/version
    .pyenv/versions/x/bin/python
    .rbenv/version
    .sdkman/bin/sdkman-init.sh
    .volta/bin/node
    .bun/bin/bun
    .deno/bin/deno
    .m2/repository/x.jar
    .gradle/caches/x
    .gradle/init.gradle
    .nuget/packages/x
    .npm/_cacache/index
    .cache/pip/x
    .cache/go-build/x
    .cache/huggingface/hub/x
    .config/fish/config.fish
    .config/pip/pip.conf
    .config/go/env
    .config/nvim/init.lua
    .config/mise/config.toml
    .local/bin/tool
    .local/share/mise/installs/x/bin/x
    .local/share/uv/python/x/bin/python
    .local/lib/python3/site-packages/x.py
    .local/share/pnpm/pnpm
    .inputrc
    .vimrc
    .tool-versions
    .editorconfig
    go/bin/tool
    go/pkg/mod/x
    code/secrets/token
";

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// Creates a home directory with these files, and returns those that a program reads.
fn readable(mode: u32) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let pinion = Pinion::default();
    // In the sandbox, `/tmp` is another directory.
    let person = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = person.path().canonicalize().unwrap();
    for name in names(HIDDEN).chain(names(OPEN)) {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // A file that is only sometimes a credential is one with these.
        let text =
            if names(OPEN).any(|open| open == name) { "plain" } else { "token = \"x\" _key npmAuth Credentials __" };
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(home.join(".bashrc"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(home.join(".profile"), fs::Permissions::from_mode(0o644)).unwrap();
    let script =
        "cd && find . -type f | while read -r file; do cat \"$file\" > /dev/null 2>&1 && echo \"$file\"; done; true";
    let mut command = pinion.command(["sandbox", "--", "bash", "-c", script]);
    let output = command.env("HOME", &home).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.strip_prefix("./")).map(str::to_owned).collect()
}

#[test]
fn credentials_are_hidden_by_place_and_programs_find_their_files() {
    assert!(names(HIDDEN).count() >= 120 && names(OPEN).count() >= 40);
    for mode in [0o644, 0o600] {
        let readable = readable(mode);
        let is_readable = |name: &&str| readable.iter().any(|file| file == name);
        let seen: Vec<&str> = names(HIDDEN).filter(is_readable).collect();
        let missing: Vec<&str> = names(OPEN).filter(|name| !is_readable(name)).collect();
        assert!(seen.is_empty() && missing.is_empty(), "{mode:o}: read {seen:?}, hidden {missing:?}");
    }
}
