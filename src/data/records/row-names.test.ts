// Statements give their rows short names; a field may have any of them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { system } from '../../kernel/caller.ts';
import { all, equals } from '../conditions/condition.ts';

const admin = system('test');
const names = [
  'x',
  'r',
  'e',
  'o',
  'h',
  'hp',
  'd',
  't0',
  't1',
  't1_r',
  'f1',
  't',
  'p',
  's',
  'v',
  'c',
  'n',
  'id',
  'json',
  'version',
  'few',
];

describe('fields with the names of rows', () => {
  let kernel: RecordKernel;
  beforeAll(async () => {
    kernel = await openRecordKernel();
  });
  afterAll(() => kernel.close());

  it.each(names)('%s', async (field) => {
    const schema = `Row_${field}`;
    const { records } = kernel;
    const fields = {
      [field]: 'Number',
      link: { type: 'Relation', model: schema },
      links: [{ type: 'Relation', model: schema }],
    } as const;
    await kernel.schemas.create(admin, {
      name: schema,
      fields,
      options: { history: true, softDelete: true },
    });
    const first = JSON.parse((await records.create(admin, schema, { [field]: 5 })).json);
    const { id } = await records.create(admin, schema, {
      [field]: 6,
      link: first._id,
      links: [first._id],
    });
    await records.update(admin, schema, id, { [field]: 7 });
    await records.updateMany(admin, schema, [{ _id: id, [field]: 8 }]);
    await records.createMany(admin, schema, [{ [field]: 8 }]);
    const { documents } = JSON.parse(
      await records.list(admin, schema, {
        populate: ['link', 'links'],
        sort: [field],
        count: 'estimated',
      }),
    );
    expect(documents.map((one: Record<string, unknown>) => one[field])).toEqual([5, 8, 8]);
    expect(documents[1]).toMatchObject({ link: first, links: [first] });
    expect(JSON.parse(await records.history.get(admin, schema, id, 0)).document[field]).toBe(6);
    await records.history.restore(admin, schema, id, 0);
    const linked = equals(`link.${field}`, 5);
    expect(JSON.parse(await records.find(admin, schema, { filter: linked }))).toHaveLength(1);
    const values = [{ as: 'total', function: 'sum', field }] as const;
    const groups = JSON.parse(
      await records.aggregate(admin, schema, {
        filter: all(),
        groupBy: [field],
        values,
        sort: [field],
      }),
    );
    expect(groups[0]).toEqual({ [field]: 5, total: 5 });
    const increment = { field, action: 'increment', value: 1, place: '' } as const;
    expect(await records.updateWhere(admin, schema, [increment], { filter: all() })).toBe(3);
    await records.remove(admin, schema, id);
    expect(JSON.parse((await records.trash.restore(admin, schema, id)).json)[field]).toBe(7);
  });
});
