// Who may do what: users, roles, rules, explanations, bans, tokens, and what was denied lately.

import { fill, h } from "../app/dom.js";
import { session } from "../app/session.js";
import { tabs } from "../app/tabs.js";

/** @typedef {import("../types").PageModule} PageModule */

/** @type {Array<{ name: string, title: string, needs: string, load: () => Promise<PageModule> }>} */
const PARTS = [
  { name: "users", title: "Users", needs: "users", load: () => import("./access/users.js") },
  { name: "roles", title: "Roles", needs: "roles", load: () => import("./access/roles.js") },
  { name: "policies", title: "Policies", needs: "policies", load: () => import("./access/policies.js") },
  { name: "explain", title: "Explain", needs: "policies", load: () => import("./access/explain.js") },
  { name: "denials", title: "Recent denials", needs: "stats", load: () => import("./access/denials.js") },
  { name: "bans", title: "Bans", needs: "bans", load: () => import("./access/bans.js") },
  { name: "tokens", title: "Tokens", needs: "tokens", load: () => import("./access/tokens.js") },
];

/** @param {HTMLElement} root @param {import("../types").PageContext} context */
export async function mount(root, context) {
  const parts = PARTS.filter((part) => session.may("read", part.needs));
  const current = parts.find((part) => part.name === (context.path[0] ?? parts[0]?.name));
  const body = h("div");
  const links = parts.map((part) => /** @type {[string, string]} */ ([part.name, part.title]));
  fill(root, h("h1", { tabindex: "-1" }, "Access"), tabs("Access", "access", links, current?.name ?? ""), body);
  if (!current) {
    fill(body, h("p", { class: "empty" }, "There is no such page, or you may not see it."));
    return;
  }
  const module = await current.load();
  await module.mount(body, context);
}
