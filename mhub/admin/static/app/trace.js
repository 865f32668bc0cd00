// A live packet log of a client or of topics, while somebody watches. Bounded here and by the broker.

import { address } from "./api.js";
import { button, h, select, setText } from "./dom.js";
import { asText, bytes, clock, fromBase64, visible } from "./format.js";
import { live } from "./live.js";

const MOST = 500;
const KINDS = ["packet", "message", "connected", "refused", "disconnected"];

/** @param {Record<string, string>} query what to trace @param {AbortSignal} signal */
export function traceView(query, signal) {
  const lines = h("div", { class: "lines", role: "log", "aria-label": "Packets", "aria-live": "off", tabindex: "0", hidden: true });
  const status = h("span", { class: "soft", role: "status" });
  const total = h("span", { class: "soft", "aria-live": "off" }); // A screen reader has to be able to say other things.
  const toggle = button("Start the trace");
  const seconds = select([["60", "for a minute"], ["600", "for 10 minutes"]], { "aria-label": "How long" });
  /** @type {EventSource | null} */
  let source = null;
  let seen = 0;

  const stop = (/** @type {string} */ why) => {
    source?.close();
    source = null;
    setText(toggle, "Start the trace");
    setText(status, why);
  };
  const start = () => {
    lines.hidden = false;
    lines.replaceChildren();
    setText(total, "");
    seen = 0;
    source = new EventSource(address("/trace", { ...query, seconds: seconds.value, payload_bytes: 200 }));
    setText(toggle, "Stop");
    setText(status, live.now?.node ? `Waiting for packets at node ${live.now.node}.` : "Waiting for packets.");
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        const packet = JSON.parse(event.data);
        seen += 1 + (packet.dropped ?? 0);
        setText(status, "");
        setText(total, `${seen} so far.`);
        add(packet);
      });
    }
    source.addEventListener("end", (event) => stop(`Ended: ${JSON.parse(event.data).text || "it lasts only so long"}.`));
    source.onerror = () => stop("The trace has ended: too many run already, or the broker does not answer.");
  };
  const add = (/** @type {any} */ packet) => {
    const isAtEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    if (packet.dropped) lines.append(h("div", { class: "warn" }, `… ${packet.dropped} left out, they came too fast`));
    lines.append(lineOf(packet));
    while (lines.children.length > MOST) lines.firstChild?.remove();
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
  };
  toggle.addEventListener("click", () => (source ? stop("Stopped.") : start()));
  signal.addEventListener("abort", () => source?.close());
  return h(
    "div",
    { class: "trace" },
    h("div", { class: "tools" }, toggle, seconds, button("Clear", { class: "quiet", onclick: () => lines.replaceChildren() }), total, status),
    lines,
  );
}

/** @param {any} packet */
function lineOf(packet) {
  const isOut = packet.direction === "out";
  const arrow = packet.direction === "in" ? "→ " : isOut ? "← " : "• ";
  const words = [
    packet.packet || packet.kind,
    packet.kind === "message" ? packet.client_id : "",
    packet.topic,
    packet.filters?.join(" "),
    packet.qos === null || packet.qos === undefined ? "" : `QoS ${packet.qos}`,
    packet.retain ? "retain" : "",
    packet.dup ? "dup" : "",
    packet.packet_id ? `id ${packet.packet_id}` : "",
    packet.reasons?.length ? `reason ${packet.reasons.map((/** @type {number} */ code) => `0x${code.toString(16).padStart(2, "0")}`).join(" ")}` : "",
    packet.text,
    packet.payload_bytes === null || packet.payload_bytes === undefined ? "" : bytes(packet.payload_bytes),
    packet.payload ? start(packet.payload) : "",
  ];
  return h("div", { class: isOut ? "out" : "" }, h("span", { class: "t" }, `${clock(packet.time, true)} `), arrow, words.filter(Boolean).join("  "));
}

/** The beginning of a payload, on one line. @param {string} text base64 */
function start(text) {
  const data = fromBase64(text);
  const found = asText(data);
  return found === null ? [...data.subarray(0, 32)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ") : visible(found);
}
