"use strict";
// The curves, the time line and what connects them with the map.

const DATA = JSON.parse(document.getElementById("data").textContent);
const LEFT = 66, RIGHT = 14;
const page = {views: [], plots: [], range: null, full: null, lanes: null, busy: false};

// ---------------------------------------------------------------- map and 3-D view

function worldOf() {
  const several = DATA.runs.length > 1, world = {tracks: [], waypoints: [], places: [], fence: [], objects: []};
  DATA.runs.forEach((run, r) => run.tracks.forEach((track, i) => world.tracks.push(
    {...track, colour: several ? r : i, label: several ? run.label : track.name, reference: several && r ? [] : track.reference})));
  const first = DATA.runs[0];
  world.waypoints = first.plan.waypoints || []; world.fence = first.plan.fence || []; world.places = first.plan.places || []; world.objects = first.scene;
  return world;
}

function key(parent, world) {
  const entries = [], box = make("div", parent, undefined, "key");
  const labels = new Map(world.tracks.map((t) => [t.label, t]));
  if (labels.size <= 12) for (const [label, t] of labels)
    entries.push([labels.size > 1 ? label : `flown (${t.kind})`, colourOf(t.colour), ""]);
  if (world.tracks.some((t) => t.reference.length > 1)) entries.push(["planned", css("--reference"), "dashed"]);
  if (world.waypoints.length) entries.push(["waypoint with its item's number", css("--c3"), "box"]);
  for (const [kind, colour] of Object.entries(PLACES)) if (world.places.some((place) => place.kind === kind)) entries.push([kind, css(colour), "box"]);
  if (world.fence.some((part) => !part.inclusion)) entries.push(["fence to stay out of", css("--c1"), "dashed"]);
  if (world.fence.some((part) => part.inclusion)) entries.push([`fence to stay inside${page.views.some((view) => view.fenceIsFar()) ? ", partly beyond the picture (\u2212 shows it)" : ""}`, css("--c3"), "dashed"]);
  if (world.objects.length) entries.push(["object", css("--shape"), "box"]);
  entries.push(["begin", css("--begin"), "box"], ["end", css("--end"), "box"]);
  for (const [text, colour, kind] of entries) make("span", box, text, kind).style.setProperty("--mark", colour);
}

function showViews() {
  const parent = document.getElementById("views"), world = worldOf();
  if (!world.tracks.length) { make("p", parent, "No positions were recorded."); return; }
  page.views = [new SpaceView(parent, "From above", true, world), new SpaceView(parent, "In space", false, world)];
  const times = world.tracks.flatMap((t) => [t.time[0], t.time[t.time.length - 1]]).filter((t) => t !== undefined);
  const bar = make("div", parent.parentElement, undefined, "key"), label = make("label", bar, "Time ");
  const slider = make("input", label);
  Object.assign(slider, {type: "range", min: Math.min(...times), max: Math.max(...times), step: "any"});
  slider.style.width = "min(60vw, 700px)"; slider.setAttribute("aria-label", "time of the markers in s");
  slider.value = slider.min;
  page.clock = make("output", bar, "");
  slider.addEventListener("input", () => setMoment(Number(slider.value)));
  page.slider = slider;
  key(parent.parentElement, world);
}

function setMoment(moment) {
  if (page.slider && document.activeElement !== page.slider) page.slider.value = moment;
  if (page.clock) page.clock.textContent = `${moment.toFixed(1)} s`;
  for (const view of page.views) { view.moment = moment; view.draw(); }
  if (page.lanes) page.lanes.draw(moment);
}

// ---------------------------------------------------------------- time line

class Lanes {
  constructor(parent, entries) {
    this.entries = entries;
    this.used = [...new Set(entries.map((e) => e.lane))].sort((a, b) => a - b);
    this.modes = [...new Set(entries.filter((e) => e.lane === 0).map((e) => e.text))];
    const box = make("div", parent, undefined, "lanes");
    make("h3", box, "What happened when");
    this.canvas = make("canvas", box);
    this.canvas.style.height = `${26 * this.used.length + 30}px`;
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => tip(null));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  place(time) {
    const [low, high] = page.range || page.full;
    return LEFT + 60 + ((time - low) / Math.max(high - low, 1e-9)) * (this.canvas.clientWidth - LEFT - 60 - RIGHT);
  }

  colour(entry) {
    if (entry.lane === 0) return colourOf(this.modes.indexOf(entry.text));
    return css({info: "--c0", warning: "--c4", error: "--c1"}[entry.level]);
  }

  draw(moment) {
    if (moment !== undefined) this.moment = moment;
    const canvas = this.canvas, ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    canvas.width = width * ratio; canvas.height = height * ratio;
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0); g.font = "12px system-ui, 'DejaVu Sans', sans-serif"; g.textBaseline = "middle";
    this.used.forEach((lane, row) => { g.fillStyle = css("--dim"); g.fillText(DATA.lanes[lane], 8, 26 * row + 15); });
    g.save(); g.beginPath(); g.rect(LEFT + 60, 0, width - LEFT - 60 - RIGHT, height); g.clip();
    this.used.forEach((lane, row) => {
      let free = -Infinity;
      for (const e of this.entries) if (e.lane === lane) free = this.entry(g, e, 26 * row + 4, free);
    });
    if (this.moment !== undefined) { const x = this.place(this.moment); g.strokeStyle = css("--ink"); g.lineWidth = 1; g.beginPath(); g.moveTo(x, 0); g.lineTo(x, height - 22); g.stroke(); }
    g.restore(); this.axis(g, width, height);
  }

  entry(g, e, y, free) {
    const x = this.place(e.begin), end = this.place(e.end), colour = this.colour(e);
    if (end < LEFT + 60 || x > this.canvas.clientWidth) return free;
    if (e.end > e.begin) {
      g.fillStyle = colour; g.globalAlpha = 0.28; g.fillRect(x, y, Math.max(end - x, 1), 20); g.globalAlpha = 1;
      g.fillStyle = colour; g.fillRect(x, y, 2, 20);
      if (end - x > 24) { g.save(); g.beginPath(); g.rect(x, y, end - x, 20); g.clip(); g.fillStyle = css("--ink"); g.fillText(e.text, Math.max(x, LEFT + 60) + 5, y + 11); g.restore(); }
      return end;
    }
    g.fillStyle = colour; g.beginPath(); g.arc(x, y + 10, 4, 0, 7); g.fill();
    const text = g.measureText(e.text).width;
    if (e.level !== "info" && x + 8 > free) { g.fillStyle = css("--ink"); g.fillText(e.text, x + 8, y + 11); return x + 14 + text; }
    return Math.max(free, x);
  }

  axis(g, width, height) {
    const [low, high] = page.range || page.full, step = niceStep(high - low, Math.max(2, width / 130));
    g.fillStyle = css("--dim"); g.textAlign = "center";
    for (let t = Math.ceil(low / step) * step; t <= high; t += step) {
      const x = this.place(t);
      if (x < width - 160) g.fillText(String(Math.round(t * 1000) / 1000), x, height - 10);
    }
    g.textAlign = "right"; g.fillText("simulated time, s", width - RIGHT, height - 10); g.textAlign = "left";
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, row = Math.floor((event.clientY - box.top) / 26);
    const near = this.entries.filter((e) => e.lane === this.used[row] && this.place(e.begin) - 6 <= x && x <= this.place(e.end) + 6);
    const found = near.sort((a, b) => Math.abs(this.place(a.begin) - x) - Math.abs(this.place(b.begin) - x))[0];
    tip(found && `${found.begin.toFixed(2)} s${found.end > found.begin ? ` to ${found.end.toFixed(2)} s` : ""}  ${found.vehicle ? found.vehicle + ": " : ""}${found.text}`, event);
  }
}

function tip(text, event) {
  let box = document.getElementById("tip");
  if (!text) { if (box) box.remove(); return; }
  if (!box) { box = make("div", document.body); box.id = "tip"; }
  box.textContent = text;
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - 300)}px`; box.style.top = `${event.clientY + 16}px`;
}

// ---------------------------------------------------------------- curves

function levelLines(plot) {
  return (u) => {
    const g = u.ctx;
    g.save(); g.beginPath(); g.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); g.clip();
    g.strokeStyle = css("--bad"); g.fillStyle = css("--bad"); g.setLineDash([6, 4]); g.lineWidth = devicePixelRatio;
    g.font = `${12 * devicePixelRatio}px system-ui, 'DejaVu Sans', sans-serif`;
    for (const [value, name] of plot.levels) {
      const y = u.valToPos(value, "y", true);
      g.beginPath(); g.moveTo(u.bbox.left, y); g.lineTo(u.bbox.left + u.bbox.width, y); g.stroke();
      g.fillText(name, u.bbox.left + 6 * devicePixelRatio, y - 4 * devicePixelRatio);
    }
    g.restore();
  };
}

function valueRange(plot) {
  if (plot.log) return undefined;
  return (u, low, high) => {
    if (low === null || high === null) return [0, 1];
    for (const [value] of plot.levels) if (high >= 0.2 * value && value > high) high = value;
    return uPlot.rangeNum(low, high, 0.1, true);
  };
}

// Marks of a logarithmic axis: powers of ten, of many every second.
function decades(u, splits) {
  const tens = splits.filter((v) => v && Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6);
  const every = Math.ceil(tens.length / 7), kept = new Set(tens.filter((v, i) => (tens.length - 1 - i) % every === 0));
  return splits.map((v) => (kept.has(v) ? v : null));
}

const SUPERSCRIPT = {"-": "\u207b", 0: "\u2070", 1: "\u00b9", 2: "\u00b2", 3: "\u00b3", 4: "\u2074", 5: "\u2075", 6: "\u2076", 7: "\u2077", 8: "\u2078", 9: "\u2079"};
function powerOfTen(value) {
  if (value === null) return null;
  const power = Math.round(Math.log10(value));
  return power >= -1 && power <= 3 ? String(Number(value.toPrecision(3))) : "10" + [...String(power)].map((sign) => SUPERSCRIPT[sign]).join("");
}

function options(plot, width, synced) {
  const powers = plot.log ? {filter: decades, values: (u, splits) => splits.map(powerOfTen)} : {};
  const axis = (label, size) => ({label, ...powers, labelSize: 18, size, stroke: () => css("--dim"), font: "12px system-ui, 'DejaVu Sans', sans-serif",
    labelFont: "12px system-ui, 'DejaVu Sans', sans-serif", grid: {stroke: () => css("--grid"), width: 1, ...(plot.log ? {filter: decades} : {})}, ticks: {stroke: () => css("--grid"), width: 1, ...(plot.log ? {filter: decades} : {})}});
  const hooks = {draw: [levelLines(plot)]};
  if (synced) {
    hooks.setScale = [(u, scale) => { if (scale === "x" && !page.busy && u.ready) zoom(u.scales.x.min, u.scales.x.max); }];
    hooks.ready = [(u) => { u.ready = true; }];
    hooks.setCursor = [(u) => { if (u.cursor.idx !== null && u.cursor.idx !== undefined && u.cursor.event) setMoment(u.data[0][u.cursor.idx]); }];
  }
  const cursor = {drag: {x: true, y: false}, points: {size: 6}};
  if (synced) cursor.sync = {key: "time", setSeries: false, scales: ["x", null], filters: {pub: (type) => type === "mousemove" || type === "mouseleave"}};
  return {
    width, height: 190, padding: [10, RIGHT, 0, 0], hooks, cursor, legend: {live: true},
    scales: {x: {time: false, distr: plot.log ? 3 : 1, ...(plot.log ? {range: (u, low, high) => [low, high]} : {})}, y: {distr: plot.log ? 3 : 1, range: valueRange(plot)}},
    axes: [axis(plot.xTitle, 38), axis(plot.unit, LEFT)],
    series: [{label: plot.xTitle.split(",")[0], value: (u, v) => (v === null ? "" : String(Math.round(v * 100) / 100))},
      ...plot.lines.map((line, i) => ({label: line.name, stroke: () => (line.reference ? css("--reference") : colourOf(i)),
        width: line.reference ? 1.5 : 1.6, dash: line.reference ? [6, 4] : undefined, points: {show: false},
        value: (u, v) => (v === null || v === undefined ? "\u2013" : Number(v.toPrecision(4)).toString())}))],
  };
}

// Curves in sight are drawn at once, the others when the page is idle, and all before it is printed.
const waiting = new Set();
function build(box) {
  if (!waiting.delete(box)) return;
  seen.unobserve(box);
  if (box.isConnected) box.build();
}
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) build(entry.target);
}, {rootMargin: "300px"});
const later = window.requestIdleCallback || ((action) => setTimeout(action, 10));
function buildNext(idle) {
  do {
    const [box] = waiting;
    if (!box) return;
    build(box);
  } while (idle && idle.timeRemaining() > 5);
  later(buildNext, {timeout: 100});  // also on a machine that is never idle
}
const sizeAll = (width) => { for (const u of page.plots) u.setSize({width: width || u.root.parentElement.clientWidth - 22, height: 190}); };
const PRINTED = 640;  // px between the margins of a page of paper
window.addEventListener("beforeprint", () => { for (const box of [...waiting]) build(box); sizeAll(PRINTED); });
window.addEventListener("afterprint", () => sizeAll());

function addPlot(parent, plot, synced) {
  const box = make("div", parent, undefined, "plot");
  box.dataset.key = plot.key;
  make("h3", box, `${plot.title} (${plot.unit})`);
  const notes = [plot.note, plot.levels.length ? "marked: " + plot.levels.map(([v, name]) => `${name} ${v}`).join(", ") : ""].filter(Boolean);
  if (notes.length) make("p", box, notes.join("; "), "note");
  box.build = () => {
    const u = new uPlot(options(plot, box.clientWidth - 22, synced), [plot.x, ...plot.lines.map((line) => line.y)], box);
    if (synced) { page.plots.push(u); apply(u); }
    new ResizeObserver(() => { const w = box.clientWidth - 22; if (w > 0 && w !== u.width) u.setSize({width: w, height: 190}); }).observe(box);
  };
  waiting.add(box);
  if (waiting.size === 1) later(buildNext);
  seen.observe(box);
}

function apply(u) {
  page.busy = true;
  const [min, max] = page.range || page.full;
  u.setScale("x", {min, max});
  // uPlot commits scales after this function; until then they are its own changes.
  queueMicrotask(() => queueMicrotask(() => { page.busy = false; }));
}

function zoom(min, max) {
  page.range = [min, max];
  for (const u of page.plots) if (u.scales.x.min !== min || u.scales.x.max !== max) apply(u);
  if (page.lanes) page.lanes.draw();
}

function choices() {
  const found = DATA.compared.length ? [["Runs side by side", () => showCurves(null, DATA.compared, false)]] : [];
  for (const run of DATA.runs) {
    const name = DATA.runs.length > 1 ? `${run.label}: ` : "";
    if (run.fleet.length) found.push([`${name}fleet`, () => showCurves(run, run.fleet, true)]);
    for (const vehicle of run.vehicles)
      found.push([run.vehicles.length > 1 ? `${name}vehicle ${vehicle.name}` : `${name}flight`, () => showCurves(run, vehicle.plots, true, vehicle.name)]);
    if (!run.fleet.length && !run.vehicles.length && run.events.length) found.push([`${name}events`, () => showCurves(run, [], true)]);
  }
  return found;
}

function showCurves(run, plots, lanes, vehicle) {
  const parent = document.getElementById("curves");
  for (const u of page.plots) u.destroy();
  page.plots = []; page.range = null; page.lanes = null;
  parent.querySelectorAll(".lanes, .grid").forEach((e) => e.remove());
  const timed = plots.filter((p) => !p.log && p.x.length), events = run ? run.events : [];
  const begins = timed.map((p) => p.x[0]), ends = timed.map((p) => p.x[p.x.length - 1]);
  if (!begins.length) for (const e of events) { begins.push(e.begin); ends.push(e.end); }
  page.full = begins.length ? [Math.min(...begins), Math.max(...ends)] : [0, 1];
  const fleet = run && run.vehicles.length > 1;
  const chosen = events.filter((e) => !fleet || !e.vehicle || (vehicle ? e.vehicle.split(", ").includes(vehicle) : e.level !== "info"));
  if (lanes && chosen.length) page.lanes = new Lanes(parent, chosen);
  const grid = make("div", parent, undefined, "grid");
  for (const plot of plots) addPlot(grid, plot, !plot.log);
}

function start() {
  showViews();
  const parent = document.getElementById("curves"), all = choices();
  if (!all.length) { make("p", parent, "No curves were recorded."); return; }
  const bar = make("div", parent, undefined, "bar");
  if (all.length > 1) {
    const select = make("select", make("label", bar, "Show "));
    all.forEach(([name], i) => { make("option", select, name).value = i; });
    select.addEventListener("change", () => all[select.value][1]());
  }
  make("button", bar, "Whole flight").addEventListener("click", () => { const [a, b] = page.full; zoom(a, b); });
  make("span", bar, "Drag over a curve to zoom all of them; double click shows the whole flight.", "dim");
  all[0][1]();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const view of page.views) view.draw();
    for (const u of page.plots) u.redraw(true, true);
    if (page.lanes) page.lanes.draw();
  });
}

// The range that each curve shows, for tests.
const zoomedRanges = () => page.plots.map((u) => [u.scales.x.min, u.scales.x.max]);

start();
