//! Views for people who ask with SQL, one for each question; `docs/sql.md` explains them. They read the stored JSON, so
//! that they show old runs as well as new ones, and nothing is kept twice.
//!
//! The `GROUP BY` over keys that are unique anyway makes SQLite take the small parts out of a record once, and not once for each
//! line of what is unpacked from it; conditions on `run_id` still reach the table of trials.
//!
//! Written for SQLite from 3.35 on. Functions that not every build has (`ceil`, `->>`) are avoided.

/// A column with a percentile of a class `k`: nearest rank, middle of its bucket within minimum and maximum; NULL below the
/// number of values that it needs. Shares as fractions: integers do not round.
macro_rules! percentile {
    ($name:literal, $times:literal, $of:literal, $needed:literal) => {
        concat!(
            "CASE WHEN k.operations >= ",
            $needed,
            " THEN (
           SELECT max(k.min_ns, min(k.max_ns, CASE WHEN bucket < 128 THEN bucket ELSE
                      (((bucket & 63) + 64) << ((bucket >> 6) - 1)) + ((1 << ((bucket >> 6) - 1)) - 1) / 2 END))
           FROM (SELECT sum(step) OVER (ORDER BY place) AS bucket, sum(count) OVER (ORDER BY place) AS cumulative
                 FROM (SELECT b.key AS place, b.value AS step, lead(b.value) OVER (ORDER BY b.key) AS count
                       FROM json_each(k.buckets) b)
                 WHERE place % 2 = 0)
           WHERE cumulative * ",
            $of,
            " >= k.operations * ",
            $times,
            " ORDER BY bucket LIMIT 1) END AS ",
            $name
        )
    };
}

/// Columns with what a stored histogram says: how many, the moments, the buckets.
macro_rules! histogram {
    ($of:literal, $path:literal) => {
        concat!(
            "json_extract(",
            $of,
            ", '",
            $path,
            ".count') AS operations,
       json_extract(",
            $of,
            ", '",
            $path,
            ".min') AS min_ns,
       json_extract(",
            $of,
            ", '",
            $path,
            ".max') AS max_ns,
       CAST(json_extract(",
            $of,
            ", '",
            $path,
            ".sum') AS REAL) AS sum_ns,
       json_extract(",
            $of,
            ", '",
            $path,
            ".buckets') AS buckets"
        )
    };
}

// Behind the macros, which it uses.
mod observed;

pub(crate) use observed::FORMAT_4;

/// The SQL that leads from format 2 to 3: where runs of other stores came from, and the views.
pub(crate) const FORMAT_3: &str = concat!(
    "
CREATE TABLE imports (
    run_id           TEXT PRIMARY KEY NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    original_id      TEXT NOT NULL,
    source           TEXT NOT NULL,
    imported_unix_ns INTEGER NOT NULL
) STRICT;

CREATE VIEW v_runs AS
SELECT r.id AS run_id, r.kind, r.label, r.target, r.command,
       strftime('%Y-%m-%dT%H:%M:%SZ', r.started_unix_ns / 1000000000, 'unixepoch') AS started_utc,
       r.started_unix_ns,
       (r.finished_unix_ns - r.started_unix_ns) / 1e9 AS duration_s,
       r.state, r.verdict,
       json_array_length(r.findings) AS findings,
       r.trial_count AS trials,
       r.fathom_version,
       json_extract(r.host, '$.machine') AS machine,
       json_extract(r.host, '$.kernel') AS kernel,
       json_extract(r.host, '$.distribution') AS distribution,
       json_extract(r.host, '$.cpu_model') AS cpu_model,
       json_extract(r.host, '$.boot_id') AS boot_id,
       i.source AS imported_from
FROM runs r LEFT JOIN imports i ON i.run_id = r.id;

CREATE VIEW v_jobs AS
SELECT t.run_id, t.trial_index, t.label AS row_label, j.key AS job_index,
       json_extract(t.record, j.fullkey || '.name') AS job,
       json_extract(t.record, j.fullkey || '.engine.kind') AS engine,
       json_extract(t.record, j.fullkey || '.engine.threads') AS threads,
       json_extract(t.record, j.fullkey || '.engine.depth') AS depth,
       json_extract(t.record, j.fullkey || '.window_ns') / 1e9 AS window_s,
       json_extract(t.record, j.fullkey || '.cpu.user_ns') / 1e9 AS cpu_user_s,
       json_extract(t.record, j.fullkey || '.cpu.system_ns') / 1e9 AS cpu_system_s,
       json_array_length(t.record, j.fullkey || '.censored') AS unfinished,
       json_extract(t.record, j.fullkey || '.open_loop.due') AS due,
       json_extract(t.record, j.fullkey || '.open_loop.not_started') AS not_started
FROM trials t, json_each(t.record, '$.jobs') j
GROUP BY t.run_id, t.trial_index, j.key;

CREATE VIEW v_classes AS
SELECT t.run_id, t.trial_index, t.label AS row_label, j.key AS job_index,
       json_extract(t.record, j.fullkey || '.name') AS job,
       json_extract(c.value, '$.class') AS class,
       json_extract(t.record, j.fullkey || '.window_ns') / 1e9 AS window_s,
       json_extract(c.value, '$.bytes') AS bytes,
       ",
    histogram!("c.value", "$.latency_ns"),
    "
FROM trials t, json_each(t.record, '$.jobs') j, json_each(t.record, j.fullkey || '.classes') c
GROUP BY t.run_id, t.trial_index, j.key, c.key;

CREATE VIEW v_histogram AS
WITH numbers AS (
    SELECT k.*, b.key AS place, b.value AS step,
           lead(b.value) OVER (PARTITION BY k.run_id, k.trial_index, k.job_index, k.class ORDER BY b.key) AS count
    FROM v_classes k, json_each(k.buckets) b
), sums AS (
    SELECT run_id, trial_index, row_label, job_index, job, class, operations, count,
           sum(step) OVER w AS bucket,
           sum(count) OVER w AS cumulative
    FROM numbers WHERE place % 2 = 0
    WINDOW w AS (PARTITION BY run_id, trial_index, job_index, class ORDER BY place)
)
SELECT run_id, trial_index, row_label, job_index, job, class,
       CASE WHEN bucket < 128 THEN bucket ELSE ((bucket & 63) + 64) << ((bucket >> 6) - 1) END AS low_ns,
       CASE WHEN bucket < 128 THEN bucket ELSE (((bucket & 63) + 65) << ((bucket >> 6) - 1)) - 1 END AS high_ns,
       count, cumulative, operations
FROM sums;

CREATE VIEW v_rows AS
SELECT k.run_id, k.trial_index, k.row_label, k.job_index, k.job, k.class, k.window_s, k.operations, k.bytes,
       k.operations / k.window_s AS operations_per_s,
       k.bytes / k.window_s AS bytes_per_s,
       k.sum_ns / k.operations AS mean_ns,
       k.min_ns,
       ",
    percentile!("p50_ns", "1", "2", "2"),
    ",
       ",
    percentile!("p90_ns", "9", "10", "100"),
    ",
       ",
    percentile!("p95_ns", "19", "20", "200"),
    ",
       ",
    percentile!("p99_ns", "99", "100", "1000"),
    ",
       ",
    percentile!("p99_9_ns", "999", "1000", "10000"),
    ",
       ",
    percentile!("p99_99_ns", "9999", "10000", "100000"),
    ",
       k.max_ns
FROM v_classes k
WHERE k.operations > 0;

CREATE VIEW v_samples AS
WITH jobs AS (
    SELECT t.run_id, t.trial_index, t.label AS row_label, j.key AS job_index,
           json_extract(t.record, j.fullkey || '.name') AS job,
           json_extract(t.record, j.fullkey || '.series') AS series
    FROM trials t, json_each(t.record, '$.jobs') j
    GROUP BY t.run_id, t.trial_index, j.key
)
SELECT j.run_id, j.trial_index, j.row_label, j.job_index, j.job,
       s.key AS sample,
       json_extract(s.value, '$.start_ns') / 1e9 AS start_s,
       json_extract(s.value, '$.length_ns') / 1e9 AS length_s,
       json_extract(c.value, '$.class') AS class,
       coalesce(json_extract(c.value, '$.latency_ns.count'), 0) AS operations,
       coalesce(json_extract(c.value, '$.bytes'), 0) AS bytes,
       coalesce(json_extract(c.value, '$.latency_ns.count'), 0) * 1e9 / json_extract(s.value, '$.length_ns') AS operations_per_s,
       coalesce(json_extract(c.value, '$.bytes'), 0) * 1e9 / json_extract(s.value, '$.length_ns') AS bytes_per_s,
       CAST(json_extract(c.value, '$.latency_ns.sum') AS REAL)
           / nullif(json_extract(c.value, '$.latency_ns.count'), 0) AS mean_ns,
       json_extract(c.value, '$.latency_ns.max') AS max_ns
FROM jobs j, json_each(j.series) s LEFT JOIN json_each(s.value, '$.classes') c;

CREATE VIEW v_trials AS
SELECT t.run_id, t.trial_index, t.label AS row_label,
       json_extract(t.record, '$.cell.slot.block') AS block,
       json_extract(t.record, '$.cell.slot.place') AS place,
       json_extract(t.record, '$.cell.slot.cell') AS cell,
       json_extract(t.record, '$.cell.slot.is_sentinel') AS is_sentinel,
       json_extract(t.record, '$.cell.workload') AS workload,
       (SELECT group_concat(json_extract(l.value, '$[0]') || '=' || json_extract(l.value, '$[1]'), ' ')
        FROM json_each(t.record, '$.cell.levels') l) AS levels,
       json_extract(t.record, '$.cell.void') AS void,
       json_extract(t.record, '$.cell.prepare_ns') / 1e9 AS prepare_s,
       json_extract(t.record, '$.window_ns') / 1e9 AS window_s,
       json_extract(t.record, '$.ending') AS ending
FROM trials t;

CREATE VIEW v_levels AS
SELECT t.run_id, t.trial_index,
       json_extract(l.value, '$[0]') AS factor,
       json_extract(l.value, '$[1]') AS level
FROM trials t, json_each(t.record, '$.cell.levels') l;

CREATE VIEW v_knobs AS
SELECT t.run_id, t.trial_index,
       json_extract(k.value, '$.knob') AS knob,
       coalesce(json_extract(k.value, '$.place.name'), json_extract(k.value, '$.place.mount_point'), 'the machine') AS place,
       json_extract(k.value, '$.asked') AS asked,
       json_extract(k.value, '$.before') AS before,
       json_extract(k.value, '$.after') AS after
FROM trials t, json_each(t.record, '$.cell.knobs') k;

CREATE VIEW v_findings AS
SELECT r.id AS run_id, NULL AS trial_index, NULL AS row_label,
       json_extract(f.value, '$.id') AS finding,
       json_extract(f.value, '$.severity') AS severity,
       json_extract(f.value, '$.summary') AS summary,
       (SELECT group_concat(a.value, char(10)) FROM json_each(f.value, '$.advice') a) AS advice
FROM runs r, json_each(r.findings) f
UNION ALL
SELECT t.run_id, t.trial_index, t.label,
       json_extract(f.value, '$.id'),
       json_extract(f.value, '$.severity'),
       json_extract(f.value, '$.summary'),
       (SELECT group_concat(a.value, char(10)) FROM json_each(f.value, '$.advice') a)
FROM trials t, json_each(t.record, '$.findings') f;

CREATE VIEW v_environment AS
SELECT r.id AS run_id, e.key AS name, e.value AS value
FROM runs r, json_each(r.host) e
WHERE e.type <> 'null';

CREATE VIEW v_devices AS
SELECT t.run_id, t.trial_index, t.label AS row_label,
       json_extract(d.value, '$.name') AS device,
       json_extract(t.record, '$.window_ns') / 1e9 AS window_s,
       json_extract(d.value, '$.reads') AS reads,
       json_extract(d.value, '$.read_bytes') AS read_bytes,
       json_extract(d.value, '$.writes') AS writes,
       json_extract(d.value, '$.written_bytes') AS written_bytes,
       json_extract(d.value, '$.flushes') AS flushes,
       json_extract(d.value, '$.busy_ns') * 1.0 / json_extract(t.record, '$.window_ns') AS busy_share,
       json_extract(d.value, '$.in_flight_ns') * 1.0 / json_extract(t.record, '$.window_ns') AS in_flight_mean
FROM trials t, json_each(t.record, '$.devices') d;

CREATE VIEW v_slowest AS
WITH jobs AS (
    SELECT t.run_id, t.trial_index, t.label AS row_label, j.key AS job_index,
           json_extract(t.record, j.fullkey || '.name') AS job,
           json_extract(t.record, j.fullkey || '.slowest') AS slowest
    FROM trials t, json_each(t.record, '$.jobs') j
    GROUP BY t.run_id, t.trial_index, j.key
)
SELECT j.run_id, j.trial_index, j.row_label, j.job_index, j.job,
       json_extract(o.value, '$.class') AS class,
       json_extract(o.value, '$.end_ns') / 1e9 AS end_s,
       json_extract(o.value, '$.latency_ns') AS latency_ns,
       json_extract(o.value, '$.file') AS file,
       json_extract(o.value, '$.offset_bytes') AS offset_bytes,
       json_extract(o.value, '$.size_bytes') AS size_bytes
FROM jobs j, json_each(j.slowest) o;
"
);
