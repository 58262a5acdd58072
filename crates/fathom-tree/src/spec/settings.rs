//! The words in which a tree is described: `key=value` on the command line.

use super::buckets::Buckets;
use super::{Amount, Number, Sizes, TreeSpec};
use crate::scan::table::Table;
use fathom_base::suggest;
use fathom_base::units::{parse_count, parse_duration_ns, parse_size};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The keys with their meaning, for help.
pub const KEYS: [(&str, &str); 10] = [
    ("files", "how many files"),
    ("size", "how many bytes in files, such as 20GB"),
    ("time", "it ends, as a whole tree, after so long"),
    ("fan_out", "directories in each directory [3]"),
    ("depth", "levels of directories at the most [as many as needed]"),
    ("files_per_directory", "files in each directory [11]"),
    ("file_size", "lognormal:MEDIAN:SIGMA:MAX, or one size for all [lognormal:4k:1.93:16M]"),
    ("name_bytes", "length of each name, 12 to 255 [8 to 20 at random]"),
    ("table", "sizes, names and numbers as in a table of fathom tree scan"),
    ("threads", "threads that make files [twice the processors, 4 to 32]"),
];

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// How much; none when nobody says.
    pub amount: Option<Amount>,
    /// The end by time.
    pub time_ns: Option<u64>,
    /// Threads.
    pub threads: Option<usize>,
    /// A file with a table.
    pub table: Option<String>,
    fan_out: Option<u64>,
    depth: Option<u64>,
    files_per_directory: Option<u64>,
    sizes: Option<Sizes>,
    name_bytes: Option<u64>,
}

impl Settings {
    /// Reads pairs of key and value.
    ///
    /// # Errors
    /// What makes no sense, with the key.
    pub fn parse(pairs: &[(String, String)]) -> Result<Self, String> {
        let mut settings = Self::default();
        for (key, value) in pairs {
            settings.set(key, value).map_err(|reason| format!("{key}={value}: {reason}"))?;
        }
        Ok(settings)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "files" => self.set_amount(Amount::Files(whole(value, 1..=1 << 40)?))?,
            "size" => self.set_amount(Amount::Bytes(parse_size(value).map_err(text)?.max(1)))?,
            "time" => self.time_ns = Some(parse_duration_ns(value).map_err(text)?.max(1)),
            "fan_out" => self.fan_out = Some(whole(value, 1..=100_000)?),
            "depth" => self.depth = Some(whole(value, 0..=100_000)?),
            "files_per_directory" => self.files_per_directory = Some(whole(value, 1..=10_000_000)?),
            "file_size" => self.sizes = Some(sizes(value)?),
            "name_bytes" => self.name_bytes = Some(whole(value, 12..=255)?),
            "table" => self.table = Some(value.to_owned()),
            "threads" => self.threads = Some(whole(value, 1..=1024)? as usize),
            _ => {
                let known = || KEYS.iter().map(|(key, _)| *key);
                let (all, hint) =
                    (known().collect::<Vec<_>>().join(", "), suggest::hint(key, known()));
                return Err(format!("a tree has no such setting; these: {all}{hint}"));
            }
        }
        Ok(())
    }

    fn set_amount(&mut self, amount: Amount) -> Result<(), String> {
        match self.amount.replace(amount) {
            None => Ok(()),
            Some(_) => {
                Err("files= and size= say the same thing in two ways; give one of them".into())
            }
        }
    }

    /// The tree: what is given, else as in the table, else the classic one; `default` is how much when nothing says.
    #[must_use]
    pub fn spec(&self, seed: u64, table: Option<&Table>, default: Amount) -> TreeSpec {
        let of_table = table.map(|table| Amount::Files(table.files.max(1)));
        let mut spec = TreeSpec::classic(seed, self.amount.or(of_table).unwrap_or(default));
        if let Some(table) = table {
            spec.fan_out = table.fan_out();
            spec.files_per_directory = Number::Table(table.files_per_directory.clone());
            spec.sizes = Sizes::Table(table.file_bytes.clone());
            spec.name_bytes = Some(table.name_bytes.clone());
        }
        spec.fan_out = self.fan_out.unwrap_or(spec.fan_out);
        spec.depth = self.depth;
        if let Some(number) = self.files_per_directory {
            spec.files_per_directory = Number::Fixed(number);
        }
        if let Some(sizes) = &self.sizes {
            spec.sizes = sizes.clone();
        }
        if let Some(bytes) = self.name_bytes {
            spec.name_bytes = Some(Buckets::of(bytes));
        }
        spec
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn whole(value: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let number = parse_count(value).map_err(text)?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(format!("from {} to {}", range.start(), range.end()))
    }
}

/// `4k`, or `lognormal:MEDIAN:SIGMA:MAX` with defaults from the end.
fn sizes(value: &str) -> Result<Sizes, String> {
    let mut parts = value.split(':');
    if parts.next() != Some("lognormal") {
        let hint = "; a size for all files such as 4k, or lognormal:MEDIAN:SIGMA:MAX such as lognormal:4k:1.93:16M";
        return parse_size(value).map(Sizes::Fixed).map_err(|error| format!("{error}{hint}"));
    }
    let median_bytes = parts.next().map_or(Ok(4096), parse_size).map_err(text)?;
    let sigma: f64 =
        parts.next().unwrap_or("1.93").parse().map_err(|_| "sigma is a number such as 1.93")?;
    let max_bytes = parts.next().map_or(Ok(16 << 20), parse_size).map_err(text)?;
    if parts.next().is_some() {
        return Err("lognormal:MEDIAN:SIGMA:MAX, such as lognormal:4k:1.93:16M".into());
    }
    if !(0.0..=5.0).contains(&sigma) || median_bytes == 0 || max_bytes < median_bytes {
        return Err(
            "the median from 1 byte, sigma from 0 to 5, the largest not below the median".into()
        );
    }
    Ok(Sizes::LogNormal { median_bytes, sigma, max_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let own: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::parse(&own)
    }

    #[test]
    fn words_become_a_tree() {
        let settings = parse(&[
            ("files", "100"),
            ("fan_out", "5"),
            ("file_size", "4k"),
            ("name_bytes", "255"),
            ("threads", "2"),
        ]);
        let settings = settings.unwrap();
        let spec = settings.spec(3, None, Amount::Bytes(1));
        assert_eq!((spec.seed, spec.amount, spec.fan_out), (3, Amount::Files(100), 5));
        assert_eq!((spec.sizes, settings.threads), (Sizes::Fixed(4096), Some(2)));
        let other = parse(&[("size", "20GB"), ("file_size", "lognormal:8k:1:1M")]).unwrap();
        let spec = other.spec(3, None, Amount::Files(1));
        assert_eq!(spec.amount, Amount::Bytes(20_000_000_000));
        let sizes = Sizes::LogNormal { median_bytes: 8192, sigma: 1.0, max_bytes: 1 << 20 };
        assert_eq!(spec.sizes, sizes);
        assert_eq!(
            parse(&[]).unwrap().spec(1, None, Amount::Files(9)),
            TreeSpec::classic(1, Amount::Files(9))
        );
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_key() {
        for (key, value, reason) in [
            ("files", "0", "from 1"),
            ("fanout", "3", "fan_out"),
            ("file_size", "big", "lognormal"),
            ("file_size", "lognormal:4k:9", "sigma"),
            ("name_bytes", "256", "to 255"),
            ("time", "5", "5"),
        ] {
            let error = parse(&[(key, value)]).unwrap_err();
            assert!(
                error.starts_with(&format!("{key}={value}: ")) && error.contains(reason),
                "{error}"
            );
        }
        assert!(parse(&[("files", "1"), ("size", "1G")]).unwrap_err().contains("one of them"));
    }
}
