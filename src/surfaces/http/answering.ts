/**
 * How answers leave a surface: with its headers, counted, and logged where that is worth it. Answers that one turn of the
 * event loop makes go out together at its end (docs/decisions/338-answers-of-one-turn.md).
 */
import { errors, isValidation, PenstockError } from '../../kernel/errors.ts';
import type { MaybePromise } from '../../kernel/maybe-promise.ts';
import type { SurfaceName } from '../../kernel/operations/operation.ts';
import type { Answer, AnswerBytes, AnswerStream } from '../../kernel/pipeline/answer.ts';
import { offAccount } from '../../kernel/request-account/request-account.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { ClientGoneError } from './body.ts';
import { type CompressedBody, packedFor } from './compression.ts';
import { renderErrorFor } from './error-answers.ts';
import type { Exchange } from './exchange.ts';
import { type Cors, createCors, securityHeaders } from './headers.ts';
import type { SurfaceOptionsSource } from './options.ts';
import type { ObserveRequest } from './request-metrics.ts';
import type { Draining } from './server.ts';

export interface AnsweringParts {
  readonly surface: SurfaceName;
  readonly options: SurfaceOptionsSource;
  readonly draining: Draining;
  readonly observe: ObserveRequest;
  readonly log: Logger;
  /** Told of input that does not fit, with the operation. */
  readonly onInvalid?: (operation: string) => void;
  /** Log every request, not only the slow and the failed. */
  readonly logRequests: boolean;
}

/** Requests that take longer are logged. Milliseconds. */
const SLOW_MS = 1_000;
/** So many answers go out without waiting for the end of the turn. */
const MAX_WAITING = 16;

/** An answer that waits for the end of the turn. */
interface Ready {
  readonly exchange: Exchange;
  readonly answer: Answer;
  readonly packed?: CompressedBody | undefined;
  /** The answer says what failed: when it cannot be sent either, there is nothing more to say. */
  readonly isRefusal?: true;
}

export class Answering {
  readonly #parts: AnsweringParts;
  readonly #headers: () => SurfaceHeaders;
  #ready: Ready[] = [];
  #isScheduled = false;

  constructor(parts: AnsweringParts) {
    this.#parts = parts;
    this.#headers = createHeaders(parts.options, parts.draining);
  }

  get headers(): SurfaceHeaders {
    return this.#headers();
  }

  /** Answers a promise where the body is made, or compressed, meanwhile. It never rejects: what fails is answered as well. */
  send(exchange: Exchange, answer: Answer): MaybePromise<void> {
    if (answer.stream) return this.#sendMade(exchange, answer, answer.stream);
    const packing = packedFor(exchange.request, this.#baseOf(exchange), answer);
    if (!packing) return this.#add({ exchange, answer });
    return packing.then(
      ({ varied, packed }) => this.#add({ exchange, answer: varied, packed }),
      (error: unknown) => this.refuse(exchange, error),
    );
  }

  /** Answers what refuses a request. */
  refuse(exchange: Exchange, error: unknown): void {
    const { surface, log, onInvalid } = this.#parts;
    if (error instanceof ClientGoneError) {
      exchange.account?.close();
      return;
    }
    if (exchange.response.headersSent) {
      this.#cut(exchange, error);
      return;
    }
    const rendered = renderErrorFor(askedBy(exchange), error, surface, exchange.requestId);
    if (isValidation(error)) onInvalid?.(exchange.match?.route.compiled.operation.id ?? 'none');
    if (rendered.status === 500)
      log.error({ error: loggable(error), ...placeOf(exchange) }, 'A request failed');
    this.#add({ exchange, answer: rendered, isRefusal: true });
  }

  #baseOf(exchange: Exchange): readonly string[] {
    const base = this.#headers().of(exchange.origin);
    return this.#parts.surface === 'admin' ? [...base, 'server-timing', timingOf(exchange)] : base;
  }

  #add(ready: Ready): void {
    this.#ready.push(ready);
    if (this.#ready.length >= MAX_WAITING) this.#release();
    else if (!this.#isScheduled) {
      this.#isScheduled = true;
      // What runs then belongs to several requests.
      offAccount(() => setImmediate(this.#atEndOfTurn));
    }
  }

  readonly #atEndOfTurn = (): void => {
    this.#isScheduled = false;
    this.#release();
  };

  #release(): void {
    const ready = this.#ready;
    this.#ready = [];
    for (const one of ready) this.#sendNow(one);
  }

  #sendNow({ exchange, answer, packed, isRefusal }: Ready): void {
    try {
      exchange.send(this.#baseOf(exchange), answer, packed);
      this.#done(exchange, answer.status);
    } catch (error) {
      if (isRefusal) this.#giveUp(exchange, error);
      else this.refuse(exchange, error);
    }
  }

  /** Not even the refusal can be sent, for example because of a header that is none. */
  #giveUp(exchange: Exchange, error: unknown): void {
    this.#parts.log.error({ error, ...placeOf(exchange) }, 'An answer could not be sent');
    exchange.response.destroy();
    exchange.account?.close();
  }

  async #sendMade(
    exchange: Exchange,
    answer: Answer,
    stream: AnswerStream | AnswerBytes,
  ): Promise<void> {
    try {
      await exchange.sendMade(this.#baseOf(exchange), answer, stream);
      this.#done(exchange, answer.status);
    } catch (error) {
      this.refuse(exchange, error);
    }
  }

  /** Half an answer is out; only the end of the connection can say that it is no whole one. */
  #cut(exchange: Exchange, error: unknown): void {
    this.#parts.log.error({ error, ...placeOf(exchange) }, 'An answer broke off');
    exchange.response.destroy();
    this.#done(exchange, errors.INTERNAL_SERVER_ERROR.status);
  }

  /** The answer is out. */
  #done(exchange: Exchange, status: number): void {
    const { log, observe, logRequests } = this.#parts;
    exchange.account?.close();
    const milliseconds = performance.now() - exchange.startedAt;
    const { method = 'GET' } = exchange.request;
    observe(exchange.match?.route, method, status, milliseconds / 1_000);
    const notable = milliseconds >= SLOW_MS || status > 500;
    if (!notable && !logRequests) return;
    const fields = { ...placeOf(exchange), method, status, ms: Math.round(milliseconds) };
    // A 500 was logged with its error.
    // One line per route and minute: an outage fails them all.
    if (status > 500) log.warn(fields, 'Slow or failed request');
    else if (notable) log.info(fields, 'Slow or failed request');
    else log.debug(fields, 'Request');
  }
}

const askedBy = ({ request, match }: Exchange) => ({
  accept: request.headers.accept,
  operation: match?.route.compiled.operation,
});

const placeOf = ({ requestId, match }: Exchange) => ({ requestId, route: match?.route.template });

/** What a catalogue says is no mistake of ours; its words may be those of a provider, and name who gets a message. */
const loggable = (error: unknown): unknown =>
  error instanceof PenstockError && error.cause === undefined ? error.code : error;

/* The headers that every answer of a surface has. */

interface SurfaceHeaders {
  readonly cors: Cors;
  /** Security and CORS headers for a request from `origin`. */
  of(origin: string | undefined): readonly string[];
}

/** Headers are composed once per configuration and origin. */
function createHeaders(source: SurfaceOptionsSource, draining: Draining): () => SurfaceHeaders {
  const compose = (): SurfaceHeaders => {
    const { cors: requested, hsts: value } = source.current();
    const cors = createCors(requested);
    const hsts = value === undefined ? [] : ['strict-transport-security', value];
    const composed = new Map<readonly string[], readonly string[]>();
    return {
      cors,
      of(origin) {
        const own = cors.headers(origin);
        let all = composed.get(own);
        if (!all) {
          all = [
            ...securityHeaders,
            ...hsts,
            ...own,
            ...(draining.active ? ['connection', 'close'] : []),
          ];
          composed.set(own, all);
        }
        return all;
      },
    };
  };
  let current = compose();
  const again = (): void => {
    current = compose();
  };
  source.onChange(again);
  draining.onBegin(again);
  return () => current;
}

/** For operators: milliseconds until the answer began, and the statements that it took. */
function timingOf({ startedAt, account }: Exchange): string {
  const statements = account?.spent('statements');
  const total = `total;dur=${(performance.now() - startedAt).toFixed(1)}`;
  return statements === undefined ? total : `${total}, db;desc="${statements} statements"`;
}
