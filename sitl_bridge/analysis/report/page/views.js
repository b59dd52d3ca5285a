"use strict";
// The map and the 3-D view: one orthographic projection of north, east, down in m.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colourOf = (number) => css("--c" + (number % 11));

function make(tag, parent, text, kind) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  if (parent) parent.append(element);
  return element;
}

const PLACES = {"rally point": "--c2", "region of interest": "--c4"};  // beside the waypoints, with their colours

function niceStep(span, count) {
  const raw = span / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(raw));
  const share = raw / power;
  return (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10) * power;
}

function indexAt(times, moment) {
  let low = 0, high = times.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= moment) low = middle; else high = middle - 1;
  }
  return low;
}

class SpaceView {
  // world: {tracks, waypoints, places, fence, objects}; flat: a map from above, which cannot be turned.
  constructor(parent, title, flat, world) {
    this.flat = flat; this.world = world; this.moment = null;
    this.azimuth = flat ? 0 : 0.6; this.elevation = flat ? Math.PI / 2 : 0.45;
    const box = make("div", parent, undefined, "view"), head = make("header", box);
    make("h3", head, title);
    const button = (text, label, action) => {
      const one = make("button", head, text);
      one.title = label; one.setAttribute("aria-label", label);
      one.addEventListener("click", () => { action(); this.draw(); });
    };
    button("+", "larger", () => { this.scale *= 1.3; });
    button("\u2212", "smaller", () => { this.scale /= 1.3; });
    button("Fit", "show the whole flight", () => this.fit());
    if (!flat) {
      const turn = (azimuth, elevation) => () => { this.azimuth = azimuth; this.elevation = elevation; this.fit(); };
      button("Above", "from above", turn(0, Math.PI / 2));
      button("South", "from the south", turn(0, 0.02));
      button("East", "from the east", turn(Math.PI / 2, 0.02));
    }
    this.canvas = make("canvas", box);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", title + (flat ? "; drag to move" : "; drag to turn, with Shift to move"));
    this.listen();
    new ResizeObserver(() => { if (this.scale === undefined) this.fit(); this.draw(); }).observe(this.canvas);
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId); this.held = [event.clientX, event.clientY]; canvas.focus({preventScroll: true});
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.held) return;
      const dx = event.clientX - this.held[0], dy = event.clientY - this.held[1];
      this.held = [event.clientX, event.clientY];
      if (this.flat || event.shiftKey || event.buttons & 2) this.move(dx, dy);
      else { this.azimuth += dx * 0.008; this.elevation = Math.min(Math.PI / 2, Math.max(0, this.elevation + dy * 0.008)); }
      this.draw();
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { this.held = null; });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => {
      // Otherwise a page could not be scrolled past the view.
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault(); this.scale *= Math.exp(-0.0015 * event.deltaY); this.draw();
    }, {passive: false});
    canvas.addEventListener("keydown", (event) => {
      const turn = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[event.key];
      if (turn && this.flat) this.move(-30 * turn[0], 30 * turn[1]);
      else if (turn) { this.azimuth += 0.1 * turn[0]; this.elevation = Math.min(Math.PI / 2, Math.max(0, this.elevation + 0.1 * turn[1])); }
      else if (event.key === "+") this.scale *= 1.2;
      else if (event.key === "-") this.scale /= 1.2;
      else return;
      event.preventDefault(); this.draw();
    });
  }

  move(dx, dy) {
    const c = Math.cos(this.azimuth), s = Math.sin(this.azimuth), up = dy / this.scale, right = dx / this.scale;
    const rise = Math.sin(this.elevation);
    if (rise < 0.3) { this.centre[2] += up; this.centre[1] -= right * c; this.centre[0] += right * s; return; }
    this.centre[1] -= right * c - up / rise * s; this.centre[0] += right * s + up / rise * c;
  }

  isWide(part) {
    return [0, 1].some((k) => Math.max(...part.points.map((p) => p[k])) - Math.min(...part.points.map((p) => p[k])) > 3.5 * this.span);
  }

  fenceIsFar() { if (this.span === undefined) this.bounds(); return this.world.fence.some((part) => this.isWide(part)); }

  // Text where there is room for it; what would be printed over another text is left out.
  label(text, x, y) {
    const g = this.g, half = g.measureText(text).width / 2 + 2, box = [x - half, y - 8, x + half, y + 8];
    if (box[0] < 0 || box[2] > this.width || box[1] < 0 || box[3] > this.height) return;
    if (this.boxes.some((b) => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) return;
    this.boxes.push(box);
    g.textAlign = "center"; g.textBaseline = "middle"; g.fillText(text, x, y); g.textBaseline = "alphabetic"; g.textAlign = "left";
  }

  bounds() {
    const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
    const add = (n, e, h) => [n, e, h].forEach((v, k) => { if (v !== null && v === v) { low[k] = Math.min(low[k], v); high[k] = Math.max(high[k], v); } });
    for (const track of this.world.tracks) for (const p of track.points) add(p[0], p[1], p[2] === null ? null : -p[2]);
    for (const w of this.world.waypoints) add(w.place[0], w.place[1], w.place[2] === null ? null : -w.place[2]);
    for (const p of this.world.places) add(p.place[0], p.place[1], p.place[2] === null ? null : -p.place[2]);
    // A wide fence would make the flight too small to see; the map can be made smaller to show it.
    this.span = Math.max(high[0] - low[0], high[1] - low[1]);
    for (const part of this.world.fence) if (!this.isWide(part)) for (const p of part.points) add(p[0], p[1], 0);
    if (!(high[0] >= low[0])) return [[-5, -5, 0], [5, 5, 5]];
    for (const k of [0, 1]) if (high[k] - low[k] < 4) { const c = (low[k] + high[k]) / 2; low[k] = c - 2; high[k] = c + 2; }
    low[2] = Math.min(low[2], 0);
    return [low, high];
  }

  fit() {
    const [low, high] = this.box = this.bounds();
    this.centre = [0, 1, 2].map((k) => (low[k] + high[k]) / 2);
    this.scale = 1;
    const width = this.canvas.clientWidth || 600, height = this.canvas.clientHeight || 460;
    let right = 1e-6, up = 1e-6;
    for (const n of [low[0], high[0]]) for (const e of [low[1], high[1]]) for (const h of [low[2], high[2]]) {
      const [x, y] = this.project(n, e, h, true);
      right = Math.max(right, Math.abs(x)); up = Math.max(up, Math.abs(y));
    }
    this.scale = 0.8 * Math.min(width / 2 / right, height / 2 / up);
  }

  project(n, e, h, raw) {
    const c = Math.cos(this.azimuth), s = Math.sin(this.azimuth);
    const dn = n - this.centre[0], de = e - this.centre[1], dh = h - this.centre[2];
    const right = de * c - dn * s, away = de * s + dn * c;
    const x = right * this.scale, y = -(dh * Math.cos(this.elevation) + away * Math.sin(this.elevation)) * this.scale;
    if (raw) return [x, y];
    return [x + this.width / 2, y + this.height / 2, away * Math.cos(this.elevation) - dh * Math.sin(this.elevation)];
  }

  draw() {
    const ratio = window.devicePixelRatio || 1, canvas = this.canvas;
    this.width = canvas.clientWidth; this.height = canvas.clientHeight;
    if (!this.width) return;
    if (this.scale === undefined) this.fit();
    canvas.width = this.width * ratio; canvas.height = this.height * ratio;
    const g = this.g = canvas.getContext("2d");
    this.boxes = this.flat ? [] : [[0, 0, 180, 22], [this.width - 70, this.height - 70, this.width, this.height]];
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = css("--ground"); g.fillRect(0, 0, this.width, this.height);
    g.font = "12px system-ui, 'DejaVu Sans', sans-serif"; g.lineJoin = "round";
    this.drawGrid(); this.drawObjects(); this.drawPlan(); this.drawTracks(); this.drawFrame();
  }

  line(points, colour, width, dash, height) {
    const g = this.g;
    g.beginPath(); g.strokeStyle = colour; g.lineWidth = width; g.setLineDash(dash || []);
    let drawing = false;
    for (const p of points) {
      if (p[0] === null || p[1] === null) { drawing = false; continue; }
      const h = height === undefined ? (p[2] === null ? 0 : -p[2]) : height;
      const [x, y] = this.project(p[0], p[1], h);
      if (drawing) g.lineTo(x, y); else g.moveTo(x, y);
      drawing = true;
    }
    g.stroke(); g.setLineDash([]);
  }

  shown() {
    // North and east that the view covers: the map all of its canvas, the 3-D view the flight's surroundings.
    const [low, high] = this.box;
    if (!this.flat) { const m = 0.15 * Math.max(high[0] - low[0], high[1] - low[1]); return [low[0] - m, low[1] - m, high[0] + m, high[1] + m]; }
    const dn = this.height / 2 / this.scale, de = this.width / 2 / this.scale;
    return [this.centre[0] - dn, this.centre[1] - de, this.centre[0] + dn, this.centre[1] + de];
  }

  drawGrid() {
    const [n0, e0, n1, e1] = this.shown();
    const step = this.step = niceStep(Math.max(n1 - n0, e1 - e0), 7), grid = css("--grid");
    const ticks = (a, b) => { const t = []; for (let v = Math.ceil(a / step); v * step <= b; v++) t.push(Math.round(v * step * 1e6) / 1e6); return t; };
    this.ticksNorth = ticks(n0, n1); this.ticksEast = ticks(e0, e1);
    for (const n of this.ticksNorth) this.line([[n, e0], [n, e1]], grid, 1, [], 0);
    for (const e of this.ticksEast) this.line([[n0, e], [n1, e]], grid, 1, [], 0);
  }

  polygon(points, fill, stroke) {
    const g = this.g;
    g.beginPath(); points.forEach((p, i) => (i ? g.lineTo(p[0], p[1]) : g.moveTo(p[0], p[1]))); g.closePath();
    if (fill) { g.fillStyle = fill; g.fill(); }
    if (stroke) { g.strokeStyle = stroke; g.lineWidth = 0.8; g.stroke(); }
  }

  drawObjects() {
    const faces = [], edge = css("--shape");
    for (const thing of this.world.objects) {
      const [r, gr, b] = thing.color.map((c) => Math.round(255 * c)), light = (f, a) => `rgba(${Math.round(r * f)},${Math.round(gr * f)},${Math.round(b * f)},${a})`;
      for (const prism of thing.prisms || []) {
        const ring = prism.outline, top = ring.map((p) => this.project(p[0], p[1], prism.top));
        const depth = (points) => points.reduce((sum, p) => sum + p[2], 0) / points.length;
        if (!this.flat) ring.forEach((p, i) => {
          const q = ring[(i + 1) % ring.length];
          const side = [this.project(p[0], p[1], prism.bottom), this.project(q[0], q[1], prism.bottom), top[(i + 1) % ring.length], top[i]];
          faces.push([depth(side), side, light(0.75, 0.6)]);
        });
        faces.push([depth(top) - (this.flat ? prism.top * 1e-3 : 0), top, light(1, this.flat ? 0.75 : 0.65)]);
      }
      if (thing.terrain) this.terrainFaces(thing.terrain, faces);
    }
    faces.sort((a, b) => b[0] - a[0]);
    for (const [, points, fill] of faces) this.polygon(points, fill, faces.length < 3000 ? edge : null);
    for (const thing of this.world.objects) if (thing.path) this.line(thing.path, css("--c1"), 1.2, [3, 3]);
  }

  terrainFaces(terrain, faces) {
    const {corner, row, column, heights} = terrain, flat = heights.flat().filter((h) => h !== null);
    const low = Math.min(...flat), high = Math.max(...flat, low + 1e-6);
    const at = (i, j) => [corner[0] + row[0] * i + column[0] * j, corner[1] + row[1] * i + column[1] * j, heights[i][j]];
    for (let i = 0; i + 1 < heights.length; i++) for (let j = 0; j + 1 < heights[0].length; j++) {
      const ring = [at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)];
      if (ring.some((p) => p[2] === null)) continue;
      const share = (ring[0][2] - low) / (high - low), points = ring.map((p) => this.project(p[0], p[1], p[2]));
      const fill = `hsla(${110 - 70 * share}, 28%, ${matchMedia("(prefers-color-scheme: dark)").matches ? 22 + 25 * share : 62 + 25 * share}%, 0.9)`;
      faces.push([points.reduce((s, p) => s + p[2], 0) / 4, points, fill]);
    }
  }

  drawPlan() {
    const g = this.g, reference = css("--reference");
    for (const part of this.world.fence) this.line(part.points, css(part.inclusion ? "--c3" : "--c1"), 2, [8, 4], 0);
    const route = this.world.waypoints.filter((w) => w.place[0] !== null);
    if (route.length > 1) this.line(route.map((w) => w.place), reference, 1.5, [2, 4]);
    const marks = [];
    for (const w of route) {
      const [x, y] = this.project(w.place[0], w.place[1], w.place[2] === null ? 0 : -w.place[2]);
      g.beginPath(); g.arc(x, y, 4, 0, 7); g.fillStyle = css("--back"); g.fill(); g.strokeStyle = css("--c3"); g.lineWidth = 2; g.stroke();
      const near = marks.find((m) => Math.hypot(m.x - x, m.y - y) < 14);
      if (near) near.text += `, ${w.number}`; else marks.push({x, y, text: String(w.number)});
    }
    for (const place of this.world.places) {
      const [x, y] = this.project(place.place[0], place.place[1], place.place[2] === null ? 0 : -place.place[2]);
      g.beginPath(); g.moveTo(x, y - 7); g.lineTo(x + 6, y + 4); g.lineTo(x - 6, y + 4); g.closePath();
      g.fillStyle = css("--back"); g.fill(); g.strokeStyle = css(PLACES[place.kind]); g.lineWidth = 2; g.stroke();
      marks.push({x, y, text: place.name});
    }
    g.fillStyle = css("--ink");
    for (const m of marks) this.label(m.text, m.x + 6 + g.measureText(m.text).width / 2, m.y - 11);
  }

  drawTracks() {
    const g = this.g, many = this.world.tracks.length > 20;
    for (const track of this.world.tracks) {
      if (track.reference.length > 1) this.line(track.reference, css("--reference"), 1.5, [6, 4]);
      if (!this.flat && !many) this.line(track.points, css("--grid"), 3, [], Math.max(0, this.box[0][2]));
    }
    for (const track of this.world.tracks) this.line(track.points, colourOf(track.colour), many ? 1 : 2);
    for (const track of this.world.tracks) {
      const sound = track.points.filter((p) => p[0] !== null);
      if (!sound.length) continue;
      const mark = (p, colour, square) => {
        const [x, y] = this.project(p[0], p[1], p[2] === null ? 0 : -p[2]);
        g.fillStyle = colour; g.beginPath();
        if (square) g.rect(x - 4, y - 4, 8, 8); else g.arc(x, y, 4.5, 0, 7);
        g.fill();
      };
      if (!many) { mark(sound[0], css("--begin")); mark(sound[sound.length - 1], css("--end"), true); }
      if (this.moment === null || this.moment < track.time[0] || this.moment > track.time[track.time.length - 1]) continue;
      const p = track.points[indexAt(track.time, this.moment)];
      if (p[0] === null) continue;
      const [x, y] = this.project(p[0], p[1], p[2] === null ? 0 : -p[2]);
      g.beginPath(); g.arc(x, y, many ? 3 : 6, 0, 7); g.fillStyle = colourOf(track.colour); g.fill();
      g.strokeStyle = css("--ink"); g.lineWidth = 1.5; g.stroke();
      if (this.world.tracks.length > 1 && !many) { g.fillStyle = css("--ink"); g.fillText(track.label, x + 9, y + 4); }
    }
  }

  drawFrame() {
    const g = this.g, [n0, e0] = this.shown();
    g.fillStyle = css("--dim"); g.textAlign = "center"; g.textBaseline = "alphabetic";
    if (this.flat) {
      for (const e of this.ticksEast) { const x = this.project(0, e, 0)[0]; if (x > 40 && x < this.width - 60) g.fillText(String(e), x, this.height - 5); }
      g.textAlign = "left";
      for (const n of this.ticksNorth) { const y = this.project(n, 0, 0)[1]; if (y > 22 && y < this.height - 24) g.fillText(String(n), 5, y + 4); }
      g.fillText("north, m", 5, 14); g.textAlign = "right"; g.fillText("east, m", this.width - 6, this.height - 5);
    } else {
      // At the edges of the ground that are nearest to the eye, outside of them.
      const [, , n1, e1] = this.shown(), out = 0.06 * Math.max(n1 - n0, e1 - e0);
      const [n, e] = [Math.cos(this.azimuth) >= 0 ? [n0, n0 - out] : [n1, n1 + out], Math.sin(this.azimuth) >= 0 ? [e0, e0 - out] : [e1, e1 + out]];
      const drop = 9 * Math.cos(this.elevation);
      g.fillStyle = css("--dim");
      for (const tick of this.ticksEast) { const [x, y] = this.project(n[1], tick, 0); this.label(String(tick), x, y + drop); }
      for (const tick of this.ticksNorth) { const [x, y] = this.project(tick, e[1], 0); this.label(String(tick), x, y + drop); }
      const corners = [[n0, e0], [n0, e1], [n1, e0], [n1, e1]];
      this.drawHeights(...corners.sort((p, q) => this.project(p[0], p[1], 0)[0] - this.project(q[0], q[1], 0)[0])[0]);
      g.fillStyle = css("--dim"); g.textAlign = "left"; g.fillText("east, north and height in m", 6, 14);
      this.drawCompass();
    }
    g.textAlign = "left";
  }

  drawHeights(n, e) {
    const g = this.g, top = this.box[1][2], step = niceStep(Math.max(top, 1), 4);
    if (Math.cos(this.elevation) < 0.15) return;
    const rule = css("--reference");
    this.line([[n, e, 0], [n, e, -Math.max(top, step)]], rule, 1);
    for (let h = step; h <= Math.max(top, step) + 1e-9; h += step) {
      const [x, y] = this.project(n, e, h);
      g.beginPath(); g.strokeStyle = rule; g.moveTo(x - 3, y); g.lineTo(x + 3, y); g.stroke();
      g.fillStyle = css("--dim"); this.label(String(Math.round(h * 100) / 100), x - 16, y);
    }
  }

  drawCompass() {
    const g = this.g, x = this.width - 34, y = this.height - 34;
    const arrow = (n, e, h, text) => {
      const c = Math.cos(this.azimuth), s = Math.sin(this.azimuth), right = e * c - n * s, away = e * s + n * c;
      const dx = 20 * right, dy = -20 * (h * Math.cos(this.elevation) + away * Math.sin(this.elevation));
      g.beginPath(); g.strokeStyle = css("--ink"); g.lineWidth = 1.5; g.moveTo(x, y); g.lineTo(x + dx, y + dy); g.stroke();
      g.fillStyle = css("--ink"); g.fillText(text, x + 1.35 * dx, y + 1.35 * dy + 4);
    };
    g.textAlign = "center"; arrow(1, 0, 0, "N"); arrow(0, 1, 0, "E"); arrow(0, 0, 1, "up");
  }
}
