// A custom endpoint is the same on every node when the call that changed it returns (spec/database.md 8, 9).
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compare, createEndpointBench, operation } from '../../../test/support/endpoints.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('custom endpoints on two nodes', () => {
  let first: TestPlatform;
  let second: TestPlatform;
  beforeAll(async () => {
    first = await createTestPlatform();
    second = await createTestPlatform({ databaseUrl: first.databaseUrl ?? '' });
  });
  afterAll(async () => {
    await second.close();
    await first.close();
  });

  it('are made, changed and taken away everywhere at once', async () => {
    const bench = createEndpointBench(first);
    const selectedSchemaName = await bench.posts([{ title: 'a' }, { title: 'b' }]);
    const seen = async () => {
      const { status, body } = await second.client.get('/database/function/shared');
      return status === 200 ? body.length : status;
    };
    const { _id } = await bench.endpoint('shared', {
      operation: operation.get,
      selectedSchemaName,
      query: {},
    });
    expect(await seen()).toBe(2);
    const query = compare('title', 0, ['Custom', 'a']);
    await first.admin.patch(`/database/customEndpoints/${_id}`, { selectedSchemaName, query });
    expect(await seen()).toBe(1);
    const exported = await first.admin.get('/database/customEndpoints/export');
    // Both nodes import at once: one after the other does it, and there is one endpoint in the end.
    const imports = [first, second].map(({ admin }) =>
      admin.post('/database/customEndpoints/import', exported.body),
    );
    for (const { status } of await Promise.all(imports)) expect([200, 409]).toContain(status);
    expect(await seen()).toBe(1);
    const list = await second.admin.get('/database/customEndpoints');
    expect(list.body.count).toBe(1);
    await second.admin.delete(`/database/customEndpoints/${list.body.customEndpoints[0]._id}`);
    expect(await seen()).toBe(404);
    expect((await first.client.get('/database/function/shared')).status).toBe(404);
  });

  it('honours an Idempotency-Key on their creation', async () => {
    const bench = createEndpointBench(second);
    await first.createSchema({ name: 'Keyed', fields: { a: 'String' } });
    const body = {
      name: 'keyed',
      operation: operation.get,
      selectedSchemaName: 'Keyed',
      query: {},
    };
    const make = () =>
      first.admin.post('/database/customEndpoints', body, {
        headers: { 'idempotency-key': 'one' },
      });
    const [made, again] = [await make(), await make()];
    expect([made.status, again.text]).toEqual([200, made.text]);
    expect((await bench.call('keyed')).body).toEqual([]);
  });
});
