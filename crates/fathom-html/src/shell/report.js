"use strict";
// Draws the charts of a report from the tables below them, sorts tables, and offers the points as files.
(function () {
  const root = document.documentElement;
  const draws = typeof echarts !== "undefined";
  if (draws) root.classList.add("scripts");

  // Numbers as the rest of the report writes them.
  const grouped = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
  const short = (v) => {
    const a = Math.abs(v);
    if (a === 0) return "0";
    if (a >= 100) return grouped(Math.round(v));
    return String(Number(v.toPrecision(a >= 10 ? 3 : 2)));
  };
  const scaled = (v, steps) => {
    for (const [size, unit] of steps) if (Math.abs(v) >= size * 0.9995) return short(v / size) + " " + unit;
    const last = steps[steps.length - 1];
    return short(v / last[0]) + " " + last[1];
  };
  const SI = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const shown = {
    ns: (v) => (v === 0 ? "0" : scaled(v, [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]])),
    s: (v) => (v >= 7200 ? short(v / 3600) + " h" : short(v) + " s"),
    time: (v) => new Date(v * 1000).toISOString().replace("T", " ").replace(/(\.\d+)?Z$/, " UTC"),
    per_s: (v) => (Math.abs(v) >= 1e6 ? scaled(v, SI.slice(0, 3)) + "/s" : short(v) + "/s"),
    bytes_per_s: (v) => (v === 0 ? "0" : scaled(v, [...SI.map(([n, u]) => [n, u + "B/s"]), [1, "B/s"]])),
    bytes: (v) => (v === 0 ? "0" : scaled(v, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"], [1, "B"]])),
    share: (v) => short(v * 100) + " %",
    nines: (v) => (v < 0.9 ? short(v * 100) : String(Number((v * 100).toPrecision(12)))) + " %",
    times: (v) => "x " + Number(v.toPrecision(3)),
    count: (v) => short(v),
  };
  const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => "&#" + c.charCodeAt(0) + ";");

  // The points: the rows of the table, or the lines of comma-separated values.
  function parsed(text) {
    const rows = [];
    let row = [], field = "", quoted = false;
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (quoted) {
        if (c === '"' && text[i + 1] === '"') { field += '"'; i++; } else if (c === '"') quoted = false; else field += c;
      } else if (c === '"') quoted = true;
      else if (c === ",") { row.push(field); field = ""; }
      else if (c === "\n") { row.push(field); rows.push(row); row = []; field = ""; }
      else field += c;
    }
    return rows;
  }
  function rowsOf(figure) {
    const table = figure.querySelector("table.points");
    if (!table) return parsed(figure.querySelector("pre.points").textContent);
    return Array.from(table.rows, (row) => Array.from(row.cells, (cell) => cell.textContent));
  }
  function coordinate(axis, text) {
    if (axis.names.length) return axis.names.indexOf(text);
    return axis.unit === "time" ? Date.parse(text) / 1000 : Number(text);
  }
  // Where a line is not joined there is a point without a value.
  function withGaps(points, within) {
    const isFar = (p, i) => within !== null && i > 0 && p.x - points[i - 1].x > within;
    return points.flatMap((p, i) => (isFar(p, i) ? [{ x: (points[i - 1].x + p.x) / 2, y: undefined }, p] : [p]));
  }
  function read(figure) {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const points = spec.series.map(() => []);
    for (const cells of rowsOf(figure).slice(1)) {
      const point = {};
      spec.columns.forEach((key, i) => {
        if (key === "series") point.series = cells[i];
        else if (key === "x" || key === "y") point[key] = coordinate(spec[key], cells[i]);
        else if (cells[i] !== "") point[key] = Number(cells[i]);
      });
      points[Math.max(0, spec.series.indexOf(point.series))].push(point);
    }
    spec.points = points.map((line) => withGaps(line, spec.joined_within));
    return spec;
  }

  function colours() {
    const style = getComputedStyle(root);
    const of = (name) => style.getPropertyValue("--" + name).trim();
    return {
      ground: of("ground"), ink: of("ink"), muted: of("muted"), line: of("line"), raised: of("raised"), mark: of("void"),
      series: [1, 2, 3, 4, 5, 6, 7, 8].map((i) => of("c" + i)),
      heat: [0, 1, 2, 3, 4].map((i) => of("h" + i)),
    };
  }

  // Where a value stands on its axis: nines are counted, times are milliseconds.
  const place = (axis, v) => (axis.unit === "nines" ? -Math.log10(Math.max(1 - v, 1e-9)) : axis.unit === "time" ? v * 1000 : v);
  const unplaced = (axis, v) => (axis.unit === "nines" ? 1 - Math.pow(10, -v) : axis.unit === "time" ? v / 1000 : v);
  const worded = (axis, v) => (axis.names.length ? axis.names[v] : shown[axis.unit](v));

  const SYMBOLS = ["circle", "rect", "triangle", "diamond", "roundRect", "arrow"];
  // So few points have bars of their own instead of a ribbon.
  const FEW = 40;
  const DASHES = ["solid", "dashed", "dotted"];

  const marksOf = (axis, spec) => spec.marks.filter((m) => (m.x ? spec.x : spec.y) === axis).map((m) => place(axis, m.at));
  // What is drawn along an axis, intervals and lines too.
  function valuesOf(axis, spec) {
    const all = spec.points.flat(), lines = marksOf(axis, spec);
    return lines.concat(axis === spec.x ? all.map((p) => p.x) : all.flatMap((p) => [p.y, p.low, p.high]).filter((v) => v !== undefined));
  }
  // The library knows of no lines when it chooses the ends of an axis: those beyond them move the end to a round value.
  function endsFor(lines, hasZero) {
    const low = Math.min(...lines), high = Math.max(...lines);
    // Words beside a line need room.
    const beyond = (v, far, round) => {
      if (v === 0) return 0;
      const end = v + (v - far) / 20, step = 10 ** Math.floor(Math.log10(Math.abs(end) || 1)) / 2;
      return step * round(end / step);
    };
    const lowest = (ends) => (hasZero ? Math.min(ends.min, 0) : ends.min);
    return {
      min: (ends) => (low < lowest(ends) ? beyond(low, ends.max, Math.floor) : null),
      max: (ends) => (high > ends.max ? beyond(high, lowest(ends), Math.ceil) : null),
    };
  }
  // A scale of powers goes from one to another, however few values there are.
  function wholeSteps(axis, spec) {
    const base = axis.unit === "bytes" ? 2 : 10, log = (v) => Math.log(v) / Math.log(base);
    let low = Infinity, high = -Infinity;
    for (const v of valuesOf(axis, spec)) if (v > 0) { low = Math.min(low, v); high = Math.max(high, v); }
    if (high < low) return {};
    const from = Math.floor(log(low) + 1e-9), to = Math.ceil(log(high) - 1e-9);
    return { min: base ** from, max: base ** Math.max(to, from + 1) };
  }
  // Bytes are counted in powers of two; so are the steps of their axis.
  function binarySteps(axis, spec) {
    let high = 0;
    for (const v of valuesOf(axis, spec)) { if (v < 0) return {}; high = Math.max(high, v); }
    if (high === 0) return {};
    const interval = 2 ** Math.ceil(Math.log2(high / 6));
    return { interval, min: 0, max: interval * Math.ceil(high / interval) };
  }

  function axisOption(axis, theme, isAcross, isBar, isNarrow, spec) {
    const option = {
      name: axis.title, nameLocation: isAcross ? "middle" : "end", nameGap: isAcross ? 30 : 12,
      nameTextStyle: { color: theme.muted, align: isAcross ? "center" : "left", fontSize: 12 },
      axisLine: { lineStyle: { color: theme.muted } }, axisTick: { lineStyle: { color: theme.muted } },
      axisLabel: { color: theme.ink, hideOverlap: true, fontSize: 12 },
      splitLine: { show: !isAcross, lineStyle: { color: theme.line } }, minorTick: { show: false },
    };
    if (axis.names.length) {
      const width = isNarrow ? 110 : isAcross ? 120 : 300;
      Object.assign(option, { type: "category", data: axis.names, splitLine: { show: false } });
      Object.assign(option.axisLabel, { width, overflow: "truncate" });
      return option;
    }
    option.axisLabel.formatter = (v) => shown[axis.unit](unplaced(axis, v));
    if (axis.unit === "time") {
      delete option.axisLabel.formatter;
      option.type = "time";
      option.name = axis.title + " (UTC)";
    } else if (axis.log) {
      Object.assign(option, { type: "log", logBase: axis.unit === "bytes" ? 2 : 10, ...wholeSteps(axis, spec) });
    } else {
      option.type = "value";
      option.scale = axis.cropped && !isBar;
      const lines = marksOf(axis, spec);
      if (lines.length) Object.assign(option, endsFor(lines, !option.scale));
      // Nothing falls by more than all of it.
      const lowest = axis.unit === "share" ? Math.min(...valuesOf(axis, spec)) : 0;
      if (lowest < -0.8 && lowest >= -1) option.min = -1;
      if (axis.unit === "nines") Object.assign(option, { interval: 1, min: 0, max: (ends) => Math.ceil(Math.max(ends.max, ...lines)) });
      if (axis.unit === "bytes" && !option.scale) Object.assign(option, binarySteps(axis, spec));
    }
    if (isAcross) option.axisLabel.alignMaxLabel = "right";
    return option;
  }

  // A ribbon between the ends of intervals; it is open where points have none.
  function band(spec, index, colour) {
    const pieces = [[]];
    for (const p of spec.points[index]) {
      if (p.low !== undefined && p.high !== undefined) pieces[pieces.length - 1].push(p);
      else if (pieces[pieces.length - 1].length) pieces.push([]);
    }
    const points = pieces.flat();
    if (!points.length) return null;
    return {
      type: "custom", name: spec.series[index], silent: true, z: 1, clip: true, tooltip: { show: false },
      encode: { x: 0, y: [1, 2] },
      data: points.map((p) => [place(spec.x, p.x), p.low, p.high]),
      renderItem(params, api) {
        if (params.dataIndexInside !== 0) return null;
        const at = (p, v) => api.coord([place(spec.x, p.x), v]);
        const ribbon = (piece) => ({
          type: "polygon", style: { fill: colour, opacity: 0.18 },
          shape: { points: piece.map((p) => at(p, p.high)).concat(piece.map((p) => at(p, p.low)).reverse()) },
        });
        return { type: "group", children: pieces.filter((piece) => piece.length > 1).map(ribbon) };
      },
    };
  }

  // Lines with caps from low to high, beside each other where bars stand beside each other.
  function errorBars(spec, index, theme, isFlipped, isBar, colour) {
    const points = spec.points[index].filter((p) => p.low !== undefined && p.high !== undefined);
    if (!points.length) return null;
    const data = points.map((p) => (isFlipped ? [p.low, p.x, p.high] : [place(spec.x, p.x), p.low, p.high]));
    return {
      type: "custom", name: spec.series[index], silent: true, z: 5, tooltip: { show: false },
      encode: isFlipped ? { x: [0, 2], y: 1 } : { x: 0, y: [1, 2] }, data,
      renderItem(params, api) {
        let shift = 0;
        if (isBar) {
          const layout = api.barLayout({ count: spec.series.length, barGap: "10%", barCategoryGap: "30%" });
          shift = layout[index].offsetCenter;
        }
        const at = (value) => (isFlipped ? api.coord([value, api.value(1)]) : api.coord([api.value(0), value]));
        const a = at(api.value(isFlipped ? 0 : 1)), b = at(api.value(2));
        const moved = (p, along) => (isFlipped ? [p[0], p[1] + shift + along] : [p[0] + shift + along, p[1]]);
        const line = (from, to) => ({
          type: "line", shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: { stroke: colour || theme.ink, lineWidth: 1.5 },
        });
        return { type: "group", children: [
          line(moved(a, 0), moved(b, 0)), line(moved(a, -4), moved(a, 4)), line(moved(b, -4), moved(b, 4)),
        ] };
      },
    };
  }

  function marks(spec, theme, isFlipped) {
    if (!spec.marks.length) return undefined;
    return {
      silent: true, symbol: "none", animation: false,
      lineStyle: { color: theme.mark, type: "dashed", width: 1.5 },
      label: { color: theme.ink, textBorderColor: theme.ground, textBorderWidth: 3, fontSize: 12 },
      data: spec.marks.map((m) => {
        const at = place(m.x ? spec.x : spec.y, m.at);
        const stands = m.x !== isFlipped;
        // Names read downwards: their lines end below. Of a pair of lines around zero one is named.
        const position = stands ? (isFlipped ? "start" : "end") : m.at < 0 ? "insideEndBottom" : "insideEndTop";
        const label = { formatter: () => m.text, position, show: !(isFlipped && stands && m.at < 0) };
        return stands ? { xAxis: at, label } : { yAxis: at, label };
      }),
    };
  }

  function tip(spec, point, name) {
    const lines = [];
    if (spec.series.length > 1) lines.push("<b>" + escaped(name) + "</b>");
    lines.push(escaped(spec.x.title) + ": " + escaped(worded(spec.x, point.x)));
    lines.push(escaped(spec.y.title) + ": " + escaped(worded(spec.y, point.y)));
    if (point.low !== undefined && point.high !== undefined) {
      lines.push("from " + escaped(shown[spec.y.unit](point.low)) + " to " + escaped(shown[spec.y.unit](point.high)));
    }
    if (point.weight !== undefined) lines.push(escaped(spec.scale.title) + ": " + escaped(shown[spec.scale.unit](point.weight)));
    return lines.join("<br>");
  }

  function heatOption(spec, theme, option, isNarrow) {
    const all = spec.points[0].filter((p) => p.weight > 0 || !spec.scale.log);
    const value = (w) => (spec.scale.log ? Math.log10(w) : w);
    const values = all.map((p) => value(p.weight));
    let low = Infinity, high = -Infinity;
    for (const v of values) { low = Math.min(low, v); high = Math.max(high, v); }
    const isOne = low === high;
    if (isOne) low = high - 1;
    option.xAxis.splitArea = { show: false };
    option.grid.bottom = 84;
    option.visualMap = {
      min: low, max: high, calculable: false, orient: "horizontal", left: "center", bottom: 0, itemHeight: 120, itemWidth: 12,
      inRange: { color: theme.heat }, textStyle: { color: theme.ink },
      text: [shown[spec.scale.unit](spec.scale.log ? 10 ** high : high), (isNarrow ? "" : spec.scale.title + " ") + shown[spec.scale.unit](spec.scale.log ? 10 ** low : low)],
    };
    // A single figure is no scale.
    if (isOne) { option.visualMap.show = false; option.grid.bottom = 34; }
    if (isNarrow && !isOne) {
      option.title = { text: spec.scale.title, left: "center", bottom: 34, padding: 0, textStyle: { color: theme.ink, fontSize: 12, fontWeight: "normal" } };
      option.grid.bottom = 106;
    }
    // Few cells say their figure, in the colour of the ground where theirs is far from it.
    const isSaid = spec.x.names.length <= (isNarrow ? 4 : 12) && spec.y.names.length <= 40;
    const isFar = (v) => (v - low) / (high - low) > 0.45;
    const label = (v, w) => ({ show: true, fontSize: 12, formatter: shown[spec.scale.unit](w), color: isFar(v) ? theme.ground : theme.ink });
    option.series = [{
      type: "heatmap", progressive: 0,
      data: all.map((p, i) => ({ value: [p.x, p.y, values[i]], label: isSaid ? label(values[i], p.weight) : { show: false } })),
      itemStyle: { borderWidth: 0 }, emphasis: { itemStyle: { borderColor: theme.ink, borderWidth: 1 } },
    }];
    option.tooltip.formatter = (item) => tip(spec, all[item.dataIndex], "");
    return option;
  }

  function seriesOf(spec, theme, isFlipped, isNarrow) {
    const drawn = [];
    spec.points.forEach((points, i) => {
      const colour = theme.series[i % theme.series.length];
      const base = { name: spec.series[i], itemStyle: { color: colour }, animation: false, z: 3 };
      const up = (p) => (p.y === undefined ? null : place(spec.y, p.y));
      const pairs = points.map((p) => (isFlipped ? [p.y, p.x] : [place(spec.x, p.x), up(p)]));
      if (spec.kind === "bars" || spec.kind === "stacked") {
        const stack = spec.kind === "stacked" ? "all" : undefined;
        drawn.push({ ...base, type: "bar", data: pairs, stack, barGap: "10%", barCategoryGap: "30%", barMaxWidth: 60 });
        if (!stack) drawn.push(errorBars(spec, i, theme, isFlipped, true));
      } else if (spec.kind === "scatter" || spec.loose[i]) {
        drawn.push({ ...base, type: "scatter", data: pairs, itemStyle: { color: colour, opacity: 1 }, symbol: SYMBOLS[i % SYMBOLS.length], symbolSize: points.length > 1000 ? 4 : 8 });
        drawn.push(errorBars(spec, i, theme, isFlipped, false));
      } else if (spec.kind === "box") {
        drawn.push({ ...base, type: "boxplot", data: points.map((p) => [p.low, p.q1, p.y, p.q3, p.high]), itemStyle: { color: theme.raised, borderColor: colour, borderWidth: 2 } });
      } else {
        const isFew = points.length <= (isNarrow ? 25 : 70), isGap = (p) => p === undefined || p.y === undefined;
        // A point between two gaps is on no line: without a mark it would not be seen.
        const isAlone = points.map((p, i) => spec.joined_within !== null && !isGap(p) && isGap(points[i - 1]) && isGap(points[i + 1]));
        const hasSome = !isFew && isAlone.includes(true);
        const data = hasSome ? pairs.map((value, i) => (isAlone[i] ? value : { value, symbol: "none" })) : pairs;
        drawn.push({
          ...base, type: "line", data, step: spec.kind === "steps" ? "end" : undefined, connectNulls: false,
          lineStyle: { color: colour, width: 2, type: DASHES[Math.floor(i / theme.series.length) % DASHES.length] },
          symbol: SYMBOLS[i % SYMBOLS.length], symbolSize: 7, showSymbol: isFew || hasSome,
        });
        drawn.push(points.length > FEW ? band(spec, i, colour) : errorBars(spec, i, theme, false, false, colour));
      }
    });
    const all = drawn.filter(Boolean);
    if (all.length) all[0].markLine = marks(spec, theme, isFlipped);
    return all;
  }

  const pen = document.createElement("canvas").getContext("2d");
  const LEGEND_LINE = 24, LEGEND_LINES = 4;
  // On how many lines the names of all series stand, on paper always; where they are too many they are leafed through, on one.
  function legendLines(spec, width) {
    pen.font = "12px sans-serif";
    let lines = 1, used = 0;
    for (const name of spec.series) {
      const needed = 16 + 5 + pen.measureText(name).width + 12;
      if (used > 0 && used + needed > width - 10) { lines += 1; used = 0; }
      used += needed;
    }
    return lines > LEGEND_LINES && !root.classList.contains("printing") ? 0 : lines;
  }

  function optionOf(spec, theme, width) {
    const isNarrow = width < 600;
    const isBar = spec.kind === "bars" || spec.kind === "stacked";
    const longest = spec.x.names.reduce((most, name) => Math.max(most, name.length), 0);
    const isFlipped = isBar && spec.x.names.length > 0 && (longest * 7 * spec.x.names.length > width - 100);
    const hasLegend = spec.series.length > 1;
    const isLong = !isBar && spec.kind !== "heat" && spec.x.names.length === 0 && spec.points.some((p) => p.length > 150);
    const option = {
      animation: false, useUTC: true, backgroundColor: "transparent",
      textStyle: { color: theme.ink, fontFamily: "sans-serif" },
      grid: { left: 20, right: 24, top: hasLegend ? 62 : 34, bottom: isLong ? 74 : 34, containLabel: true },
      tooltip: {
        trigger: "item", confine: true, backgroundColor: theme.raised, borderColor: theme.line, textStyle: { color: theme.ink },
      },
      xAxis: axisOption(isFlipped ? spec.y : spec.x, theme, true, isBar, isNarrow, spec),
      yAxis: axisOption(isFlipped ? spec.x : spec.y, theme, false, isBar, isNarrow, spec),
    };
    if (!isFlipped && spec.x.names.length) {
      const each = Math.max(60, (width - (isNarrow ? 110 : 150)) / spec.x.names.length - 8);
      option.xAxis.axisLabel.width = each;
      // A few names all stand there, on several lines where they are long.
      if (spec.x.names.length <= 6) {
        const lines = Math.min(3, Math.ceil((longest * 7) / each));
        Object.assign(option.xAxis.axisLabel, { interval: 0, hideOverlap: false, overflow: lines > 1 ? "break" : "truncate", lineHeight: 15 });
        option.xAxis.nameGap += 15 * (lines - 1);
      }
    }
    if (isFlipped) {
      option.yAxis.inverse = true;
      // Names that begin alike would be told apart by nothing when they are cut.
      if (isNarrow) Object.assign(option.yAxis.axisLabel, { interval: 0, hideOverlap: false, overflow: "break", lineHeight: 13 });
      option.yAxis.name = "";
      option.xAxis.splitLine = { show: true, lineStyle: { color: theme.line } };
    }
    if (hasLegend) {
      const lines = legendLines(spec, width);
      option.grid.top += LEGEND_LINE * Math.max(0, lines - 1);
      option.legend = { type: lines ? "plain" : "scroll", itemGap: 10, itemHeight: 14, padding: 5, itemWidth: 16, top: 0, left: 0, right: 0, data: spec.series, textStyle: { color: theme.ink }, pageTextStyle: { color: theme.ink }, pageIconColor: theme.ink, inactiveColor: theme.muted };
    }
    // The words of lines that stand are above the plot; the title of the axis is above them.
    if (!isFlipped && spec.marks.some((mark) => mark.x)) {
      option.yAxis.nameGap = 30;
      option.grid.top += 18;
    }
    if (spec.kind === "heat") return heatOption(spec, theme, option, isNarrow);
    option.series = seriesOf(spec, theme, isFlipped, isNarrow);
    option.tooltip.formatter = (item) => {
      const i = spec.series.indexOf(item.seriesName), at = spec.points[i] && spec.points[i][item.dataIndex];
      return at ? tip(spec, at, item.seriesName) : "";
    };
    if (["line", "steps"].includes(spec.kind)) {
      option.tooltip.trigger = "axis";
      option.tooltip.formatter = (items) => {
        const at = (item) => spec.points[spec.series.indexOf(item.seriesName)][item.dataIndex];
        const lines = items.filter((item) => item.seriesType === "line" && at(item).y !== undefined).map((item) => {
          const point = at(item);
          const ends = point.low !== undefined && point.high !== undefined
            ? " (" + shown[spec.y.unit](point.low) + " to " + shown[spec.y.unit](point.high) + ")" : "";
          return [point, escaped(item.seriesName) + ": <b>" + escaped(worded(spec.y, point.y)) + "</b>" + escaped(ends)];
        });
        if (!lines.length) return "";
        return [escaped(spec.x.title) + " " + escaped(worded(spec.x, lines[0][0].x)), ...lines.map((line) => line[1])].join("<br>");
      };
    }
    if (isLong) {
      option.dataZoom = [{ type: "slider", filterMode: "none", height: 18, bottom: 8, showDetail: false, borderColor: theme.line, textStyle: { color: theme.muted } }];
    }
    return option;
  }

  function heightOf(spec, width) {
    const isBar = spec.kind === "bars" || spec.kind === "stacked";
    const longest = spec.x.names.reduce((most, name) => Math.max(most, name.length), 0);
    if (isBar && longest * 7 * spec.x.names.length > width - 100) {
      const lines = width < 600 ? Math.min(3, Math.ceil((longest * 7) / 110)) : 1;
      const each = Math.max(spec.kind === "bars" ? 15 * spec.series.length + 10 : 28, 26, 13 * lines + 6);
      return Math.max(180, 110 + each * spec.x.names.length);
    }
    if (spec.kind === "heat") return Math.max(300, Math.min(720, 140 + 16 * spec.y.names.length));
    return 0;
  }

  const charts = new Map();
  function draw(figure) {
    const plot = figure.querySelector(".plot");
    let known = charts.get(figure);
    if (!known) {
      const spec = read(figure);
      const points = spec.points.reduce((sum, p) => sum + p.length, 0);
      const chart = echarts.init(plot, null, { renderer: points > 3000 ? "canvas" : "svg" });
      const said = document.createElement("p");
      said.className = "said";
      said.setAttribute("aria-live", "polite");
      plot.after(said);
      known = { chart, spec, said };
      charts.set(figure, known);
      new ResizeObserver(() => {
        if (plot.clientWidth && plot.clientWidth !== known.width) paint(figure);
      }).observe(plot);
      plot.addEventListener("keydown", (event) => step(known, event));
    }
    paint(figure);
  }
  function paint(figure) {
    const { chart, spec } = charts.get(figure), plot = figure.querySelector(".plot");
    charts.get(figure).width = plot.clientWidth;
    // Further lines of names take no room of the picture.
    const more = LEGEND_LINE * (spec.series.length > 1 && spec.kind !== "heat" ? Math.max(0, legendLines(spec, plot.clientWidth) - 1) : 0);
    const height = heightOf(spec, plot.clientWidth) || (more ? 320 : 0);
    plot.style.height = height ? height + more + "px" : "";
    chart.resize();
    chart.setOption(optionOf(spec, colours(), plot.clientWidth), true);
    figure.classList.add("drawn");
  }
  // Arrow keys go from point to point, up and down from series to series; what the point says is also read out.
  function step(known, event) {
    const { spec, chart } = known;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key], other = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by && !other) return;
    event.preventDefault();
    const count = spec.points.length, isHeat = spec.kind === "heat";
    known.row = known.row || 0;
    if (other) for (let i = 0; i < count; i++) {
      known.row = (known.row + other + count) % count;
      if (spec.points[known.row].length) break;
    }
    const points = isHeat ? spec.points[0].filter((p) => p.weight > 0 || !spec.scale.log) : spec.points[known.row];
    if (!points.length) return;
    known.at = Math.max(0, Math.min(points.length - 1, (known.at === undefined ? (by > 0 ? -1 : 0) : known.at) + (by || 0)));
    // Where nothing is drawn there is nothing to say; gaps lie between points.
    while (points[known.at].y === undefined) known.at += by || 1;
    const drawn = chart.getOption().series.findIndex((one) => isHeat || (one.name === spec.series[known.row] && one.type !== "custom"));
    chart.dispatchAction({ type: "showTip", seriesIndex: drawn, dataIndex: known.at });
    const spoken = document.createElement("p");
    spoken.innerHTML = tip(spec, points[known.at], spec.series[known.row]).replace(/<br>/g, "; ");
    known.said.textContent = spoken.textContent;
  }

  function download(figure) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "download";
    button.textContent = "Save these points (CSV)";
    button.addEventListener("click", () => {
      // A text that begins like a formula must not become one in a spreadsheet.
      const safe = (cell) => (/^[=+@\t]|^-(?![\d.])/.test(cell) ? "'" + cell : cell);
      const quote = (cell) => (/[",\n\r]/.test(cell) ? '"' + cell.replace(/"/g, '""') + '"' : cell);
      const lines = rowsOf(figure).map((row) => row.map((cell) => quote(safe(cell))).join(","));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
      link.download = figure.querySelector("figcaption strong").textContent.replace(/[^A-Za-z0-9]+/g, "-").toLowerCase() + ".csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    const details = figure.querySelector("details");
    details.insertBefore(button, details.children[1]);
  }

  function sortable(table) {
    const body = table.tBodies[0], first = Array.from(body.rows);
    const key = (row, i) => {
      const cell = row.cells[i], value = cell.dataset.v;
      return value === undefined ? cell.textContent : Number(value);
    };
    Array.from(table.tHead.rows[0].cells).forEach((head, i) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const was = head.getAttribute("aria-sort");
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        if (was === "descending") return body.append(...first);
        const sign = was === "ascending" ? -1 : 1;
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        const compared = (a, b) => {
          const [x, y] = [key(a, i), key(b, i)];
          if (typeof x === "number" && typeof y === "number") return sign * (x - y);
          if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
          return sign * x.localeCompare(y, "en", { numeric: true });
        };
        body.append(...first.slice().sort(compared));
      });
    });
  }

  document.querySelectorAll("table.sortable").forEach(sortable);
  const figures = Array.from(document.querySelectorAll("figure.chart"));
  if (!draws) return;
  figures.forEach(download);
  // Those in sight first, the others when there is time.
  const waiting = new Set(figures);
  const drawOnce = (figure) => { if (waiting.delete(figure)) draw(figure); };
  const near = new IntersectionObserver((seen) => {
    for (const one of seen) if (one.isIntersecting) { near.unobserve(one.target); drawOnce(one.target); }
  }, { rootMargin: "400px" });
  figures.forEach((figure) => near.observe(figure));
  const idle = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  const next = () => {
    const [figure] = waiting;
    if (figure) { drawOnce(figure); idle(next); }
  };
  idle(next);
  const repaint = () => charts.forEach((_, figure) => paint(figure));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  addEventListener("beforeprint", () => { root.classList.add("printing"); Array.from(waiting).forEach(drawOnce); repaint(); });
  addEventListener("afterprint", () => { root.classList.remove("printing"); repaint(); });
})();
