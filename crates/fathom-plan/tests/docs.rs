//! The reference of plans says what the code does: its table of a setup's keys, its ready-made plans, its examples.

use fathom_plan::{SETUP_KEYS, Unchecked, read, ready};

const REFERENCE: &str = include_str!("../../../docs/plans.md");

#[test]
fn every_key_of_a_setup_is_in_the_table() {
    for key in SETUP_KEYS {
        let row = format!("| `{}` | {} | {} |", key.name, key.values.replace('|', ", "), key.help);
        assert!(REFERENCE.contains(&row), "docs/plans.md lacks: {row}");
    }
}

#[test]
fn every_plan_that_comes_with_fathom_is_listed() {
    for plan in ready() {
        assert!(REFERENCE.contains(&format!("`{}`", plan.name)), "{}", plan.name);
    }
}

#[test]
fn examples_are_plans() {
    let head = "question = \"?\"\n";
    let load = "[[workload]]\nuse = \"randread\"\n";
    let examples: Vec<&str> =
        REFERENCE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 4);
    for example in examples {
        let text = match example {
            whole if whole.starts_with("question") => whole.to_owned(),
            setup if setup.starts_with("[setup]") => format!("{head}{load}{setup}"),
            rest => format!(
                "{head}target = \"/srv\"\n{load}[factors]\nblock.scheduler = [\"none\", \"mq-deadline\"]\n{rest}"
            ),
        };
        read(&text, "docs/plans.md", &Unchecked).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}
