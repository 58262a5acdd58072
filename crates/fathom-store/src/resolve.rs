//! From what people type to the identifier of a run, and back to the shortest that is enough.

use crate::{Store, StoreError};
use fathom_base::suggest;

/// The shortest prefix that is shown: shorter ones would soon be ambiguous.
const PREFIX_CHARS_MIN: usize = 4;

impl Store {
    /// The identifier of the one run that has this label, else of the one whose identifier begins so; capitals of that are taken as
    /// small letters.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] names the nearest or the most recent run, [`StoreError::Labelled`] and [`StoreError::Ambiguous`] the
    /// candidates.
    pub fn resolve(&self, prefix: &str) -> Result<String, StoreError> {
        let labelled = self.ids("WHERE label = ?1 AND length(?1) > 0", prefix)?;
        match labelled.as_slice() {
            [] => {}
            [id] => return Ok(id.clone()),
            several => {
                let short = several.iter().map(|id| self.shortest_prefix(id));
                let candidates = short.collect::<Result<_, _>>()?;
                return Err(StoreError::Labelled { label: prefix.to_owned(), candidates });
            }
        }
        let wanted = prefix.trim().to_ascii_lowercase();
        let mut candidates =
            self.ids("WHERE substr(id, 1, length(?1)) = ?1 AND length(?1) > 0", &wanted)?;
        match candidates.len() {
            0 => Err(self.not_found(prefix)?),
            1 => Ok(candidates.remove(0)),
            _ => {
                let short = candidates.iter().map(|id| self.shortest_prefix(id));
                let candidates = short.collect::<Result<_, _>>()?;
                Err(StoreError::Ambiguous { prefix: prefix.to_owned(), candidates })
            }
        }
    }

    /// The shortest beginning of `id`, four characters at least, that no other run shares.
    ///
    /// # Errors
    /// Everything about reading.
    pub fn shortest_prefix(&self, id: &str) -> Result<String, StoreError> {
        // Whoever shares most with an identifier stands next to it in the order.
        let (before, after): (Option<String>, Option<String>) = self
            .connection
            .query_row(
                "SELECT (SELECT max(id) FROM runs WHERE id < ?1),
                        (SELECT min(id) FROM runs WHERE id > ?1)",
                [id],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .map_err(|e| StoreError::of(&self.path, &e))?;
        let shared = [before, after].iter().flatten().map(|other| shared_chars(id, other)).max();
        let chars = shared.map_or(0, |shared| shared + 1).max(PREFIX_CHARS_MIN);
        Ok(id.chars().take(chars).collect())
    }

    /// The error for a run that is not there, with the nearest or the most recent one.
    pub(crate) fn not_found(&self, prefix: &str) -> Result<StoreError, StoreError> {
        let ids = self.ids("WHERE ?1 IS NOT NULL", prefix)?;
        let wanted = prefix.trim().to_ascii_lowercase();
        let heads: Vec<&str> =
            ids.iter().filter_map(|id| id.get(..wanted.len().clamp(1, id.len()))).collect();
        let near = suggest::nearest(&wanted, heads.iter().copied())
            .and_then(|near| heads.iter().position(|head| *head == near));
        let hint = match (near.and_then(|i| ids.get(i)), ids.first()) {
            (Some(id), _) => format!("; the nearest is '{}'", self.shortest_prefix(id)?),
            (None, Some(id)) => format!("; the most recent is '{}'", self.shortest_prefix(id)?),
            (None, None) => "; no run is stored yet".to_owned(),
        };
        Ok(StoreError::NotFound { prefix: prefix.to_owned(), hint })
    }

    /// Identifiers, newest first.
    fn ids(&self, condition: &str, parameter: &str) -> Result<Vec<String>, StoreError> {
        let sql =
            format!("SELECT id FROM runs {condition} ORDER BY started_unix_ns DESC, rowid DESC");
        self.connection
            .prepare(&sql)
            .and_then(|mut statement| statement.query_map([parameter], |row| row.get(0))?.collect())
            .map_err(|e| StoreError::of(&self.path, &e))
    }
}

fn shared_chars(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count()
}
