// What other modules may ask of the data, and what they may not.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { silentLog } from '../../../../../test/support/log.ts';
import { openRecordKernel, type RecordKernel } from '../../../../../test/support/record-kernel.ts';
import { anonymous, system } from '../../../../kernel/caller.ts';
import { migrate } from '../../../../kernel/database/migrate.ts';
import { PenstockError } from '../../../../kernel/errors.ts';
import { migrations } from '../../migrations.ts';
import { createViews } from '../views/create.ts';
import type { DataRecord, ModuleData } from './contract.ts';
import { createDataService, type DataParts } from './create.ts';

describe('the data for other modules', () => {
  let kernel: RecordKernel;
  let data: ModuleData;
  let chat: ModuleData;
  let parts: DataParts;
  const me = system('test');
  beforeAll(async () => {
    kernel = await openRecordKernel();
    await migrate(kernel.database, [{ owner: 'database', migrations }]);
    parts = { ...kernel, views: createViews({ ...kernel, log: silentLog }) };
    const service = createDataService(parts);
    data = service.forModule('database');
    chat = service.forModule('chat');
    const fields = { title: { type: 'String', required: true }, views: { type: 'Number', default: 0 }, tags: ['String'] } as const;
    await kernel.schemas.create(me, { name: 'Post', fields });
    const closed = { extendable: true, canCreate: false, canDelete: false } as const;
    await kernel.schemas.install('storage', [
      { name: 'Sealed', fields, modelOptions: { conduit: { permissions: { ...closed, canModify: 'Nothing' } } } },
      { name: 'Extended', fields, modelOptions: { conduit: { permissions: { ...closed, canModify: 'ExtensionOnly' } } } },
    ]);
  });
  afterAll(() => kernel.close());
  beforeEach(async () => {
    await data.deleteMany(me, 'Post', {});
    await data.createMany(
      me,
      'Post',
      Array.from({ length: 5 }, (_, i) => ({ title: `t${i}`, views: i })),
    );
  });

  const titles = (records: readonly DataRecord[]) => records.map(({ title }) => title);
  const refusal = async (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => 'nothing was refused',
      (error: unknown) => (error instanceof PenstockError ? [error.status, error.code] : error),
    );

  it('finds one, many, all and how many', async () => {
    expect(await data.findOne(me, 'Post', { title: 't3' })).toMatchObject({ title: 't3', views: 3, tags: null, __v: 0 });
    expect(await data.findOne(me, 'Post', { title: 'none' })).toBeUndefined();
    expect(titles(await data.findMany(me, 'Post', { views: { $gte: 1 } }, { sort: ['-views'], limit: 2, skip: 1 }))).toEqual(['t3', 't2']);
    expect(Object.keys((await data.findOne(me, 'Post', {}, { select: ['title'] })) ?? {})).toEqual(['_id', 'title', '__v']);
    expect(await data.countDocuments(me, 'Post', { views: { $lt: 2 } })).toBe(2);
    const all: DataRecord[] = [];
    for await (const record of data.cursor(me, 'Post', {}, { sort: ['title'] })) all.push(record);
    expect(titles(all)).toEqual(['t0', 't1', 't2', 't3', 't4']);
    const sums = await data.aggregate(me, 'Post', {}, { groupBy: [], values: [{ as: 'sum', function: 'sum', field: 'views' }] });
    expect(sums).toEqual([{ sum: 10 }]);
  });

  it('changes one, many, by id, and builds on what is there', async () => {
    const found = await data.updateOne(me, 'Post', { title: 't1' }, { $set: { title: 'T1' }, $inc: { views: 5 }, $push: { tags: 'a' } });
    expect(found).toMatchObject({ title: 'T1', views: 6, tags: ['a'], __v: 1 });
    expect(await data.updateOne(me, 'Post', { title: 'none' }, { views: 1 })).toBeUndefined();
    expect(await data.updateMany(me, 'Post', { views: { $lt: 4 } }, { $inc: { views: 10 }, tags: ['x'] })).toBe(3);
    expect(await data.countDocuments(me, 'Post', { tags: 'x' })).toBe(3);
    const id = found?._id ?? '';
    expect(await data.findByIdAndUpdate(me, 'Post', id, { $unset: { tags: true }, views: 1 })).toMatchObject({ tags: null, views: 1 });
    expect(await data.findByIdAndReplace(me, 'Post', id, { title: 'whole' })).toMatchObject({ title: 'whole', views: 0, __v: 3 });
    expect(await data.replaceOne(me, 'Post', { title: 'whole' }, { title: 'again' })).toMatchObject({ title: 'again', __v: 4 });
    expect(await refusal(data.findByIdAndUpdate(me, 'Post', id, { views: 1 }, { expectedVersion: 1 }))).toEqual([
      412,
      'PRECONDITION_FAILED',
    ]);
    expect(await data.deleteOne(me, 'Post', { title: 'again' })).toBe(true);
    expect(await data.deleteOne(me, 'Post', { title: 'again' })).toBe(false);
    for (const wrong of [{ $rename: { a: 'b' } }, { $set: 1 }, { views: 1, $set: { views: 2 } }, { $inc: 1 }]) {
      expect(await refusal(data.updateMany(me, 'Post', {}, wrong))).toEqual([400, 'INVALID_ARGUMENTS']);
    }
  });

  it('creates once, however many ask at the same time', async () => {
    await Promise.all(Array.from({ length: 20 }, () => data.upsert(me, 'Post', { title: 'one' }, { title: 'one', views: 7 })));
    expect(await data.countDocuments(me, 'Post', { title: 'one' })).toBe(1);
    const counted = () => data.upsert(me, 'Post', { title: 'sum' }, { title: 'sum', $inc: { views: 2 }, $push: { tags: 'x' } });
    await Promise.all(Array.from({ length: 20 }, counted));
    const [sum, ...more] = await data.findMany(me, 'Post', { title: 'sum' });
    expect([sum?.views, more]).toEqual([40, []]);
    expect(sum?.tags).toHaveLength(20);
  });

  it('hands each of them to one taker', async () => {
    const takers = Array.from({ length: 8 }, () => data.updateOne(me, 'Post', { tags: null }, { tags: ['taken'] }));
    const taken = (await Promise.all(takers)).flatMap((record) => record?._id ?? []);
    expect(new Set(taken).size).toBe(5);
    expect(taken).toHaveLength(5);
  });

  it('keeps all of a transaction, or nothing', async () => {
    const work = data.transaction(async () => {
      await data.create(me, 'Post', { title: 'half' });
      await data.create(me, 'Post', {});
    });
    expect(await refusal(work)).toEqual([400, 'RECORD_INVALID']);
    expect(await data.findOne(me, 'Post', { title: 'half' })).toBeUndefined();
  });

  it('lets modules write where the owner of a schema allows it, and read everywhere', async () => {
    const storage = createDataService(parts).forModule('storage');
    const sealed = await storage.create(me, 'Sealed', { title: 'mine' });
    expect(await chat.findOne(me, 'Sealed', {})).toMatchObject({ title: 'mine' });
    const forbidden = [403, 'FORBIDDEN'];
    expect(await refusal(chat.create(me, 'Sealed', { title: 'x' }))).toEqual(forbidden);
    expect(await refusal(chat.createMany(me, 'Sealed', [{ title: 'x' }]))).toEqual(forbidden);
    expect(await refusal(chat.upsert(me, 'Sealed', {}, { title: 'x' }))).toEqual(forbidden);
    expect(await refusal(chat.findByIdAndUpdate(me, 'Sealed', sealed._id, { title: 'x' }))).toEqual(forbidden);
    expect(await refusal(chat.findByIdAndReplace(me, 'Sealed', sealed._id, { title: 'x' }))).toEqual(forbidden);
    expect(await refusal(chat.updateOne(me, 'Sealed', {}, { title: 'x' }))).toEqual(forbidden);
    expect(await refusal(chat.updateMany(me, 'Sealed', {}, { title: 'x' }))).toEqual(forbidden);
    expect(await refusal(chat.deleteOne(me, 'Sealed', {}))).toEqual(forbidden);
    expect(await refusal(chat.deleteMany(me, 'Sealed', {}))).toEqual(forbidden);
    expect(await refusal(chat.create(me, 'Nothing', {}))).toEqual([404, 'SCHEMA_NOT_FOUND']);

    const { _id } = await storage.create(me, 'Extended', { title: 'mine' });
    await chat.setSchemaExtension('Extended', { mood: 'String', score: 'Number' });
    expect(await chat.findByIdAndUpdate(me, 'Extended', _id, { mood: 'good', $inc: { score: 1 } })).toMatchObject({ mood: 'good' });
    expect(await refusal(chat.findByIdAndUpdate(me, 'Extended', _id, { mood: 'x', title: 'x' }))).toEqual(forbidden);
    expect(await refusal(chat.findByIdAndUpdate(me, 'Extended', _id, { $set: { title: 'x' } }))).toEqual(forbidden);
    expect(await refusal(chat.updateOne(me, 'Extended', {}, { $unset: { title: 1 } }))).toEqual(forbidden);
    expect(await refusal(chat.replaceOne(me, 'Extended', {}, { mood: 'x' }))).toEqual(forbidden);
    await chat.setSchemaExtension('Extended', {});
    expect(data.columnExistence('Extended', ['mood'])).toBe(false);
  });

  it('knows the schemas', () => {
    expect(data.getSchema('Post')?.name).toBe('Post');
    expect(data.getSchemas().map(({ name }) => name)).toEqual(['Extended', 'Post', 'Sealed']);
    expect(data.columnExistence('Post', ['title', '_id', 'createdAt'])).toBe(true);
    expect(data.columnExistence('Post', ['title', 'nonsense'])).toBe(false);
  });

  it('reads by SQL, one statement at a time, and writes nothing', async () => {
    const rows = await data.rawQuery<{ n: number }>(me, 'select count(*)::integer as n from app."Post" where views > $1', [1]);
    expect(rows).toEqual([{ n: 3 }]);
    expect(await data.rawQuery(me, 'select 1 as one -- a comment')).toEqual([{ one: 1 }]);
    expect(await refusal(data.rawQuery(anonymous, 'select 1'))).toEqual([403, 'FORBIDDEN']);
    const wrong = [
      'delete from app."Post" returning *',
      'with x as (delete from app."Post" returning *) select * from x',
      'select 1) raw; delete from app."Post"; select * from (select 1',
      'select 1; delete from app."Post"',
      `select setval('penstock.outbox_seq_seq', 1)`,
    ];
    for (const text of wrong) await expect(data.rawQuery(me, text), text).rejects.toThrow();
    await expect(data.rawQuery(me, 'select pg_sleep(5)', [], { timeoutMs: 20 })).rejects.toThrow();
    await data.transaction(async () => {
      await data.create(me, 'Post', { title: 'inside' });
      expect(await data.rawQuery(me, `select title from app."Post" where title = 'inside'`)).toEqual([{ title: 'inside' }]);
      await expect(data.rawQuery(me, 'select 1 / 0')).rejects.toThrow();
      await data.create(me, 'Post', { title: 'inside too' });
    });
    expect(await data.countDocuments(me, 'Post', { title: { $like: 'inside%' } })).toBe(2);
  });
});
