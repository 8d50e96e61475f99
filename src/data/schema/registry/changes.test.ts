import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { describeWithPostgres15 } from '../../../../test/support/servers/fixtures.ts';
import { anonymous, system } from '../../../kernel/caller.ts';
import type { FieldMap } from '../language/definition.ts';
import type { NewExtension, NewSchema, SchemaChange } from '../plan/schema-request.ts';
import { listMigrations } from './migration-log.ts';

const admin = system('test');
const parse = (json: string) => JSON.parse(json) as Record<string, unknown>;

describe('changes of a schema', () => {
  let kernel: RecordKernel;
  const create = (name: string, fields: FieldMap) => kernel.schemas.create(admin, { name, fields });
  const read = async (name: string, id: string) =>
    parse((await kernel.records.get(admin, name, id)).json);
  const planned = (id: string, change: SchemaChange) =>
    kernel.schemas.plan(admin, { kind: 'update', changes: [{ id, change }] });
  const imported = (schemas: readonly NewSchema[], extensions: readonly NewExtension[] = []) =>
    kernel.schemas.apply(admin, { kind: 'import', schemas, extensions });

  beforeAll(async () => {
    kernel = await openRecordKernel();
  });
  afterAll(() => kernel.close());

  describe('renames', () => {
    it('keep data, indexes, keys and what options say about the field', async () => {
      await create('Target', { a: 'String' });
      const { _id } = await kernel.schemas.create(admin, {
        name: 'Renamed',
        fields: {
          code: { type: 'String', required: true, unique: true },
          to: { type: 'Relation', model: 'Target' },
          rank: { type: 'Number', index: true },
          other: 'String',
        },
        indexes: [{ fields: ['rank', 'code'], options: { name: 'both' } }],
        options: { cms: { query: { enabled: true, fields: ['code', 'to.a'] } } },
      });
      const target = await kernel.records.create(admin, 'Target', { a: 'x' });
      const { id } = await kernel.records.create(admin, 'Renamed', {
        code: 'c',
        to: target.id,
        rank: 1,
        other: 'o',
      });
      const changed = await kernel.schemas.update(admin, _id, {
        fields: {
          key: { type: 'String', required: true, unique: true },
          link: { type: 'Relation', model: 'Target' },
          order: { type: 'Number', index: true },
          other: 'String',
        },
        renames: { code: 'key', to: 'link', rank: 'order' },
      });
      expect(await read('Renamed', id)).toMatchObject({
        key: 'c',
        link: target.id,
        order: 1,
        other: 'o',
      });
      expect(changed.droppedFields).toEqual([]);
      expect(changed.modelOptions.indexes).toEqual([
        { fields: ['order', 'key'], options: { name: 'both' } },
      ]);
      expect(changed.modelOptions.conduit.cms.query?.fields).toEqual(['key', 'link.a']);
      await expect(kernel.records.create(admin, 'Renamed', { key: 'c' })).rejects.toMatchObject({
        errors: [{ path: 'key', rule: 'unique' }],
      });
      await expect(kernel.records.remove(admin, 'Target', target.id)).rejects.toMatchObject({
        status: 409,
      });
      const { migrations } = await listMigrations(kernel.database, 'Renamed', {
        skip: 0,
        limit: 1,
      });
      const [last] = migrations;
      expect(last?.statements.join('\n')).not.toMatch(
        /create index|drop index|create unique|drop constraint/,
      );
      const indexes = await kernel.database.query<{ name: string }>({
        text: "select indexname as name from pg_indexes where tablename = 'Renamed' and indexname not like 'pk%' order by 1",
      });
      expect(indexes.rows.map(({ name }) => name)).toEqual(
        Object.keys(changed.layout.indexes).sort(),
      );
    });

    it('need no field map', async () => {
      const { _id } = await create('Brief', { a: 'String', b: 'Number' });
      const changed = await kernel.schemas.update(admin, _id, { renames: { a: 'c' } });
      expect(Object.keys(changed.fields)).toEqual(['_id', 'c', 'b', 'createdAt', 'updatedAt']);
    });

    it.each<[string, SchemaChange, string]>([
      ['a field that is not there', { renames: { x: 'y' } }, 'renames.x'],
      ['the name of another field', { renames: { a: 'b' } }, 'renames.a'],
      ['two fields to one name', { renames: { a: 'c', b: 'c' } }, 'renames.a'],
      ['the name of a field that was taken out', { renames: { a: 'old' } }, 'renames.a'],
      ['a name that is none', { renames: { a: 'x"; drop' } }, 'fields.x"; drop'],
      [
        'a field that stays too',
        { fields: { a: 'String', c: 'String' }, renames: { a: 'c' } },
        'renames.a',
      ],
      [
        'a field that is not in the new map',
        { fields: { b: 'String' }, renames: { a: 'c' } },
        'renames.a',
      ],
    ])('refuse %s', async (_, change, path) => {
      const schema =
        kernel.schemas.get('Refusing') ??
        (await create('Refusing', { a: 'String', b: 'String', old: 'String' }));
      if (schema.tree.fields.has('old'))
        await kernel.schemas.update(admin, schema._id, { fields: { a: 'String', b: 'String' } });
      const refused = kernel.schemas.update(admin, schema._id, change);
      await expect(refused).rejects.toMatchObject({
        status: 400,
        errors: expect.arrayContaining([expect.objectContaining({ path })]),
      });
    });

    it('cannot smuggle another type in', async () => {
      const { _id } = await create('Smuggle', { a: 'String' });
      const change = { fields: { b: 'Number' }, renames: { a: 'b' } } as const;
      await expect(kernel.schemas.update(admin, _id, change)).rejects.toMatchObject({
        status: 403,
        errors: [{ path: 'fields.b' }],
      });
    });
  });

  it('widens types in place, and refuses others with what to do', async () => {
    const number = (sqlType: string) => ({ type: 'Number', sqlType }) as const;
    const { _id } = await create('Wide', {
      n: number('INT'),
      id: 'ObjectId',
      d: 'Number',
      t: { type: 'String', sqlType: 'VARCHAR' },
    });
    const ref = '00000000-0000-7000-8000-000000000001';
    const { id } = await kernel.records.create(admin, 'Wide', { n: 7, id: ref, d: 1.5, t: 'x' });
    const same = { d: 'Number', t: { type: 'String', sqlType: 'TEXT' } } as const;
    await kernel.schemas.update(admin, _id, {
      fields: { n: number('BIGINT'), id: 'String', ...same },
    });
    await kernel.schemas.update(admin, _id, {
      fields: { n: number('DECIMAL'), id: 'String', ...same },
    });
    expect(await read('Wide', id)).toMatchObject({ n: 7, id: ref, d: 1.5, t: 'x' });
    await kernel.records.update(admin, 'Wide', id, { n: '12345678901234567890.5' });
    expect(await read('Wide', id)).toMatchObject({ n: '12345678901234567890.5' });
    for (const fields of [
      { n: number('INT'), id: 'String', ...same },
      { n: number('DECIMAL'), id: 'ObjectId', ...same },
      { n: number('DECIMAL'), id: 'String', ...same, d: ['Number'] },
    ] satisfies FieldMap[]) {
      await expect(kernel.schemas.update(admin, _id, { fields })).rejects.toMatchObject({
        status: 403,
        errors: [{ rule: 'type', message: /Add a field of the new type/ }],
      });
    }
  });

  it('turns ids into links when they lead somewhere', async () => {
    await create('Place', { a: 'String' });
    const { _id } = await create('Visit', { place: 'ObjectId' });
    const missing = '00000000-0000-7000-8000-000000000001';
    const { id } = await kernel.records.create(admin, 'Visit', { place: missing });
    const link = { fields: { place: { type: 'Relation', model: 'Place' } } } as const;
    await expect(kernel.schemas.update(admin, _id, link)).rejects.toMatchObject({
      status: 409,
      message: /1 records point to a Place/,
    });
    await kernel.records.update(admin, 'Visit', id, {
      place: (await kernel.records.create(admin, 'Place', {})).id,
    });
    await kernel.schemas.update(admin, _id, link);
    expect(kernel.schemas.get('Visit')?.relations.get('place')).toEqual({
      model: 'Place',
      many: false,
    });
  });

  it('says how many records lack what shall be required, and fills them when told', async () => {
    const { _id } = await create('Fill', {
      a: 'String',
      n: { type: 'Number', validate: { min: 1 } },
    });
    await kernel.records.createMany(admin, 'Fill', [{ a: 'x' }, {}, {}]);
    const fields = {
      a: { type: 'String', required: true },
      n: { type: 'Number', validate: { min: 1 } },
    } as const;
    await expect(kernel.schemas.update(admin, _id, { fields })).rejects.toMatchObject({
      status: 409,
      errors: [{ path: 'fields.a', rule: 'required', message: /^2 records have no value/ }],
    });
    await expect(
      kernel.schemas.update(admin, _id, { fields, backfill: { a: 5, n: 0, b: 1 } }),
    ).rejects.toMatchObject({
      status: 400,
      errors: [
        { path: 'backfill.a' },
        { path: 'backfill.n', rule: 'min' },
        { path: 'backfill.b', rule: 'field' },
      ],
    });
    const added = { ...fields, extra: { type: 'JSON', required: true } } as const;
    await kernel.schemas.update(admin, _id, {
      fields: added,
      backfill: { a: "it's", n: 2, extra: { k: [1] } },
    });
    const { documents } = parse(await kernel.records.list(admin, 'Fill')) as {
      documents: Record<string, unknown>[];
    };
    expect(documents.map(({ a, n, extra }) => [a, n, extra])).toEqual(
      ['x', "it's", "it's"].map((a) => [a, 2, { k: [1] }]),
    );
  });

  it('shows examples of what is there twice, but not of hidden fields', async () => {
    const { _id } = await create('Dup', { a: 'String', s: { type: 'String', select: false } });
    await kernel.records.createMany(admin, 'Dup', [
      { a: 'twin', s: 'secret' },
      { a: 'twin', s: 'secret' },
      { a: 'single' },
    ]);
    const unique = { type: 'String', required: true, unique: true } as const;
    await expect(
      kernel.schemas.update(admin, _id, {
        fields: { a: unique, s: { type: 'String', select: false } },
      }),
    ).rejects.toMatchObject({
      status: 409,
      message: /"twin" \(2 records\)/,
    });
    const hidden = { a: 'String', s: { ...unique, select: false } } as const;
    const refused = await kernel.schemas
      .update(admin, _id, { fields: hidden, backfill: { s: 'x' } })
      .catch((error: Error) => error);
    expect(refused).toMatchObject({ status: 409, message: /several records have the same value/ });
    expect(JSON.stringify(refused)).not.toContain('secret');
  });

  it('brings fields back that were taken out, nested ones too, and destroys their data only when told', async () => {
    const fields = {
      a: 'String',
      seo: { keep: 'String', gone: 'String' },
      rows: [{ keep: 'String', gone: 'String' }],
    } satisfies FieldMap;
    const { _id } = await create('Back', fields);
    const value = { keep: 'k', gone: 'g' };
    const { id } = await kernel.records.create(admin, 'Back', {
      a: 'x',
      seo: value,
      rows: [value, value],
    });
    await kernel.schemas.update(admin, _id, {
      fields: { seo: { keep: 'String' }, rows: [{ keep: 'String' }] },
    });
    const schema = () => kernel.schemas.get('Back');
    expect(schema()?.dropped).toMatchObject({
      a: { type: 'string', definition: 'String' },
      'seo.gone': {},
      'rows.gone': {},
    });
    const restore = (field: string, backfill?: unknown) =>
      kernel.schemas.apply(admin, {
        kind: 'restore',
        id: _id,
        field,
        ...(backfill !== undefined && { backfill }),
      });
    const purge = (...paths: string[]) =>
      kernel.schemas.apply(admin, {
        kind: 'purge',
        fields: paths.map((field) => ({ id: _id, field })),
      });
    await restore('a');
    await restore('rows.gone');
    expect(await read('Back', id)).toMatchObject({
      a: 'x',
      seo: { keep: 'k' },
      rows: [value, value],
    });
    await expect(restore('a')).rejects.toMatchObject({ status: 409, code: 'FIELD_IN_USE' });
    await expect(restore('never')).rejects.toMatchObject({ status: 404, code: 'FIELD_NOT_FOUND' });
    await expect(purge('a')).rejects.toMatchObject({ status: 409, code: 'FIELD_IN_USE' });

    await kernel.schemas.update(admin, _id, {
      fields: { seo: { keep: 'String' }, rows: [{ keep: 'String' }] },
    });
    await purge('a', 'seo.gone', 'rows.gone');
    expect(schema()?.droppedFields).toEqual([]);
    await kernel.schemas.update(admin, _id, { fields: { ...fields, a: 'Number' } });
    expect(await read('Back', id)).toMatchObject({
      a: null,
      seo: { keep: 'k' },
      rows: [{ keep: 'k' }, { keep: 'k' }],
    });
    const stored = await kernel.database.query<{ text: string }>({
      text: 'select t::text as text from "app"."Back" t',
    });
    expect(stored.rows[0]?.text).not.toContain('gone');
  });

  it('keeps what was taken out of nested fields, whatever is written over them meanwhile', async () => {
    const inner = {
      keep: 'String',
      gone: 'String',
      deep: { gone: 'String', null: 'String', n: 'Number' },
    } as const;
    const options = { history: true };
    const { _id } = await kernel.schemas.create(admin, {
      name: 'Over',
      fields: { a: 'String', seo: inner },
      options,
    });
    const value = { keep: 'k', gone: 'g', deep: { gone: 'g', null: 'x', n: 1 } };
    const { id } = await kernel.records.create(admin, 'Over', { a: 'x', seo: value });
    await kernel.records.create(admin, 'Over', { a: 'other' });
    await kernel.schemas.update(admin, _id, {
      fields: { a: 'String', seo: { keep: 'String', deep: { n: 'Number' } } },
    });
    const seo = { keep: 'new', deep: { n: 2 } };
    await kernel.records.replace(admin, 'Over', id, { a: 'y', seo });
    await kernel.records.replaceMany(admin, 'Over', [{ _id: id, seo }]);
    await kernel.records.update(admin, 'Over', id, { seo: { keep: 'newer' } });
    const set = { field: 'seo', action: 'set', value: seo, place: '' } as const;
    await kernel.records.updateWhere(admin, 'Over', [set], { filter: { kind: 'all', of: [] } });
    await kernel.records.history.restore(admin, 'Over', id, 1);
    expect(await read('Over', id)).toMatchObject({ seo });
    await kernel.schemas.update(admin, _id, { fields: { a: 'String', seo: inner } });
    expect(await read('Over', id)).toMatchObject({
      seo: { keep: 'new', gone: 'g', deep: { gone: 'g', null: 'x', n: 2 } },
    });
  });

  it('lets writers live that have not heard of the change yet, or tells them to try again', async () => {
    const { _id } = await create('Moment', { a: 'String' });
    const fields = { a: 'String', b: { type: 'String', required: true, default: 'd' } } as const;
    // What a statement does that was made before the change.
    const late = async (): Promise<unknown> =>
      (
        await kernel.database.query({
          text: `insert into "app"."Moment" ("_id") values (gen_random_uuid()) returning "b"`,
        })
      ).rows[0];
    await kernel.schemas.update(admin, _id, { fields, backfill: { b: 'was there' } });
    expect(await late()).toEqual({ b: 'd' });
    await kernel.schemas.update(admin, _id, { fields: { a: 'String' } });
    expect(await late()).toEqual({ b: null });
    await kernel.database.query({ text: `delete from "app"."Moment"` });
    await kernel.database.query({
      text: `alter table "app"."Moment" alter column "a" set not null`,
    });
    await expect(kernel.records.create(admin, 'Moment', {})).rejects.toMatchObject({
      status: 409,
      code: 'WRITE_CONFLICT',
    });
    await kernel.database.query({ text: `alter table "app"."Moment" drop column "a"` });
    await expect(kernel.records.create(admin, 'Moment', {})).rejects.toMatchObject({
      status: 409,
      code: 'WRITE_CONFLICT',
    });
    // A read waits until the schema is what the table is, or says that it is not.
    const reading = kernel.records.list(anonymous, 'Moment');
    await kernel.database.query({ text: `alter table "app"."Moment" add column "a" text` });
    expect(parse(await reading)).toMatchObject({ count: 0 });
    await kernel.database.query({ text: `alter table "app"."Moment" drop column "a"` });
    await expect(kernel.records.list(anonymous, 'Moment')).rejects.toMatchObject({ status: 503 });
    const inTransaction = kernel.database.transaction(() =>
      kernel.records.list(anonymous, 'Moment'),
    );
    await expect(inTransaction).rejects.toMatchObject({ status: 503 });
  });

  it('asks for values when a required field comes back and records came without it', async () => {
    const { _id } = await create('Again', { a: { type: 'String', required: true }, b: 'String' });
    await kernel.schemas.update(admin, _id, { fields: { b: 'String' } });
    await kernel.records.create(admin, 'Again', { b: 'x' });
    const restore = { kind: 'restore', id: _id, field: 'a' } as const;
    await expect(kernel.schemas.apply(admin, restore)).rejects.toMatchObject({ status: 409 });
    await kernel.schemas.apply(admin, { ...restore, backfill: 'new' });
    expect(parse(await kernel.records.list(admin, 'Again')).documents).toMatchObject([
      { a: 'new' },
    ]);
  });

  it('plans with locks, rows, what is hidden and lost, and why it would be refused', async () => {
    const { _id } = await create('Shown', {
      a: 'String',
      n: { type: 'Number', sqlType: 'INT' },
      gone: 'String',
    });
    await kernel.records.createMany(admin, 'Shown', [{ n: 1, gone: 'x' }, { n: 2 }]);
    const plan = await planned(_id, {
      fields: {
        a: { type: 'String', required: true },
        n: { type: 'Number', sqlType: 'BIGINT', index: true },
      },
    });
    expect(plan).toMatchObject({
      schema: 'Shown',
      destructive: false,
      hides: [{ schema: 'Shown', field: 'gone', records: 1 }],
      loses: [],
      obstacles: [{ path: 'fields.a', rule: 'required' }],
      after: [{ name: 'Shown', __v: 1 }],
    });
    const widening = plan.steps.find(({ statement }) => statement.includes('type bigint'));
    expect(widening).toMatchObject({ lock: 'ACCESS EXCLUSIVE', rows: 2, destructive: false });
    expect(plan.checksum).toBe(
      (
        await planned(_id, {
          fields: {
            a: { type: 'String', required: true },
            n: { type: 'Number', sqlType: 'BIGINT', index: true },
          },
        })
      ).checksum,
    );
    expect(kernel.schemas.get('Shown')?.__v).toBe(0);

    const removal = await kernel.schemas.plan(admin, {
      kind: 'remove',
      ids: [_id],
      deleteData: true,
    });
    expect(removal).toMatchObject({
      destructive: true,
      loses: [{ schema: 'Shown', field: '*', records: 2 }],
      after: [],
    });
    expect(parse(await kernel.records.list(admin, 'Shown')).count).toBe(2);
  });

  it('plans an index of a large table as what it will be', async () => {
    const { _id } = await create('Big', { a: 'String' });
    await kernel.database.query({
      text: `insert into "app"."Big" ("_id") select gen_random_uuid() from generate_series(1, 10001)`,
    });
    const { steps } = await planned(_id, { fields: { a: { type: 'String', index: true } } });
    expect(steps).toMatchObject([
      {
        statement: expect.stringMatching(/^create index concurrently/),
        lock: 'SHARE UPDATE EXCLUSIVE',
        later: true,
      },
    ]);
  });

  it('imports schemas and extensions of them as one change, and does nothing the second time', async () => {
    const schemas = [
      { name: 'Imported', fields: { a: 'String' }, options: { permissions: { extendable: true } } },
    ] satisfies NewSchema[];
    const extensions = [
      { schema: 'Imported', owner: 'database', fields: { b: 'Number' } },
    ] satisfies NewExtension[];
    const [made] = await imported(schemas, extensions);
    expect(made).toMatchObject({ __v: 0, compiledFields: { a: 'String', b: 'Number' } });
    await imported(schemas, extensions);
    expect(kernel.schemas.get('Imported')?.__v).toBe(0);
    await kernel.schemas.update(admin, made?._id ?? '', {
      options: { readPreference: 'nearest', realtime: { enabled: true } },
    });
    const [again] = await imported(schemas, extensions);
    expect(again?.modelOptions.conduit).not.toHaveProperty('realtime');
    await expect(
      imported([], [{ schema: 'Nowhere', owner: 'database', fields: { b: 'Number' } }]),
    ).rejects.toMatchObject({
      status: 412,
      errors: [{ path: 'extensions.0.schemaName' }],
    });
    const bad = [
      { schema: 'Imported', owner: 'database', fields: { b: { type: 'Number', required: true } } },
    ] satisfies NewExtension[];
    await expect(imported([{ name: 'Half', fields: { a: 'String' } }], bad)).rejects.toMatchObject({
      status: 400,
      errors: [{ path: 'extensions.0.extension.fields.b.required' }],
    });
    expect(kernel.schemas.get('Half')).toBeUndefined();
  });
});

await describeWithPostgres15('changes of a schema by two nodes', () => {
  it('that import the same at once make one migration', async () => {
    const kernel = await openRecordKernel('external15');
    const other = await kernel.another();
    const request = {
      kind: 'import',
      schemas: [{ name: 'Same', fields: { a: 'String' }, options: {} }],
      extensions: [],
    } as const;
    await Promise.all(
      [kernel, other, kernel, other].map(({ schemas }) => schemas.apply(admin, request)),
    );
    const text = "select count(*)::int as n from penstock.schema_migrations where schema = 'Same'";
    expect((await kernel.database.query({ text })).rows).toEqual([{ n: 1 }]);
    const { _id = '' } = kernel.schemas.get('Same') ?? {};
    const renames = [kernel, other].map(({ schemas }) =>
      schemas.update(admin, _id, { renames: { a: 'b' } }),
    );
    const states = (await Promise.allSettled(renames)).map(({ status }) => status).sort();
    expect(states).toEqual(['fulfilled', 'rejected']);
    expect([kernel, other].map(({ schemas }) => schemas.get('Same')?.tree.fields.has('b'))).toEqual(
      [true, true],
    );
    await kernel.close();
  });
});
