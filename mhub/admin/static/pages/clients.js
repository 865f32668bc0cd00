// All clients of the cluster: search, sort, and a way to each of them.

import { get } from "../app/api.js";
import { badge, button, checkbox, field, fill, h, select } from "../app/dom.js";
import { bytes, count, duration, rate } from "../app/format.js";
import { link, note } from "../app/router.js";
import { table } from "../app/table.js";

/** @typedef {import("../types").ClientSummary} Client */

const PAGE = 200;
const REFRESH_MS = 3000;
const TYPING_MS = 250;

/** What somebody types is looked for anywhere, unless it has wildcards of its own. @param {string} text */
export function pattern(text) {
  const plain = text.trim();
  return plain === "" || /[*?]/.test(plain) ? plain : `*${plain}*`;
}

/** @param {string} state */
export function stateBadge(state) {
  return badge(state === "connected" ? "ok" : state === "offline" ? "off" : "warn", state);
}

/** @param {HTMLElement} root @param {import("../types").PageContext} context */
export function mount(root, { query, signal }) {
  const match = h("input", { type: "search", ".value": query.get("match") ?? "", placeholder: "part of it, or a pattern with * and ?", autocomplete: "off", spellcheck: "false" });
  const user = h("input", { type: "search", ".value": query.get("user") ?? "", placeholder: "exactly", autocomplete: "off" });
  const state = select([["", "any"], ["connected", "connected"], ["offline", "offline"]]);
  state.value = query.get("state") ?? "";
  const isLive = h("input", { checked: true });
  let sort = query.get("sort") ?? "client_id";

  const list = table({
    label: "Clients",
    sort,
    key: (/** @type {Client} */ client) => `${client.node}/${client.client_id}`,
    empty: "No client fits.",
    onSort: (wanted) => {
      sort = wanted;
      remember();
    },
    columns: [
      { title: "Client id", sort: "client_id", class: "mono", cell: (one) => h("a", { href: link("client", { id: one.client_id }), title: one.client_id }, one.client_id || "(empty)") },
      { title: "State", class: "col-small", cell: (one) => stateBadge(one.state) },
      { title: "User", class: "col-user", only: "middle", cell: (one) => one.user || (one.claimed_user ? h("span", { class: "soft", title: "The client says so; nothing has proved it." }, `${one.claimed_user}?`) : "") },
      { title: "Address", class: "col-address", only: "wide", cell: (one) => one.address },
      { title: "Node", class: "col-small col-node", only: "wide", cell: (one) => one.node },
      { title: "Connected", sort: "connected_at", falls: true, class: "col-small", numeric: true, only: "middle", cell: (one) => (one.connected_s === null ? "" : duration(one.connected_s)) },
      { title: "In", sort: "messages_in_per_s", falls: true, class: "col-tiny", numeric: true, cell: (one) => rate(one.messages_in_per_s) },
      { title: "Out", sort: "messages_out_per_s", falls: true, class: "col-tiny", numeric: true, cell: (one) => rate(one.messages_out_per_s) },
      { title: "Subs", sort: "subscriptions", falls: true, class: "col-tiny", numeric: true, only: "middle", cell: (one) => count(one.subscriptions) },
      { title: "Queued", sort: "queued", falls: true, class: "col-tiny", numeric: true, only: "middle", cell: (one) => h("span", { title: bytes(one.queued_bytes) }, count(one.queued)) },
      { title: "In flight", sort: "inflight", falls: true, class: "col-small", numeric: true, only: "huge", cell: (one) => count(one.inflight) },
    ],
    load: async (cursor, order, abort) => {
      const found = await get(
        "/clients",
        { match: pattern(match.value), user: user.value.trim(), state: state.value, sort: order, limit: PAGE, cursor },
        abort,
      );
      list.classList.toggle("no-node", !found.clients.some((/** @type {Client} */ one) => one.node));
      return {
        items: found.clients,
        next: found.next,
        missing: found.missing,
        summary: `${count(found.sessions)} sessions in all.${found.next ? ` ${count(found.left)} more fit.` : ""}`,
      };
    },
  });

  const remember = () => note({ match: match.value, user: user.value, state: state.value, sort: sort === "client_id" ? "" : sort });
  let typing = 0;
  const search = () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      remember();
      void list.reload();
    }, TYPING_MS);
  };
  for (const each of [match, user, state]) each.addEventListener("input", search);

  fill(
    root,
    h("h1", { tabindex: "-1" }, "Clients"),
    h(
      "form",
      { class: "tools", role: "search", "aria-label": "Clients", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
      wide(field("Client id", match)),
      field("User", user),
      field("State", state),
      checkbox("Live", isLive),
      button("Refresh", { onclick: () => void list.reload() }),
    ),
    list,
  );
  const timer = setInterval(() => {
    if (isLive.checked && list.isAtTop && !document.hidden) void list.reload(true);
  }, REFRESH_MS);
  signal.addEventListener("abort", () => {
    clearInterval(timer);
    clearTimeout(typing);
  });
  void list.reload();
}

/** @param {HTMLElement} element */
export function wide(element) {
  element.classList.add("wide");
  return element;
}
