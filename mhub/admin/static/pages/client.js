// One client: what it is, has and does, and what can be done about it.

import { ApiError, call, get, isAbort, said } from "../app/api.js";
import { badge, button, card, facts, field, fill, h, plainTable, renew, setText } from "../app/dom.js";
import { ask, askAndCall } from "../app/dialog.js";
import { bytes, byteRate, count, duration, rate, when } from "../app/format.js";
import { live } from "../app/live.js";
import { go, link } from "../app/router.js";
import { session } from "../app/session.js";
import { traceView } from "../app/trace.js";
import { stateBadge } from "./clients.js";

const REFRESH_MS = 2000;

/** What a client is not served for; the words are those of the API. @type {Record<string, string>} */
const WAITS = {
  unread: "its own socket takes no more",
  deferred: "an answer that waits for the store",
  rate: "its rate limit",
};

/** @param {HTMLElement} root @param {import("../types").PageContext} context */
export async function mount(root, { query, signal }) {
  const id = query.get("id") ?? "";
  const head = h("div", { class: "tools" });
  const about = h("div");
  const subscriptions = h("div");
  const denials = h("div");
  const elsewhere = h("p", { class: "hint", role: "status", hidden: true });
  const trace = session.may("read", "trace") ? traceView({ client_id: id }, signal) : null;

  fill(
    root,
    h("p", {}, h("a", { href: link("clients") }, "← All clients")),
    h("h1", { tabindex: "-1", class: "mono wrap" }, id || "(empty client id)"),
    head,
    card("Client", about),
    card("Subscriptions", subscriptions),
    card("Last denials", denials),
    trace ? card("Trace", elsewhere, trace) : null,
  );

  let shown = "";
  let node = "";
  const sayWhere = () => {
    const here = live.now?.node ?? "";
    elsewhere.hidden = !node || !here || node === here;
    setText(elsewhere, elsewhere.hidden ? "" : `A trace sees the packets of this node, ${here}. The client is at node ${node}: trace it in the dashboard of that node.`);
  };
  live.addEventListener("tick", sayWhere, { signal });
  const refresh = async () => {
    try {
      const detail = await get("/client", { client_id: id }, signal);
      drawHead(head, id, detail);
      ({ node } = detail.client);
      sayWhere();
      renew(about, aboutOf(detail));
      const text = JSON.stringify([detail.subscriptions, detail.denials]);
      if (text !== shown) {
        shown = text;
        fill(subscriptions, subscriptionsOf(id, detail, refresh));
        fill(denials, denialsOf(detail));
      }
    } catch (error) {
      if (isAbort(error)) return;
      const gone = error instanceof ApiError && error.status === 404;
      head.dataset["state"] = "";
      fill(head, h("p", { class: "problem", role: "status" }, gone ? "There is no such client. It may come back." : said(error)));
    }
  };
  const timer = setInterval(() => !document.hidden && void refresh(), REFRESH_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  await refresh();
}

/** Only if the state is another one, so that a button does not go while it is being pressed.
 * @param {HTMLElement} head @param {string} id @param {any} detail */
function drawHead(head, id, detail) {
  const { client } = detail;
  const state = `${client.state} ${client.node}`;
  if (head.dataset["state"] === state) return;
  head.dataset["state"] = state;
  fill(head, stateBadge(client.state), client.node ? h("span", { class: "soft" }, `at node ${client.node}`) : null, h("span", { class: "grow" }), actions(id, client));
}

/** @param {string} id @param {any} client */
function actions(id, client) {
  if (!session.may("write", "clients")) return null;
  const isConnected = client.state === "connected";
  return h(
    "div",
    { class: "actions" },
    isConnected
      ? button("Disconnect", {
          class: "danger",
          onclick: () =>
            void askAndCall(
              { title: `Disconnect ${id}?`, text: "Its session stays, and it may connect again at once.", action: "Disconnect", danger: true, done: "The client was disconnected." },
              "POST",
              "/client/disconnect",
              { body: { client_id: id } },
            ),
        })
      : null,
    button("Delete session", {
      class: "danger",
      onclick: () =>
        void askAndCall(
          { title: `Delete the session of ${id}?`, text: "Its subscriptions and all messages that wait for it are gone then, and the client is disconnected.", action: "Delete", danger: true, done: "The session was deleted." },
          "DELETE",
          "/client/session",
          { query: { client_id: id } },
        ).then((done) => done && go("clients")),
    }),
  );
}

/** @param {any} detail */
function aboutOf(detail) {
  const { client } = detail;
  const isConnected = client.state === "connected";
  /** @type {Array<[string, import("../app/dom.js").Child]>} */
  const pairs = [
    ["User", userOf(client)],
    ["Address", client.address || "–"],
    ["Listener", client.listener || "–"],
    ["MQTT", client.version ?? "–"],
    ["Connected", isConnected ? `${when(client.connected_at)} (${duration(client.connected_s)})` : "no"],
    ["Keep alive", detail.keepalive_s === null ? "–" : duration(detail.keepalive_s)],
    ["Session expires", detail.expiry_s === null ? "never" : detail.expires_in_s !== null ? `in ${duration(detail.expires_in_s)}` : detail.expiry_s === 0 ? "with the connection" : `${duration(detail.expiry_s)} after the connection`],
    ["Messages in", `${rate(client.messages_in_per_s)}, ${byteRate(client.bytes_in_per_s)}`],
    ["Messages out", `${rate(client.messages_out_per_s)}, ${byteRate(client.bytes_out_per_s)}`],
    ["Since it has connected", `${count(client.messages_in)} in, ${count(client.messages_out)} out`],
    ["Queued", `${count(client.queued)}, ${bytes(client.queued_bytes)}`],
    ["In flight", `${count(client.inflight)} of ${count(detail.inflight_most)}`],
    ["Waits for", detail.waits_for.length ? detail.waits_for.map((/** @type {string} */ each) => WAITS[each] ?? each).join(", ") : "nothing"],
    ["Held back by limits", pairsOf(detail.limited, (value) => `${count(value)} times`)],
    ["Its limits", pairsOf(detail.rates, count)],
    ["Will", detail.will ? `${detail.will.topic} (QoS ${detail.will.qos}, ${bytes(detail.will.size_bytes)})` : "none"],
  ];
  return facts(pairs);
}

/** @param {any} client */
function userOf(client) {
  if (client.user) {
    return session.may("read", "users") ? h("a", { href: link("access/users", { match: client.user }) }, client.user) : client.user;
  }
  return client.claimed_user ? `${client.claimed_user} (claimed, not proved)` : "none";
}

/** @param {Record<string, number>} found @param {(value: number) => string} shown */
function pairsOf(found, shown) {
  const all = Object.entries(found ?? {});
  return all.length ? all.map(([name, value]) => `${name}: ${shown(value)}`).join(", ") : "none";
}

/** @param {string} id @param {any} detail @param {() => Promise<void>} refresh */
function subscriptionsOf(id, detail, refresh) {
  const mayChange = session.may("write", "clients");
  const rows = detail.subscriptions.map((/** @type {any} */ each) => [
    h("span", { class: "mono" }, each.name),
    each.qos,
    [each.no_local ? "no local" : "", each.retain_as_published ? "retain as published" : ""].filter(Boolean).join(", "),
    mayChange
      ? button("Remove", {
          class: "small",
          "aria-label": `Remove the subscription ${each.name}`,
          onclick: () =>
            void askAndCall(
              { title: "Remove the subscription?", text: h("code", {}, each.name), action: "Remove", danger: true, done: "The subscription was removed." },
              "POST",
              "/client/unsubscribe",
              { body: { client_id: id, filter: each.name } },
            ).then(refresh),
        })
      : "",
  ]);
  const left = detail.client.subscriptions - detail.subscriptions.length;
  return [
    plainTable("Subscriptions", ["Filter", "QoS", "Options", ""], rows, { numeric: [1], empty: "It has none." }),
    left > 0 ? h("p", { class: "hint" }, `${count(left)} more.`) : null,
    mayChange ? button("Subscribe for it…", { class: "small", onclick: () => void subscribe(id).then(refresh) }) : null,
  ];
}

/** @param {string} id */
function subscribe(id) {
  const filter = h("input", { required: true, class: "mono", autocomplete: "off", spellcheck: "false" });
  const qos = h("input", { type: "number", min: "0", max: "2", ".value": "0" });
  return ask({
    title: `Subscribe for ${id}`,
    text: "As if the client had done it: what it may not receive it does not get.",
    fields: [field("Topic filter", filter), field("QoS", qos)],
    action: "Subscribe",
    done: "It has the subscription.",
    run: (reason) => call("POST", "/client/subscribe", { body: { client_id: id, filter: filter.value, qos: Number(qos.value) }, reason }),
  });
}

/** @param {any} detail */
function denialsOf(detail) {
  return plainTable(
    "Last denials",
    ["When", "What", "Topic", "Rule", "Times"],
    (detail.denials ?? []).map((/** @type {any} */ each) => [when(each.at), badge("bad", each.action), h("span", { class: "mono" }, each.topic), each.rule, count(each.count)]),
    { numeric: [4], empty: "None of its requests was denied." },
  );
}
