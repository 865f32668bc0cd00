// Dialogs: a question before a change is made, with the reason for it where the broker wants one.

import { call, isAbort, said } from "./api.js";
import { button, field, fill, h, uniqueId } from "./dom.js";
import { session } from "./session.js";
import { toast } from "./shell.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * @typedef {object} Question
 * @property {string} title
 * @property {Child} [text]
 * @property {Child[]} [fields] of the form
 * @property {string} action what the button says
 * @property {boolean} [danger] it cannot be undone
 * @property {boolean} [asksReason] unless it is false, there is a field for the reason
 * @property {(reason: string, form: HTMLFormElement) => Promise<unknown>} run the change; what it raises is shown
 * @property {string} [done] what is said afterwards
 */

/**
 * Ask, do it, and say how it went. True: it was done.
 *
 * @param {Question} question
 * @returns {Promise<boolean>}
 */
export function ask(question) {
  const id = uniqueId("dialog");
  const mustSay = session.who?.require_reason ?? false;
  const reason = h("input", { name: "reason", maxlength: "1000", required: mustSay, autocomplete: "off" });
  const problem = h("p", { class: "problem", role: "alert" });
  const submit = h("button", { type: "submit", class: question.danger ? "danger" : "main" }, question.action);
  const cancel = button("Cancel", { class: "quiet" });
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id }, question.title),
    question.text ? h("div", { class: "text" }, question.text) : null,
    question.fields ?? [],
    question.asksReason === false ? null : field(mustSay ? "Reason" : "Reason (optional)", reason, "Kept with the change."),
    problem,
    h("div", { class: "buttons" }, cancel, submit),
  );
  const dialog = h("dialog", { "aria-labelledby": id }, form);
  const before = document.activeElement;
  return new Promise((resolve) => {
    let isDone = false;
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      resolve(isDone);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      problem.textContent = "";
      submit.disabled = true;
      try {
        await question.run(reason.value.trim(), form);
        isDone = true;
        dialog.close();
        if (question.done) toast("ok", question.done);
      } catch (error) {
        if (!isAbort(error)) problem.textContent = said(error);
      } finally {
        submit.disabled = false;
      }
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * A change by one request, after a question.
 *
 * @param {Omit<Question, "run">} question
 * @param {string} method
 * @param {string} path
 * @param {import("./api.js").Options | (() => import("./api.js").Options)} options
 */
export function askAndCall(question, method, path, options) {
  return ask({
    ...question,
    run: (reason) => call(method, path, { ...(typeof options === "function" ? options() : options), reason }),
  });
}

/**
 * Something to read and to keep, as a token that is shown once.
 *
 * @param {string} title
 * @param {...Child} children
 */
export function tell(title, ...children) {
  const id = uniqueId("dialog");
  const dialog = h("dialog", { "aria-labelledby": id, onclose: () => dialog.remove() });
  fill(
    dialog,
    h("h2", { id }, title),
    children,
    h("div", { class: "buttons" }, button("Close", { class: "main", onclick: () => dialog.close() })),
  );
  document.body.append(dialog);
  dialog.showModal();
}
