// Topics as a tree that lives: what flows where, and what is retained.

import { ApiError, get, isAbort, said } from "../app/api.js";
import { badge, button, card, facts, fill, h, plainTable, renew, select, setText } from "../app/dom.js";
import { askAndCall } from "../app/dialog.js";
import { bytes, byteRate, count, duration, fromBase64, payload, rate, when } from "../app/format.js";
import { poll } from "../app/poll.js";
import { link, note } from "../app/router.js";
import { session } from "../app/session.js";
import { traceView } from "../app/trace.js";
import { Tree } from "../app/tree.js";

const REFRESH_MS = 2000;
const LEVELS = 200;

/** @param {HTMLElement} root @param {import("../types").PageContext} context */
export async function mount(root, { query, signal }) {
  const tree = new Tree();
  tree.setAttribute("aria-label", "Topics");
  const seesRates = session.may("read", "stats");
  const seesRetained = session.may("read", "retained");
  tree.empty = seesRates ? "Nothing was published lately, and nothing is retained." : "Nothing is retained.";
  tree.load = (prefix) => (seesRates ? topicLevels(prefix, signal) : retainedLevels(prefix, signal));
  const detail = h("section", { class: "card", "aria-live": "polite", "aria-label": "Topic" }, h("p", { class: "empty" }, "Choose a topic."));
  const top = h("div");
  let chosen = 0;

  tree.onSelect = (level) => {
    chosen += 1;
    const turn = chosen;
    note({ topic: level.prefix });
    void drawTopic(detail, level, () => turn === chosen, () => void tree.refresh(), seesRetained, signal);
  };
  fill(
    root,
    h("h1", { tabindex: "-1" }, "Topics"),
    h("div", { class: "split" }, card("Tree", tree), detail),
    seesRates ? card("Busiest topics", top) : null,
  );
  const polling = poll(REFRESH_MS, signal, async () => {
    await tree.refresh();
    if (seesRates) renew(top, await topOf(signal));
  });
  await polling.first;
  const wanted = query.get("topic");
  if (wanted) await tree.reveal(wanted.replace(/\/$/, "").split("/"));
}

/** @param {string | null} prefix @param {AbortSignal} signal */
async function topicLevels(prefix, signal) {
  const found = await get("/topics/tree", { prefix: prefix ?? "", limit: LEVELS }, signal);
  return {
    more: Boolean(found.next),
    levels: found.levels.map((/** @type {any} */ each) => ({
      name: each.name,
      prefix: each.prefix,
      hasBelow: each.topics > (each.is_topic ? 1 : 0) || each.retained_messages > (each.retained ? 1 : 0),
      note: each.messages_per_s ? rate(each.messages_per_s) : "",
      isBusy: each.messages_per_s > 0,
      mark: each.retained ? "retained" : "",
      data: each,
    })),
  };
}

/** @param {string | null} prefix @param {AbortSignal} signal */
async function retainedLevels(prefix, signal) {
  const found = await get("/retained/tree", { prefix: prefix ?? "", limit: LEVELS }, signal);
  return {
    more: Boolean(found.next),
    levels: found.levels.map((/** @type {any} */ each) => ({
      name: each.name,
      prefix: each.prefix,
      hasBelow: each.messages > (each.is_message ? 1 : 0),
      note: count(each.messages),
      mark: each.is_message ? "retained" : "",
      data: { ...each, retained: each.is_message },
    })),
  };
}

/** @param {string} prefix with or without the slash at its end */
function topicOf(prefix) {
  return prefix.endsWith("/") ? prefix.slice(0, -1) : prefix;
}

/**
 * @param {HTMLElement} place
 * @param {import("../app/tree.js").Level} level
 * @param {() => boolean} isWanted nothing else was chosen meanwhile
 * @param {() => void} again
 * @param {boolean} seesRetained
 * @param {AbortSignal} signal
 */
async function drawTopic(place, level, isWanted, again, seesRetained, signal) {
  const topic = topicOf(level.prefix);
  const data = level.data;
  const retained = h("div");
  const parts = [
    h("h2", { class: "mono wrap" }, topic),
    data.messages_per_s === undefined
      ? null
      : facts([
          ["Messages", rate(data.messages_per_s)],
          ["Bytes", byteRate(data.bytes_per_s)],
          ["Topics", count(data.topics)],
          ["Retained, with all below", count(data.retained_messages)],
        ]),
    h("div", { class: "actions" }, session.may("read", "subscriptions") ? h("a", { href: link("subscriptions/routes", { topic }) }, "Who would get it?") : null),
    retained,
    session.may("read", "trace") ? [h("h3", {}, "Messages as they come"), traceView({ topic: level.hasBelow ? `${topic}/#` : topic }, signal)] : null,
  ];
  fill(place, parts);
  if (!seesRetained || !data.retained) return;
  try {
    const found = await get("/retained/message", { topic }, signal);
    if (isWanted()) fill(retained, retainedOf(topic, found, place, again));
  } catch (error) {
    if (isAbort(error) || !isWanted()) return;
    const gone = error instanceof ApiError && error.status === 404;
    fill(retained, h("p", { class: gone ? "empty" : "problem" }, gone ? "Nothing is retained any more." : said(error)));
  }
}

/** @param {string} topic @param {any} found @param {HTMLElement} place @param {() => void} again */
function retainedOf(topic, found, place, again) {
  const data = fromBase64(found.payload);
  const how = select([["auto", "as it reads best"], ["text", "as text"], ["hex", "as hex"]], { "aria-label": "How the payload is shown" });
  const shown = h("pre", { class: "payload", tabindex: "0", "aria-label": "Payload" }, payload(data));
  how.addEventListener("change", () => setText(shown, payload(data, /** @type {any} */ (how.value))));
  const { message } = found;
  return [
    h("h3", {}, "Retained message"),
    facts([
      ["Size", bytes(message.size_bytes)],
      ["QoS", String(message.qos)],
      ["Retained", message.retained_at ? when(message.retained_at) : "before the start"],
      ["Expires", message.expires_in_s === null ? "never" : `in ${duration(message.expires_in_s)}`],
      ["Published by", found.publisher ? (session.may("read", "clients") ? h("a", { href: link("client", { id: found.publisher }) }, found.publisher) : found.publisher) : "not known"],
      ["Content type", found.content_type ?? "–"],
    ]),
    found.user_properties?.length ? plainTable("User properties", ["Property", "Value"], found.user_properties) : null,
    h("div", { class: "tools" }, how, found.is_whole ? null : badge("warn", "only the beginning")),
    shown,
    session.may("write", "retained")
      ? h(
          "div",
          { class: "buttons" },
          button("Delete the retained message", {
            class: "danger",
            onclick: () =>
              void askAndCall(
                { title: "Delete the retained message?", text: h("code", {}, topic), action: "Delete", danger: true, done: "The retained message was deleted." },
                "DELETE",
                "/retained/message",
                { query: { topic } },
              ).then((done) => {
                if (!done) return;
                fill(place, h("p", { class: "empty" }, "Nothing is retained there any more."));
                again();
              }),
          }),
        )
      : null,
  ];
}

/** @param {AbortSignal} signal */
async function topOf(signal) {
  const found = await get("/topics/top", { limit: 10 }, signal);
  return plainTable(
    "Busiest topics",
    ["Topic", "Messages", "Bytes", "Since counting began"],
    found.topics.map((/** @type {any} */ each) => [h("span", { class: "mono" }, each.topic), rate(each.messages_per_s), byteRate(each.bytes_per_s), count(each.messages)]),
    { numeric: [1, 2, 3], empty: "Nothing was published lately." },
  );
}
