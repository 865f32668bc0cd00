// The login, in the place of everything else. The address stays, so that one gets to where one was.

import { ApiError, call, said } from "./api.js";
import { field, h } from "./dom.js";
import { session } from "./session.js";

/** @param {HTMLElement} body */
export function showLogin(body) {
  const user = h("input", { name: "user", autocomplete: "username", required: true, autocapitalize: "none", spellcheck: "false" });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const problem = h("p", { class: "problem", role: "alert" });
  const submit = h("button", { class: "main", type: "submit" }, "Log in");

  const login = async () => {
    problem.textContent = "";
    submit.disabled = true;
    try {
      session.begin(await call("POST", "/login", { body: { user: user.value, password: password.value } }));
    } catch (error) {
      problem.textContent = sentence(error);
      password.value = "";
      password.focus();
    } finally {
      submit.disabled = false;
    }
  };

  document.title = "Log in – mhub";
  body.replaceChildren(
    h(
      "main",
      { id: "main", class: "login" },
      h(
        "form",
        {
          class: "card",
          "aria-label": "Log in",
          onsubmit: (/** @type {Event} */ event) => {
            event.preventDefault();
            void login();
          },
        },
        h("h1", {}, h("img", { src: "/icon.svg", alt: "", width: "28", height: "28" }), "mhub"),
        session.note ? h("p", { class: "hint", role: "status" }, session.note) : null,
        field("User", user),
        field("Password", password),
        problem,
        submit,
      ),
    ),
  );
  user.focus();
}

/** @param {unknown} error */
function sentence(error) {
  const text = said(error);
  if (error instanceof ApiError && error.status === 401) return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
  return text;
}
