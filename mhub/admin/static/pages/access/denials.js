// What was denied lately, with a way to allow it.

import { get } from "../../app/api.js";
import { badge, button, fill, h, plainTable } from "../../app/dom.js";
import { clock, count, when } from "../../app/format.js";
import { poll } from "../../app/poll.js";
import { link } from "../../app/router.js";
import { session } from "../../app/session.js";
import { propose } from "./propose.js";

/** @param {HTMLElement} root @param {import("../../types").PageContext} context */
export async function mount(root, { signal }) {
  const body = h("div", { class: "card" });
  fill(root, h("p", { class: "hint" }, "At this node, the last ones first. Denials of the same kind are counted together."), body);
  let shown = "";
  const seesRules = session.may("read", "policies");
  const seesClients = session.may("read", "clients");
  const polling = poll(2000, signal, async () => {
    const found = await get("/denials", { limit: 100 }, signal);
    const text = JSON.stringify(found);
    if (text === shown || body.contains(document.activeElement)) return; // Rows shall not move under a finger.
    shown = text;
    fill(
      body,
      plainTable(
        "Recent denials",
        ["Last", "What", "Topic", "Client", "User", "Rule", "Times", ""],
        found.denials.map((/** @type {any} */ each) => {
          const asked = { action: each.action, topic: each.topic, user: each.user, client: each.client_id, anonymous: each.user ? "" : "true" };
          return [
            h("span", { title: when(each.last_at) }, clock(each.last_at)),
            badge("bad", each.action),
            h("span", { class: "mono" }, each.topic),
            seesClients ? h("a", { href: link("client", { id: each.client_id }) }, each.client_id) : each.client_id,
            each.user || h("span", { class: "soft" }, "none"),
            each.rule,
            count(each.count),
            seesRules && each.topic
              ? h("div", { class: "actions" }, h("a", { href: link("access/explain", asked) }, "Explain"), button("Allow this…", { class: "small", onclick: () => void propose(asked) }))
              : "",
          ];
        }),
        { numeric: [6], empty: "Nothing was denied lately." },
      ),
    );
  });
  await polling.first;
}
