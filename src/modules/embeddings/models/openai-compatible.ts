/** A provider over HTTP that speaks the embeddings API of OpenAI: many texts in a call, and never faster than it wants. */

import { LRUCache } from 'lru-cache';
import {
  createOutboundFetch,
  OutboundError,
  type OutboundFetch,
} from '../../../kernel/outbound.ts';
import type { EmbeddingsConfig } from '../config.ts';
import { type Embedded, type Model, type ModelChoice, ModelError } from '../model.ts';
import { digestOf } from '../passages.ts';
import { createThrottle, type Throttle } from './throttle.ts';

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
  const throttle = createThrottle(() => parts.config().rate);
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
    embed: createBatches(parts, choice, call),
  };
}

/** Bytes of vectors that are kept for another attempt. */
const MAX_KEPT = 32_000_000;

/**
 * Texts in as many calls as they need. What calls before one that failed have brought is kept for the next attempt: paid for
 * once, and a record whose passages need more calls than the provider takes in a while has all of them in the end.
 */
function createBatches(
  { config }: Pick<RemoteParts, 'config'>,
  choice: ModelChoice,
  call: EmbedBatch,
): Model['embed'] {
  const kept = new LRUCache<string, Float32Array>({
    maxSize: MAX_KEPT,
    sizeCalculation: ({ byteLength }) => byteLength,
  });
  return async (texts, purpose) => {
    const prefix = purpose === 'query' ? choice.queryPrefix : choice.passagePrefix;
    const keyOf = (text: string): string => digestOf(prefix + text).toString('base64');
    const vectors = texts.map((text) => kept.get(keyOf(text)));
    const missing = texts.flatMap((text, at) => (vectors[at] ? [] : [{ text, at }]));
    let tokens = 0;
    let done = 0;
    try {
      for (const batch of batchesOf(
        config(),
        choice,
        missing.map(({ text }) => text),
      )) {
        const answer = await call(batch.map((text) => prefix + text));
        for (const vector of answer.vectors) vectors[missing[done++]?.at ?? -1] = vector;
        tokens += answer.tokens;
      }
    } catch (error) {
      for (const { text, at } of missing.slice(0, done)) kept.set(keyOf(text), vectors[at]);
      throw error;
    }
    // Whoever gets them may change them.
    for (const text of texts) kept.delete(keyOf(text));
    return { vectors: vectors as Float32Array[], tokens };
  };
}

const endpointOf = ({ config }: RemoteParts) => config().providers['openai-compatible'];

/** Characters of a token, before a provider has counted. */
const TOKEN_LENGTH = 4;
const estimatedTokens = (texts: readonly string[]): number =>
  Math.ceil(texts.reduce((sum, { length }) => sum + length, 0) / TOKEN_LENGTH);

/** As many as may be sent together, and as many as fit into one answer. */
function batchesOf(
  { batch, security }: EmbeddingsConfig,
  { dimensions }: ModelChoice,
  texts: readonly string[],
): readonly (readonly string[])[] {
  const fitting = Math.floor(security.maxEmbedResponseBytes / (dimensions * NUMBER_BYTES));
  const max = Math.max(1, Math.min(batch.maxInputs, fitting));
  const longest = batch.maxTokens > 0 ? batch.maxTokens * TOKEN_LENGTH : Number.POSITIVE_INFINITY;
  const batches: string[][] = [];
  let length = 0;
  for (const text of texts) {
    const last = batches.at(-1);
    length += text.length;
    if (last && last.length < max && length <= longest) last.push(text);
    else {
      batches.push([text]);
      length = text.length;
    }
  }
  return batches;
}

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
    const estimate = estimatedTokens(texts);
    await throttle.enter(estimate);
    try {
      const { vectors, tokens } = await exchange(parts, texts);
      throttle.worked(tokens - estimate);
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
    body: JSON.stringify({
      model: parts.choice.model,
      input: texts,
      encoding_format: 'float',
      ...(parts.choice.sendDimensions && { dimensions: parts.choice.dimensions }),
    }),
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
  if (!Array.isArray(data))
    throw new ModelError('unavailable', 'The provider did not answer vectors');
  if (data.length !== texts.length)
    throw new ModelError('wrong', 'The provider did not answer one vector for each text');
  const vectors = inOrder(data);
  const tokens = at(at(answer, 'usage'), 'total_tokens');
  return { vectors, tokens: isCount(tokens, texts) ? tokens : estimatedTokens(texts) };
}

/** Tokens that mark the beginning and end of a text, and what else is counted with it. */
const TOKENS_AROUND = 64;

/** A number that is counted on: no text has more tokens than bytes, and a few around it. */
function isCount(tokens: unknown, texts: readonly string[]): tokens is number {
  const max = texts.reduce((sum, text) => sum + Buffer.byteLength(text) + TOKENS_AROUND, 0);
  return Number.isInteger(tokens) && Number(tokens) >= 0 && Number(tokens) <= max;
}

/** By the numbers that the entries name, if they do: each text has one of them, or they mean nothing. */
function inOrder(data: readonly unknown[]): readonly unknown[] {
  const byPlace = new Map<unknown, unknown>(
    data.map((entry, place) => [at(entry, 'index') ?? place, at(entry, 'embedding')]),
  );
  const vectors = data.map((_, place) => byPlace.get(place));
  if (vectors.includes(undefined))
    throw new ModelError('wrong', 'The provider did not say which vector is of which text');
  return vectors;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ModelError('unavailable', 'The provider did not answer JSON');
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
  const rounded = Float32Array.from(vector as number[]);
  if (!rounded.every(Number.isFinite))
    throw new ModelError('wrong', 'The provider answered numbers that are too large');
  return rounded;
}
