// The configuration in force, a check of a changed one, the reload, and the listeners.

import { ApiError, call, get, said } from "../app/api.js";
import { badge, button, card, checkbox, field, fill, h, plainTable } from "../app/dom.js";
import { ask, askAndCall } from "../app/dialog.js";
import { count, when } from "../app/format.js";
import { session } from "../app/session.js";

/** @param {HTMLElement} root @param {import("../types").PageContext} context */
export async function mount(root, { signal }) {
  const listeners = h("div");
  const result = h("div", { role: "status", "aria-live": "polite" });
  const shown = h("div");
  const seesListeners = session.may("read", "listeners");
  const seesAll = session.may("read", "configuration");

  const drawListeners = async () => {
    if (seesListeners) fill(listeners, listenersOf(await get("/listeners", {}, signal), () => void drawListeners()));
  };
  const draw = async () => {
    if (seesAll) fill(shown, ...shownOf(await get("/configuration", {}, signal)));
  };
  fill(
    root,
    h("h1", { tabindex: "-1" }, "Configuration"),
    seesListeners ? card("Listeners", listeners) : null,
    seesAll
      ? [
          session.may("write", "configuration")
            ? card(
                "Reload",
                h("p", { class: "hint" }, "The file is checked as a whole, and applied as a whole or not at all, as by SIGHUP."),
                button("Reload the file…", { onclick: () => void reload(result, () => Promise.all([draw(), drawListeners()])) }),
                result,
              )
            : null,
          card("Check a configuration", checkForm()),
          card("In force", shown),
        ]
      : null,
  );
  await Promise.all([drawListeners(), draw()]);
}

/** @param {any[]} found @param {() => void} again */
function listenersOf(found, again) {
  const mayChange = session.may("write", "listeners");
  return plainTable(
    "Listeners",
    ["Name", "State", "Address", "Connections", "Certificate until", ""],
    found.map((each) => [
      each.name,
      badge(each.state === "open" ? "ok" : "warn", each.state),
      h("span", { class: "mono" }, each.address),
      each.max_connections ? `${count(each.connections)} of ${count(each.max_connections)}` : count(each.connections),
      each.certificate_expires_at ? when(each.certificate_expires_at) : "no TLS",
      mayChange
        ? button(each.state === "open" ? "Close…" : "Open…", {
            class: "small",
            "aria-label": `${each.state === "open" ? "Close" : "Open"} the listener ${each.name}`,
            onclick: () => void change(each).then(again),
          })
        : "",
    ]),
    { numeric: [3], empty: "There are none." },
  );
}

/** @param {any} listener */
function change(listener) {
  if (listener.state !== "open") {
    return askAndCall(
      { title: `Open the listener ${listener.name}?`, text: `Clients can connect at ${listener.address} again.`, action: "Open", done: "The listener is open." },
      "POST",
      "/listener/open",
      { body: { name: listener.name } },
    );
  }
  const disconnect = h("input");
  return ask({
    title: `Close the listener ${listener.name}?`,
    text: "No new client can connect there, until it is opened again, its settings change, or the broker is restarted.",
    fields: [checkbox("Disconnect the clients that came by it", disconnect)],
    action: "Close",
    danger: true,
    done: "The listener is closed.",
    run: (reason) => call("POST", "/listener/close", { body: { name: listener.name, disconnect: disconnect.checked }, reason }),
  });
}

/** @param {HTMLElement} result @param {() => Promise<unknown>} again */
async function reload(result, again) {
  /** @type {any} */
  let answer = null;
  const done = await ask({
    title: "Reload the configuration?",
    text: "What the file says now comes into force, as far as it can without a restart.",
    action: "Reload",
    run: async (reason) => {
      try {
        answer = await call("POST", "/configuration/reload", { reason });
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 409) throw error;
        answer = { refused: said(error) };
      }
    },
  });
  if (!done || !answer) return;
  fill(result, reloadedOf(answer));
  await again();
}

/** @param {any} answer */
function reloadedOf(answer) {
  if (answer.refused) return [h("p", {}, badge("bad", "refused"), " Nothing was changed."), h("pre", { class: "payload" }, answer.refused)];
  return [
    h("p", {}, badge("ok", "done"), ` ${answer.file}`),
    keys("In force now", answer.in_force, "Nothing has changed."),
    keys("Needs a restart", answer.needs_restart),
    keys("Warnings", answer.warnings),
  ];
}

/** @param {string} title @param {string[]} found @param {string} [empty] */
function keys(title, found, empty) {
  if (!found?.length) return empty ? h("p", { class: "empty" }, empty) : null;
  return [h("h3", {}, title), h("ul", { class: "changes" }, found.map((each) => h("li", { class: "mono" }, each)))];
}

function checkForm() {
  const text = h("textarea", { rows: "6", spellcheck: "false", placeholder: '[[listeners]]\nport = 1883\n…' });
  const result = h("div", { role: "status", "aria-live": "polite" });
  const check = async () => {
    try {
      const found = await call("POST", "/configuration/check", { body: { text: text.value } });
      fill(result, checkedOf(found));
    } catch (error) {
      fill(result, h("p", { class: "problem" }, said(error)));
    }
  };
  return [field("TOML", text, "Nothing is applied; files that it names are not looked at."), button("Check", { onclick: () => void check() }), result];
}

/** @param {any} found */
function checkedOf(found) {
  const problems = found.problems.map((/** @type {any} */ each) => `${each.line ? `line ${each.line}: ` : ""}${each.key ? `${each.key}: ` : ""}${each.text}`);
  return [
    h("p", {}, problems.length ? badge("bad", "a broker would not start with it") : badge("ok", "nothing is wrong with it")),
    keys("Problems", problems),
    keys("Warnings", found.warnings),
    keys("Other than in force", found.changed),
    keys("Of these, a restart is needed for", found.needs_restart),
  ];
}

/** @param {any} found */
function shownOf(found) {
  const { settings, lines, needs_restart: restart } = found;
  return [
    h("p", {}, found.file ? h("code", { class: "wrap" }, found.file) : "There is no file."),
    keys("In the file, and needs a restart", restart),
    ...Object.entries(settings).map(([name, table]) => tableOf(name, table, lines)),
  ];
}

/** @param {string} name @param {any} found @param {Record<string, number>} lines */
function tableOf(name, found, lines) {
  const parts = Array.isArray(found) ? found.map((each, at) => /** @type {[string, any]} */ ([`${name}[${at}]`, each])) : [/** @type {[string, any]} */ ([name, found])];
  return parts.map(([path, one]) => {
    const rows = one && typeof one === "object" && !Array.isArray(one) ? flat(one, path) : [/** @type {[string, any]} */ ([path, one])];
    const set = rows.filter(([key]) => key in lines);
    return h(
      "details",
      { open: set.length > 0 },
      h("summary", {}, h("b", { class: "mono" }, path), " ", h("span", { class: "soft" }, set.length ? `${set.length} set in the file` : "defaults")),
      plainTable(
        path,
        ["Key", "Value", "Line"],
        rows.map(([key, value]) => [h("span", { class: "mono" }, key.slice(path.length + 1) || key), h("span", { class: "mono wrap" }, JSON.stringify(value)), lines[key] ?? ""]),
        { numeric: [2] },
      ),
    );
  });
}

/** Tables in tables, as keys with dots. @param {Record<string, any>} found @param {string} path @returns {Array<[string, any]>} */
function flat(found, path) {
  return Object.entries(found).flatMap(([key, value]) =>
    value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length ? flat(value, `${path}.${key}`) : [/** @type {[string, any]} */ ([`${path}.${key}`, value])],
  );
}
