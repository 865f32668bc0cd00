// Why somebody may do something, or may not.

import { get, isAbort, said } from "../../app/api.js";
import { button, checkbox, field, fill, h, plainTable, select } from "../../app/dom.js";
import { note } from "../../app/router.js";
import { rule } from "./parts.js";
import { propose } from "./propose.js";

const ACTIONS = ["publish", "subscribe", "receive", "connect", "will", "admin:read", "admin:write"];

/** @param {HTMLElement} root @param {import("../../types").PageContext} context */
export async function mount(root, { query, signal }) {
  const value = (/** @type {string} */ name) => query.get(name) ?? "";
  const action = select(ACTIONS.map((each) => [each, each]));
  if (value("action")) action.value = value("action");
  const topic = h("input", { class: "mono", ".value": value("topic"), spellcheck: "false" });
  const user = h("input", { ".value": value("user"), autocomplete: "off" });
  const client = h("input", { ".value": value("client"), autocomplete: "off" });
  const anonymous = h("input", { checked: value("anonymous") === "true" });
  const qos = select([["0", "0"], ["1", "1"], ["2", "2"]]);
  const retain = h("input");
  const result = h("div", { role: "status", "aria-live": "polite" });

  const asked = () => ({
    action: action.value,
    topic: topic.value,
    user: user.value.trim(),
    client: client.value,
    anonymous: anonymous.checked ? "true" : "",
    qos: qos.value,
    retain: retain.checked ? "true" : "",
  });
  const explain = async () => {
    const { qos: _qos, retain: _retain, ...kept } = asked();
    note(kept);
    try {
      fill(result, answerOf(await get("/explain", asked(), signal), asked()));
    } catch (error) {
      if (!isAbort(error)) fill(result, h("p", { class: "problem" }, said(error)));
    }
  };
  fill(
    root,
    h(
      "form",
      {
        class: "card",
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          void explain();
        },
      },
      h("div", { class: "columns" }, field("User", user), field("Client id", client, "Without a user: one of this node."), field("Action", action), field("Topic, filter or resource", topic), field("QoS", qos)),
      checkbox("Anonymous", anonymous),
      checkbox("Retained", retain),
      h("div", { class: "buttons" }, h("button", { class: "main", type: "submit" }, "Explain")),
    ),
    result,
  );
  if (value("action")) await explain();
}

/** @param {any} found @param {Record<string, string>} asked */
function answerOf(found, asked) {
  const one = found.explanation;
  return h(
    "section",
    { class: "card", "aria-label": "Explanation" },
    h("p", { class: `verdict ${one.allowed ? "yes" : "no"}` }, one.allowed ? "Allowed" : "Denied"),
    h("p", {}, one.reason),
    found.notes.map((/** @type {string} */ each) => h("p", { class: "problem" }, each)),
    one.example ? h("p", {}, one.allowed ? "For example: " : "For example not: ", h("code", {}, one.example)) : null,
    rules("Rules that decide", one.deciding),
    rules("Rules that allow, and are overruled", one.overruled),
    one.nearest.length
      ? [
          h("h3", {}, "Rules that come closest"),
          plainTable("Rules that come closest", ["Rule", "What does not hold"], one.nearest.map((/** @type {any} */ each) => [h("span", { class: "rule" }, each.text), `${each.failed}: ${each.why}`])),
        ]
      : null,
    one.allowed || asked["action"]?.startsWith("admin:") ? null : button("Allow this…", { onclick: () => void propose(asked) }),
  );
}

/** @param {string} title @param {any[]} found */
function rules(title, found) {
  if (!found.length) return null;
  return [
    h("h3", {}, title),
    plainTable(
      title,
      ["Rule", "By way of", "With"],
      found.map((each) => [
        typeof each.text === "string" ? h("span", { class: "rule" }, each.text) : rule(each.row),
        each.path.map((/** @type {any} */ step) => step.subject).join(" → "),
        Object.entries(each.values).map(([name, value]) => `${name} = ${value}`).join(", "),
      ]),
    ),
  ];
}
