/** Parameters of the query arrive as they were sent, by whatever route (router.md 10.5, 5.3). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../test/support/api.ts';
import {
  compare,
  createEndpointBench,
  input,
  location,
  operation,
} from '../test/support/endpoints.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { upload } from './functions/requests.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await upload(platform.admin, {
    name: 'echo',
    functionCode: 'return { q: req.params.q, flag: req.params.flag, many: req.params.many }',
    inputs: {
      method: 'GET',
      queryParams: { q: 'String', flag: 'Boolean', many: ['String'] },
    },
  });
  const bench = createEndpointBench(platform);
  const selectedSchemaName = await bench.posts([
    { title: 'a,b', text: 'off', meta: false },
    { title: 'a', text: 'on', meta: true },
  ]);
  await bench.endpoint('byTitle', {
    selectedSchemaName,
    operation: operation.get,
    inputs: [input('q', 'String', location.query)],
    query: compare('title', 0, ['Input', 'q']),
  });
});
afterAll(() => platform.close());

const echoed = async (query: string): Promise<Json> => {
  const { status, body } = await platform.client.get(`/functions/echo?${query}`);
  expect(status).toBe(200);
  return body.result;
};

describe('router.md 10.5: a parameter of the query', () => {
  it('with a comma is one text', async () => {
    expect(await echoed('q=a,b')).toEqual({ q: 'a,b' });
    expect(await echoed('q=a%2Cb')).toEqual({ q: 'a,b' });
    const found = await platform.client.get('/database/function/byTitle?q=a,b');
    expect(found.body.map(({ text }: Json) => text)).toEqual(['off']);
  });

  it('with a comma is a list where a list is declared', async () => {
    expect(await echoed('many=a,b')).toEqual({ many: ['a', 'b'] });
  });

  it('that says false is false', async () => {
    expect(await echoed('flag=false')).toEqual({ flag: false });
    expect(await echoed('flag=true')).toEqual({ flag: true });
    expect(await echoed('flag=0')).toEqual({ flag: false });
    const wrong = await platform.client.get('/functions/echo?flag=no');
    expect(wrong).toMatchObject({ status: 400, body: { errors: [{ path: 'flag' }] } });
    // The lists of the platform read theirs in the same way.
    const runs = async (success: string): Promise<number> =>
      (await platform.admin.get(`/functions/list/executions?success=${success}`)).body.count;
    expect([(await runs('true')) > 0, await runs('false')]).toEqual([true, 0]);
  });

  it('is a text, and never an object or a null', async () => {
    expect(await echoed('q=null')).toEqual({ q: 'null' });
    for (const query of ['q[$ne]=a', 'q=a&q=b', 'q[a][b]=c'])
      expect(await platform.client.get(`/functions/echo?${query}`)).toMatchObject({ status: 400 });
  });
});
