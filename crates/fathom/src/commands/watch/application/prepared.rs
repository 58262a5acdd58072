//! What a recipe has made before it is watched, and how that goes again.

use super::place;
use crate::args::Common;
use crate::commands::CommandError;
use crate::commands::watch::recipe::{self, Recipe, Set};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::id;
use fathom_base::prng::Prng;
use fathom_guard::{LockError, MeasuringLock, PrivateDir};
use fathom_lab::LabError;
use fathom_lab::target::check_room_of_application;
use fathom_sys::process;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// In the environment of what an experiment starts: where its journal is.
const JOURNAL: &str = "FATHOM_JOURNAL";

/// A recipe and its private directory. Fields are given back in this order.
pub struct Prepared {
    /// The recipe.
    pub recipe: &'static Recipe,
    settings: BTreeMap<&'static str, Set>,
    user: Option<(u32, u32)>,
    mark: String,
    place: PrivateDir,
    output: Output,
    /// A ready application is a load of fathom's: one at a time.
    _lock: Option<MeasuringLock>,
}

impl Prepared {
    /// Makes its directory, if everything that it needs is there.
    pub fn of(
        root: &SysRoot,
        common: &Common,
        output: Output,
        stop: &StopFlag,
        (devices, text): (&[String], &str),
        mark: &str,
    ) -> Result<Self, CommandError> {
        let usage = |text: String| CommandError::usage(output, &text);
        let (recipe, settings) = recipe::find(text).map_err(usage)?;
        let [target] = devices else {
            let name = recipe.name;
            let text = format!("a recipe needs one directory: fathom watch --recipe={name} DIR");
            return Err(usage(text));
        };
        let target = Path::new(target);
        if !target.is_dir() {
            let text = format!("{}: a recipe needs a directory to work in", target.display());
            return Err(usage(text));
        }
        if let Some(text) = recipe.missing() {
            return Err(CommandError::report_as(output, &text, Exit::Missing));
        }
        let (lock, state_dir) = begin(root, common, output, stop)?;
        let failed =
            |error: LabError| CommandError::report_as(output, &error, Exit::of_error(&error));
        let space = recipe.space_bytes(&settings);
        check_room_of_application(root, &state_dir, target, space).map_err(failed)?;
        let user = recipe.user.and_then(|name| place::user_without_rights(root, name));
        let id = id::new_id(&mut Prng::new(session::system_seed(), 0));
        let place = PrivateDir::create(root, target, &id, user, &state_dir)
            .map_err(|refusal| failed(refusal.into()))?;
        let unfit = recipe.user.and_then(|_| place::unfit_for_servers(place.path()));
        let closed = || user.and_then(|_| place::closed_to_others(place.path()));
        if let Some(text) = unfit.or_else(closed) {
            return Err(usage(text));
        }
        let mark = mark.to_owned();
        Ok(Self { recipe, settings, user, mark, place, output, _lock: lock })
    }

    /// Where it works.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// The words for one of its scripts.
    pub fn words(&self, part: &str) -> Vec<OsString> {
        let each =
            self.settings.iter().map(|(key, set)| ((*key).to_owned(), set.value.to_string()));
        let script = self.recipe.script(part);
        place::command(self.place.path(), each, self.user, &self.mark, &script)
    }

    /// The recipe with its settings, as it would be asked for.
    pub fn name(&self) -> String {
        let each = self.settings.iter().map(|(key, set)| format!(",{key}={}", set.text));
        format!("recipe {}{}", self.recipe.name, each.collect::<String>())
    }

    /// Removes its directory; nothing that it has started runs any more.
    pub fn remove(self) {
        if let Err(error) = self.place.remove() {
            self.output.error(&error.to_string());
        }
    }
}

/// What every measurement begins with, and where its journal is; when an experiment that has begun so has started this process,
/// its journal is taken, which is looked through when it was killed.
fn begin(
    root: &SysRoot,
    common: &Common,
    output: Output,
    stop: &StopFlag,
) -> Result<(Option<MeasuringLock>, PathBuf), CommandError> {
    let store = session::store_path(common)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let state_dir = store.parent().unwrap_or(Path::new(".")).to_owned();
    match MeasuringLock::acquire(root) {
        Ok(lock) => {
            session::clean_leftovers(root, &state_dir, output, stop);
            Ok((Some(lock), state_dir))
        }
        Err(LockError::Held { holder })
            if holder.pid.is_some_and(|p| process::is_above(root, p)) =>
        {
            let of_experiment = std::env::var_os(JOURNAL).map(PathBuf::from);
            Ok((None, of_experiment.filter(|dir| dir.is_absolute()).unwrap_or(state_dir)))
        }
        Err(error) => Err(CommandError::report_as(output, &error, Exit::of_lock(&error))),
    }
}
