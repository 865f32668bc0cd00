// A live packet log of a client or a topic, while somebody watches. Bounded here and by the broker.

import { address } from "./api.js";
import { button, h, setText } from "./dom.js";
import { clock } from "./format.js";

const MOST = 500;

/** @param {Record<string, string>} query what to trace @param {AbortSignal} signal */
export function traceView(query, signal) {
  const lines = h("div", { class: "lines", role: "log", "aria-label": "Packets", tabindex: "0", hidden: true });
  const status = h("span", { class: "soft", role: "status" });
  const toggle = button("Start");
  /** @type {EventSource | null} */
  let source = null;
  let seen = 0;

  const stop = (/** @type {string} */ why) => {
    source?.close();
    source = null;
    setText(toggle, "Start");
    setText(status, why);
  };
  const start = () => {
    lines.hidden = false;
    lines.replaceChildren();
    seen = 0;
    source = new EventSource(address("/trace", query));
    setText(toggle, "Stop");
    setText(status, "Waiting for packets");
    const take = (/** @type {MessageEvent} */ event) => {
      seen += 1;
      setText(status, `${seen} packets`);
      add(JSON.parse(event.data));
    };
    source.onmessage = take;
    for (const name of ["packet", "trace"]) source.addEventListener(name, take);
    source.addEventListener("end", () => stop("The broker has ended the trace: it lasts only so long."));
    source.onerror = () => stop("The trace has ended. It is bounded, or the broker does not answer.");
  };
  const add = (/** @type {any} */ packet) => {
    const isAtEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    lines.append(lineOf(packet));
    while (lines.children.length > MOST) lines.firstChild?.remove();
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
  };
  toggle.addEventListener("click", () => (source ? stop("Stopped.") : start()));
  signal.addEventListener("abort", () => source?.close());
  return h("div", { class: "trace" }, h("div", { class: "tools" }, toggle, button("Clear", { class: "quiet", onclick: () => lines.replaceChildren() }), status), lines);
}

/** @param {any} packet */
function lineOf(packet) {
  const { time, direction, text, ...rest } = packet;
  const isOut = direction === "out" || direction === "sent";
  const words = text ?? Object.entries(rest).filter(([, value]) => value !== null && value !== "" && value !== false).map(([name, value]) => (name === "packet" || name === "kind" ? value : `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`)).join(" ");
  return h("div", { class: isOut ? "out" : "" }, h("span", { class: "t" }, `${clock(time, true)} `), isOut ? "→ " : "← ", words);
}
