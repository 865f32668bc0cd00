// Users of the registry.

import { call, get } from "../../app/api.js";
import { badge, button, facts, field, fill, h, plainTable } from "../../app/dom.js";
import { ask, askAndCall } from "../../app/dialog.js";
import { count, when } from "../../app/format.js";
import { note } from "../../app/router.js";
import { session } from "../../app/session.js";
import { table } from "../../app/table.js";
import { pattern, wide } from "../clients.js";
import { limitPairs, pairLines, pairs, rule, words } from "./parts.js";

/** @param {HTMLElement} root @param {import("../../types").PageContext} context */
export function mount(root, { query, signal }) {
  const match = h("input", { type: "search", ".value": query.get("match") ?? "", placeholder: "part of it, or a pattern with * and ?" });
  const role = h("input", { type: "search", ".value": query.get("role") ?? "", placeholder: "exactly" });
  const detail = h("div", { "aria-live": "polite" });
  const list = table({
    label: "Users",
    key: (/** @type {any} */ one) => one.name,
    empty: "No user fits.",
    columns: [
      { title: "Name", class: "col-big", cell: (one) => button(one.name, { class: "link", onclick: () => void show(one.name) }) },
      { title: "Roles", class: "col-big", cell: (one) => one.roles.join(", ") },
      { title: "State", class: "col-small", cell: (one) => (one.locked ? badge("bad", "locked") : one.has_password || one.has_scram ? badge("ok", "active") : badge("off", "no password")) },
      { title: "Tenant", class: "col-mid", only: "middle", cell: (one) => one.tenant },
      { title: "Made", class: "col-when", only: "wide", cell: (one) => when(one.created_at) },
      { title: "Note", class: "col-mid", only: "wide", cell: (one) => h("span", { title: one.note }, one.note) },
    ],
    load: async (cursor, _sort, abort) => {
      const found = await get("/users", { match: pattern(match.value), role: role.value.trim(), cursor, limit: 200 }, abort);
      return { items: found.users, next: found.next };
    },
  });
  list.classList.add("low");
  const again = () => void list.reload(true);
  const show = async (/** @type {string} */ name) => {
    const found = await get("/user", { name }, signal).catch(() => null);
    if (!found) fill(detail);
    else fill(detail, detailOf(found, () => {
      again();
      void show(name);
    }));
  };
  let typing = 0;
  for (const each of [match, role]) {
    each.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        note({ match: match.value, role: role.value });
        void list.reload();
      }, 250);
    });
  }
  signal.addEventListener("abort", () => clearTimeout(typing));
  fill(
    root,
    h(
      "div",
      { class: "tools" },
      wide(field("Name", match)),
      field("Role", role),
      session.may("write", "users") ? button("Add a user…", { class: "main", onclick: () => void add().then(again) }) : null,
    ),
    list,
    detail,
  );
  void list.reload();
  if (query.get("match")) void show(query.get("match") ?? "");
}

/** @param {any} [user] */
function fieldsOf(user) {
  const roles = h("input", { ".value": user?.roles.join(", ") ?? "", autocomplete: "off" });
  const tenant = h("input", { ".value": user?.tenant ?? "", autocomplete: "off" });
  const attributes = h("textarea", { rows: "2", ".value": pairLines(user?.attributes ?? {}) });
  const limits = h("textarea", { rows: "2", ".value": pairLines(user?.limits ?? {}) });
  const text = h("input", { ".value": user?.note ?? "", autocomplete: "off" });
  return {
    fields: [
      h("div", { class: "columns" }, field("Roles", roles, "With commas between."), field("Tenant", tenant)),
      field("Attributes", attributes, "NAME=VALUE, one a line; rules have them as %{NAME}."),
      field("Limits", limits, "NAME=VALUE, one a line, by the names of [limits]."),
      field("Note", text),
    ],
    values: () => ({ roles: words(roles.value), tenant: tenant.value.trim(), attributes: pairs(attributes.value), limits: limitPairs(limits.value), note: text.value }),
  };
}

function add() {
  const name = h("input", { required: true, autocomplete: "off", autocapitalize: "none" });
  const password = h("input", { type: "password", autocomplete: "new-password" });
  const more = fieldsOf();
  return ask({
    title: "Add a user",
    fields: [h("div", { class: "columns" }, field("Name", name), field("Password", password, "Without one, nobody can log in by password.")), ...more.fields],
    action: "Add",
    done: "The user was added.",
    run: async (reason) => {
      const body = Object.fromEntries(Object.entries({ name: name.value, password: password.value, ...more.values() }).filter(([, value]) => value && Object.keys(value).length));
      await call("POST", "/users", { body, reason });
    },
  });
}

/** @param {any} found @param {() => void} again */
function detailOf(found, again) {
  const { user } = found;
  const mayChange = session.may("write", "users");
  return h(
    "section",
    { class: "card detail", "aria-label": `User ${user.name}` },
    h(
      "div",
      { class: "tools" },
      h("h2", { class: "wrap" }, user.name),
      user.locked ? badge("bad", "locked") : null,
      h("span", { class: "grow" }),
      mayChange ? actions(user, again) : null,
    ),
    facts([
      ["Roles", user.roles.join(", ") || "none"],
      ["All roles, with inherited ones", found.all_roles.join(", ") || "none"],
      ["Tenant", user.tenant || "none"],
      ["Attributes", pairLines(user.attributes).replaceAll("\n", ", ") || "none"],
      ["Limits", pairLines(user.limits).replaceAll("\n", ", ") || "none of its own"],
      ["Password", user.has_password ? (user.has_scram ? "yes, also for SCRAM" : "yes") : "none"],
      ["Made", when(user.created_at)],
      ["Note", user.note || "–"],
    ]),
    found.bans.length ? h("p", { class: "problem" }, `Banned or locked out: ${found.bans.map((/** @type {any} */ ban) => ban.reason || ban.what).join(", ")}.`) : null,
    h("h3", {}, `Rules that name it (${count(found.rules.length)})`),
    plainTable("Rules that name it", ["Rule", "Note"], found.rules.map((/** @type {any} */ each) => [rule(each.row), each.note]), { empty: "None." }),
  );
}

/** @param {any} user @param {() => void} again */
function actions(user, again) {
  const change = () => {
    const more = fieldsOf(user);
    return ask({
      title: `Change ${user.name}`,
      fields: more.fields,
      action: "Save",
      done: "The user was changed.",
      run: (reason) => call("PATCH", "/user", { query: { name: user.name }, body: more.values(), ifMatch: user.version, reason }),
    });
  };
  const password = () => {
    const wanted = h("input", { type: "password", autocomplete: "new-password", required: true });
    return ask({
      title: `A new password for ${user.name}`,
      fields: [field("Password", wanted)],
      action: "Set",
      done: "The user has a new password.",
      run: (reason) => call("PUT", "/user/password", { query: { name: user.name }, body: { password: wanted.value }, reason }),
    });
  };
  const lock = () =>
    askAndCall(
      user.locked
        ? { title: `Let ${user.name} in again?`, text: "Lock-outs after failed logins end as well.", action: "Unlock", done: "The user may log in." }
        : { title: `Lock ${user.name}?`, text: "It is disconnected, and cannot log in until it is unlocked.", action: "Lock", danger: true, done: "The user is locked." },
      "PUT",
      "/user/lock",
      { query: { name: user.name }, body: { locked: !user.locked } },
    );
  const remove = () =>
    askAndCall(
      { title: `Delete ${user.name}?`, text: "The rules about it go with it. Its clients are disconnected, and their sessions end.", action: "Delete", danger: true, done: "The user was deleted." },
      "DELETE",
      "/user",
      { query: { name: user.name } },
    );
  return h(
    "div",
    { class: "actions" },
    button("Change…", { onclick: () => void change().then(again) }),
    button("Password…", { onclick: () => void password().then(again) }),
    button(user.locked ? "Unlock…" : "Lock…", { onclick: () => void lock().then(again) }),
    button("Delete…", { class: "danger", onclick: () => void remove().then(again) }),
  );
}
