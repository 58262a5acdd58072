//! Defects: what `fathom check` finds about the state of a storage stack or its machine.
//!
//! A [`crate::finding::Finding`] says what an observation does to the figures of a measurement; a defect says what is
//! wrong with a system in use, how sure that is, how it is mended and what mending risks.

use serde::{Deserialize, Serialize};

/// How much a defect matters to the system in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gravity {
    /// Worth knowing: a small cost, or a choice that somebody may have made on purpose.
    Low,
    /// Costs speed, or makes a later failure worse.
    Medium,
    /// Data is at risk, or a large part of the speed is lost.
    High,
}

impl Gravity {
    /// All, the least first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// The word that people see and type.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How sure it is that what was seen is what the rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Something fits that has other explanations too.
    Possible,
    /// The usual explanation of what was seen.
    Likely,
    /// The facts say it themselves.
    Certain,
}

impl Certainty {
    /// The word that people see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

/// One fact that a defect rests on, in a form that a person can look up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Evidence {
    /// Where it was read: a path, a superblock and field, a table line.
    pub source: String,
    /// What stood there, with its unit.
    pub value: String,
}

/// One step of mending: what it does, and the command where there is one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Step {
    /// What is done, in words.
    pub text: String,
    /// A command that can be pasted into a root shell on this machine; none where hands are needed.
    pub command: Option<String>,
}

/// What is wrong, on which layer, why that matters, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defect {
    /// Stable name of the rule, in kebab case, such as `partition-misaligned`; `fathom check --explain` takes it.
    pub rule: String,
    /// How much it matters here.
    pub gravity: Gravity,
    /// How sure it is.
    pub certainty: Certainty,
    /// Key of the node that causes it (see [`crate::stack::Node::key`]); none for the machine as a whole.
    pub node: Option<String>,
    /// Keys of further nodes with the same defect.
    pub also: Vec<String>,
    /// Keys of nodes that take part without being wrong themselves, as the array that a failing member belongs to, or that are
    /// wrong only together with the first, as the members of an array that does not run.
    #[serde(default)]
    pub concerns: Vec<String>,
    /// Keys of the devices whose loss alone it comes from, or the log's name of one that has no node any more; empty where there is
    /// more to it, or where that is not known.
    #[serde(skip)]
    pub lost: Vec<String>,
    /// One sentence: what was seen, with its figures.
    pub summary: String,
    /// The facts that it rests on.
    pub evidence: Vec<Evidence>,
    /// Why it matters on this system, one sentence.
    pub why: String,
    /// How to mend it, in order.
    pub fix: Vec<Step>,
    /// What mending it risks; `none` is said as such.
    pub risk: String,
    /// How to see the effect, with fathom where a measurement shows it.
    pub verify: String,
}

impl Defect {
    /// A defect of a rule on a node, with the sentence that says what was seen.
    #[must_use]
    pub fn new(
        rule: &str,
        gravity: Gravity,
        node: Option<&str>,
        summary: impl Into<String>,
    ) -> Self {
        Self {
            rule: rule.to_owned(),
            gravity,
            certainty: Certainty::Certain,
            node: node.map(str::to_owned),
            also: Vec::new(),
            concerns: Vec::new(),
            lost: Vec::new(),
            summary: summary.into(),
            evidence: Vec::new(),
            why: String::new(),
            fix: Vec::new(),
            risk: String::new(),
            verify: String::new(),
        }
    }

    /// Sets how sure it is.
    #[must_use]
    pub fn sure(mut self, certainty: Certainty) -> Self {
        self.certainty = certainty;
        self
    }

    /// Adds a node that has the same defect.
    #[must_use]
    pub fn also_on(mut self, node: impl Into<String>) -> Self {
        self.also.push(node.into());
        self
    }

    /// Adds a node that takes part without being wrong by itself.
    #[must_use]
    pub fn concerning(mut self, node: impl Into<String>) -> Self {
        self.concerns.push(node.into());
        self
    }

    /// Names the devices whose loss alone it comes from.
    #[must_use]
    pub fn by_loss_of(mut self, devices: Vec<String>) -> Self {
        self.lost = devices;
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn seen(mut self, source: impl Into<String>, value: impl Into<String>) -> Self {
        self.evidence.push(Evidence { source: source.into(), value: value.into() });
        self
    }

    /// Says why it matters.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Adds a step that needs hands or a decision.
    #[must_use]
    pub fn advise(mut self, text: impl Into<String>) -> Self {
        self.fix.push(Step { text: text.into(), command: None });
        self
    }

    /// Adds a step with its command.
    #[must_use]
    pub fn command(mut self, text: impl Into<String>, command: impl Into<String>) -> Self {
        self.fix.push(Step { text: text.into(), command: Some(command.into()) });
        self
    }

    /// Says what mending risks.
    #[must_use]
    pub fn risking(mut self, risk: impl Into<String>) -> Self {
        self.risk = risk.into();
        self
    }

    /// Says how to see the effect.
    #[must_use]
    pub fn verified_by(mut self, how: impl Into<String>) -> Self {
        self.verify = how.into();
        self
    }
}
