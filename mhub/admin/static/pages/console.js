// A console for MQTT: this browser as a client, over a WebSocket listener of the broker.

import { get, said } from "../app/api.js";
import { badge, button, card, checkbox, field, fill, h, select, setText } from "../app/dom.js";
import { bytes, clock, count, payload } from "../app/format.js";
import { live } from "../app/live.js";
import { session } from "../app/session.js";
import { MqttClient } from "../mqtt/client.js";

const MOST = 300;

/** @param {HTMLElement} root @param {import("../types").PageContext} context */
export async function mount(root, { signal }) {
  const client = new MqttClient();
  const status = h("p", { role: "status", "aria-live": "polite" }, badge("off", "not connected"));
  const messages = messageList();
  const publishing = publishForm(client, messages);
  const subscribing = subscribeForm(client);
  const connecting = await connectForm(client, status, (isConnected) => {
    publishing.enable(isConnected);
    subscribing.enable(isConnected);
  });
  client.onMessage = (message) => messages.add("in", message);
  client.onClose = (why) => connecting.closed(why);
  signal.addEventListener("abort", () => client.disconnect());
  fill(
    root,
    h("h1", { tabindex: "-1" }, "MQTT console"),
    card("Connection", connecting.element, status),
    h("div", { class: "grid" }, card("Subscribe", subscribing.element), card("Publish", publishing.element)),
    card("Messages", messages.element),
  );
}

/** Where MQTT is, for a page that came from here. */
async function addresses() {
  let listeners = live.now?.listeners ?? [];
  if (!listeners.length && session.may("read", "listeners")) listeners = await get("/listeners").catch(() => []);
  const wanted = location.protocol === "https:" ? ["wss"] : ["ws", "wss"];
  const found = [];
  for (const each of listeners) {
    try {
      const url = new URL(each.address);
      if (!wanted.includes(url.protocol.slice(0, -1))) continue;
      found.push(`${url.protocol}//${location.hostname}:${url.port}${url.pathname}`);
    } catch {
      // A Unix socket has no URL.
    }
  }
  return found;
}

/** @param {MqttClient} client @param {HTMLElement} status @param {(isConnected: boolean) => void} changed */
async function connectForm(client, status, changed) {
  const known = await addresses();
  const url = h("input", { class: "mono", required: true, ".value": known[0] ?? "", list: "console-addresses", spellcheck: "false" });
  const id = h("input", { class: "mono", ".value": `console-${Math.random().toString(36).slice(2, 8)}`, spellcheck: "false", autocomplete: "off" });
  const user = h("input", { autocomplete: "off", autocapitalize: "none" });
  const password = h("input", { type: "password", autocomplete: "off" });
  const submit = h("button", { class: "main", type: "submit" }, "Connect");

  const show = (/** @type {"ok" | "off" | "bad" | "warn"} */ kind, /** @type {string} */ text, /** @type {string} */ more = "") => fill(status, badge(kind, text), " ", more);
  const closed = (/** @type {string} */ why) => {
    show(why === "Disconnected." ? "off" : "bad", "not connected", why === "Disconnected." ? "" : why);
    setText(submit, "Connect");
    changed(false);
  };
  const toggle = async () => {
    if (client.isConnected) {
      client.disconnect();
      return;
    }
    submit.disabled = true;
    show("warn", "connecting");
    try {
      await client.connect(url.value, { clientId: id.value, user: user.value, password: password.value });
      show("ok", "connected", `as ${client.clientId}`);
      setText(submit, "Disconnect");
      changed(true);
    } catch (error) {
      closed(said(error));
    }
    submit.disabled = false;
  };
  const element = h(
    "form",
    {
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        void toggle();
      },
    },
    h("datalist", { id: "console-addresses" }, known.map((each) => h("option", { value: each }))),
    known.length ? null : h("p", { class: "hint" }, "There is no WebSocket listener that this page may use: [[listeners]] with transport = \"ws\" makes one, then open this page anew."),
    h("div", { class: "columns" }, field("Address", url), field("Client id", id), field("User", user), field("Password", password)),
    submit,
  );
  changed(false);
  return { element, closed };
}

/** @param {MqttClient} client */
function subscribeForm(client) {
  const filter = h("input", { class: "mono", ".value": "#", required: true, spellcheck: "false" });
  const qos = select([["0", "0"], ["1", "1"], ["2", "2"]]);
  const submit = h("button", { type: "submit" }, "Subscribe");
  const problem = h("p", { class: "problem", role: "alert" });
  const list = h("ul", { class: "changes" });

  const subscribe = async () => {
    setText(problem, "");
    try {
      const wanted = filter.value;
      const given = await client.subscribe(wanted, Number(qos.value));
      const item = h("li", {}, h("code", {}, wanted), ` at QoS ${given} `, button("Remove", { class: "small", "aria-label": `Unsubscribe ${wanted}`, onclick: () => void client.unsubscribe(wanted).then(() => item.remove(), () => item.remove()) }));
      list.append(item);
    } catch (error) {
      setText(problem, `The subscription was refused: ${said(error)}`);
    }
  };
  const element = h(
    "form",
    {
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        void subscribe();
      },
    },
    h("div", { class: "columns" }, field("Topic filter", filter), field("QoS", qos)),
    problem,
    submit,
    list,
  );
  return {
    element,
    enable: (/** @type {boolean} */ isConnected) => {
      submit.disabled = !isConnected;
      if (!isConnected) list.replaceChildren();
    },
  };
}

/** @param {string} text @param {string} how */
function payloadOf(text, how) {
  if (how === "text") return new TextEncoder().encode(text);
  const digits = text.replace(/[\s:]/g, "");
  if (!/^([0-9a-f]{2})*$/i.test(digits)) throw new Error("This is not hex: two digits for each byte, as in 00 ff 1a");
  return Uint8Array.from(digits.match(/../g) ?? [], (each) => parseInt(each, 16));
}

/** @param {MqttClient} client @param {ReturnType<typeof messageList>} messages */
function publishForm(client, messages) {
  const topic = h("input", { class: "mono", required: true, spellcheck: "false" });
  const text = h("textarea", { rows: "3", spellcheck: "false" });
  const how = select([["text", "text"], ["hex", "hex"]]);
  const qos = select([["0", "0"], ["1", "1"], ["2", "2"]]);
  const retain = h("input");
  const submit = h("button", { type: "submit", class: "main" }, "Publish");
  const result = h("p", { role: "status" });

  const publish = async () => {
    setText(result, "");
    result.className = "hint";
    try {
      const data = payloadOf(text.value, how.value);
      const message = { topic: topic.value, payload: data, qos: Number(qos.value), retain: retain.checked };
      setText(result, `The message was ${await client.publish(message.topic, data, message.qos, message.retain)}.`);
      messages.add("out", { ...message, dup: false, contentType: "" });
    } catch (error) {
      result.className = "problem";
      setText(result, `Not published: ${said(error)}`);
    }
  };
  const element = h(
    "form",
    {
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        void publish();
      },
    },
    field("Topic", topic),
    field("Payload", text),
    h("div", { class: "columns" }, field("Payload is", how), field("QoS", qos)),
    h("div", { class: "actions" }, submit, checkbox("Retain", retain)),
    result,
  );
  return { element, enable: (/** @type {boolean} */ isConnected) => void (submit.disabled = !isConnected) };
}

function messageList() {
  const lines = h("div", { class: "lines messages", role: "log", "aria-live": "off", "aria-label": "Messages", tabindex: "0" });
  const how = select([["auto", "payloads as they read best"], ["text", "payloads as text"], ["hex", "payloads as hex"]], { "aria-label": "How payloads are shown" });
  const total = h("span", { class: "soft" });
  let seen = 0;

  /** @param {"in" | "out"} direction @param {import("../mqtt/client.js").Message} message */
  const add = (direction, message) => {
    const isAtEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    const flags = [`QoS ${message.qos}`, message.retain ? "retained" : "", bytes(message.payload.length)].filter(Boolean).join(", ");
    lines.append(
      h(
        "div",
        { class: direction },
        h("span", { class: "t" }, `${clock(Date.now() / 1000, true)} ${direction === "out" ? "published " : ""}`),
        h("b", {}, message.topic),
        h("span", { class: "t" }, `  ${flags}`),
        message.payload.length ? h("pre", {}, payload(message.payload.subarray(0, 16384), /** @type {any} */ (how.value))) : null,
      ),
    );
    while (lines.children.length > MOST) lines.firstChild?.remove();
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
    seen += 1;
    setText(total, `${count(seen)} messages${seen > MOST ? `, the last ${MOST} are shown` : ""}`);
  };
  const clear = button("Clear", { class: "quiet", onclick: () => lines.replaceChildren() });
  return { add, element: [h("div", { class: "tools" }, how, clear, total), lines] };
}
