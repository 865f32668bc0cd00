// Parts of a page, each with an address of its own.

import { h } from "./dom.js";
import { link } from "./router.js";

/**
 * @param {string} label
 * @param {string} page
 * @param {Array<[name: string, title: string]>} parts
 * @param {string} current
 */
export function tabs(label, page, parts, current) {
  const made = h(
    "nav",
    { class: "tabs", "aria-label": label },
    parts.map(([name, title]) => h("a", { href: link(`${page}/${name}`), "aria-current": name === current ? "page" : null }, title)),
  );
  // On a phone the tab of this page may be out of sight.
  requestAnimationFrame(() => made.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }));
  return made;
}
