//! What a scanned directory is made of, as a file that people can read and change.

use crate::spec::buckets::Buckets;
use serde::{Deserialize, Serialize};

/// Version of the file.
const FORMAT: u32 = 1;

/// Numbers, sizes and lengths of names: no name is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Version of this form.
    pub format: u32,
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Links, devices, sockets, pipes.
    pub others: u64,
    /// Bytes in files.
    pub bytes: u64,
    /// The deepest directory.
    pub depth: u64,
    /// Sizes of files, bytes: `[upto, count]`.
    pub file_bytes: Buckets,
    /// Lengths of names, bytes.
    pub name_bytes: Buckets,
    /// Files in a directory.
    pub files_per_directory: Buckets,
    /// Directories in a directory.
    pub directories_per_directory: Buckets,
    /// Levels above a directory.
    pub directories_by_depth: Buckets,
}

impl Default for Table {
    fn default() -> Self {
        let empty = Buckets::default;
        Self {
            format: FORMAT,
            files: 0,
            directories: 0,
            others: 0,
            bytes: 0,
            depth: 0,
            file_bytes: empty(),
            name_bytes: empty(),
            files_per_directory: empty(),
            directories_per_directory: empty(),
            directories_by_depth: empty(),
        }
    }
}

impl Table {
    /// Counts a file.
    pub fn add_file(&mut self, size_bytes: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(size_bytes);
        self.file_bytes.add(size_bytes);
    }

    /// Counts a directory.
    pub fn add_dir(&mut self, files: u64, dirs: u64, depth: u64) {
        self.directories += 1;
        self.depth = self.depth.max(depth);
        self.files_per_directory.add(files);
        self.directories_per_directory.add(dirs);
        self.directories_by_depth.add(depth);
    }

    /// Directories in a directory that has some, on the average.
    #[must_use]
    pub fn fan_out(&self) -> u64 {
        let rows = self.directories_per_directory.rows().iter();
        let inner: u64 = rows.filter(|row| row.0 > 0).map(|row| row.1).sum();
        if inner == 0 {
            return 1;
        }
        let below = self.directories.saturating_sub(1);
        ((below as f64 / inner as f64).round() as u64).clamp(1, 100_000)
    }

    /// As a file.
    #[must_use]
    pub fn text(&self, source: &str) -> String {
        let head = format!(
            "# What {source:?} is made of, from fathom tree scan: for fathom tree build DIR table=FILE.\n\
             # Tables are [upto, count]: so many values up to that one, above the one before.\n"
        );
        head + &toml::to_string(self).unwrap_or_default()
    }

    /// From a file.
    ///
    /// # Errors
    /// What cannot be understood in it, or is no table of a tree.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table: Self =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        if table.format > FORMAT {
            return Err(format!("written by a newer fathom ({})", table.format));
        }
        for (name, rows) in [
            ("file_bytes", &table.file_bytes),
            ("name_bytes", &table.name_bytes),
            ("files_per_directory", &table.files_per_directory),
            ("directories_per_directory", &table.directories_per_directory),
        ] {
            if let Some(fault) = rows.fault() {
                return Err(format!("{name}: {fault}"));
            }
        }
        if table.files_per_directory.rows().iter().all(|row| row.0 == 0) {
            return Err("files_per_directory: no directory has files".into());
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_the_same_from_its_file() {
        let mut table = Table::default();
        for size in [0, 100, 5000, 5001, 1 << 20] {
            table.add_file(size);
            table.name_bytes.add(12);
        }
        table.add_dir(5, 2, 0);
        table.add_dir(0, 0, 1);
        table.add_dir(0, 0, 1);
        let text = table.text("/srv/\u{fffd}\n");
        assert_eq!(text.lines().filter(|line| line.starts_with('#')).count(), 2, "{text}");
        assert_eq!(Table::parse(&text).unwrap(), table);
        assert_eq!((table.fan_out(), table.files, table.bytes), (2, 5, 10_101 + (1 << 20)));
        for (from, to, reason) in [
            ("format = 1", "format = 2", "newer"),
            ("files = 5", "fils = 5", "fils"),
            ("[5, 1]", "[0, 1]", "must rise"),
        ] {
            let error = Table::parse(&text.replace(from, to)).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(Table::parse(&Table::default().text("x")).unwrap_err().contains("counts nothing"));
    }
}
