// A small MQTT 5.0 client over WebSocket: one session that ends with the connection.

import * as p from "./packets.js";

const KEEP_ALIVE_S = 30;
const CONNECT_MS = 15_000;

/** @typedef {{ topic: string, payload: Uint8Array, qos: number, retain: boolean, dup: boolean, contentType: string }} Message */

export class MqttClient {
  /** @type {(message: Message) => void} */
  onMessage = () => {};

  /** @type {(why: string) => void} */
  onClose = () => {};

  clientId = "";

  /** @type {WebSocket | null} */
  #socket = null;
  #decoder = new p.Decoder();
  #nextId = 1;
  #timer = 0;
  #why = "";
  /** What was sent and is not acknowledged, by its packet identifier.
   * @type {Map<number, { resolve: (packet: p.Packet) => void, reject: (error: Error) => void }>} */
  #waiting = new Map();
  /** QoS 2 messages that came, and wait for their PUBREL. @type {Set<number>} */
  #incoming = new Set();
  /** @type {{ resolve: () => void, reject: (error: Error) => void } | null} */
  #connecting = null;

  get isConnected() {
    return this.#socket !== null && this.#connecting === null;
  }

  /** @param {string} url @param {{ clientId: string, user: string, password: string }} who @returns {Promise<void>} */
  connect(url, who) {
    return new Promise((resolve, reject) => {
      this.#connecting = { resolve, reject };
      this.clientId = who.clientId;
      const socket = new WebSocket(url, "mqtt");
      this.#socket = socket;
      this.#decoder = new p.Decoder();
      this.#why = "";
      socket.binaryType = "arraybuffer";
      const timer = setTimeout(() => this.#close("The broker has not answered."), CONNECT_MS);
      socket.onopen = () => socket.send(p.connect({ ...who, keepAliveS: KEEP_ALIVE_S }));
      socket.onmessage = (event) => this.#received(new Uint8Array(event.data));
      socket.onclose = () => {
        clearTimeout(timer);
        this.#closed();
      };
    });
  }

  disconnect() {
    if (this.isConnected) this.#send(p.disconnect());
    this.#close("Disconnected.");
  }

  /** @param {string} filter @param {number} qos @returns {Promise<number>} the QoS that was given */
  async subscribe(filter, qos) {
    const { reasons, text } = await this.#ask((id) => p.subscribe(id, filter, qos));
    const code = reasons[0] ?? 0x80;
    if (code >= 0x80) throw new Error(p.reasonText(code, text));
    return code;
  }

  /** @param {string} filter */
  async unsubscribe(filter) {
    await this.#ask((id) => p.unsubscribe(id, filter));
  }

  /** Done when the broker has it, or for QoS 0 at once.
   * @param {string} topic @param {Uint8Array} payload @param {number} qos @param {boolean} retain */
  async publish(topic, payload, qos, retain) {
    if (!qos) {
      this.#send(p.publish({ topic, payload, qos, retain, id: 0 }));
      return "sent";
    }
    const { reason, text } = await this.#ask((id) => p.publish({ topic, payload, qos, retain, id }));
    if (reason >= 0x80) throw new Error(p.reasonText(reason, text));
    return reason === 0x10 ? "acknowledged; there are no subscribers" : "acknowledged";
  }

  /** @param {(id: number) => Uint8Array} make @returns {Promise<p.Packet>} */
  #ask(make) {
    return new Promise((resolve, reject) => {
      let id = this.#nextId;
      while (this.#waiting.has(id)) id = (id % 65535) + 1;
      this.#nextId = (id % 65535) + 1;
      this.#waiting.set(id, { resolve, reject });
      try {
        this.#send(make(id));
      } catch (error) {
        this.#waiting.delete(id);
        reject(error);
      }
    });
  }

  /** @param {Uint8Array} data */
  #send(data) {
    if (this.#socket?.readyState !== WebSocket.OPEN) throw new Error("Not connected.");
    this.#socket.send(data.slice().buffer);
  }

  /** @param {Uint8Array} data */
  #received(data) {
    try {
      for (const packet of this.#decoder.feed(data)) this.#handle(packet);
    } catch (error) {
      this.#close(error instanceof Error ? error.message : String(error));
    }
  }

  /** @param {p.Packet} packet */
  #handle(packet) {
    switch (packet.kind) {
      case p.CONNACK:
        this.#connected(packet);
        break;
      case p.PUBLISH:
        this.#message(packet);
        break;
      case p.PUBREC:
        // A refused one ends here; else its second half follows.
        if (packet.reason >= 0x80) this.#done(packet);
        else this.#send(p.acknowledge(p.PUBREL, packet.id));
        break;
      case p.PUBREL:
        this.#incoming.delete(packet.id);
        this.#send(p.acknowledge(p.PUBCOMP, packet.id));
        break;
      case p.PUBACK:
      case p.PUBCOMP:
      case p.SUBACK:
      case p.UNSUBACK:
        this.#done(packet);
        break;
      case p.DISCONNECT:
        this.#close(`The broker has ended the connection: ${p.reasonText(packet.reason, packet.text)}.`);
        break;
      default:
        break;
    }
  }

  /** @param {p.Packet} packet */
  #connected(packet) {
    if (packet.reason) {
      this.#close(`Refused: ${p.reasonText(packet.reason, packet.text)}.`);
      return;
    }
    if (packet.assigned) this.clientId = packet.assigned;
    const waiting = this.#connecting;
    this.#connecting = null;
    this.#timer = setInterval(() => this.#send(p.ping()), (KEEP_ALIVE_S * 1000) / 2);
    waiting?.resolve();
  }

  /** @param {p.Packet} packet */
  #message(packet) {
    if (packet.qos === 1) this.#send(p.acknowledge(p.PUBACK, packet.id));
    if (packet.qos === 2) {
      const isNew = !this.#incoming.has(packet.id);
      this.#incoming.add(packet.id);
      this.#send(p.acknowledge(p.PUBREC, packet.id));
      if (!isNew) return;
    }
    this.onMessage(packet);
  }

  /** @param {p.Packet} packet */
  #done(packet) {
    this.#waiting.get(packet.id)?.resolve(packet);
    this.#waiting.delete(packet.id);
  }

  /** @param {string} why */
  #close(why) {
    this.#why ||= why;
    this.#socket?.close();
  }

  #closed() {
    clearInterval(this.#timer);
    this.#socket = null;
    this.#incoming.clear();
    const why = this.#why || "The connection was lost, or could not be made.";
    const connecting = this.#connecting;
    this.#connecting = null;
    for (const each of this.#waiting.values()) each.reject(new Error(why));
    this.#waiting.clear();
    if (connecting) connecting.reject(new Error(why));
    else this.onClose(why);
  }
}
