import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { describeWithPostgres15 } from '../../../../test/support/servers/fixtures.ts';
import { anonymous, system } from '../../../kernel/caller.ts';
import type { FieldMap } from '../language/definition.ts';
import type { NewSchema } from '../plan/schema-request.ts';

const admin = system('test');
const parse = (json: string) => JSON.parse(json) as Record<string, unknown>;

describe('the schema registry', () => {
  let kernel: RecordKernel;
  const create = (name: string, fields: FieldMap) => kernel.schemas.create(admin, { name, fields });
  const imported = (schemas: readonly NewSchema[]) =>
    kernel.schemas.apply(admin, { kind: 'import', schemas, extensions: [] });
  const applied = async () => {
    const { rows } = await kernel.database.query<{ n: number }>({
      text: 'select count(*)::int as n from penstock.schema_migrations',
    });
    return rows[0]?.n;
  };

  beforeAll(async () => {
    kernel = await openRecordKernel();
  });
  afterAll(() => kernel.close());

  it('installs the schemas of a module once, and again only when they change', async () => {
    const definition = { name: 'Installed', fields: { a: 'String' } } as const;
    await kernel.schemas.install('chat', [definition]);
    const before = await applied();
    await kernel.schemas.install('chat', [definition]);
    const node = await kernel.another();
    await node.schemas.install('chat', [definition]);
    expect(await applied()).toBe(before);
    expect(kernel.schemas.get('Installed')).toMatchObject({
      ownerModule: 'chat',
      modelOptions: { conduit: { cms: { enabled: false } } },
    });
    await kernel.schemas.install('chat', [
      { name: 'Installed', fields: { a: 'String', b: 'Number' } },
    ]);
    expect(kernel.schemas.get('Installed')?.tree.fields.has('b')).toBe(true);
    await expect(kernel.schemas.install('forms', [definition])).rejects.toThrow(/belongs to chat/);
    const { _id = '' } = kernel.schemas.get('Installed') ?? {};
    await expect(
      kernel.schemas.update(admin, _id, { fields: { a: 'String' } }),
    ).rejects.toMatchObject({ status: 403 });
    await expect(kernel.schemas.remove(admin, [_id], { deleteData: true })).rejects.toMatchObject({
      status: 403,
    });
  });

  it('is changed by nobody but admins and the platform', async () => {
    await expect(
      kernel.schemas.create(anonymous, { name: 'Nope', fields: { a: 'String' } }),
    ).rejects.toMatchObject({ status: 403 });
  });

  it('waits for the target of a relation, then enforces it', async () => {
    const early = await create('Early', {
      late: { type: 'Relation', model: 'Late' },
      lates: [{ type: 'Relation', model: 'Late' }],
    });
    expect(early.pendingRelations).toEqual(['Late']);
    const record = await kernel.records.create(admin, 'Early', {});
    await expect(kernel.records.list(admin, 'Early', { populate: ['late'] })).rejects.toMatchObject(
      { status: 400 },
    );
    const late = await create('Late', { a: 'String' });
    expect(kernel.schemas.get('Early')?.pendingRelations).toEqual([]);
    const missing = '00000000-0000-7000-8000-000000000000';
    await expect(
      kernel.records.update(admin, 'Early', record.id, { late: missing }),
    ).rejects.toMatchObject({ status: 400 });
    await kernel.schemas.remove(admin, [late._id], { deleteData: true });
    expect(kernel.schemas.get('Early')?.pendingRelations).toEqual(['Late']);
    expect(
      parse(
        (
          await kernel.records.update(admin, 'Early', record.id, {
            late: missing,
            lates: [missing],
          })
        ).json,
      ).late,
    ).toBe(missing);
    await expect(create('Late', { a: 'String' })).rejects.toMatchObject({
      status: 409,
      errors: [{ path: 'fields.late' }],
    });
  });

  it('lets two schemas, and one and itself, point to each other', async () => {
    await imported([
      {
        name: 'Room',
        fields: {
          last: { type: 'Relation', model: 'Message' },
          parent: { type: 'Relation', model: 'Room', onDelete: 'cascade' },
        },
      },
      { name: 'Message', fields: { room: { type: 'Relation', model: 'Room', required: true } } },
    ]);
    const room = await kernel.records.create(admin, 'Room', {});
    const inner = await kernel.records.create(admin, 'Room', { parent: room.id });
    await kernel.records.update(admin, 'Room', room.id, { parent: inner.id });
    await kernel.records.remove(admin, 'Room', room.id);
    expect(parse(await kernel.records.list(admin, 'Room')).count).toBe(0);
    expect(await kernel.events('Room')).toHaveLength(5);
    const ids = ['Room', 'Message'].map((name) => kernel.schemas.get(name)?._id ?? '');
    await kernel.schemas.remove(admin, ids, { deleteData: true });
    expect(kernel.schemas.get('Message')).toBeUndefined();
  });

  it('refuses changes that stored records contradict, and does nothing of them', async () => {
    const { _id } = await create('Strict', { a: 'String', b: 'String' });
    await kernel.records.createMany(admin, 'Strict', [{ a: 'same' }, { a: 'same', b: 'x' }]);
    const change = (fields: FieldMap) =>
      kernel.schemas.update(admin, _id, { fields: { ...fields, added: 'String' } });
    await expect(
      change({ a: { type: 'String', required: true, unique: true }, b: 'String' }),
    ).rejects.toMatchObject({
      status: 409,
      errors: [{ path: 'fields.a', rule: 'unique' }],
    });
    await expect(
      change({ a: 'String', b: { type: 'String', required: true } }),
    ).rejects.toMatchObject({
      status: 409,
      errors: [{ path: 'fields.b', rule: 'required' }],
    });
    await expect(
      change({ a: 'String', c: { type: 'String', required: true } }),
    ).rejects.toMatchObject({ status: 409 });
    await expect(change({ a: 'Number' })).rejects.toMatchObject({
      status: 403,
      message: 'Invalid schema types',
    });
    await expect(change({ a: ['String'] })).rejects.toMatchObject({ status: 403 });
    const columns =
      "select 1 from information_schema.columns where table_name = 'Strict' and column_name = 'added'";
    expect((await kernel.database.query({ text: columns })).rows).toEqual([]);
    const filled = await change({
      a: 'String',
      b: { type: 'String', required: true, default: "it's" },
    });
    expect(filled.__v).toBe(1);
    expect(parse(await kernel.records.list(admin, 'Strict')).documents).toMatchObject([
      { b: "it's" },
      { b: 'x' },
    ]);
  });

  it('hides nested fields that were taken out, keeps their data, and brings it back', async () => {
    const inner = { keep: 'String', gone: 'String' } as const;
    const { _id } = await create('Nest', { seo: inner, rows: [inner] });
    const value = { keep: 'k', gone: 'g' };
    const { id } = await kernel.records.create(admin, 'Nest', { seo: value, rows: [value] });
    const read = async () => parse((await kernel.records.get(admin, 'Nest', id)).json);
    const changed = await kernel.schemas.update(admin, _id, {
      fields: { seo: { keep: 'String' }, rows: [{ keep: 'String' }] },
    });
    expect(changed.droppedFields).toEqual(['rows.gone', 'seo.gone']);
    expect(await read()).toMatchObject({ seo: { keep: 'k' }, rows: [{ keep: 'k' }] });
    expect(JSON.stringify(await read())).not.toContain('gone');
    await kernel.records.update(admin, 'Nest', id, { seo: { keep: 'new' } });
    await kernel.schemas.update(admin, _id, { fields: { seo: inner, rows: [inner] } });
    expect(await read()).toMatchObject({ seo: { keep: 'new', gone: 'g' }, rows: [value] });
  });

  it('is committed and live when the call returns, also inside of a transaction that fails later', async () => {
    const failing = kernel.database.transaction(async () => {
      await create('Independent', { a: 'String' });
      throw new Error('later');
    });
    await expect(failing).rejects.toThrow('later');
    const node = await kernel.another();
    expect(node.schemas.get('Independent')).toBeDefined();
    expect(kernel.schemas.get('Independent')).toBeDefined();
  });

  it('plans without doing', async () => {
    const { _id } = await create('Planned', { a: 'String' });
    const plan = await kernel.schemas.plan(admin, {
      kind: 'update',
      changes: [
        { id: _id, change: { fields: { a: { type: 'String', index: true }, b: 'Number' } } },
      ],
    });
    expect(plan.destructive).toBe(false);
    expect(plan.steps.map(({ lock }) => lock)).toEqual(['ACCESS EXCLUSIVE', 'SHARE']);
    expect(kernel.schemas.get('Planned')?.tree.fields.has('b')).toBe(false);
  });

  it('keeps a schema the same object while others change', async () => {
    await create('Stable', { a: 'String' });
    const before = kernel.schemas.get('Stable');
    await create('Restless', { a: 'String' });
    expect(kernel.schemas.get('Stable')).toBe(before);
  });

  it('serves readers while the schema changes under them', async () => {
    const { _id } = await create('Busy', { a: 'String', b: 'Number' });
    await kernel.records.createMany(
      admin,
      'Busy',
      Array.from({ length: 20 }, () => ({ a: 'x', b: 1 })),
    );
    let going = true;
    const readers = Array.from({ length: 4 }, async () => {
      while (going) await kernel.records.list(admin, 'Busy', { sort: ['-a'] });
    });
    for (let i = 0; i < 6; i++) {
      await kernel.schemas.update(admin, _id, {
        fields: i % 2 === 0 ? { a: 'String', [`c${i}`]: 'JSON' } : { a: 'String', b: 'Number' },
      });
    }
    going = false;
    await Promise.all(readers);
  });
});

await describeWithPostgres15('the schema registry of two nodes on PostgreSQL 15', () => {
  let kernel: RecordKernel;
  beforeAll(async () => {
    kernel = await openRecordKernel('external15');
  });
  afterAll(() => kernel.close());

  it('has a change on the other node when the call returns, and does the same work once', async () => {
    const other = await kernel.another();
    const told: string[] = [];
    other.schemas.onChange((changed) => void told.push(...changed));
    const { _id } = await kernel.schemas.create(admin, { name: 'Shared', fields: { a: 'String' } });
    expect(other.schemas.get('Shared')?._id).toBe(_id);
    expect(told).toEqual(['Shared']);
    const { id } = await other.records.create(admin, 'Shared', { a: 'x' });
    await other.schemas.update(admin, _id, {
      fields: { a: 'String', b: { type: 'Number', default: 5 } },
    });
    expect(parse((await kernel.records.get(admin, 'Shared', id)).json)).toMatchObject({
      a: 'x',
      b: 5,
    });

    const both = await Promise.allSettled(
      [kernel, other].map(({ schemas }) =>
        schemas.create(admin, { name: 'Race', fields: { a: 'String' } }),
      ),
    );
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(both.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { status: 409 },
    });
    await Promise.all(
      [kernel, other].map(({ schemas }) =>
        schemas.install('chat', [{ name: 'Both', fields: { a: 'String' } }]),
      ),
    );
    const text = "select count(*)::int as n from penstock.schema_migrations where schema = 'Both'";
    expect((await kernel.database.query<{ n: number }>({ text })).rows[0]?.n).toBe(1);
    await other.schemas.remove(admin, [_id], { deleteData: true });
    expect(kernel.schemas.get('Shared')).toBeUndefined();
  });
});
