// What is around each page: name of the node, navigation, state of the connection, messages.

import { call, get, said } from "./api.js";
import { button, fill, h, setText } from "./dom.js";
import { clock } from "./format.js";
import { live } from "./live.js";
import { link, pages } from "./router.js";
import { session } from "./session.js";
import { toggleTheme } from "./theme.js";

const TOAST_MS = 8000;

/** What `ready` of the live numbers means, if it is not "ready". @type {Record<string, string>} */
const NOT_READY = {
  starting: "The broker is starting.",
  stopping: "The broker is stopping.",
  leaving: "The node is leaving its cluster.",
  closed: "No listener is open: nobody can connect.",
  store: "The store fails: nothing new is kept.",
  cluster: "The node has not joined its cluster yet.",
  overloaded: "The broker is overloaded: it takes no new clients for now.",
};

export class Shell {
  main = h("main", { id: "main", tabindex: "-1" });
  #nav = h("nav", { id: "nav", "aria-label": "Pages" });
  #banner = h("div", { class: "banners", role: "status", "aria-live": "polite" });
  #node = h("span", { class: "node" });
  #state = h("span", { class: "state" });
  #menu = button("Menu", { class: "menu quiet", "aria-expanded": "false", "aria-controls": "nav" });
  #abort = new AbortController();
  #bannerText = "";

  /** @param {HTMLElement} body */
  constructor(body) {
    const { signal } = this.#abort;
    this.#menu.addEventListener("click", () => this.#open(this.#menu.getAttribute("aria-expanded") !== "true"));
    this.#nav.addEventListener("keydown", (event) => event.key === "Escape" && this.#leaveMenu());
    this.#menu.addEventListener("keydown", (event) => event.key === "Escape" && this.#leaveMenu());
    body.replaceChildren(
      h("a", { class: "skip", href: "#main", onclick: (/** @type {Event} */ event) => this.#skip(event) }, "Skip to the page"),
      h(
        "header",
        { class: "top" },
        this.#menu,
        h("a", { class: "brand", href: "#/" }, h("img", { src: "/icon.svg", alt: "", width: "22", height: "22" }), "mhub"),
        this.#node,
        this.#state,
        h("span", { class: "grow" }),
        button("Light or dark", { class: "quiet theme", title: "Light or dark", onclick: toggleTheme }),
        h("a", { class: "who", href: "#/account", title: "Account" }, session.who?.user ?? ""),
        button("Log out", { class: "quiet logout", onclick: () => void logout() }),
      ),
      h("div", { class: "frame" }, this.#nav, h("div", { class: "content" }, this.#banner, this.main)),
      toasts,
    );
    live.addEventListener("state", () => this.#status(), { signal });
    live.addEventListener("tick", () => this.#status(), { signal });
    const timer = setInterval(() => this.#status(), 1000);
    signal.addEventListener("abort", () => clearInterval(timer));
    this.#status();
  }

  close() {
    this.#abort.abort();
  }

  /** @param {string} current */
  navigate(current) {
    const marked = current === "client" ? "clients" : current;
    fill(
      this.#nav,
      h(
        "ul",
        {},
        pages()
          .filter((page) => !page.hidden)
          .map((page) =>
            h(
              "li",
              {},
              h("a", { href: link(page.name), "aria-current": page.name === marked ? "page" : null }, page.title),
            ),
          ),
      ),
    );
    this.#open(false);
  }

  /** @param {Event} event */
  #skip(event) {
    event.preventDefault();
    this.main.focus();
  }

  /** On a phone. @param {boolean} isOpen */
  #open(isOpen) {
    this.#menu.setAttribute("aria-expanded", String(isOpen));
    this.#nav.classList.toggle("open", isOpen);
  }

  #leaveMenu() {
    if (this.#menu.getAttribute("aria-expanded") !== "true") return;
    this.#open(false);
    this.#menu.focus();
  }

  #status() {
    const now = live.now;
    setText(this.#node, now?.node ? `node ${now.node}` : "");
    const isLost = live.state === "lost";
    const isReady = now !== null && now.ready === "ready";
    const text = isLost ? "no connection" : now === null ? "" : isReady ? "running" : now.ready;
    setText(this.#state, text);
    this.#state.className = `state ${isLost ? "bad" : now === null ? "" : isReady ? "ok" : "warn"}`;
    this.#showBanners([...banners()]);
  }

  /** @param {Array<[kind: string, text: string]>} found */
  #showBanners(found) {
    const text = JSON.stringify(found);
    if (text === this.#bannerText) return;
    this.#bannerText = text;
    fill(
      this.#banner,
      found.map(([kind, words]) => h("p", { class: `banner ${kind}` }, words)),
    );
  }
}

/** What everybody has to know, whichever page is shown. @returns {Iterable<[string, string]>} */
function* banners() {
  const now = live.now;
  if (live.state === "lost") {
    const since = live.heardAt ? ` since ${clock(live.heardAt / 1000)}` : "";
    const who = now?.node ? `Node ${now.node}` : "The broker";
    yield ["bad", `${who} has not answered${since}. What you see is from before; trying again.`];
    return;
  }
  if (now === null) return;
  if (now.ready !== "ready") yield ["bad", NOT_READY[now.ready] ?? `The broker is not ready: ${now.ready}.`];
  if (now.store_state.startsWith("failing") && now.ready !== "store") yield ["bad", `The store is ${now.store_state}.`];
  for (const each of now.links) {
    if (each.state !== "up") yield ["warn", `Node ${each.node} is ${each.state === "down" ? "down" : `not linked (${each.state})`}.`];
  }
}

async function logout() {
  try {
    await call("POST", "/logout");
    session.end();
  } catch (error) {
    toast("bad", said(error));
  }
}

const toasts = h("div", { class: "toasts", role: "status", "aria-live": "polite" });

/** A message that goes by itself. @param {"ok" | "bad"} kind @param {string} text */
export function toast(kind, text) {
  const close = button("Close", { class: "quiet", onclick: () => made.remove() });
  const made = h("div", { class: `toast ${kind}` }, h("span", {}, text), close);
  toasts.append(made);
  while (toasts.children.length > 4) toasts.firstChild?.remove();
  setTimeout(() => made.remove(), kind === "bad" ? 2 * TOAST_MS : TOAST_MS);
}

/** When the session is over without a request, this tab shall know. */
export function watchSession() {
  let timer = 0;
  const plan = () => {
    clearTimeout(timer);
    const ends = session.who?.ends_at;
    if (!ends) return;
    const waitMs = Math.min(Math.max(1000, ends * 1000 - Date.now() + 1000), 2 ** 31 - 1);
    timer = setTimeout(async () => {
      try {
        session.set(await get("/session"));
      } catch {
        // A 401 has shown the login by now; all else is tried again.
      }
      plan();
    }, waitMs);
  };
  session.addEventListener("change", plan);
  plan();
}
