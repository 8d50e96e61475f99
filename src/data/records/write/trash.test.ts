import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestServer } from '../../../../test/support/database.ts';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { describeWithPostgres15 } from '../../../../test/support/servers/fixtures.ts';
import { anonymous, system } from '../../../kernel/caller.ts';
import { all, equals } from '../../conditions/condition.ts';
import { emptyLayout } from '../../schema/compile/layout.ts';
import type { FieldMap, PlatformOptions } from '../../schema/language/definition.ts';
import { parseFields } from '../../schema/language/parse.ts';
import { recordOptionProblems } from '../../schema/plan/option-rules.ts';

const admin = system('test');
const { signal } = new AbortController();

const suite = (server: TestServer) => () => {
  let kernel: RecordKernel;
  let count = 0;
  const declare = async (
    fields: FieldMap,
    options: PlatformOptions = { softDelete: true },
  ): Promise<string> => {
    const name = `Kept${count++}`;
    await kernel.schemas.create(admin, { name, fields, options });
    return name;
  };
  const make = async (name: string, input: Record<string, unknown>) =>
    (await kernel.records.create(admin, name, input)).id;
  const ids = async (name: string, options = {}): Promise<string[]> =>
    JSON.parse(await kernel.records.list(admin, name, options)).documents.map(
      ({ _id }: { _id: string }) => _id,
    );
  const tableRows = async (name: string): Promise<number> =>
    (await kernel.database.query({ text: `select 1 from "app"."${name}"` })).rows.length;

  beforeAll(async () => {
    kernel = await openRecordKernel(server);
  });
  afterAll(() => kernel.close());

  it('hides a deleted record from every read, and brings it back', async () => {
    const author = await declare({ name: 'String' });
    const book = await declare({
      title: 'String',
      by: { type: 'Relation', model: author, onDelete: 'setNull' },
    });
    const id = await make(author, { name: 'Ann' });
    const other = await make(author, { name: 'Bob' });
    const text = await make(book, { title: 'T', by: id });
    await kernel.records.remove(admin, author, id);

    await expect(kernel.records.get(anonymous, author, id)).rejects.toMatchObject({
      code: 'RECORD_NOT_FOUND',
    });
    for (const mode of ['exact', 'estimated'] as const) {
      expect(
        JSON.parse(await kernel.records.list(anonymous, author, { count: mode })),
      ).toMatchObject({
        documents: [{ _id: other }],
        count: 1,
      });
    }
    const filter = all();
    expect(JSON.parse(await kernel.records.select(admin, author, { filter }))).toMatchObject({
      count: 1,
    });
    expect(JSON.parse(await kernel.records.find(admin, author, { filter }))).toHaveLength(1);
    const values = [{ as: 'n', function: 'count' }] as const;
    expect(
      JSON.parse(await kernel.records.aggregate(admin, author, { filter, groupBy: [], values })),
    ).toEqual([{ n: 1 }]);
    const byName = equals('by.name', 'Ann');
    expect(JSON.parse(await kernel.records.select(admin, book, { filter: byName }))).toMatchObject({
      count: 0,
    });
    // The link stays, and leads nowhere for now.
    expect(
      JSON.parse((await kernel.records.get(admin, book, text, { populate: ['by'] })).json),
    ).toMatchObject({ by: id });
    for (const write of [
      () => kernel.records.update(admin, author, id, { name: 'x' }),
      () => kernel.records.replace(admin, author, id, { name: 'x' }),
      () => kernel.records.updateMany(admin, author, [{ _id: id, name: 'x' }]),
      () => kernel.records.remove(admin, author, id),
    ]) {
      await expect(write()).rejects.toMatchObject({ code: 'RECORD_NOT_FOUND' });
    }
    const assignment = { field: 'name', action: 'set', value: 'x', place: '' } as const;
    expect(await kernel.records.updateWhere(admin, author, [assignment], { filter })).toBe(1);
    expect(await kernel.records.removeWhere(admin, author, { filter })).toBe(1);

    const trash = JSON.parse(
      await kernel.records.list(admin, author, { deleted: true, sort: ['-deletedAt', '_id'] }),
    );
    expect(trash).toMatchObject({
      count: 2,
      documents: expect.arrayContaining([
        expect.objectContaining({ _id: id, name: 'Ann', __v: 1 }),
      ]),
    });
    expect(trash.documents[0].deletedAt).toMatch(/^\d{4}-.*Z$/);
    await expect(kernel.records.list(anonymous, author, { deleted: true })).rejects.toMatchObject({
      status: 403,
    });

    expect(JSON.parse((await kernel.records.trash.restore(admin, author, id)).json)).toMatchObject({
      _id: id,
      name: 'Ann',
      __v: 2,
    });
    expect(await ids(author)).toEqual([id]);
    expect(
      JSON.parse((await kernel.records.get(admin, book, text, { populate: ['by'] })).json),
    ).toMatchObject({ by: { name: 'Ann' } });
    await expect(kernel.records.trash.restore(admin, author, id)).rejects.toMatchObject({
      code: 'TRASHED_RECORD_NOT_FOUND',
    });
    expect((await kernel.events(author)).filter((event) => event.endsWith(id))).toEqual([
      `insert:${id}`,
      `delete:${id}`,
      `insert:${id}`,
    ]);
  });

  it('lets nothing new refer to what is in the trash, whoever writes', async () => {
    const author = await declare({ name: 'String' });
    const relation = { type: 'Relation', model: author } as const;
    const book = await declare({ title: 'String', by: relation, with: [relation] });
    const gone = await make(author, { name: 'Ann' });
    const id = await make(book, { title: 'T' });
    await kernel.records.remove(admin, author, gone);
    const refusal = (path: string) => ({ status: 400, errors: [{ path, rule: 'relation' }] });
    const { records } = kernel;
    await expect(records.create(admin, book, { by: gone })).rejects.toMatchObject(refusal('by'));
    await expect(records.createMany(admin, book, [{}, { by: gone }])).rejects.toMatchObject(
      refusal('docs.1.by'),
    );
    await expect(records.update(admin, book, id, { with: [gone] })).rejects.toMatchObject(
      refusal('with.0'),
    );
    await expect(records.update(admin, book, id, { $push: { with: gone } })).rejects.toMatchObject(
      refusal('$push.with.0'),
    );
    for (const [field, value] of [
      ['by', gone],
      ['with', [gone]],
    ] as const) {
      const assignment = { field, action: 'set', value, place: 'input' } as const;
      const refused = refusal(field === 'by' ? 'input' : 'input.0');
      await expect(
        records.updateWhere(admin, book, [assignment], { filter: all() }),
      ).rejects.toMatchObject(refused);
    }
  });

  it('does not speak of rights when a record comes back at the moment of a change', async () => {
    const name = await declare({ title: 'String' });
    const id = await make(name, { title: 'T' });
    const { database } = kernel;
    const query = database.query.bind(database);
    // The deletion looks while the record is in the trash; whoever asks why it found nothing finds it again.
    const late = async ({ text, ...rest }: { text: string }) =>
      text.includes('update "app"') ? { rows: [], count: 0 } : query({ text, ...rest });
    Object.assign(database, { query: late });
    await expect(kernel.records.remove(anonymous, name, id)).rejects.toMatchObject({
      status: 409,
      code: 'WRITE_CONFLICT',
    });
    Object.assign(database, { query });
  });

  it('lets a unique value be used again, and says so when both want it', async () => {
    const name = await declare({ email: { type: 'String', required: true, unique: true } });
    const first = await make(name, { email: 'a' });
    await kernel.records.remove(admin, name, first);
    const second = await make(name, { email: 'a' });
    await expect(make(name, { email: 'a' })).rejects.toMatchObject({ code: 'RECORD_NOT_UNIQUE' });
    const problem = { path: 'email', rule: 'unique' };
    await expect(kernel.records.trash.restore(admin, name, first)).rejects.toMatchObject({
      status: 409,
      errors: [problem],
    });
    await kernel.records.remove(admin, name, second);
    await kernel.records.trash.restore(admin, name, first);
    expect(await ids(name)).toEqual([first]);
  });

  it('keeps what refers to a record in step with it', async () => {
    const parent = await declare({ name: 'String' });
    const child = await declare({ of: { type: 'Relation', model: parent, onDelete: 'cascade' } });
    const grandchild = await declare({
      of: { type: 'Relation', model: child, onDelete: 'cascade' },
    });
    const holder = await declare({ of: { type: 'Relation', model: parent } });
    const plain = await declare(
      { of: { type: 'Relation', model: parent, onDelete: 'cascade' } },
      {},
    );
    const id = await make(parent, { name: 'p' });
    const [kid, early] = [await make(child, { of: id }), await make(child, { of: id })];
    const little = await make(grandchild, { of: kid });
    const bare = await make(plain, { of: id });
    const held = await make(holder, { of: id });

    await expect(kernel.records.remove(admin, parent, id)).rejects.toMatchObject({
      code: 'RECORD_IN_USE',
    });
    expect(await ids(child)).toEqual([kid, early]);
    await kernel.records.remove(admin, holder, held);
    await kernel.records.remove(admin, child, early);
    await kernel.records.remove(admin, parent, id);
    expect([await ids(child), await ids(grandchild), await ids(plain)]).toEqual([[], [], [bare]]);
    expect(await kernel.events(grandchild)).toEqual([`insert:${little}`, `delete:${little}`]);

    // Nothing can come to hang on what is in the trash.
    const refused = { status: 400, errors: [{ path: 'of', rule: 'relation' }] };
    await expect(make(holder, { of: id })).rejects.toMatchObject(refused);
    await expect(kernel.records.createMany(admin, child, [{ of: id }])).rejects.toMatchObject({
      errors: [{ path: 'docs.0.of' }],
    });
    const blocked = { code: 'RESTORE_BLOCKED', errors: [{ path: 'of', rule: 'trash' }] };
    await expect(kernel.records.trash.restore(admin, child, kid)).rejects.toMatchObject(blocked);
    await expect(kernel.records.trash.restore(admin, holder, held)).rejects.toMatchObject(blocked);

    await kernel.records.trash.restore(admin, parent, id);
    // What was deleted by itself stays deleted.
    expect([await ids(child), await ids(grandchild), await ids(holder)]).toEqual([
      [kid],
      [little],
      [],
    ]);
  });

  it('goes through circles of relations', async () => {
    const name = `Kept${count++}`;
    const fields: FieldMap = {
      of: { type: 'Relation', model: name, onDelete: 'cascade' },
      next: { type: 'Relation', model: name },
    };
    await kernel.schemas.create(admin, { name, fields, options: { softDelete: true } });
    const a = await make(name, {});
    const b = await make(name, { of: a, next: a });
    await kernel.records.update(admin, name, a, { of: b, next: b });
    await kernel.records.remove(admin, name, a);
    expect(await ids(name)).toEqual([]);
    await kernel.records.trash.restore(admin, name, a);
    expect(await ids(name)).toEqual([a, b]);
    await kernel.records.remove(admin, name, b);
    expect(await ids(name, { deleted: true })).toEqual([a, b]);
    expect(await kernel.records.trash.purge(admin, name, [a, b])).toBe(2);
    expect(await tableRows(name)).toBe(0);
  });

  it('destroys for good only what is in the trash and nobody needs', async () => {
    const parent = await declare(
      { name: 'String' },
      { softDelete: { retainDays: 1 }, history: true },
    );
    const holder = await declare({ of: { type: 'Relation', model: parent } });
    const linked = await declare(
      { of: { type: 'Relation', model: parent, onDelete: 'setNull' } },
      {},
    );
    const [old, held, alive] = [
      await make(parent, {}),
      await make(parent, {}),
      await make(parent, {}),
    ];
    const hold = await make(holder, { of: held });
    const link = await make(linked, { of: old });
    await kernel.records.remove(admin, holder, hold);
    for (const id of [old, held]) await kernel.records.remove(admin, parent, id);
    expect(await kernel.records.trash.purgeExpired(admin, parent, signal)).toBe(0);
    await kernel.database.query({
      text: `update "app"."${parent}" set "deletedAt" = now() - interval '2 days' where "deletedAt" is not null`,
    });
    await expect(kernel.records.trash.purge(anonymous, parent, [old])).rejects.toMatchObject({
      status: 403,
    });
    expect(await kernel.records.trash.purgeExpired(admin, parent, signal)).toBe(1);
    expect(await ids(parent, { deleted: true })).toEqual([held]);
    expect(JSON.parse((await kernel.records.get(admin, linked, link)).json)).toMatchObject({
      of: null,
      __v: 1,
    });
    expect(JSON.parse(await kernel.records.history.list(admin, parent, old))).toMatchObject({
      count: 0,
    });
    await expect(kernel.records.trash.purge(admin, parent, [held, alive])).rejects.toMatchObject({
      code: 'RECORD_IN_USE',
    });
    await kernel.records.trash.purge(admin, holder, [hold]);
    expect(await kernel.records.trash.purge(admin, parent, [held, alive])).toBe(1);
    expect(await ids(parent)).toEqual([alive]);
  });

  it('never leaves a living record that hangs on a deleted one, whoever is first', async () => {
    const parent = await declare({ name: 'String' });
    const child = await declare({ of: { type: 'Relation', model: parent } });
    for (let round = 0; round < 20; round++) {
      const id = await make(parent, {});
      const [removed, made] = await Promise.allSettled([
        kernel.records.remove(admin, parent, id),
        kernel.records.create(admin, child, { of: id }),
      ]);
      expect([removed.status, made.status].sort()).toEqual(['fulfilled', 'rejected']);
    }
  });

  it('is switched on without a rewrite and off only when it is empty', async () => {
    const name = await declare({ email: { type: 'String', required: true, unique: true } }, {});
    const id = await make(name, { email: 'a' });
    const schema = kernel.schemas.get(name);
    const file = async () =>
      (
        await kernel.database.query<{ file: string }>({
          text: `select relfilenode::text as file from pg_class where oid = '"app"."${name}"'::regclass`,
        })
      ).rows[0]?.file;
    // So large that other indexes are made beside running writes: this one is there at every moment.
    const many = `insert into "app"."${name}" ("_id", email) select gen_random_uuid(), 'many ' || i from generate_series(1, 10001) i`;
    await kernel.database.query({ text: many });
    const before = await file();
    await kernel.schemas.update(admin, schema?._id ?? '', { options: { softDelete: true } });
    expect(await file()).toBe(before);
    await expect(make(name, { email: 'a' })).rejects.toMatchObject({ code: 'RECORD_NOT_UNIQUE' });
    await kernel.records.remove(admin, name, id);
    await make(name, { email: 'a' });
    const off = () =>
      kernel.schemas.update(admin, schema?._id ?? '', { options: { softDelete: false } });
    await expect(off()).rejects.toMatchObject({
      status: 409,
      errors: [{ path: 'conduitOptions.softDelete', rule: 'trash' }],
    });
    await kernel.records.trash.purge(admin, name, [id]);
    await off();
    await expect(make(name, { email: 'a' })).rejects.toMatchObject({ code: 'RECORD_NOT_UNIQUE' });
    await expect(kernel.records.list(admin, name, { deleted: true })).rejects.toMatchObject({
      code: 'TRASH_DISABLED',
    });
  });

  it('refuses what does not fit', async () => {
    const refuse = (fields: FieldMap, options: PlatformOptions) =>
      expect(kernel.schemas.create(admin, { name: `Kept${count++}`, fields, options })).rejects;
    await refuse({ deletedAt: 'Date' }, { softDelete: true }).toMatchObject({
      errors: [{ path: 'fields.deletedAt', rule: 'name' }],
    });
    await refuse({ a: 'String' }, { softDelete: { retainDays: 0 } }).toMatchObject({ status: 400 });
    // Whoever owns the table decides about its columns.
    const { tree } = parseFields({ a: 'String' });
    const problems = recordOptionProblems({
      options: { softDelete: true, history: true, imported: true },
      tree,
      layout: emptyLayout,
    });
    expect(problems.map(({ path }) => path)).toEqual([
      'modelOptions.conduit.softDelete',
      'modelOptions.conduit.history',
    ]);
  });
};

describe('the trash', suite('embedded'));
await describeWithPostgres15('the trash on PostgreSQL 15', suite('external15'));
