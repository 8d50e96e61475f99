/** A provider over HTTP that speaks the embeddings API of OpenAI: many texts in a call, and never faster than it wants. */

import { setTimeout as delay } from 'node:timers/promises';
import {
  createOutboundFetch,
  OutboundError,
  type OutboundFetch,
} from '../../../kernel/outbound.ts';
import type { EmbeddingsConfig } from '../config.ts';
import { type Embedded, type Model, type ModelChoice, ModelError } from '../model.ts';

/* How fast a provider may be called, and whether it is worth trying: after failures it gets time to recover. */

interface Throttle {
  /** Waits for its turn. Throws `ModelError` while the provider gets time to recover, or when the turn is too far away. */
  enter(): Promise<void>;
  worked(): void;
  failed(error: ModelError): void;
  /** Milliseconds of `Date.now()`. */
  pausedUntil(): number;
}

/** Failures in a row after which nobody tries for a while. */
const FAILURES = 3;
const PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60_000;
const LONGEST_WAIT_MS = 30_000;

/** `perMinute` 0: as fast as one likes. */
function createThrottle(perMinute: () => number): Throttle {
  let failures = 0;
  let pausedUntil = 0;
  let nextTurn = 0;

  const turn = (now: number): number => {
    const rate = perMinute();
    if (rate === 0) return now;
    const at = Math.max(now, nextTurn);
    if (at - now > LONGEST_WAIT_MS)
      throw new ModelError('throttled', 'Too many calls wait for the provider', 30);
    nextTurn = at + 60_000 / rate;
    return at;
  };

  return {
    async enter() {
      const now = Date.now();
      if (now < pausedUntil) {
        const seconds = Math.ceil((pausedUntil - now) / 1000);
        throw new ModelError('unavailable', 'The provider has failed and gets time', seconds);
      }
      const at = turn(now);
      if (at > now) await delay(at - now);
    },
    worked() {
      failures = 0;
      pausedUntil = 0;
    },
    failed({ failure, retryAfter }) {
      failures++;
      const grown = Math.min(PAUSE_MS * 2 ** Math.max(0, failures - FAILURES), LONGEST_PAUSE_MS);
      if (retryAfter !== undefined && failure !== 'budget')
        pausedUntil = Date.now() + retryAfter * 1000;
      else if (failures >= FAILURES) pausedUntil = Date.now() + grown;
    },
    pausedUntil: () => pausedUntil,
  };
}

/** About 800 tokens. */
const PASSAGE_LENGTH = 3_200;
/** Bytes of one number of an answer, written out. */
const NUMBER_BYTES = 26;

/** What a provider was asked for, and may still be asked for. */
export interface Spending {
  /** Throws `ModelError` when the tokens of the day are used up. */
  require(): Promise<void>;
  add(usage: { readonly texts: number; readonly tokens: number }): Promise<void>;
}

interface RemoteParts {
  readonly config: () => EmbeddingsConfig;
  readonly spending: Spending;
}

export function createRemoteModel(parts: RemoteParts, choice: ModelChoice): Model {
  const throttle = createThrottle(() => parts.config().rate.requestsPerMinute);
  const fetch = createOutboundFetch({
    allowInternal: () => endpointOf(parts).allowInternal,
    get timeoutMs() {
      return parts.config().security.embedTimeoutMs;
    },
    get maxBytes() {
      return parts.config().security.maxEmbedResponseBytes;
    },
  });
  const call = createCall({ ...parts, choice, throttle, fetch });
  return {
    passageLength: PASSAGE_LENGTH,
    pausedUntil: throttle.pausedUntil,
    async embed(texts) {
      const size = batchSize(parts.config(), choice.dimensions);
      const vectors: Float32Array[] = [];
      let tokens = 0;
      for (let at = 0; at < texts.length; at += size) {
        const batch = await call(texts.slice(at, at + size));
        vectors.push(...batch.vectors);
        tokens += batch.tokens;
      }
      return { vectors, tokens };
    },
  };
}

const endpointOf = ({ config }: RemoteParts) => config().providers['openai-compatible'];

/** As many as may be sent, and as many as fit into one answer. */
const batchSize = ({ batch, security }: EmbeddingsConfig, dimensions: number): number =>
  Math.max(
    1,
    Math.min(
      batch.maxInputs,
      Math.floor(security.maxEmbedResponseBytes / (dimensions * NUMBER_BYTES)),
    ),
  );

interface CallParts extends RemoteParts {
  readonly choice: ModelChoice;
  readonly throttle: Throttle;
  readonly fetch: OutboundFetch;
}

type EmbedBatch = (texts: readonly string[]) => Promise<Embedded>;

function createCall(parts: CallParts): EmbedBatch {
  const { throttle, spending, choice } = parts;
  return async (texts) => {
    await spending.require();
    await throttle.enter();
    try {
      const { vectors, tokens } = await exchange(parts, texts);
      throttle.worked();
      await spending.add({ texts: texts.length, tokens });
      return { vectors: vectors.map((vector) => checked(vector, choice)), tokens };
    } catch (error) {
      if (error instanceof ModelError && error.failure !== 'refused') throttle.failed(error);
      throw error;
    }
  };
}

interface Exchange {
  readonly vectors: readonly unknown[];
  readonly tokens: number;
}

async function exchange(parts: CallParts, texts: readonly string[]): Promise<Exchange> {
  const { endpoint, apiKey } = endpointOf(parts);
  if (endpoint === '') throw new ModelError('unavailable', 'No endpoint is configured');
  const answer = await send(parts.fetch, endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(apiKey !== '' && { authorization: `Bearer ${apiKey}` }),
    },
    body: JSON.stringify({ model: parts.choice.model, input: texts, encoding_format: 'float' }),
  });
  if (answer.status !== 200) throw refusal(answer);
  return readAnswer(await answer.text(), texts);
}

async function send(
  fetch: OutboundFetch,
  endpoint: string,
  request: Parameters<OutboundFetch>[1],
): Promise<Response> {
  try {
    return await fetch(endpoint, request);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw new ModelError(error.failure === 'timeout' ? 'timeout' : 'unavailable', error.message);
  }
}

/** What a status means. What the provider says is not repeated: it may quote texts. */
function refusal({ status, headers }: Response): ModelError {
  const said = `The provider answered ${status}`;
  if (status === 401 || status === 403) return new ModelError('auth', said);
  if (status === 429) return new ModelError('throttled', said, secondsOf(headers));
  if (status === 408 || status >= 500)
    return new ModelError('unavailable', said, secondsOf(headers));
  // A redirect is not followed: whom it leads to was not judged.
  if (status < 400 || status === 404) return new ModelError('unavailable', said);
  return new ModelError('refused', said);
}

/** Seconds of a `Retry-After`, in either form; at most an hour. */
function secondsOf(headers: Headers): number | undefined {
  const value = headers.get('retry-after');
  if (value === null) return undefined;
  const seconds = /^\d{1,6}$/.test(value)
    ? Number(value)
    : Math.ceil((Date.parse(value) - Date.now()) / 1000);
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 1), 3600) : undefined;
}

function readAnswer(text: string, texts: readonly string[]): Exchange {
  const answer = parsed(text);
  const data = at(answer, 'data');
  if (!Array.isArray(data) || data.length !== texts.length)
    throw new ModelError('wrong', 'The provider did not answer one vector for each text');
  const vectors: unknown[] = new Array(texts.length);
  data.forEach((entry, place) => {
    const index = at(entry, 'index');
    vectors[typeof index === 'number' ? index : place] = at(entry, 'embedding');
  });
  const tokens = at(at(answer, 'usage'), 'total_tokens');
  const estimate = Math.ceil(texts.reduce((sum, { length }) => sum + length, 0) / 4);
  return { vectors, tokens: typeof tokens === 'number' && tokens >= 0 ? tokens : estimate };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ModelError('wrong', 'The provider did not answer JSON');
  }
}

const at = (value: unknown, key: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? Reflect.get(value, key)
    : undefined;

function checked(vector: unknown, { dimensions }: ModelChoice): Float32Array {
  if (!Array.isArray(vector) || !vector.every((x) => typeof x === 'number' && Number.isFinite(x)))
    throw new ModelError('wrong', 'The provider answered something else than numbers');
  if (vector.length !== dimensions)
    throw new ModelError(
      'wrong',
      `The provider answered ${vector.length} numbers instead of ${dimensions}`,
    );
  return Float32Array.from(vector as number[]);
}
