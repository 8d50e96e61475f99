/**
 * Idempotency-Key (RFC draft "The Idempotency-Key HTTP Header Field"): a write
 * that is sent twice with the same key happens once and is answered twice.
 *
 * Key row, the handler's own writes and the stored answer are one transaction.
 * A concurrent twin waits on the key row; a failure rolls the key back with
 * everything else, so that the caller may try again.
 */
import { createHash } from 'node:crypto';
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { errors } from '../errors.ts';
import type { DecodedInput, Operation } from '../operation.ts';
import type { Answer } from '../operations/answer.ts';
import { operationErrors } from '../operations/errors.ts';

export interface KeyedRequest {
  /** Whose key it is: keys of different callers never meet. */
  readonly principal: string;
  readonly operation: string;
  readonly key: string;
  readonly input: DecodedInput;
}

export interface Idempotency {
  /** Runs `work` unless this request was answered before; then replays that answer. Throws 400 and 409. */
  once(request: KeyedRequest, work: () => Promise<Answer> | Answer): Promise<Answer>;
}

/** Operations on which the header means something. An answer that is a credential must not be stored. */
export const takesIdempotencyKey = (operation: Operation): boolean =>
  operation.method !== 'GET' &&
  operation.idempotency !== false &&
  operation.access !== 'refreshToken' &&
  operation.access !== 'adminSecondFactor';

const validKey = /^[\x21-\x7e]{1,255}$/;

interface StoredAnswer {
  readonly request_hash: string;
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly json: boolean;
}

export function createIdempotency(database: Database): Idempotency {
  /** Keyed calls that run on this node. Equal ones wait here, where waiting costs no connection. */
  const running = new Map<string, Promise<Answer>>();

  const run = (request: KeyedRequest, work: () => Promise<Answer> | Answer): Promise<Answer> => {
    const hash = hashOf(request.input);
    return database.transaction(async () => {
      if (!(await claim(database, request, hash))) return replay(database, request, hash);
      const answer = await work();
      if (answer.status < 400) await store(database, request, answer);
      else await forget(database, request);
      return answer;
    });
  };

  return {
    async once(request, work) {
      if (!validKey.test(request.key)) throw operationErrors.INVALID_IDEMPOTENCY_KEY();
      const id = JSON.stringify([request.principal, request.operation, request.key]);
      for (let other = running.get(id); other; other = running.get(id)) await settled(other);
      const mine = run(request, work);
      running.set(id, mine);
      try {
        return await mine;
      } finally {
        running.delete(id);
      }
    },
  };
}

/** Whatever becomes of it is told to its own caller. */
const settled = (work: Promise<unknown>): Promise<unknown> => work.catch(() => undefined);

const hashOf = (input: DecodedInput): string =>
  createHash('sha256')
    .update(JSON.stringify([input.params, input.query, input.headers, input.body ?? null]))
    .digest('base64url');

/** Takes the key; waits while another transaction holds it. False when it was used before, less than 24 hours ago. */
async function claim(database: Database, request: KeyedRequest, hash: string): Promise<boolean> {
  const { count } = await database.query(sql`
    insert into penstock.idempotency as stored (principal, operation, key, request_hash)
    values (${request.principal}, ${request.operation}, ${request.key}, ${hash})
    on conflict (principal, operation, key) do update
      set request_hash = excluded.request_hash, created_at = now(), status = null, headers = null, body = null, json = null
      where stored.created_at < now() - interval '24 hours'`);
  return count > 0;
}

async function replay(database: Database, request: KeyedRequest, hash: string): Promise<Answer> {
  const { rows } = await database.query<StoredAnswer>(sql`
    select request_hash, status, headers, body, json from penstock.idempotency
    where principal = ${request.principal} and operation = ${request.operation} and key = ${request.key}`);
  const stored = rows[0];
  if (!stored || stored.request_hash !== hash) throw errors.IDEMPOTENCY_KEY_REUSED();
  return {
    status: stored.status,
    headers: { ...stored.headers, 'idempotency-replayed': 'true' },
    body: stored.body,
    json: stored.json,
  };
}

async function store(database: Database, request: KeyedRequest, answer: Answer): Promise<void> {
  await database.query(sql`
    update penstock.idempotency
    set status = ${answer.status}, headers = ${JSON.stringify(answer.headers)}::jsonb, body = ${answer.body}, json = ${answer.json}
    where principal = ${request.principal} and operation = ${request.operation} and key = ${request.key}`);
}

/** An answer that reports a failure without throwing must not be repeated for a day. */
async function forget(database: Database, request: KeyedRequest): Promise<void> {
  await database.query(sql`
    delete from penstock.idempotency
    where principal = ${request.principal} and operation = ${request.operation} and key = ${request.key}`);
}
