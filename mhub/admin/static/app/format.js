// Numbers, times and bytes as people read them.

const NUMBER = new Intl.NumberFormat("en");
const MEASURES = ["", "k", "M", "G", "T"];

/** A count, in full. @param {number | null | undefined} value */
export function count(value) {
  return value === null || value === undefined ? "–" : NUMBER.format(value);
}

/** A count that has little room. @param {number | null | undefined} value */
export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  let rest = Math.abs(value);
  let at = 0;
  while (rest >= 9999.5 && at < MEASURES.length - 1) {
    rest /= 1000;
    at += 1;
  }
  const digits = rest >= 100 || (at === 0 && Number.isInteger(rest)) ? 0 : rest >= 10 ? 1 : 2;
  const text = at === 0 && rest >= 1000 ? NUMBER.format(Math.round(rest)) : trimmed(rest.toFixed(digits));
  return (value < 0 ? "-" : "") + text + MEASURES[at];
}

/** @param {string} text */
function trimmed(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let rest = value;
  let at = 0;
  while (rest >= 1000 && at < units.length - 1) {
    rest /= 1024;
    at += 1;
  }
  return `${trimmed(rest.toFixed(at === 0 || rest >= 100 ? 0 : 1))} ${units[at]}`;
}

/** @param {number | null | undefined} value */
export function rate(value) {
  return value === null || value === undefined ? "–" : `${short(Math.round(value * 100) / 100)}/s`;
}

/** @param {number | null | undefined} value */
export function byteRate(value) {
  return value === null || value === undefined ? "–" : `${bytes(Math.round(value))}/s`;
}

/** A short time. @param {number | null | undefined} seconds */
export function delay(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${trimmed((seconds * 1000).toFixed(seconds < 0.01 ? 2 : 0))} ms`;
  return duration(seconds);
}

/** @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** @param {number} value @param {number} [width] */
function two(value, width = 2) {
  return String(value).padStart(width, "0");
}

/** The time of day, of today. @param {number | null | undefined} unix @param {boolean} [withMs] */
export function clock(unix, withMs) {
  if (unix === null || unix === undefined) return "–";
  const at = new Date(unix * 1000);
  const text = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return withMs ? `${text}.${two(at.getMilliseconds(), 3)}` : text;
}

/** Date and time. @param {number | null | undefined} unix */
export function when(unix) {
  if (unix === null || unix === undefined || unix === 0) return "–";
  const at = new Date(unix * 1000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(unix)}`;
}

/** How long ago. @param {number | null | undefined} unix */
export function ago(unix) {
  if (unix === null || unix === undefined) return "–";
  const seconds = Date.now() / 1000 - unix;
  return seconds < 2 ? "just now" : `${duration(seconds)} ago`;
}

/** Text that an operator can see in full: control characters would hide what is there.
 * @param {string} text */
export function visible(text) {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** @param {string} text base64 */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}

/** Bytes as hex and characters, 16 a line. @param {Uint8Array} data @param {number} [most] bytes */
export function hexDump(data, most = 4096) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, most); at += 16) {
    const part = [...data.subarray(at, Math.min(at + 16, most))];
    const hex = part.map((byte) => two(/** @type {any} */ (byte.toString(16)))).join(" ");
    const text = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  if (data.length > most) lines.push(`… ${count(data.length - most)} more bytes`);
  return lines.join("\n");
}

/** Bytes as text, or null if they are not text that can be shown. @param {Uint8Array} data */
export function asText(data) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(data);
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** A payload as it reads best: JSON indented, text as it is, all else as hex.
 * @param {Uint8Array} data @param {"auto" | "text" | "hex"} [how] */
export function payload(data, how = "auto") {
  if (how === "hex") return hexDump(data);
  const text = asText(data);
  if (text === null) return how === "text" ? new TextDecoder().decode(data) : hexDump(data);
  if (how === "auto" && /^\s*[[{]/.test(text) && text.length < 100_000) {
    try {
      return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // It only looks like JSON.
    }
  }
  return text;
}
