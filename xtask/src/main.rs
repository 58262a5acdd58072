//! The project's automation, run as `cargo xtask COMMAND`. Needs nothing but the Rust toolchain and git; imports none
//! of the project's crates, so that it works when they do not compile.

mod bench;
mod ci;
mod dist;
mod elf;
mod flags;
mod process;
mod soak;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

/// What a command ends with: whether all is well, or why it could not be done at all.
type Outcome = Result<bool, String>;

/// One command of `cargo xtask`.
struct Subcommand {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Outcome,
}

const COMMANDS: &[Subcommand] = &[
    Subcommand { name: "ci", help: ci::HELP, run: ci::run },
    Subcommand { name: "tidy", help: tidy::HELP, run: tidy::run },
    Subcommand { name: "test", help: test::HELP, run: test::run },
    Subcommand { name: "dist", help: dist::HELP, run: dist::run },
    Subcommand { name: "bench", help: bench::HELP, run: bench::run },
    Subcommand { name: "soak", help: soak::HELP, run: soak::run },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(command) = args.first().and_then(|n| COMMANDS.iter().find(|c| c.name == n.as_str()))
    else {
        print!("{}", overview());
        return match args.first().map(String::as_str) {
            None | Some("--help" | "-h" | "help") => ExitCode::SUCCESS,
            Some(unknown) => {
                eprintln!("error: there is no command '{unknown}'");
                ExitCode::from(2)
            }
        };
    };
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{}", command.help);
        return ExitCode::SUCCESS;
    }
    match (command.run)(&args[1..]) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn overview() -> String {
    let mut text = "cargo xtask COMMAND [OPTION]...\n\n".to_owned();
    for command in COMMANDS {
        let purpose = command.help.lines().nth(2).unwrap_or_default();
        text.push_str(&format!("  {:<6}{purpose}\n", command.name));
    }
    text.push_str("\ncargo xtask COMMAND --help says more.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_explained() {
        for command in COMMANDS {
            let usage = format!("cargo xtask {}", command.name);
            assert!(command.help.starts_with(&usage), "{}", command.help);
            let purpose = command.help.lines().nth(2).unwrap();
            assert!(overview().contains(purpose) && purpose.len() > 20);
        }
    }
}
