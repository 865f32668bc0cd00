// Roles: what they inherit, who has them, and what rules say of them.

import { call, get } from "../../app/api.js";
import { button, checkbox, facts, field, fill, h, plainTable } from "../../app/dom.js";
import { ask } from "../../app/dialog.js";
import { count } from "../../app/format.js";
import { link } from "../../app/router.js";
import { session } from "../../app/session.js";
import { limitPairs, pairLines, rule, words } from "./parts.js";

/** @param {HTMLElement} root @param {import("../../types").PageContext} context */
export async function mount(root, { signal }) {
  const list = h("div", { class: "card" });
  const detail = h("div", { "aria-live": "polite" });
  const mayChange = session.may("write", "roles");

  const draw = async () => {
    const found = await get("/roles", {}, signal);
    fill(
      list,
      plainTable(
        "Roles",
        ["Role", "Inherits", "Rules", "Limits", "Note"],
        found.roles.map((/** @type {any} */ each) => [
          button(each.name, { class: "link", onclick: () => void show(each.name) }),
          each.parents.join(", "),
          count(each.rules),
          pairLines(each.limits).replaceAll("\n", ", "),
          each.version ? each.note : h("span", { class: "soft" }, "only rules name it"),
        ]),
        { numeric: [2], empty: "There are none." },
      ),
    );
  };
  const show = async (/** @type {string} */ name) => {
    const found = await get("/role", { name }, signal).catch(() => null);
    fill(detail, found ? detailOf(found, mayChange, () => void draw().then(() => show(name))) : null);
  };
  fill(root, mayChange ? h("div", { class: "tools" }, button("Add a role…", { class: "main", onclick: () => void edit(null).then(draw) })) : null, list, detail);
  await draw();
}

/** @param {any} found @param {boolean} mayChange @param {() => void} again */
function detailOf(found, mayChange, again) {
  const { role } = found;
  return h(
    "section",
    { class: "card detail", "aria-label": `Role ${role.name}` },
    h(
      "div",
      { class: "tools" },
      h("h2", { class: "wrap" }, role.name),
      h("span", { class: "grow" }),
      mayChange && role.version ? button("Change…", { onclick: () => void edit(role).then(again) }) : null,
      mayChange ? button("Delete…", { class: "danger", onclick: () => void remove(role).then(again) }) : null,
    ),
    facts([
      ["Inherits, with all above", found.all_parents.join(", ") || "nothing"],
      ["Users that were given it", count(found.user_count)],
      ["Some of them", found.users.length && session.may("read", "users") ? h("a", { href: link("access/users", { role: role.name }) }, found.users.slice(0, 10).join(", ")) : found.users.slice(0, 10).join(", ") || "–"],
      ["Limits", pairLines(role.limits).replaceAll("\n", ", ") || "none of its own"],
    ]),
    h("h3", {}, "Rules that name it"),
    plainTable("Rules that name it", ["Rule", "Note"], found.rules.map((/** @type {any} */ each) => [rule(each.row), each.note]), { empty: "None." }),
  );
}

/** A new one, or one that is there. @param {any | null} role */
function edit(role) {
  const name = h("input", { required: true, autocomplete: "off" });
  const parents = h("input", { ".value": role?.parents.join(", ") ?? "" });
  const limits = h("textarea", { rows: "2", ".value": pairLines(role?.limits ?? {}) });
  const note = h("input", { ".value": role?.note ?? "" });
  const values = () => ({ parents: words(parents.value), limits: limitPairs(limits.value), note: note.value });
  return ask({
    title: role ? `Change ${role.name}` : "Add a role",
    fields: [role ? null : field("Name", name), field("Inherits from", parents, "Names of roles, with commas between."), field("Limits", limits, "NAME=VALUE, one a line, by the names of [limits]."), field("Note", note)],
    action: role ? "Save" : "Add",
    done: role ? "The role was changed." : "The role was added.",
    run: (reason) => (role ? call("PATCH", "/role", { query: { name: role.name }, body: values(), ifMatch: role.version, reason }) : call("POST", "/roles", { body: { name: name.value, ...values() }, reason })),
  });
}

/** @param {any} role */
function remove(role) {
  const cascade = h("input");
  return ask({
    title: `Delete the role ${role.name}?`,
    fields: [checkbox("Also take it from all who have it, and remove the rules about it", cascade)],
    action: "Delete",
    danger: true,
    done: "The role was deleted.",
    run: (reason) => call("DELETE", "/role", { query: { name: role.name, cascade: cascade.checked || undefined }, reason }),
  });
}
