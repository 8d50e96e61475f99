/** Sends deliveries: signed, over the guarded way out, tried again with growing pauses, given up at last. */
import { system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import {
  createOutboundFetch,
  OutboundError,
  type OutboundFetch,
} from '../../../kernel/outbound.ts';
import type { QueueItem, QueueWorker, Verdict } from '../../../kernel/queue/durable-queue.ts';
import { cutText, storable } from '../../../kernel/text.ts';
import {
  type EndpointRow,
  type EndpointSecrets,
  endpointForDelivery,
  isSwitchedOff,
  noteHealth,
  switchEndpoint,
} from '../queries.ts';
import { secretContext, type WebhookParts } from './parts.ts';
import { signedHeaders } from './signature.ts';

const asModule = system('webhooks');
/** Bytes of an answer that are read; more of it is no answer to a webhook. */
const MAX_ANSWER = 65_536;
/** A pause that a receiver asks for (`Retry-After`) is kept up to this, in ms. */
const LONGEST_PAUSE_MS = 24 * 3_600_000;
/** Pauses vary by this share, so that what failed together does not come back together. */
const SPREAD = 0.2;

type Endpoint = EndpointRow & EndpointSecrets;

export function startDeliveries(parts: WebhookParts): QueueWorker {
  const { config, log, queue } = parts;
  const fetchers = createFetchers(parts);
  return queue.work({
    log,
    concurrency: () => config().delivery.concurrency,
    perTarget: () => config().delivery.perEndpoint,
    retryAfterMs: (item) => pauseAfter(config().delivery.pausesMs, item.attempt) ?? 60_000,
    handle: (item, signal) => deliver(parts, fetchers, { item, signal }),
  });
}

/** The way out with the timeout that is configured now. */
function createFetchers({ config }: WebhookParts): () => OutboundFetch {
  let made: { readonly timeoutMs: number; readonly fetch: OutboundFetch } | undefined;
  return () => {
    const { timeoutMs } = config().delivery;
    if (made?.timeoutMs !== timeoutMs) {
      const allowInternal = () => config().allowInternal;
      const options = { allowInternal, timeoutMs, maxBytes: MAX_ANSWER };
      made = { timeoutMs, fetch: createOutboundFetch(options) };
    }
    return made.fetch;
  };
}

/** The pause after so many tries; nothing when there is to be no further one. */
function pauseAfter(pausesMs: readonly number[], tries: number): number | undefined {
  const pause = pausesMs[tries - 1];
  return pause === undefined ? undefined : Math.round(pause * (1 + SPREAD * (Math.random() - 0.5)));
}

interface Try {
  readonly item: QueueItem;
  readonly signal: AbortSignal;
}

async function deliver(
  parts: WebhookParts,
  fetchers: () => OutboundFetch,
  { item, signal }: Try,
): Promise<Verdict> {
  const endpoint = await endpointForDelivery(parts.database, item.target);
  if (!endpoint) {
    const gone = 'the endpoint was deleted';
    return { outcome: 'dead', note: { error: gone }, log: `A webhook is given up: ${gone}` };
  }
  if (!endpoint.enabled) return held(parts, endpoint);
  const answer = await send(parts, fetchers(), { item, signal, endpoint });
  if (answer.status !== undefined && answer.status >= 200 && answer.status < 300) {
    parts.count('delivered');
    return { outcome: 'done', note: noteOf(answer), hooked: healthy(endpoint) };
  }
  if (answer.stopped) return { outcome: 'again', afterMs: 0, counts: false };
  return failure(parts, { item, endpoint, answer });
}

/** It came to wait after the endpoint was switched off: it was replayed, or stored by whoever had read that it is on. */
const held = ({ queue }: WebhookParts, { id }: Endpoint): Verdict => ({
  outcome: 'again',
  afterMs: 0,
  counts: false,
  async hooked(transaction) {
    if (await isSwitchedOff(transaction, id)) await queue.hold(transaction, id);
  },
});

const healthy = (endpoint: Endpoint) =>
  endpoint.failingSince === null
    ? async () => undefined
    : async (transaction: Transaction) => void (await noteHealth(transaction, endpoint.id, true));

interface Answer {
  readonly status?: number;
  readonly body?: string;
  readonly error?: string;
  readonly retryAfterMs?: number;
  /** This node stops: the try does not count. */
  readonly stopped?: boolean;
}

const noteOf = ({ status, body, error }: Answer): Record<string, unknown> => ({
  ...(status !== undefined && { status }),
  ...(body && { answer: body }),
  ...(error !== undefined && { error }),
});

async function send(
  { secrets, config }: WebhookParts,
  fetch: OutboundFetch,
  { item, signal, endpoint }: Try & { readonly endpoint: Endpoint },
): Promise<Answer> {
  const body = JSON.stringify(item.data);
  const timestamp = Math.floor(Date.now() / 1000);
  const open = (sealed: string): string => secrets.open(sealed, secretContext(endpoint.id));
  const headers = signedHeaders(secretsOf(endpoint).map(open), { id: item.id, timestamp, body });
  try {
    const response = await fetch(endpoint.url, { method: 'POST', headers, body, signal });
    const text = storable(await response.text());
    const retryAfter = Number(response.headers.get('retry-after'));
    return {
      status: response.status,
      body: cutText(text, config().delivery.maxAnswerBytes),
      ...(retryAfter > 0 && { retryAfterMs: Math.min(retryAfter * 1000, LONGEST_PAUSE_MS) }),
    };
  } catch (error) {
    if (signal.aborted) return { stopped: true };
    if (error instanceof OutboundError) return { error: error.message };
    throw error;
  }
}

/** The secret, and the one before it while receivers may still know only that. */
const secretsOf = ({ secret, previousSecret, previousUntil }: Endpoint): readonly string[] =>
  previousSecret !== null && previousUntil !== null && previousUntil > new Date()
    ? [secret, previousSecret]
    : [secret];

interface Failure {
  readonly item: QueueItem;
  readonly endpoint: Endpoint;
  readonly answer: Answer;
}

const GONE = 410;

function failure(parts: WebhookParts, { item, endpoint, answer }: Failure): Verdict {
  const note = noteOf(answer);
  const pause = pauseAfter(parts.config().delivery.pausesMs, item.attempt);
  const isLast = pause === undefined || answer.status === GONE;
  parts.count(isLast ? 'dead' : 'failed');
  const hooked = async (transaction: Transaction): Promise<void> => {
    const since = await noteHealth(transaction, endpoint.id, false);
    const reason = isLast ? reasonToStop(parts, answer, since) : undefined;
    if (reason !== undefined) await stopEndpoint(parts, transaction, endpoint, reason);
  };
  if (isLast) {
    const log = `Webhooks of the endpoint ${endpoint.name} are given up: GET /webhooks/endpoints/${endpoint.id}/deliveries?state=dead lists them`;
    return { outcome: 'dead', note, hooked, log };
  }
  return { outcome: 'again', afterMs: Math.max(pause, answer.retryAfterMs ?? 0), note, hooked };
}

function reasonToStop(
  { config }: WebhookParts,
  { status }: Answer,
  since: Date | null,
): string | undefined {
  if (status === GONE) return 'The receiver answered that it is gone (410)';
  if (since === null || Date.now() - since.getTime() < config().disableAfterMs) return undefined;
  return `Nothing could be delivered since ${since.toISOString()}`;
}

/** Switches it off with all that says so: an event, a row of the audit log, a line in the log. What waits is held. */
async function stopEndpoint(
  { queue, events, audit, log }: WebhookParts,
  transaction: Transaction,
  { id, name }: Endpoint,
  reason: string,
): Promise<void> {
  await switchEndpoint(transaction, id, { enabled: false, reason });
  await queue.hold(transaction, id);
  const payload = { _id: id, name, reason };
  await events.emit(transaction, asModule, {
    topic: 'webhooks:disable:endpoint',
    ids: [id],
    payload,
  });
  await audit.record({
    ...{ caller: asModule, action: 'webhooks.endpoints.disable', outcome: 'success' },
    ...{ target: `endpoint:${id}`, changes: { name, reason } },
  });
  transaction.afterCommit(() =>
    log.error({ endpoint: name, reason }, 'A webhook was switched off'),
  );
}
