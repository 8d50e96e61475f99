import { createHash } from 'node:crypto';
import Type from 'typebox';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../../test/support/database.ts';
import { silentLog } from '../../../../test/support/log.ts';
import {
  type SurfaceFixture,
  startSurfaceFixture,
} from '../../../../test/support/surface-fixture.ts';
import type { Row } from '../../database/database.ts';
import { sql } from '../../database/sql.ts';
import { defineErrors } from '../../errors.ts';
import { defineOperation, type Operation, Reply } from '../../operations/operation.ts';
import { purgeIdempotencyKeys, takesIdempotencyKey } from './idempotency.ts';
import { migrations } from './migrations.ts';

const failures = defineErrors({ REFUSED: [409, 'Refused'] });
const Item = Type.Object({ name: Type.String() });

let test: OpenTestDatabase;
let surfaces: SurfaceFixture;
let otherNode: SurfaceFixture;
let executions = 0;

/** Inserts a row, then behaves as its name says. */
const create = (id: string, finish: () => Promise<unknown> | unknown, idempotency = true) =>
  defineOperation({
    id: `items.${id}`,
    surface: 'client',
    method: 'POST',
    path: `/${id}`,
    access: 'optionalUser',
    limit: 'standard',
    summary: 'Create',
    idempotency,
    input: { body: Item },
    output: Type.Object({ n: Type.Number() }),
    handler: async (_context, { body }) => {
      executions++;
      await test.database.query(sql`insert into penstock.test_items (name) values (${body.name})`);
      return finish() as { n: number };
    },
  });

function exampleOperations(): readonly Operation[] {
  let failing = true;
  return [
    create('created', async () => ({ n: executions })),
    create('tagged', () => Reply.json('{"n":1}', { etag: '"1"' })),
    create('secret', () => ({ n: executions }), false),
    create('unwell', () => Reply.json('{"n":0}', {}, 503)),
    // Less time for the others would be too little on a busy machine.
    { ...create('stuck', () => new Promise(() => undefined)), deadlineMs: 1_000 },
    create('crossed', () => {
      // As PostgreSQL ends one of two transactions that wait for each other.
      if (executions < 2) throw Object.assign(new Error('deadlock'), { code: '40P01' });
      return { n: 1 };
    }),
    create('flaky', () => {
      failing = !failing;
      if (!failing) throw failures.REFUSED();
      return { n: 1 };
    }),
  ];
}

beforeAll(async () => {
  test = await openTestDatabase({
    migrations: [
      { owner: 'kernel', migrations },
      {
        owner: 'test',
        migrations: [
          {
            id: '0001',
            run: async (database) =>
              void (await database.query(sql`create table penstock.test_items (name text)`)),
          },
        ],
      },
    ],
  });
  const operations = exampleOperations();
  surfaces = await startSurfaceFixture({ database: test.database, operations });
  otherNode = await startSurfaceFixture({ database: await test.openAgain(), operations });
});
afterAll(async () => {
  await Promise.all([surfaces?.close(), otherNode?.close()]);
  await test?.close();
});

const call = (
  path: string,
  key: string | undefined,
  name = path,
  headers: Record<string, string> = {},
) =>
  surfaces.client(path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...headers,
    },
    body: JSON.stringify({ name }),
  });

const stored = async (name: string): Promise<number> =>
  Number(
    (
      await test.database.query<Row>(
        sql`select count(*)::int as n from penstock.test_items where name = ${name}`,
      )
    ).rows[0]?.n,
  );

it('means nothing where something is only read: the answer of yesterday is none', () => {
  const writing = create('any', () => ({ n: 1 }));
  expect(takesIdempotencyKey(writing)).toBe(true);
  expect(takesIdempotencyKey({ ...writing, readOnly: true })).toBe(false);
});

describe('Idempotency-Key', () => {
  it('makes 50 parallel equal calls happen once', async () => {
    const before = executions;
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => call('/created', 'parallel', 'fifty')),
    );
    const bodies = new Set(await Promise.all(answers.map((answer) => answer.text())));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 50 }, () => 200));
    expect([executions - before, await stored('fifty'), bodies.size]).toEqual([1, 1, 1]);
    expect(
      answers.filter(({ headers }) => headers.get('idempotency-replayed') === 'true'),
    ).toHaveLength(49);
  });

  it('holds between nodes', async () => {
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'nodes' },
      body: '{"name":"nodes"}',
    };
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 ? surfaces : otherNode).client('/created', init)),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect([
      await stored('nodes'),
      new Set(await Promise.all(answers.map((answer) => answer.text()))).size,
    ]).toEqual([1, 1]);
  });

  it('replays headers too', async () => {
    await call('/tagged', 'headers');
    const again = await call('/tagged', 'headers');
    expect([
      again.headers.get('etag'),
      again.headers.get('idempotency-replayed'),
      await again.text(),
    ]).toEqual(['"1"', 'true', '{"n":1}']);
  });

  it('refuses another request under the same key, but not of another caller or route', async () => {
    await call('/created', 'reused', 'first');
    const other = await call('/created', 'reused', 'second');
    expect([other.status, ((await other.json()) as { code: string }).code]).toEqual([
      409,
      'IDEMPOTENCY_KEY_REUSED',
    ]);
    expect(
      (await call('/created', 'reused', 'second', { authorization: 'Bearer good' })).status,
    ).toBe(200);
    expect((await call('/tagged', 'reused', 'second')).status).toBe(200);
    expect(await stored('second')).toBe(2);
  });

  it('repeats the answer over an upgrade: a row of an older version, with its own hash', async () => {
    const before = executions;
    await call('/created', 'upgraded', 'older');
    // As the first version stored it: a plain hash, and no word about its form.
    const hash = createHash('sha256').update('[{},{},{},{"name":"older"}]').digest('hex');
    await test.database.query(
      sql`update penstock.idempotency set request_hash = ${hash}, request_form = null where key = 'upgraded'`,
    );
    const again = await call('/created', 'upgraded', 'older');
    expect([again.status, again.headers.get('idempotency-replayed'), executions - before]).toEqual([
      200,
      'true',
      1,
    ]);
    expect(await stored('older')).toBe(1);
  });

  it('repeats the answer when the declaration that decoded the input has changed', async () => {
    await call('/created', 'redeclared', 'first');
    await test.database.query(
      sql`update penstock.idempotency set request_hash = 'other', request_form = '2:other' where key = 'redeclared'`,
    );
    expect(
      (await call('/created', 'redeclared', 'first')).headers.get('idempotency-replayed'),
    ).toBe('true');
  });

  it('keeps nothing of a call that failed, so that it may be tried again', async () => {
    expect((await call('/flaky', 'again')).status).toBe(409);
    expect(await stored('/flaky')).toBe(0);
    const second = await call('/flaky', 'again');
    expect([
      second.status,
      second.headers.get('idempotency-replayed'),
      await stored('/flaky'),
    ]).toEqual([200, null, 1]);
  });

  it('runs again when two have waited for each other', async () => {
    executions = 0;
    expect((await call('/crossed', 'crossed')).status).toBe(200);
    expect([executions, await stored('/crossed')]).toEqual([2, 1]);
  });

  it('does not repeat an answer that reports a failure', async () => {
    const before = executions;
    expect((await call('/unwell', 'ill')).status).toBe(503);
    expect((await call('/unwell', 'ill')).headers.get('idempotency-replayed')).toBeNull();
    expect(executions - before).toBe(2);
  });

  it('is ignored where the answer is a secret, and absent keys change nothing', async () => {
    const before = executions;
    await call('/secret', 'key');
    expect((await call('/secret', 'key')).headers.get('idempotency-replayed')).toBeNull();
    await call('/created', undefined);
    await call('/created', undefined);
    expect(executions - before).toBe(4);
  });

  it.each(['', ' ', 'a b', 'x'.repeat(256), 'ä'])('%j is refused', async (key) => {
    const response = await call('/created', key === 'ä' ? '\u00e4' : key);
    expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([
      400,
      'IDEMPOTENCY_KEY_INVALID',
    ]);
  });

  it('keeps no plain hash of a request, which could be searched for a password', async () => {
    await call('/created', 'hashed', 'a guessable password');
    const guess = createHash('sha256').update('[{},{},{},{"name":"a guessable password"}]');
    const { rows } = await test.database.query<Row>(
      sql`select request_hash as hash from penstock.idempotency where key = 'hashed'`,
    );
    expect(rows).toHaveLength(1);
    expect([guess.copy().digest('base64url'), guess.digest('hex')]).not.toContain(rows[0]?.hash);
  });

  it('gives the deadline to calls with a key as well', async () => {
    expect((await call('/stuck', 'stuck')).status).toBe(504);
    expect(await stored('/stuck')).toBe(0);
  });

  it('forgets after a day', async () => {
    await call('/created', 'old', 'old');
    await call('/created', 'young', 'young');
    await test.database.query(
      sql`update penstock.idempotency set created_at = now() - interval '25 hours' where key = 'old'`,
    );
    const again = await call('/created', 'old', 'a different body is a new request now');
    expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, null]);
    await test.database.query(
      sql`update penstock.idempotency set created_at = now() - interval '25 hours' where key = 'old'`,
    );
    await purgeIdempotencyKeys(test.database).handler(
      {},
      { signal: new AbortController().signal, log: silentLog },
    );
    const { rows } = await test.database.query<Row>(
      sql`select key from penstock.idempotency where key in ('old', 'young')`,
    );
    expect(rows).toEqual([{ key: 'young' }]);
  });
});
