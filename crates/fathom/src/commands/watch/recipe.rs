//! Ready applications: what is done before, what is watched, what is done after, each a script for /bin/sh in a private directory.

use fathom_base::suggest::nearest;
use fathom_base::units::{parse_count, parse_duration_ns, parse_size};
use std::collections::BTreeMap;

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
    /// What is done before it is watched.
    pub prepare: &'static str,
    /// What is watched.
    pub run: &'static str,
    /// What is done after it.
    pub finish: &'static str,
    /// Its figures, as for `--figure`.
    pub figures: &'static [(&'static str, &'static str)],
    /// True when everything runs as a user without rights.
    pub is_unprivileged: bool,
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

/// Where PostgreSQL's own programs are: Debian keeps them out of $PATH.
const POSTGRES: &str = r#"PATH="$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1):$PATH"
export PGHOST="$FATHOM_DIR" PGDATABASE=bench
"#;

/// All of them.
const RECIPES: &[Recipe] = &[
    Recipe {
        name: "pgbench",
        title: "PostgreSQL with pgbench (TPC-B-like): a server of its own, no network, default settings",
        needs: &[("pgbench", "postgresql"), ("setpriv", "util-linux")],
        settings: &[
            ("scale", Kind::Count, "20"),
            ("clients", Kind::Count, "8"),
            ("time", Kind::Time, "30s"),
        ],
        prepare: r#"command -v initdb >/dev/null || { echo "initdb is missing: apt install postgresql"; exit 1; }
initdb --pgdata="$FATHOM_DIR/pg" --auth=trust --username=bench --no-sync >"$FATHOM_DIR/log" 2>&1 || { cat "$FATHOM_DIR/log"; exit 1; }
pg_ctl --pgdata="$FATHOM_DIR/pg" --log="$FATHOM_DIR/log" --wait --options="-k '$FATHOM_DIR' -c listen_addresses=" start >/dev/null 2>&1 || { cat "$FATHOM_DIR/log"; exit 1; }
export PGUSER=bench
createdb bench
pgbench --initialize --quiet --scale="$FATHOM_scale" >"$FATHOM_DIR/log" 2>&1 || { cat "$FATHOM_DIR/log"; exit 1; }
psql --quiet --command=CHECKPOINT
"#,
        run: r#"PGUSER=bench pgbench --no-vacuum --client="$FATHOM_clients" --jobs="$FATHOM_clients" --time="$FATHOM_time" bench 2>&1
"#,
        finish: r#"pg_ctl --pgdata="$FATHOM_DIR/pg" --mode=immediate --wait stop >/dev/null 2>&1
"#,
        figures: &[("tps", "tps = {}"), ("latency_ms", "latency average = {} ms")],
        is_unprivileged: true,
    },
    Recipe {
        name: "sqlite",
        title: "SQLite: single-row transactions on a table of 100 000 rows, each committed to stable storage",
        needs: &[("sqlite3", "sqlite3"), ("awk", "mawk")],
        settings: &[("transactions", Kind::Count, "2000")],
        prepare: r#"sqlite3 "$FATHOM_DIR/db" "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, x TEXT);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 100000)
INSERT INTO t SELECT i, 0, hex(randomblob(50)) FROM c;"
awk -v n="$FATHOM_transactions" 'BEGIN { srand(7); print "PRAGMA synchronous=FULL;";
for (i = 1; i <= n; i++) printf "BEGIN IMMEDIATE; UPDATE t SET n = n + 1 WHERE id = %d; INSERT INTO t (n, x) VALUES (%d, hex(randomblob(50))); COMMIT;\n", 1 + int(rand() * 100000), i }' >"$FATHOM_DIR/transactions.sql"
sync -f "$FATHOM_DIR"
"#,
        run: r#"begun=$(date +%s%N)
sqlite3 -bail "$FATHOM_DIR/db" <"$FATHOM_DIR/transactions.sql"
awk -v n="$FATHOM_transactions" -v ns="$(($(date +%s%N) - begun))" 'BEGIN { printf "transactions per second %.1f\n", n * 1e9 / ns }'
"#,
        finish: "",
        figures: &[("tps", "transactions per second {}")],
        is_unprivileged: false,
    },
    Recipe {
        name: "dd",
        title: "one file written past the page cache, MiB by MiB, then read back",
        needs: &[("dd", "coreutils"), ("awk", "mawk")],
        settings: &[("size", Kind::Size, "1GiB")],
        prepare: "",
        run: r#"one() {
begun=$(date +%s%N)
dd status=none bs=1M "$@"
awk -v word="$word" -v mib="$FATHOM_size" -v ns="$(($(date +%s%N) - begun))" 'BEGIN { printf "%s MB/s %.1f\n", word, mib * 1048576e3 / ns }'
}
word=written; one if=/dev/zero of="$FATHOM_DIR/file" count="$FATHOM_size" oflag=direct conv=fsync
word=read; one if="$FATHOM_DIR/file" of=/dev/null iflag=direct
"#,
        finish: "",
        figures: &[("write_mb_per_s", "written MB/s {}"), ("read_mb_per_s", "read MB/s {}")],
        is_unprivileged: false,
    },
    Recipe {
        name: "copy",
        title: "cp -a of a tree of files of 64 KiB, to stable storage",
        needs: &[("cp", "coreutils"), ("awk", "mawk")],
        settings: &[("size", Kind::Size, "256MiB")],
        prepare: r#"mkdir "$FATHOM_DIR/from"
i=0
while [ $((i * 4)) -lt "$FATHOM_size" ]; do
mkdir "$FATHOM_DIR/from/$i"
head -c 4194304 /dev/urandom | (cd "$FATHOM_DIR/from/$i" && split -b 65536 -a 3)
i=$((i + 1))
done
sync -f "$FATHOM_DIR"
"#,
        run: r#"begun=$(date +%s%N)
cp -a "$FATHOM_DIR/from" "$FATHOM_DIR/to"
sync -f "$FATHOM_DIR"
awk -v files="$(find "$FATHOM_DIR/to" -type f | wc -l)" -v ns="$(($(date +%s%N) - begun))" 'BEGIN { printf "files per second %.1f\nMB/s %.1f\n", files * 1e9 / ns, files * 65536e3 / ns }'
"#,
        finish: "",
        figures: &[("files_per_s", "files per second {}"), ("mb_per_s", "MB/s {}")],
        is_unprivileged: false,
    },
    Recipe {
        name: "build-tree",
        title: "a tree of small C files with headers, compiled, archived, taken down: as a build does it",
        needs: &[("cc", "gcc"), ("make", "make"), ("ar", "binutils")],
        settings: &[("files", Kind::Count, "300")],
        prepare: r#"cd "$FATHOM_DIR"
mkdir include src
i=0
while [ $i -lt "$FATHOM_files" ]; do
d=src/d$((i / 50))
[ -d $d ] || mkdir $d
printf 'struct s%d { int a, b; };\nint f%d(struct s%d *);\n' $i $i $i >include/h$i.h
printf '#include "h%d.h"\n#include <stdio.h>\nint f%d(struct s%d *x) { return printf("%%d", x->a + x->b + %d); }\n' $i $i $i $i >$d/f$i.c
i=$((i + 1))
done
printf 'S := $(wildcard src/*/*.c)\nlib.a: $(S:.c=.o)\n\tar rc $@ $^\n%%.o: %%.c\n\tcc -O0 -Iinclude -MMD -c -o $@ $<\n' >Makefile
sync -f .
"#,
        run: r#"cd "$FATHOM_DIR"
begun=$(date +%s%N)
make -s -j "$(nproc)" lib.a
sync -f .
echo "files per minute $(($FATHOM_files * 60000000000 / ($(date +%s%N) - begun)))"
"#,
        finish: "",
        figures: &[("files_per_minute", "files per minute {}")],
        is_unprivileged: false,
    },
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
    for word in words {
        let known = recipe.settings.iter().find(|(key, ..)| word.split('=').next() == Some(*key));
        let (Some((key, kind, _)), Some((_, text))) = (known, word.split_once('=')) else {
            let keys: Vec<&str> = recipe.settings.iter().map(|(key, ..)| *key).collect();
            return Err(format!("'{word}': {name} takes {}, as KEY=VALUE", keys.join(", ")));
        };
        let value = value(*kind, text).map_err(|error| format!("{word}: {error}"))?;
        settings.insert(*key, Set { value, text: text.to_owned() });
    }
    Ok((recipe, settings))
}

fn value(kind: Kind, text: &str) -> Result<u64, String> {
    let number = match kind {
        Kind::Size => parse_size(text).map(|bytes| bytes.div_ceil(1 << 20)),
        Kind::Count => parse_count(text),
        Kind::Time => parse_duration_ns(text).map(|ns| ns.div_ceil(1_000_000_000)),
    };
    let number = number.map_err(|error| error.to_string())?;
    if number == 0 { Err("at least one".to_owned()) } else { Ok(number) }
}

impl Recipe {
    /// One of its scripts, whole.
    pub fn script(&self, part: &str) -> String {
        let first = if self.name == "pgbench" { POSTGRES } else { "" };
        format!("set -eu\nexport LC_ALL=C\n{first}{part}")
    }

    /// The first program that is missing, and the package that has it.
    pub fn missing(&self) -> Option<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there =
            |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
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
            ("sqlite,transactions=x", "transactions=x"),
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
}
