//! `/etc/fstab`, see fstab(5).

use fathom_check::known::plain_option;
use fathom_model::system::FstabEntry;
use fathom_sys::mounts::unescape;

/// Options that hold a secret or a person's name (CIFS, Ceph); only their names are kept.
const SECRET: [&str; 14] = [
    "cred",
    "credentials",
    "domain",
    "key",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "password2",
    "secret",
    "secretfile",
    "user",
    "username",
    "workgroup",
];

/// The entries, without comments and lines of fewer than three fields.
#[must_use]
pub fn parse(text: &str) -> Vec<FstabEntry> {
    text.lines().filter_map(|line| parse_line(line.trim())).collect()
}

fn parse_line(line: &str) -> Option<FstabEntry> {
    let mut fields = line.split_ascii_whitespace();
    let source = fields.next().filter(|first| !first.starts_with('#'))?;
    let (mount_point, fs_type) = (fields.next()?, fields.next()?);
    let options = fields.next().unwrap_or("defaults");
    Some(FstabEntry {
        source: unescape(source.trim_matches('"')),
        mount_point: unescape(mount_point),
        fs_type: fs_type.to_owned(),
        options: options
            .split(',')
            .filter(|o| !o.is_empty())
            .map(|option| unescape(plain_option(option)))
            .collect(),
        // Behind the field for dump(8).
        pass: fields.nth(1).and_then(|pass| pass.parse().ok()).unwrap_or(0),
    })
}

/// The option, of those that hold a secret or a person's name the name alone.
#[must_use]
pub fn without_secret(option: &str) -> &str {
    option.split_once('=').map(|(name, _)| name).filter(|n| SECRET.contains(n)).unwrap_or(option)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_with_their_options() {
        let found = parse(
            "# /dev/sdz / ext4\nUUID=0a / ext4 errors=remount-ro 0 1\n\n\
             /dev/sdb1\t/srv/my\\040data  xfs  noatime,nofail 0 0\n//host/share /m cifs user=me,password=x,vers=3 0 0\n\
             /dev/sdc1 none\n/dev/sdd1 /d auto\n",
        );
        let told: Vec<_> =
            found.iter().map(|e| (e.source.as_str(), e.mount_point.as_str())).collect();
        assert_eq!(
            told,
            [
                ("UUID=0a", "/"),
                ("/dev/sdb1", "/srv/my data"),
                ("//host/share", "/m"),
                ("/dev/sdd1", "/d")
            ]
        );
        assert_eq!(found[1].options, ["noatime", "nofail"]);
        assert_eq!(found[2].options, ["user", "password", "vers=3"]);
        assert_eq!(found[3].options, ["defaults"]);
        // What an option is set to is kept of figures and of words of filesystems alone.
        let valued = parse(
            "mon1:6789:/ /s ceph name=acme,secret=AQDKEY==,_netdev 0 0\n\
             /dev/sda1 / ext4 data=journal,commit=30,journal_path=/dev/disk/by-id/ata-X,\
             x-systemd.requires=acmevpn.service,uid=acme,size=10g 0 1\n",
        );
        assert_eq!(valued[0].options, ["name", "secret", "_netdev"]);
        let kept =
            ["data=journal", "commit=30", "journal_path", "x-systemd.requires", "uid", "size=10g"];
        assert_eq!(valued[1].options, kept);
        assert_eq!(without_secret("secret=AQD"), "secret");
        assert_eq!(found.iter().map(|e| e.pass).collect::<Vec<_>>(), [1, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_crash(text in any::<String>()) {
            prop_assert!(parse(&text).len() <= text.lines().count());
        }
    }
}
