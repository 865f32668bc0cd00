// All subscriptions, the shared groups, and who would get a message.

import { get, isAbort, said } from "../app/api.js";
import { badge, button, field, fill, h, plainTable, select } from "../app/dom.js";
import { count } from "../app/format.js";
import { link, note } from "../app/router.js";
import { session } from "../app/session.js";
import { table } from "../app/table.js";
import { tabs } from "../app/tabs.js";
import { pattern, wide } from "./clients.js";

/** @typedef {import("../types").PageContext} PageContext */

/** @type {Array<[string, string]>} */
const PARTS = [["all", "Subscriptions"], ["groups", "Shared groups"], ["routes", "Who gets a topic"]];
const TYPING_MS = 250;

/** @param {HTMLElement} root @param {PageContext} context */
export async function mount(root, context) {
  const part = context.path[0] ?? "all";
  const body = h("div");
  fill(root, h("h1", { tabindex: "-1" }, "Subscriptions"), tabs("Subscriptions", "subscriptions", PARTS, part), body);
  if (part === "groups") showGroups(body);
  else if (part === "routes") await showRoutes(body, context);
  else showAll(body, context);
}

/** Without a cluster there are no nodes to name. @param {HTMLElement} list @param {any[]} items */
function hideNode(list, items) {
  list.classList.toggle("no-node", !items.some((one) => one.node));
}

/** @param {string} id */
function clientLink(id) {
  return session.may("read", "clients") ? h("a", { href: link("client", { id }), title: id }, id) : id;
}

/** @param {HTMLElement} body @param {PageContext} context */
function showAll(body, { query, signal }) {
  const match = h("input", { type: "search", class: "mono", ".value": query.get("match") ?? "", placeholder: "part of it, or a pattern with * and ?", spellcheck: "false" });
  const client = h("input", { type: "search", ".value": query.get("client_id") ?? "", placeholder: "exactly" });
  const kind = select([["", "all"], ["plain", "not shared"], ["shared", "shared"]]);
  kind.value = query.get("kind") ?? "";
  const list = table({
    label: "Subscriptions",
    sort: "filter",
    key: (/** @type {any} */ one) => JSON.stringify([one.node, one.filter, one.group, one.client_id]),
    empty: "No subscription fits.",
    columns: [
      { title: "Filter", sort: "filter", class: "col-big mono", cell: (one) => h("span", { title: one.name }, one.filter) },
      { title: "Group", class: "col-mid", only: "middle", cell: (one) => one.group },
      { title: "Client", sort: "client_id", class: "col-big", cell: (one) => clientLink(one.client_id) },
      { title: "QoS", class: "col-tiny", numeric: true, cell: (one) => one.qos },
      { title: "Client is", class: "col-small", only: "middle", cell: (one) => badge(one.connected ? "ok" : "off", one.connected ? "connected" : "offline") },
      { title: "Node", class: "col-small col-node", only: "wide", cell: (one) => one.node },
      { title: "Options", class: "col-mid", only: "wide", cell: (one) => [one.no_local ? "no local" : "", one.retain_as_published ? "retain as published" : ""].filter(Boolean).join(", ") },
    ],
    load: async (cursor, sort, abort) => {
      const found = await get("/subscriptions", { match: pattern(match.value), client_id: client.value.trim(), kind: kind.value, sort, cursor, limit: 200 }, abort);
      hideNode(list, found.subscriptions);
      return { items: found.subscriptions, next: found.next, missing: found.missing, summary: `${count(found.total)} subscriptions in all.${found.next ? ` ${count(found.left)} more fit.` : ""}` };
    },
  });
  let typing = 0;
  for (const each of [match, client, kind]) {
    each.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        note({ match: match.value, client_id: client.value, kind: kind.value });
        void list.reload();
      }, TYPING_MS);
    });
  }
  signal.addEventListener("abort", () => clearTimeout(typing));
  fill(
    body,
    h("form", { class: "tools", role: "search", "aria-label": "Subscriptions", onsubmit: (/** @type {Event} */ event) => event.preventDefault() }, wide(field("Topic filter", match)), wide(field("Client id", client)), field("Kind", kind), button("Refresh", { onclick: () => void list.reload() })),
    list,
  );
  void list.reload();
}

/** @param {HTMLElement} body */
function showGroups(body) {
  const list = table({
    label: "Shared groups",
    key: (/** @type {any} */ one) => JSON.stringify([one.node, one.group, one.filter]),
    empty: "There are no shared subscriptions.",
    columns: [
      { title: "Group", class: "col-mid", cell: (one) => one.group },
      { title: "Filter", class: "col-big mono", cell: (one) => h("span", { title: one.filter }, one.filter) },
      { title: "Members", class: "col-small", numeric: true, cell: (one) => count(one.members) },
      { title: "Connected", class: "col-small", numeric: true, cell: (one) => count(one.connected) },
      { title: "Node", class: "col-small col-node", only: "middle", cell: (one) => one.node },
      { title: "Other nodes", class: "col-mid col-node", only: "wide", cell: (one) => Object.entries(one.nodes).map(([node, members]) => `${node}: ${members}`).join(", ") },
      { title: "First members", class: "col-big", only: "middle", cell: (one) => one.first_members.map((/** @type {any} */ each, /** @type {number} */ at) => [at ? ", " : "", clientLink(each.client_id)]) },
    ],
    load: async (cursor, _sort, abort) => {
      const found = await get("/groups", { cursor, limit: 200 }, abort);
      hideNode(list, found.groups);
      return { items: found.groups, next: found.next, missing: found.missing };
    },
  });
  fill(body, list);
  void list.reload();
}

/** @param {HTMLElement} body @param {PageContext} context */
async function showRoutes(body, { query, signal }) {
  const topic = h("input", { class: "mono", ".value": query.get("topic") ?? "", required: true, spellcheck: "false", placeholder: "plant/hall1/temperature" });
  const result = h("div", { role: "status" });
  const look = async () => {
    if (!topic.value) return;
    note({ topic: topic.value });
    try {
      fill(result, routesOf(await get("/routes", { topic: topic.value, limit: 200 }, signal)));
    } catch (error) {
      if (!isAbort(error)) fill(result, h("p", { class: "problem" }, said(error)));
    }
  };
  fill(
    body,
    h(
      "form",
      {
        class: "tools",
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          void look();
        },
      },
      wide(field("Topic", topic)),
      h("button", { class: "main", type: "submit" }, "Show"),
    ),
    h("div", { class: "card" }, h("p", { class: "hint" }, "Who would get a message with this topic, were it published now. A shared group gives it to one of its members."), result),
  );
  await look();
}

/** @param {any} found */
function routesOf(found) {
  const isCluster = [...found.targets, ...found.groups].some((one) => one.node);
  const node = (/** @type {any} */ one) => (isCluster ? [one.node] : []);
  const nodeHead = isCluster ? ["Node"] : [];
  return [
    plainTable(
      "Subscribers",
      ["Client", "QoS at most", "Filters", ...nodeHead, "Gets it"],
      found.targets.map((/** @type {any} */ each) => [
        clientLink(each.client_id),
        each.qos,
        h("span", { class: "mono" }, each.filters.join(", ")),
        ...node(each),
        each.allowed ? (each.connected ? badge("ok", "now") : badge("off", "when it comes back")) : badge("bad", "no: it may not receive it"),
      ]),
      { numeric: [1], empty: "No client subscribes to it." },
    ),
    found.groups.length
      ? [h("h3", {}, "Shared groups"), plainTable("Shared groups", ["Group", "Filter", "Members", "Connected", ...nodeHead], found.groups.map((/** @type {any} */ each) => [each.group, h("span", { class: "mono" }, each.filter), count(each.members), count(each.connected), ...node(each)]), { numeric: [2, 3] })]
      : null,
    found.missing.length ? h("p", { class: "problem" }, `No answer in time from ${found.missing.join(", ")}.`) : null,
    found.next ? h("p", { class: "hint" }, "There are more.") : null,
  ];
}
