import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { anonymous, system } from '../../../kernel/caller.ts';
import { all, fieldTest, literal } from '../../conditions/condition.ts';

const admin = system('test');

describe('the nearest records', () => {
  let kernel: RecordKernel;
  beforeAll(async () => {
    kernel = await openRecordKernel();
    await kernel.schemas.create(admin, {
      name: 'Text',
      fields: {
        title: 'String',
        secret: { type: 'String', select: false },
        meaning: { type: 'Vector', dimensions: 2, select: false },
      },
      options: { softDelete: true },
    });
    await kernel.records.createMany(admin, 'Text', [
      { title: 'far', secret: 's', meaning: [0, 1] },
      { title: 'near', secret: 's', meaning: [1, 0] },
      { title: 'gone', secret: 's', meaning: [1, 0] },
    ]);
    const { documents } = JSON.parse(await kernel.records.list(admin, 'Text')) as {
      documents: { _id: string; title: string }[];
    };
    await kernel.records.remove(
      admin,
      'Text',
      documents.find(({ title }) => title === 'gone')?._id ?? '',
    );
  });
  afterAll(() => kernel.close());

  const search = { field: 'meaning', vector: [1, 0], limit: 10, filter: all() };

  it('show neither what is hidden nor what is in the trash', async () => {
    const hits = JSON.parse(await kernel.records.nearest(admin, 'Text', search)) as {
      document: object;
      score: number;
    }[];
    expect(hits).toMatchObject([
      { document: { title: 'near' }, score: 1 },
      { document: { title: 'far' }, score: 0.5 },
    ]);
    expect(Object.keys(hits[0]?.document ?? {})).toEqual([
      '_id',
      'title',
      'createdAt',
      'updatedAt',
      '__v',
    ]);
  });

  it('cannot be asked by a hidden field, unless somebody who may has granted it', async () => {
    const refused = { status: 400, errors: [{ path: 'field', rule: 'field' }] };
    await expect(kernel.records.nearest(anonymous, 'Text', search)).rejects.toMatchObject(refused);
    await expect(
      kernel.records.nearest(admin, 'Text', { ...search, field: 'secret' }),
    ).rejects.toMatchObject(refused);
    const granted = await kernel.records.nearest(anonymous, 'Text', {
      ...search,
      limit: 1,
      granted: true,
    });
    expect(JSON.parse(granted)).toMatchObject([{ document: { title: 'near' } }]);
    await expect(kernel.records.nearest(anonymous, 'Nowhere', search)).rejects.toMatchObject({
      status: 404,
    });
  });

  it('looks at a bounded number of vectors', async () => {
    await kernel.schemas.create(admin, {
      name: 'Crowd',
      fields: { n: 'Number', v: { type: 'Vector', dimensions: 1, similarity: 'euclidean' } },
    });
    await kernel.database.query({
      text: `insert into "app"."Crowd" ("_id", "n", "v") select gen_random_uuid(), n, array[n::real] from generate_series(1, 50001) n`,
    });
    const many = { field: 'v', vector: [7], limit: 1, filter: all() };
    await expect(kernel.records.nearest(admin, 'Crowd', many)).rejects.toMatchObject({
      status: 400,
      code: 'RECORD_LIMIT_EXCEEDED',
    });
    const filter = fieldTest('n', { kind: 'less', right: literal(100) });
    const found = JSON.parse(await kernel.records.nearest(admin, 'Crowd', { ...many, filter })) as {
      document: object;
    }[];
    expect(found).toMatchObject([{ document: { n: 7 }, distance: 0, score: 1 }]);
  });
});
