// Bans, and who is locked out after failed logins.

import { call, get } from "../../app/api.js";
import { button, card, field, fill, h, plainTable, select } from "../../app/dom.js";
import { ask, askAndCall } from "../../app/dialog.js";
import { when } from "../../app/format.js";
import { session } from "../../app/session.js";

/** @param {HTMLElement} root @param {import("../../types").PageContext} context */
export async function mount(root, { signal }) {
  const bans = h("div");
  const lockouts = h("div");
  const mayChange = session.may("write", "bans");
  const draw = async () => {
    const [banned, lockedOut] = await Promise.all([get("/bans", { limit: 1000 }, signal), get("/lockouts", { limit: 1000 }, signal)]);
    fill(bans, listOf("Bans", "/ban", "Remove", banned, mayChange, draw));
    fill(lockouts, listOf("Lock-outs", "/lockout", "End", lockedOut, mayChange, draw));
  };
  fill(
    root,
    mayChange ? h("div", { class: "tools" }, button("Ban…", { class: "main", onclick: () => void ban().then(draw) })) : null,
    card("Bans", bans),
    card("Locked out after failed logins", lockouts),
  );
  await draw();
}

/** @param {string} title @param {string} path @param {string} verb @param {any} found @param {boolean} mayChange @param {() => Promise<void>} again */
function listOf(title, path, verb, found, mayChange, again) {
  return [
    plainTable(
      title,
      ["Kind", "Who", "Reason", "Until", "By", "Since", ""],
      found.bans.map((/** @type {any} */ each) => [
        each.kind,
        h("b", { class: "wrap" }, each.value),
        each.reason,
        each.until ? when(each.until) : "for ever",
        each.by,
        when(each.created_at),
        mayChange
          ? button(`${verb}…`, {
              class: "small",
              "aria-label": `${verb}: ${each.kind} ${each.value}`,
              onclick: () => void askAndCall({ title: `Let ${each.value} in again?`, action: verb, done: "Done." }, "DELETE", path, { query: { kind: each.kind, value: each.value } }).then(again),
            })
          : "",
      ]),
      { empty: "There are none." },
    ),
    found.next ? h("p", { class: "hint" }, "There are more.") : null,
  ];
}

function ban() {
  const kind = select([["user", "user"], ["client", "client id"], ["address", "address or network"]]);
  const value = h("input", { required: true, autocomplete: "off" });
  const hours = select([["1", "an hour"], ["24", "a day"], ["168", "a week"], ["0", "for ever"]]);
  return ask({
    title: "Keep somebody out",
    text: "Clients that it is about are disconnected.",
    fields: [h("div", { class: "columns" }, field("What", kind), field("Who", value), field("For", hours))],
    action: "Ban",
    danger: true,
    done: "The ban is in force.",
    run: (reason) => call("POST", "/bans", { body: { kind: kind.value, value: value.value, until: Number(hours.value) ? Date.now() / 1000 + Number(hours.value) * 3600 : 0, why: reason }, reason }),
  });
}
