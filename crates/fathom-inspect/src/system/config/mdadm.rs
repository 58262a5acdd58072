//! `mdadm.conf`, see mdadm.conf(5): a keyword with words behind it; lines that begin with white space go on the line before.
//! Keywords may be shortened to three letters and written in any case.

use fathom_model::system::MdadmConfiguration;

/// What a file says of alarms and arrays. Addresses and programs are not kept.
#[must_use]
pub fn parse(text: &str) -> MdadmConfiguration {
    let mut found = MdadmConfiguration::default();
    for line in whole_lines(text) {
        let mut words = line.split_ascii_whitespace();
        let Some(keyword) = words.next() else { continue };
        if is_keyword(keyword, "mailaddr") || is_keyword(keyword, "program") {
            found.alarm |= words.next().is_some();
        } else if is_keyword(keyword, "array") {
            let uuid = words.find_map(|word| {
                let (key, value) = word.split_once('=')?;
                key.eq_ignore_ascii_case("uuid").then(|| value.to_lowercase())
            });
            found.arrays.extend(uuid);
        }
    }
    found
}

/// `mailfrom` and `mailaddr` share four letters: shorter than five, the word means the address.
fn is_keyword(word: &str, keyword: &str) -> bool {
    let word = word.to_lowercase();
    word.len() >= 3 && keyword.starts_with(&word)
}

/// Lines with those that go on them, without comments and quotation marks.
fn whole_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let content = line.split('#').next().unwrap_or_default().replace(['"', '\''], "");
        match lines.last_mut() {
            Some(last) if line.starts_with([' ', '\t']) => *last += &format!(" {content}"),
            _ => lines.push(content),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn alarms_and_arrays() {
        let found = parse(
            "# MAILADDR root\nHOMEHOST <system>\nmailaddr root # me\nMAILFROM x\n\
             ARRAY /dev/md/0 metadata=1.2\n   UUID=6B8B4567:327B23C6:643C9869:66334873 name=a:0\n\
             array <ignore> uuid=1:2:3:4\nARRAY /dev/md5 name=x\n",
        );
        assert!(found.alarm);
        assert_eq!(found.arrays, ["6b8b4567:327b23c6:643c9869:66334873", "1:2:3:4"]);
    }

    #[test]
    fn a_sender_or_an_empty_address_is_no_alarm() {
        assert!(!parse("MAILFROM md@example.org\n").alarm);
        assert!(!parse("MAILADDR\n").alarm);
        assert!(parse("PROGRAM /usr/sbin/handle\n").alarm);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_crash(text in any::<String>()) {
            prop_assert!(parse(&text).arrays.len() <= text.lines().count());
        }
    }
}
