// What has to be asked for again and again, while its page is shown and can be seen.

import { isAbort } from "./api.js";

/**
 * Calls `ask` at once, and again `ms` after each answer, until the page goes.
 *
 * @param {number} ms
 * @param {AbortSignal} signal
 * @param {() => Promise<unknown>} ask
 */
export function poll(ms, signal, ask) {
  let timer = 0;
  let isAsking = false;
  const now = async () => {
    clearTimeout(timer);
    if (signal.aborted || isAsking) return;
    isAsking = true;
    try {
      if (!document.hidden) await ask();
    } catch (error) {
      if (!isAbort(error)) console.warn(error);
    }
    isAsking = false;
    timer = setTimeout(() => void now(), ms);
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  document.addEventListener("visibilitychange", () => void now(), { signal });
  const first = now();
  return { now: () => void now(), first };
}
