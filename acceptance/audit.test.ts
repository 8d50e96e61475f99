/** Rows of the audit log stand or fall with the change that they are about: both are of one transaction. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../test/support/api.ts';
import { operation } from '../test/support/endpoints.ts';
import { openBench, type WeakSpotBench } from './weak-spots/bench.ts';

describe('the audit row of a change', () => {
  let bench: WeakSpotBench;
  let schema: Json;
  beforeAll(async () => {
    bench = await openBench();
    schema = await bench.schema({ a: 'String' });
  });
  afterAll(() => bench.close());

  const endpoint = (name: string) => ({
    name,
    selectedSchema: schema._id,
    operation: operation.get,
    query: {},
  });

  /** Makes something; answers its id, and which transaction wrote the rows of the audit log about it. */
  const made = async (
    path: string,
    body: Json,
    headers: Record<string, string> = {},
  ): Promise<{ id: string; audited: Json[] }> => {
    const requestId = crypto.randomUUID();
    const answer = await bench.platform.admin.post(path, body, {
      headers: { 'x-request-id': requestId, ...headers },
    });
    expect(answer.status, answer.text).toBe(200);
    const audited = await bench.rows(
      'select xmin::text from penstock.audit_log where request_id = $1',
      [requestId],
    );
    return { id: answer.body._id ?? answer.body.id, audited };
  };

  test('of a record', async () => {
    const { id, audited } = await made(`/database/schemas/${schema.name}/docs`, {
      inputDocument: { a: 'x' },
    });
    expect(audited).toEqual(
      await bench.rows(`select xmin::text from app."${schema.name}" where "_id" = $1`, [id]),
    );
  });

  test('of a role', async () => {
    const { id, audited } = await made('/authorization/roles', {
      name: 'audited',
      permissions: [],
    });
    expect(audited).toEqual(
      await bench.rows('select xmin::text from penstock.roles where id = $1', [id]),
    );
  });

  test.each([
    ['a custom endpoint', {}],
    [
      'one with an Idempotency-Key, which has a transaction open around it',
      { 'idempotency-key': 'audited-once' },
    ],
  ])('of %s', async (_what, headers) => {
    const { id, audited } = await made(
      '/database/customEndpoints',
      endpoint(`audited${Object.keys(headers).length}`),
      headers as Record<string, string>,
    );
    expect(audited).toEqual(
      await bench.rows('select xmin::text from penstock.custom_endpoints where id = $1', [id]),
    );
  });
});
