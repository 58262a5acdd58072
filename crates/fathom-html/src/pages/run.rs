//! The page of `fathom run`.

use super::Source;
use crate::page::{Block, Page};

/// Makes it.
pub(super) fn page(source: &Source) -> Page {
    let head = source.head;
    Page {
        title: format!("{} on {}", source.name, head.target),
        question: head.command.clone(),
        answer: String::new(),
        verdict: Some(source.verdict),
        first: vec![Block::Findings(source.findings.to_vec())],
        sections: Vec::new(),
    }
}
