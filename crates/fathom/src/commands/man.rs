//! `fathom man`: the manual page, made from the definition of the command line.

use super::CommandResult;
use crate::args::Args;
use crate::exit::Exit;
use crate::output::Output;
use clap::{Arg, ArgAction, Command, CommandFactory};
use std::fmt::Write;

/// Prints the page in the language of manual pages.
pub fn run(output: Output) -> CommandResult {
    // The page is the result, also for programs.
    Output { json: false, ..output }.text(&page())?;
    Ok(Exit::Done)
}

const ENDINGS: &[(&str, &str)] = &[
    ("0", "Done."),
    (
        "1",
        "Done, but the verdict is doubtful or void, a comparison found a regression, or a watched command failed.",
    ),
    ("2", "Usage error: an option, value or target is wrong. Nothing was done."),
    ("3", "Refused, because data or another measurement is in danger."),
    ("4", "The system lacks something that is needed."),
    ("5", "The target failed, or does not hold what must be there."),
    ("6", "The store, the output or fathom itself failed."),
    (
        "130",
        "Interrupted. Settings and test files were put back, unless a second signal ended fathom at once: then run fathom restore.",
    ),
];

const PLACES: &[(&str, &str)] = &[
    ("$FATHOM_DB", "The store of results, when --db does not name one."),
    ("/var/lib/fathom/fathom.db", "The store of root."),
    ("~/.local/state/fathom/fathom.db", "The store of other users."),
    ("DIR/.fathom-ID/", "Test files while they are needed."),
];

/// The whole page.
fn page() -> String {
    let mut command = Args::command();
    command.build();
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!(".TH FATHOM 1 \"\" \"fathom {version}\" \"User Commands\"\n.SH NAME\n");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.trim_end_matches('.');
    let about = about.strip_prefix('M').map_or(about.to_owned(), |rest| format!("m{rest}"));
    let _ = writeln!(out, "fathom \\- {}", escaped(&about));
    out += ".SH SYNOPSIS\n.B fathom\n.I COMMAND\n[\\fIOPTIONS\\fR] ...\n.SH DESCRIPTION\n";
    let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
    paragraphs(&mut out, &long);
    out += ".SH OPTIONS\nEvery command has these:\n";
    let common: Vec<&Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).collect();
    common.iter().for_each(|arg| option(&mut out, arg));
    out += ".SH COMMANDS\n";
    commands(&mut out, &command, "fathom");
    for (title, all) in [("EXIT STATUS", ENDINGS), ("FILES AND ENVIRONMENT", PLACES)] {
        let _ = writeln!(out, ".SH {title}");
        for (name, text) in all {
            let _ = writeln!(out, ".TP\n.B {}\n{}", escaped(name), escaped(text));
        }
    }
    out
}

fn commands(out: &mut String, command: &Command, before: &str) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = format!("{before} {}", sub.get_name());
        let _ = writeln!(out, ".SS {}", escaped(&usage(sub, &name)));
        let about = sub.get_long_about().or(sub.get_about()).map(ToString::to_string);
        paragraphs(out, &format!("{}.", about.unwrap_or_default()));
        let own = sub.get_arguments().filter(|arg| !arg.is_global_set() && arg.get_id() != "help");
        own.filter(|arg| !arg.is_hide_set()).for_each(|arg| option(out, arg));
        if let Some(after) = sub.get_after_help() {
            // As it stands: it has examples with columns.
            let _ = writeln!(out, ".PP\n.nf");
            after.to_string().lines().for_each(|line| {
                let _ = writeln!(out, "{}", escaped(line));
            });
            out.push_str(".fi\n");
        }
        commands(out, sub, &name);
    }
}

/// What follows the name of a command: its arguments in their order.
fn usage(command: &Command, name: &str) -> String {
    let mut usage = name.to_owned();
    for arg in command.get_arguments().filter(|arg| arg.is_positional()) {
        let value = value_name(arg);
        let dots = if matches!(arg.get_action(), ArgAction::Append) { "..." } else { "" };
        usage += &if arg.is_required_set() {
            format!(" {value}{dots}")
        } else {
            format!(" [{value}]{dots}")
        };
    }
    usage
}

fn value_name(arg: &Arg) -> String {
    let named = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
    named.unwrap_or_else(|| arg.get_id().to_string().to_uppercase())
}

fn option(out: &mut String, arg: &Arg) {
    let is_switch =
        matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Help | ArgAction::Version);
    let mut names = Vec::new();
    names.extend(arg.get_short().map(|short| format!("-{short}")));
    names.extend(arg.get_long().map(|long| format!("--{long}")));
    let mut term = names
        .iter()
        .map(|name| format!("\\fB{}\\fR", escaped(name)))
        .collect::<Vec<_>>()
        .join(", ");
    if arg.is_positional() {
        term = format!("\\fI{}\\fR", escaped(&value_name(arg)));
    } else if !is_switch {
        term += &format!("=\\fI{}\\fR", escaped(&value_name(arg)));
    }
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    if !is_switch && !values.is_empty() {
        let names: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        help += &format!(": {}", names.join(", "));
    }
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults: Vec<_> = defaults.filter(|_| !is_switch).collect();
    if !defaults.is_empty() {
        help += &format!(" [default: {}]", defaults.join(" "));
    }
    let _ = writeln!(out, ".TP\n{term}\n{}", escaped(&help));
}

fn paragraphs(out: &mut String, text: &str) {
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let _ = writeln!(out, ".PP\n{}", escaped(paragraph));
    }
}

/// Text that is nothing but text there.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| match line.chars().next() {
        Some('.' | '\'') => format!("\\&{line}"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_and_only_known_requests() {
        let page = page();
        for sub in Args::command().get_subcommands() {
            assert!(
                page.contains(&format!("\n.SS fathom {}", sub.get_name())),
                "{}",
                sub.get_name()
            );
        }
        for line in page.lines().filter(|line| line.starts_with('.') || line.starts_with('\'')) {
            let request = line.split(' ').next().unwrap_or_default();
            assert!(
                [".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".I", ".nf", ".fi"].contains(&request),
                "{line}"
            );
        }
        assert!(page.is_ascii());
    }
}
