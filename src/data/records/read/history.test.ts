import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestServer } from '../../../../test/support/database.ts';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { describeWithPostgres15 } from '../../../../test/support/servers/fixtures.ts';
import { anonymous, type Caller, system } from '../../../kernel/caller.ts';
import { newId } from '../../../kernel/ids.ts';
import { all } from '../../conditions/condition.ts';
import type { FieldMap, PlatformOptions } from '../../schema/language/definition.ts';

const admin = system('test');
const user: Caller = {
  kind: 'user',
  userId: newId(),
  sessionId: 's',
  authenticatedAt: 0,
  complete: true,
  clientId: 'web',
};
const { signal } = new AbortController();

const fieldsOf = (): FieldMap => ({
  title: { type: 'String', required: true },
  secret: { type: 'String', select: false },
  views: { type: 'Number', sqlType: 'BIGINT' },
  at: 'Date',
  tags: ['String'],
  seo: { slug: 'String', key: { type: 'String', select: false } },
});

interface Version {
  readonly version: number;
  readonly operation: string;
  readonly by: string;
  readonly document: Record<string, unknown>;
  readonly changes:
    | { readonly field: string; readonly from: unknown; readonly to: unknown }[]
    | null;
}

const suite = (server: TestServer) => () => {
  let kernel: RecordKernel;
  let count = 0;
  const declare = async (options: PlatformOptions = {}, fields = fieldsOf()): Promise<string> => {
    const name = `Told${count++}`;
    await kernel.schemas.create(admin, { name, fields, options: { history: true, ...options } });
    return name;
  };
  const versions = async (name: string, id: string, caller: Caller = admin): Promise<Version[]> =>
    JSON.parse(await kernel.records.history.list(caller, name, id, { limit: 100 })).versions;
  const version = async (
    name: string,
    id: string,
    number: number,
    { caller = admin, ...options }: { caller?: Caller; compare?: 'current' } = {},
  ): Promise<Version> =>
    JSON.parse(await kernel.records.history.get(caller, name, id, number, options));
  const told = async (name: string, id: string) =>
    (await versions(name, id)).map((one) => `${one.version}:${one.operation}`);

  beforeAll(async () => {
    kernel = await openRecordKernel(server);
  });
  afterAll(() => kernel.close());

  it('keeps what a record was before each change, whoever writes', async () => {
    const name = await declare({ softDelete: true });
    const made = JSON.parse(
      (
        await kernel.records.create(user, name, {
          title: 'a',
          at: '2026-01-02',
          tags: ['x'],
          views: '9007199254740993',
        })
      ).json,
    );
    const id: string = made._id;
    await kernel.records.update(user, name, id, { title: 'b' });
    await kernel.records.update(admin, name, id, { seo: { slug: 's' } });
    await kernel.records.replace(admin, name, id, { title: 'c' });
    await kernel.records.updateMany(admin, name, [{ _id: id, title: 'd' }]);
    await kernel.records.replaceMany(admin, name, [{ _id: id, title: 'e' }]);
    const assignment = { field: 'title', action: 'set', value: 'f', place: '' } as const;
    await kernel.records.updateWhere(admin, name, [assignment], { filter: all() });
    await kernel.records.removeWhere(admin, name, { filter: all() });
    await kernel.records.trash.restore(admin, name, id);
    await kernel.records.remove(admin, name, id);
    const updates = [0, 1, 2, 3, 4, 5].map((number) => `${number}:update`);
    expect(await told(name, id)).toEqual(
      [...updates, '6:delete', '7:restore', '8:delete'].reverse(),
    );

    // Every value comes back as it was shown.
    expect((await version(name, id, 0)).document).toEqual(made);
    expect(await version(name, id, 0)).toMatchObject({
      by: callerName(user),
      changes: [{ field: 'title', from: 'a', to: 'b' }],
    });
    expect((await version(name, id, 2)).changes?.map(({ field }) => field).sort()).toEqual([
      'at',
      'seo',
      'tags',
      'title',
      'views',
    ]);
    expect((await version(name, id, 5, { compare: 'current' })).changes).toEqual([
      { field: 'title', from: 'e', to: 'f' },
    ]);
    await expect(version(name, id, 99)).rejects.toMatchObject({ code: 'VERSION_NOT_FOUND' });
  });

  it('keeps values of every type as they were', async () => {
    const name = `Told${count++}`;
    const fields: FieldMap = {
      text: 'String',
      number: 'Number',
      whole: { type: 'Number', sqlType: 'INT' },
      exact: { type: 'Number', sqlType: 'DECIMAL' },
      flag: 'Boolean',
      id: 'ObjectId',
      free: 'JSON',
      link: { type: 'Relation', model: name },
      links: [{ type: 'Relation', model: name }],
      vector: { type: 'Vector', dimensions: 3 },
      list: ['Number'],
      dates: ['Date'],
      nested: { in: { deep: 'String' } },
    };
    await kernel.schemas.create(admin, { name, fields, options: { history: true } });
    const { id } = await kernel.records.create(admin, name, {});
    const values = {
      text: 'ü"\u2028',
      number: 1e-7,
      whole: 5,
      exact: '123456789012345678901.5',
      flag: false,
      id,
      free: { a: [1, null, 'x'] },
      link: id,
      links: [id, id],
      vector: [0.1, 2, 3],
      list: [1, 2.5],
      dates: ['2026-01-01'],
      nested: { in: { deep: 'z' } },
    };
    const made = JSON.parse((await kernel.records.create(admin, name, values)).json);
    await kernel.records.replace(admin, name, made._id, {});
    expect((await version(name, made._id, 0)).document).toEqual(made);
    const restored = JSON.parse(
      (await kernel.records.history.restore(admin, name, made._id, 0)).json,
    );
    expect(restored).toEqual({ ...made, __v: 2, updatedAt: restored.updatedAt });
  });

  it('records what relations do to other records', async () => {
    const parent = await declare({}, { name: 'String' });
    const linked = await declare(
      {},
      { of: { type: 'Relation', model: parent, onDelete: 'setNull' } },
    );
    const owned = await declare(
      {},
      { of: { type: 'Relation', model: parent, onDelete: 'cascade' } },
    );
    const { id } = await kernel.records.create(admin, parent, {});
    const link = (await kernel.records.create(admin, linked, { of: id })).id;
    const own = (await kernel.records.create(admin, owned, { of: id })).id;
    await kernel.records.remove(admin, parent, id);
    expect([await told(parent, id), await told(linked, link), await told(owned, own)]).toEqual([
      ['0:delete'],
      ['0:update'],
      ['0:delete'],
    ]);
    expect((await version(linked, link, 0)).changes).toEqual([{ field: 'of', from: id, to: null }]);
  });

  it('never shows hidden fields, nor anything to who may not read the record now', async () => {
    const name = await declare();
    const { id } = await kernel.records.create(admin, name, {
      title: 'a',
      secret: 'one',
      seo: { slug: 's', key: 'k' },
    });
    await kernel.records.update(admin, name, id, { secret: 'two', seo: { key: 'l' } });
    const text = JSON.stringify([await version(name, id, 0), await versions(name, id)]);
    expect(text).not.toMatch(/one|two|"k"|"l"/);
    expect((await version(name, id, 0, { caller: anonymous })).by).toBe('system');
    await kernel.records.remove(admin, name, id);
    await expect(versions(name, id, anonymous)).rejects.toMatchObject({ code: 'RECORD_NOT_FOUND' });
    await expect(version(name, id, 0, { caller: user })).rejects.toMatchObject({
      code: 'RECORD_NOT_FOUND',
    });
    expect(await told(name, id)).toEqual(['1:delete', '0:update']);
    await expect(versions(name, 'x')).rejects.toMatchObject({ code: 'RECORD_NOT_FOUND' });
  });

  it('restores a version as a new one', async () => {
    const name = await declare();
    const { id } = await kernel.records.create(admin, name, {
      title: 'a',
      secret: 'old',
      tags: ['x'],
      seo: { slug: 's', key: 'k' },
    });
    await kernel.records.replace(admin, name, id, { title: 'b', secret: 'new' });
    await expect(
      kernel.records.history.restore(admin, name, id, 0, { expectedVersion: 0 }),
    ).rejects.toMatchObject({ status: 412 });
    const restored = await kernel.records.history.restore(admin, name, id, 0, {
      expectedVersion: 1,
    });
    expect(JSON.parse(restored.json)).toMatchObject({
      title: 'a',
      tags: ['x'],
      seo: { slug: 's' },
      __v: 2,
    });
    const { rows } = await kernel.database.query({
      text: `select secret, seo->>'key' as key from "app"."${name}"`,
    });
    // Secrets of their own are not turned back; what is inside a field belongs to it.
    expect(rows).toEqual([{ secret: 'new', key: 'k' }]);
    expect(await told(name, id)).toEqual(['1:restore', '0:update']);
    for (const caller of [admin, user, anonymous]) {
      await expect(kernel.records.history.restore(caller, name, id, 7)).rejects.toMatchObject({
        code: 'VERSION_NOT_FOUND',
      });
    }
    await expect(kernel.records.history.restore(user, name, newId(), 0)).rejects.toMatchObject({
      code: 'RECORD_NOT_FOUND',
    });
    expect(JSON.parse((await kernel.records.get(admin, name, id)).json)).toEqual(
      JSON.parse(restored.json),
    );
  });

  it('checks a version against the schema of today', async () => {
    const name = await declare({}, { title: 'String', gone: 'String' });
    const { id } = await kernel.records.create(admin, name, { title: 'short', gone: 'x' });
    await kernel.records.update(admin, name, id, { title: 'long enough' });
    const fields: FieldMap = {
      title: { type: 'String', validate: { minLength: 8 } },
      later: { type: 'Number', default: 7 },
    };
    await kernel.schemas.update(admin, kernel.schemas.get(name)?._id ?? '', { fields });
    await expect(kernel.records.history.restore(admin, name, id, 0)).rejects.toMatchObject({
      status: 400,
      errors: [{ path: 'title' }],
    });
    expect((await version(name, id, 0)).document).toEqual(
      expect.not.objectContaining({ gone: 'x' }),
    );
    await kernel.schemas.update(admin, kernel.schemas.get(name)?._id ?? '', {
      fields: { ...fields, title: 'String' },
    });
    expect(
      JSON.parse((await kernel.records.history.restore(admin, name, id, 0)).json),
    ).toMatchObject({ title: 'short', later: 7 });
  });

  it('lets an operator, and nobody else, bring back a record that is gone for good', async () => {
    const name = await declare();
    const first = JSON.parse(
      (await kernel.records.create(admin, name, { title: 'a', secret: 'kept' })).json,
    );
    await kernel.records.update(admin, name, first._id, { title: 'b' });
    await kernel.records.remove(admin, name, first._id);
    await expect(kernel.records.history.restore(user, name, first._id, 0)).rejects.toMatchObject({
      code: 'RECORD_NOT_FOUND',
    });
    const back = JSON.parse((await kernel.records.history.restore(admin, name, first._id, 0)).json);
    expect(back).toMatchObject({ _id: first._id, title: 'a', createdAt: first.createdAt, __v: 2 });
    expect(
      (await kernel.database.query({ text: `select secret from "app"."${name}"` })).rows,
    ).toEqual([{ secret: 'kept' }]);
    expect(await kernel.events(name)).toEqual(
      ['insert', 'update', 'delete', 'insert'].map((operation) => `${operation}:${first._id}`),
    );
  });

  it('keeps as many versions as it shall, for as long as it shall', async () => {
    const name = await declare({ history: { max: 3, retainDays: 30 } });
    const { id } = await kernel.records.create(admin, name, { title: '0' });
    for (let i = 1; i <= 6; i++) await kernel.records.update(admin, name, id, { title: String(i) });
    expect(await told(name, id)).toEqual(['5:update', '4:update', '3:update']);
    expect(
      JSON.parse(await kernel.records.history.list(admin, name, id, { skip: 1, limit: 1 })),
    ).toMatchObject({
      versions: [{ version: 4 }],
      count: 3,
    });
    await kernel.database.query({
      text: `update penstock.record_history set at = now() - interval '31 days' where schema = $1 and version < 5`,
      values: [name],
    });
    expect(await kernel.records.history.prune(admin, name, signal)).toBe(2);
    expect(await told(name, id)).toEqual(['5:update']);
    await expect(kernel.records.history.prune(user, name, signal)).rejects.toMatchObject({
      status: 403,
    });
    const plain = await declare({ history: false });
    await expect(versions(plain, id)).rejects.toMatchObject({ code: 'HISTORY_DISABLED' });
    await kernel.schemas.remove(admin, [kernel.schemas.get(name)?._id ?? ''], { deleteData: true });
    expect(
      (
        await kernel.database.query({
          text: 'select 1 from penstock.record_history where schema = $1',
          values: [name],
        })
      ).rows,
    ).toEqual([]);
  });

  it('misses nothing when many change one record at once', async () => {
    const name = await declare();
    const { id } = await kernel.records.create(admin, name, { title: 'start' });
    const titles = Array.from({ length: 30 }, (_, i) => String(i));
    await Promise.all(titles.map((title) => kernel.records.update(admin, name, id, { title })));
    const stored = (await versions(name, id)).map((one) => one.version);
    expect(stored).toEqual(titles.map(Number).reverse());
    const documents = await Promise.all(
      stored.map(async (number) => (await version(name, id, number)).document.title),
    );
    const now = JSON.parse((await kernel.records.get(admin, name, id)).json).title;
    expect([...documents, now].sort()).toEqual([...titles, 'start'].sort());
    const conflicting = await Promise.allSettled(
      titles.map((title) =>
        kernel.records.update(admin, name, id, { title }, { expectedVersion: 30 }),
      ),
    );
    expect(conflicting.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(await versions(name, id)).toHaveLength(31);
  });

  it('goes on when a destroyed record is put back under its id', async () => {
    const name = await declare();
    const { id } = await kernel.records.create(admin, name, { title: 'a' });
    await kernel.records.update(admin, name, id, { title: 'b' });
    await kernel.records.remove(admin, name, id);
    const inputs = [{ _id: id, title: 'c' }, { title: 'new' }];
    const back = await kernel.records.createMany(admin, name, inputs, { restore: true });
    expect(back.map(({ version: one }) => one).sort()).toEqual([0, 2]);
    await kernel.records.update(admin, name, id, { title: 'd' });
    expect(await told(name, id)).toEqual(['2:update', '1:delete', '0:update']);
    expect((await version(name, id, 0)).document).toMatchObject({ title: 'a' });
  });
};

describe('the history of records', suite('embedded'));
await describeWithPostgres15('the history of records on PostgreSQL 15', suite('external15'));

const callerName = (caller: Caller): string =>
  caller.kind === 'user' ? `user:${caller.userId}` : caller.kind;
