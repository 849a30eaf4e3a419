//! Well-known places of credentials, of conversations and of histories of input.

/// Below the home directory, separated by blanks. `\x20` stands for a blank in a name.
pub(super) const IN_HOME: &[&str] = &[
    // Keys, and stores of secrets.
    ".ssh .gnupg .password-store .local/share/password-store .local/share/gopass .config/gopass .age .config/age \
     .config/sops .local/share/keyrings .gnome2/keyrings .local/share/kwalletd .kde/share/apps/kwallet \
     .kde4/share/apps/kwallet .config/kwalletrc .pki .putty .sekey .yubico .config/Yubico .config/op .op \
     .1password .config/1Password .config/Bitwarden .config/Bitwarden\\x20CLI .bw .config/bws .config/rbw \
     .cache/rbw .local/share/rbw .lastpass .config/lpass .local/share/lpass .config/keepassxc .keepass \
     .config/KeePass .vault-token .vault .config/doppler .doppler .config/infisical .infisical .config/teller \
     .config/chamber .authinfo .authinfo.gpg .netrc _netrc .netrc.gpg .secrets .credentials \
     .config/gnome-online-accounts .config/goa-1.0 .step .config/step .config/bitwarden-secrets-manager \
     .config/dashlane-cli .local/share/dashlane-cli .krb5 .config/Authy .config/authenticator .ecryptfs .Private \
     .cert .config/certbot .acme.sh .wasmer/wasmer.toml .local/share/mkcert/rootCA-key.pem .local/share/caddy \
     .config/caddy .minisign .cosign .sigstore .notary",
    // Clouds and services on the net.
    ".aws .azure .config/gcloud .gsutil .boto .s3cfg .config/doctl .fly/config.yml .fly/state.yml .config/fly \
     .config/heroku .heroku .config/netlify .netlify .config/vercel .vercel .local/share/com.vercel.cli \
     .config/com.vercel.cli .wrangler .config/.wrangler .config/wrangler .cloudflared .cloudflare \
     .config/cloudflare .config/linode-cli .linode-cli .oci .aliyun .config/aliyun .tccli .config/tencent \
     .bluemix .ibmcloud .config/hcloud .config/scw .config/exoscale .vultr-cli.yaml .config/vultr-cli \
     .config/upcloud .ovh.conf .config/openstack .config/civo .civo.json .digitalocean .railway/config.json \
     .config/railway .render .config/render .supabase .config/supabase .config/firebase .config/configstore \
     .firebaserc .config/turso .config/planetscale .pscale .config/neonctl .config/cockroach .snowflake \
     .config/snowflake .snowsql .databrickscfg .databricks .bigqueryrc .surge .config/surge .config/stripe \
     .config/twilio-cli .twilio-cli .config/ngrok .ngrok2 .ngrok .config/tailscale .config/pulumi \
     .pulumi/credentials.json .terraform.d/credentials.tfrc.json .ansible/galaxy_token .vault_pass \
     .vault_pass.txt .ansible_vault .vagrant.d/data .chef .puppetlabs .saml2aws .aws-vault .awsvault \
     .config/granted .granted .okta .oktaws .config/nomad .consul .sentryclirc .config/sentry .newrelic \
     .config/datadog .datadogrc .pagerduty .rollbar .circleci .config/circleci .travis .buildkite \
     .config/buildkite .jenkins .codecov .config/codecov .config/snyk .snyk .sonar .config/deno-deploy \
     .modal.toml .runpod .lambda .vastai .config/vastai .config/jira .jira.d .config/slack .config/Slack \
     .config/discord .config/Signal .config/Element .config/teams .config/Microsoft .local/share/TelegramDesktop \
     .config/rclone .rclone.conf .dropbox .dropbox_uploader .megarc .config/onedrive .config/rustic \
     .config/restic .config/borg .config/duplicity .config/syncthing .local/state/syncthing .config/Nextcloud \
     .davfs2 .smbcredentials .config/filezilla .filezilla .config/lftp .local/share/lftp .ncftp .hub .config/hub \
     .config/gh .config/gh-copilot .config/glab-cli .config/glab .config/tea .config/berg .config/codeberg \
     .config/forgejo-cli .config/git/credentials .git-credentials .git-credential-cache .cache/git/credential \
     .config/git-credential-manager .gcm .local/share/git-credential-oauth .gitcookies .config/jj-forge \
     .config/lab .arcrc .reviewboardrc .bitbucket .config/bitbucket",
    // Containers.
    ".docker .config/containers/auth.json .local/share/containers/auth.json .kube .config/helm .helm .config/k9s \
     .config/skopeo .config/nerdctl .regctl .config/oras .minikube .config/kind .config/argocd .argocd \
     .config/flux .rancher .config/okteto .okteto .talos .config/openshift .odo",
    // Package registries.
    ".npmrc .config/npm .config/yarn/credentials .pypirc .config/pypoetry .config/uv/credentials \
     .local/share/uv/credentials .config/hatch .continuum .anaconda .cargo/credentials .cargo/credentials.toml \
     .gem/credentials .local/share/gem/credentials .config/composer/auth.json .composer/auth.json \
     .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .sbt/.credentials .sbt/credentials \
     .ivy2/.credentials .ivy2/credentials .lein/credentials.clj .lein/credentials.clj.gpg .clojure/credentials \
     .config/dart/pub-credentials.json .pub-cache/credentials.json .cpanrc .pause .conan/.conan.db \
     .conan2/credentials.json .config/jsr .deno/credentials .luarocks/upload_config.lua .stack/upload \
     .artifactory .jfrog .config/jfrog .cloudsmith .config/cloudsmith .packagecloud .config/pub .julia/servers",
    // Hubs of models, and data.
    ".huggingface .cache/huggingface/token .cache/huggingface/stored_tokens .kaggle .config/kaggle .config/wandb \
     .wandb .openai .config/openai .anthropic .config/anthropic .cohere .replicate .config/replicate \
     .config/modal .together .groq .config/mistral .comet.config .neptune .config/neptune .clearml.conf \
     .mlflow/credentials .dvc/config .config/dvc/config .cdsapirc .jupyter .local/share/jupyter/runtime \
     .config/earthengine .civitai .ollama/id_ed25519 .roboflow .config/roboflow .lightning \
     .config/io.datasette.llm .config/fabric .config/shell_gpt .config/mods .config/chatgpt .config/langsmith \
     .ngc .dbt/profiles.yml .wakatime.cfg",
    // Databases.
    ".pgpass .pg_service.conf .postgresql .my.cnf .mylogin.cnf .mongorc.js .mongoshrc.js .mongodb .redisclirc \
     .cqlshrc .cassandra .dbshell .influxdbv2 .clickhouse-client .config/clickhouse .config/usql .usqlrc \
     .config/pgcli .config/mycli .myclirc .config/litecli .odbc.ini .config/beekeeper-studio \
     .local/share/DBeaverData .dbeaver4 .config/DataGrip .config/mssql-cli .neo4j .arangodb .couchbase \
     .config/couchbase .oracle",
    // Other agents and editors, which keep keys and conversations.
    ".claude .claude.json .config/claude .config/Claude .codex .gemini .config/github-copilot .copilot \
     .local/share/opencode .config/opencode .local/state/opencode .cursor .config/Cursor .windsurf .codeium \
     .config/Windsurf .continue .aider .aider.conf.yml .aider.chat.history.md .aider.input.history .config/goose \
     .local/share/goose .local/state/goose .pi .config/pi .crush .config/crush .local/share/crush .qwen .kiro \
     .amazonq .local/share/amazon-q .config/amazon-q .amp .config/amp .local/share/amp .cline .roo .kilocode \
     .factory .openhands .junie .tabnine .config/TabNine .sourcegraph .config/cody .supermaven .augment .trae \
     .config/zed/credentials .local/share/zed/conversations .config/Code/User/globalStorage \
     .config/Code\\x20-\\x20Insiders/User/globalStorage .config/VSCodium/User/globalStorage \
     .vscode-server/data/User/globalStorage .config/JetBrains .plandex-home .mentat .rovodev .grok \
     .local/state/warp-terminal .hermes .openclaw .clawdbot .kimi .config/kimi .iflow .auggie .config/llm",
    // Browsers and mail.
    ".mozilla .thunderbird .librewolf .waterfox .floorp .config/google-chrome .config/google-chrome-beta \
     .config/google-chrome-unstable .config/chromium .config/BraveSoftware .config/microsoft-edge \
     .config/microsoft-edge-dev .config/vivaldi .config/opera .config/qutebrowser .local/share/qutebrowser \
     .config/epiphany .local/share/epiphany .w3m .elinks .config/falkon .config/mozilla .cache/mozilla \
     .cache/google-chrome .tor .local/share/torbrowser .config/evolution .local/share/evolution .config/geary \
     .local/share/geary .muttrc .mutt .config/mutt .neomuttrc .config/neomutt .msmtprc .config/msmtp .mbsyncrc \
     .config/isyncrc .offlineimaprc .config/offlineimap .fetchmailrc .getmail .config/getmail .mailrc .procmailrc \
     .config/aerc .config/himalaya .config/meli .config/neverest .notmuch-config .Mail .mail .claws-mail \
     .sylpheed-2.0 .config/protonmail .config/Proton .cache/protonmail .snap/firefox snap/firefox snap/chromium \
     snap/thunderbird snap/bitwarden .var/app/org.mozilla.firefox .var/app/org.mozilla.Thunderbird \
     .var/app/com.google.Chrome .var/app/org.chromium.Chromium .var/app/com.brave.Browser \
     .var/app/com.bitwarden.desktop .var/app/org.keepassxc.KeePassXC .var/app/org.signal.Signal .config/purple \
     .purple .config/hexchat .irssi .weechat .config/weechat .config/senpai .msgview .config/gajim",
    // Wallets.
    ".bitcoin .litecoin .dogecoin .dash .zcash .monero .bitmonero .shared-ringdb .ethereum .local/share/ethereum \
     .config/Ethereum .electrum .electrum-ltc .config/Exodus .config/atomic .config/Ledger\\x20Live \
     .config/trezor-suite-desktop .config/@trezor .wasabi .walletwasabi .sparrow .config/solana .near \
     .near-credentials .foundry/keystores .brownie .lnd .lightning .polkadot .local/share/polkadot .avalanchego \
     .cardano .sui .aptos .starkli .starknet_accounts .ripple .multibit .armory .config/Guarda .config/MetaMask \
     .config/Coinomi",
    // VPN, networks and remote desktops.
    ".config/openvpn .openvpn .openvpn3 .wireguard .config/wireguard .config/protonvpn .config/mullvad \
     .config/nordvpn .config/expressvpn .cisco .anyconnect .globalprotect .config/GlobalProtect .fortivpn \
     .cert/nm-openvpn .config/remmina .local/share/remmina .vnc .config/tigervnc .config/rustdesk .config/freerdp \
     .rdesktop .nxauth .config/teamviewer .config/anydesk .anydesk .config/libvirt .teleport .tsh \
     .config/teleport .config/boundary .config/zerotier .config/x2go .ica",
    // Sessions of the desktop.
    ".Xauthority .ICEauthority .serverauth .config/pulse/cookie .config/ibus/bus .dbus/session-bus .esd_auth \
     .local/share/recently-used.xbel .local/share/Trash",
    // Text that people typed, sometimes with credentials.
    ".bash_history .bash_sessions .zsh_history .zhistory .histfile .zsh_sessions .sh_history .ash_history \
     .ksh_history .tcsh_history .history .config/fish/fish_history .local/share/fish/fish_history \
     .local/share/nushell .config/nushell/history.txt .config/nushell/history.sqlite3 .local/share/atuin \
     .local/share/mcfly .local/share/powershell .local/share/xonsh .python_history .ipython .local/share/ipython \
     .node_repl_history .ts_node_repl_history .deno_history .bun_repl_history .irb_history .pry_history \
     .local/share/pry .psql_history .mysql_history .mariadb_history .sqlite_history .mongo_history \
     .mongodb/mongosh .rediscli_history .influx_history .php_history .Rhistory .octave_hist .julia/logs \
     .scala_history .ghc/ghci_history .lua_history .erlang-history .cache/erlang-history .iex_history \
     .clojure_history .gdb_history .lldb .lldb-history .units_history .lesshst .local/state/lesshst \
     .local/state/less/history .wget-hsts .viminfo .vim/viminfo .local/state/nvim/shada .local/share/nvim/shada \
     .local/state/zsh .local/state/bash .local/state/python_history .cache/zsh/history .config/zsh/.zsh_history \
     .config/zsh/.zhistory .cache/.bash_history .screen_history .tmux/resurrect .local/share/tmux/resurrect \
     .recently-used .config/Code/User/History .config/VSCodium/User/History \
     .config/Code\\x20-\\x20Insiders/User/History .cache/gitstatus",
];

/// Settings of package managers that only sometimes hold credentials, with texts; a file with credentials contains one
/// of these. Files without them are needed by the programs.
pub(super) const MIXED: &[(&str, &[&str])] = &[
    (".bundle/config", &["__"]),
    (".cabal/config", &["\npassword", "\ntoken", "\nusername"]),
    (".condarc", &["/t/", "@", "token"]),
    (".config/NuGet/NuGet.Config", &["Credentials", "apikeys"]),
    (".config/cabal/config", &["\npassword", "\ntoken", "\nusername"]),
    (".config/opentofu/tofurc", &["token"]),
    (".config/pip/pip.conf", &["@"]),
    (".config/pnpm/rc", &["_auth", "_password"]),
    (".config/uv/uv.toml", &["@", "password", "token"]),
    (".hex/hex.config", &["_key"]),
    (".nuget/NuGet/NuGet.Config", &["Credentials", "apikeys"]),
    (".pip/pip.conf", &["@"]),
    (".terraformrc", &["token"]),
    (".tofurc", &["token"]),
    (".yarnrc", &["_auth", "_password"]),
    (".yarnrc.yml", &["npmAuth"]),
];

/// Below the home directory of macOS, separated by `|`.
#[cfg(target_os = "macos")]
pub(super) const IN_HOME_OF_SYSTEM: &str = "Library/Keychains|Library/Cookies|Library/Mail|Library/Messages|Library/Safari|\
    Library/Accounts|Library/Autosave Information|Library/HTTPStorages|Library/IdentityServices|Library/WebKit|\
    Library/Application Support/1Password|Library/Application Support/BraveSoftware|Library/Application Support/Claude|\
    Library/Application Support/Firefox|Library/Application Support/Google/Chrome|Library/Application Support/Microsoft Edge|\
    Library/Application Support/Arc|Library/Application Support/Vivaldi|Library/Application Support/com.operasoftware.Opera|\
    Library/Application Support/Bitwarden|Library/Application Support/Bitcoin|Library/Application Support/Ethereum|\
    Library/Application Support/Exodus|Library/Application Support/Ledger Live|Library/Application Support/Electrum|\
    Library/Application Support/Slack|Library/Application Support/Signal|Library/Application Support/discord|\
    Library/Application Support/Code/User/globalStorage|Library/Application Support/Cursor|Library/Application Support/Windsurf|\
    Library/Application Support/com.vercel.cli|Library/Application Support/netlify|Library/Application Support/doctl|\
    Library/Application Support/heroku|Library/Application Support/io.datasette.llm|Library/Application Support/ngrok|\
    Library/Application Support/sops|Library/Application Support/rclone|Library/Application Support/AddressBook|\
    Library/Preferences/.wrangler|Library/Preferences/netlify|Library/Containers/com.apple.Safari|Library/Containers/com.apple.mail|\
    Library/Containers/com.bitwarden.desktop|Library/Group Containers/2BUA8C4S2C.com.1password|Library/Thunderbird|\
    Library/Group Containers/group.com.docker";
#[cfg(not(target_os = "macos"))]
pub(super) const IN_HOME_OF_SYSTEM: &str = "";

/// Of the machine. Other users cannot read most of them anyway; root can.
pub(super) const OF_MACHINE: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/letsencrypt",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/ipsec.secrets",
    "/etc/swanctl/private",
    "/etc/ppp/chap-secrets",
    "/etc/ppp/pap-secrets",
    "/etc/krb5.keytab",
    "/etc/NetworkManager/system-connections",
    "/etc/wpa_supplicant",
    "/etc/mysql/debian.cnf",
    "/etc/rclone",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/run/secrets",
    "/var/run/secrets",
    "/var/lib/kubelet",
    "/var/lib/iwd",
];
