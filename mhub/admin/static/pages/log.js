// The last lines of the log, its level, and the level for one client.

import { call, get, said } from "../app/api.js";
import { button, card, checkbox, field, fill, h, plainTable, select, setText } from "../app/dom.js";
import { ask, askAndCall } from "../app/dialog.js";
import { eventList } from "../app/events.js";
import { clock, duration, visible, when } from "../app/format.js";
import { live } from "../app/live.js";
import { poll } from "../app/poll.js";
import { session } from "../app/session.js";

const MOST = 2000;
/** @type {Array<[string, string]>} */
const LEVELS = [["debug", "debug"], ["info", "info"], ["warn", "warn"], ["error", "error"], ["critical", "critical"]];

/** @param {HTMLElement} root @param {import("../types").PageContext} context */
export async function mount(root, { signal }) {
  const events = session.may("read", "stats") ? eventList(signal) : null;
  const mayRead = session.may("read", "log");
  fill(
    root,
    h("h1", { tabindex: "-1" }, "Log"),
    mayRead ? await logOf(signal) : null,
    events ? card("Events", events.element) : null,
  );
  const lines = root.querySelector(".lines");
  if (lines) lines.scrollTop = lines.scrollHeight; // Before it was in the page it had no height.
  if (events) {
    const look = () => live.now && events.isAt(live.now.last_event);
    live.addEventListener("tick", look, { signal });
    look();
  }
}

/** @param {AbortSignal} signal */
async function logOf(signal) {
  const least = select(LEVELS, { "aria-label": "The least important lines that are shown" });
  least.value = "info";
  const contains = h("input", { type: "search", placeholder: "only lines with this text" });
  const follows = h("input", { checked: true });
  const lines = h("div", { class: "lines tall", role: "log", "aria-live": "off", "aria-label": "Log lines", tabindex: "0" });
  const status = h("p", { class: "hint", role: "status" });
  const levels = h("div");
  let after = -1;

  const fits = (/** @type {Element} */ line) => (line.textContent ?? "").toLowerCase().includes(contains.value.toLowerCase());
  const read = async () => {
    const asked = least.value;
    const page = await get("/log/recent", { after, least: asked, limit: 500 }, signal);
    if (asked !== least.value) return;
    if (page.missed && after >= 0) lines.append(h("div", { class: "warn" }, `… ${page.missed} lines are not kept any more`));
    after = page.next;
    for (const line of page.lines) {
      const made = lineOf(line);
      made.hidden = !fits(made);
      lines.append(made);
    }
    while (lines.children.length > MOST) lines.firstChild?.remove();
    if (follows.checked && page.lines.length) lines.scrollTop = lines.scrollHeight;
    setText(status, "");
  };
  const reading = poll(1500, signal, () => read().catch((error) => {
    if (!signal.aborted) setText(status, said(error));
  }));
  least.addEventListener("change", () => {
    after = -1;
    lines.replaceChildren();
    reading.now();
  });
  contains.addEventListener("input", () => {
    for (const line of lines.children) /** @type {HTMLElement} */ (line).hidden = !fits(line);
  });

  const showLevels = async () => fill(levels, levelsOf(await get("/log/level", {}, signal), () => void showLevels()));
  await Promise.all([reading.first, showLevels()]);
  return [
    h("div", { class: "tools" }, field("Least level", least), wide(field("Search", contains)), checkbox("Follow", follows)),
    lines,
    status,
    card("Level", levels),
  ];
}

/** @param {HTMLElement} element */
function wide(element) {
  element.classList.add("wide");
  return element;
}

/** @param {{ time: number, level: string, part: string, text: string }} line */
function lineOf(line) {
  return h("div", { class: line.level }, h("span", { class: "t", title: when(line.time) }, `${clock(line.time)} `), `${line.level} ${line.part}: ${visible(line.text)}`);
}

/** @param {any} found @param {() => void} again */
function levelsOf(found, again) {
  const mayChange = session.may("write", "log");
  const rows = found.clients.map((/** @type {any} */ each) => [h("span", { class: "mono" }, each.client_id), each.level, duration(each.left_s)]);
  return [
    h("p", {}, "What is logged: ", h("b", {}, found.level), found.level === found.configured ? " and above, as configured." : ` and above; the configuration says ${found.configured}.`),
    plainTable("Clients with a level of their own", ["Client", "Level", "For another"], rows, { empty: "No client has a level of its own." }),
    mayChange ? h("div", { class: "actions" }, button("Change the level…", { onclick: () => void change(found.level).then(again) }), button("Level for a client…", { onclick: () => void forClient().then(again) })) : null,
  ];
}

/** @param {string} level */
function change(level) {
  const wanted = select(LEVELS);
  wanted.value = level;
  return askAndCall(
    { title: "Change the level of the log", text: "Until it is changed again, or a reload changes it.", fields: [field("Level", wanted)], action: "Change", done: "The log has another level." },
    "PUT",
    "/log/level",
    () => ({ body: { level: wanted.value } }),
  );
}

function forClient() {
  const id = h("input", { required: true, autocomplete: "off", class: "mono" });
  const level = select(LEVELS);
  const minutes = h("input", { type: "number", min: "1", max: "60", ".value": "10" });
  return ask({
    title: "A level for one client",
    text: "At debug there is a line for each of its packets.",
    fields: [field("Client id", id), h("div", { class: "columns" }, field("Level", level), field("Minutes", minutes))],
    action: "Set",
    done: "The client has a level of its own.",
    run: (reason) => call("PUT", "/log/level", { body: { level: level.value, client_id: id.value, seconds: Number(minutes.value) * 60 }, reason }),
  });
}
