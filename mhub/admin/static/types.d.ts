// What the admin API answers, as far as the dashboard reads it. For the type checker only; it is not served.

export interface Whoami {
  user: string;
  kind: string;
  roles: string[];
  read: string[];
  write: string[];
  csrf: string;
  ends_at: number | null;
  require_reason: boolean;
}

export interface HistoryPoint {
  time: number;
  step_s: number;
  values: Record<string, number | null>;
}

export interface History {
  span: string;
  start: number;
  step_s: number;
  series: Record<string, Array<number | null>>;
  units: Record<string, string>;
}

export interface ListenerStatus {
  name: string;
  address: string;
  connections: number;
  max_connections: number;
  accepted?: number;
  transport?: string;
  state?: string;
}

export interface LinkNumbers {
  node: string;
  state: string;
  latency_s: number | null;
  queued_messages: number;
  queued_bytes: number;
  sent: number;
  received: number;
  dropped: number;
}

export interface Live {
  time: number;
  node: string;
  state: string;
  ready: string;
  uptime_s: number;
  values: Record<string, number | null>;
  totals: Record<string, number>;
  store_state: string;
  listeners: ListenerStatus[];
  links: LinkNumbers[];
  point: HistoryPoint | null;
  last_event: number;
}

/** What a page gets when it is shown. */
export interface PageContext {
  /** The part of the hash behind the name of the page. */
  path: string[];
  query: URLSearchParams;
  /** Aborted when the page goes. */
  signal: AbortSignal;
}

export interface PageModule {
  mount(element: HTMLElement, context: PageContext): void | Promise<void>;
}

export interface ClientSummary {
  client_id: string;
  user: string;
  claimed_user: string;
  state: string;
  listener: string;
  address: string;
  version: string | null;
  connected_at: number | null;
  connected_s: number | null;
  subscriptions: number;
  queued: number;
  queued_bytes: number;
  inflight: number;
  messages_in: number;
  bytes_in: number;
  messages_out: number;
  bytes_out: number;
  messages_in_per_s: number;
  bytes_in_per_s: number;
  messages_out_per_s: number;
  bytes_out_per_s: number;
  node: string;
}
