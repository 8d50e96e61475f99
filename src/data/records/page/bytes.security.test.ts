/**
 * Lists of few records that are large: without a bound of bytes one request took all the memory of the process, or
 * ended it (OWASP API4:2023, https://cwe.mitre.org/data/definitions/770.html).
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { system } from '../../../kernel/caller.ts';
import { all } from '../../conditions/condition.ts';

const admin = system('test');
let kernel: RecordKernel;
beforeAll(async () => {
  kernel = await openRecordKernel();
  await kernel.schemas.create(admin, { name: 'Large', fields: { text: 'String' } });
  // 70 records of 1 MB. Only their number and their size matter.
  await kernel.records.createMany(
    admin,
    'Large',
    Array.from({ length: 70 }, () => ({ text: 'x'.repeat(1024 * 1024) })),
  );
});
afterAll(() => kernel?.close());

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
  expect(JSON.parse((await get((await create(documents.slice(0, 2))).id)).json).parts).toHaveLength(
    2,
  );
});
