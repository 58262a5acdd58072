//! What is wrong, for people.

use crate::text::{printable, push_wrapped_to};
use fathom_model::defect::{Defect, Gravity, Step};

/// All defects: the grave ones in full, those of low gravity in a line each unless `full`.
#[must_use]
pub fn findings_text(defects: &[Defect], full: bool, width: usize) -> String {
    let mut out = String::new();
    let (low, grave): (Vec<&Defect>, Vec<&Defect>) =
        defects.iter().partition(|defect| defect.gravity == Gravity::Low && !full);
    for defect in grave {
        one(&mut out, defect, width);
        out.push('\n');
    }
    for defect in &low {
        push_wrapped_to(&mut out, width, "low     ", &headline(defect));
    }
    if !low.is_empty() {
        out.push('\n');
    }
    push_wrapped_to(&mut out, width, "", &count_line(defects, !low.is_empty()));
    out
}

fn headline(defect: &Defect) -> String {
    const NAMED: usize = 8;
    let sure = match defect.certainty {
        fathom_model::defect::Certainty::Certain => String::new(),
        other => format!(" ({})", other.word()),
    };
    let others: Vec<&str> = defect.also.iter().map(String::as_str).collect();
    let others: Vec<&str> =
        others.into_iter().filter(|key| !is_named(&defect.summary, key)).collect();
    let also = match others.len() {
        0 => String::new(),
        n if n <= NAMED => format!("; the same: {}", others.join(", ")),
        n => format!("; the same: {} and {} more", others[..NAMED].join(", "), n - NAMED),
    };
    format!("{}{also}{sure}  [{}]", defect.summary, defect.rule)
}

/// True when a sentence names a node, by its key or its kernel name.
fn is_named(sentence: &str, key: &str) -> bool {
    let mut words =
        sentence.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')'));
    let name = key.strip_prefix("/dev/").unwrap_or(key);
    words.any(|word| word == key || word == name)
}

fn one(out: &mut String, defect: &Defect, width: usize) {
    let first = format!("{:8}", defect.gravity.word().to_ascii_uppercase());
    push_wrapped_to(out, width, &first, &headline(defect));
    let mut part = |name: &str, text: &str| {
        if !text.is_empty() {
            push_wrapped_to(out, width, &format!("        {name:7}"), text);
        }
    };
    for evidence in &defect.evidence {
        part("seen", &format!("{}: {}", evidence.source, evidence.value));
    }
    part("why", &defect.why);
    for (number, step) in defect.fix.iter().enumerate() {
        add_step(out, if number == 0 { "fix" } else { "" }, step, width);
    }
    let mut part = |name: &str, text: &str| {
        if !text.is_empty() {
            push_wrapped_to(out, width, &format!("        {name:7}"), text);
        }
    };
    part("risk", &defect.risk);
    part("verify", &defect.verify);
}

/// Commands are never broken into lines: they are there to be copied.
fn add_step(out: &mut String, name: &str, step: &Step, width: usize) {
    push_wrapped_to(out, width, &format!("        {name:7}"), &step.text);
    if let Some(command) = &step.command {
        out.push_str(&format!("                   {}\n", printable(command)));
    }
}

fn count_line(defects: &[Defect], shortened: bool) -> String {
    let count = |gravity| defects.iter().filter(|defect| defect.gravity == gravity).count();
    let words: Vec<String> = Gravity::ALL
        .into_iter()
        .rev()
        .filter(|gravity| count(*gravity) > 0)
        .map(|gravity| format!("{} {}", count(gravity), gravity.word()))
        .collect();
    match defects.len() {
        0 => "Nothing found.".to_owned(),
        n => {
            let noun = if n == 1 { "finding" } else { "findings" };
            let more = if shortened { "; --all shows those of low gravity in full" } else { "" };
            format!(
                "{n} {noun}: {}{more}. About one of them: fathom check --explain NAME",
                words.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::sample;
    use expect_test::expect;

    #[test]
    fn what_the_sentence_names_is_not_named_again() {
        let mut defect = Defect::new("x", Gravity::Low, Some("/dev/sda"), "sda, sdb (old) wait");
        defect.also = vec!["/dev/sdb".into(), "/dev/sdb1".into(), "/srv".into()];
        assert_eq!(headline(&defect), "sda, sdb (old) wait; the same: /dev/sdb1, /srv  [x]");
        defect.also.truncate(1);
        assert_eq!(headline(&defect), "sda, sdb (old) wait  [x]");
    }

    #[test]
    fn grave_ones_in_full_others_in_a_line() {
        let (_, defects) = sample();
        expect![[r#"
            HIGH    sdb has 12 sectors that it could not read [smart-failing]
                    seen   SMART attribute 198 of sdb: 12
                    why    the next rebuild of md0 has to read all of it
                    fix    replace it
                               mdadm /dev/md0 --replace /dev/sdb
                    risk   the array has no spare meanwhile
                    verify fathom check /dev/md0

            low     nothing trims /srv [no-trim]

            2 findings: 1 high, 1 low; --all shows those of low gravity in full. About one of them:
            fathom check --explain NAME
        "#]]
        .assert_eq(&findings_text(&defects, false, 90));
        expect![[r#"
            HIGH    sdb has 12 sectors that it could not read [smart-failing]
                    seen   SMART attribute 198 of sdb: 12
                    why    the next rebuild of md0 has to read all of it
                    fix    replace it
                               mdadm /dev/md0 --replace /dev/sdb
                    risk   the array has no spare meanwhile
                    verify fathom check /dev/md0

            LOW     nothing trims /srv [no-trim]
                    fix    switch fstrim.timer on

            2 findings: 1 high, 1 low. About one of them: fathom check --explain NAME
        "#]]
        .assert_eq(&findings_text(&defects, true, 90));
        expect![[r#"
            Nothing found.
        "#]]
        .assert_eq(&findings_text(&[], false, 90));
    }
}
