// Who is logged in, in this tab and in all others of the same browser.
//
//   unknown --load()--> in | out        login() -> in, logout() -> out, a 401 anywhere -> out
//
// The cookie is the browser's and scripts cannot read it; so tabs tell each other that something has
// changed, and each of them asks the broker what it is now.

/** @typedef {import("../types").Whoami} Whoami */

const tabs = new BroadcastChannel("mhub-session");

export class Session extends EventTarget {
  /** @type {Whoami | null} */
  who = null;

  /** Why nobody is logged in, for the page of the login; "": nobody was. */
  note = "";

  constructor() {
    super();
    tabs.onmessage = (message) => this.#told(message.data);
  }

  /** @param {Whoami} who */
  set(who) {
    const before = this.who;
    this.who = who;
    this.note = "";
    if (!before || before.user !== who.user || rightsOf(before) !== rightsOf(who)) this.#changed();
  }

  /** @param {Whoami} who */
  begin(who) {
    this.set(who);
    tabs.postMessage("login");
  }

  /** The owner has ended it. */
  end() {
    this.#out("");
    tabs.postMessage("logout");
  }

  /** The broker does not know it any more. */
  lost() {
    if (this.who) this.#out("Your session has ended. Log in to go on where you were.");
  }

  /** @param {"read" | "write"} verb @param {string} resource */
  may(verb, resource) {
    return this.who !== null && this.who[verb].includes(resource);
  }

  /** @param {string} note */
  #out(note) {
    this.who = null;
    this.note = note;
    this.#changed();
  }

  /** @param {unknown} what */
  #told(what) {
    if (what === "logout" && this.who) this.#out("You have logged out in another tab.");
    if (what === "login") this.dispatchEvent(new Event("elsewhere"));
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

/** @param {Whoami} who */
function rightsOf(who) {
  return JSON.stringify([who.read, who.write, who.require_reason]);
}

export const session = new Session();
