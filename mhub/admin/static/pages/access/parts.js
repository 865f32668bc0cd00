// What the pages about access have in common.

import { h } from "../../app/dom.js";

/** A row of the policy, as the file has it. @param {string[]} row */
export function rowText(row) {
  return row.map((part) => (/[",\s]/.test(part) ? `"${part.replaceAll('"', '""')}"` : part)).join(", ");
}

/** @param {string[]} row */
export function rule(row) {
  return h("span", { class: "rule" }, rowText(row));
}

/** Names with commas between, as people type them. @param {string} text */
export function words(text) {
  return text.split(/[,\s]+/).map((each) => each.trim()).filter(Boolean);
}

/** Lines with NAME=VALUE. @param {string} text @returns {Record<string, string>} */
export function pairs(text) {
  /** @type {Record<string, string>} */
  const found = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf("=");
    if (!line.trim()) continue;
    if (at < 1) throw new Error(`Expected NAME=VALUE on each line, found: ${line}`);
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

/** @param {Record<string, unknown>} found */
export function pairLines(found) {
  return Object.entries(found).map(([name, value]) => `${name}=${value}`).join("\n");
}

/** The same with numbers where they are some. @param {string} text @returns {Record<string, string | number>} */
export function limitPairs(text) {
  return Object.fromEntries(Object.entries(pairs(text)).map(([name, value]) => [name, /^\d+(\.\d+)?$/.test(value) ? Number(value) : value]));
}

/**
 * Fields of a CSV line, as docs/policy.md writes rules.
 *
 * @param {string} line
 * @returns {string[]}
 */
export function csvFields(line) {
  /** @type {string[]} */
  const found = [];
  let rest = line;
  for (;;) {
    rest = rest.trimStart();
    const quoted = /^"((?:[^"]|"")*)"\s*(,|$)/.exec(rest);
    const match = quoted ?? /^([^,]*)(,|$)/.exec(rest);
    if (!match) throw new Error(`This is no line of a CSV file: ${line}`);
    found.push(quoted ? (match[1] ?? "").replaceAll('""', '"') : (match[1] ?? "").trim());
    rest = rest.slice(match[0].length);
    if (match[2] !== ",") return found;
  }
}
