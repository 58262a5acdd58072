//! `fathom completions`: scripts for shells, made from the definition of the command line.

use super::CommandResult;
use crate::args::{Args, Completions, Shell};
use crate::exit::Exit;
use crate::output::Output;
use clap::{Arg, ArgAction, Command, CommandFactory};
use std::fmt::Write;

/// Prints the script of a shell.
pub fn run(output: Output, args: &Completions) -> CommandResult {
    let places = places();
    let script = match args.shell {
        Shell::Bash => bash(&places),
        Shell::Zsh => zsh(&places),
        Shell::Fish => fish(&places),
    };
    // The script is the result, also for programs.
    Output { json: false, ..output }.text(&script)?;
    Ok(Exit::Done)
}

/// A command, or the place before one is typed.
struct Place {
    /// The words that lead there: `tree build`; empty at the begin.
    path: String,
    /// The names of its commands with what they do.
    commands: Vec<(String, String)>,
    /// Its options.
    options: Vec<Choice>,
    /// Words that may stand where no option does.
    words: Vec<String>,
}

/// An option.
struct Choice {
    long: String,
    short: Option<char>,
    help: String,
    /// The name of its value; none for a switch.
    value: Option<String>,
    /// The values that it may have, when these are few.
    values: Vec<String>,
}

impl Choice {
    fn of(arg: &Arg) -> Option<Self> {
        let takes =
            !matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Help | ArgAction::Version);
        let named = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
        Some(Self {
            long: arg.get_long()?.to_owned(),
            short: arg.get_short(),
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
            value: takes.then(|| named.unwrap_or_else(|| "VALUE".to_owned())),
            values: values(arg),
        })
    }
}

fn values(arg: &Arg) -> Vec<String> {
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let all = arg.get_possible_values();
    all.iter().filter(|_| !is_switch).map(|value| value.get_name().to_owned()).collect()
}

/// All places of the command line, the begin first.
fn places() -> Vec<Place> {
    let mut command = Args::command();
    command.build();
    let mut all = Vec::new();
    collect(&command, String::new(), &mut all);
    all
}

fn collect(command: &Command, path: String, all: &mut Vec<Place>) {
    let about =
        |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let subs = || command.get_subcommands().filter(|sub| sub.get_name() != "help");
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    all.push(Place {
        commands: subs().map(|sub| (sub.get_name().to_owned(), about(sub))).collect(),
        options: shown().filter_map(Choice::of).collect(),
        words: shown().filter(|arg| arg.is_positional()).flat_map(values).collect(),
        path: path.clone(),
    });
    for sub in subs() {
        let path = if path.is_empty() {
            sub.get_name().to_owned()
        } else {
            format!("{path} {}", sub.get_name())
        };
        collect(sub, path, all);
    }
}

/// Only these shells' own characters would do harm in the texts.
fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''")
}

/// One line: what stands before the first end of a sentence or line.
fn short(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// Finds the place from the words before the cursor, in bash and zsh.
fn finds_place(out: &mut String, places: &[Place], words: &str) {
    let paths: Vec<String> =
        places.iter().filter(|p| !p.path.is_empty()).map(|p| format!("'{}'", p.path)).collect();
    let _ = writeln!(
        out,
        "    local place= word\n    for word in {words}; do\n        case \"${{place:+$place }}$word\" in\n            {}) place=\"${{place:+$place }}$word\" ;;\n        esac\n    done",
        paths.join("|")
    );
}

fn bash(places: &[Place]) -> String {
    let mut out = String::from("# Completion of fathom for bash.\n_fathom() {\n");
    out += "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n";
    out += "    COMPREPLY=()\n";
    // bash takes --name=value apart.
    out += "    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n";
    finds_place(&mut out, places, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"");
    out += "    case \"$place $prev\" in\n";
    for place in places {
        for option in place.options.iter().filter(|option| option.value.is_some()) {
            let mut names = format!("'{} --{}'", place.path, option.long);
            if let Some(short) = option.short {
                let _ = write!(names, "|'{} -{short}'", place.path);
            }
            let _ = if option.values.is_empty() {
                writeln!(out, "        {names}) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;")
            } else {
                let values = option.values.join(" ");
                writeln!(
                    out,
                    "        {names}) COMPREPLY=($(compgen -W '{values}' -- \"$cur\")); return ;;"
                )
            };
        }
    }
    out += "    esac\n    local options= words=\n    case \"$place\" in\n";
    for place in places {
        let options: Vec<String> = place.options.iter().map(|o| format!("--{}", o.long)).collect();
        let mut words: Vec<&str> = place.commands.iter().map(|(name, _)| name.as_str()).collect();
        words.extend(place.words.iter().map(String::as_str));
        let _ = writeln!(
            out,
            "        '{}') options='{}' words='{}' ;;",
            place.path,
            options.join(" "),
            words.join(" ")
        );
    }
    out += "    esac\n    if [[ $cur == -* ]]; then\n        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n    else\n";
    out += "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n";
    out += "        [[ -z $words ]] && COMPREPLY=($(compgen -f -- \"$cur\"))\n    fi\n}\n";
    out + "complete -o filenames -F _fathom fathom\n"
}

fn zsh(places: &[Place]) -> String {
    let text = |text: &str| {
        quoted(short(text))
            .replace('\\', "\\\\")
            .replace("'\\\\''", "'\\''")
            .replace([':', '[', ']'], " ")
    };
    let mut out = String::from("#compdef fathom\n# Completion of fathom for zsh.\n_fathom() {\n");
    finds_place(&mut out, places, "\"${(@)words[2,CURRENT-1]}\"");
    out += "    local -a commands\n    case \"$place\" in\n";
    for place in places {
        let _ = writeln!(out, "        '{}')", place.path);
        if !place.commands.is_empty() {
            let commands: Vec<String> = place
                .commands
                .iter()
                .map(|(name, about)| format!("'{name}:{}'", text(about)))
                .collect();
            let _ = writeln!(out, "            commands=({})", commands.join(" "));
            out += "            [[ ${words[CURRENT]} != -* ]] && { _describe command commands; return }\n";
        }
        out += "            _arguments -s";
        for option in &place.options {
            let help = text(&option.help);
            let _ = match (&option.value, option.values.as_slice()) {
                (None, _) => write!(out, " \\\n                '--{}[{help}]'", option.long),
                (Some(value), []) => {
                    write!(
                        out,
                        " \\\n                '*--{}=[{help}]:{}:_files'",
                        option.long,
                        text(value)
                    )
                }
                (Some(value), values) => write!(
                    out,
                    " \\\n                '*--{}=[{help}]:{}:({})'",
                    option.long,
                    text(value),
                    values.join(" ")
                ),
            };
        }
        let words = if place.words.is_empty() {
            "_files".to_owned()
        } else {
            format!("({})", place.words.join(" "))
        };
        let _ = writeln!(out, " \\\n                '*:argument:{words}'\n            ;;");
    }
    out + "    esac\n}\ncompdef _fathom fathom\n"
}

fn fish(places: &[Place]) -> String {
    let text = |text: &str| short(text).replace('\\', "\\\\").replace('\'', "\\'");
    let mut out = String::from("# Completion of fathom for fish.\n");
    for place in places {
        let seen: Vec<String> = place
            .path
            .split_whitespace()
            .map(|word| format!("__fish_seen_subcommand_from {word}"))
            .collect();
        let mut condition =
            if seen.is_empty() { "__fish_use_subcommand".to_owned() } else { seen.join("; and ") };
        // Of a command with commands of its own, only until one of these is typed.
        let names: Vec<&str> = place.commands.iter().map(|(name, _)| name.as_str()).collect();
        if !seen.is_empty() && !names.is_empty() {
            let _ = write!(condition, "; and not __fish_seen_subcommand_from {}", names.join(" "));
        }
        for (name, about) in &place.commands {
            let _ = writeln!(
                out,
                "complete -c fathom -n '{condition}' -f -a {name} -d '{}'",
                text(about)
            );
        }
        if !place.words.is_empty() {
            let _ = writeln!(
                out,
                "complete -c fathom -n '{condition}' -f -a '{}'",
                place.words.join(" ")
            );
        }
        for option in &place.options {
            let short = option.short.map(|short| format!(" -s {short}")).unwrap_or_default();
            let value = match (&option.value, option.values.as_slice()) {
                (None, _) => String::new(),
                (Some(_), []) => " -r".to_owned(),
                (Some(_), values) => format!(" -x -a '{}'", values.join(" ")),
            };
            let _ = writeln!(
                out,
                "complete -c fathom -n '{condition}' -l {}{short}{value} -d '{}'",
                option.long,
                text(&option.help)
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_option_is_in_every_script() {
        let places = places();
        assert!(places.iter().any(|place| place.path == "tree build"));
        let mut commands = places.iter().flat_map(|place| &place.commands);
        assert!(commands.all(|(_, about)| !about.is_empty()));
        for script in [bash(&places), zsh(&places), fish(&places)] {
            assert!(script.is_ascii());
            for place in &places {
                for (name, _) in &place.commands {
                    assert!(script.contains(name.as_str()), "{name}");
                }
                for option in &place.options {
                    let is_there = script.contains(&format!("--{}", option.long))
                        || script.contains(&format!("-l {}", option.long));
                    assert!(is_there, "{} {}", place.path, option.long);
                }
            }
        }
    }
}
