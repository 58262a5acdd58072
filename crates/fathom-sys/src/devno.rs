//! Device numbers as the kernel prints them.

use std::fmt;
use std::str::FromStr;

/// Major and minor number of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevNo {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl DevNo {
    /// From the `st_dev` or `st_rdev` of a stat call.
    #[must_use]
    pub fn from_raw(raw: u64) -> Self {
        Self { major: rustix::fs::major(raw), minor: rustix::fs::minor(raw) }
    }

    /// The form that stat calls use.
    #[must_use]
    pub fn to_raw(self) -> u64 {
        rustix::fs::makedev(self.major, self.minor)
    }
}

impl fmt::Display for DevNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DevNo {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.trim().split_once(':').ok_or(())?;
        Ok(Self { major: major.parse().map_err(|_| ())?, minor: minor.parse().map_err(|_| ())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_raw_forms_agree() {
        let devno: DevNo = "259:1048575".parse().unwrap();
        assert_eq!(DevNo::from_raw(devno.to_raw()), devno);
        assert_eq!(devno.to_string(), "259:1048575");
        assert!("8".parse::<DevNo>().is_err());
    }
}
