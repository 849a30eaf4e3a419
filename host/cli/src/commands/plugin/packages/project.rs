//! The packages that a project names: their installation, and new rows of its file.

use super::add::{Answers, check_rules, check_signer, signed};
use super::fetch::{Fetched, fetch};
use super::review::{about, described};
use super::store_failure::{now, store_failure};
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::files::paths::PROJECT_PLUGINS;
use pinion_app::plugins::installed::HostReader;
use pinion_app::plugins::project_packages::PackageStanding;
use pinion_app::workspace_base::Base;
use pinion_console::approve::confirm::confirm;
use pinion_console::output::terminal::is_interactive;
use pinion_console::output::{Text, count, json, note, print, stdout_failure, text, written};
use pinion_packages::{InstallRequest, PackageSource, ProjectPackage, is_on_this_machine, shown_source};
use serde_json::{Value, json};
use std::path::Path;

/// A package that can be installed once the user agrees.
struct Candidate {
    fetched: Fetched,
    signer: Option<String>,
    /// The text that the user agrees to.
    shown: Text,
}

/// Installs the packages that the project names and that are not installed, after one question about all of them.
pub(super) async fn install(base: &Base, answers: Answers) -> Result<()> {
    let missing = missing(base)?;
    let total = base.project_packages()?.len();
    let (reports, failed) = install_all(base, &missing, answers).await?;
    let installed = reports.iter().filter(|report| report["error"].is_null()).count();
    if answers.as_json {
        written(json(&json!({ "packages": reports })))?;
    } else if missing.is_empty() {
        print(&text!("{} of this project installed\n", count(total as u64, "plugin")))?;
    } else if installed > 0 {
        print(&text!("installed {} for this project\n", count(installed as u64, "plugin")))?;
    }
    failed.map_or(Ok(()), Err)
}

/// Offers to install the packages that the project names, before a conversation begins. A refusal is no failure: the
/// conversation begins without them, with a notice.
pub(crate) async fn offer_at_start(base: &Base) -> Result<()> {
    if !is_interactive() {
        return Ok(());
    }
    // The notice of the start names an invalid file.
    let Ok(missing) = missing(base) else { return Ok(()) };
    if missing.is_empty() || base.config.project.has_refused_packages(&base.paths) {
        return Ok(());
    }
    match install_all(base, &missing, Answers { yes: false, as_json: false }).await {
        Err(failure) if failure.status == Status::Denied => base.config.project.refuse_packages(&base.paths),
        Err(failure) => Err(failure),
        Ok(_) => Ok(()),
    }
}

/// Returns the packages that the project names and that are not installed.
fn missing(base: &Base) -> Result<Vec<ProjectPackage>> {
    let project = &base.config.project;
    if project.is_untrusted() || project.is_changed() {
        let why = "the plugins of this project are not installed, because the directory is not trusted";
        return Err(Failure::new(Status::Denied, why).hint("review it with: pinion trust add"));
    }
    let standings = base.project_standings()?;
    if standings.is_empty() {
        return Err(Failure::usage(format!("this project names no plugins in `{PROJECT_PLUGINS}`"))
            .hint("name one with: pinion plugin add SOURCE --project"));
    }
    let is_missing = |standing: &PackageStanding| matches!(standing, PackageStanding::Missing { .. });
    Ok(standings.into_iter().filter(|(_, standing)| is_missing(standing)).map(|(package, _)| package).collect())
}

/// Fetches packages, asks once about those that are as the project names them, and installs these. Returns a report on
/// each package, and the first failure.
async fn install_all(
    base: &Base,
    missing: &[ProjectPackage],
    answers: Answers,
) -> Result<(Vec<Value>, Option<Failure>)> {
    let (mut candidates, mut reports, mut failed) = (Vec::new(), Vec::new(), None);
    let refuse =
        |package: &ProjectPackage, failure: Failure, reports: &mut Vec<Value>, failed: &mut Option<Failure>| {
            reports.push(json!({ "name": package.name, "error": failure.message() }));
            note(&text!("{}: not installed: {}", package.name, failure.message()));
            failed.get_or_insert(failure);
        };
    for package in missing {
        match candidate(base, package).await {
            Ok(candidate) => candidates.push((package, candidate)),
            Err(failure) => refuse(package, failure, &mut reports, &mut failed),
        }
    }
    agree(&candidates, answers)?;
    for (package, candidate) in candidates {
        match keep(base, &candidate) {
            Ok(()) => reports.push(described(&candidate.fetched, candidate.signer.as_deref())),
            Err(failure) => refuse(package, failure, &mut reports, &mut failed),
        }
    }
    Ok((reports, failed))
}

/// Fetches a package, and checks that it is exactly the one that the project names.
async fn candidate(base: &Base, package: &ProjectPackage) -> Result<Candidate> {
    check_source(base, &package.source)?;
    let fetched = fetch(base, &package.source).await?;
    let (found, refused) = (&fetched.package, |why: String| Failure::new(Status::Denied, why));
    if found.name != package.name {
        return Err(refused(format!("its source has a package called `{}`", found.name)));
    }
    if found.digest != package.digest {
        let found = if found.version == package.version {
            format!("{} (version {})", found.digest, found.version)
        } else {
            format!("{} (version {}, not {})", found.digest, found.version, package.version)
        };
        return Err(refused(format!("its digest is {found}, but `{PROJECT_PLUGINS}` names {}", package.digest)));
    }
    review(base, fetched, None)
}

/// Checks the signer and the user's rules, and describes a package.
fn review(base: &Base, fetched: Fetched, key: Option<&str>) -> Result<Candidate> {
    let lock = base.package_store()?.read().map_err(store_failure)?;
    let signer = check_signer(&lock, &fetched, key)?;
    check_rules(base, &fetched, signer.as_ref())?;
    let shown = about(&fetched, signed(&lock, &fetched.package, signer.as_ref()).as_deref());
    Ok(Candidate { signer: signer.map(|key| key.as_str().to_owned()), fetched, shown })
}

/// Shows packages, and waits for the user's agreement to all of them.
fn agree(candidates: &[(&ProjectPackage, Candidate)], answers: Answers) -> Result<()> {
    if candidates.is_empty() {
        return Ok(());
    }
    if !answers.as_json || !answers.yes {
        candidates.iter().for_each(|(_, candidate)| note(&candidate.shown));
    }
    if answers.yes {
        return Ok(());
    }
    let these = count(candidates.len() as u64, "plugin");
    if !is_interactive() {
        let why = format!("{these} of this project not installed: no terminal to ask on");
        return Err(Failure::new(Status::Denied, why).hint("agree to what is listed with: pinion plugin install --yes"));
    }
    let question = text!("Install {} for this project and grant what is asked for?", these);
    match confirm(&question).map_err(stdout_failure)? {
        true => Ok(()),
        false => Err(Failure::new(Status::Denied, format!("{these} of this project not installed"))),
    }
}

/// Installs a package for projects that name it.
fn keep(base: &Base, candidate: &Candidate) -> Result<()> {
    let Candidate { fetched, signer, .. } = candidate;
    let components = fetched.package.components.iter();
    let request = InstallRequest {
        package: &fetched.package,
        source: fetched.source.clone(),
        source_digest: fetched.source_digest.clone(),
        signer: signer.clone(),
        granted: components.map(|part| (part.facts.name.clone(), part.facts.grants.clone())).collect(),
        current: Default::default(),
        // Servers belong to the active version of a package, and this one is active for the project's plugins alone.
        servers: Vec::new(),
        seen: None,
        now: now(),
    };
    base.package_store()?.keep(&request, &HostReader).map_err(store_failure)
}

/// Installs a package for this project, and names it in the project's file.
pub(super) async fn add(base: &Base, source: &str, key: Option<&str>, answers: Answers) -> Result<()> {
    let fetched = fetch(base, source).await?;
    let package = &fetched.package;
    let row = ProjectPackage {
        name: package.name.clone(),
        source: shared_source(base, &fetched)?,
        version: package.version.clone(),
        digest: package.digest.clone(),
    };
    let store = base.package_store()?;
    let lock = store.read().map_err(store_failure)?;
    let is_known = |release: &pinion_packages::LockedRelease| release.digest == row.digest;
    let is_installed = lock.package(&row.name).is_some_and(|known| known.releases.iter().any(is_known));
    let candidate = review(base, fetched, key)?;
    if !is_installed {
        let candidates = [(&row, candidate)];
        agree(&candidates, answers)?;
        let [(_, candidate)] = &candidates;
        keep(base, candidate)?;
    }
    let (name, version) = (row.name.clone(), row.version.clone());
    let report = json!({ "name": name, "version": version, "source": row.source, "digest": row.digest });
    base.name_project_package(row)?;
    match answers.as_json {
        true => written(json(&report)),
        false => print(&text!("named {} {} in {}\n", name, version, PROJECT_PLUGINS)),
    }?;
    if !base.config.project.is_trusted() {
        note(&text!("the project uses it once you trust it: pinion trust add"));
    }
    Ok(())
}

/// Returns the source of a package as all who have the project can use it.
fn shared_source(base: &Base, fetched: &Fetched) -> Result<String> {
    let parsed = PackageSource::parse(&fetched.source, &base.workspace).map_err(Failure::usage)?;
    let source = match &parsed {
        PackageSource::Path(path) => relative(base, path),
        PackageSource::Marketplace(place, name) if !place.contains("://") => {
            relative(base, Path::new(place)).map(|place| format!("{place}#{name}"))
        }
        PackageSource::Indexed(name, _) => Some(format!("{name}@{}", fetched.package.version)),
        PackageSource::Web(_) | PackageSource::Oci(_) | PackageSource::Marketplace(..) => Some(fetched.source.clone()),
    };
    let source = source.ok_or_else(|| {
        Failure::usage(format!("`{}` is outside the project, where others do not have it", fetched.source))
            .hint("copy it into the project, or name an address")
    })?;
    check_source(base, &source)?;
    Ok(source)
}

/// Returns the path of a file in the project, from its directory.
fn relative(base: &Base, path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    Some(format!("./{}", path.strip_prefix(&base.workspace).ok()?.to_str()?))
}

/// Checks that the project's source is neither a file outside of it nor a server on this machine: only the user can name
/// such sources.
fn check_source(base: &Base, source: &str) -> Result<()> {
    let parsed = PackageSource::parse(source, &base.workspace).map_err(Failure::failed)?;
    let is_inside = |path: &Path| match path.canonicalize() {
        Ok(path) => path.starts_with(&base.workspace),
        // Reading it says that it is missing.
        Err(_) => true,
    };
    let is_shared = match &parsed {
        PackageSource::Path(path) => is_inside(path),
        PackageSource::Marketplace(place, _) if !place.contains("://") => is_inside(&base.workspace.join(place)),
        PackageSource::Marketplace(place, _) => !is_on_this_machine(place),
        PackageSource::Web(_) | PackageSource::Oci(_) => !is_on_this_machine(source),
        PackageSource::Indexed(..) => true,
    };
    match is_shared {
        true => Ok(()),
        false => Err(Failure::new(
            Status::Denied,
            format!("a project cannot name `{}`, which is on this machine", shown_source(source)),
        )),
    }
}
