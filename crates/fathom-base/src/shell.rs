//! Words of a printed command as a shell reads them: commands are copied into terminals, and a path of somebody's choice
//! must not become two words, or a command of its own.

use crate::printable::is_acting;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A word as a POSIX shell takes it, also one that is not UTF-8. With control characters it has the form `$'...'` (bash, ksh, zsh, POSIX 2024),
/// because a line break would end the printed command, and an escape sequence would change what the terminal shows.
#[must_use]
pub fn word(text: impl AsRef<OsStr>) -> String {
    of_bytes(text.as_ref().as_bytes())
}

/// A path as a shell takes it. A relative one that begins with a hyphen would be taken for an
/// option, and gets `./` in front.
#[must_use]
pub fn path(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    if bytes.starts_with(b"-") {
        return of_bytes(&[b"./", bytes].concat());
    }
    of_bytes(bytes)
}

/// Names of somebody's choice for people to read, each as a shell takes it.
#[must_use]
pub fn list(names: &[String]) -> String {
    names.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The value of an option in the command line of a stored run, `--name=value` or `--name value`.
#[must_use]
pub fn option_in<'c>(command: &'c str, name: &str) -> Option<&'c str> {
    let mut words = command.split(' ');
    let found = words
        .find_map(|word| word.strip_prefix(name).filter(|v| v.is_empty() || v.starts_with('=')))?;
    if found.is_empty() { words.next() } else { found.strip_prefix('=') }
}

fn of_bytes(bytes: &[u8]) -> String {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-:+,@%=".contains(b);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(is_plain) => text.to_owned(),
        Ok(text) if !text.chars().any(is_acting) => {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
        _ => escaped(bytes),
    }
}

/// `$'...'`: characters that act and bytes that are no text as octal numbers, always of three digits, so that a digit
/// that follows is not taken for a part of them.
fn escaped(bytes: &[u8]) -> String {
    let mut out = String::from("$'");
    let octal = |out: &mut String, bytes: &[u8]| {
        bytes.iter().for_each(|byte| *out += &format!("\\{byte:03o}"));
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => out.extend(['\\', c]),
                c if is_acting(c) => octal(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        octal(&mut out, chunk.invalid());
    }
    out + "'"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn plain_words_stay_as_they_are() {
        for plain in ["/dev/sda", "/srv/a-b_c.d:e+f,g@h%i", "size=4k"] {
            assert_eq!(word(plain), plain);
        }
        assert_eq!(word(""), "''");
        assert_eq!(word("/srv/my disk's.img"), "'/srv/my disk'\\''s.img'");
        assert_eq!(word("~/x"), "'~/x'");
        assert_eq!(path(Path::new("-rf")), "./-rf");
    }

    #[test]
    fn what_is_printed_has_no_control_characters() {
        let names = ["a".to_owned(), "b; rm -r /\n".to_owned()];
        assert_eq!(list(&names), "a, $'b; rm -r /\\012'");
        for bad in ["a\nrm -r /", "\u{1b}]0;x\u{7}", "x\u{9b}2J", "gpj.\u{202e}exe"] {
            assert!(!word(bad).chars().any(is_acting), "{bad:?}");
        }
    }

    /// The independent judge is a shell.
    #[test]
    fn bash_reads_back_every_byte() {
        let all: Vec<u8> = (1..=255).collect();
        let mut cases: Vec<Vec<u8>> = vec![all];
        let texts = [
            "",
            "my data",
            "a'b",
            "$(touch x)",
            "`x`",
            "a;b",
            "a\\b",
            "\"",
            "*",
            "#x",
            "a\n1",
            "~",
            "!x",
            "\u{fc} \u{9b}7",
            "-x",
        ];
        cases.extend(texts.map(|text| text.as_bytes().to_vec()));
        for bytes in cases {
            let script = format!("printf %s {}", of_bytes(&bytes));
            let out = Command::new("bash").arg("-c").arg(OsStr::new(&script)).output().unwrap();
            assert_eq!(out.stdout, bytes, "{script}");
        }
    }

    #[test]
    fn options_of_stored_commands() {
        for (command, value) in [
            ("fathom saturate /srv --bound=p99:2ms", Some("p99:2ms")),
            ("fathom saturate --bound p99:2ms /srv", Some("p99:2ms")),
            ("fathom saturate /srv --bounds=x", None),
            ("fathom saturate /srv --bound", None),
        ] {
            assert_eq!(option_in(command, "--bound"), value, "{command}");
        }
    }
}
