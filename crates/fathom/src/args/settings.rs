//! Settings that were written as options.

use super::Args;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use fathom_base::shell;
use fathom_model::{elsewhere, fsop_keys, keys, play_keys};
use std::ffi::OsString;
use std::path::Path;

/// A word that is no text: which it is, and what to do. None for all other errors.
pub fn not_text(error: &clap::Error, mut words: impl Iterator<Item = OsString>) -> Option<String> {
    if error.kind() != ErrorKind::InvalidUtf8 {
        return None;
    }
    words.find(|word| word.to_str().is_none()).map(|word| not_utf8(Path::new(&word)))
}

/// What helps depends on what it is: only what is there can have another name.
fn not_utf8(path: &Path) -> String {
    let word = shell::word(path);
    let has_text = path.file_name().is_some_and(|name| name.to_str().is_some());
    let parent = path.parent().filter(|dir| has_text && dir.is_dir());
    let cure = if path.is_dir() {
        format!(
            "give another path to it, such as the one that this makes: mount --bind {word} /mnt"
        )
    } else if let Some(dir) = parent {
        let dir = shell::path(dir);
        format!("give another path to it, such as one below /mnt after: mount --bind {dir} /mnt")
    } else if path.symlink_metadata().is_ok() {
        format!("give it another name, as this does: ln {word} NAME")
    } else {
        return format!(
            "{word} has bytes that are not UTF-8: runs, workloads, settings and new files have names that are text, and no path of \
             that name is there"
        );
    };
    format!(
        "{word} has bytes that are not UTF-8, and results are noted by names that are text: {cure}"
    )
}

/// A setting that was written as an option, such as `--threads=4`: what to write instead. None for all other errors, and for
/// commands that take no settings.
pub fn meant_setting(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let takes_settings = |command: &clap::Command| {
        words.iter().any(|word| word == command.get_name())
            && command
                .get_positionals()
                .filter_map(|positional| positional.get_value_names())
                .any(|names| names.iter().any(|name| name.ends_with("KEY=VALUE")))
    };
    let takes_settings = Args::command().get_subcommands().any(takes_settings);
    let Some(name) = wrong.strip_prefix("--") else {
        // Those of iozone, tiotest, bonnie++, hdparm.
        return takes_settings.then(|| {
            format!(
                "{wrong}: is no option; what other tools take as options are settings here, such as size=4G threads=4: \
                 fathom workloads NAME lists them"
            )
        });
    };
    let files = fsop_keys::KEYS.iter().chain(play_keys::KEYS).map(|key| key.name);
    let is_key = keys::KEYS.iter().map(|key| key.name).chain(files).any(|key| key == name);
    let meant = elsewhere::of_others(name).filter(|_| !is_key);
    if !(is_key || meant.is_some()) || !takes_settings {
        return None;
    }
    if let Some(meant) = meant {
        // What is no setting stands elsewhere on the line.
        let how = if meant.starts_with("the ") { "" } else { ", without hyphens" };
        return Some(format!("{wrong}: is no option; here it is {meant}{how}"));
    }
    let value = words.iter().find_map(|word| word.strip_prefix(wrong.as_str())?.strip_prefix('='));
    if name == "target" {
        let target = shell::word(value.unwrap_or("TARGET"));
        return Some(format!(
            "{wrong}: is no option; the target comes after the workload: fathom run randread {target}"
        ));
    }
    let value = value.unwrap_or("VALUE");
    Some(format!("{wrong}: is a setting and takes no hyphens: {name}={}", shell::word(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    /// What is advised for names that are no text can be done.
    #[test]
    fn what_is_advised_for_a_name_that_is_no_text_can_be_done() {
        let odd = OsStr::from_bytes(b"a\xff");
        let base = std::env::temp_dir().join(format!("fathom-odd-{}", std::process::id()));
        let (dir, inside) = (base.join(odd), base.join(odd).join("load.toml"));
        let file = base.join(OsStr::from_bytes(b"\xff.toml"));
        std::fs::create_dir_all(&dir).expect("made");
        for file in [&inside, &file] {
            std::fs::write(file, "").expect("written");
        }
        let bind = format!("mount --bind {} /mnt", shell::path(&dir));
        assert!(not_utf8(&dir).ends_with(&bind), "{}", not_utf8(&dir));
        for inside in [inside, dir.join("new")] {
            assert!(not_utf8(&inside).ends_with(&bind), "{}", not_utf8(&inside));
        }
        let said = not_utf8(&file);
        let command = said.split(": ").last().expect("a command").replace("NAME", "plain");
        let done = Command::new("bash").arg("-c").arg(&command).current_dir(&base).status();
        assert!(done.expect("a shell").success() && base.join("plain").exists(), "{command}");
        for none in [odd.to_owned(), base.join("none").join(odd).into_os_string()] {
            let said = not_utf8(Path::new(&none));
            assert!(!said.contains("mount") && said.contains("no path of that name"), "{said}");
        }
        std::fs::remove_dir_all(base).expect("nobody else uses it");
    }
}
