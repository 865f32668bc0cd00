// Curves: <mh-spark>, small and without axes, and <mh-chart>, with axes, a legend and a reading under the pointer.
// Both are an SVG with a text that says what the curve shows. Null is a gap in the curve.

import { fill, h, s, setText } from "./dom.js";
import { clock, when } from "./format.js";

/** @typedef {Array<number | null>} Values */

/** Fewer values, the highest of each group, so that a short peak is not lost. @param {Values} values @param {number} most */
export function thinned(values, most) {
  if (values.length <= most) return values;
  const size = values.length / most;
  /** @type {Values} */
  const found = [];
  for (let at = 0; at < most; at += 1) {
    let highest = /** @type {number | null} */ (null);
    for (let of = Math.floor(at * size); of < Math.floor((at + 1) * size); of += 1) {
      const value = values[of] ?? null;
      if (value !== null && (highest === null || value > highest)) highest = value;
    }
    found.push(highest);
  }
  return found;
}

/** @param {Values} values @param {number} width @param {number} height @param {number} top */
function pathOf(values, width, height, top) {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  let path = "";
  let isDrawing = false;
  values.forEach((value, at) => {
    if (value === null || value === undefined) {
      isDrawing = false;
      return;
    }
    const x = (at * step).toFixed(1);
    const y = (height - (value / top) * height).toFixed(1);
    // A single value between two gaps is a dot: a line of no length has round ends.
    const isAlone = !isDrawing && (values[at + 1] ?? null) === null;
    path += `${isDrawing ? "L" : "M"}${x} ${y}${isAlone ? "h.01" : ""}`;
    isDrawing = true;
  });
  return path;
}

/** Without the time before there was anything to measure, but at least `least` values.
 * @param {Values[]} lines @param {number} least @returns {number} how many to leave out */
function emptyStart(lines, least) {
  const firsts = lines.map((values) => {
    const first = values.findIndex((value) => value !== null);
    return first < 0 ? values.length : first;
  });
  const length = lines[0]?.length ?? 0;
  return Math.max(0, Math.min(...firsts, length - least));
}

/** The highest value, on a round number. @param {Values[]} lines @param {number} [base] 1024 for bytes */
function topOf(lines, base = 1000) {
  let highest = 0;
  for (const values of lines) for (const value of values) if (value !== null && value > highest) highest = value;
  if (highest <= 0) return 1;
  const unit = base ** Math.max(0, Math.floor(Math.log(highest) / Math.log(base)));
  const power = 10 ** Math.floor(Math.log10(highest / unit)) * unit;
  for (const step of [1, 2, 2.5, 5, 10]) if (highest <= step * power) return step * power;
  return highest;
}

/** @param {Values} values @param {(value: number | null) => string} shown */
function inWords(values, shown) {
  const known = /** @type {number[]} */ (values.filter((value) => value !== null));
  if (!known.length) return "no values yet";
  const last = known[known.length - 1] ?? null;
  const lowest = known.reduce((a, b) => Math.min(a, b));
  const highest = known.reduce((a, b) => Math.max(a, b));
  return `now ${shown(last)}, lowest ${shown(lowest)}, highest ${shown(highest)}`;
}

export class Spark extends HTMLElement {
  label = "";

  /** @type {(value: number | null) => string} */
  format = String;

  #line = s("path", { class: "line" });
  #area = s("path", { class: "area" });
  #svg = s("svg", { viewBox: "0 -2 120 34", preserveAspectRatio: "none", role: "img" }, this.#area, this.#line);

  connectedCallback() {
    if (!this.#svg.isConnected) this.append(this.#svg);
  }

  /** @param {Values} values */
  set values(values) {
    const shown = thinned(values.slice(emptyStart([values], 12)), 120);
    const path = pathOf(shown, 120, 30, topOf([shown]));
    this.#line.setAttribute("d", path);
    this.#area.setAttribute("d", areaOf(path));
    this.#svg.setAttribute("aria-label", `${this.label}, the last hour: ${inWords(values, this.format)}`);
  }
}

/** The parts of a line, each closed at the bottom. @param {string} path */
function areaOf(path) {
  return path
    .split(/(?=M)/)
    .filter((part) => part.includes("L"))
    .map((part) => {
      const first = /M([\d.]+)/.exec(part)?.[1];
      const last = [...part.matchAll(/L([\d.]+) /g)].pop()?.[1];
      return `${part}L${last} 30L${first} 30Z`;
    })
    .join("");
}

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {Values} values
 */

export class Chart extends HTMLElement {
  label = "";

  /** @type {(value: number | null) => string} */
  format = String;

  /** 1024 for bytes. */
  base = 1000;

  #legend = h("p", { class: "legend" });
  #plot = h("div", { class: "plot" });
  #svg = s("svg", { viewBox: "0 -4 600 128", preserveAspectRatio: "none", role: "img" });
  #grid = s("path", { class: "grid", d: "M0 0H600M0 60H600M0 120H600" });
  #cursor = s("path", { class: "cursor" });
  /** @type {SVGElement[]} */
  #paths = [];
  #axis = h("div", { class: "axis", "aria-hidden": "true" });
  #times = h("div", { class: "times", "aria-hidden": "true" });
  #readings = /** @type {HTMLElement[]} */ ([]);
  /** @type {Line[]} */
  #lines = [];
  #start = 0;
  #step = 1;
  #pointed = -1;

  connectedCallback() {
    if (this.#plot.isConnected) return;
    this.#svg.append(this.#grid, this.#cursor);
    this.#plot.append(this.#svg, this.#axis);
    this.append(this.#legend, this.#plot, this.#times);
    this.#plot.addEventListener("pointermove", (event) => this.#point(event));
    this.#plot.addEventListener("pointerleave", () => this.#read(-1));
  }

  /** @param {Line[]} lines @param {number} start @param {number} step in seconds */
  show(lines, start, step) {
    const left = emptyStart(lines.map((line) => line.values), 36);
    if (left) {
      lines = lines.map((line) => ({ name: line.name, values: line.values.slice(left) }));
      start += left * step;
    }
    this.#lines = lines;
    this.#start = start;
    this.#step = step;
    if (this.#paths.length !== lines.length) this.#prepare(lines);
    const top = topOf(lines.map((line) => line.values), this.base);
    lines.forEach((line, at) => {
      const values = thinned(line.values, 360);
      this.#paths[at]?.setAttribute("d", pathOf(values, 600, 120, top));
    });
    fill(this.#axis, [top, top / 2, 0].map((value) => h("span", {}, this.format(value))));
    const length = lines[0]?.values.length ?? 0;
    const end = start + length * step;
    const text = length * step > 90000 ? when : clock;
    const ticks = [start, (start + end) / 2, end].map((at) => h("span", {}, text(at).replace(/:\d\d$/, "")));
    fill(this.#times, ticks);
    this.#svg.setAttribute(
      "aria-label",
      `${this.label}: ${lines.map((line) => `${line.name} ${inWords(line.values, this.format)}`).join("; ")}`,
    );
    this.#read(this.#pointed);
  }

  /** @param {Line[]} lines */
  #prepare(lines) {
    this.#paths.forEach((path) => path.remove());
    this.#paths = lines.map((_, at) => s("path", { class: `line line-${at}` }));
    this.#paths.forEach((path) => this.#svg.append(path));
    this.#readings = lines.map(() => h("b", {}));
    fill(
      this.#legend,
      lines.map((line, at) => h("span", { class: `key key-${at}` }, `${line.name} `, this.#readings[at])),
      h("span", { class: "at" }),
    );
  }

  /** @param {PointerEvent} event */
  #point(event) {
    const box = this.#svg.getBoundingClientRect();
    const length = this.#lines[0]?.values.length ?? 0;
    const at = Math.round(((event.clientX - box.left) / box.width) * (length - 1));
    this.#read(Math.max(0, Math.min(length - 1, at)));
  }

  /** The values at a place; -1: the last ones. @param {number} at */
  #read(at) {
    this.#pointed = at;
    const length = this.#lines[0]?.values.length ?? 0;
    const place = at < 0 ? length - 1 : at;
    this.#lines.forEach((line, of) => {
      const reading = this.#readings[of];
      if (reading) setText(reading, this.format(line.values[place] ?? null));
    });
    const mark = this.#legend.querySelector(".at");
    if (mark) setText(mark, at < 0 ? "" : when(this.#start + place * this.#step));
    const x = length > 1 ? (place / (length - 1)) * 600 : 0;
    this.#cursor.setAttribute("d", at < 0 ? "" : `M${x.toFixed(1)} 0V120`);
  }
}

customElements.define("mh-spark", Spark);
customElements.define("mh-chart", Chart);
