import { afterAll, beforeAll, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { system } from '../../kernel/caller.ts';
import { purgeOld } from './services/dropped-fields.ts';

const admin = system('test');
const DAY_MS = 86_400_000;
let kernel: RecordKernel;

beforeAll(async () => {
  kernel = await openRecordKernel();
});
afterAll(() => kernel.close());

it('fields that were taken out are kept until the retention ends, and for ever without one', async () => {
  const fields = { keep: 'String', old: 'Number', seo: { x: 'String', y: 'String' } } as const;
  const { _id } = await kernel.schemas.create(admin, { name: 'Retained', fields });
  await kernel.records.create(admin, 'Retained', { keep: 'k', old: 1, seo: { x: '1', y: '2' } });
  await kernel.schemas.update(admin, _id, { fields: { keep: 'String', seo: { x: 'String' } } });
  const dropped = () => kernel.schemas.get('Retained')?.droppedFields;
  await purgeOld(kernel.schemas, 0, Date.now() + 1_000 * DAY_MS);
  await purgeOld(kernel.schemas, 30, Date.now() + 29 * DAY_MS);
  expect(dropped()).toEqual(['old', 'seo.y']);
  await purgeOld(kernel.schemas, 30, Date.now() + 31 * DAY_MS);
  expect(dropped()).toEqual([]);
  const text =
    "select to_jsonb(t) - '_id' - 'createdAt' - 'updatedAt' as row from \"app\".\"Retained\" t";
  expect((await kernel.database.query({ text })).rows).toEqual([
    { row: { keep: 'k', seo: { x: '1' }, __v: 0 } },
  ]);
});
