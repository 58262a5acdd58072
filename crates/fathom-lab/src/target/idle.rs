//! Options that have no effect on what is measured: somebody expects something of them.

use super::{Holder, PreparedTarget};
use crate::lab::Lab;
use fathom_base::shell;
use fathom_guard::Claim;

/// Says which options of who measures these have no effect on any of them.
pub fn say_what_is_idle(lab: &mut Lab<'_>, targets: &[&PreparedTarget]) {
    let is_made =
        |target: &&PreparedTarget| matches!(target.holder, Holder::InDir(_) | Holder::New(_));
    if lab.keep && !targets.iter().any(is_made) {
        let text = "--keep has no effect: no file is made here, and what was there before stays.";
        lab.note(text.to_owned());
    }
    let claims = targets.iter().filter_map(|target| match &target.holder {
        Holder::Device(claim) => Some(&**claim),
        _ => None,
    });
    let claims: Vec<&Claim> = claims.collect();
    let idle = lab.consent.beside(&claims).into_iter().map(shell::word).collect::<Vec<_>>();
    for id in idle {
        lab.note(format!(
            "--destroy={id} has no effect: nothing is written to such a device here."
        ));
    }
}
