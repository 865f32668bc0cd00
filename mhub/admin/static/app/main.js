// The beginning: who is it, then the page that the address names.

import { ApiError, get, isAbort, said } from "./api.js";
import { h } from "./dom.js";
import { live } from "./live.js";
import { showLogin } from "./login.js";
import { leave, loadPlugins, show } from "./router.js";
import { session } from "./session.js";
import { Shell, toast, watchSession } from "./shell.js";
import { applyTheme } from "./theme.js";

/** @type {Shell | null} */
let shell = null;
let shownUser = "";

function onSession() {
  shell?.close();
  shell = null;
  leave();
  document.querySelectorAll("dialog").forEach((dialog) => dialog.remove());
  const who = session.who;
  if (!who) {
    live.stop();
    showLogin(document.body);
    return;
  }
  // Another person begins at the beginning: where the last one was may be of no use to this one.
  if (shownUser && shownUser !== who.user) history.replaceState(null, "", "#/");
  shownUser = who.user;
  shell = new Shell(document.body);
  if (session.may("read", "stats")) live.start();
  onPage();
  // Its pages may come a moment later; nothing has to wait for them.
  void loadPlugins().then(() => {
    if (location.hash.startsWith("#/x/")) onPage();
    else shell?.navigate(currentName);
  });
}

let currentName = "";

function onPage() {
  if (!shell) return;
  const { main } = shell;
  void show(main, (name) => {
    currentName = name;
    shell?.navigate(name);
  });
}

/** What nobody waited for: an answer for a page that has gone is no matter, one that fails is said.
 * @param {PromiseRejectionEvent} event */
function onRejection(event) {
  const error = event.reason;
  if (!isAbort(error) && !(error instanceof ApiError)) return;
  event.preventDefault();
  if (error instanceof ApiError && error.status !== 401) toast("bad", said(error));
}

/** Who the cookie of this browser stands for. */
async function load() {
  try {
    session.set(await get("/session"));
    return true;
  } catch (error) {
    return error instanceof ApiError && error.status === 401 ? false : error;
  }
}

async function begin() {
  applyTheme();
  const found = await load();
  if (found instanceof Error) {
    document.body.replaceChildren(
      h("main", { class: "login" }, h("p", { class: "problem", role: "alert" }, `${found.message} Trying again.`)),
    );
    setTimeout(() => void begin(), 3000);
    return;
  }
  session.addEventListener("change", onSession);
  session.addEventListener("elsewhere", () => void load());
  addEventListener("hashchange", onPage);
  addEventListener("unhandledrejection", onRejection);
  watchSession();
  onSession();
}

void begin();
