//! `multipath.conf`, see multipath.conf(5).
//!
//! The file is read line by line: a keyword with one value, a section's name with `{`, or `}`. What follows on the same line is
//! ignored by the program itself, and so it is here: `blacklist { devnode "^sd" }` on one line opens an empty section.

use fathom_model::system::MultipathConfiguration;

/// Adds what a file says. Settings of one section come in the order of the files; the last of a name counts.
pub fn parse_into(found: &mut MultipathConfiguration, text: &str) {
    let mut open: Vec<String> = Vec::new();
    for line in text.lines() {
        let words = words(line);
        match words.as_slice() {
            [] => {}
            [Word::Close, ..] => {
                open.pop();
            }
            [Word::Text(name), Word::Open, ..] => enter(found, &mut open, name),
            [Word::Text(key), rest @ ..] => {
                let value = match rest {
                    [Word::Text(value), ..] => value.as_str(),
                    _ => "",
                };
                put(found, &open, key, value);
            }
            [Word::Open, ..] => {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Word {
    Open,
    Close,
    Text(String),
}

/// The words of a line: braces by themselves, quoted text as one word, nothing behind `#` or `!`.
fn words(line: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.trim_start().chars().next() {
        rest = rest.trim_start();
        match first {
            '#' | '!' => break,
            '{' | '}' => {
                found.push(if first == '{' { Word::Open } else { Word::Close });
                rest = &rest[1..];
            }
            '"' => {
                let (text, after) = quoted(&rest[1..]);
                found.push(Word::Text(text));
                rest = after;
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || "#!{}\"".contains(c);
                let end = rest.find(ends).unwrap_or(rest.len());
                found.push(Word::Text(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
    }
    found
}

/// Text up to the closing quotation mark, two of which stand for one, and what follows.
fn quoted(text: &str) -> (String, &str) {
    let (mut value, mut rest) = (String::new(), text);
    loop {
        let Some((before, after)) = rest.split_once('"') else { return (value + rest, "") };
        value += before;
        match after.strip_prefix('"') {
            Some(after) => {
                value.push('"');
                rest = after;
            }
            None => return (value, after),
        }
    }
}

fn enter(found: &mut MultipathConfiguration, open: &mut Vec<String>, name: &str) {
    match (open.last().map(String::as_str), name) {
        (Some("devices"), "device") => found.devices.push(Vec::new()),
        (Some("multipaths"), "multipath") => found.multipaths.push(Vec::new()),
        (Some("blacklist"), "device") => found.blacklist.push(("device".into(), String::new())),
        (Some("blacklist_exceptions"), "device") => {
            found.exceptions.push(("device".into(), String::new()));
        }
        _ => {}
    }
    open.push(name.to_owned());
}

fn put(found: &mut MultipathConfiguration, open: &[String], key: &str, value: &str) {
    let open: Vec<&str> = open.iter().map(String::as_str).collect();
    let (list, pair) = match open.as_slice() {
        ["defaults"] => (&mut found.defaults, (key.to_owned(), value.to_owned())),
        ["blacklist"] => (&mut found.blacklist, (key.to_owned(), value.to_owned())),
        ["blacklist_exceptions"] => (&mut found.exceptions, (key.to_owned(), value.to_owned())),
        ["blacklist", "device"] => return put_device(&mut found.blacklist, value),
        ["blacklist_exceptions", "device"] => return put_device(&mut found.exceptions, value),
        ["devices", "device"] => {
            let Some(device) = found.devices.last_mut() else { return };
            (device, (key.to_owned(), value.to_owned()))
        }
        ["multipaths", "multipath"] => {
            let Some(multipath) = found.multipaths.last_mut() else { return };
            (multipath, (key.to_owned(), value.to_owned()))
        }
        _ => return,
    };
    list.push(pair);
}

/// Vendor and product of a device in a blacklist become one pattern with a blank between them.
fn put_device(list: &mut [(String, String)], value: &str) {
    if let Some((_, pattern)) = list.last_mut() {
        *pattern = format!("{pattern} {value}").trim().to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> MultipathConfiguration {
        let mut found = MultipathConfiguration::default();
        parse_into(&mut found, text);
        found
    }

    fn pairs(list: &[(String, String)]) -> Vec<(&str, &str)> {
        list.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    #[test]
    fn all_sections() {
        let found = parse(
            "# a comment\ndefaults{\n\tuser_friendly_names yes\n\tpath_selector \"service-time 0\" # behind\n}\n\
             blacklist {\n devnode \"^(ram|loop)[0-9]*\"\n device {\n  vendor \"IBM\"\n  product \"S/390\"\n }\n wwid 3600\n}\n\
             blacklist_exceptions {\n property \"(SCSI_IDENT_|ID_WWN)\"\n}\n\
             devices {\n device {\n  vendor \"A\"\"B\"\n  no_path_retry queue\n }\n device {\n  vendor C\n }\n}\n\
             multipaths {\n multipath {\n  wwid 36\n  alias data\n }\n}\noverrides {\n no_path_retry 5\n}\n",
        );
        assert_eq!(
            pairs(&found.defaults),
            [("user_friendly_names", "yes"), ("path_selector", "service-time 0")]
        );
        assert_eq!(
            pairs(&found.blacklist),
            [("devnode", "^(ram|loop)[0-9]*"), ("device", "IBM S/390"), ("wwid", "3600")]
        );
        assert_eq!(pairs(&found.exceptions), [("property", "(SCSI_IDENT_|ID_WWN)")]);
        assert_eq!(found.devices.len(), 2);
        assert_eq!(pairs(&found.devices[0]), [("vendor", "A\"B"), ("no_path_retry", "queue")]);
        assert_eq!(pairs(&found.devices[1]), [("vendor", "C")]);
        assert_eq!(pairs(&found.multipaths[0]), [("wwid", "36"), ("alias", "data")]);
    }

    #[test]
    fn what_follows_a_brace_on_its_line_is_ignored() {
        let found = parse(
            "blacklist { devnode \"^sd\" }\n wwid 1\n}\ndefaults {\n polling_interval 5\n}\n",
        );
        assert_eq!(pairs(&found.blacklist), [("wwid", "1")]);
        assert_eq!(pairs(&found.defaults), [("polling_interval", "5")]);
    }

    #[test]
    fn an_open_quotation_ends_with_its_line() {
        let found = parse("defaults {\n a \"b c\n d e\n}\n");
        assert_eq!(pairs(&found.defaults), [("a", "b c"), ("d", "e")]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_crash(text in any::<String>(), lines in "[a-z{}\"#! \n]{0,200}") {
            parse(&text);
            let found = parse(&format!("{lines}\n"));
            prop_assert!(found.defaults.len() <= lines.lines().count());
        }
    }
}
