//! Ready applications: what is done before, what is watched, what is done after, each a script for /bin/sh in a private directory.

mod files;
mod servers;

use fathom_base::suggest::nearest;
use fathom_base::units::{parse_count, parse_duration_ns, parse_size};
use std::collections::{BTreeMap, BTreeSet};

/// A ready application.
pub struct Recipe {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub title: &'static str,
    /// Programs that it needs, with the Debian package of each.
    pub needs: &'static [(&'static str, &'static str)],
    /// What it can be told, with the values otherwise.
    settings: &'static [(&'static str, Kind, &'static str)],
    /// What it takes of the filesystem at most, with its settings, in MiB.
    space_mib: fn(&BTreeMap<&'static str, Set>) -> u64,
    /// What stands before all of its scripts.
    first: &'static [&'static str],
    /// What is done before it is watched.
    pub prepare: &'static str,
    /// What is watched.
    pub run: &'static str,
    /// What is done after it.
    pub finish: &'static str,
    /// Its figures, as for `--figure`.
    pub figures: &'static [(&'static str, &'static str)],
    /// The user without rights that its server runs as, when there is one of that name.
    pub user: Option<&'static str>,
}

/// A setting.
pub struct Set {
    /// As scripts get it.
    pub value: u64,
    /// As it was written.
    pub text: String,
}

/// What a setting is.
#[derive(Clone, Copy)]
enum Kind {
    /// Handed on in MiB.
    Size,
    /// A number.
    Count,
    /// Handed on in seconds.
    Time,
}

/// More clients than any server takes here.
const CLIENTS_MAX: u64 = 10_000;

/// All of them.
const RECIPES: &[Recipe] = &[
    servers::PGBENCH,
    servers::VACUUM_FULL,
    servers::OPTIMIZE_TABLE,
    files::SQLITE,
    files::DD,
    files::COPY,
    files::BUILD_TREE,
];

/// The recipe of `NAME[,KEY=VALUE...]` and its settings as its scripts get them.
///
/// # Errors
/// What is wrong with the text.
pub fn find(text: &str) -> Result<(&'static Recipe, BTreeMap<&'static str, Set>), String> {
    let mut words = text.split(',');
    let name = words.next().unwrap_or_default();
    let names = || RECIPES.iter().map(|recipe| recipe.name);
    let recipe = RECIPES.iter().find(|recipe| recipe.name == name).ok_or_else(|| {
        let near =
            nearest(name, names()).map_or_else(String::new, |n| format!("; did you mean {n}?"));
        format!(
            "there is no recipe '{name}'{near} (there are {})",
            names().collect::<Vec<_>>().join(", ")
        )
    })?;
    let mut settings = BTreeMap::new();
    for (key, kind, otherwise) in recipe.settings {
        settings
            .insert(*key, Set { value: value(*kind, otherwise)?, text: (*otherwise).to_owned() });
    }
    let mut given = BTreeSet::new();
    for word in words {
        let known = recipe.settings.iter().find(|(key, ..)| word.split('=').next() == Some(*key));
        let (Some((key, kind, _)), Some((_, text))) = (known, word.split_once('=')) else {
            let keys: Vec<&str> = recipe.settings.iter().map(|(key, ..)| *key).collect();
            return Err(format!("'{word}': {name} takes {}, as KEY=VALUE", keys.join(", ")));
        };
        let value = value(*kind, text).map_err(|error| format!("{word}: {error}"))?;
        if *key == "clients" && value > CLIENTS_MAX {
            return Err(format!("{word}: at most {CLIENTS_MAX}"));
        }
        if !given.insert(*key) {
            return Err(format!("{word}: {key} is given twice"));
        }
        settings.insert(*key, Set { value, text: text.to_owned() });
    }
    Ok((recipe, settings))
}

fn value(kind: Kind, text: &str) -> Result<u64, String> {
    let number = match kind {
        Kind::Size => parse_size(text).map(|bytes| bytes.div_ceil(1 << 20)),
        Kind::Count => parse_count(text),
        Kind::Time => match parse_duration_ns(text) {
            Ok(ns) if !ns.is_multiple_of(1_000_000_000) => {
                return Err("in whole seconds, at least 1s".to_owned());
            }
            time => time.map(|ns| ns / 1_000_000_000),
        },
    };
    let number = number.map_err(|error| error.to_string())?;
    if number == 0 { Err("at least one".to_owned()) } else { Ok(number) }
}

impl Recipe {
    /// One of its scripts, whole.
    pub fn script(&self, part: &str) -> String {
        format!("set -eu\n{}{part}", self.first.concat())
    }

    /// What it takes of the filesystem at most.
    pub fn space_bytes(&self, settings: &BTreeMap<&'static str, Set>) -> u64 {
        (self.space_mib)(settings).saturating_mul(1 << 20)
    }

    /// The first program that is missing, and the package that has it.
    pub fn missing(&self) -> Option<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Servers lie where only root looks for them.
        let dirs: Vec<_> = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
        let is_there = |program: &str| dirs.iter().any(|dir| dir.join(program).is_file());
        let (program, package) = self.needs.iter().find(|(program, _)| !is_there(program))?;
        Some(format!("the recipe {} needs {program}: apt install {package}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_plan::figure::Figure;

    #[test]
    fn settings_are_read_and_wrong_ones_refused() {
        let (recipe, settings) = find("pgbench,scale=5,time=2m").expect("known");
        assert_eq!(
            (recipe.name, settings["scale"].value, settings["time"].value),
            ("pgbench", 5, 120)
        );
        assert_eq!(find("dd,size=3G").expect("known").1["size"].value, 3072);
        for (text, part) in [
            ("pgbnch", "did you mean pgbench"),
            ("dd,speed=3", "dd takes size"),
            ("dd,size", "dd takes size"),
            ("dd,size=0", "at least one"),
            ("dd,size=64M,size=32M", "size is given twice"),
            ("pgbench,time=1ms", "whole seconds"),
            ("pgbench,time=1500ms", "whole seconds"),
            ("pgbench,time=0s", "at least one"),
            ("pgbench,clients=1000000", "at most 10000"),
            ("sqlite,transactions=x", "transactions=x"),
            ("optimize", "there is no recipe 'optimize'"),
        ] {
            let error = find(text).err().expect(text);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_recipe_has_figures_that_can_be_read() {
        for recipe in RECIPES {
            for (name, figure) in recipe.figures {
                assert!(Figure::parse(figure).is_ok() && !name.contains(' '), "{figure}");
            }
            assert!(!recipe.figures.is_empty() && recipe.script(recipe.run).starts_with("set -eu"));
        }
    }

    #[test]
    fn space_grows_with_the_settings_and_never_turns_over() {
        let mib = |text: &str| {
            let (recipe, settings) = find(text).expect("known");
            recipe.space_bytes(&settings) >> 20
        };
        assert_eq!((mib("dd,size=10T"), mib("copy,size=1G")), (10 << 20, 2064));
        assert!(mib("pgbench,scale=100000") > 100_000 * 16);
        assert!((128..600).contains(&mib("pgbench,scale=1,time=3s")));
        for recipe in RECIPES {
            let (key, kind, otherwise) = recipe.settings[0];
            let unit = if matches!(kind, Kind::Size) { "MiB" } else { "" };
            let large = format!("{},{key}=17592186044415{unit}", recipe.name);
            let usual = format!("{},{key}={otherwise}", recipe.name);
            assert!(mib(&large) > mib(&usual), "{large}: {} {}", mib(&large), mib(&usual));
        }
    }
}
