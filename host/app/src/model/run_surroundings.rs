//! The values of a run that its recording does not depend on.

use crate::files::paths::{Paths, home};
#[cfg(unix)]
use crate::files::private::open_regular;
use jiff::civil::Date;
use pinion_providers::RunSurroundings;
use std::path::Path;

/// The database of users, one per line.
#[cfg(unix)]
const USERS: &str = "/etc/passwd";

/// Collects the values of a run on `date`: its directories, the system in its prompt, and the user's names.
pub(crate) fn run_surroundings(paths: &Paths, workspace: &Path, date: Date) -> RunSurroundings {
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let surroundings = RunSurroundings::new(date)
        .with_text("system", system)
        .with_directory("directory", workspace)
        .with_directories_of_runs(&paths.output());
    let surroundings = home().iter().fold(surroundings, |known, home| known.with_directory("home", home));
    let surroundings = surroundings
        .with_directory("config", &paths.config)
        .with_directory("data", &paths.data)
        .with_directory("cache", &paths.cache);
    user_names().iter().fold(surroundings, |known, name| known.with_user(name))
}

/// Returns the user's names: in the environment, and in the database of users, which programs show.
fn user_names() -> Vec<String> {
    let variables = ["USER", "LOGNAME", "USERNAME"];
    let named = variables.iter().filter_map(|name| std::env::var(name).ok()).filter(|name| !name.is_empty());
    let mut names: Vec<String> = stored_name().into_iter().chain(named).collect();
    names.dedup();
    names
}

#[cfg(unix)]
fn stored_name() -> Option<String> {
    let file = open_regular(Path::new(USERS), std::fs::OpenOptions::new().read(true)).ok()?;
    name_of(&std::io::read_to_string(file).ok()?, rustix::process::getuid().as_raw())
}

#[cfg(not(unix))]
fn stored_name() -> Option<String> {
    None
}

/// Returns the name of a user in the text of the database.
#[cfg(unix)]
fn name_of(users: &str, id: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[cfg(unix)]
    #[test]
    fn name_is_found_by_its_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbad\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!((name_of(users, 1000).as_deref(), name_of(users, 0).as_deref()), (Some("ada"), Some("root")));
        assert_eq!(name_of(users, 7), None);
    }

    #[test]
    fn workspace_comes_before_directories_with_the_same_path() {
        let work = std::env::temp_dir().join("pinion-no-such-directory");
        let paths = Paths { config: work.clone(), data: work.join("data"), cache: work.join("cache") };
        let values = format!("{:?}", run_surroundings(&paths, &work, date(2026, 1, 2)));
        assert!(values.contains("\"directory\"") && !values.contains("\"config\""), "{values}");
    }
}
