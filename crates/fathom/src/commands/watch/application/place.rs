//! How a recipe's scripts run: with an environment of their own, and servers as a user without rights.

use fathom_base::shell;
use fathom_sys::child;
use fathom_sys::process;
use fathom_sys::sysroot::SysRoot;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What no shell, no list and no setting of a server takes for anything but a name.
const NO_NAMES: &[char] = &['\'', '"', '\\', ','];

/// The words for a script: as the user without rights, who is ended with fathom, and with nothing of the caller's environment but the
/// path, so that no setting in it leads to another server.
pub fn command(
    place: &Path,
    settings: impl Iterator<Item = (String, String)>,
    user: Option<(u32, u32)>,
    mark: &str,
    script: &str,
) -> Vec<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut words: Vec<OsString> = Vec::new();
    if let Some((uid, gid)) = user {
        // The kernel forgets whose end it was to follow when the user changes.
        let ids = [format!("--reuid={uid}"), format!("--regid={gid}")];
        words.push("setpriv".into());
        words.extend(ids.map(OsString::from));
        words.extend(["--clear-groups", "--pdeathsig=KILL", "--"].map(OsString::from));
    }
    let with = |name: &str, value: &OsStr| {
        let mut word = OsString::from(format!("{name}="));
        word.push(value);
        word
    };
    words.extend(["/usr/bin/env", "-i", "LC_ALL=C"].map(OsString::from));
    words.push(with("PATH", &path));
    words.push(with(child::MARK, mark.as_ref()));
    for name in ["FATHOM_DIR", "HOME", "TMPDIR"] {
        words.push(with(name, place.as_os_str()));
    }
    words.extend(settings.map(|(key, value)| format!("FATHOM_{key}={value}").into()));
    words.extend(["/bin/sh", "-c", script].map(OsString::from));
    words
}

/// A user without rights: of that name, else nobody; none for who has no rights anyway.
pub fn user_without_rights(root: &SysRoot, name: &str) -> Option<(u32, u32)> {
    let passwd = process::is_root().then(|| root.read("etc/passwd").unwrap_or_default())?;
    [name, "nobody"].iter().find_map(|name| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let fields: Vec<&str> = line.split(':').collect();
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    })
}

/// Why servers cannot work in a directory: its name would mean something else to them.
pub fn unfit_for_servers(path: &Path) -> Option<String> {
    let is_bad = |c: char| NO_NAMES.contains(&c) || c.is_control();
    path.to_string_lossy().contains(is_bad).then(|| {
        format!(
            "{}: the path has a quotation mark, comma, backslash or control character, which the server would take for something \
             else; choose another directory",
            path.display()
        )
    })
}

/// The first directory on the way to a place that others may not pass.
pub fn closed_to_others(path: &Path) -> Option<String> {
    let is_closed = |dir: &&Path| fs::metadata(dir).is_ok_and(|meta| meta.mode() & 0o001 == 0);
    let closed =
        path.parent()?.ancestors().collect::<Vec<_>>().into_iter().rev().find(is_closed)?;
    let word = shell::word(closed.as_os_str());
    Some(format!(
        "{}: the recipe runs as a user without rights, who may not pass this directory; choose another one, or: chmod o+x {word}",
        closed.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_get_nothing_of_the_callers_environment() {
        let settings = [("scale".to_owned(), "5".to_owned())].into_iter();
        let words = command(Path::new("/srv/x"), settings, Some((5, 6)), "watch 1", "exit");
        let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        assert_eq!(words[..2], ["setpriv", "--reuid=5"]);
        assert!(words.contains(&"--pdeathsig=KILL"));
        let env = words.iter().position(|word| *word == "/usr/bin/env").expect("there");
        assert_eq!(words[env + 1], "-i");
        for word in ["FATHOM_PROGRAM=watch 1", "HOME=/srv/x", "FATHOM_scale=5"] {
            assert!(words[env..].contains(&word), "{word}");
        }
        assert_eq!(words[words.len() - 3..], ["/bin/sh", "-c", "exit"]);
    }

    #[test]
    fn names_that_mean_something_to_a_server_are_refused() {
        for bad in ["/srv/it's", "/srv/a,b", "/srv/\"a", "/srv/a\\b", "/srv/a\nb"] {
            assert!(unfit_for_servers(Path::new(bad)).is_some(), "{bad:?}");
        }
        assert_eq!(unfit_for_servers(Path::new("/srv/my data-1.2")), None);
    }
}
