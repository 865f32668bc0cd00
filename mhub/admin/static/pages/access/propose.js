// "Allow this": the rules that would allow what was denied, each with what else it would do. Nothing is changed
// before one of them was chosen and confirmed.

import { get, said } from "../../app/api.js";
import { badge, button, h } from "../../app/dom.js";
import { tell } from "../../app/dialog.js";
import { session } from "../../app/session.js";
import { toast } from "../../app/shell.js";
import { changeRules, dryRunOf } from "./dryrun.js";
import { rule } from "./parts.js";

/** @param {Record<string, string>} asked as for explain */
export async function propose(asked) {
  let found;
  try {
    found = await get("/policies/proposals", asked);
  } catch (error) {
    toast("bad", said(error));
    return;
  }
  const mayChange = session.may("write", "policies");
  const what = `${asked["action"]} ${asked["topic"] ?? ""}`;
  if (found.allowed) {
    tell("Allowed already", h("p", {}, found.reason));
    return;
  }
  tell(
    "Allow this",
    h("p", {}, h("b", {}, what), " by ", h("b", {}, asked["user"] || asked["client"] || "anonymous clients")),
    h("p", { class: "hint" }, found.reason),
    found.proposals.length ? null : h("p", { class: "empty" }, "There is no simple change that would allow it."),
    found.proposals.map((/** @type {any} */ each) =>
      h(
        "div",
        { class: "card proposal" },
        h("p", {}, h("b", {}, each.summary), " ", each.allows ? null : badge("warn", "not enough alone")),
        each.add.map((/** @type {string[]} */ row) => h("p", {}, "+ ", rule(row))),
        each.remove.map((/** @type {string} */ id) => h("p", { class: "rule" }, `− ${id}`)),
        h("details", { open: true }, h("summary", {}, "What it would change"), dryRunOf(each.dry_run)),
        mayChange ? button("Apply…", { onclick: (/** @type {Event} */ event) => void apply(each, what, event) }) : null,
      ),
    ),
  );
}

/** @param {any} proposal @param {string} what @param {Event} event */
async function apply(proposal, what, event) {
  const dialog = event.target instanceof Element ? event.target.closest("dialog") : null;
  const done = await changeRules("Apply this change of the rules?", { add: proposal.add, remove: proposal.remove }, { dryRun: proposal.dry_run, note: `allows ${what}`.slice(0, 200) });
  if (done) dialog?.close();
}
