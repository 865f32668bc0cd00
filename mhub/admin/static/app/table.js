// <mh-table>: a list of any length behind a cursor, of which only the rows that are in sight are in the page.
//
// Rows have one height. What was loaded stays in memory; the next page is loaded when its rows come near.
// Above and below the rows in sight stand two empty rows that are as high as all others. Rows that stay in
// sight keep their elements, so the focus stays where it is.

import { isAbort, said } from "./api.js";
import { button, fill, h, setText } from "./dom.js";
import { count } from "./format.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {(item: T) => Child} cell
 * @property {string} [sort] the field by which the broker sorts
 * @property {boolean} [falls] the first click sorts from the highest down
 * @property {boolean} [numeric]
 * @property {"huge" | "wide" | "middle"} [only] it is left out where there is less room
 * @property {string} [class]
 */

/**
 * @template T
 * @typedef {object} PageOf
 * @property {T[]} items
 * @property {string} next the cursor, or ""
 * @property {string} [summary] what is said of all of them
 * @property {string[]} [missing] nodes that did not answer
 */

/**
 * @template T
 * @typedef {object} Setup
 * @property {string} label
 * @property {Array<Column<T>>} columns
 * @property {(item: T) => string} key
 * @property {(cursor: string, sort: string, signal: AbortSignal) => Promise<PageOf<T>>} load
 * @property {string} [sort]
 * @property {string} [empty] what is said of none
 * @property {(sort: string) => void} [onSort]
 */

const EXTRA = 8; // rows beyond those in sight
const NEAR = 30; // the next page is loaded when so many are left
const MOST = 20_000; // rows in memory: whoever needs more should search

/** @template T */
export class Table extends HTMLElement {
  /** @type {Setup<T> | null} */
  #setup = null;
  /** @type {T[]} */
  #items = [];
  /** @type {Map<string, { row: HTMLTableRowElement, item: T }>} */
  #rows = new Map();
  #next = "";
  #sort = "";
  #isLoading = false;
  #rowHeight = 33;
  #abort = new AbortController();
  #head = h("tr");
  #above = h("tr", { class: "space", "aria-hidden": "true" });
  #below = h("tr", { class: "space", "aria-hidden": "true" });
  #body = h("tbody", {}, this.#above, this.#below);
  #caption = h("caption", { class: "sr" });
  #table = h("table", {}, this.#caption, h("thead", {}, this.#head), this.#body);
  #scroll = h("div", { class: "scroll", tabindex: "0", role: "region" }, this.#table);
  #status = h("p", { class: "status", role: "status", "aria-live": "polite" });
  #pages = 0;

  connectedCallback() {
    if (this.#scroll.isConnected) return;
    this.append(this.#scroll, this.#status);
    this.#scroll.addEventListener("scroll", () => this.#render(), { passive: true });
    this.#watcher.observe(this.#scroll);
  }

  disconnectedCallback() {
    this.#abort.abort(new DOMException("the table has gone", "AbortError"));
    this.#watcher.disconnect();
  }

  #watcher = new ResizeObserver(() => this.#render());

  /** @param {Setup<T>} setup */
  setup(setup) {
    this.#setup = setup;
    this.#sort = setup.sort ?? "";
    setText(this.#caption, setup.label);
    this.#scroll.setAttribute("aria-label", setup.label);
    this.#drawHead();
  }

  /** Whether it shows its beginning, and nothing but one page was loaded: then it may be refreshed. */
  get isAtTop() {
    return this.#pages <= 1 && this.#scroll.scrollTop < this.#rowHeight && !this.#isLoading;
  }

  get items() {
    return this.#items;
  }

  /** From the beginning. @param {boolean} [quietly] what is there stays until the answer is */
  async reload(quietly = false) {
    this.#abort.abort(new DOMException("another list is wanted", "AbortError"));
    this.#abort = new AbortController();
    this.#isLoading = false;
    if (!quietly) {
      this.#items = [];
      this.#next = "";
      this.#pages = 0;
      this.#scroll.scrollTop = 0;
      this.#render();
    }
    await this.#load(true);
  }

  /** @param {boolean} isFirst */
  async #load(isFirst) {
    const setup = this.#setup;
    if (!setup || this.#isLoading || (!isFirst && !this.#next)) return;
    this.#isLoading = true;
    this.dataset.loading = "";
    const { signal } = this.#abort;
    try {
      const page = await setup.load(isFirst ? "" : this.#next, this.#sort, signal);
      if (signal.aborted) return;
      this.#items = isFirst ? page.items : [...this.#items, ...page.items];
      this.#next = this.#items.length < MOST ? page.next : "";
      this.#pages = isFirst ? 1 : this.#pages + 1;
      this.#say(page);
      this.#isLoading = false;
      this.#render();
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      this.#isLoading = false;
      fill(
        this.#status,
        h("span", { class: "problem" }, said(error)),
        " ",
        button("Try again", { onclick: () => void this.#load(isFirst) }),
      );
    } finally {
      if (!signal.aborted) delete this.dataset.loading;
    }
  }

  /** @param {PageOf<T>} page */
  #say(page) {
    if (!this.#items.length) {
      setText(this.#status, this.#setup?.empty ?? "There are none.");
      return;
    }
    const many = this.#items.length >= MOST ? " Search to see others." : "";
    const missing = page.missing?.length ? ` No answer from ${page.missing.join(", ")}.` : "";
    const summary = page.summary ?? `${count(this.#items.length)} ${this.#next ? "so far, there are more" : "in all"}.`;
    setText(this.#status, `${summary}${many}${missing}`);
  }

  #drawHead() {
    const setup = this.#setup;
    if (!setup) return;
    fill(
      this.#head,
      setup.columns.map((column) => {
        const isUp = column.sort !== undefined && this.#sort === column.sort;
        const isDown = column.sort !== undefined && this.#sort === `-${column.sort}`;
        const sorted = isUp ? "ascending" : isDown ? "descending" : null;
        return h(
          "th",
          { scope: "col", class: classOf(column), "aria-sort": sorted },
          column.sort === undefined
            ? column.title || h("span", { class: "sr" }, "Actions")
            : button(column.title, { class: "sort", onclick: () => this.#sortBy(column, isUp, isDown) }),
        );
      }),
    );
  }

  /** @param {Column<T>} column @param {boolean} isUp @param {boolean} isDown */
  #sortBy(column, isUp, isDown) {
    const down = isDown ? false : isUp ? true : column.falls === true;
    this.#sort = `${down ? "-" : ""}${column.sort}`;
    const title = column.title;
    this.#drawHead();
    this.#setup?.onSort?.(this.#sort);
    for (const each of this.#head.querySelectorAll("button")) if (each.textContent === title) each.focus();
    void this.reload();
  }

  #render() {
    const setup = this.#setup;
    if (!setup) return;
    const height = this.#scroll.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.#scroll.scrollTop / this.#rowHeight) - EXTRA);
    const last = Math.min(this.#items.length, first + Math.ceil(height / this.#rowHeight) + 2 * EXTRA);
    const shown = new Map();
    for (let at = first; at < last; at += 1) {
      const item = /** @type {T} */ (this.#items[at]);
      const key = setup.key(item);
      if (!shown.has(key)) shown.set(key, { item, at }); // It is on two pages if it changed its place meanwhile.
    }
    // Before others come: an element that has to be moved would lose the focus.
    for (const [key, { row }] of this.#rows) {
      if (shown.has(key)) continue;
      row.remove();
      this.#rows.delete(key);
    }
    /** @type {HTMLTableRowElement | null} */
    let before = null;
    for (const [key, { item, at }] of shown) {
      let known = this.#rows.get(key);
      if (!known) {
        known = { row: h("tr"), item };
        this.#rows.set(key, known);
        this.#drawRow(known.row, item);
      } else if (known.item !== item) {
        known.item = item;
        this.#redraw(known.row, item);
      }
      known.row.setAttribute("aria-rowindex", String(at + 2));
      const place = /** @type {ChildNode | null} */ (before ? before.nextSibling : this.#above.nextSibling);
      if (place !== known.row) this.#body.insertBefore(known.row, place);
      before = known.row;
    }
    if (before && before.offsetHeight > 10) this.#rowHeight = before.offsetHeight;
    this.#above.style.height = `${first * this.#rowHeight}px`;
    this.#below.style.height = `${Math.max(0, this.#items.length - last) * this.#rowHeight}px`;
    this.#table.setAttribute("aria-rowcount", this.#next ? "-1" : String(this.#items.length + 1));
    if (this.#next && last + NEAR > this.#items.length) void this.#load(false);
  }

  /** @param {HTMLTableRowElement} row @param {T} item */
  #drawRow(row, item) {
    fill(row, this.#setup?.columns.map((column) => h("td", { class: classOf(column) }, column.cell(item))) ?? []);
  }

  /** Cells that look the same stay, and with them the focus. @param {HTMLTableRowElement} row @param {T} item */
  #redraw(row, item) {
    this.#setup?.columns.forEach((column, at) => {
      const made = h("td", { class: classOf(column) }, column.cell(item));
      const old = row.children[at];
      if (old && !old.isEqualNode(made)) {
        const hadFocus = old.contains(document.activeElement);
        old.replaceWith(made);
        if (hadFocus) made.querySelector("a")?.focus();
      }
    });
  }
}

/** @param {Column<any>} column */
function classOf(column) {
  return [column.numeric ? "num" : "", column.only ? `only-${column.only}` : "", column.class ?? ""].join(" ").trim() || null;
}

customElements.define("mh-table", Table);

/** @template T @param {Setup<T>} setup @returns {Table<T>} */
export function table(setup) {
  const made = /** @type {Table<T>} */ (document.createElement("mh-table"));
  made.setup(setup);
  return made;
}
