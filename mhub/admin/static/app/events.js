// What happened lately: connections, denials, changes, faults. Read again when the live numbers say that
// there is something new.

import { get, isAbort } from "./api.js";
import { h } from "./dom.js";
import { clock, when } from "./format.js";
import { link } from "./router.js";
import { session } from "./session.js";

const SHOWN = 40;
const KEPT_MS = 1000; // not more than one request in this time

/** @typedef {Record<string, any>} Entry */

/** @param {AbortSignal} signal @param {Record<string, string>} [query] */
export function eventList(signal, query) {
  const body = h("tbody");
  const element = h(
    "div",
    { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Recent events" },
    h(
      "table",
      { class: "plain events" },
      h("caption", { class: "sr" }, "Recent events, the newest first"),
      h(
        "thead",
        {},
        h("tr", {}, ["Time", "Event", "Client", "User", "What"].map((title) => h("th", { scope: "col" }, title))),
      ),
      body,
    ),
  );
  let seen = -1;
  let askedAt = 0;
  let isAsking = false;

  /** Those that were there keep their row, and with it the focus. @type {Map<string, HTMLTableRowElement>} */
  let rows = new Map();

  /** @param {Entry[]} entries the newest first */
  const show = (entries) => {
    const before = rows;
    rows = new Map(entries.map((entry) => [JSON.stringify(entry), before.get(JSON.stringify(entry)) ?? rowOf(entry)]));
    const wanted = rows.size ? [...rows.values()] : [h("tr", {}, h("td", { colspan: "5", class: "empty" }, "Nothing yet."))];
    for (const row of [...body.children]) if (!wanted.includes(/** @type {any} */ (row))) row.remove();
    wanted.forEach((row, at) => body.children[at] !== row && body.insertBefore(row, body.children[at] ?? null));
  };

  /** @param {number} last the newest there is */
  const isAt = async (last) => {
    if (last === seen || isAsking || Date.now() - askedAt < KEPT_MS) return;
    isAsking = true;
    askedAt = Date.now();
    try {
      const found = await get("/events", { limit: SHOWN, ...query }, signal);
      seen = last;
      show([...found.events].reverse());
    } catch (error) {
      if (!isAbort(error)) seen = -1; // The next tick asks again.
    } finally {
      isAsking = false;
    }
  };
  return { element, isAt: (/** @type {number} */ last) => void isAt(last) };
}

/** @param {Entry} entry */
function rowOf(entry) {
  const id = entry["client_id"];
  const client = id && session.may("read", "clients") ? h("a", { href: link("client", { id }) }, id) : id;
  return h(
    "tr",
    { class: `event-${entry["kind"]}` },
    h("td", { title: when(entry["time"]) }, clock(entry["time"])),
    h("td", {}, String(entry["kind"]).replaceAll("_", " ")),
    h("td", { class: "who-id", title: id || null }, client),
    h("td", {}, entry["user"] || (entry["claimed_user"] ? `${entry["claimed_user"]} (claimed)` : "")),
    h("td", {}, textOf(entry)),
  );
}

/** @param {Entry} entry */
function textOf(entry) {
  const parts = [
    entry["cause"],
    entry["topic"],
    entry["rule"] ? `rule: ${entry["rule"]}` : "",
    entry["text"],
    entry["count"] > 1 ? `${entry["count"]} times` : "",
    entry["by"] ? `by ${entry["by"]}` : "",
    entry["node"] ? `node ${entry["node"]}` : "",
    entry["address"],
  ];
  return parts.filter(Boolean).join(" · ");
}
