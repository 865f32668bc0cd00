// The nodes, how they reach each other, and what it would mean to lose one.

import { ApiError, get, said } from "../app/api.js";
import { badge, button, card, facts, fill, h, plainTable, renew } from "../app/dom.js";
import { askAndCall } from "../app/dialog.js";
import { bytes, count, duration } from "../app/format.js";
import { live } from "../app/live.js";
import { poll } from "../app/poll.js";
import { session } from "../app/session.js";

const REFRESH_MS = 2000;

/** What becomes of sessions whose node is lost: how bad it is. @type {Record<string, "ok" | "warn" | "bad" | "off">} */
const FATES = { "taken over": "ok", "kept in its store": "warn", lost: "bad", unknown: "off" };

/** @param {HTMLElement} root @param {import("../types").PageContext} context */
export async function mount(root, { signal }) {
  const body = h("div");
  fill(root, h("h1", { tabindex: "-1" }, "Cluster"), body);
  let shown = "";
  const polling = poll(REFRESH_MS, signal, async () => {
    if (live.now && !live.now.node) {
      if (shown !== "single") fill(body, single());
      shown = "single";
      return;
    }
    try {
      const found = await get("/cluster", {}, signal);
      const text = JSON.stringify(found);
      if (text === shown) return;
      shown = text;
      renew(body, drawn(found, () => polling.now()));
    } catch (error) {
      if (signal.aborted) return;
      shown = "";
      const isNone = error instanceof ApiError && (error.status === 404 || error.status === 409);
      if (isNone) fill(body, single());
      else if (!body.childElementCount) fill(body, h("p", { class: "problem" }, said(error)));
    }
  });
  await polling.first;
}

function single() {
  return card(
    "A single node",
    h("p", {}, "This broker is not part of a cluster. With others it is one broker: clients connect to any node, and find their session wherever they come back. See docs/cluster.md."),
  );
}

/** @param {any} found @param {() => void} again */
function drawn(found, again) {
  const { state } = found;
  return [
    card(
      "This node",
      facts([
        ["Node", state.node],
        ["Cluster", state.cluster],
        ["State", badge(state.ready ? "ok" : "warn", state.leaving ? "leaving" : state.ready ? "joined" : "not joined yet")],
        ["Version", state.version],
        ["Address", state.address],
        ["Sessions here", count(state.clients)],
        ["Routes here", count(state.routes)],
        ["Registry", `${count(state.registry.entries)} entries`],
      ]),
      found.missing.length ? h("p", { class: "problem" }, `No answer in time from ${found.missing.join(", ")}.`) : null,
    ),
    card("Other nodes", memberTable(state.members, again)),
    card("Links", linkTable(found.links)),
    card("If a node were lost", lossTable(found.losses)),
    state.unreachable.length ? card("Addresses that do not answer", unreachableTable(state.unreachable)) : null,
  ];
}

/** @param {number | null} ms */
function latency(ms) {
  return ms === null ? "–" : `${ms < 10 ? ms.toFixed(2) : Math.round(ms)} ms`;
}

/** @param {string} state */
function stateOf(state) {
  return badge(state === "up" ? "ok" : state === "syncing" || state === "suspect" ? "warn" : "bad", state);
}

/** @param {any[]} members @param {() => void} again */
function memberTable(members, again) {
  const mayChange = session.may("write", "cluster");
  return plainTable(
    "Other nodes",
    ["Node", "State", "Since", "Address", "Version", "Sessions", "Sent", "Received", "Dropped", ""],
    members.map((each) => [
      h("b", {}, each.node),
      [stateOf(each.state), each.note ? h("div", { class: "hint" }, each.note) : null, each.call_error && each.state !== "up" ? h("div", { class: "hint" }, each.call_error) : null],
      duration(each.since_s),
      h("span", { class: "mono" }, each.address),
      each.version,
      count(each.clients),
      count(each.sent),
      count(each.received),
      each.dropped ? badge("bad", count(each.dropped)) : "0",
      mayChange && each.state !== "up"
        ? button("Forget…", {
            class: "small",
            "aria-label": `Forget the node ${each.node}`,
            onclick: () =>
              void askAndCall(
                { title: `Forget the node ${each.node}?`, text: "Only for one that will not come back: what the others keep for it is dropped, and sessions that only it had are given up.", action: "Forget", danger: true, done: "The node is forgotten." },
                "POST",
                "/cluster/forget",
                { query: { node: each.node } },
              ).then(again),
          })
        : "",
    ]),
    { numeric: [5, 6, 7, 8], empty: "There are no others." },
  );
}

/** @param {any[]} links */
function linkTable(links) {
  return plainTable(
    "Links between nodes",
    ["From", "To", "State", "Latency", "Waiting messages", "Waiting bytes"],
    links.map((each) => [each.node, each.to, stateOf(each.state), latency(each.latency_ms), count(each.queued_messages), bytes(each.queued_bytes)]),
    { numeric: [3, 4, 5], empty: "There are none." },
  );
}

/** @param {any[]} losses */
function lossTable(losses) {
  return plainTable(
    "What the loss of each node would mean",
    ["Node", "What it would mean", "Connected clients", "Sessions", "These are", "Waiting for them"],
    losses.map((each) => [
      h("b", {}, each.node),
      each.text,
      each.is_known ? count(each.connected) : "–",
      count(each.sessions),
      badge(each.sessions ? (FATES[each.fate] ?? "off") : "off", each.sessions ? each.fate : "none"),
      each.is_known ? bytes(each.queued_bytes) : "–",
    ]),
    { numeric: [2, 3, 5] },
  );
}

/** @param {any[]} found */
function unreachableTable(found) {
  return plainTable(
    "Addresses that do not answer",
    ["Address", "Node", "Reason", "Since", "Attempts", "Next in"],
    found.map((each) => [h("span", { class: "mono" }, each.address), each.node, each.reason, duration(each.since_s), count(each.attempts), duration(each.next_call_s)]),
    { numeric: [4] },
  );
}
