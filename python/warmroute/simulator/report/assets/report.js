"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const boxes = [...document.querySelectorAll(".legend input")];
  let charts = [];

  const shown = (policy) => boxes[policy].checked;
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Steps of the golden angle keep neighbours far apart, however many there are.
  const colour = (policy, alpha = 1) =>
    `hsl(${Math.round((212 + policy * 137.508) % 360)} ${dark.matches ? 70 : 75}% ${dark.matches ? 65 : 38}% / ${alpha})`;

  const write = (kind, value) => {
    if (value == null) return "-";
    if (kind === "share") return (100 * value).toFixed(1) + " %";
    if (kind === "seconds") return (value >= 100 ? value.toFixed(0) : value.toPrecision(3)) + " s";
    return Number(value.toPrecision(4)).toLocaleString("en");
  };

  const tick = (kind, value) => {
    if (value == null) return "";
    if (kind === "share") return Math.round(100 * value) + " %";
    return Math.abs(value) >= 1000 ? value.toLocaleString("en") : String(Number(value.toPrecision(6)));
  };

  // Where a line has no point of its own at a place of another's, its last one before counts.
  const valueAt = (values, at) => {
    while (at >= 0 && values[at] === undefined) at -= 1;
    return at < 0 ? null : values[at];
  };

  const read = (plot, u, output) => {
    const at = u.cursor.idx;
    output.replaceChildren();
    if (at == null) return;
    const x = u.data[0][at];
    const place = plot.names.length ? plot.names[x] : plot.key === "ttft" ? write("share", x) : write("number", x) + " s";
    output.append(`${place}: `);
    plot.lines.forEach((line, number) => {
      if (!shown(line.policy)) return;
      const name = document.createElement("b");
      name.style.color = colour(line.policy);
      name.textContent = line.label;
      output.append(name, ` ${write(plot.kind, valueAt(u.data[number + 1], at))}  `);
    });
  };

  const drawMarks = (plot, u) => {
    const seen = plot.marks.map((marks, policy) => [policy, marks]).filter(([policy]) => shown(policy));
    if (seen.reduce((sum, [, marks]) => sum + marks.length, 0) > 60) return;
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.setLineDash([2, 4]);
    for (const [policy, marks] of seen) {
      ctx.strokeStyle = colour(policy, 0.55);
      ctx.beginPath();
      for (const mark of marks) {
        const left = u.valToPos(mark, "x", true);
        ctx.moveTo(left, bbox.top);
        ctx.lineTo(left, bbox.top + bbox.height);
      }
      ctx.stroke();
    }
    ctx.restore();
  };

  const scaleY = (plot) => {
    if (plot.logarithmic) return { distr: 3 };
    return { range: (u, low, high) => [0, plot.most ?? (high > 0 ? high * 1.05 : 1)] };
  };

  const axis = (label, more) => ({
    label, labelSize: 22, labelFont: "12px system-ui, sans-serif", font: "11px system-ui, sans-serif",
    stroke: ink("--dim"), grid: { stroke: ink("--grid"), width: 1 }, ticks: { stroke: ink("--line"), width: 1 }, ...more,
  });

  const axisX = (plot) => {
    if (plot.names.length) {
      const named = (u, values) => values.map((value) => plot.names[value] ?? "");
      return axis(plot.x, { values: named, incrs: [1, 2, 4, 8, 16, 32], space: 48 });
    }
    const kind = plot.key === "ttft" ? "share" : "number";
    return axis(plot.x, { values: (u, values) => values.map((value) => tick(kind, value)), space: 60 });
  };

  const axisY = (plot) => axis(plot.policy === null ? plot.y : null, {
    values: (u, values) => values.map((value) => tick(plot.kind, value)), size: 58, space: plot.policy === null ? 28 : 24,
  });

  const stroke = (plot, line, number) => {
    if (plot.policy === null) return colour(line.policy);
    return colour(line.policy, Math.max(0.45, 1 - number * 0.07));
  };

  const build = (plot) => {
    const home = document.getElementById(`plot-${plot.key}`);
    const output = document.getElementById(`reading-${plot.key}`);
    home.replaceChildren();
    const isSmall = plot.policy !== null;
    const options = {
      width: Math.max(220, home.clientWidth), height: isSmall ? 170 : 300,
      legend: { show: false }, padding: [8, 24, 0, 0],
      cursor: { points: { show: !isSmall }, y: false },
      scales: { x: { time: false }, y: scaleY(plot) },
      axes: [axisX(plot), axisY(plot)],
      series: [{}, ...plot.lines.map((line, number) => ({
        label: line.label, show: shown(line.policy), stroke: stroke(plot, line, number),
        width: line.dashed ? 1 : isSmall ? 1.2 : 1.8, dash: line.dashed ? [5, 4] : undefined,
        points: { show: plot.names.length > 0 || line.x.length < 3, size: 5 },
      }))],
      hooks: { drawClear: [(u) => drawMarks(plot, u)], setCursor: [(u) => read(plot, u, output)] },
    };
    const lines = plot.lines.map((line) => [line.x, line.y]);
    const drawn = new uPlot(options, lines.length ? uPlot.join(lines) : [[0], []], home);
    home.onkeydown = (event) => step(drawn, event);
    charts.push({ plot, home, drawn });
  };

  const step = (u, event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: 10, PageUp: -10 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const last = u.data[0].length - 1;
    const at = Math.min(last, Math.max(0, (u.cursor.idx ?? -1) + by));
    u.setCursor({ left: u.valToPos(u.data[0][at], "x"), top: 10 });
  };

  const buildAll = () => {
    charts.forEach(({ drawn }) => drawn.destroy());
    charts = [];
    boxes.forEach((box, policy) => { box.parentElement.querySelector("i").style.background = colour(policy); });
    document.querySelectorAll("figure[data-policy]").forEach((figure) => {
      figure.hidden = !shown(Number(figure.dataset.policy));
    });
    data.plots.forEach((plot) => {
      if (plot.policy === null || shown(plot.policy)) build(plot);
    });
  };

  boxes.forEach((box) => box.addEventListener("change", buildAll));
  document.querySelectorAll("button[data-all]").forEach((button) => button.addEventListener("click", () => {
    boxes.forEach((box) => { box.checked = button.dataset.all === "1"; });
    buildAll();
  }));
  dark.addEventListener("change", buildAll);
  buildAll();
  new ResizeObserver(() => charts.forEach(({ home, drawn }) => {
    const width = Math.max(220, home.clientWidth);
    if (width !== drawn.width) drawn.setSize({ width, height: drawn.height });
  })).observe(document.body);
})();
