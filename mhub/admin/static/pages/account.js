// Who one is, what one may, and another password.

import { call, said } from "../app/api.js";
import { card, facts, field, fill, h } from "../app/dom.js";
import { when } from "../app/format.js";
import { session } from "../app/session.js";
import { toast } from "../app/shell.js";

/** @param {HTMLElement} root */
export function mount(root) {
  const who = session.who;
  if (!who) return;
  fill(
    root,
    h("h1", { tabindex: "-1" }, "Account"),
    h(
      "div",
      { class: "grid" },
      card(
        "You",
        facts([
          ["User", who.user],
          ["Roles of the login", who.roles.join(", ") || "none"],
          ["Session ends", who.ends_at ? `${when(who.ends_at)}, if you do nothing` : "–"],
          ["May see", who.read.join(", ") || "nothing"],
          ["May change", who.write.join(", ") || "nothing"],
        ]),
      ),
      card("Change your password", passwordForm()),
    ),
  );
}

function passwordForm() {
  const current = h("input", { type: "password", autocomplete: "current-password", required: true });
  const wanted = h("input", { type: "password", autocomplete: "new-password", required: true, minlength: "8" });
  const again = h("input", { type: "password", autocomplete: "new-password", required: true });
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h(
    "form",
    {},
    h("input", { type: "text", autocomplete: "username", hidden: true, ".value": session.who?.user ?? "" }),
    field("The password as it is", current),
    field("The new password", wanted, "At least 8 characters. Your other sessions end."),
    field("The new password again", again),
    problem,
    h("button", { class: "main", type: "submit" }, "Change the password"),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.textContent = "";
    if (wanted.value !== again.value) {
      problem.textContent = "The two new passwords are not the same.";
      again.focus();
      return;
    }
    try {
      session.set(await call("PUT", "/session/password", { body: { current: current.value, new: wanted.value } }));
      form.reset();
      toast("ok", "You have a new password.");
    } catch (error) {
      problem.textContent = said(error);
    }
  });
  return form;
}
