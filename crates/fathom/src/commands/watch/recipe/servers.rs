//! Recipes with a database server of their own: as a user without rights, without network, its socket and its data in the private
//! directory, asked after its start whether it is the one that was started.

use super::{Kind, Recipe, Set};
use std::collections::BTreeMap;

/// PostgreSQL's own programs, which Debian keeps out of $PATH; what it counts itself, before and after. Its shared memory outlives a
/// server that is killed: in a namespace of its own it does not, and where there can be none, it lies in the private directory as far
/// as possible.
const POSTGRES: &str = r#"PATH="$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1):$PATH"
export PGHOST="$FATHOM_DIR" PGDATABASE=bench PGUSER=bench
ask() { psql --no-psqlrc --no-align --tuples-only --quiet --field-separator=' ' --set=ON_ERROR_STOP=1 --command="$1"; }
start() {
command -v initdb >/dev/null || { echo "initdb is missing: apt install postgresql"; exit 1; }
initdb --pgdata="$FATHOM_DIR/pg" --auth=trust --username=bench --no-sync >"$FATHOM_DIR/init" 2>&1 || { cat "$FATHOM_DIR/init"; exit 1; }
apart= shared=mmap
for words in 'unshare --ipc' 'unshare --user --map-current-user --ipc'; do
if $words true 2>/dev/null; then apart=$words shared=sysv; break; fi
done
$apart pg_ctl --pgdata="$FATHOM_DIR/pg" --log="$FATHOM_DIR/log" --wait --options="-k '$FATHOM_DIR' -c listen_addresses= -c dynamic_shared_memory_type=$shared $1" start >/dev/null 2>&1 || { cat "$FATHOM_DIR/log"; exit 1; }
own=$(PGDATABASE=postgres ask 'SHOW data_directory')
[ "$own" = "$FATHOM_DIR/pg" ] || { echo "another server answers: $own"; exit 1; }
createdb bench
}
counted() {
case "$(ask 'SHOW server_version_num')" in
1[0-3]*) ask "SELECT (SELECT sum(blks_read) FROM pg_stat_database) * b, (SELECT buffers_checkpoint + buffers_clean + buffers_backend FROM pg_stat_bgwriter) * b + pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') FROM (SELECT current_setting('block_size')::numeric AS b) AS size" ;;
1[45]*) ask "SELECT (SELECT sum(blks_read) FROM pg_stat_database) * b, (SELECT buffers_checkpoint + buffers_clean + buffers_backend FROM pg_stat_bgwriter) * b + (SELECT wal_bytes FROM pg_stat_wal) FROM (SELECT current_setting('block_size')::numeric AS b) AS size" ;;
1[67]*) ask "SELECT sum(coalesce(reads, 0) * op_bytes), sum((coalesce(writes, 0) + coalesce(extends, 0)) * op_bytes) + (SELECT wal_bytes FROM pg_stat_wal) FROM pg_stat_io" ;;
*) ask "SELECT sum(coalesce(read_bytes, 0)), sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)) FROM pg_stat_io" ;;
esac
}
"#;

/// MariaDB, in the same way. Its programs lie where only root looks for them.
const MARIADB: &str = r#"PATH="$PATH:/usr/sbin"
sql() { mariadb --no-defaults --connect-timeout=10 --socket="$FATHOM_DIR/socket" --user=root --batch --skip-column-names --execute="$1"; }
start() {
mariadb-install-db --no-defaults --datadir="$FATHOM_DIR/data" --auth-root-authentication-method=normal --skip-test-db >"$FATHOM_DIR/log" 2>&1 || { cat "$FATHOM_DIR/log"; exit 1; }
setsid mariadbd --no-defaults --datadir="$FATHOM_DIR/data" --socket="$FATHOM_DIR/socket" --pid-file="$FATHOM_DIR/pid" --skip-networking --log-error="$FATHOM_DIR/log" >/dev/null 2>&1 &
server=$!
begun=$(date +%s)
until sql 'SELECT 1' >/dev/null 2>&1; do
kill -0 "$server" 2>/dev/null || { cat "$FATHOM_DIR/log"; exit 1; }
[ $(($(date +%s) - begun)) -lt 300 ] || { tail -n 4 "$FATHOM_DIR/log"; echo "mariadbd runs, but has answered nobody for 5 minutes"; exit 1; }
sleep 0.1
done
own=$(sql 'SELECT @@datadir')
[ "$own" = "$FATHOM_DIR/data/" ] || { echo "another server answers: $own"; exit 1; }
}
counted() {
sql "SELECT MAX(IF(VARIABLE_NAME = 'INNODB_DATA_READ', CAST(VARIABLE_VALUE AS UNSIGNED), 0)), MAX(IF(VARIABLE_NAME = 'INNODB_DATA_WRITTEN', CAST(VARIABLE_VALUE AS UNSIGNED), 0)) FROM information_schema.GLOBAL_STATUS"
}
"#;

/// Ends PostgreSQL without writing anything more to the target.
const POSTGRES_STOP: &str =
    "pg_ctl --pgdata=\"$FATHOM_DIR/pg\" --mode=immediate --wait stop >/dev/null 2>&1\n";

/// How long a statement took on how many bytes, and what the server has counted meanwhile.
const REPORT: &str = r#"report() {
set -- $before $after
awk -v r0="$1" -v w0="$2" -v r1="$3" -v w1="$4" -v ns="$ns" -v bytes="$bytes" 'BEGIN { printf "seconds %.3f\nMB/s %.2f\nown count: read %.0f bytes\nown count: written %.0f bytes\n", ns / 1e9, bytes * 1e3 / ns, r1 - r0, w1 - w0 }'
}
"#;

/// Figures of those that print that.
const REPORTED: &[(&str, &str)] = &[
    ("seconds", "seconds {}"),
    ("mb_per_s", "MB/s {}"),
    ("own_read_bytes", "own count: read {} bytes"),
    ("own_written_bytes", "own count: written {} bytes"),
];

/// What a new cluster of PostgreSQL takes, and the log that it writes ahead of data of that size: up to twice its default limit.
fn postgres_mib(data_mib: u64) -> u64 {
    128 + data_mib + data_mib.min(2048)
}

fn pgbench_mib(settings: &BTreeMap<&'static str, Set>) -> u64 {
    // 16 MiB for each unit of scale; 64 MiB of log and history a second is what fast storage makes of it.
    let (scale, time) = (settings["scale"].value, settings["time"].value);
    let data = scale.saturating_mul(16).saturating_add(time);
    postgres_mib(data).saturating_add(time.saturating_mul(64).min(2048))
}

/// pgbench.
pub const PGBENCH: Recipe = Recipe {
    name: "pgbench",
    title: "PostgreSQL with pgbench (TPC-B-like): a server of its own, no network, default settings",
    needs: &[("pgbench", "postgresql"), ("psql", "postgresql"), ("setpriv", "util-linux")],
    settings: &[
        ("scale", Kind::Count, "20"),
        ("clients", Kind::Count, "8"),
        ("time", Kind::Time, "30s"),
    ],
    space_mib: pgbench_mib,
    first: &[POSTGRES],
    prepare: r#"start "-c max_connections=$((FATHOM_clients > 80 ? FATHOM_clients + 20 : 100))"
pgbench --initialize --quiet --scale="$FATHOM_scale" >"$FATHOM_DIR/log" 2>&1 || { cat "$FATHOM_DIR/log"; exit 1; }
ask CHECKPOINT
"#,
    run: r#"before=$(counted)
pgbench --no-vacuum --client="$FATHOM_clients" --jobs="$FATHOM_clients" --time="$FATHOM_time" bench 2>&1
after=$(counted)
set -- $before $after
awk -v r0="$1" -v w0="$2" -v r1="$3" -v w1="$4" 'BEGIN { printf "own count: read %.0f bytes\nown count: written %.0f bytes\n", r1 - r0, w1 - w0 }'
"#,
    finish: POSTGRES_STOP,
    figures: &[
        ("tps", "tps = {}"),
        ("latency_ms", "latency average = {} ms"),
        ("own_read_bytes", "own count: read {} bytes"),
        ("own_written_bytes", "own count: written {} bytes"),
    ],
    user: Some("postgres"),
};

/// A table rewritten by PostgreSQL.
pub const VACUUM_FULL: Recipe = Recipe {
    name: "vacuum-full",
    title: "PostgreSQL: VACUUM FULL of a table of which every second row was deleted",
    needs: &[("psql", "postgresql"), ("setpriv", "util-linux"), ("awk", "mawk")],
    settings: &[("size", Kind::Size, "512MiB")],
    space_mib: |settings| postgres_mib(settings["size"].value.saturating_mul(2)),
    first: &[POSTGRES, REPORT],
    prepare: r#"start "-c autovacuum=off"
ask "CREATE TABLE t (id integer PRIMARY KEY, x text)"
ask "INSERT INTO t SELECT i, repeat(md5(i::text), 30) FROM generate_series(1, 1024 * $FATHOM_size) AS i"
ask "DELETE FROM t WHERE id % 2 = 0"
ask CHECKPOINT
"#,
    run: r#"bytes=$(ask "SELECT pg_total_relation_size('t')")
before=$(counted)
begun=$(date +%s%N)
ask 'VACUUM FULL t'
ns=$(($(date +%s%N) - begun))
ask CHECKPOINT
sleep 0.2
after=$(counted)
report
"#,
    finish: POSTGRES_STOP,
    figures: REPORTED,
    user: Some("postgres"),
};

/// A table rewritten by MariaDB.
pub const OPTIMIZE_TABLE: Recipe = Recipe {
    name: "optimize-table",
    title: "MariaDB: OPTIMIZE TABLE of an InnoDB table of which every second row was deleted",
    needs: &[
        ("mariadbd", "mariadb-server"),
        ("mariadb-install-db", "mariadb-server"),
        ("setpriv", "util-linux"),
        ("awk", "mawk"),
    ],
    settings: &[("size", Kind::Size, "512MiB")],
    // System tables, undo and redo log; the table, half of it anew, and undo of the rows that were deleted.
    space_mib: |settings| 384 + settings["size"].value.saturating_mul(3),
    first: &[MARIADB, REPORT],
    prepare: r#"start
sql "CREATE DATABASE bench"
sql "CREATE TABLE bench.t (id INT PRIMARY KEY, x TEXT) ENGINE=InnoDB"
sql "USE bench; INSERT INTO t SELECT seq, REPEAT(MD5(seq), 30) FROM seq_1_to_$((1024 * FATHOM_size))"
sql "DELETE FROM bench.t WHERE id % 2 = 0"
sql "FLUSH TABLES bench.t FOR EXPORT; UNLOCK TABLES"
"#,
    run: r#"bytes=$(stat -c %s "$FATHOM_DIR/data/bench/t.ibd")
before=$(counted)
begun=$(date +%s%N)
sql 'OPTIMIZE TABLE bench.t' >"$FATHOM_DIR/said"
ns=$(($(date +%s%N) - begun))
grep -q 'status.*OK' "$FATHOM_DIR/said" || { cat "$FATHOM_DIR/said"; exit 1; }
sql "FLUSH TABLES bench.t FOR EXPORT; UNLOCK TABLES"
after=$(counted)
report
"#,
    finish: r#"[ ! -s "$FATHOM_DIR/pid" ] || kill -KILL "$(cat "$FATHOM_DIR/pid")"
"#,
    figures: REPORTED,
    user: Some("mysql"),
};
