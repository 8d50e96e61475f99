/**
 * Lists of few records that are large: without a bound of bytes one request took all the memory of the process, or
 * ended it (OWASP API4:2023, https://cwe.mitre.org/data/definitions/770.html).
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { all, fieldTest, literal } from '../../conditions/condition.ts';
import { inFittingParts } from '../fitting-parts.ts';

const admin = system('test');
let kernel: RecordKernel;
beforeAll(async () => {
  kernel = await openRecordKernel();
  await kernel.schemas.create(admin, { name: 'Large', fields: { text: 'String' } });
  // 70 records of 1 MB, of which only their number and their size matter. All at once takes a full machine too long.
  const some = Array.from({ length: 7 }, () => ({ text: 'x'.repeat(1024 * 1024) }));
  for (let part = 0; part < 10; part += 1) await kernel.records.createMany(admin, 'Large', some);
});
afterAll(() => kernel?.close());

interface Ids {
  readonly documents: readonly { readonly _id: string }[];
}

const refused = { status: 400, errors: [{ path: 'limit', rule: 'bytes' }] };

test('a page is refused when its records are too large together, and fewer of them are not', async () => {
  await expect(kernel.records.list(admin, 'Large', { limit: 70 })).rejects.toMatchObject(refused);
  await expect(
    kernel.records.list(admin, 'Large', { limit: 70, cursor: 'start' }),
  ).rejects.toMatchObject(refused);
  await expect(
    kernel.records.select(admin, 'Large', { filter: all(), limit: 70 }),
  ).rejects.toMatchObject(refused);
  await expect(kernel.records.find(admin, 'Large', { filter: all() })).rejects.toMatchObject(
    refused,
  );
  expect(JSON.parse(await kernel.records.list(admin, 'Large', { limit: 2 }))).toMatchObject({
    count: 70,
    documents: [{}, {}],
  });
});

test('records that are too large together are read in parts, in their order', async () => {
  const ids = (
    JSON.parse(await kernel.records.list(admin, 'Large', { limit: 10 })) as Ids
  ).documents.map(({ _id }) => _id);
  for (let skip = 10; skip < 70; skip += 10)
    for (const { _id } of (
      JSON.parse(await kernel.records.list(admin, 'Large', { limit: 10, skip })) as Ids
    ).documents)
      ids.push(_id);
  const read: string[] = [];
  await inFittingParts(
    ids,
    async (some) => {
      const filter = fieldTest('_id', { kind: 'in', right: literal(some) });
      const found = JSON.parse(await kernel.records.find(admin, 'Large', { filter }));
      expect(found).toHaveLength(some.length);
      read.push(...some);
    },
    () => Promise.reject(new Error('none is too large by itself')),
  );
  expect(read).toEqual(ids);
});

test('a record is refused with more of what it refers to than one answer holds', async () => {
  await kernel.schemas.create(admin, {
    name: 'Holder',
    fields: { parts: [{ type: 'Relation', model: 'Large' }] },
  });
  const { documents } = JSON.parse(await kernel.records.list(admin, 'Large', { limit: 10 })) as {
    documents: { _id: string }[];
  };
  const rest = JSON.parse(await kernel.records.list(admin, 'Large', { limit: 10, skip: 10 })) as {
    documents: { _id: string }[];
  };
  const create = (parts: readonly { readonly _id: string }[]) =>
    kernel.records.create(admin, 'Holder', { parts: parts.map(({ _id }) => _id) });
  const many = await create([...documents, ...rest.documents]);
  const get = (id: string) => kernel.records.get(admin, 'Holder', id, { populate: ['parts'] });
  await expect(get(many.id)).rejects.toMatchObject({
    status: 400,
    errors: [{ path: 'populate', rule: 'bytes' }],
  });
  const few = await create(documents.slice(0, 2));
  expect(JSON.parse((await get(few.id)).json).parts).toEqual([documents[0], documents[1]]);
  // Below another relation, and in a list, it is as much.
  await kernel.schemas.create(admin, {
    name: 'Outer',
    fields: { holders: [{ type: 'Relation', model: 'Holder' }] },
  });
  for (const [holders, result] of [
    [[few.id, few.id], 'fits'],
    [[few.id, many.id], 'limit'],
  ] as const) {
    const outer = await kernel.records.create(admin, 'Outer', { holders });
    const filter = fieldTest('_id', { kind: 'equal', right: literal(outer.id) });
    const read = kernel.records.select(admin, 'Outer', { filter, populate: ['holders.parts'] });
    if (result === 'fits') expect(JSON.parse(await read).documents[0].holders).toHaveLength(2);
    else await expect(read).rejects.toMatchObject(refused);
  }
});

test('groups and ranked records are refused when they are too large together', async () => {
  await kernel.schemas.create(admin, { name: 'Long', fields: { text: 'String' } });
  const texts = Array.from({ length: 5 }, (_, at) => ({ text: `${at}${'y'.repeat(4_000_000)}` }));
  for (const one of texts) await kernel.records.create(admin, 'Long', one);
  const groups = (limit: number) =>
    kernel.records.aggregate(admin, 'Long', {
      ...{ filter: all(), groupBy: ['text'], values: [], limit },
    });
  await expect(groups(5)).rejects.toMatchObject(refused);
  expect(JSON.parse(await groups(2))).toHaveLength(2);
  const { documents } = JSON.parse(
    await kernel.records.select(admin, 'Long', { filter: all(), limit: 3, sort: ['-text'] }),
  ) as Ids;
  const ids = documents.map(({ _id }) => _id);
  const ranked = (some: readonly string[]) =>
    kernel.records.ranked(admin, 'Long', { filter: all(), looksInto: [], ids: some, limit: 10 });
  const rest = JSON.parse(
    await kernel.records.select(admin, 'Long', { filter: all(), limit: 2, sort: ['text'] }),
  ) as Ids;
  await expect(ranked([...ids, ...rest.documents.map(({ _id }) => _id)])).rejects.toMatchObject(
    refused,
  );
  expect((await ranked(ids)).map(({ id, place }) => [id, place])).toEqual(
    ids.map((id, at) => [id, at]),
  );
});

test('a write is refused, and undone, when its answer would be too large', async () => {
  const tooMuch = { status: 400, errors: [{ path: 'populate', rule: 'bytes' }] };
  const page = (skip: number) => kernel.records.list(admin, 'Large', { limit: 10, skip });
  const some: string[] = [];
  for (const skip of [0, 10])
    some.push(...(JSON.parse(await page(skip)) as Ids).documents.map(({ _id }) => _id));
  await kernel.schemas.create(admin, {
    name: 'Crate',
    fields: { label: 'String', parts: [{ type: 'Relation', model: 'Large' }] },
  });
  const populate = ['parts'];
  const whole = { label: 'new', parts: some };
  await expect(kernel.records.create(admin, 'Crate', whole, { populate })).rejects.toMatchObject(
    tooMuch,
  );
  expect(JSON.parse(await kernel.records.list(admin, 'Crate', {})).count).toBe(0);
  const { id } = await kernel.records.create(admin, 'Crate', whole);
  const change = { label: 'changed' };
  for (const write of [
    () => kernel.records.update(admin, 'Crate', id, change, { populate }),
    () => kernel.records.replace(admin, 'Crate', id, { ...whole, ...change }, { populate }),
  ])
    await expect(write()).rejects.toMatchObject(tooMuch);
  expect(JSON.parse((await kernel.records.get(admin, 'Crate', id)).json)).toMatchObject({
    label: 'new',
    __v: 0,
  });
  const few = { ...whole, parts: some.slice(0, 3) };
  const made = await kernel.records.create(admin, 'Crate', few, { populate });
  expect(JSON.parse(made.json).parts).toHaveLength(3);
  // What is changed is small, and what would be answered is not.
  await kernel.schemas.update(admin, kernel.schemas.get('Large')?._id ?? '', {
    fields: { text: 'String', note: 'String' },
  });
  const noted = some.map((_id) => ({ _id, note: 'x' }));
  await expect(kernel.records.updateMany(admin, 'Large', noted)).rejects.toMatchObject(tooMuch);
  const fitting = await kernel.records.updateMany(admin, 'Large', noted.slice(0, 3));
  expect(fitting.map(({ json }) => JSON.parse(json).note)).toEqual(['x', 'x', 'x']);
  const ids = await kernel.records.updateMany(admin, 'Large', noted, { idsOnly: true });
  expect(ids.map(({ json }) => json).join('')).toBe('');
  expect(ids.map((one) => one.id)).toEqual(some);
});

test('whoever asks for a count that takes too long is told what to ask for, once, and gets that', async () => {
  const read = { enabled: true, authenticated: true };
  await kernel.schemas.create(admin, {
    name: 'Counted',
    fields: { n: 'Number' },
    options: { cms: { enabled: true, crudOperations: { read } } },
  });
  await kernel.records.createMany(admin, 'Counted', [{ n: 1 }, { n: 2 }, { n: 3 }]);
  let counts = 0;
  let isLocked = false;
  // PostgreSQL stops a statement that counts everything, and others where the table is locked.
  const query: Database['query'] = (statement) => {
    const isCounted =
      statement.text.includes('(select count(*)') && !statement.text.includes('10001');
    if (!isCounted && !isLocked) return kernel.database.query(statement);
    counts += Number(isCounted);
    return Promise.reject(errors.TIMEOUT());
  };
  const database = Object.assign(Object.create(kernel.database), { query }) as Database;
  const records = kernel.limited(database, 1_000);
  const user: Caller = {
    kind: 'user',
    userId: newId(),
    sessionId: 's',
    authenticatedAt: 0,
    complete: true,
    clientId: 'web',
  };
  const ways = [
    (count?: 'none' | 'estimated') => records.list(user, 'Counted', { ...(count && { count }) }),
    (count?: 'none' | 'estimated') =>
      records.select(user, 'Counted', { filter: all(), ...(count && { count }) }),
  ];
  for (const way of ways) {
    counts = 0;
    await expect(way()).rejects.toMatchObject({
      status: 422,
      code: 'COUNT_TIMEOUT',
      errors: [{ path: 'count', rule: 'time' }],
    });
    expect(counts).toBe(1);
    // Where the page is not there either, it is not the count that is in the way.
    isLocked = true;
    await expect(way()).rejects.toMatchObject({ status: 504, code: 'TIMEOUT', errors: undefined });
    expect(counts).toBe(2);
    isLocked = false;
    expect(JSON.parse(await way('none')).documents).toHaveLength(3);
    expect(JSON.parse(await way('estimated'))).toMatchObject({ count: 3, estimated: false });
  }
  // Operators have as long as their request: for them it is the request that took too long.
  await expect(records.list(admin, 'Counted')).rejects.toMatchObject({
    code: 'TIMEOUT',
    errors: undefined,
  });
});
