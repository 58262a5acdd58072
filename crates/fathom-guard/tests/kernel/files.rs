//! Files and directories of fathom's own: made, marked, removed, also after a kill.

use fathom_testkit::Trial;

pub fn trials() -> Vec<Trial> {
    Vec::new()
}
