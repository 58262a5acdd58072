//! Command-line options of xtask: `--flag` and `--key=value`, nothing else.

/// The options that were given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Flags {
    given: Vec<(String, Option<String>)>,
}

impl Flags {
    /// Reads the arguments; `switches` stand alone, `keys` take a value (`--key=value` or `--key value`).
    ///
    /// # Errors
    /// For anything else.
    pub fn parse(args: &[String], switches: &[&str], keys: &[&str]) -> Result<Self, String> {
        let mut flags = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (name, mut value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            if value.is_none() && keys.contains(&name) {
                value = args.next().cloned();
            }
            let is_known = if value.is_some() { keys } else { switches }.contains(&name);
            if !is_known {
                return Err(format!("'{arg}' is not understood; --help shows the options"));
            }
            flags.given.push((name.to_owned(), value));
        }
        Ok(flags)
    }

    /// True when the switch was given.
    #[must_use]
    pub fn has(&self, switch: &str) -> bool {
        self.given.iter().any(|(name, _)| name == switch)
    }

    /// Every value that was given for the key, in order.
    #[must_use]
    pub fn values(&self, key: &str) -> Vec<&str> {
        self.given
            .iter()
            .filter(|(name, _)| name == key)
            .filter_map(|(_, v)| v.as_deref())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Flags, String> {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        Flags::parse(&args, &["--install"], &["--tier"])
    }

    #[test]
    fn switches_and_keys() {
        let flags = parse(&["--install", "--tier=pure", "--tier", "kernel"]).unwrap();
        assert!(flags.has("--install"));
        assert_eq!(flags.values("--tier"), ["pure", "kernel"]);
        assert!(!parse(&[]).unwrap().has("--install"));
    }

    #[test]
    fn anything_else_is_refused() {
        for args in [["--instal"].as_slice(), &["--tier"], &["--install=1"], &["pure"], &["--x=1"]]
        {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }
}
