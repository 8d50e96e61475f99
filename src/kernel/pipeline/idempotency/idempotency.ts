/**
 * Idempotency-Key (RFC draft "The Idempotency-Key HTTP Header Field"): a write
 * that is sent twice with the same key happens once and is answered twice.
 *
 * Key row, the handler's own writes and the stored answer are one transaction.
 * A concurrent twin waits on the key row; a failure rolls the key back with
 * everything else, so that the caller may try again.
 */

import { createHash } from 'node:crypto';
import Type from 'typebox';
import { isReading } from '../../authority.ts';
import type { Database, Queryable } from '../../database/database.ts';
import { shortSql, sql } from '../../database/sql.ts';
import { errors } from '../../errors.ts';
import { defineJob, type JobDefinition } from '../../jobs/jobs.ts';
import { operationErrors } from '../../operations/errors.ts';
import { isStreamed, type Operation } from '../../operations/operation.ts';
import type { DecodedInput } from '../../operations/operation-input.ts';
import type { SecretBox } from '../../security/secret-box.ts';
import type { Answer } from '../answer.ts';

/*
 * What makes two requests the same request. Hashes are compared only when they were made in the same
 * form: another version of the platform may hash otherwise, or decode the same bytes to another input
 * (a new default). A retry over a deployment must get the stored answer, so hashes of different forms
 * count as equal.
 */

interface RequestHash {
  readonly hash: string;
  /** How the hash came about: its method, and the declaration by which the input was decoded. */
  readonly form: string;
}

/** Count up when `textOf` or the digest changes. */
const METHOD = 2;

const forms = new WeakMap<object, string>();

/** It may hold a password, so a plain hash of it would let a stolen table be searched for that. */
const hashOf = (
  secrets: Pick<SecretBox, 'digest'>,
  operation: Operation,
  input: DecodedInput,
): RequestHash => ({
  hash: secrets.digest(textOf(input), 'idempotency:request'),
  form: formOf(operation),
});

const textOf = ({ params, query, headers, body }: DecodedInput): string =>
  JSON.stringify([params, query, headers, body ?? null]);

function formOf({ input }: Operation): string {
  const known = forms.get(input);
  if (known !== undefined) return known;
  const declared = createHash('sha256').update(
    JSON.stringify([input.params, input.query, input.headers, input.body]) ?? '',
  );
  const form = `${METHOD}:${declared.digest('base64url').slice(0, 16)}`;
  forms.set(input, form);
  return form;
}

/** Rows per statement: a long delete would hold its locks for as long. */
const BATCH = 5_000;

/** Forgets keys after 24 hours. Runs hourly. */
export const purgeIdempotencyKeys = (database: Database): JobDefinition =>
  defineJob({
    name: 'idempotency.purge',
    data: Type.Object({}),
    schedule: '17 * * * *',
    async handler(_data, { signal }) {
      let deleted = BATCH;
      while (deleted === BATCH && !signal.aborted) {
        const { count } = await database.query(sql`
          delete from penstock.idempotency where ctid in (
            select ctid from penstock.idempotency where created_at < now() - interval '24 hours' limit ${BATCH})`);
        deleted = count;
      }
    },
  });

interface KeyedRequest {
  /** Whose key it is: keys of different callers never meet. */
  readonly principal: string;
  readonly operation: Operation;
  readonly key: string;
  readonly input: DecodedInput;
}

export interface Idempotency {
  /** Runs `work` unless this request was answered before; then replays that answer. Throws 400 and 409. */
  once(request: KeyedRequest, work: () => Promise<Answer> | Answer): Promise<Answer>;
}

/**
 * Operations on which the header means something. Answers that are a credential must not be stored, streams cannot be; what
 * only reads, whatever its method, is asked for as it is now and not as it was.
 */
export const takesIdempotencyKey = (operation: Operation): boolean =>
  operation.method !== 'GET' &&
  !isReading(operation) &&
  operation.idempotency !== false &&
  !isStreamed(operation) &&
  operation.access !== 'refreshToken' &&
  operation.access !== 'adminSecondFactor';

const validKey = /^[\x21-\x7e]{1,255}$/;

/** The key of one of the calls that a request with a key holds; `name` tells them apart. One that is too long together is hashed. */
export function keyOfPart(key: string, name: string): string {
  const whole = `${key}.${name}`;
  const isTooLong = validKey.test(key) && !validKey.test(whole);
  return isTooLong ? createHash('sha256').update(whole).digest('base64url') : whole;
}

interface Dependencies {
  readonly database: Database;
  readonly secrets: Pick<SecretBox, 'digest'>;
}

interface StoredAnswer {
  readonly request_hash: string;
  /** Absent where an older version of the platform stored it. */
  readonly request_form: string | null;
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly json: boolean;
}

export function createIdempotency({ database, secrets }: Dependencies): Idempotency {
  /** Keyed calls that run on this node. Equal ones wait here, where waiting costs no connection. */
  const running = new Map<string, Promise<Answer>>();

  const run = (request: KeyedRequest, work: () => Promise<Answer> | Answer): Promise<Answer> => {
    const hash = hashOf(secrets, request.operation, request.input);
    return database.transaction(async () => {
      if (!(await claim(database, request, hash))) return replay(database, request, hash);
      const answer = await work();
      if (answer.cookies || answer.stream)
        throw new Error(
          `${request.operation.id} answers what cannot be kept: declare idempotency: false`,
        );
      if (answer.status < 400) await store(database, request, answer);
      else await forget(database, request);
      return answer;
    });
  };

  return {
    async once(request, work) {
      if (!validKey.test(request.key)) throw operationErrors.IDEMPOTENCY_KEY_INVALID();
      const id = JSON.stringify([request.principal, request.operation.id, request.key]);
      for (let other = running.get(id); other; other = running.get(id)) await ended(other);
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
const ended = (work: Promise<unknown>): Promise<unknown> => work.catch(() => undefined);

/** Takes the key; waits while another transaction holds it. False when it was used before, less than 24 hours ago. */
async function claim(
  database: Database,
  request: KeyedRequest,
  { hash, form }: RequestHash,
): Promise<boolean> {
  const { count } = await database.query(shortSql`
    insert into penstock.idempotency as stored (principal, operation, key, request_hash, request_form)
    values (${request.principal}, ${request.operation.id}, ${request.key}, ${hash}, ${form})
    on conflict (principal, operation, key) do update
      set request_hash = excluded.request_hash, request_form = excluded.request_form, created_at = now(), status = null, headers = null, body = null, json = null
      where stored.created_at < now() - interval '24 hours'`);
  return count > 0;
}

async function replay(
  database: Database,
  request: KeyedRequest,
  { hash, form }: RequestHash,
): Promise<Answer> {
  const { rows } = await database.query<StoredAnswer>(shortSql`
    select request_hash, request_form, status, headers, body, json from penstock.idempotency
    where principal = ${request.principal} and operation = ${request.operation.id} and key = ${request.key}`);
  const stored = rows[0];
  if (!stored || (stored.request_form === form && stored.request_hash !== hash))
    throw errors.IDEMPOTENCY_KEY_REUSED();
  return {
    status: stored.status,
    headers: { ...stored.headers, 'idempotency-replayed': 'true' },
    body: stored.body,
    json: stored.json,
  };
}

async function store(database: Database, request: KeyedRequest, answer: Answer): Promise<void> {
  await database.query(shortSql`
    update penstock.idempotency
    set status = ${answer.status}, headers = ${JSON.stringify(answer.headers)}::jsonb, body = ${answer.body}, json = ${answer.json}
    where principal = ${request.principal} and operation = ${request.operation.id} and key = ${request.key}`);
}

/** An answer that reports a failure without throwing must not be repeated for a day. */
async function forget(database: Database, request: KeyedRequest): Promise<void> {
  await database.query(shortSql`
    delete from penstock.idempotency
    where principal = ${request.principal} and operation = ${request.operation.id} and key = ${request.key}`);
}

/** Forgets what was answered to these users, who are about to be deleted: it may hold what they had stored. */
export const forgetAnswersTo = async (
  database: Queryable,
  userIds: readonly string[],
): Promise<void> =>
  void (await database.query(
    sql`delete from penstock.idempotency i using unnest(${userIds.map(keyOfUser)}::text[]) u(key)
      where i.principal = u.key or i.principal ^@ (u.key || ' (')`,
  ));

/** As `callerKey` names a user; behind it may stand who acted in their name. */
const keyOfUser = (userId: string): string => `user:${userId}`;
