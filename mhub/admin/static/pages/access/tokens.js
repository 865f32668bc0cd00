// API tokens, for programs.

import { call, get } from "../../app/api.js";
import { badge, button, field, fill, h, plainTable, select } from "../../app/dom.js";
import { ask, askAndCall, tell } from "../../app/dialog.js";
import { when } from "../../app/format.js";
import { session } from "../../app/session.js";
import { words } from "./parts.js";

/** @param {HTMLElement} root @param {import("../../types").PageContext} context */
export async function mount(root, { signal }) {
  const list = h("div", { class: "card" });
  const mayChange = session.may("write", "tokens");
  const draw = async () => {
    const found = await get("/tokens", { limit: 1000 }, signal);
    fill(
      list,
      plainTable(
        "API tokens",
        ["Name", "Scopes", "Roles", "Expires", "Last used here", "Made", ""],
        found.tokens.map((/** @type {any} */ each) => [
          [h("b", {}, each.name), each.note ? h("div", { class: "hint" }, each.note) : null],
          h("span", { class: "mono" }, each.scopes.join(", ")),
          each.roles.join(", "),
          each.is_expired ? badge("bad", "expired") : each.expires_at ? when(each.expires_at) : "never",
          each.last_used_at ? when(each.last_used_at) : "–",
          `${when(each.created_at)} by ${each.created_by || "local"}`,
          mayChange ? button("Revoke…", { class: "small", "aria-label": `Revoke the token ${each.name}`, onclick: () => void revoke(each).then(draw) }) : "",
        ]),
        { empty: "There are none." },
      ),
    );
  };
  fill(root, mayChange ? h("div", { class: "tools" }, button("Make a token…", { class: "main", onclick: () => void make().then(draw) })) : null, list);
  await draw();
}

/** @param {any} token */
function revoke(token) {
  return askAndCall({ title: `Revoke the token ${token.name}?`, text: "Programs that use it are refused from now on.", action: "Revoke", danger: true, done: "The token is revoked." }, "DELETE", "/token", { query: { id: token.id } });
}

async function make() {
  const name = h("input", { required: true, autocomplete: "off", pattern: "[A-Za-z0-9._\\-]+" });
  const scopes = h("input", { required: true, ".value": "read", class: "mono" });
  const roles = h("input", { autocomplete: "off" });
  const days = select([["30", "30 days"], ["90", "90 days"], ["365", "a year"], ["0", "never"]]);
  const note = h("input", { autocomplete: "off" });
  let secret = "";
  await ask({
    title: "Make a token",
    text: "It may do what its scopes and the rules for its roles allow both. No token can manage users, roles, rules, tokens or the configuration.",
    fields: [
      h("div", { class: "columns" }, field("Name", name, "Letters, digits and . _ -"), field("Expires after", days)),
      field("Scopes", scopes, "read, write, read:RESOURCE, write:RESOURCE, mqtt, metrics; with commas between."),
      field("Roles", roles, "With commas between."),
      field("Note", note),
    ],
    action: "Make",
    run: async (reason) => {
      const expires = Number(days.value) ? Date.now() / 1000 + Number(days.value) * 86400 : 0;
      const made = await call("POST", "/tokens", { body: { name: name.value, scopes: words(scopes.value), roles: words(roles.value), expires_at: expires, note: note.value }, reason });
      secret = made.token;
    },
  });
  if (!secret) return;
  const shown = h("input", { readonly: true, class: "mono", ".value": secret });
  tell("The token", h("p", {}, "It is shown this once: keep it where your program finds it."), field("Token", shown), button("Copy", { onclick: () => void navigator.clipboard?.writeText(secret) }));
  shown.select();
}
