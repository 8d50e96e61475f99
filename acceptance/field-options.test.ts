/**
 * No dead options: each option and each rule of each kind of field changes what the platform does. The list comes from
 * the schema language itself; an option for which nothing below says how to see it fails. What counts is what records
 * do and what the table is, not what the documents say.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type KindName, shapeOf, typeNames } from '../src/data/schema/language/field-language.ts';
import type { Answer, Json } from '../test/support/api.ts';
import { openTestConnection, type TestConnection } from '../test/support/connection.ts';
import { expectStatus } from '../test/support/node.ts';
import { liftLimits } from '../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

const kinds: readonly KindName[] = [...typeNames, 'array', 'object'];
const uuid = '01890a5d-ac96-774b-bcce-b302099a8057';
const dates = ['2026-01-01T00:00:00.000Z', '2026-06-01T00:00:00.000Z'];

/** The field without the option, and values that records try. */
const plain: Record<KindName, { readonly field: Json; readonly values: readonly unknown[] }> = {
  String: {
    field: { type: 'String' },
    values: ['', 'a', 'ab', 'abcdef', 'a@b.cd', 'twin', 'twin'],
  },
  Number: { field: { type: 'Number' }, values: [-1, 0, 2.5, 3, 5, 10, 7, 7] },
  Boolean: { field: { type: 'Boolean' }, values: [true, false, true] },
  Date: { field: { type: 'Date' }, values: [...dates, dates[0]] },
  ObjectId: { field: { type: 'ObjectId' }, values: [uuid, uuid.replace('7', '8'), uuid] },
  JSON: { field: { type: 'JSON' }, values: [{ a: 1 }, [1]] },
  Relation: { field: { type: 'Relation', model: 'Target' }, values: ['$target', '$target'] },
  // Which files a writer may link, and what readers get of them: acceptance/storage/file-fields.test.ts.
  File: { field: { type: 'File' }, values: ['$file', '$file'] },
  Vector: {
    field: { type: 'Vector', dimensions: 2 },
    values: [
      [1, 0],
      [10, 1],
      [0.1, 0.5],
      [1, 0, 0],
    ],
  },
  array: { field: { type: ['String'] }, values: [[], ['a'], ['a', 'b', 'c']] },
  object: { field: { type: { a: 'String' } }, values: [{ a: 'x' }, { a: 1 }] },
};

/** How to see an option: what it is set to, and what else must be there for it to mean something. */
interface Sample {
  readonly set: Json;
  readonly beside?: Json;
}

const must = { required: true };
const values = (kind: KindName): readonly unknown[] => plain[kind].values;

const samples: Record<string, (kind: KindName) => Sample> = {
  required: () => ({ set: must }),
  select: () => ({ set: { select: false } }),
  default: (kind) => ({
    set: {
      default: kind === 'Relation' || kind === 'File' ? undefined : values(kind)[0] || 'made',
    },
  }),
  description: (kind) => ({ set: { description: `About this ${kind}` } }),
  access: () => ({ set: { access: { read: 'admin' } } }),
  'access.write': () => ({ set: { access: { write: 'admin' } } }),
  unique: () => ({ set: { unique: true }, beside: must }),
  primaryKey: () => ({ set: { primaryKey: true } }),
  enum: (kind) => ({ set: { enum: [kind === 'String' ? 'ab' : values(kind)[1]] } }),
  index: () => ({ set: { index: true } }),
  sqlType: () => ({ set: { sqlType: 'INT' } }),
  model: () => ({ set: { model: 'Other' } }),
  onDelete: () => ({ set: { onDelete: 'cascade' } }),
  dimensions: () => ({ set: { dimensions: 3 } }),
  similarity: () => ({ set: { similarity: 'euclidean' } }),
  'validate.format': () => ({ set: { validate: { format: 'email' } } }),
  'validate.minLength': () => ({ set: { validate: { minLength: 2 } } }),
  'validate.maxLength': () => ({ set: { validate: { maxLength: 2 } } }),
  'validate.length': () => ({ set: { validate: { length: 2 } } }),
  'validate.pattern': () => ({ set: { validate: { pattern: '^a+$' } } }),
  'validate.min': () => ({ set: { validate: { min: 3 } } }),
  'validate.max': () => ({ set: { validate: { max: 3 } } }),
  'validate.exclusiveMin': () => ({ set: { validate: { exclusiveMin: 3 } } }),
  'validate.exclusiveMax': () => ({ set: { validate: { exclusiveMax: 3 } } }),
  'validate.integer': () => ({ set: { validate: { integer: true } } }),
  'validate.minItems': () => ({ set: { validate: { minItems: 1 } } }),
  'validate.maxItems': () => ({ set: { validate: { maxItems: 1 } } }),
  'validate.message': (kind) => {
    const rule = { String: { maxLength: 1 }, Number: { max: 1 }, array: { maxItems: 1 } }[
      kind as 'String'
    ];
    return { set: { validate: { ...rule, message: 'Not like this' } }, beside: { validate: rule } };
  },
};

/** Options that a kind takes and that change nothing of it, with the reason; their descriptions say so too. */
const withoutEffect: ReadonlyMap<string, string> = new Map([
  ['String sqlType', 'text has one storage, and limits are `validate`: taken for existing clients'],
  ['Date sqlType', 'instants have one storage: taken for existing clients'],
  ['Relation index', 'a relation always has one'],
]);

/** `kind option` for everything that the language has. */
const everything = kinds.flatMap((kind) => {
  const { properties } = shapeOf(kind) as unknown as {
    properties: Record<string, { properties?: object }>;
  };
  const { type: _, validate, ...options } = properties;
  const rules = Object.keys(validate?.properties ?? {}).map((rule) => `validate.${rule}`);
  return [...Object.keys(options), 'access.write', ...rules].map(
    (option) => [kind, option] as const,
  );
});

const all = everything.filter(([kind, option]) => !withoutEffect.has(`${kind} ${option}`));

describe('an option of a field changes something', () => {
  let platform: TestPlatform;
  let sql: TestConnection;
  let counter = 0;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    sql = await openTestConnection(platform.databaseUrl ?? '');
    for (const name of ['Target', 'Other'])
      await platform.createSchema({ name, fields: { a: 'String' }, conduitOptions: open });
  });
  afterAll(async () => {
    await sql?.close();
    await platform?.close();
  });

  const everybody = { enabled: true, authenticated: false };
  const open = {
    cms: {
      enabled: true,
      crudOperations: { create: everybody, read: everybody, update: everybody, delete: everybody },
    },
  };

  const outcome = ({ status, body }: Answer<Json>): unknown =>
    status === 200
      ? [status, body.f ?? null, 'f' in body]
      : [status, (body.errors ?? []).map(({ path, rule, message }: Json) => [path, rule, message])];

  /** What a schema with this field does, with everything left out that differs from run to run. */
  async function effects(field: Json, option: string, tried: readonly unknown[]): Promise<string> {
    counter += 1;
    const name = `Probe${counter}`;
    const made = await platform.admin.post('/database/schemas', {
      name,
      fields: { f: field, other: 'String' },
      conduitOptions: open,
    });
    expectStatus(made, 200, JSON.stringify(field));
    const { client } = platform;
    const target = (await client.post('/database/Target', { a: 'x' })).body._id;
    const seen: unknown[] = [outcome(await client.post(`/database/${name}`, { other: 'nothing' }))];
    for (const value of tried) {
      const f = JSON.parse(JSON.stringify(value).replaceAll('$target', target));
      seen.push(outcome(await client.post(`/database/${name}`, { f })));
    }
    const { documents } = (
      await client.get(`/database/${name}`, { query: { sort: 'createdAt', limit: 100 } })
    ).body;
    seen.push(documents.map((one: Json) => [one.f ?? null, 'f' in one]));
    if (documents[0])
      seen.push(outcome(await client.patch(`/database/${name}/${documents[0]._id}`, { f: null })));
    if (field.dimensions !== undefined) {
      const near = await platform.admin.post(`/database/schemas/${name}/vector-search`, {
        field: 'f',
        vector: [1, 0, 0].slice(0, field.dimensions),
        limit: 10,
      });
      seen.push(
        near.status,
        near.body.results?.map(({ score, metric }: Json) => [score, metric]),
      );
    }
    if (field.type === 'Relation') {
      seen.push((await client.delete(`/database/Target/${target}`)).status);
      seen.push((await client.get(`/database/${name}`)).body.count);
    }
    seen.push(await tableOf(name));
    if (option === 'description')
      seen.push((await client.get('/swagger.json')).text.includes(`${field.description}`));
    return JSON.stringify(seen)
      .replaceAll(name, 'Probe')
      .replaceAll(target, 'target')
      .replaceAll(/_[0-9a-f]{6,}/g, '_hash');
  }

  async function tableOf(name: string): Promise<unknown> {
    const columns = await sql.query(
      `select a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull from pg_attribute a
       where a.attrelid = $1::regclass and a.attname = 'f'`,
      [`app."${name}"`],
    );
    const indexes = await sql.query(
      `select indexdef from pg_indexes where schemaname = 'app' and tablename = $1 order by 1`,
      [name],
    );
    const keys = await sql.query(
      `select pg_get_constraintdef(oid) from pg_constraint where conrelid = $1::regclass order by 1`,
      [`app."${name}"`],
    );
    return [columns, indexes, keys];
  }

  it.each(all)('%s %s', async (kind, option) => {
    const sample = samples[option]?.(kind);
    if (!sample) throw new Error(`Say under "samples" how to see what the option ${option} does`);
    const { field, values: tried } = plain[kind];
    // Lists have it for what they are lists of.
    const isModel = kind === 'array' && option === 'model';
    const base = isModel ? { type: ['Relation'], model: 'Target' } : { ...field, ...sample.beside };
    const { default: value, ...others } = sample.set;
    const set =
      (kind === 'Relation' || kind === 'File') && option === 'default'
        ? { default: uuid }
        : { ...others, ...('default' in sample.set && { default: value }) };
    const tries = isModel ? [['$target']] : tried;
    const [without, withIt] = [
      await effects(base, option, tries),
      await effects({ ...base, ...set }, option, tries),
    ];
    expect(withIt, `${kind}.${option} changes nothing`).not.toBe(without);
  });
});
