// A change of rules: what it would do is shown first, and it is made only then.

import { call } from "../../app/api.js";
import { badge, h, plainTable } from "../../app/dom.js";
import { ask } from "../../app/dialog.js";

/**
 * @typedef {object} Change
 * @property {string[][]} add rows
 * @property {string[]} remove ids
 */

/** What a dry run says. @param {any} found */
export function dryRunOf(found) {
  const nothing = !found.people.length && !found.clients.length;
  return [
    rows("plus", "+ ", found.added, found.more_added),
    rows("minus", "− ", found.removed, found.more_removed),
    found.unchanged ? h("p", { class: "hint" }, `${found.unchanged} rules are there already.`) : null,
    nothing ? h("p", { class: "empty" }, "Nobody may do more or less by it.") : null,
    found.people.map(peopleOf),
    found.more_people ? h("p", { class: "hint" }, `… and ${found.more_people} more groups of people.`) : null,
    found.clients.length
      ? [
          h("h3", {}, "Clients that lose subscriptions"),
          plainTable(
            "Clients that lose subscriptions",
            ["Client", "User", "Filters"],
            found.clients.map((/** @type {any} */ each) => [each.client_id, each.user, h("span", { class: "mono" }, each.filters.join(", ") + (each.more ? ` and ${each.more} more` : ""))]),
          ),
          found.more_clients ? h("p", { class: "hint" }, `… and ${found.more_clients} more clients.`) : null,
        ]
      : null,
    found.notes.map((/** @type {string} */ note) => h("p", { class: "hint" }, note)),
  ];
}

/** @param {string} kind @param {string} sign @param {string[]} found @param {number} more */
function rows(kind, sign, found, more) {
  if (!found.length) return null;
  return h(
    "ul",
    { class: "changes" },
    found.map((each) => h("li", { class: `${kind} rule` }, sign + each)),
    more ? h("li", { class: "soft" }, `… ${more} more`) : null,
  );
}

/** @param {any} each */
function peopleOf(each) {
  const who = each.who.join(", ") + (each.more_who ? ` and ${each.more_who} more` : "");
  const users = each.users ? ` (${each.users} ${each.users === 1 ? "user" : "users"})` : "";
  return h(
    "div",
    {},
    h("h3", {}, who + users),
    h("ul", { class: "changes" }, each.gained.map((/** @type {any} */ right) => rightOf("ok", "may now", right)), each.lost.map((/** @type {any} */ right) => rightOf("bad", "may no longer", right))),
    each.more ? h("p", { class: "hint" }, `… and ${each.more} more.`) : null,
  );
}

/** @param {"ok" | "bad"} kind @param {string} verb @param {any} right */
function rightOf(kind, verb, right) {
  const except = right.exceptions.length ? `, except ${right.exceptions.join(", ")}${right.more_exceptions ? ` and ${right.more_exceptions} more` : ""}` : "";
  const condition = right.condition && right.condition !== "any" ? ` if ${right.condition}` : "";
  return h("li", {}, badge(kind, `${verb} ${right.action}`), " ", h("code", {}, right.topics), `${condition}${except}`);
}

/**
 * Show what a change would do, and make it if it is confirmed.
 *
 * @param {string} title
 * @param {Change} change
 * @param {{ dryRun?: any, note?: string }} [known]
 */
export async function changeRules(title, change, known) {
  const found = known?.dryRun ?? (await call("POST", "/policies/dry-run", { body: change }));
  return ask({
    title,
    text: h("div", { class: "dry-run" }, h("p", { class: "hint" }, "This is what would change:"), dryRunOf(found)),
    action: "Apply",
    danger: found.people.some((/** @type {any} */ each) => each.lost.length) || found.clients.length > 0,
    done: "The rules are in force.",
    // Whoever changes rules meanwhile makes this dry run untrue: then the broker refuses.
    run: (reason) => call("POST", "/policies/change", { body: { ...change, note: known?.note ?? "" }, ifMatch: found.revision, reason }),
  });
}
