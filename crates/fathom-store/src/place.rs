//! Where the store lies when nobody says.

use crate::StoreError;
use std::path::{Path, PathBuf};

/// The store's file: `$FATHOM_DB`, `/var/lib/fathom/fathom.db` for root, otherwise `fathom/fathom.db` in
/// `$XDG_STATE_HOME` or `~/.local/state`. Empty variables count as unset, a relative `$XDG_STATE_HOME` too.
///
/// # Errors
/// [`StoreError::NoPlace`] when nothing tells where.
pub fn default_path(
    fathom_db: Option<&Path>,
    is_root: bool,
    xdg_state_home: Option<&Path>,
    home: Option<&Path>,
) -> Result<PathBuf, StoreError> {
    let set = |path: Option<&Path>| path.filter(|p| !p.as_os_str().is_empty()).map(Path::to_owned);
    if let Some(path) = set(fathom_db) {
        return Ok(path);
    }
    if is_root {
        return Ok("/var/lib/fathom/fathom.db".into());
    }
    set(xdg_state_home)
        .filter(|path| path.is_absolute())
        .or_else(|| set(home).map(|home| home.join(".local/state")))
        .map(|state| state.join("fathom/fathom.db"))
        .ok_or(StoreError::NoPlace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_set_counts() {
        let path = |db: &str, is_root, xdg: &str, home: &str| {
            default_path(Some(db.as_ref()), is_root, Some(xdg.as_ref()), Some(home.as_ref()))
                .map(|p| p.display().to_string())
                .map_err(|e| e.to_string())
        };
        assert_eq!(path("/x/y.db", true, "/s", "/h"), Ok("/x/y.db".into()));
        assert_eq!(path("", true, "/s", "/h"), Ok("/var/lib/fathom/fathom.db".into()));
        assert_eq!(path("", false, "/s", "/h"), Ok("/s/fathom/fathom.db".into()));
        assert_eq!(path("", false, "s", "/h"), Ok("/h/.local/state/fathom/fathom.db".into()));
        assert!(path("", false, "", "").expect_err("nowhere").contains("--db"));
        assert!(default_path(None, false, None, None).is_err());
    }
}
