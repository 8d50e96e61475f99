import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('vectors', () => {
  let platform: TestPlatform;
  const vector = (similarity: 'cosine' | 'euclidean' | 'dotProduct') =>
    ({ type: 'Vector', dimensions: 3, similarity }) as const;
  const points: readonly (readonly [string, number[] | null])[] = [
    ['east', [1, 0, 0]],
    ['north', [0, 2, 0]],
    ['between', [1, 1, 0]],
    ['west', [-3, 0, 0]],
    ['nowhere', [0, 0, 0]],
    ['unknown', null],
  ];
  const search = (body: object, schema = 'Point') =>
    platform.admin.post(`/database/schemas/${schema}/vector-search`, body);
  const names = async (body: object): Promise<string[]> => {
    const answer = await search(body);
    expect([answer.status, answer.text.slice(0, 200)]).toEqual([200, expect.any(String)]);
    return answer.body.results.map(({ document }: Json) => document.name);
  };

  beforeAll(async () => {
    platform = await createTestPlatform();
    await platform.createSchema({
      name: 'Point',
      fields: {
        name: 'String',
        rank: 'Number',
        c: vector('cosine'),
        e: vector('euclidean'),
        d: vector('dotProduct'),
      },
    });
    const docs = points.map(([name, at], rank) => ({ name, rank, c: at, e: at, d: at }));
    expect((await platform.client.post('/database/Point/many', { docs })).status).toBe(200);
  });
  afterAll(() => platform.close());

  it('are stored, checked and returned', async () => {
    const { body } = await platform.client.post('/database/Point', {
      name: 'kept',
      c: [0.1, -2.5, 1536],
    });
    expect(body.c).toEqual([0.1, -2.5, 1536]);
    expect((await platform.client.get(`/database/Point/${body._id}`)).body.c).toEqual([
      0.1, -2.5, 1536,
    ]);
    expect(
      (await platform.client.patch(`/database/Point/${body._id}`, { c: null })).body.c,
    ).toBeNull();
    for (const c of [[1, 2], [1, 2, 3, 4], [1, 2, '3'], [1, null, 3], 'abc', [1, 2, 1e39]]) {
      expect((await platform.client.post('/database/Point', { c })).status).toBe(400);
    }
    const raw = await platform.client.post('/database/Point', '{"c":[1,2,1e999]}', {
      headers: { 'content-type': 'application/json' },
    });
    expect(raw.status).toBe(400);
    await platform.client.delete(`/database/Point/${body._id}`);
    for (const shape of [
      'Vector',
      ['Vector'],
      { type: 'Vector' },
      { type: 'Vector', dimensions: 0 },
      { type: 'Vector', dimensions: 3, similarity: 'x' },
    ]) {
      expect(
        (await platform.admin.post('/database/schemas', { name: 'Bad', fields: { v: shape } }))
          .status,
      ).toBe(400);
    }
  });

  it('never change their dimensions, but their similarity', async () => {
    const schema = await platform.createSchema({ name: 'Fixed', fields: { v: vector('cosine') } });
    const put = (field: object) =>
      platform.admin.put(`/database/schemas/${schema._id}`, { fields: { v: field } });
    expect((await put({ type: 'Vector', dimensions: 4 })).status).toBe(403);
    expect((await put(vector('euclidean'))).status).toBe(200);
  });

  it('are found by each measure, with scores between 0 and 1', async () => {
    expect(await names({ field: 'c', vector: [2, 0, 0] })).toEqual([
      'east',
      'between',
      'north',
      'west',
    ]);
    expect(await names({ field: 'e', vector: [1, 0.4, 0] })).toEqual([
      'east',
      'between',
      'nowhere',
      'north',
      'west',
    ]);
    expect(await names({ field: 'd', vector: [0.1, 1, 0] })).toEqual([
      'north',
      'between',
      'east',
      'nowhere',
      'west',
    ]);
    const { body } = await search({ field: 'c', vector: [1, 0, 0], limit: 1, select: ['name'] });
    expect(body.results).toEqual([
      { document: { name: 'east' }, score: 1, distance: 0, metric: 'cosine', provider: 'exact' },
    ]);
    const [near] = (await search({ field: 'e', vector: [1, 0, 2], limit: 1 })).body.results;
    expect(near).toMatchObject({ distance: 2, score: 1 / 3, metric: 'euclidean' });
    const far = (await search({ field: 'd', vector: [3e30, 0, 0] })).body.results;
    expect(far.map(({ score }: Json) => score)).toEqual(
      [1, 1, 0.5, 0.5, 0].map((score) => expect.closeTo(score, 9)),
    );
    expect(far[0].raw).toBeGreaterThan(1e30);
  });
  it('take a filter of the query language, and nothing else', async () => {
    expect(
      await names({ field: 'c', vector: [1, 0, 0], filter: { rank: { $gte: 1, $lt: 3 } } }),
    ).toEqual(['between', 'north']);
    for (const body of [
      { field: 'c', vector: [1, 0] },
      { field: 'c', vector: [0, 0, 0] },
      { field: 'name', vector: [1, 0, 0] },
      { field: 'c"; drop table x; --', vector: [1, 0, 0] },
      { field: 'c', vector: [1, 0, 0], filter: { $where: '1' } },
      { field: 'c', vector: [1, 0, 0], filter: { other: 1 } },
      { field: 'c', vector: [1, 0, 0], limit: 1_001 },
      { field: 'c', vector: [1, 0, 0], select: ['nothing'] },
      { vector: [1, 0, 0] },
    ]) {
      const { status } = await search(body);
      expect([body, status]).toEqual([body, 400]);
    }
    expect((await search({ field: 'c', vector: [1, 0, 0] }, 'Nowhere')).status).toBe(404);
  });

  it('have no index, and say so', async () => {
    expect((await platform.admin.get('/database/vector/capabilities')).body).toMatchObject({
      supported: true,
      storage: true,
      indexing: false,
      search: true,
      provider: 'exact',
      reason: expect.stringContaining('exact'),
    });
    expect(
      (await platform.admin.get('/database/vector/capabilities?schemaName=Nowhere')).status,
    ).toBe(404);
    const { body } = await platform.admin.get('/database/schemas?search=Point');
    const path = `/database/schemas/${body.schemas[0]._id}/vector-indexes`;
    expect((await platform.admin.get(path)).body).toEqual({ indexes: [] });
    expect(await platform.admin.post(path, { index: { field: 'c' } })).toMatchObject({
      status: 412,
      body: { code: 'VECTOR_UNSUPPORTED' },
    });
    expect((await platform.admin.delete(`${path}/x`)).status).toBe(404);
  });
});
