"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
const { sides, zones, samples } = data;
const TYPES = ["unmovable", "movable", "reclaimable", "high-order atomic", "CMA", "isolated"];
const FRAMES = 512, STEPS = 15, COLUMNS = 128, LABEL = 18;
const last = samples.length - 1;
const total = zones.reduce((sum, zone) => sum + zone.blocks, 0);
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
const grouped = new Intl.NumberFormat("en");
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const drawing = (name, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// Decoding: a varint has 7 bits a byte, the lowest first.
const bytesOf = text => Uint8Array.from(atob(text), character => character.charCodeAt(0));
const reader = text => {
  const bytes = bytesOf(text);
  let at = 0;
  return {
    byte: () => bytes[at++],
    number: () => {
      let value = 0, shift = 1, byte;
      do { byte = bytes[at++]; value += (byte & 127) * shift; shift *= 128; } while (byte > 127);
      return value;
    },
    more: () => at < bytes.length,
  };
};
// A picture is the one before it with runs written over: skip, length, cell; a run of length 0 ends it.
const films = sides.map(side => ({ source: reader(side.film), pictures: [] }));
const picture = (side, index) => {
  const { source, pictures } = films[side];
  while (pictures.length <= index) {
    const cells = pictures.length ? pictures[pictures.length - 1].slice() : new Uint8Array(total);
    for (let at = 0;;) {
      at += source.number();
      const length = source.number();
      if (length === 0) break;
      cells.fill(source.byte(), at, at += length);
    }
    pictures.push(cells);
  }
  return pictures[index];
};
let stills = [];
const framesOf = side => {
  if (!stills[side]) {
    const source = reader(sides[side].frames), frames = new Uint8Array(total * FRAMES);
    for (let at = 0; source.more();) { const length = source.number(); frames.fill(source.byte(), at, at += length); }
    stills[side] = frames;
  }
  return stills[side];
};
const isWhole = cell => cell > 0 && (cell - 1) % 16 === 0;
const typeOf = cell => (cell - 1) >> 4;

// Colours follow the page's.
let palette;
const readPalette = () => {
  const style = getComputedStyle(document.documentElement);
  const colour = name => {
    const hex = style.getPropertyValue(name).trim().replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
    return [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
  };
  const mix = (from, to, part) => `rgb(${from.map((value, at) => Math.round(value + (to[at] - value) * part)).join(" ")})`;
  const back = colour("--back");
  palette = {
    back: mix(back, back, 0), cell: style.getPropertyValue("--cell"), text: style.getPropertyValue("--text"),
    soft: style.getPropertyValue("--soft"), only: [style.getPropertyValue("--side0"), style.getPropertyValue("--side1")],
    shade: TYPES.map((_, type) => [...Array(STEPS + 1).keys()].map(step => mix(back, colour(`--type${type}`), 0.2 + 0.8 * step / STEPS))),
  };
};
readPalette();

// State.
let now = last, playing = 0, highlighted = -1, chosen = 0;
const panels = [];
const DIFFERENCE = sides.length;

const place = index => {
  let from = 0;
  for (const zone of zones) {
    if (index < from + zone.blocks) return { zone, block: zone.first + index - from };
    from += zone.blocks;
  }
  return { zone: zones[0], block: zones[0].first };
};
const describe = (side, index) => {
  const { zone, block } = place(index), cell = picture(side, now)[index];
  const address = `0x${(block * FRAMES * 4096).toString(16)}`;
  const where = `pageblock ${grouped.format(block)}, zone ${zone.zone} of node ${zone.node}, from ${address} (frame ${grouped.format(block * FRAMES)})`;
  if (cell === 0) return `${sides[side].name}: ${where}: no memory`;
  let since = now;
  while (since > 0 && picture(side, since - 1)[index] === cell) since--;
  const step = (cell - 1) % 16, held = step === 0 ? "wholly free" : step === STEPS ? "held, or all but" : `about ${Math.round(100 * step / STEPS)} % held`;
  const age = since === 0 ? "so from the start" : `so since ${seconds(since)}`;
  return `${sides[side].name}: ${where}: ${TYPES[typeOf(cell)]}, ${held}, ${age}`;
};
const seconds = index => `${(samples[index].micros / 1e6).toFixed(2)} s`;

// Maps.
const geometry = canvas => {
  const width = canvas.clientWidth || 300, columns = Math.min(COLUMNS, Math.max(...zones.map(zone => zone.blocks)));
  const size = Math.min(width / columns, 24);
  let top = 0;
  const bands = zones.map(zone => {
    const band = { zone, top: top + LABEL, rows: Math.ceil(zone.blocks / columns) };
    top = band.top + band.rows * size + 6;
    return band;
  });
  return { columns, size, bands, width, height: Math.ceil(top) };
};
const cellAt = (canvas, x, y) => {
  const { columns, size, bands } = geometry(canvas);
  let from = 0;
  for (const { zone, top, rows } of bands) {
    const row = Math.floor((y - top) / size), column = Math.floor(x / size);
    if (row >= 0 && row < rows && column >= 0 && column < columns && row * columns + column < zone.blocks) return from + row * columns + column;
    from += zone.blocks;
  }
  return -1;
};
const paint = panel => {
  const { canvas } = panel, shape = geometry(canvas), ratio = devicePixelRatio || 1;
  canvas.style.height = `${shape.height}px`;
  canvas.width = Math.round(shape.width * ratio);
  canvas.height = Math.round(shape.height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.fillStyle = palette.back;
  pen.fillRect(0, 0, shape.width, shape.height);
  pen.font = "12px system-ui,sans-serif";
  const difference = panel.side === DIFFERENCE;
  const cells = picture(difference ? 0 : panel.side, now), others = picture(sides.length - 1, now);
  const gap = shape.size > 3 ? 1 : 0.5, side = shape.size - gap;
  let from = 0;
  const counts = [0, 0];
  for (const { zone, top } of shape.bands) {
    pen.fillStyle = palette.soft;
    pen.fillText(`${zone.zone}${zones.some(other => other.node > 0) ? `, node ${zone.node}` : ""}`, 0, top - 5);
    for (let index = 0; index < zone.blocks; index++) {
      const cell = cells[from + index];
      if (cell === 0) continue;
      const x = index % shape.columns * shape.size, y = top + Math.floor(index / shape.columns) * shape.size;
      const whole = isWhole(cell);
      let fill = whole ? null : palette.shade[typeOf(cell)][(cell - 1) % 16];
      if (difference) {
        const other = isWhole(others[from + index]);
        fill = null;
        if (whole !== other) { fill = palette.only[whole ? 0 : 1]; counts[whole ? 0 : 1]++; }
      }
      pen.globalAlpha = highlighted >= 0 && !difference && typeOf(cell) !== highlighted ? 0.15 : 1;
      if (fill) { pen.fillStyle = fill; pen.fillRect(x, y, side, side); }
      else if (shape.size > 3) { pen.strokeStyle = palette.cell; pen.lineWidth = 0.5; pen.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1); }
    }
    pen.globalAlpha = 1;
    if (document.activeElement === canvas && chosen >= from && chosen < from + zone.blocks) {
      const index = chosen - from;
      pen.strokeStyle = palette.text; pen.lineWidth = 2;
      pen.strokeRect(index % shape.columns * shape.size - 1, top + Math.floor(index / shape.columns) * shape.size - 1, side + 2, side + 2);
    }
    from += zone.blocks;
  }
  panel.count.textContent = difference
    ? `whole only in ${sides[0].name}: ${grouped.format(counts[0])}; only in ${sides[sides.length - 1].name}: ${grouped.format(counts[1])}`
    : `${grouped.format(samples[now].whole[panel.side])} whole pageblocks`;
  canvas.setAttribute("aria-label", `Map of pageblocks, ${difference ? "difference" : sides[panel.side].name}: ${panel.count.textContent}`);
};
const tip = byId("tip");
const showTip = (text, x, y) => {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 4))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 8 : y + 18}px`;
};
const tell = index => panels.map(panel => panel.side).filter((side, at, all) => side !== DIFFERENCE && all.indexOf(side) === at)
  .map(side => describe(side, index)).join(". ");
const addPanel = side => {
  const canvas = element("canvas", { tabindex: 0, role: "img" }), segments = element("span", { class: "segments", role: "group", "aria-label": "Shown" });
  const panel = { canvas, side, count: element("span") };
  const names = [...sides.map(one => one.name), "Difference"];
  const buttons = names.map((name, index) => {
    const button = element("button", { type: "button", "aria-pressed": index === side }, name);
    button.addEventListener("click", () => {
      panel.side = index;
      buttons.forEach((other, at) => other.setAttribute("aria-pressed", at === index));
      paint(panel);
    });
    return button;
  });
  segments.append(...buttons);
  byId("maps").append(element("figure", {}, element("figcaption", {}, segments, panel.count), canvas));
  const over = event => {
    const box = canvas.getBoundingClientRect();
    return cellAt(canvas, event.clientX - box.left, event.clientY - box.top);
  };
  canvas.addEventListener("pointermove", event => {
    const index = over(event);
    if (index < 0) { tip.hidden = true; return; }
    showTip(panel.side === DIFFERENCE ? tell(index) || describe(0, index) : describe(panel.side, index), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", event => { const index = over(event); if (index >= 0) { chosen = index; zoom(index); } });
  canvas.addEventListener("keydown", event => {
    const { columns } = geometry(canvas);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -total, End: total }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); zoom(chosen); return; }
    if (step === undefined) return;
    event.preventDefault();
    chosen = Math.max(0, Math.min(total - 1, chosen + step));
    byId("about").textContent = tell(chosen);
    paint(panel);
  });
  for (const event of ["focus", "blur"]) canvas.addEventListener(event, () => paint(panel));
  panels.push(panel);
};

// One pageblock's frames, at the end of the trace.
const zoom = index => {
  tip.hidden = true;
  const { block } = place(index);
  byId("zoom-title").textContent = `Pageblock ${grouped.format(block)} at the end of the trace`;
  byId("frames").replaceChildren();
  byId("frame").textContent = "16 rows of 32 frames; point at one.";
  sides.forEach((side, number) => {
    const frames = framesOf(number).subarray(index * FRAMES, (index + 1) * FRAMES);
    const free = frames.reduce((sum, frame) => sum + (frame === 1), 0);
    const canvas = element("canvas", { role: "img", width: 640, height: 320, "aria-label": `${side.name}: ${free} of 512 frames are free` });
    const pen = canvas.getContext("2d");
    frames.forEach((frame, at) => {
      const x = at % 32 * 20, y = Math.floor(at / 32) * 20;
      if (frame > 1) { pen.fillStyle = palette.shade[frame - 2][STEPS]; pen.fillRect(x, y, 18, 18); }
      else if (frame === 1) { pen.strokeStyle = palette.cell; pen.strokeRect(x + 0.5, y + 0.5, 17, 17); }
    });
    canvas.addEventListener("pointermove", event => {
      const box = canvas.getBoundingClientRect();
      const at = Math.floor((event.clientY - box.top) / box.height * 16) * 32 + Math.floor((event.clientX - box.left) / box.width * 32);
      const frame = frames[at];
      if (frame === undefined) return;
      const pfn = block * FRAMES + at, state = frame === 0 ? "no memory, or reserved" : frame === 1 ? "free" : `held, ${TYPES[frame - 2]}`;
      byId("frame").textContent = `${side.name}: frame ${grouped.format(pfn)}, address 0x${(pfn * 4096).toString(16)}: ${state}`;
    });
    byId("frames").append(element("figure", {}, element("figcaption", {}, `${side.name}: ${free} free`), canvas));
  });
  byId("zoom").showModal();
};

// Charts: steps on one axis of time, with labels at the lines' ends.
// Linux's whole pageblocks are an upper bound where it compacted, and may come out as more than is free.
const unusable = (sample, side) => Math.max(0, 1 - sample.whole[side] * FRAMES / Math.max(1, sample.free[side]));
const CHARTS = [
  { title: "Whole pageblocks", of: (sample, side) => sample.whole[side], show: value => grouped.format(value) },
  { title: "Free memory in whole pageblocks, %", of: (sample, side) => 100 * (1 - unusable(sample, side)), show: value => value.toFixed(1) },
  { title: "Fallbacks to another type, so far", of: (sample, side) => sample.fallbacks[side], show: value => grouped.format(value) },
  { title: "Unusable index of order 9", of: (sample, side) => unusable(sample, side), show: value => value.toFixed(3) },
];
const WIDTH = innerWidth > 720 ? 620 : 380, HEIGHT = sides.length > 4 ? 260 : 200, PAD = { left: 64, right: 88, top: 12, bottom: 26 };
const crosses = [];
const chart = ({ title, of, show }) => {
  const values = sides.map((_, side) => samples.map(sample => of(sample, side)));
  const highest = Math.max(...values.flat(), 0), span = highest || 1, end = samples[last].micros || 1;
  const x = micros => PAD.left + micros / end * (WIDTH - PAD.left - PAD.right);
  const y = value => HEIGHT - PAD.bottom - value / span * (HEIGHT - PAD.top - PAD.bottom);
  const svg = drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }, drawing("title", {}, title));
  svg.append(drawing("path", { class: "axis", d: `M${PAD.left} ${PAD.top}V${HEIGHT - PAD.bottom}H${WIDTH - PAD.right}` }));
  for (const value of [0, span]) svg.append(drawing("text", { x: PAD.left - 8, y: y(value) + 4, "text-anchor": "end" }, show(value)));
  svg.append(drawing("text", { x: PAD.left, y: HEIGHT - 6 }, "0 s"));
  svg.append(drawing("text", { x: WIDTH - PAD.right, y: HEIGHT - 6, "text-anchor": "end" }, `${(end / 1e6).toFixed(1)} s`));
  const ends = values.map(line => y(line[last]));
  // Labels take two lines: from the highest down, each is below the one before.
  const byHeight = [...ends.keys()].sort((one, other) => ends[one] - ends[other]), LINES = 28;
  byHeight.forEach((at, rank) => { if (rank) ends[at] = Math.max(ends[at], ends[byHeight[rank - 1]] + LINES); });
  const below = Math.max(...ends) - (HEIGHT - PAD.bottom);
  if (below > 0) byHeight.toReversed().forEach((at, rank, all) => { ends[at] = Math.min(ends[at], rank ? ends[all[rank - 1]] - LINES : HEIGHT - PAD.bottom); });
  const labels = sides.map((side, number) => {
    const path = values[number].map((value, at) => at ? `H${x(samples[at].micros).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(samples[0].micros).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    const dash = number ? "" : "6 3";
    const label = drawing("text", { class: "value", x: WIDTH - PAD.right + 8, y: ends[number] + 10 });
    svg.append(drawing("g", { class: `side${number}` }, drawing("path", { class: "line", d: path, "stroke-dasharray": dash }),
      drawing("text", { class: "value", x: WIDTH - PAD.right + 8, y: ends[number] - 3 }, side.name), label));
    return label;
  });
  const cross = drawing("path", { class: "cross" });
  svg.append(cross);
  crosses.push(() => {
    cross.setAttribute("d", `M${x(samples[now].micros).toFixed(1)} ${PAD.top}V${HEIGHT - PAD.bottom}`);
    labels.forEach((label, number) => { label.textContent = show(values[number][now]); });
  });
  const seek = event => {
    const box = svg.getBoundingClientRect(), micros = ((event.clientX - box.left) / box.width * WIDTH - PAD.left) / (WIDTH - PAD.left - PAD.right) * end;
    let best = 0;
    samples.forEach((sample, at) => { if (Math.abs(sample.micros - micros) < Math.abs(samples[best].micros - micros)) best = at; });
    go(best);
  };
  svg.addEventListener("pointermove", event => { if (event.pointerType === "mouse") seek(event); });
  svg.addEventListener("click", seek);
  byId("charts").append(element("figure", { style: "margin:0" }, element("figcaption", {}, title), svg));
};
const spark = (of, side) => {
  const line = samples.map(sample => of(sample, side)), all = samples.flatMap(sample => sides.map((_, at) => of(sample, at)));
  const low = Math.min(...all), span = Math.max(...all) - low || 1;
  const d = line.map((value, at) => `${at ? "L" : "M"}${(at / Math.max(1, last) * 200).toFixed(1)} ${(36 - (value - low) / span * 32).toFixed(1)}`).join("");
  return drawing("path", { d, fill: "none", stroke: "currentColor", "stroke-width": 2, "vector-effect": "non-scaling-stroke", class: `side${side}` });
};
const tile = ({ title, of, show }) => {
  const pairs = sides.map((side, number) => element("div", { class: `side${number}` }, element("dt", {}, side.name), element("dd", {}, show(of(samples[last], number)))));
  const svg = drawing("svg", { viewBox: "0 0 200 40", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(...sides.map((_, number) => spark(of, number)));
  byId("tiles").append(element("div", { class: "tile" }, element("h3", {}, title), element("dl", {}, ...pairs), svg));
};

// Time.
const slider = byId("time"), play = byId("play");
const go = index => {
  now = Math.max(0, Math.min(last, index));
  slider.value = now;
  slider.setAttribute("aria-valuetext", seconds(now));
  byId("moment").textContent = seconds(now);
  panels.forEach(paint);
  crosses.forEach(draw => draw());
};
const stop = () => { clearInterval(playing); playing = 0; play.textContent = "Play"; play.setAttribute("aria-pressed", false); };
play.addEventListener("click", () => {
  if (playing) { stop(); return; }
  if (now === last) go(0);
  play.textContent = "Pause";
  play.setAttribute("aria-pressed", true);
  playing = setInterval(() => { if (now === last) stop(); else go(now + 1); }, calm ? 1000 : 80);
});
slider.max = last;
slider.addEventListener("input", () => go(Number(slider.value)));

const legend = () => {
  const used = new Set();
  sides.forEach((_, side) => picture(side, last).forEach(cell => { if (cell) used.add(typeOf(cell)); }));
  byId("legend").replaceChildren(...[...used].sort().map(type => {
    const swatch = element("i", { style: `background:linear-gradient(90deg,${palette.shade[type][0]},${palette.shade[type][STEPS]})` });
    const button = element("button", { type: "button", "aria-pressed": highlighted === type }, swatch, TYPES[type]);
    button.addEventListener("click", () => { highlighted = highlighted === type ? -1 : type; legend(); panels.forEach(paint); });
    return button;
  }));
};
CHARTS.slice(0, 3).forEach(tile);
legend();
addPanel(0);
addPanel(sides.length - 1);
CHARTS.forEach(chart);
go(last);
addEventListener("resize", () => panels.forEach(paint));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readPalette(); legend(); panels.forEach(paint); });
document.documentElement.dataset.ready = "yes";
})();
