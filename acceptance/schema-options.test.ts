/**
 * No dead options: each option of a schema changes what its routes, its table or the rights over it are. The list comes
 * from the shape that the platform publishes; an option for which nothing below says how to see it fails.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { platformOptionsShape } from '../src/data/schema/language/options.ts';
import type { JsonSchema } from '../src/kernel/operations/json-schema.ts';
import type { Answer, Json } from '../test/support/api.ts';
import { openTestConnection, type TestConnection } from '../test/support/connection.ts';
import { expectStatus, type TestUser } from '../test/support/node.ts';
import { liftLimits } from '../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { projectRoot } from './routes.ts';

/** An option without and with what it is about; what both have stands in both. */
type Pair = readonly [without: Json, withIt: Json];

const crud = (operation: string, set: Json): Json => ({
  cms: { crudOperations: { [operation]: set } },
});
const query = (set: Json): Json => ({
  cms: { query: { enabled: true, fields: ['title', 'rank'], ...set } },
});
const owner = { owner: { field: 'by' } };

const pairs: Readonly<Record<string, Pair>> = {
  'cms.enabled': [{}, { cms: { enabled: false } }],
  'cms.query.enabled': [query({ enabled: false }), query({})],
  'cms.query.fields': [query({}), query({ fields: ['rank'] })],
  'cms.query.operators': [query({}), query({ operators: ['$eq'] })],
  'cms.query.maxCost': [query({}), query({ maxCost: 1 })],
  'cms.crudOperations.update.operators': [{}, crud('update', { operators: true })],
  'cms.crudOperations.update.upsert': [{}, crud('update', { upsert: true })],
  'permissions.extendable': [{}, { permissions: { extendable: false } }],
  'permissions.canCreate': [{}, { permissions: { canCreate: false } }],
  'permissions.canModify': [{}, { permissions: { canModify: 'Nothing' } }],
  'permissions.canDelete': [{}, { permissions: { canDelete: false } }],
  'authorization.enabled': [{}, { authorization: { enabled: true } }],
  softDelete: [{}, { softDelete: true }],
  history: [{}, { history: true }],
  'history.max': [{ history: { max: 50 } }, { history: { max: 1 } }],
  owner: [{}, owner],
  'owner.field': [owner, { owner: { field: 'other' } }],
  'owner.limit': [owner, { owner: { ...owner.owner, limit: ['read', 'update', 'delete'] } }],
  ...Object.fromEntries(
    ['create', 'read', 'update', 'delete'].flatMap((operation): [string, Pair][] => [
      [`cms.crudOperations.${operation}.enabled`, [{}, crud(operation, { enabled: false })]],
      [
        `cms.crudOperations.${operation}.authenticated`,
        [{}, crud(operation, { authenticated: true })],
      ],
    ]),
  ),
};

/** What needs more than requests to be seen: time, sockets, records from before. By the test that shows it. */
const elsewhere: Readonly<Record<string, readonly [file: string, text: string]>> = {
  'owner.combine': [
    'acceptance/authorization/creation.test.ts',
    'owner rules and team rules combine as declared',
  ],
  'realtime.enabled': [
    'acceptance/realtime-access.security.test.ts',
    'realtime: { enabled: false }',
  ],
  'authorization.mode': ['acceptance/weak-spots/data-loss.test.ts', "mode: 'assignOwner'"],
  'authorization.ownerField': ['acceptance/weak-spots/data-loss.test.ts', 'ownerField'],
  'softDelete.retainDays': ['src/data/records/write/trash.test.ts', 'retainDays'],
  'history.retainDays': ['src/data/records/read/history.test.ts', 'retainDays'],
  imported: ['src/modules/database/introspection/flow.test.ts', 'imported'],
  unknownFields: ['acceptance/unknown-input.test.ts', 'unknownFields'],
  triggerMessages: ['src/modules/database/introspection/odd-tables.test.ts', 'triggerMessages'],
};

/** Dotted paths of all that can be set. */
function leaves(schema: JsonSchema, path: string): readonly string[] {
  const { properties } = [schema, ...(schema.anyOf ?? [])].find((one) => one.properties) ?? {};
  const inside = Object.entries(properties ?? {}).flatMap(([name, one]) =>
    leaves(one, path === '' ? name : `${path}.${name}`),
  );
  // What is a switch as well as an object is an option itself.
  return schema.anyOf || inside.length === 0 ? [path, ...inside] : inside;
}

const shape = platformOptionsShape as unknown as JsonSchema;
const described = (path: string): string =>
  path.split('.').reduce<JsonSchema | undefined>((at, name) => at?.properties?.[name], shape)
    ?.description ?? '';
const options = leaves(shape, '').filter((path) => !described(path).includes('without effect'));

describe('an option of a schema changes something', () => {
  let platform: TestPlatform;
  let sql: TestConnection;
  let anna: TestUser;
  let bob: TestUser;
  let counter = 0;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    sql = await openTestConnection(platform.databaseUrl ?? '');
    [anna, bob] = [await platform.registerUser(), await platform.registerUser()];
  });
  afterAll(async () => {
    await sql?.close();
    await platform?.close();
  });

  const everybody = { enabled: true, authenticated: false };
  const fields = {
    title: 'String',
    rank: 'Number',
    by: { type: 'Relation', model: 'User' },
    other: { type: 'Relation', model: 'User' },
  };

  function merged(options: Json): Json {
    const { cms = {}, ...others } = options;
    const operations = Object.fromEntries(
      ['create', 'read', 'update', 'delete'].map((name) => [
        name,
        { ...everybody, ...cms.crudOperations?.[name] },
      ]),
    );
    return { ...others, cms: { enabled: true, ...cms, crudOperations: operations } };
  }

  /** One that writes: what a schema permits to others decides whether it can be. */
  const endpoint = (selectedSchemaName: string, operation: number): Json => ({
    name: `does${operation}In${selectedSchemaName}`,
    operation,
    selectedSchemaName,
    authentication: true,
    inputs: [{ name: 'title', type: 'String', location: operation === 3 ? 1 : 0 }],
    ...(operation !== 1 && {
      query: {
        AND: [
          { schemaField: 'rank', operation: 0, comparisonField: { type: 'Custom', value: 99 } },
        ],
      },
    }),
    ...(operation !== 3 && {
      assignments: [
        { schemaField: 'title', action: 0, assignmentField: { type: 'Input', value: 'title' } },
      ],
    }),
  });

  /** What everybody can do with the schema, one after the other. */
  async function effects(conduitOptions: Json): Promise<string> {
    counter += 1;
    const name = `Options${counter}`;
    const made = await platform.admin.post('/database/schemas', {
      name,
      fields,
      conduitOptions: merged(conduitOptions),
    });
    expectStatus(made, 200, JSON.stringify(conduitOptions));
    const seen: unknown[] = [];
    const note = ({ status, body }: Answer<Json>): Json => {
      seen.push([
        status,
        body?.code,
        body?.count,
        body?.title,
        body?.rank,
        body?.by,
        body?.other,
        body?.errors?.map(({ path, rule }: Json) => [path, rule]),
      ]);
      return body;
    };
    const path = `/database/${name}`;
    const [visitor, user, stranger, operator] = [
      platform.client,
      anna.api,
      bob.api,
      platform.admin,
    ];
    note(await visitor.post(path, { title: 'a', rank: 1 }));
    const own = note(await user.post(path, { title: 'b', rank: 2 }))._id ?? anna.userId;
    note(await visitor.get(path));
    note(await user.get(path));
    note(await stranger.get(`${path}/${own}`));
    for (const api of [visitor, stranger, user])
      note(await api.patch(`${path}/${own}`, { title: 'c' }));
    note(await user.patch(`${path}/${own}`, { $inc: { rank: 5 } }));
    note(
      await user.put(
        `${path}/01890a5d-ac96-774b-bcce-b3020000${String(counter).padStart(4, '0')}`,
        { title: 'd' },
        { query: { upsert: true } },
      ),
    );
    for (const asked of [
      { title: 'c' },
      { rank: { $gt: 0 } },
      { $or: [{ rank: 1 }, { rank: 2 }, { rank: 3 }] },
    ])
      note(await user.post(`${path}/query`, { query: asked }));
    note(await user.get(`${path}/${own}/history`));
    const documents = `/database/schemas/${name}/docs`;
    const document = note(await operator.post(documents, { title: 'e' }))._id ?? own;
    note(await operator.patch(`${documents}/${document}`, { title: 'f' }));
    note(await operator.delete(`${documents}/${document}`));
    note(
      await operator.post(`/database/schemas/${made.body._id}/extensions`, {
        fields: { more: 'String' },
      }),
    );
    for (const operation of [1, 3, 4])
      note(await operator.post('/database/customEndpoints', endpoint(name, operation)));
    for (const api of [visitor, stranger, user]) note(await api.delete(`${path}/${own}`));
    note(await user.get(path));
    seen.push(
      await sql.query(
        'select attname from pg_attribute where attrelid = $1::regclass and attnum > 0 order by 1',
        [`app."${name}"`],
      ),
    );
    return JSON.stringify(seen).replaceAll(name, 'Options');
  }

  it.each(options)('%s', async (option) => {
    const other = elsewhere[option];
    if (other)
      return expect(await readFile(join(projectRoot, other[0]), 'utf8')).toContain(other[1]);
    const pair = pairs[option];
    if (!pair) throw new Error(`Say under "pairs" how to see what the option ${option} does`);
    const [without, withIt] = [await effects(pair[0]), await effects(pair[1])];
    expect(withIt, `${option} changes nothing`).not.toBe(without);
  });

  it('is only what the platform still has', () => {
    expect(
      [...Object.keys(pairs), ...Object.keys(elsewhere)].filter((path) => !options.includes(path)),
    ).toEqual([]);
  });
});
