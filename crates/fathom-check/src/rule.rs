//! What a rule is.

use crate::scene::Scene;
use fathom_model::defect::{Defect, Gravity};

/// How the tests of a rule provoke what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// On the machine that the tests run on: loop devices, real filesystems, real settings.
    Host,
    /// In a guest with a kernel of its own: real arrays, volumes, paths, drives of an emulator.
    Guest,
    /// On facts written down from the kernel's documentation: neither host nor guest can show it.
    Simulated,
}

impl Proof {
    /// The words on the rule's page.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Host => "provoked on a real system",
            Self::Guest => "provoked in a guest with real drivers",
            Self::Simulated => "simulated: on facts written down from documentation",
        }
    }
}

/// One thing that is looked for.
pub struct Rule {
    /// Stable name in kebab case; the name of its page too.
    pub id: &'static str,
    /// A few words.
    pub title: &'static str,
    /// The gravest that it says.
    pub gravity: Gravity,
    /// How it was tested.
    pub proof: Proof,
    /// The page, Markdown.
    pub page: &'static str,
    /// Looks.
    pub check: fn(&Scene<'_>) -> Vec<Defect>,
}

/// A rule whose page is `pages/ID.md`.
#[macro_export]
macro_rules! rule {
    ($id:literal, $title:literal, $gravity:ident, $proof:ident, $check:path) => {
        $crate::Rule {
            id: $id,
            title: $title,
            gravity: fathom_model::defect::Gravity::$gravity,
            proof: $crate::Proof::$proof,
            page: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/pages/", $id, ".md")),
            check: $check,
        }
    };
}
