//! Views of what was watched and captured, and of file servers.
//!
//! Series of a watch are packed (`fathom_base::packed`): text of six bits a character, in it numbers of seven bits a byte, the lowest
//! first, that are differences to the value before (twice its size, odd when negative), or after a zero byte how often the last value
//! stands there again. SQL unpacks them byte by byte, which takes two seconds for an hour of ten busy devices: `fathom export --what=watch`
//! is for weeks. What is asked for line by line must be small: each look at a value of a record copies the whole value.

/// The byte at this place, counted from 0, of a piece of packed text.
macro_rules! byte {
    ($piece:literal, $at:literal) => {
        concat!(
            "(((((instr(CAST('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/' AS BLOB),
                   substr(", $piece, ", (", $at, ") * 8 / 6 + 1, 1)) - 1) << 6)
              | (instr(CAST('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/' AS BLOB),
                   substr(", $piece, ", (", $at, ") * 8 / 6 + 2, 1)) - 1)) >> (4 - (", $at, ") * 8 % 6)) & 255"
        )
    };
}

/// A list, as JSON, of the values of packed text. A step takes a byte, or gives a repeated value once more while `left` says so; `total`
/// is the number that has come together so far. A step has the text's 68 characters from `(at - 1) / 48 * 48` on: were it the whole text,
/// each would copy it, and the time would grow with the square of its length.
macro_rules! values {
    ($text:literal) => {
        concat!(
            "(WITH RECURSIVE step(size, piece, at, byte, total, shift, is_repeat, left, last, is_value) AS (
           SELECT size, piece, 0, ", byte!("piece", "0"), "), 0, 0, 0, 0, 0, 0
           FROM (SELECT length(", $text, ") * 6 / 8 AS size, CAST(substr(", $text, ", 1, 68) AS BLOB) AS piece)
           UNION ALL
           SELECT size,
                  CASE WHEN left = 0 AND at % 48 = 0 THEN CAST(substr(", $text, ", at * 8 / 6 + 1, 68) AS BLOB) ELSE piece END,
                  CASE WHEN left > 0 THEN at ELSE at + 1 END,
                  CASE WHEN left > 0 THEN byte ELSE ", byte!("piece", "at + 1 - (at - 1) / 48 * 48"), ") END,
                  CASE WHEN left = 0 AND byte >= 128 THEN total | ((byte & 127) << shift) ELSE 0 END,
                  CASE WHEN left = 0 AND byte >= 128 THEN shift + 7 ELSE 0 END,
                  CASE WHEN left > 0 THEN 0 WHEN byte >= 128 THEN is_repeat ELSE NOT is_repeat AND shift = 0 AND byte = 0 END,
                  CASE WHEN left > 0 THEN left - 1 WHEN is_repeat AND byte < 128 THEN total | (byte << shift) ELSE 0 END,
                  CASE WHEN left > 0 OR byte >= 128 OR is_repeat OR (shift = 0 AND byte = 0) THEN last
                       WHEN (total | (byte << shift)) & 1 THEN last - ((total | (byte << shift)) >> 1) - 1
                       ELSE last + ((total | (byte << shift)) >> 1) END,
                  left > 0 OR (byte < 128 AND NOT is_repeat AND NOT (shift = 0 AND byte = 0))
           FROM step WHERE left > 0 OR at < size
         ) SELECT json_group_array(last) FROM step WHERE is_value)"
        )
    };
}

/// Columns out of lines of `name` and `value`, each with what is made of the values of its name: `max` is NULL without any, `total` 0.
macro_rules! named {
    ($first:ident $name:literal $(, $more:ident $other:literal)*) => {
        concat!(
            stringify!($first), "(value) FILTER (WHERE name = '", $name, "') AS ", $name
            $(, ", ", stringify!($more), "(value) FILTER (WHERE name = '", $other, "') AS ", $other)*
        )
    };
}

/// One value: where the intervals of a piece begin and how long they are. Unpacked once for each trial, and of no other.
macro_rules! times {
    () => {
        concat!(
            "CASE WHEN json_type(t.record, '$.watch') = 'object' THEN json_array(json_object(
        'first', json_extract(t.record, '$.watch.first'),
        'start', json(",
            values!("json_extract(t.record, '$.watch.start_us')"),
            "),
        'length', json(",
            values!("json_extract(t.record, '$.watch.length_us')"),
            "))) END"
        )
    };
}

/// Columns with the rates and percentiles of a class `k`.
macro_rules! figures {
    () => {
        concat!(
            "k.sum_ns / k.operations AS mean_ns, k.min_ns,
       ",
            percentile!("p50_ns", "1", "2", "2"),
            ",
       ",
            percentile!("p99_ns", "99", "100", "1000"),
            ",
       ",
            percentile!("p99_9_ns", "999", "1000", "10000"),
            ",
       k.max_ns"
        )
    };
}

/// The SQL that leads from format 3 to 4: more views.
pub(crate) const FORMAT_4: &str = concat!(
    "
CREATE VIEW v_watch AS
SELECT t.run_id, t.trial_index,
       json_extract(e.value, '$.name') AS device, json_extract(e.value, '$.title') AS title,
       json_extract(x.value, '$.first') + json_extract(r.value, '$[0]') AS interval,
       json_extract(r.value, '$[1]') / 1e6 AS start_s,
       json_extract(r.value, '$[2]') / 1e6 AS length_s,
       json_extract(r.value, '$[3]') * 1e6 / nullif(json_extract(r.value, '$[2]'), 0) AS reads_per_s,
       json_extract(r.value, '$[4]') * 512e6 / nullif(json_extract(r.value, '$[2]'), 0) AS read_bytes_per_s,
       json_extract(r.value, '$[5]') / nullif(json_extract(r.value, '$[3]'), 0) AS read_await_ms,
       json_extract(r.value, '$[6]') * 1e6 / nullif(json_extract(r.value, '$[2]'), 0) AS writes_per_s,
       json_extract(r.value, '$[7]') * 512e6 / nullif(json_extract(r.value, '$[2]'), 0) AS written_bytes_per_s,
       json_extract(r.value, '$[8]') / nullif(json_extract(r.value, '$[6]'), 0) AS write_await_ms,
       json_extract(r.value, '$[9]') * 1e6 / nullif(json_extract(r.value, '$[2]'), 0) AS flushes_per_s,
       json_extract(r.value, '$[10]') * 1e3 / nullif(json_extract(r.value, '$[2]'), 0) AS in_flight_mean,
       json_extract(r.value, '$[11]') * 1e3 / nullif(json_extract(r.value, '$[2]'), 0) AS busy_share
FROM trials t CROSS JOIN json_each(",
    times!(),
    ") x CROSS JOIN json_each(t.record, '$.watch.devices') d CROSS JOIN json_each(json_array(json_object(
        'name', json_extract(d.value, '$.name'), 'title', json_extract(d.value, '$.title'),
        'from', coalesce(json_extract(d.value, '$.from'), 0), 'intervals', json_extract(d.value, '$.intervals')
    ))) e CROSS JOIN json_each((
    SELECT json_group_array(json_array(at, start, length, reads, reads_sectors, reads_ms, writes, writes_sectors, writes_ms, flushes,
                                       queued_ms, busy_ms))
    FROM (SELECT at,
                 ",
    named!(max "start", max "length", total "reads", total "reads_sectors", total "reads_ms", total "writes", total "writes_sectors", total "writes_ms", total "flushes", total "queued_ms", total "busy_ms"),
    "
          FROM (SELECT v.key AS at, 'start' AS name, v.value AS value FROM json_each(x.value, '$.start') v
                UNION ALL
                SELECT v.key, 'length', v.value FROM json_each(x.value, '$.length') v
                UNION ALL
                SELECT v.key + json_extract(e.value, '$.from'), c.key, v.value
                FROM json_each(d.value, '$.counters') c CROSS JOIN json_each(",
    values!("c.value"),
    ") v
                WHERE c.key IN ('reads', 'reads_sectors', 'reads_ms', 'writes', 'writes_sectors', 'writes_ms', 'flushes', 'queued_ms',
                                'busy_ms'))
          WHERE at - json_extract(e.value, '$.from') BETWEEN 0 AND json_extract(e.value, '$.intervals') - 1
          GROUP BY at)
)) r;

CREATE VIEW v_watch_machine AS
SELECT t.run_id, t.trial_index,
       json_extract(x.value, '$.first') + json_extract(r.value, '$[0]') AS interval,
       json_extract(r.value, '$[1]') / 1e6 AS start_s,
       json_extract(r.value, '$[2]') / 1e6 AS length_s,
       json_extract(r.value, '$[3]') / 1e6 AS user_share,
       json_extract(r.value, '$[4]') / 1e6 AS system_share,
       json_extract(r.value, '$[5]') / 1e6 AS iowait_share,
       json_extract(r.value, '$[6]') / 1e6 AS steal_share,
       json_extract(r.value, '$[7]') / 1e6 AS io_some_share,
       json_extract(r.value, '$[8]') / 1e6 AS io_full_share,
       json_extract(r.value, '$[9]') / 1e6 AS memory_some_share,
       json_extract(r.value, '$[10]') * 1024 AS dirty_bytes,
       json_extract(r.value, '$[11]') * 1024 AS writeback_bytes,
       json_extract(r.value, '$[12]') AS application_processes,
       json_extract(r.value, '$[13]') / 1e6 AS application_processors,
       json_extract(r.value, '$[14]') * 1024 AS application_resident_bytes
FROM trials t CROSS JOIN json_each(",
    times!(),
    ") x CROSS JOIN json_each((
    SELECT json_group_array(json_array(at, start, length, user, system, iowait, steal, io_some, io_full, memory_some, dirty, writeback,
                                       processes, cpu, resident))
    FROM (SELECT at,
                 ",
    named!(max "start", max "length", total "user", total "system", total "iowait", total "steal", max "io_some", max "io_full", max "memory_some", total "dirty", total "writeback", max "processes", max "cpu", max "resident"),
    "
          FROM (SELECT v.key AS at, 'start' AS name, v.value AS value FROM json_each(x.value, '$.start') v
                UNION ALL
                SELECT v.key, 'length', v.value FROM json_each(x.value, '$.length') v
                UNION ALL
                SELECT v.key, c.key, v.value FROM json_each(t.record, '$.watch.host') c CROSS JOIN json_each(",
    values!("c.value"),
    ") v
                WHERE c.key IN ('user', 'system', 'iowait', 'steal', 'io_some', 'io_full', 'memory_some', 'dirty', 'writeback')
                UNION ALL
                SELECT v.key, c.key, v.value FROM json_each(t.record, '$.watch.application') c CROSS JOIN json_each(",
    values!("c.value"),
    ") v
                WHERE c.key IN ('processes', 'cpu', 'resident'))
          GROUP BY at)
)) r;

CREATE VIEW v_captures AS
WITH classes AS (
    SELECT t.run_id, t.trial_index,
           json_extract(t.record, '$.capture.device') AS device,
           json_extract(t.record, '$.capture.window_ns') / 1e9 AS window_s,
           json_extract(c.value, '$.class') AS class,
           json_extract(c.value, '$.count') AS requests,
           json_extract(c.value, '$.bytes') AS bytes,
           json_extract(c.value, '$.size_mean') AS size_mean_bytes,
           json_extract(c.value, '$.follow') * 1.0 / nullif(json_extract(c.value, '$.count'), 0) AS follow_share,
           json_extract(c.value, CASE WHEN json_extract(t.record, '$.capture.is_of_driver') THEN '$.service_ns' ELSE '$.total_ns' END) AS latency
    FROM trials t, json_each(t.record, '$.capture.classes') c
), k AS (
    SELECT *, ",
    histogram!("latency", "$"),
    "
    FROM classes
)
SELECT k.run_id, k.trial_index, k.device, k.class, k.window_s, k.requests, k.bytes,
       k.requests / nullif(k.window_s, 0) AS requests_per_s, k.bytes / nullif(k.window_s, 0) AS bytes_per_s,
       k.size_mean_bytes, k.follow_share, ",
    figures!(),
    "
FROM k;

CREATE VIEW v_capture_intervals AS
SELECT t.run_id, t.trial_index,
       json_extract(t.record, '$.capture.device') AS device,
       s.key AS interval,
       json_extract(s.value, '$.start_ns') / 1e9 AS start_s,
       json_extract(s.value, '$.length_ns') / 1e9 AS length_s,
       json_extract(s.value, '$.reads') AS reads,
       json_extract(s.value, '$.writes') AS writes,
       json_extract(s.value, '$.others') AS others,
       json_extract(s.value, '$.read_bytes') AS read_bytes,
       json_extract(s.value, '$.write_bytes') AS written_bytes,
       json_extract(s.value, '$.seeks') AS seeks,
       json_extract(s.value, '$.depth_mean') AS in_flight_mean,
       json_extract(s.value, '$.depth_max') AS in_flight_max
FROM trials t, json_each(t.record, '$.capture.series') s;

CREATE VIEW v_fsop_phases AS
SELECT t.run_id, t.trial_index, t.label AS row_label,
       json_extract(t.record, '$.fsop.phase.readers') AS readers,
       json_extract(t.record, '$.fsop.phase.writers') AS writers,
       coalesce(json_extract(t.record, '$.fsop.phase.clients'), 0) AS clients,
       json_extract(t.record, '$.fsop.repeat') AS repeat,
       json_extract(t.record, '$.fsop.spec.play.name') AS personality,
       json_extract(t.record, '$.window_ns') / 1e9 AS window_s,
       json_extract(t.record, '$.fsop.tree.path') AS tree,
       json_extract(t.record, '$.fsop.tree.files') AS tree_files,
       json_extract(t.record, '$.fsop.tree.bytes') AS tree_bytes
FROM trials t
WHERE json_type(t.record, '$.fsop') IS NOT NULL;

CREATE VIEW v_fsop_processes AS
WITH k AS (
    SELECT t.run_id, t.trial_index,
           json_extract(t.record, '$.window_ns') / 1e9 AS window_s,
           json_extract(p.value, '$.role') AS role,
           json_extract(p.value, '$.number') AS number,
           json_extract(c.value, '$.class') AS class,
           json_extract(c.value, '$.bytes') AS bytes,
           ",
    histogram!("c.value", "$.latency_ns"),
    "
    FROM trials t, json_each(t.record, '$.fsop.processes') p, json_each(p.value, '$.classes') c
)
SELECT k.run_id, k.trial_index, k.role, k.number, k.class, k.operations, k.bytes,
       k.operations / k.window_s AS operations_per_s, k.bytes / k.window_s AS bytes_per_s,
       ",
    figures!(),
    "
FROM k WHERE k.operations > 0;

CREATE VIEW v_transactions AS
WITH k AS (
    SELECT t.run_id, t.trial_index,
           json_extract(t.record, '$.window_ns') / 1e9 AS window_s,
           json_extract(p.value, '$.number') AS client,
           json_extract(a.value, '$.act') AS act,
           ",
    histogram!("a.value", "$.service_ns"),
    "
    FROM trials t, json_each(t.record, '$.fsop.processes') p, json_each(p.value, '$.played.acts') a
)
SELECT k.run_id, k.trial_index, k.client, k.act, k.operations AS transactions, k.operations / k.window_s AS transactions_per_s,
       ",
    figures!(),
    "
FROM k WHERE k.operations > 0;

CREATE VIEW v_fsop_seconds AS
SELECT t.run_id, t.trial_index,
       s.key AS second,
       json_extract(s.value, '$.end_ns') / 1e9 AS end_s,
       json_extract(s.value, '$.dirty_bytes') AS dirty_bytes,
       json_extract(s.value, '$.writeback_bytes') AS writeback_bytes,
       json_extract(d.value, '$.name') AS device,
       json_extract(d.value, '$.busy_share') AS busy_share,
       json_extract(d.value, '$.in_flight_mean') AS in_flight_mean,
       json_extract(d.value, '$.read_bytes') AS read_bytes,
       json_extract(d.value, '$.written_bytes') AS written_bytes
FROM trials t, json_each(t.record, '$.fsop.seconds') s LEFT JOIN json_each(s.value, '$.devices') d;
"
);
