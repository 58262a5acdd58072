//! What a rule is.

use crate::scene::Scene;
use fathom_model::defect::{Defect, Gravity};
use flate2::read::DeflateDecoder;
use std::io::Read;

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
    /// Looks.
    pub check: fn(&Scene<'_>) -> Vec<Defect>,
}

/// All pages, packed by the build script.
static PAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pages"));

impl Rule {
    /// The page with what the rule itself says of it behind the title: how grave it is, and how it was tested.
    #[must_use]
    pub fn explained(&self) -> String {
        let page = self.page();
        let (title, rest) = page.split_once('\n').unwrap_or((&page, ""));
        let gravity = match self.gravity {
            Gravity::Low => "low",
            Gravity::Medium => "medium at most",
            Gravity::High => "high at most",
        };
        let (id, proof) = (self.id, self.proof.words());
        format!("{title}\n\nRule {id}; gravity: {gravity}; {proof}.\n{rest}")
    }

    /// The page, Markdown. Unpacks all of them: for people, one at a time.
    #[must_use]
    pub fn page(&self) -> String {
        let mut all = String::new();
        // What the build script has packed can be unpacked; a page that is not there would be seen by the tests.
        let _ = DeflateDecoder::new(PAGES).read_to_string(&mut all);
        let mut pages = all.split('\u{1}').filter_map(|page| page.split_once('\n'));
        let page = pages.find(|(name, _)| *name == self.id);
        page.map_or_else(String::new, |(_, text)| text.to_owned())
    }
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
            check: $check,
        }
    };
}
