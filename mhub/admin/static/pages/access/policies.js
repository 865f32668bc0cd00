// The rules: read, and changed after a dry run has shown what that would do.

import { call, get, said } from "../../app/api.js";
import { button, checkbox, field, fill, h } from "../../app/dom.js";
import { note } from "../../app/router.js";
import { session } from "../../app/session.js";
import { toast } from "../../app/shell.js";
import { table } from "../../app/table.js";
import { wide } from "../clients.js";
import { changeRules, dryRunOf } from "./dryrun.js";
import { csvFields, rule } from "./parts.js";

/** @param {HTMLElement} root @param {import("../../types").PageContext} context */
export async function mount(root, { query, signal }) {
  const subject = h("input", { type: "search", class: "mono", ".value": query.get("subject") ?? "", placeholder: "user:NAME or role:NAME" });
  const topic = h("input", { type: "search", class: "mono", ".value": query.get("topic") ?? "", placeholder: "as it is written, with * and ?" });
  const all = h("input");
  const mayChange = session.may("write", "policies");
  const inForce = h("p", { class: "hint" });
  const list = table({
    label: "Rules",
    key: (/** @type {any} */ one) => one.id + one.place,
    empty: "No rule fits.",
    columns: [
      { title: "Rule", cell: (one) => h("span", { title: rule(one.row).textContent }, rule(one.row)) },
      { title: "Id", class: "col-id mono", only: "middle", cell: (one) => h("span", { title: one.place }, one.place.startsWith("rule") ? one.id : one.place) },
      { title: "Note", class: "col-mid", only: "wide", cell: (one) => one.note },
      {
        title: "",
        class: "col-action",
        cell: (one) => (mayChange && one.place.startsWith("rule") ? button("Remove…", { class: "small", "aria-label": `Remove the rule ${one.id}`, onclick: () => void change("Remove the rule?", { add: [], remove: [one.id] }) }) : ""),
      },
    ],
    load: async (cursor, _sort, abort) => {
      const found = await get("/policies", { subject: subject.value.trim(), topic: topic.value.trim(), all_rows: all.checked || undefined, cursor, limit: 200 }, abort);
      return { items: found.rules, next: found.next };
    },
  });
  const change = async (/** @type {string} */ title, /** @type {import("./dryrun.js").Change} */ wanted) => {
    try {
      if (await changeRules(title, wanted)) await list.reload(true);
    } catch (error) {
      toast("bad", said(error));
    }
  };
  let typing = 0;
  const search = () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      note({ subject: subject.value, topic: topic.value });
      void list.reload();
    }, 250);
  };
  for (const each of [subject, topic, all]) each.addEventListener("input", search);
  signal.addEventListener("abort", () => clearTimeout(typing));
  list.classList.add("low", "rules");
  fill(
    root,
    inForce,
    h("div", { class: "tools" }, wide(field("Subject", subject)), wide(field("Topic", topic)), checkbox("Also from users and roles", all), h("a", { class: "button", href: "/admin/v1/policies/export", download: "policy.csv" }, "Export CSV")),
    list,
    editor(mayChange, change),
  );
  void list.reload();
  try {
    const found = await get("/policies/in-force", {}, signal);
    inForce.textContent = found.policy === "registry" ? "These rules decide." : found.policy ? `The rules of ${found.policy} decide about MQTT; these decide about the admin side.` : "Access control is off for MQTT: these rules decide about the admin side only.";
  } catch (error) {
    if (!signal.aborted) inForce.textContent = said(error);
  }
}

/** @param {boolean} mayChange @param {(title: string, change: import("./dryrun.js").Change) => Promise<void>} change */
function editor(mayChange, change) {
  const text = h("textarea", { rows: "4", spellcheck: "false", placeholder: "p, role:operator, *, publish, plant/+/commands/#, any, allow" });
  const result = h("div", { role: "status", "aria-live": "polite" });
  const rows = () => {
    const found = text.value.split("\n").filter((line) => line.trim() && !line.trim().startsWith("#"));
    if (!found.length) throw new Error("There is no rule yet: write one or more, one a line.");
    return found.map(csvFields);
  };
  const tryIt = async () => {
    try {
      fill(result, dryRunOf(await call("POST", "/policies/dry-run", { body: { add: rows(), remove: [] } })));
    } catch (error) {
      fill(result, h("p", { class: "problem" }, said(error)));
    }
  };
  const apply = async () => {
    fill(result);
    try {
      await change("Add these rules?", { add: rows(), remove: [] });
    } catch (error) {
      fill(result, h("p", { class: "problem" }, said(error)));
    }
  };
  return h(
    "section",
    { class: "card" },
    h("h2", {}, mayChange ? "Add rules" : "Try rules"),
    field("Rules, one a line", text, "p, SUBJECT, TENANT, ACTION, TOPIC, CONDITION, EFFECT   or   g, SUBJECT, ROLE, TENANT"),
    h("div", { class: "actions" }, button("Dry run", { onclick: () => void tryIt() }), mayChange ? button("Add…", { class: "main", onclick: () => void apply() }) : null),
    result,
  );
}
