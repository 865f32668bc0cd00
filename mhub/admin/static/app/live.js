// The numbers of each second, from one event stream, and the history that they continue.
//
//   idle --start()--> connecting --first event--> open --no event for SILENT_MS, or an error--> lost
//                          ^                                                                     |
//                          +--------------------- after a while, ever longer --------------------+
//
// Whoever shows numbers listens for "tick" (each second), "point" (a period of the history has ended) and
// "state".

import { address, get, isAbort } from "./api.js";
import { session } from "./session.js";

/** @typedef {import("../types").Live} LiveNumbers */
/** @typedef {import("../types").History} History */

const SILENT_MS = 6000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;

export class Live extends EventTarget {
  /** @type {"idle" | "connecting" | "open" | "lost"} */
  state = "idle";

  /** @type {LiveNumbers | null} */
  now = null;

  /** When the last event came. */
  heardAt = 0;

  /** The last hour of each series, oldest first. @type {Map<string, Array<number | null>>} */
  series = new Map();

  /** @type {EventSource | null} */
  #source = null;
  #timer = 0;
  #watchdog = 0;
  #waitMs = FIRST_WAIT_MS;
  #historyStart = 0;
  #step = 5;

  start() {
    if (this.state !== "idle") return;
    this.#connect();
    this.#watchdog = setInterval(() => this.#check(), 1000);
  }

  stop() {
    clearTimeout(this.#timer);
    clearInterval(this.#watchdog);
    this.#source?.close();
    this.#source = null;
    this.now = null;
    this.series.clear();
    this.#waitMs = FIRST_WAIT_MS;
    this.#set("idle");
  }

  /** The last values of a series, not more than `most`. @param {string} name @param {number} most */
  last(name, most) {
    const found = this.series.get(name) ?? [];
    return found.slice(Math.max(0, found.length - most));
  }

  #connect() {
    clearTimeout(this.#timer);
    this.#source?.close();
    if (this.state === "idle") this.#set("connecting");
    const source = new EventSource(address("/live"));
    this.#source = source;
    this.heardAt = Date.now();
    const take = (/** @type {MessageEvent} */ event) => {
      if (this.#source === source) this.#take(JSON.parse(event.data));
    };
    source.onmessage = take;
    source.addEventListener("live", take);
    source.onerror = () => {
      if (this.#source === source) this.#lost();
    };
  }

  /** @param {LiveNumbers} numbers */
  #take(numbers) {
    const wasOpen = this.state === "open";
    this.now = numbers;
    this.heardAt = Date.now();
    this.#waitMs = FIRST_WAIT_MS;
    if (!wasOpen) {
      this.#set("open");
      void this.#fill();
    }
    if (numbers.point) this.#add(numbers.point);
    this.dispatchEvent(new Event("tick"));
  }

  #check() {
    if (this.state === "open" && Date.now() - this.heardAt > SILENT_MS) this.#lost();
  }

  #lost() {
    this.#source?.close();
    this.#source = null;
    this.#set("lost");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#again(), this.#waitMs * (0.75 + Math.random() / 2));
    this.#waitMs = Math.min(this.#waitMs * 2, LONGEST_WAIT_MS);
  }

  /** An event stream does not say why it ends; a request does: a 401 leads to the login. */
  async #again() {
    try {
      const response = await fetch(address("/session"), { cache: "no-store" });
      if (this.state !== "lost") return;
      if (response.status === 401) session.lost();
      else if (response.ok) this.#connect();
      else this.#lost();
    } catch {
      if (this.state === "lost") this.#lost();
    }
  }

  /** After a gap also, so that the curves have what was missed. */
  async #fill() {
    try {
      /** @type {History} */
      const found = await get("/history", { span: "1h" });
      if (this.state === "idle") return;
      this.series.clear();
      for (const [name, values] of Object.entries(found.series)) this.series.set(name, [...values]);
      this.#historyStart = found.start;
      this.#step = found.step_s;
      this.dispatchEvent(new Event("point"));
    } catch (error) {
      if (!isAbort(error)) console.warn("no history:", error);
    }
  }

  /** @param {import("../types").HistoryPoint} point */
  #add(point) {
    if (!this.series.size || point.step_s !== this.#step) return;
    const first = this.series.values().next().value ?? [];
    const end = this.#historyStart + first.length * this.#step;
    const gap = Math.round((point.time - end) / this.#step);
    if (gap < 0) return; // The history has it already.
    if (gap > 60) {
      void this.#fill();
      return;
    }
    for (const [name, values] of this.series) {
      for (let at = 0; at < gap; at += 1) values.push(null);
      values.push(point.values[name] ?? null);
      values.splice(0, Math.max(0, values.length - 720));
    }
    this.#historyStart = point.time + this.#step - first.length * this.#step;
    this.dispatchEvent(new Event("point"));
  }

  /** @param {"idle" | "connecting" | "open" | "lost"} state */
  #set(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}

export const live = new Live();
