//! Installing a package, and newer versions of it.

use super::compare::changes;
use super::fetch::{Fetched, fetch};
use super::manage::current_grants;
use super::review::{about, described};
use super::store_failure::{now, store_failure};
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::files::private::read_settings;
use pinion_app::plugins::installed::HostReader;
use pinion_app::workspace_base::Base;
use pinion_console::approve::confirm::confirm;
use pinion_console::output::terminal::is_interactive;
use pinion_console::output::{Text, json, left, note, print, stdout_failure, text, written};
use pinion_packages::{
    AuthorKey, InstallRequest, InstallationCandidate, InstallationRules, LockedComponent, LockedPackage, LockedRelease,
    Package, PackageFiles, PackageStore, PackagedComponent, PluginLock, compare_versions, shown_source,
    verify_signature,
};
use serde_json::json;
use std::collections::BTreeMap;

/// The way to answer questions and to print the result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answers {
    /// `--yes`.
    pub(super) yes: bool,
    /// `--json`.
    pub(super) as_json: bool,
}

/// Installs a package after the user agreed.
pub(super) async fn add(base: &Base, source: &str, key: Option<&str>, answers: Answers) -> Result<()> {
    let fetched = fetch(base, source).await?;
    let lock = base.package_store()?.read().map_err(store_failure)?;
    let active = lock.package(&fetched.package.name).and_then(LockedPackage::active_release);
    let is_same = |active: &&LockedRelease| active.digest == fetched.package.digest && active.source == fetched.source;
    if let (Some(active), None) = (active.filter(is_same), key) {
        return match answers.as_json {
            true => {
                written(json(&json!({ "name": fetched.package.name, "version": active.version, "updated": false })))
            }
            false => print(&text!("{} {} is already installed\n", fetched.package.name, active.version)),
        };
    }
    let installed = install(base, &fetched, key, answers)?;
    match answers.as_json {
        true => written(json(&installed.report)),
        false => print(&installed.text),
    }
}

/// Installs the present versions of packages from their sources.
pub(super) async fn update(base: &Base, names: &[String], answers: Answers) -> Result<()> {
    let lock = base.package_store()?.read().map_err(store_failure)?;
    if let Some(unknown) = names.iter().find(|name| lock.package(name).is_none()) {
        return Err(Failure::usage(format!("no package `{unknown}` is installed")));
    }
    let is_meant = |package: &&LockedPackage| names.is_empty() || names.contains(&package.name);
    let (mut reports, mut text, mut failed) = (Vec::new(), Text::default(), None);
    for package in lock.packages.iter().filter(is_meant) {
        let Some(release) = package.active_release() else { continue };
        let outcome = match fetch(base, &release.source).await {
            Ok(fetched) if fetched.package.name != package.name => {
                let source = shown_source(&release.source);
                Err(Failure::failed(format!("`{source}` is now a package called `{}`", fetched.package.name)))
            }
            Ok(fetched) if fetched.package.digest == release.digest => {
                reports.push(json!({ "name": package.name, "version": release.version, "updated": false }));
                text.line(text!("{} {} is up to date", package.name, release.version));
                continue;
            }
            Ok(fetched) => install(base, &fetched, None, answers),
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(installed) => {
                text.push(&installed.text);
                reports.push(installed.report);
            }
            Err(failure) => {
                reports.push(json!({ "name": package.name, "error": failure.message() }));
                note(&text!("{}: not updated: {}", package.name, failure.message()));
                failed = Some(failure);
            }
        }
    }
    match answers.as_json {
        true => written(json(&json!({ "packages": reports })))?,
        false => print(&text)?,
    }
    failed.map_or(Ok(()), Err)
}

/// A package that was installed.
struct InstalledReport {
    report: serde_json::Value,
    text: Text,
}

/// Checks a package, asks the user, and installs it.
fn install(base: &Base, fetched: &Fetched, key: Option<&str>, answers: Answers) -> Result<InstalledReport> {
    let (store, package) = (base.package_store()?, &fetched.package);
    let lock = store.read().map_err(store_failure)?;
    let signer = check_signer(&lock, fetched, key)?;
    check_rules(base, fetched, signer.as_ref())?;
    let active = lock.package(&package.name).and_then(LockedPackage::active_release);
    if let Some(active) = active {
        check_newer(active, fetched)?;
    }
    let signed = signed(&lock, package, signer.as_ref());
    let changed = match active {
        Some(active) => Some(changes(&read_active(&store, active)?, package)),
        None => None,
    };
    let mut shown = about(fetched, signed.as_deref());
    let moved = active.filter(|active| active.source != fetched.source);
    if let Some(moved) = moved {
        let source = shown_source(&moved.source);
        shown.line(text!("  {} {} {} from {}", left("replaces", 10), package.name, moved.version, source));
    } else if let (Some(active), Some(changed)) = (active, &changed) {
        shown = text!("{} {} -> {}\n", package.name, active.version, package.version);
        changed.lines().for_each(|line| shown.line(line));
    }
    // The user agreed to another source, so that a package of the same name from here is a new one to them.
    let needs_answer = moved.is_some() || changed.as_ref().is_none_or(|changed| !changed.grown.is_empty());
    agree(&shown, package, needs_answer, answers)?;
    let current = active.map(|active| current_grants(base, &store, active)).transpose()?.unwrap_or_default();
    let granted = package.components.iter().map(|component| {
        let known = active.and_then(|active| active.component(&component.facts.name));
        let name = &component.facts.name;
        (name.clone(), granted(component, known, current.get(name), needs_answer))
    });
    let request = InstallRequest {
        package,
        source: fetched.source.clone(),
        source_digest: fetched.source_digest.clone(),
        signer: signer.as_ref().map(|key| key.as_str().to_owned()),
        granted: granted.collect::<BTreeMap<_, _>>(),
        current: current.clone(),
        // Without an answer, servers stay as they are: nothing about them grew.
        servers: match needs_answer {
            true => package.servers.iter().map(|server| server.name.clone()).collect(),
            false => Vec::new(),
        },
        seen: active.map(|active| active.digest.clone()),
        now: now(),
    };
    store.install(&request, &HostReader).map_err(store_failure)?;
    let mut report = described(fetched, request.signer.as_deref());
    report["grown"] = json!(changed.as_ref().map(|changed| &changed.grown));
    report["reworded"] = json!(changed.as_ref().map(|changed| &changed.reworded));
    report["updated"] = json!(true);
    Ok(InstalledReport { report, text: text!("installed {} {}\n", package.name, package.version) })
}

/// Returns the key that signed a package, and whether it is new.
pub(super) fn signed(lock: &PluginLock, package: &Package, signer: Option<&AuthorKey>) -> Option<String> {
    signer.map(|key| match lock.authors.iter().any(|author| author.package == package.name) {
        true => key.as_str().to_owned(),
        false => format!("{} (seen for the first time)", key.as_str()),
    })
}

/// Returns the grants of a component: everything that can be granted as it is, for a new one. A later version keeps the
/// grants that the user left to the one before, and gets those that are new in it if the user agreed to them.
fn granted(
    component: &PackagedComponent,
    known: Option<&LockedComponent>,
    current: Option<&Vec<String>>,
    is_answered: bool,
) -> Vec<String> {
    let asks = &component.facts.grants;
    let Some(known) = known else { return asks.clone() };
    let kept = current.unwrap_or(&known.granted).clone();
    let new = asks.iter().filter(|ask| is_answered && !known.asked.contains(ask)).cloned();
    kept.into_iter().chain(new).collect()
}

/// Shows a package and waits for the user's agreement.
fn agree(shown: &Text, package: &Package, needs_answer: bool, answers: Answers) -> Result<()> {
    if !answers.as_json || !answers.yes {
        note(shown);
    }
    if !needs_answer || answers.yes {
        return Ok(());
    }
    let name = &package.name;
    if !is_interactive() {
        return Err(Failure::new(Status::Denied, format!("`{name}` was not installed: no terminal to ask on"))
            .hint("--yes agrees to what is listed"));
    }
    match confirm(&text!("Install {} and grant what it asks for?", name)).map_err(stdout_failure)? {
        true => Ok(()),
        false => Err(Failure::new(Status::Denied, format!("`{name}` was not installed"))),
    }
}

/// Returns the key that signed a package. The key of an earlier version has to sign later ones, too.
pub(super) fn check_signer(lock: &PluginLock, fetched: &Fetched, key: Option<&str>) -> Result<Option<AuthorKey>> {
    let package = &fetched.package;
    let known = lock.authors.iter().find(|author| author.package == package.name).map(|author| author.key.as_str());
    let text = match key {
        Some(key) => Some(read_settings(std::path::Path::new(key)).ok().flatten().unwrap_or_else(|| key.to_owned())),
        None => known.map(str::to_owned).or_else(|| fetched.key.clone().filter(|_| fetched.signature.is_some())),
    };
    let refused =
        |why: String| Failure::new(Status::Denied, format!("`{}` is not installed", package.name)).because(why);
    let Some(text) = text else { return Ok(None) };
    let expected = AuthorKey::parse(&text).map_err(|error| Failure::usage("invalid key").because(error))?;
    let (Some(content), Some(signature)) = (&fetched.content, &fetched.signature) else {
        return Err(refused(format!("it is not signed by {}", expected.as_str())));
    };
    let about = (package.name.as_str(), package.version.as_str());
    verify_signature(&expected, content, signature, about, now()).map_err(|error| {
        let failure = refused(error);
        if known.is_some() { failure.hint("if the author has a new key, name it with --key") } else { failure }
    })?;
    Ok(Some(expected))
}

/// Checks the user's rules.
pub(super) fn check_rules(base: &Base, fetched: &Fetched, signer: Option<&AuthorKey>) -> Result<()> {
    let path = base.paths.plugin_rules_file();
    let invalid = || Failure::usage(format!("invalid rules `{}`", path.display()));
    let Some(text) = read_settings(&path).map_err(|error| invalid().because(error))? else { return Ok(()) };
    let rules = InstallationRules::parse(&text).map_err(|error| invalid().because(error))?;
    let package = &fetched.package;
    let mut digests = vec![package.digest.clone()];
    digests.extend(fetched.source_digest.clone());
    digests.extend(package.components.iter().map(|component| component.digest.clone()));
    let candidate = InstallationCandidate {
        source: &fetched.source,
        origin: fetched.origin.as_deref(),
        name: &package.name,
        digests: &digests,
        signer: signer.map(AuthorKey::as_str),
        published: fetched.published,
        now: now(),
    };
    rules.check(&candidate).map_err(|violation| {
        Failure::new(Status::Denied, format!("`{}` is not installed", package.name))
            .because(violation)
            .hint(format!("the rules are in {}", path.display()))
    })
}

/// Refuses an older version, and other content under a version that a remote source had before.
fn check_newer(active: &LockedRelease, fetched: &Fetched) -> Result<()> {
    let package = &fetched.package;
    let refused = |why: String| Failure::new(Status::Denied, format!("`{}` is not updated", package.name)).because(why);
    match compare_versions(&package.version, &active.version) {
        std::cmp::Ordering::Less => {
            Err(refused(format!("version {} is older than {}, which is installed", package.version, active.version))
                .hint("remove the package to install an older version"))
        }
        std::cmp::Ordering::Equal if fetched.source_digest.is_some() && package.digest != active.digest => {
            Err(refused(format!("its source has other content as version {} than before", active.version))
                .hint("remove the package if you want the new content"))
        }
        _ => Ok(()),
    }
}

/// Reads the active version from the store.
pub(super) fn read_active(store: &PackageStore, active: &LockedRelease) -> Result<Package> {
    let files = PackageFiles::read_directory(&store.directory(&active.digest));
    let package = files.and_then(|files| Package::read(files, "package", &HostReader));
    match package {
        Ok(package) if package.digest == active.digest => Ok(package),
        Ok(_) => Err(Failure::failed("the installed version was changed").hint("see: pinion plugin verify")),
        Err(error) => Err(Failure::failed("the installed version is not readable").because(error)),
    }
}
