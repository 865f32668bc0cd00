// The overview: what flows, who is there, what waits and what is lost, and how broker, store and cluster are.

import { Chart, Spark } from "../app/chart.js";
import { get, isAbort, said } from "../app/api.js";
import { badge, card, facts, fill, h, plainTable, renew, select, setText } from "../app/dom.js";
import { byteRate, bytes, count, delay, duration, rate, short } from "../app/format.js";
import { live } from "../app/live.js";
import { link } from "../app/router.js";
import { session } from "../app/session.js";
import { eventList } from "../app/events.js";

/** @typedef {import("../types").Live} Live */
/** @typedef {import("../types").PageContext} PageContext */

/**
 * @typedef {object} Tile
 * @property {string} name
 * @property {string} series
 * @property {(value: number | null) => string} format
 * @property {(now: Live) => string} [more]
 * @property {boolean} [isBad] it is bad if it is not 0
 */

/** @param {number | null} value */
const percent = (value) => (value === null ? "–" : `${short(Math.round(value * 1000) / 10)} %`);

/** A count since the start, which has little room. @param {number | undefined} value */
const total = (value) => ((value ?? 0) < 1e6 ? count(value) : short(value));

/** @type {Tile[]} */
const TILES = [
  { name: "Messages in", series: "messages_in", format: rate, more: (now) => `${total(now.totals["messages_in"])} since start` },
  { name: "Messages out", series: "messages_out", format: rate, more: (now) => `${total(now.totals["messages_out"])} since start` },
  { name: "Clients", series: "clients", format: count, more: (now) => `${count(now.values["sessions"])} sessions` },
  { name: "Connections", series: "connections", format: count, more: (now) => `${rate(now.values["connects"])} new` },
  { name: "Subscriptions", series: "subscriptions", format: count },
  { name: "Queued", series: "queued_messages", format: short, more: (now) => bytes(now.values["queued_bytes"]) },
  { name: "Retained", series: "retained", format: count, more: (now) => bytes(now.values["retained_bytes"]) },
  { name: "Dropped", series: "dropped", format: rate, more: (now) => `${total(now.totals["dropped"])} since start`, isBad: true },
  { name: "Denied", series: "denied", format: rate, more: (now) => `${total(now.totals["publish_denied"])} publishes` },
  { name: "Refused", series: "refused", format: rate, more: (now) => `${total(now.totals["refused"])} connections` },
  { name: "CPU", series: "cpu", format: percent, more: () => "of one core" },
  { name: "Memory", series: "memory_bytes", format: bytes },
  { name: "Event loop late", series: "lateness_s", format: delay, more: () => "at most, in a second" },
  { name: "Store commit", series: "store_commit_s", format: delay, more: (now) => `${bytes(now.values["store_pending_bytes"])} wait` },
];

/** @param {HTMLElement} root @param {PageContext} context */
export function mount(root, { signal }) {
  const tiles = TILES.map(makeTile);
  const tileList = h("ul", { class: "tiles" }, tiles.map((tile) => tile.element));
  const span = select([["1h", "Last hour"], ["1d", "Last day"], ["7d", "Last week"]], { "aria-label": "Time span of the charts" });
  const messages = chart("Messages a second", rate);
  const traffic = chart("Bytes a second", byteRate);
  traffic.base = 1024;
  const store = h("div");
  const cluster = h("div");
  const listeners = h("div");
  const broker = h("div");
  const events = eventList(signal);

  fill(
    root,
    h("div", { class: "tools" }, h("h1", { tabindex: "-1" }, "Overview"), h("span", { class: "grow" }), span),
    tileList,
    h("div", { class: "grid" }, card("Messages", messages), card("Traffic", traffic)),
    h(
      "div",
      { class: "grid four" },
      card("Broker", broker),
      card("Store", store),
      card("Cluster", cluster),
      card("Listeners", listeners),
    ),
    card("What happened lately", events.element),
  );

  const drawCharts = async () => {
    if (span.value === "1h" && !live.series.size) return; // It is on its way with the numbers, and a point tells.
    try {
      const source = span.value === "1h" ? fromLive() : await fromHistory(span.value, signal);
      if (signal.aborted) return;
      messages.show(source.lines("messages_in", "messages_out"), source.start, source.step);
      traffic.show(source.lines("bytes_in", "bytes_out"), source.start, source.step);
    } catch (error) {
      if (!isAbort(error)) console.warn(said(error));
    }
  };
  const onPoint = () => {
    tiles.forEach((tile) => tile.curve());
    if (span.value === "1h") void drawCharts();
  };
  const onTick = () => {
    const now = live.now;
    if (!now) return;
    tiles.forEach((tile) => tile.update(now));
    renew(broker, brokerFacts(now));
    renew(store, storeFacts(now));
    renew(cluster, clusterFacts(now));
    renew(listeners, listenerTable(now));
    events.isAt(now.last_event);
  };
  live.addEventListener("point", onPoint, { signal });
  live.addEventListener("tick", onTick, { signal });
  span.addEventListener("change", () => void drawCharts());
  const timer = setInterval(() => span.value !== "1h" && void drawCharts(), 60_000);
  signal.addEventListener("abort", () => clearInterval(timer));
  onPoint();
  onTick();
}

/** @param {Tile} tile */
function makeTile(tile) {
  const value = h("div", { class: "value" }, "–");
  const more = h("div", { class: "more" });
  const spark = new Spark();
  spark.label = tile.name;
  spark.format = tile.format;
  const element = h("li", { class: "tile", "data-series": tile.series }, h("div", { class: "name" }, tile.name), value, more, spark);
  return {
    element,
    /** @param {Live} now */
    update(now) {
      const found = now.values[tile.series] ?? null;
      setText(value, tile.format(found));
      if (tile.more) setText(more, tile.more(now));
      element.classList.toggle("bad", tile.isBad === true && (found ?? 0) > 0);
    },
    curve() {
      spark.values = live.last(tile.series, 720);
    },
  };
}

/** @param {string} label @param {(value: number | null) => string} format */
function chart(label, format) {
  const made = new Chart();
  made.label = label;
  made.format = format;
  return made;
}

/** @param {(name: string) => Array<number | null>} values */
function lines(values) {
  return (/** @type {string} */ inward, /** @type {string} */ outward) => [
    { name: "in", values: values(inward) },
    { name: "out", values: values(outward) },
  ];
}

function fromLive() {
  const length = live.series.values().next().value?.length ?? 0;
  const end = live.now?.time ?? Date.now() / 1000;
  return { lines: lines((name) => live.series.get(name) ?? []), start: end - length * 5, step: 5 };
}

/** @param {string} span @param {AbortSignal} signal */
async function fromHistory(span, signal) {
  const wanted = "messages_in,messages_out,bytes_in,bytes_out";
  const found = await get("/history", { span, names: wanted }, signal);
  return { lines: lines((name) => found.series[name] ?? []), start: found.start, step: found.step_s };
}

/** @param {Live} now */
function brokerFacts(now) {
  const isReady = now.ready === "ready";
  return facts([
    ["State", badge(isReady ? "ok" : "warn", isReady ? now.state : `${now.state}, ${now.ready}`)],
    ["Running for", duration(Math.floor(now.uptime_s / 10) * 10)],
    ["Most clients at a time", count(now.totals["clients_most"])],
    ["Failed logins", count(now.totals["login_failures"])],
    ["Connections accepted", count(now.totals["connects"])],
    ["Defects", now.totals["defects"] ? badge("bad", `${now.totals["defects"]}, see the log`) : "0"],
  ]);
}

/** @param {Live} now */
function storeFacts(now) {
  const state = now.store_state;
  if (state === "none") return facts([["State", badge("off", "none: nothing outlives the broker")]]);
  return facts([
    ["State", badge(state === "ok" ? "ok" : "bad", state)],
    ["Waiting to be stored", bytes(now.values["store_pending_bytes"])],
    ["Time of a commit", delay(now.values["store_commit_s"])],
  ]);
}

/** @param {Live} now */
function clusterFacts(now) {
  if (!now.node) return h("p", { class: "empty" }, "This broker is a single node.");
  const name = session.may("read", "cluster") ? h("a", { href: link("cluster") }, now.node) : now.node;
  return h(
    "div",
    {},
    facts([
      ["This node", name],
      ["Other nodes", `${count(now.values["cluster_up"])} of ${now.links.length} linked`],
      ["Messages to them", rate(now.values["cluster_messages_out"] ?? null)],
      ["Messages from them", rate(now.values["cluster_messages_in"] ?? null)],
      ["Waiting for them", `${count(now.values["cluster_queued_messages"])}, ${bytes(now.values["cluster_queued_bytes"])}`],
    ]),
    plainTable(
      "Links to other nodes",
      ["Node", "State", "Latency", "Waiting"],
      now.links.map((each) => [
        each.node,
        badge(each.state === "up" ? "ok" : "bad", each.state),
        delay(each.latency_s),
        count(each.queued_messages),
      ]),
      { numeric: [2, 3] },
    ),
  );
}

/** @param {Live} now */
function listenerTable(now) {
  return plainTable(
    "Listeners",
    ["Listener", "Connections"],
    now.listeners.map((each) => [
      [h("div", {}, each.name), h("div", { class: "hint" }, each.address)],
      each.max_connections ? `${count(each.connections)} of ${count(each.max_connections)}` : count(each.connections),
    ]),
    { numeric: [1], empty: "No listener is open." },
  );
}
