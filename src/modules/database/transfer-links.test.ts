// Rows that refer to each other, as they come in.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('rows that come in', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  const place = (name: string): string => `/database/schemas/${name}/docs`;
  const jsonl = { headers: { 'content-type': 'application/jsonl' } };
  const put = (name: string, body: string, query = '') =>
    platform.admin.post(`${place(name)}/import${query}`, body, jsonl);
  const get = (name: string) => platform.admin.get(`${place(name)}/export`);
  const lines = (rows: readonly object[]): string =>
    rows.map((row) => `${JSON.stringify(row)}\n`).join('');

  it('may refer to rows that come later', async () => {
    await platform.createSchema({
      name: 'Tree',
      fields: { name: 'String', parent: { type: 'Relation', model: 'Tree' } },
    });
    const id = (i: number): string => `0190a0b0-0000-7000-8000-${String(i).padStart(12, '0')}`;
    const rows = Array.from({ length: 1_500 }, (_, i) => ({
      _id: id(i),
      name: String(i),
      parent: id((i + 700) % 1_500),
    }));
    expect((await put('Tree', lines(rows))).body).toMatchObject({ created: 1_500 });
    const lost = await put('Tree', lines([{ name: 'x', parent: id(9_999) }]));
    expect(lost.body.errors).toMatchObject([
      { path: 'lines.0.parent', rule: 'relation', message: expect.stringContaining(id(9_999)) },
    ]);
    expect(
      (await put('Tree', lines([{ name: 'x', parent: id(9_999) }]), '?atomic=false')).body.errors,
    ).toMatchObject([{ line: 1, field: 'parent' }]);
  });

  it('may refer to rows that come later in lists too, and where records have a trash', async () => {
    const link = { type: 'Relation', model: 'Family' } as const;
    const conduitOptions = { softDelete: true };
    await platform.createSchema({
      name: 'Family',
      fields: { up: link, all: [link] },
      conduitOptions,
    });
    const id = (n: number) => `0190a0b0-0000-7000-8000-${String(n).padStart(12, '0')}`;
    // More than one batch, each referring to the next record, the last to the first.
    const rows = Array.from({ length: 1_200 }, (_, n) => ({
      _id: id(n),
      up: id((n + 1) % 1_200),
      all: [id((n + 1) % 1_200)],
    }));
    expect((await put('Family', lines(rows), '?atomic=false')).body).toMatchObject({ created: 0 });
    expect((await put('Family', lines(rows))).body).toMatchObject({ created: 1_200, failed: 0 });
    expect((await put('Family', (await get('Family')).text, '?mode=upsert')).body).toMatchObject({
      updated: 1_200,
      failed: 0,
    });
    const lost = [
      { _id: id(5_000), all: [id(5_001), id(9_999)] },
      { _id: id(5_001), up: id(9_998) },
    ];
    const refused = await put('Family', lines(lost));
    expect(refused).toMatchObject({ status: 400, body: { code: 'IMPORT_REFUSED' } });
    expect(refused.body.errors.map(({ path }: Json) => path)).toEqual(
      expect.arrayContaining(['lines.1.all.1', 'lines.2.up']),
    );
    expect(
      (await platform.admin.post('/database/schemas/Family/query', { query: {} })).body.count,
    ).toBe(1_200);
  });
});
