// Elements, made from text that may be hostile: all of it becomes text nodes or plain attributes.
// Nothing in the dashboard parses HTML, and no attribute here takes a script or a style.

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */

/**
 * An element. `on…` are listeners, `class`, `data-…`, `aria-…` and others are attributes (false, null and
 * undefined leave one out), and what begins with a dot is a property: `{".value": text}`.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any> | null} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes, ...children) {
  const made = document.createElement(tag);
  apply(made, attributes ?? {});
  append(made, children);
  return made;
}

/**
 * The same for SVG.
 *
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  apply(made, attributes ?? {});
  append(made, children);
  return made;
}

/** @param {Element} element @param {Record<string, any>} attributes */
function apply(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith(".")) /** @type {any} */ (element)[name.slice(1)] = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {Node} parent @param {Child[]} children */
function append(parent, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child instanceof Node) parent.appendChild(child);
    else if (child !== null && child !== undefined && child !== false) {
      parent.appendChild(document.createTextNode(String(child)));
    }
  }
}

/** @param {Element} parent @param {...Child} children */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/**
 * The same, for what is drawn again and again: elements that differ in text and attributes alone stay, and with them
 * the focus, what is selected, and how far a table is scrolled. What has listeners is replaced where it differs.
 *
 * @param {Element} parent @param {...Child} children
 */
export function renew(parent, ...children) {
  const made = h("div");
  append(made, children);
  follow(parent, made);
}

/** @param {Element} old @param {Element} made whose children go over to it */
function follow(old, made) {
  const wanted = [...made.childNodes];
  for (const [at, one] of wanted.entries()) {
    const there = old.childNodes[at];
    if (!there) old.appendChild(one);
    else if (there.isEqualNode(one)) continue;
    else if (there instanceof Text && one instanceof Text) there.data = one.data;
    else if (there instanceof Element && one instanceof Element && mayFollow(there, one)) {
      for (const name of there.getAttributeNames()) if (!one.hasAttribute(name)) there.removeAttribute(name);
      for (const name of one.getAttributeNames()) there.setAttribute(name, one.getAttribute(name) ?? "");
      follow(there, one);
    } else there.replaceWith(one);
  }
  while (old.childNodes.length > wanted.length) old.lastChild?.remove();
}

/** @param {Element} there @param {Element} one */
function mayFollow(there, one) {
  return there.tagName === one.tagName && !there.matches("button, input, select, textarea, details");
}

/** Set the text of an element, if it is another one: what a screen reader announces is changes.
 * @param {Element} element @param {unknown} text */
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

let counter = 0;
/** @param {string} prefix */
export function uniqueId(prefix) {
  counter += 1;
  return `${prefix}-${counter}`;
}

/**
 * A labelled field of a form.
 *
 * @param {string} label
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} control
 * @param {string} [hint]
 */
export function field(label, control, hint) {
  control.id ||= uniqueId("field");
  const hintId = `${control.id}-hint`;
  if (hint) control.setAttribute("aria-describedby", hintId);
  return h(
    "div",
    { class: "field" },
    h("label", { for: control.id }, label),
    control,
    hint ? h("p", { class: "hint", id: hintId }, hint) : null,
  );
}

/** @param {string} label @param {HTMLInputElement} box */
export function checkbox(label, box) {
  box.type = "checkbox";
  return h("label", { class: "check" }, box, " ", label);
}

/**
 * @param {Array<[value: string, label: string]>} choices
 * @param {Record<string, any>} [attributes]
 */
export function select(choices, attributes) {
  const made = h("select", attributes ?? {});
  for (const [value, label] of choices) made.append(h("option", { value }, label));
  return made;
}

/** @param {string} text @param {Record<string, any>} [attributes] */
export function button(text, attributes) {
  return h("button", { type: "button", ...attributes }, text);
}

/**
 * A card: a part of a page with a heading of its own.
 *
 * @param {string} title
 * @param {...Child} children
 */
export function card(title, ...children) {
  const id = uniqueId("card");
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), children);
}

/**
 * Pairs of a term and its value.
 *
 * @param {Array<[term: string, value: Child]>} pairs
 */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))),
  );
}

/**
 * A plain table, for lists that are short.
 *
 * @param {string} caption that screen readers say
 * @param {string[]} heads
 * @param {Child[][]} rows
 * @param {{ numeric?: number[], empty?: string }} [options]
 */
export function plainTable(caption, heads, rows, options) {
  const numeric = new Set(options?.numeric ?? []);
  if (!rows.length && options?.empty) return h("p", { class: "empty" }, options.empty);
  return h(
    "div",
    { class: "scroll-x", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      { class: "plain" },
      h("caption", { class: "sr" }, caption),
      h(
        "thead",
        {},
        h("tr", {}, heads.map((head, at) => h("th", { scope: "col", class: numeric.has(at) ? "num" : null }, head || h("span", { class: "sr" }, "Actions")))),
      ),
      h(
        "tbody",
        {},
        rows.map((row) => h("tr", {}, row.map((cell, at) => h("td", { class: numeric.has(at) ? "num" : null }, cell)))),
      ),
    ),
  );
}

/** @param {"ok" | "warn" | "bad" | "off"} kind @param {string} text */
export function badge(kind, text) {
  return h("span", { class: `badge ${kind}` }, text);
}
