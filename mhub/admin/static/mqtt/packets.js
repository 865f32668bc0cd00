// Packets of MQTT 5.0, as far as a console needs them: bytes to send, and bytes that came as objects.
// What properties a packet of the broker has is skipped, but for those that are shown.

export const CONNECT = 1;
export const CONNACK = 2;
export const PUBLISH = 3;
export const PUBACK = 4;
export const PUBREC = 5;
export const PUBREL = 6;
export const PUBCOMP = 7;
export const SUBSCRIBE = 8;
export const SUBACK = 9;
export const UNSUBSCRIBE = 10;
export const UNSUBACK = 11;
export const PINGREQ = 12;
export const PINGRESP = 13;
export const DISCONNECT = 14;

/** @type {Record<number, string>} */
export const REASONS = {
  0x04: "disconnected with its will",
  0x10: "no subscribers",
  0x11: "there was no such subscription",
  0x80: "unspecified error",
  0x81: "malformed packet",
  0x82: "protocol error",
  0x83: "implementation specific error",
  0x84: "this version of MQTT is not supported",
  0x85: "the client id is not valid",
  0x86: "bad user name or password",
  0x87: "not authorized",
  0x88: "the server is not available",
  0x89: "the server is busy",
  0x8a: "banned",
  0x8b: "the server is stopping",
  0x8d: "keep alive timeout",
  0x8e: "another connection has taken the session over",
  0x8f: "the topic filter is invalid",
  0x90: "the topic is invalid",
  0x91: "packet identifier in use",
  0x93: "receive maximum exceeded",
  0x95: "the packet is too large",
  0x96: "message rate too high",
  0x97: "quota exceeded",
  0x98: "an administrator has ended the connection",
  0x99: "the payload is not what it is said to be",
  0x9a: "retained messages are not supported",
  0x9b: "this QoS is not supported",
  0x9c: "use another server",
  0x9d: "the server has moved",
  0x9e: "shared subscriptions are not supported",
  0x9f: "connection rate exceeded",
  0xa0: "the connection has lasted as long as it may",
  0xa2: "wildcards are not supported",
};

/** @param {number} code @param {string} [text] what the broker says of it, if that is more than its name */
export function reasonText(code, text = "") {
  const name = REASONS[code] ?? "refused";
  return `${name} (0x${code.toString(16).padStart(2, "0")})${text && text !== name ? `: ${text}` : ""}`;
}

const utf8 = new TextEncoder();

/** @param {number} value */
function varint(value) {
  const found = [];
  do {
    found.push((value % 128) | (value >= 128 ? 128 : 0));
    value = Math.floor(value / 128);
  } while (value > 0);
  return found;
}

/** @param {number} value */
const two = (value) => [value >> 8, value & 255];

/** @param {Uint8Array | string} value */
function prefixed(value) {
  const data = typeof value === "string" ? utf8.encode(value) : value;
  if (data.length > 65535) throw new Error("A text of MQTT has at most 65,535 bytes");
  return [...two(data.length), ...data];
}

/** @param {number} kind @param {number} flags @param {number[]} head @param {Uint8Array} [rest] */
function packet(kind, flags, head, rest = new Uint8Array()) {
  const start = [(kind << 4) | flags, ...varint(head.length + rest.length), ...head];
  const found = new Uint8Array(start.length + rest.length);
  found.set(start);
  found.set(rest, start.length);
  return found;
}

/** @param {{ clientId: string, user: string, password: string, keepAliveS: number }} options */
export function connect({ clientId, user, password, keepAliveS }) {
  const flags = 0x02 | (user ? 0x80 : 0) | (password ? 0x40 : 0); // Clean Start
  const head = [...prefixed("MQTT"), 5, flags, ...two(keepAliveS), 0, ...prefixed(clientId)];
  if (user) head.push(...prefixed(user));
  if (password) head.push(...prefixed(password));
  return packet(CONNECT, 0, head);
}

/** @param {{ topic: string, payload: Uint8Array, qos: number, retain: boolean, id: number }} message */
export function publish({ topic, payload, qos, retain, id }) {
  const head = [...prefixed(topic), ...(qos ? two(id) : []), 0];
  return packet(PUBLISH, (qos << 1) | (retain ? 1 : 0), head, payload);
}

/** @param {number} kind PUBACK, PUBREC, PUBREL or PUBCOMP @param {number} id */
export function acknowledge(kind, id) {
  return packet(kind, kind === PUBREL ? 2 : 0, two(id));
}

/** @param {number} id @param {string} filter @param {number} qos */
export function subscribe(id, filter, qos) {
  return packet(SUBSCRIBE, 2, [...two(id), 0, ...prefixed(filter), qos]);
}

/** @param {number} id @param {string} filter */
export function unsubscribe(id, filter) {
  return packet(UNSUBSCRIBE, 2, [...two(id), 0, ...prefixed(filter)]);
}

export const ping = () => packet(PINGREQ, 0, []);
export const disconnect = () => packet(DISCONNECT, 0, []);

/**
 * @typedef {object} Packet
 * @property {number} kind
 * @property {number} id
 * @property {number} reason
 * @property {string} text the Reason String
 * @property {number[]} reasons
 * @property {boolean} present Session Present
 * @property {string} assigned the client id that the broker has chosen
 * @property {string} topic
 * @property {Uint8Array} payload
 * @property {number} qos
 * @property {boolean} retain
 * @property {boolean} dup
 * @property {string} contentType
 */

/** Reads numbers and texts one after the other; what is cut off is an error. */
class Reader {
  /** @param {Uint8Array} data */
  constructor(data) {
    this.data = data;
    this.at = 0;
  }

  byte() {
    const value = this.data[this.at];
    if (value === undefined) throw new Error("The broker has sent a packet that is too short");
    this.at += 1;
    return value;
  }

  two() {
    return this.byte() * 256 + this.byte();
  }

  varint() {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = this.byte();
      value += (byte & 127) * shift;
      if (byte < 128) return value;
      if (shift > 128 ** 3) throw new Error("The broker has sent a length that is too long");
    }
  }

  /** @param {number} length */
  bytes(length) {
    if (this.at + length > this.data.length) throw new Error("The broker has sent a packet that is too short");
    this.at += length;
    return this.data.subarray(this.at - length, this.at);
  }

  text() {
    return new TextDecoder().decode(this.bytes(this.two()));
  }

  get left() {
    return this.data.length - this.at;
  }
}

// How long the value of each property is; "t" is a text or bytes, "p" a pair of texts, "v" a variable byte integer.
/** @type {Record<number, number | "t" | "p" | "v">} */
const PROPERTIES = {
  0x01: 1, 0x02: 4, 0x03: "t", 0x08: "t", 0x09: "t", 0x0b: "v", 0x11: 4, 0x12: "t", 0x13: 2, 0x15: "t", 0x16: "t",
  0x17: 1, 0x18: 4, 0x19: 1, 0x1a: "t", 0x1c: "t", 0x1f: "t", 0x21: 2, 0x22: 2, 0x23: 2, 0x24: 1, 0x25: 1, 0x26: "p",
  0x27: 4, 0x28: 1, 0x29: 1, 0x2a: 1,
};

/** @param {Reader} reader @param {Packet} found */
function properties(reader, found) {
  const part = new Reader(reader.bytes(reader.varint()));
  while (part.left) {
    const name = part.varint();
    const kind = PROPERTIES[name];
    if (kind === "t") {
      const text = part.text();
      if (name === 0x1f) found.text = text;
      if (name === 0x12) found.assigned = text;
      if (name === 0x03) found.contentType = text;
    } else if (kind === "p") {
      part.text();
      part.text();
    } else if (kind === "v") part.varint();
    else if (kind !== undefined) part.bytes(kind);
    else throw new Error(`The broker has sent an unknown property ${name}`);
  }
}

/** Takes bytes as they come, and gives whole packets. */
export class Decoder {
  #data = new Uint8Array();

  /** @param {Uint8Array} more @returns {Packet[]} */
  feed(more) {
    const joined = new Uint8Array(this.#data.length + more.length);
    joined.set(this.#data);
    joined.set(more, this.#data.length);
    this.#data = joined;
    /** @type {Packet[]} */
    const found = [];
    for (;;) {
      const size = this.#sizeOfFirst();
      if (size === null) return found;
      found.push(decode(this.#data.slice(0, size)));
      this.#data = this.#data.slice(size);
    }
  }

  /** How long the first packet is; null: it is not there yet. */
  #sizeOfFirst() {
    let length = 0;
    for (let at = 1; at < 5; at += 1) {
      const byte = this.#data[at];
      if (byte === undefined) return null;
      length += (byte & 127) * 128 ** (at - 1);
      if (byte < 128) return this.#data.length >= at + 1 + length ? at + 1 + length : null;
    }
    throw new Error("The broker has sent a length that is too long");
  }
}

/** @param {Uint8Array} data one packet */
function decode(data) {
  const reader = new Reader(data);
  const first = reader.byte();
  reader.varint();
  /** @type {Packet} */
  const found = {
    kind: first >> 4, id: 0, reason: 0, text: "", reasons: [], present: false, assigned: "", topic: "",
    payload: new Uint8Array(), qos: 0, retain: false, dup: false, contentType: "",
  };
  switch (found.kind) {
    case CONNACK:
      found.present = (reader.byte() & 1) === 1;
      found.reason = reader.byte();
      if (reader.left) properties(reader, found);
      break;
    case PUBLISH:
      found.qos = (first >> 1) & 3;
      found.retain = (first & 1) === 1;
      found.dup = (first & 8) === 8;
      found.topic = reader.text();
      if (found.qos) found.id = reader.two();
      properties(reader, found);
      found.payload = reader.bytes(reader.left).slice();
      break;
    case PUBACK:
    case PUBREC:
    case PUBREL:
    case PUBCOMP:
      found.id = reader.two();
      if (reader.left) found.reason = reader.byte();
      if (reader.left) properties(reader, found);
      break;
    case SUBACK:
    case UNSUBACK:
      found.id = reader.two();
      properties(reader, found);
      found.reasons = [...reader.bytes(reader.left)];
      break;
    case DISCONNECT:
      if (reader.left) found.reason = reader.byte();
      if (reader.left) properties(reader, found);
      break;
    default:
      break;
  }
  return found;
}
