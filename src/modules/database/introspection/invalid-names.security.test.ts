// Names, keys and values of tables are text of strangers: nothing of them may become SQL (https://cwe.mitre.org/data/definitions/89.html).
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../../../../test/support/api.ts';
import {
  expectUntouched,
  type ImportedPlatform,
  startOnSample,
} from '../../../../test/support/imported.ts';

describe('tables with hostile names', () => {
  let platform: ImportedPlatform;
  let client: Api;
  beforeAll(async () => {
    platform = await startOnSample('hostile');
    client = platform.client;
    await platform.importAll();
  });
  afterAll(() => platform.close());

  const imported = async (table: string): Promise<Json> => {
    const { body } = await platform.admin.get('/database/schemas', { query: { limit: 1_000 } });
    return body.schemas.find(
      ({ collectionName, modelOptions }: Json) =>
        modelOptions.conduit.imported && collectionName === table,
    );
  };

  it('gives every table and every column a valid name of its own', async () => {
    const { body } = await platform.admin.get('/database/schemas', { query: { limit: 1_000 } });
    const schemas: Json[] = body.schemas.filter(
      ({ modelOptions }: Json) => modelOptions.conduit.imported,
    );
    expect(schemas).toHaveLength(13);
    const names = schemas.map(({ name }) => name.toLowerCase());
    expect(new Set(names).size).toBe(names.length);
    for (const { name, fields } of schemas) {
      expect(name).toMatch(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/);
      for (const field of Object.keys(fields))
        expect(field, name).toMatch(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/);
    }
    // Tables of which nothing can be served stay what they are, and it is said why.
    const { body: status } = await platform.admin.get('/database/introspection');
    expect(status.foreignSchemas).toEqual(['no columns', 'only skipped']);
    expect(status.unservedSchemas.slice(0, 2)).toEqual([
      { name: 'no columns', reason: 'It has no columns' },
      {
        name: 'only skipped',
        reason:
          'None of its columns can be served. "shape" (circle): geometric types have no counterpart in the schema language',
      },
    ]);
    expect(status.unservedSchemaCount).toBe(status.unservedSchemas.length);
  });

  it('serves each of them: list, read, change, create, delete', async () => {
    const { body } = await platform.admin.get('/database/schemas', { query: { limit: 1_000 } });
    for (const { name, collectionName } of body.schemas.filter(
      ({ modelOptions }: Json) => modelOptions.conduit.imported,
    )) {
      const path = `/database/${name}`;
      const list = await client.get(path);
      expect(list.status, collectionName).toBe(200);
      for (const record of list.body.documents) {
        const own = `${path}/${encodeURIComponent(record._id)}`;
        expect((await client.get(own)).body, collectionName).toEqual(record);
        const { _id, __v, ...fields } = record;
        const changed = await client.patch(own, fields);
        expect([changed.status, changed.body._id], `${collectionName} ${changed.text}`).toEqual([
          200,
          _id,
        ]);
      }
    }
    for (const table of [
      'select',
      'My Table; drop table users; --',
      '🦄 table',
      'a-b',
      '_id',
      'many',
    ]) {
      const { name, fields } = await imported(table);
      const texts = Object.entries<Json>(fields).filter(
        ([, field]) => (field.type ?? field) === 'String',
      );
      const values = Object.fromEntries(
        texts.map(([field]) => [field, `'; drop table "users"; -- ${field}`]),
      );
      const made = await client.post(`/database/${name}`, values);
      expect(made.body, table).toMatchObject(values);
      expect((await client.delete(`/database/${name}/${made.body._id}`)).status, table).toBe(200);
    }
  });

  it('follows relations between them', async () => {
    const { name } = await imported('a b');
    const { body } = await client.get(`/database/${name}`, { query: { populate: 'link' } });
    expect(body.documents).toMatchObject([{ link: { _id: '1', a_b: '3' } }]);
  });

  it('takes keys of several odd parts apart and together', async () => {
    const { name } = await imported('odd keys');
    const ids = (await client.get(`/database/${name}`)).body.documents.map(({ _id }: Json) => _id);
    expect(ids.sort()).toEqual(
      [
        'a!1b~!0c!1~true~2020-02-29~2020-01-01T00:00:00.000001Z~1.50',
        '~x~false~1999-12-31~1999-01-01T00:00:00.000000Z~-3',
      ].sort(),
    );
    const odd = {
      a: '!0!1~~',
      b: "'||(select 1)||'",
      c: false,
      d: '2024-02-29',
      e: '2024-01-01T10:00:00.123Z',
      n: '12.0',
    };
    const made = await client.post(`/database/${name}`, odd);
    expect(made.status).toBe(200);
    const path = `/database/${name}/${encodeURIComponent(made.body._id)}`;
    expect((await client.get(path)).body).toEqual(made.body);
    // What came back can be sent back.
    const { _id, __v, ...fields } = made.body;
    expect((await client.put(path, fields)).status).toBe(200);
    expect((await client.put(path, { ...fields, a: 'other' })).body.errors).toMatchObject([
      { path: 'a', rule: 'immutable' },
    ]);
    expect((await client.delete(path)).status).toBe(200);
    for (const wrong of [
      'a~b',
      'a!1b~!0c!1~true~2021-02-29~2020-01-01T00:00:00.000001Z~1.50',
      "x~x~true~2020-01-01~now()~1' or '1'='1",
      '~~~~~',
    ]) {
      expect(
        (await client.get(`/database/${name}/${encodeURIComponent(wrong)}`)).status,
        wrong,
      ).toBe(404);
      expect(
        (await client.patch(`/database/${name}/${encodeURIComponent(wrong)}`, {})).status,
        wrong,
      ).toBe(400);
    }
    const enums = (await imported('odd types')).name;
    expect(
      (await client.get(`/database/${enums}/${encodeURIComponent("it's")}`)).body,
    ).toMatchObject({
      list: ['a "b"', 'x, y'],
      other: "it's",
    });
    expect(
      (await client.post(`/database/${enums}`, { id: 'x, y', list: ["it's"] })).body,
    ).toMatchObject({ _id: 'x, y', list: ["it's"] });
    expect((await client.delete(`/database/${enums}/${encodeURIComponent('x, y')}`)).status).toBe(
      200,
    );
  });

  it('takes no hostile name through any door', async () => {
    const { name } = await imported('select');
    const hostile = [
      'id" from pg_user; --',
      'the id',
      'key 1',
      '__proto__',
      'xmin',
      'ctid',
      'tableoid',
      '"from"',
      "a'b",
      'key 1" or true --',
    ];
    for (const field of hostile) {
      const statuses = [
        await client.get(`/database/${name}`, { query: { sort: field } }),
        await client.get(`/database/${name}`, { query: { populate: field } }),
        await platform.admin.post(`/database/schemas/${name}/query`, {
          query: JSON.parse(`{${JSON.stringify(field)}: 1}`),
        }),
      ].map(({ status }) => status);
      expect(statuses, field).toEqual([400, 400, 400]);
    }
    for (const pending of ['"; drop table x; --', '__proto__', 'a'.repeat(2_000)]) {
      const answer = await platform.admin.post('/database/introspection/schemas/finalize', {
        schemas: [{ name: pending }],
      });
      expect([400, 404]).toContain(answer.status);
    }
  });

  it('has changed nothing', () => expectUntouched(platform, []));
});
