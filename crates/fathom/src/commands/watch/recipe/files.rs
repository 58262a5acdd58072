//! Recipes without a server: a database in a file, copies, a build.

use super::{Kind, Recipe};

/// SQLite.
pub const SQLITE: Recipe = Recipe {
    name: "sqlite",
    title: "SQLite: single-row transactions on a table of 100 000 rows, each committed to stable storage",
    needs: &[("sqlite3", "sqlite3"), ("awk", "mawk")],
    settings: &[("transactions", Kind::Count, "2000")],
    // A line of SQL and a row with its page for each, and the table.
    space_mib: |settings| 64 + settings["transactions"].value / 512,
    first: &[],
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
    user: None,
};

/// One file.
pub const DD: Recipe = Recipe {
    name: "dd",
    title: "one file written past the page cache, MiB by MiB, then read back",
    needs: &[("dd", "coreutils"), ("awk", "mawk")],
    settings: &[("size", Kind::Size, "1GiB")],
    space_mib: |settings| settings["size"].value,
    first: &[],
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
    user: None,
};

/// A copy of many files.
pub const COPY: Recipe = Recipe {
    name: "copy",
    title: "cp -a of a tree of files of 64 KiB, to stable storage",
    needs: &[("cp", "coreutils"), ("awk", "mawk")],
    settings: &[("size", Kind::Size, "256MiB")],
    // In steps of 4 MiB, twice.
    space_mib: |settings| 2 * settings["size"].value.next_multiple_of(4) + 16,
    first: &[],
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
    user: None,
};

/// Compiling and linking.
pub const BUILD_TREE: Recipe = Recipe {
    name: "build-tree",
    title: "C files in directories, with shared headers, compiled, archived by directory and linked into one, as a kernel is",
    needs: &[("cc", "gcc"), ("make", "make"), ("ar", "binutils"), ("awk", "mawk")],
    settings: &[("files", Kind::Count, "300")],
    // Source, object and list of headers, then twice in archives and in the whole.
    space_mib: |settings| 32 + settings["files"].value / 4,
    first: &[],
    prepare: r##"cd "$FATHOM_DIR"
mkdir include
n=0
while [ $((n * 50)) -lt "$FATHOM_files" ]; do mkdir -p "src/d$n"; n=$((n + 1)); done
awk -v files="$FATHOM_files" 'BEGIN {
for (h = 0; h < 20; h++) {
    file = "include/shared" h ".h"
    printf "#ifndef SHARED%d\n#define SHARED%d\n", h, h > file
    for (i = 0; i < 60; i++)
        printf "#define FLAG_%d_%d (1u << %d)\nstruct s%d_%d { struct s%d_%d *next; unsigned long a, b; char name[%d]; };\nstatic inline unsigned long get%d_%d(const struct s%d_%d *x) { return x->next ? x->a & x->next->b : x->b; }\n", h, i, i % 32, h, i, h, i, 8 + i, h, i, h, i > file
    printf "#endif\n" > file
    close(file)
}
for (f = 0; f < files; f++) {
    file = "src/d" int(f / 50) "/f" f ".c"
    for (h = 0; h < 8; h++) printf "#include \"shared%d.h\"\n", (f * 7 + h * 3) % 20 > file
    for (i = 0; i < 12; i++) {
        h = (f * 7 + (i % 8) * 3) % 20
        printf "unsigned long f%d_%d(struct s%d_%d *x, unsigned long n)\n{\n\tunsigned long sum = %d;\n\tfor (; x && n; n--, x = x->next) {\n\t\tif (x->a & FLAG_%d_%d)\n\t\t\tsum += get%d_%d(x);\n\t\telse\n\t\t\tsum ^= (unsigned char)x->name[n %% sizeof(x->name)];\n\t}\n\treturn sum;\n}\n", f, i, h, i, i, h, i, h, i > file
    }
    close(file)
}
}'
printf 'D := $(wildcard src/*)\nwhole.o: $(D:=/built-in.a)\n\t$(CC) -r -nostdlib -o $@ -Wl,--whole-archive $^\n.SECONDEXPANSION:\n%%/built-in.a: $$(subst .c,.o,$$(wildcard $$*/*.c))\n\tar rcs $@ $^\n%%.o: %%.c\n\t$(CC) -O1 -pipe -Iinclude -MMD -c -o $@ $<\n' >Makefile
sync -f .
"##,
    run: r#"cd "$FATHOM_DIR"
begun=$(date +%s%N)
make -s -j "$(nproc)" whole.o
sync -f .
echo "files per minute $(($FATHOM_files * 60000000000 / ($(date +%s%N) - begun)))"
"#,
    finish: "",
    figures: &[("files_per_minute", "files per minute {}")],
    user: None,
};
