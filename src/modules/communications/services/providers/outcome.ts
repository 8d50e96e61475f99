/** How providers answer, in one form for all channels, and the requests to them. */
import {
  createOutboundFetch,
  OutboundError,
  type OutboundFetch,
  type OutboundRequest,
} from '../../../../kernel/outbound.ts';
import { cutText, storable } from '../../../../kernel/text.ts';
import type { CommunicationsConfig } from '../../config.ts';

/**
 * How one attempt ended.
 * - `accepted`: the provider took it; `id` is its name for the message
 * - `captured`: kept for operators instead of being sent
 * - `refused`: for good; `about` says whether the recipient, the message or our credentials are at fault
 */
export type Delivery =
  | {
      readonly outcome: 'accepted';
      readonly provider: string;
      readonly id?: string | undefined;
      readonly detail?: string;
      /** Of a push message: how many devices it went to. */
      readonly devices?: number;
    }
  | { readonly outcome: 'captured' }
  | {
      readonly outcome: 'refused';
      readonly provider: string;
      readonly about: 'recipient' | 'content';
      readonly reason: string;
      /** The address will never take anything: it does not exist, or opted out. */
      readonly gone?: 'bounce' | 'stop' | undefined;
    };

type LaterKind = 'auth' | 'throttled' | 'transient' | 'unknown';

/**
 * What may go better later. `auth`: our credentials are refused, so that only an operator can mend it, and nothing is
 * tried again by itself. `unknown`: the request was sent and nobody knows whether it was taken, so that a second
 * attempt may bring the message twice where the provider offers no key.
 */
export class DeliveryError extends Error {
  readonly kind: LaterKind;
  readonly provider: string;
  /** Seconds that the provider asks for. */
  readonly retryAfter: number | undefined;

  constructor(kind: LaterKind, provider: string, reason: string, retryAfter?: number) {
    super(reason);
    this.name = 'DeliveryError';
    this.kind = kind;
    this.provider = provider;
    this.retryAfter = retryAfter;
  }
}

/** What a provider said, on one line and not without end: for the timeline. */
export const words = (text: string): string =>
  storable(cutText(text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim(), 300));

/** A name that a provider gave, so that the database takes it: one that it does not would keep those noted beside it waiting. */
export const providerName = (text: string): string => storable(cutText(text, 300));

/** The longest that one request to a provider may take; the configured time is below it. Milliseconds. */
const longestMs = 60_000;
const maxAnswerBytes = 1_000_000;

/** What requests to a provider may do, read at each of them. */
export interface CallLimits {
  allowInternal(): boolean;
  /** Milliseconds for the whole exchange. */
  timeoutMs(): number;
}

export const limitsOf = (config: () => CommunicationsConfig): CallLimits => ({
  allowInternal: () => config().providers.allowInternal,
  timeoutMs: () => config().orchestration.timeout,
});

export interface ProviderAnswer {
  readonly status: number;
  readonly ok: boolean;
  readonly text: string;
  header(name: string): string | undefined;
  /** The body as JSON; an empty object when it is none. */
  json(): Readonly<Record<string, unknown>>;
}

export type CallProvider = (url: string, request: OutboundRequest) => Promise<ProviderAnswer>;

/** Requests to one provider. Throws `DeliveryError` when there is no answer. */
export function createCaller(
  provider: string,
  { allowInternal, timeoutMs }: CallLimits,
): CallProvider {
  const fetch: OutboundFetch = createOutboundFetch({
    allowInternal,
    timeoutMs: longestMs,
    maxBytes: maxAnswerBytes,
  });
  return async (url, request) => {
    try {
      const signal = AbortSignal.timeout(timeoutMs());
      const answer = await fetch(url, { method: 'POST', signal, ...request });
      const text = await answer.text();
      return {
        status: answer.status,
        ok: answer.ok,
        text,
        header: (name) => answer.headers.get(name) ?? undefined,
        json: () => parsed(text),
      };
    } catch (error) {
      if (!(error instanceof OutboundError)) throw error;
      throw new DeliveryError(error.sent ? 'unknown' : 'transient', provider, error.message);
    }
  };
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Seconds of a `Retry-After`, in either form; at most an hour. */
export function retryAfterOf(answer: ProviderAnswer): number | undefined {
  const value = answer.header('retry-after');
  if (value === undefined) return undefined;
  const seconds = /^\d{1,6}$/.test(value)
    ? Number(value)
    : Math.ceil((Date.parse(value) - Date.now()) / 1000);
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 1), 3600) : undefined;
}

/** Throws for statuses that say the same everywhere: 401 and 403 about us, 429, 5xx. */
export function refuseCommon(provider: string, answer: ProviderAnswer, said: string): void {
  const { status } = answer;
  const reason = words(`${status} ${said}`);
  if (status === 401 || status === 403) throw new DeliveryError('auth', provider, reason);
  if (status === 429) throw new DeliveryError('throttled', provider, reason, retryAfterOf(answer));
  if (status >= 500 || status === 408)
    throw new DeliveryError('transient', provider, reason, retryAfterOf(answer));
}

/** It said yes in words that we do not know: sending again may double it. */
export const withoutId = (provider: string, answer: ProviderAnswer): DeliveryError =>
  new DeliveryError('unknown', provider, words(`${answer.status} without an id: ${answer.text}`));

/** What a provider that said yes calls the message. Throws where that is missing. */
export function requireId(
  provider: string,
  answer: ProviderAnswer,
  id: string | undefined,
): string {
  if (id === undefined) throw withoutId(provider, answer);
  return id;
}

/** A text at a path of an answer of unknown shape. */
export function textAt(value: unknown, ...path: readonly (string | number)[]): string | undefined {
  let at = value;
  for (const key of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = Reflect.get(at, key);
  }
  return typeof at === 'string' ? at : typeof at === 'number' ? String(at) : undefined;
}

/** The list at a key; empty where there is none. */
export function listAt(value: unknown, key: string): readonly unknown[] {
  const list: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, key) : [];
  return Array.isArray(list) ? list : [];
}

/** The configured address, or the usual one; without a slash at its end. */
export const baseOf = (endpoint: string, usual: string): string =>
  (endpoint === '' ? usual : endpoint).replace(/\/$/, '');

export const basicAuth = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
