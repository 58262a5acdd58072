//! The verdict with its cause and cure.

use crate::text::{printable, push_wrapped_to};
use fathom_base::order::Order;
use fathom_model::finding::{Finding, Severity, Verdict};

/// How commands in advice begin; words that also begin sentences have more than their name.
const COMMANDS: &[&str] = &[
    "blockdev -",
    "cat /",
    "cryptsetup ",
    "dmesg ",
    "echo ",
    "fallocate -",
    "fathom check ",
    "fathom compare ",
    "fathom layers ",
    "fathom quick ",
    "fathom run ",
    "fathom saturate ",
    "fathom show ",
    "fathom size ",
    "findmnt -",
    "fstrim ",
    "hdparm -",
    "iostat ",
    "losetup -",
    "lsblk -",
    "mdadm -",
    "mkfs.",
    "mount -",
    "multipath -",
    "nvme ",
    "parted -",
    "pgrep ",
    "smartctl -",
    "sync; ",
    "sysctl ",
    "systemctl ",
];

/// True for a line of advice that is a command to copy, false for one that is words.
#[must_use]
pub fn is_command(line: &str) -> bool {
    // Words behind a gap belong to no command.
    COMMANDS.iter().any(|begin| line.starts_with(begin)) && !line.contains("   ")
}

/// Whether there is something in it that may be copied: a command, also after words, or an option.
fn has_command(line: &str) -> bool {
    let after_words = line.match_indices([':', ';']).map(|(at, _)| line[at + 1..].trim_start());
    std::iter::once(line).chain(after_words).any(is_command) || line.contains("--")
}

/// The command of a line, without the words behind a gap.
fn command_in(line: &str) -> Option<&str> {
    line.split("   ").next().filter(|command| is_command(command))
}

/// The verdict, the findings that made it, the others, and their advice, in lines of `width` columns. Advice with something
/// to copy is never broken into lines, and commands in it stand further to the right than words, so that it shows what can be copied.
/// Commands that a finding before has given, all of them, are not given again.
#[must_use]
pub fn findings_text(findings: &[Finding], verdict: Verdict, width: usize) -> String {
    let against = findings.iter().filter(|f| f.severity > Severity::Note).count();
    let mut out = match against {
        0 => format!("{}\n", verdict.word()),
        1 => format!("{}, 1 finding\n", verdict.word()),
        n => format!("{}, {n} findings\n", verdict.word()),
    };
    let decisive = match verdict {
        Verdict::Void => Severity::Void,
        Verdict::Doubtful => Severity::Doubtful,
        Verdict::Trusted => Severity::Note,
    };
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    // Stable: findings of one severity stay in their order.
    sorted.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut told: Vec<&str> = Vec::new();
    for finding in sorted {
        let commands = || finding.advice.iter().filter_map(|line| command_in(line));
        let is_told = commands().all(|command| told.contains(&command));
        told.extend(commands());
        let first = match finding.severity {
            Severity::Note => "  note  ",
            severity if severity < decisive => "  also  ",
            _ => "  ",
        };
        push_wrapped_to(&mut out, width, first, &finding.summary);
        let indent = if first.len() > 2 { "        " } else { "      " };
        for line in &finding.advice {
            if let Some(command) = command_in(line).filter(|_| is_told) {
                let words = line[command.len()..].trim_start();
                push_wrapped_to(&mut out, width, indent, format!("as above {words}").trim_end());
                continue;
            }
            if !has_command(line) {
                push_wrapped_to(&mut out, width, indent, line);
                continue;
            }
            out.push_str(indent);
            out.push_str(if is_command(line) { "    " } else { "" });
            out.push_str(&printable(line));
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::WIDTH;
    use expect_test::expect;

    #[test]
    fn nothing_to_say() {
        expect![[r#"
            TRUSTED
        "#]]
        .assert_eq(&findings_text(&[], Verdict::Trusted, WIDTH));
    }

    /// A cure that was told is not told again, where it is all of it.
    #[test]
    fn a_cure_is_told_once() {
        let finding = |severity, text: &str, advice: &[&str]| {
            let new = Finding::new("x", severity, text);
            advice.iter().fold(new, |finding, line| finding.advise(*line))
        };
        let cure = "losetup --direct-io=on /dev/loop0";
        let gap = format!("{cure}    (direct I/O is kept in memory below it), or");
        let all = [
            finding(Severity::Note, "third", &["mount -o remount /mnt", cure]),
            finding(Severity::Note, "fourth", &[cure]),
            finding(Severity::Doubtful, "first", &[cure]),
            finding(Severity::Doubtful, "second", &[&gap, "more free space"]),
        ];
        expect![[r#"
            DOUBTFUL, 2 findings
              first
                      losetup --direct-io=on /dev/loop0
              second
                  as above (direct I/O is kept in memory below it), or
                  more free space
              note  third
                        mount -o remount /mnt
                        losetup --direct-io=on /dev/loop0
              note  fourth
                    as above
        "#]]
        .assert_eq(&findings_text(&all, Verdict::Doubtful, WIDTH));
    }

    #[test]
    fn commands_are_told_from_words() {
        for command in [
            "echo idle > /sys/block/md10/md/sync_action",
            "fathom saturate /dev/sda",
            "sync; dd if=f0 iflag=nocache count=0",
            "cat /sys/devices/system/clocksource/clocksource0/available_clocksource",
        ] {
            assert!(is_command(command), "{command}");
        }
        for words in [
            "wait, or stop it and repeat:",
            "fathom did not get a CPU in time: other programs, a stop, or too many threads",
            "losetup --direct-io=on f0    (direct I/O is kept in memory below it), or",
            "mount it once, which replays the journal, and unmount it",
            "sync=file makes it the speed of the disk",
            "for the whole disks: fathom quick --span=full",
        ] {
            assert!(!is_command(words), "{words}");
        }
    }

    /// Words keep to the width like all others; what is copied stays on its line.
    #[test]
    fn long_words_are_wrapped_and_commands_are_not() {
        let advice = "fathom did not get a CPU in time: other programs, a stop, or too many threads; use fewer";
        let commands = [
            "fathom run randread /srv/with/a/long/name depth=32 --destroy=ID",
            "for the whole of these disks: fathom quick /srv/with/name",
        ];
        let mut finding =
            Finding::new("late", Severity::Doubtful, "fathom fell behind").advise(advice);
        for command in commands {
            finding = finding.advise(command);
        }
        let text = findings_text(&[finding], Verdict::Doubtful, 50);
        let long = text.lines().filter(|line| line.chars().count() > 50);
        assert_eq!(long.map(str::trim_start).collect::<Vec<_>>(), commands, "{text}");
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(advice), "{text}");
    }

    #[test]
    fn the_worst_first_and_notes_last() {
        let findings = [
            Finding::new(
                "short-span",
                Severity::Note,
                "each disk could do about 80 random reads/s; six of them and far=2 allow about 500 at this load: \
                 you get 155 % of that because the test file covers only 0.3 % of the disks",
            )
            .advise("for the whole disks: fathom quick --span=full"),
            Finding::new(
                "md-sync",
                Severity::Doubtful,
                "md10 is checking itself (31 % done): rates are too low, tails too long",
            )
            .advise("wait, or stop it and repeat:")
            .advise("echo idle > /sys/block/md10/md/sync_action"),
        ];
        expect![[r#"
            DOUBTFUL, 1 finding
              md10 is checking itself (31 % done): rates are too low, tails too long
                  wait, or stop it and repeat:
                      echo idle > /sys/block/md10/md/sync_action
              note  each disk could do about 80 random reads/s; six of them and far=2 allow about 500 at this load: you
                    get 155 % of that because the test file covers only 0.3 % of the disks
                    for the whole disks: fathom quick --span=full
        "#]].assert_eq(&findings_text(&findings, Verdict::of(&findings), WIDTH));
        let mut void = findings.to_vec();
        void.push(Finding::new("holes", Severity::Void, "3.1 GiB of the file are holes"));
        expect![[r#"
            VOID, 2 findings
              3.1 GiB of the file are holes
              also  md10 is checking itself (31 % done): rates are too low, tails too long
                    wait, or stop it and repeat:
                        echo idle > /sys/block/md10/md/sync_action
              note  each disk could do about 80 random reads/s; six of them and far=2 allow about 500 at this load: you
                    get 155 % of that because the test file covers only 0.3 % of the disks
                    for the whole disks: fathom quick --span=full
        "#]].assert_eq(&findings_text(&void, Verdict::of(&void), WIDTH));
        expect![[r#"
            DOUBTFUL, 1 finding
              md10 is checking itself (31 % done): rates are too low,
              tails too long
                  wait, or stop it and repeat:
                      echo idle > /sys/block/md10/md/sync_action
        "#]]
        .assert_eq(&findings_text(&findings[1..], Verdict::Doubtful, 60));
    }
}
