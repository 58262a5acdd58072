//! Rules of udev (udev(7)) that set attributes of queues and read-ahead.

/// The rules that set such an attribute, each on one line, and where a file has some, those that jump over others and the labels
/// that they jump to. Rules that only compare one are left out.
#[must_use]
pub fn queue_rules(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let kept: Vec<&str> =
        lines.filter(|line| sets_queue_attribute(line) || is_of_jump(line)).collect();
    let kept = kept.iter().any(|line| sets_queue_attribute(line)).then_some(kept);
    kept.into_iter().flatten().map(one_blank_apart).collect()
}

fn one_blank_apart(line: &str) -> String {
    line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// True for `GOTO="..."` and `LABEL="..."`.
fn is_of_jump(line: &str) -> bool {
    ["GOTO", "LABEL"].iter().any(|key| {
        line.match_indices(key).any(|(at, _)| {
            let is_whole = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let after = line[at + key.len()..].trim_start();
            is_whole && after.starts_with('=') && !after.starts_with("==")
        })
    })
}

/// True for `ATTR{queue/X}="..."`, and the same of `bdi/` and `device/`: `==` and `!=` compare.
fn sets_queue_attribute(line: &str) -> bool {
    ["ATTR{queue/", "ATTR{bdi/", "ATTR{device/"].iter().any(|start| {
        line.match_indices(start).any(|(at, _)| {
            let after = line[at..].split_once('}').map_or("", |(_, after)| after).trim_start();
            let operator = after.trim_start_matches(['+', ':']);
            operator.starts_with('=') && !operator.starts_with("==")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_that_set_and_not_those_that_compare() {
        let found = queue_rules(
            "# ATTR{queue/scheduler}=\"none\"\n\
             ACTION==\"add\", KERNEL==\"sd[a-z]\", \\\n  ATTR{queue/rotational}==\"0\",   ATTR{queue/scheduler}=\"none\"\n\
             KERNEL==\"sda\", ATTR{queue/rotational}==\"1\", RUN+=\"/bin/x\"\n\
             SUBSYSTEM==\"block\", ATTR{bdi/read_ahead_kb} := \"4096\"\n\
             KERNEL==\"sdb\", ATTR{size}=\"1\"\n",
        );
        assert_eq!(
            found,
            [
                "ACTION==\"add\", KERNEL==\"sd[a-z]\", ATTR{queue/rotational}==\"0\", ATTR{queue/scheduler}=\"none\"",
                "SUBSYSTEM==\"block\", ATTR{bdi/read_ahead_kb} := \"4096\"",
            ]
        );
    }

    #[test]
    fn jumps_are_kept_where_something_is_set() {
        let jump = "KERNEL!=\"sd*\", GOTO=\"end\"";
        let set = "ATTR{queue/scheduler}=\"none\"";
        let labels = "LABEL=\"end\"\nENV{ID_FS_LABEL}==\"x\", ENV{ID_FS_LABEL}=\"y\"";
        let found = queue_rules(&format!("{jump}\n{set}\n{labels}\n"));
        assert_eq!(found, [jump, set, "LABEL=\"end\""]);
        assert_eq!(queue_rules(&format!("{jump}\n{labels}\n")), [""; 0]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_crash(text in any::<String>(), line in "[A-Z{}/a-z+:= \"]{0,80}") {
            prop_assert!(queue_rules(&text).len() <= text.lines().count());
            prop_assert_eq!(queue_rules(&format!("ATTR{{queue/x}}=\"1\" {line}")).len(), 1);
        }
    }
}
