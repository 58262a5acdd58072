//! `lvm.conf` and `lvmlocal.conf`, see lvm.conf(5): sections in braces, `key = value` with strings, numbers and lists of
//! them, comments behind `#`. A key may name its section: `devices/issue_discards = 1`.

use fathom_model::system::LvmConfiguration;
use std::collections::BTreeMap;

/// Settings by their full names (`devices/filter`); a single value is a list of one.
pub type Settings = BTreeMap<String, Vec<String>>;

/// Takes a file apart. What is no section and no setting is passed over.
#[must_use]
pub fn parse(text: &str) -> Settings {
    let mut words = words(text).into_iter().peekable();
    let (mut open, mut found) = (Vec::new(), Settings::new());
    while let Some(word) = words.next() {
        let Word::Text(name) = word else {
            if word == Word::Sign('}') {
                open.pop();
            }
            continue;
        };
        match words.peek() {
            Some(Word::Sign('{')) => {
                words.next();
                open.push(name);
            }
            Some(Word::Sign('=')) => {
                words.next();
                let mut path = open.clone();
                path.push(name);
                found.insert(path.join("/"), value(&mut words));
            }
            _ => {}
        }
    }
    found
}

/// One value, or those of a list in brackets.
fn value(words: &mut std::iter::Peekable<impl Iterator<Item = Word>>) -> Vec<String> {
    let mut values = Vec::new();
    let is_list = words.peek() == Some(&Word::Sign('['));
    if is_list {
        words.next();
    }
    loop {
        match words.peek() {
            Some(Word::Text(text)) => {
                values.push(text.clone());
                words.next();
                if !is_list {
                    return values;
                }
            }
            Some(Word::Sign(',')) if is_list => {
                words.next();
            }
            Some(Word::Sign(']')) if is_list => {
                words.next();
                return values;
            }
            _ => return values,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Sign(char),
    Text(String),
}

fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        match first {
            '#' => rest = rest.split_once('\n').map_or("", |(_, after)| after),
            '"' | '\'' => {
                let (text, after) = quoted(&rest[1..], first);
                found.push(Word::Text(text));
                rest = after;
            }
            '{' | '}' | '[' | ']' | ',' | '=' => {
                found.push(Word::Sign(first));
                rest = &rest[1..];
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || "{}[],=#\"'".contains(c);
                let end = rest.find(ends).unwrap_or(rest.len());
                found.push(Word::Text(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        rest = rest.trim_start();
    }
    found
}

/// Text up to the closing mark, and what follows. Between double marks a backslash takes away the meaning of what follows it.
fn quoted(text: &str, mark: char) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if mark == '"' => value.extend(chars.next().map(|(_, c)| c)),
            c if c == mark => return (value, &text[at + 1..]),
            c => value.push(c),
        }
    }
    (value, "")
}

/// The settings that rules ask for.
#[must_use]
pub fn configuration(settings: &Settings) -> LvmConfiguration {
    let list = |name: &str| settings.get(name).cloned().unwrap_or_default();
    let number = |name: &str| settings.get(name)?.first()?.parse::<u64>().ok();
    let flag = |name: &str| number(name).map(|number| number != 0);
    LvmConfiguration {
        filter: list("devices/filter"),
        global_filter: list("devices/global_filter"),
        use_devices_file: flag("devices/use_devicesfile"),
        devices_file_exists: false,
        multipath_component_detection: flag("devices/multipath_component_detection"),
        md_component_detection: flag("devices/md_component_detection"),
        issue_discards: flag("devices/issue_discards"),
        thin_autoextend_threshold_percent: number("activation/thin_pool_autoextend_threshold"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = r#"
# filter = [ "r|.*|" ] is a comment
config { checks = 1 }
devices {
    dir = "/dev" # where
    filter = [ "a|^/dev/mapper/mpath|", 'a|^/dev/sda\d|', "r|.*\"x\"|" ]
    global_filter=["r|^/dev/drbd|"]
    issue_discards = 1
    use_devicesfile=0
    nested { depth = 2 }
    multipath_component_detection = 1
}
activation/thin_pool_autoextend_threshold = 70
allocation {
    empty = []
"#;

    #[test]
    fn sections_lists_and_full_names() {
        let settings = parse(FILE);
        assert_eq!(settings["devices/nested/depth"], ["2"]);
        assert_eq!(settings["allocation/empty"], [""; 0]);
        let found = configuration(&settings);
        assert_eq!(found.filter, ["a|^/dev/mapper/mpath|", r"a|^/dev/sda\d|", "r|.*\"x\"|"]);
        assert_eq!(found.global_filter, ["r|^/dev/drbd|"]);
        assert_eq!((found.issue_discards, found.use_devices_file), (Some(true), Some(false)));
        assert_eq!(found.multipath_component_detection, Some(true));
        assert_eq!(found.md_component_detection, None);
        assert_eq!(found.thin_autoextend_threshold_percent, Some(70));
    }

    #[test]
    fn a_setting_without_a_value_is_empty_and_the_next_is_read() {
        let settings = parse("a = \nb { c = [ 1, } d = 2");
        assert_eq!(settings["a"], ["b"]);
        assert_eq!(settings.get("d").map(Vec::as_slice), Some(["2".to_owned()].as_slice()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_crash(text in any::<String>(), words in "[a-z/={}\\[\\],\"'#\\\\ \n]{0,200}") {
            prop_assert!(parse(&text).len() <= text.matches('=').count());
            prop_assert!(parse(&words).keys().all(|key| !key.contains('=')|| words.contains('"') || words.contains('\'')));
        }
    }
}
