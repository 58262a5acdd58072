//! Whether settings are still what they were set to, and what could not be put back exactly.

use crate::error::KnobError;
use crate::legal::matches;
use crate::names;
use crate::own::{self, Wait};
use crate::resolve::Setting;
use crate::settle;
use crate::site::{Site, Spot};
use fathom_model::change::knob::{KnobAt, KnobPlace};
use fathom_model::plan::OwnKnob;
use fathom_sys::mounts;
use fathom_sys::sysroot::SysRoot;
use std::path::{Path, PathBuf};

/// True when a setting is what was asked of it, in whatever form the kernel shows that.
#[must_use]
pub fn is_as_asked(id: &str, asked: &str, now: &str) -> bool {
    match names::find(id) {
        Ok(knob) => matches(knob, asked, now),
        // Of the user's own the command says just that.
        Err(_) => asked == now,
    }
}

/// The value of a setting of the user's own now; none where its command does not say, and of all others.
pub fn read_own(own: &[OwnKnob], place: &KnobPlace, wait: &mut Wait<'_>) -> Option<String> {
    let KnobPlace::Own { name } = place else { return None };
    let own = own.iter().find(|own| own.name == *name)?;
    own::read(own, &KnobAt::default(), wait).ok()
}

/// The value of a setting now; none of those of the user's own, for which a command would have to be run.
#[must_use]
pub fn current(root: &SysRoot, setting: &Setting) -> Option<String> {
    let site = Site::find(root, &setting.place).ok()?;
    settle::now(root, &site, &setting.knob)
}

/// What a setting of the user's own is now, before anything sets it.
///
/// # Errors
/// [`KnobError::Read`] when its command does not say, and [`KnobError::Value`] for what could not be put back: nobody says that its other
/// command takes it.
pub fn check_own(root: &SysRoot, own: &OwnKnob, wait: &mut Wait<'_>) -> Result<String, KnobError> {
    let knob = format!("own.{}", own.name);
    let now = match own::read(own, &own::here(root, own), wait) {
        Ok(now) => now,
        Err(reason) => return Err(KnobError::Read { knob, place: own.name.clone(), reason }),
    };
    if own.values.contains(&now) {
        return Ok(now);
    }
    let known = own.values.join(", ");
    let reason = format!(
        "`{}` prints that now, and only {known} are in its values, so that it could not be put back; add it to them, or mend the command",
        own.read
    );
    Err(KnobError::Value { knob, at: String::new(), value: now, reason })
}

/// The mount point below which a setting lies and that is read-only, as `/sys` of a container is; none where it can be written.
#[must_use]
pub fn read_only_at(root: &SysRoot, setting: &Setting) -> Option<PathBuf> {
    let site = Site::find(root, &setting.place).ok()?;
    let Some(Spot::Files(files)) = site.spot_of(root, &setting.knob) else { return None };
    let file = Path::new("/").join(files.first()?);
    let own = mounts::own_mounts(root);
    let mount = mounts::mount_of(&own, &file)?;
    let is_read_only = |options: &str| options.split(',').any(|word| word == "ro");
    (is_read_only(&mount.options) || is_read_only(&mount.super_options))
        .then(|| mount.mount_point.clone())
}

/// A scheduler that the device offers already: no module is loaded for it.
fn is_loaded(root: &SysRoot, setting: &Setting) -> bool {
    let KnobPlace::Device { .. } = &setting.place else { return false };
    if setting.knob != crate::apply::SCHEDULER {
        return false;
    }
    let Some(site) = Site::find(root, &setting.place).ok() else { return false };
    let Some(dir) = site.device().map(|device| device.dir().join("queue/scheduler")) else {
        return false;
    };
    let offered = root.text(dir).unwrap_or_default();
    offered.split_whitespace().any(|word| word.trim_matches(['[', ']']) == setting.value)
}

/// What of the present state could not be put back exactly after these settings, one sentence each. Settings that are so already change
/// nothing.
#[must_use]
pub fn unrestorable(root: &SysRoot, settings: &[Setting]) -> Vec<String> {
    let mut sentences = Vec::new();
    for setting in settings {
        let Ok(knob) = names::find(&setting.knob) else { continue };
        let now = current(root, setting);
        let is_same = now.as_ref().is_some_and(|now| matches(knob, &setting.value, now));
        if !knob.inexact.is_empty() && !is_same && !is_loaded(root, setting) {
            let (id, place) = (knob.id, setting.place.name());
            sentences.push(format!(
                "{id} of {place} (now {}): what is not put back is {}",
                now.as_deref().unwrap_or("unknown"),
                knob.inexact
            ));
        }
    }
    sentences
}
