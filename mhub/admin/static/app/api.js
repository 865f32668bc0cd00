// The admin API, as pages use it.
//
// - A 401 ends the session of this tab, and the login is shown.
// - 429, 503 and a network that fails are tried again, quietly and ever more slowly, for what only
//   reads; a change is tried again after a 429 only, as that was certainly not done.
// - Changes carry the second secret of the session, and a reason if there is one.

import { session } from "./session.js";

/** @typedef {Record<string, string | number | boolean | null | undefined | string[]>} Query */

/**
 * @typedef {object} Options
 * @property {Query} [query]
 * @property {unknown} [body] sent as JSON
 * @property {string} [text] sent as it is
 * @property {string} [type] of the text
 * @property {string} [reason] why a change is made
 * @property {string} [ifMatch] the version that the caller has seen
 * @property {AbortSignal} [signal]
 * @property {number} [tries]
 */

export const BASE = "/admin/v1";
const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 5000;

export class ApiError extends Error {
  /** @param {number} status 0: no answer @param {string} title @param {string} detail */
  constructor(status, title, detail) {
    super(detail || title);
    this.status = status;
    this.title = title;
  }
}

/** @param {string} path @param {Query} [query] */
export function address(path, query) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === null || value === undefined || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) found.append(name, String(each));
  }
  const text = found.toString();
  return (path.startsWith("/admin/") ? path : BASE + path) + (text ? `?${text}` : "");
}

/** @param {string} path @param {Query} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
export function get(path, query, signal) {
  return call("GET", path, { query, signal });
}

/**
 * Any request; the answer is JSON as an object, other text as a string, or null.
 *
 * @param {string} method
 * @param {string} path behind /admin/v1; or from the root, as those of plugins, which begin with /admin/
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, options = {}) {
  const reads = method === "GET";
  const tries = options.tries ?? (reads ? 4 : 3);
  let wait = FIRST_WAIT_MS;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await once(method, path, options);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 401 && path !== "/login") session.lost();
      const again = error.status === 429 || (reads && (error.status === 503 || error.status === 0));
      if (!again || attempt >= tries) throw error;
      await pause(wait * (0.75 + Math.random() / 2), options.signal);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    }
  }
}

/** @param {string} method @param {string} path @param {Options} options @param {boolean} [isSecond] @returns {Promise<any>} */
async function once(method, path, options, isSecond) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (method !== "GET" && session.who) headers["X-CSRF-Token"] = session.who.csrf;
  if (options.ifMatch) headers["If-Match"] = `"${options.ifMatch}"`;
  let body;
  if (options.text !== undefined) {
    headers["Content-Type"] = options.type ?? "text/plain";
    body = options.text;
  } else if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(options.body);
  }
  const query = { ...options.query, reason: options.reason };
  let response;
  try {
    response = await fetch(address(path, query), {
      method,
      headers,
      body,
      signal: options.signal,
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "No answer", "The broker does not answer. It may be down, or the network is.");
  }
  if (response.ok) return answerOf(response);
  const problem = await problemOf(response);
  if (response.status === 403 && method !== "GET" && !isSecond && problem.message.includes("X-CSRF-Token")) {
    // Another tab has logged in again meanwhile: this is the same person with a new session.
    session.set(await once("GET", "/session", {}));
    return once(method, path, options, true);
  }
  throw problem;
}

/** @param {Response} response */
async function answerOf(response) {
  if (response.status === 204) return null;
  const type = response.headers.get("Content-Type") ?? "";
  return type.includes("json") ? response.json() : response.text();
}

/** @param {Response} response */
async function problemOf(response) {
  let title = `Status ${response.status}`;
  let detail = "";
  try {
    const found = await response.json();
    title = String(found.title ?? title);
    detail = String(found.detail ?? "");
  } catch {
    // Something between here and the broker has answered.
  }
  return new ApiError(response.status, title, detail);
}

/** @param {number} ms @param {AbortSignal} [signal] @returns {Promise<void>} */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

/** What went wrong, as one sentence for people. @param {unknown} error */
export function said(error) {
  if (error instanceof ApiError) return error.message;
  return error instanceof Error ? error.message : String(error);
}

/** Whether it is only that somebody has gone elsewhere. @param {unknown} error */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}
