// Which page is shown: `#/NAME/REST?QUERY`. Pages are modules that are loaded when they are first shown.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { session } from "./session.js";

/** @typedef {import("../types").PageModule} PageModule */

/**
 * @typedef {object} Page
 * @property {string} name
 * @property {string} title
 * @property {string[]} needs resources of which one has to be readable; none: everybody may see it
 * @property {() => Promise<PageModule>} load
 * @property {boolean} [hidden] it is not in the navigation
 */

/** @type {Page[]} */
const OWN = [
  { name: "overview", title: "Overview", needs: ["stats"], load: () => import("../pages/overview.js") },
  { name: "clients", title: "Clients", needs: ["clients"], load: () => import("../pages/clients.js") },
  { name: "client", title: "Client", needs: ["clients"], load: () => import("../pages/client.js"), hidden: true },
  { name: "topics", title: "Topics", needs: ["stats", "retained"], load: () => import("../pages/topics.js") },
  {
    name: "subscriptions",
    title: "Subscriptions",
    needs: ["subscriptions"],
    load: () => import("../pages/subscriptions.js"),
  },
  {
    name: "access",
    title: "Access",
    needs: ["users", "roles", "policies", "bans", "tokens"],
    load: () => import("../pages/access.js"),
  },
  { name: "cluster", title: "Cluster", needs: ["cluster"], load: () => import("../pages/cluster.js") },
  { name: "console", title: "MQTT console", needs: [], load: () => import("../pages/console.js") },
  {
    name: "configuration",
    title: "Configuration",
    needs: ["configuration", "listeners"],
    load: () => import("../pages/configuration.js"),
  },
  { name: "log", title: "Log", needs: ["log", "stats"], load: () => import("../pages/log.js") },
  { name: "account", title: "Account", needs: [], load: () => import("../pages/account.js") },
];

/** Those of plugins. @type {Page[]} */
let added = [];

export async function loadPlugins() {
  added = [];
  try {
    const found = await get("/plugins");
    for (const each of found.plugins ?? found) {
      if (!each.script || !String(each.script).startsWith("/")) continue;
      added.push({
        name: `x/${each.name}`,
        title: each.title || each.name,
        needs: [`x/${each.name}`],
        load: () => pluginPage(String(each.script), each.title || each.name),
      });
    }
  } catch {
    // A broker without plugins, or one who may not see them.
  }
}

/**
 * The page of a plugin, `mount(element, api)`: `api.get(path, query)` and `api.call(method, path, options)` ask the
 * broker as its own pages do, `api.signal` is aborted when the page goes.
 *
 * @param {string} script
 * @param {string} title
 */
async function pluginPage(script, title) {
  const [module, api] = await Promise.all([import(script), import("./api.js")]);
  return {
    /** @param {HTMLElement} element @param {import("../types").PageContext} context */
    mount: (element, context) => {
      const body = h("div");
      fill(element, h("h1", { tabindex: "-1" }, title), body);
      return module.mount(body, { get: api.get, call: api.call, session, ...context });
    },
  };
}

/** All that whoever is logged in may see. */
export function pages() {
  return [...OWN, ...added].filter(
    (page) => !page.needs.length || page.needs.some((resource) => session.may("read", resource)),
  );
}

export function place() {
  const text = location.hash.replace(/^#\/?/, "");
  const [path, query] = text.split(/\?(.*)/s, 2);
  const parts = (path ?? "").split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query ?? "") };
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} path @param {Record<string, string>} [query] */
export function link(path, query) {
  const text = new URLSearchParams(query ?? {}).toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

/** @param {string} path @param {Record<string, string>} [query] */
export function go(path, query) {
  location.hash = link(path, query);
}

/** Another query for the page as it is, without showing it anew. @param {Record<string, string>} query */
export function note(query) {
  const kept = Object.fromEntries(Object.entries(query).filter(([, value]) => value));
  const { parts } = place();
  history.replaceState(null, "", link(parts.map(encodeURIComponent).join("/"), kept));
}

/** @type {AbortController | null} */
let shown = null;

/** What is shown ends. */
export function leave() {
  shown?.abort(new DOMException("the page has gone", "AbortError"));
  shown = null;
}

/**
 * Show what the hash says.
 *
 * @param {HTMLElement} main
 * @param {(name: string) => void} onShown
 */
export async function show(main, onShown) {
  const { parts, query } = place();
  const known = pages();
  const name = parts[0] === "x" ? `x/${parts[1]}` : (parts[0] ?? known.find((page) => !page.hidden)?.name ?? "account");
  const page = known.find((each) => each.name === name);
  leave();
  const controller = new AbortController();
  shown = controller;
  const { signal } = controller;
  onShown(name);
  document.title = `${page?.title ?? "Not found"} – mhub`;
  const root = h("div", { class: "page", "data-page": name });
  if (!page) {
    fill(root, h("h1", { tabindex: "-1" }, "Nothing here"), h("p", {}, "There is no such page, or you may not see it."));
    main.replaceChildren(root);
  } else {
    try {
      const module = await page.load();
      if (signal.aborted) return;
      main.replaceChildren(root);
      await module.mount(root, { path: parts.slice(name.startsWith("x/") ? 2 : 1), query, signal });
    } catch (error) {
      if (signal.aborted) return;
      console.error(error);
      fill(
        root,
        h("h1", { tabindex: "-1" }, page.title),
        h("p", { class: "problem", role: "alert" }, `This page could not be shown: ${error instanceof Error ? error.message : error}`),
      );
      main.replaceChildren(root);
    }
  }
  if (!signal.aborted && shouldFocus) root.querySelector("h1")?.focus({ preventScroll: true });
  shouldFocus = true;
  root.dataset.ready = "";
}

// Not for the first page: whoever opens the dashboard begins at its top.
let shouldFocus = false;
