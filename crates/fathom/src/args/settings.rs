//! Settings that were written as options.

use super::Args;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use fathom_base::shell;
use fathom_model::{elsewhere, fsop_keys, keys, play_keys};
use std::ffi::OsString;

/// A word that is no text: which it is, and what to do. None for all other errors.
pub fn not_text(error: &clap::Error, mut words: impl Iterator<Item = OsString>) -> Option<String> {
    if error.kind() != ErrorKind::InvalidUtf8 {
        return None;
    }
    let word = words.find(|word| word.to_str().is_none()).map(shell::word)?;
    Some(format!(
        "{word} has bytes that are not UTF-8, and results are noted by names that are text: give another path to it, such as the \
         one that this makes: mount --bind {word} /mnt"
    ))
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
