// <mh-tree>: levels of topics, loaded when they are opened, with arrow keys as the ARIA practices for a tree have them.
//
// A level that is open is read again from time to time: nodes that are still there keep their elements, their
// openness and the focus.

import { h, setText, uniqueId } from "./dom.js";

/**
 * @typedef {object} Level
 * @property {string} name
 * @property {string} prefix what to ask with for the levels below it
 * @property {boolean} hasBelow
 * @property {string} note on the right
 * @property {boolean} [isBusy]
 * @property {string} [mark] a word behind the name
 * @property {any} data
 */

/**
 * @typedef {object} Branch
 * @property {Level} level
 * @property {HTMLLIElement} item
 * @property {HTMLElement} label
 * @property {HTMLElement} mark
 * @property {HTMLElement} note
 * @property {HTMLUListElement | null} list
 * @property {Map<string, Branch>} below
 * @property {boolean} isOpen
 */

export class Tree extends HTMLElement {
  /** @type {(prefix: string | null) => Promise<{ levels: Level[], more: boolean }>} */
  load = async () => ({ levels: [], more: false });

  /** @type {(level: Level) => void} */
  onSelect = () => {};

  empty = "There is nothing yet.";

  #list = h("ul", { class: "tree", role: "tree" });
  /** @type {Map<string, Branch>} */
  #roots = new Map();
  /** @type {Branch | null} */
  #selected = null;
  #note = h("p", { class: "empty" });

  connectedCallback() {
    if (this.#list.isConnected) return;
    this.#list.setAttribute("aria-label", this.getAttribute("aria-label") ?? "Tree");
    this.append(this.#list, this.#note);
    this.#list.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Read all levels again that are open. */
  async refresh() {
    await this.#fill(null, this.#roots, this.#list);
    setText(this.#note, this.#roots.size ? "" : this.empty);
  }

  /** Open the way to a topic, as far as there is one. @param {string[]} names */
  async reveal(names) {
    let below = this.#roots;
    for (const name of names) {
      const branch = below.get(name);
      if (!branch) return;
      if (name === names[names.length - 1]) this.#select(branch);
      else if (branch.level.hasBelow) await this.#open(branch);
      below = branch.below;
    }
  }

  /** @param {string | null} prefix @param {Map<string, Branch>} known @param {HTMLUListElement} list */
  async #fill(prefix, known, list) {
    const { levels, more } = await this.load(prefix);
    const wanted = new Set(levels.map((level) => level.name));
    for (const [name, branch] of known) {
      if (wanted.has(name)) continue;
      branch.item.remove();
      known.delete(name);
    }
    /** @type {Element | null} */
    let before = null;
    for (const level of levels) {
      let branch = known.get(level.name);
      if (!branch) {
        branch = this.#make(level);
        known.set(level.name, branch);
      }
      this.#update(branch, level);
      const place = /** @type {Node | null} */ (before ? before.nextSibling : list.firstChild);
      if (place !== branch.item) list.insertBefore(branch.item, place);
      before = branch.item;
    }
    list.querySelector(":scope > .more")?.remove();
    if (more) list.append(h("li", { class: "more soft", role: "none" }, "… and more: search for them"));
    if (!this.#list.querySelector('[tabindex="0"]')) this.#list.querySelector("[role=treeitem]")?.setAttribute("tabindex", "0");
    await Promise.all([...known.values()].filter((each) => each.isOpen && each.list).map((each) => this.#fill(each.level.prefix, each.below, /** @type {HTMLUListElement} */ (each.list))));
  }

  /** @param {Level} level @returns {Branch} */
  #make(level) {
    const label = h("span", { class: "label" });
    const mark = h("span");
    const note = h("span", { class: "rate" });
    const id = uniqueId("topic");
    label.id = id;
    const item = h("li", { role: "treeitem", tabindex: "-1", "aria-labelledby": id, "aria-selected": "false" }, h("div", { class: "item" }, h("span", { class: "mark", "aria-hidden": "true" }), label, mark, note));
    /** @type {Branch} */
    const branch = { level, item, label, mark, note, list: null, below: new Map(), isOpen: false };
    item.firstElementChild?.addEventListener("click", (event) => {
      const isMark = event.target instanceof Element && event.target.classList.contains("mark");
      if (!isMark) this.#select(branch);
      if (isMark || (branch.level.hasBelow && !branch.isOpen)) void (branch.isOpen ? this.#close(branch) : this.#open(branch));
    });
    this.#branches.set(item, branch);
    return branch;
  }

  /** @type {WeakMap<Element, Branch>} */
  #branches = new WeakMap();

  /** @param {Branch} branch @param {Level} level */
  #update(branch, level) {
    branch.level = level;
    setText(branch.label, level.name === "" ? "(empty)" : level.name);
    branch.label.title = level.name;
    setText(branch.note, level.note);
    branch.note.className = level.isBusy ? "rate busy" : "rate";
    setText(branch.mark, level.mark ?? "");
    branch.mark.className = level.mark ? "badge" : "";
    if (level.hasBelow) branch.item.setAttribute("aria-expanded", String(branch.isOpen));
    else branch.item.removeAttribute("aria-expanded");
  }

  /** @param {Branch} branch */
  async #open(branch) {
    if (branch.isOpen || !branch.level.hasBelow) return;
    branch.isOpen = true;
    branch.item.setAttribute("aria-expanded", "true");
    branch.list ??= h("ul", { role: "group" });
    branch.item.append(branch.list);
    await this.#fill(branch.level.prefix, branch.below, branch.list);
  }

  /** @param {Branch} branch */
  #close(branch) {
    branch.isOpen = false;
    branch.item.setAttribute("aria-expanded", "false");
    branch.list?.remove();
  }

  /** @param {Branch} branch */
  #select(branch) {
    this.#selected?.item.setAttribute("aria-selected", "false");
    this.#selected = branch;
    branch.item.setAttribute("aria-selected", "true");
    this.#focus(branch.item);
    this.onSelect(branch.level);
  }

  /** @param {Element} item */
  #focus(item) {
    this.#list.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    item.setAttribute("tabindex", "0");
    /** @type {HTMLElement} */ (item).focus({ preventScroll: true });
    item.firstElementChild?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const item = event.target instanceof Element ? event.target.closest("[role=treeitem]") : null;
    const branch = item && this.#branches.get(item);
    if (!item || !branch) return;
    const items = [...this.#list.querySelectorAll("[role=treeitem]")];
    const at = items.indexOf(item);
    const parent = item.parentElement?.closest("[role=treeitem]");
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowDown: () => items[at + 1] && this.#focus(/** @type {Element} */ (items[at + 1])),
      ArrowUp: () => items[at - 1] && this.#focus(/** @type {Element} */ (items[at - 1])),
      Home: () => items[0] && this.#focus(items[0]),
      End: () => items.length && this.#focus(/** @type {Element} */ (items[items.length - 1])),
      ArrowRight: () => {
        if (branch.level.hasBelow && !branch.isOpen) void this.#open(branch);
        else if (branch.isOpen && items[at + 1]) this.#focus(/** @type {Element} */ (items[at + 1]));
      },
      ArrowLeft: () => {
        if (branch.isOpen) this.#close(branch);
        else if (parent) this.#focus(parent);
      },
      Enter: () => this.#select(branch),
      " ": () => this.#select(branch),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}

customElements.define("mh-tree", Tree);
