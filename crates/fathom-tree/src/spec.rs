//! What a tree is asked to look like.
//!
//! - [`buckets`]: distributions as tables, such as those that a scan of a real directory gives.
//! - [`layout`]: where everything in it lies, how it is called and how large it is: computed, never stored.
//! - [`settings`]: the words of the command line.

pub mod buckets;
pub mod layout;
pub mod settings;

use buckets::Buckets;
use fathom_base::lognormal::LogNormal;
use fathom_base::prng::Prng;
use serde::{Deserialize, Serialize};

/// How much is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// So many files.
    Files(u64),
    /// So many bytes in files, as nearly as whole files allow.
    Bytes(u64),
}

/// How large files are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// Log-normal.
    LogNormal {
        /// Half of the files are smaller, bytes.
        median_bytes: u64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// None is larger, bytes.
        max_bytes: u64,
    },
    /// All alike, bytes.
    Fixed(u64),
    /// As in a table, bytes.
    Table(Buckets),
}

impl Sizes {
    /// What the classic trees are taken to have had: median 4 KiB, mean 26 KiB, none above 16 MiB.
    #[must_use]
    pub fn classic() -> Self {
        Self::LogNormal { median_bytes: 4096, sigma: 1.93, max_bytes: 16 << 20 }
    }

    fn table(&self) -> Option<&Buckets> {
        match self {
            Self::Table(table) => Some(table),
            Self::LogNormal { .. } | Self::Fixed(_) => None,
        }
    }

    /// One size, bytes.
    #[must_use]
    pub fn draw(&self, prng: &mut Prng) -> u64 {
        match self {
            Self::LogNormal { median_bytes, sigma, max_bytes } => {
                LogNormal::new(*median_bytes, *sigma, *max_bytes).draw(prng)
            }
            Self::Fixed(bytes) => *bytes,
            Self::Table(table) => table.draw(prng),
        }
    }

    /// The mean, about, bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::LogNormal { median_bytes, sigma, max_bytes } => {
                LogNormal::new(*median_bytes, *sigma, *max_bytes).mean()
            }
            Self::Fixed(bytes) => *bytes as f64,
            Self::Table(table) => table.mean(),
        }
    }
}

/// How many of something there are in a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Number {
    /// Always so many.
    Fixed(u64),
    /// As in a table.
    Table(Buckets),
}

impl Number {
    fn table(&self) -> Option<&Buckets> {
        match self {
            Self::Table(table) => Some(table),
            Self::Fixed(_) => None,
        }
    }

    /// One number.
    #[must_use]
    pub fn draw(&self, prng: &mut Prng) -> u64 {
        match self {
            Self::Fixed(number) => *number,
            Self::Table(table) => table.draw(prng),
        }
    }
}

/// What a tree is asked to look like: together with the seed it says every name, size and byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeSpec {
    /// Seed of everything.
    pub seed: u64,
    /// How much.
    pub amount: Amount,
    /// Directories in a directory, 1 to 100 000.
    pub fan_out: u64,
    /// Levels of directories below the first at the most; as many as are needed when none.
    pub depth: Option<u64>,
    /// Files in a directory; where `depth` leaves too few directories, a multiple of that.
    pub files_per_directory: Number,
    /// Their sizes.
    pub sizes: Sizes,
    /// Bytes of each name, 12 to 255; 8 to 20 at random when none.
    pub name_bytes: Option<Buckets>,
}

impl TreeSpec {
    /// The classic tree: 3 directories and 11 files in each directory, sizes as reconstructed.
    #[must_use]
    pub fn classic(seed: u64, amount: Amount) -> Self {
        Self {
            seed,
            amount,
            fan_out: 3,
            depth: None,
            files_per_directory: Number::Fixed(11),
            sizes: Sizes::classic(),
            name_bytes: None,
        }
    }

    /// What is wrong with a table that somebody wrote; none when nothing is.
    fn fault_of_tables(&self) -> Option<String> {
        let tables = [
            ("files_per_directory", self.files_per_directory.table()),
            ("sizes", self.sizes.table()),
            ("name_bytes", self.name_bytes.as_ref()),
        ];
        let fault = |(name, table): (&str, Option<&Buckets>)| {
            table.and_then(Buckets::fault).map(|fault| format!("{name}: {fault}"))
        };
        tables.into_iter().find_map(fault)
    }
}
