import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { anonymous, system } from '../../../kernel/caller.ts';
import { newId } from '../../../kernel/ids.ts';

const admin = system('test');

describe('changes by operators', () => {
  let kernel: RecordKernel;
  const parse = (json: string) => JSON.parse(json) as Record<string, unknown>;
  const patch = async (id: string, input: Record<string, unknown>, options = {}) =>
    parse((await kernel.records.update(anonymous, 'Counted', id, input, options)).json);
  const make = async (input = {}) =>
    (await kernel.records.create(admin, 'Counted', { title: 't', ...input })).id;

  beforeAll(async () => {
    kernel = await openRecordKernel();
    const fields = {
      title: { type: 'String', required: true },
      views: { type: 'Number', validate: { max: 1_000 } },
      stars: { type: 'Number', sqlType: 'INT' },
      tags: { type: ['String'], validate: { maxItems: 150 } },
      links: [{ type: 'Relation', model: 'Counted' }],
      pairs: [['Number']],
      free: ['JSON'],
      seo: { slug: 'String', note: 'String' },
    } as const;
    const update = { operators: true, upsert: true };
    await kernel.schemas.create(admin, {
      name: 'Counted',
      fields,
      options: { cms: { crudOperations: { update } }, history: true },
    });
    await kernel.schemas.create(admin, { name: 'Plain', fields: { views: 'Number' } });
  });
  afterAll(() => kernel.close());

  it('does several things at once', async () => {
    const other = await make();
    const id = await make({
      views: 3,
      tags: ['a', 'b'],
      stars: 1,
      pairs: [[1]],
      seo: { slug: 's', note: 'n' },
    });
    const changed = await patch(id, {
      title: 'new',
      seo: { note: 'm' },
      $inc: { views: -1 },
      $push: { tags: { $each: ['c', 'd'] }, links: other, pairs: [2, 3], free: [1] },
      $pull: {},
      $unset: { stars: '' },
    });
    expect(changed).toMatchObject({
      title: 'new',
      views: 2,
      tags: ['a', 'b', 'c', 'd'],
      links: [other],
      pairs: [[1], [2, 3]],
      free: [[1]],
      stars: null,
      seo: { slug: 's', note: 'm' },
      __v: 1,
    });
    expect(
      await patch(
        id,
        { $pull: { tags: { $each: ['a', 'd'] }, pairs: { $each: [[1]] } } },
        { expectedVersion: 1 },
      ),
    ).toMatchObject({
      tags: ['b', 'c'],
      pairs: [[2, 3]],
    });
    await expect(patch(id, { $inc: { views: 1 } }, { expectedVersion: 1 })).rejects.toMatchObject({
      status: 412,
    });
    expect(
      JSON.parse(await kernel.records.history.list(admin, 'Counted', id)).versions,
    ).toHaveLength(2);
    expect(
      (await kernel.events('Counted')).filter((event) => event === `update:${id}`),
    ).toHaveLength(2);
  });

  it('loses nothing when many do it at once', async () => {
    const id = await make();
    const numbers = Array.from({ length: 100 }, (_, i) => String(i));
    await Promise.all(
      numbers.map((tag) => patch(id, { $push: { tags: tag }, $inc: { views: 1 } })),
    );
    const { tags, views } = parse((await kernel.records.get(admin, 'Counted', id)).json);
    expect(views).toBe(100);
    expect((tags as string[]).sort()).toEqual(numbers.sort());
  });

  it('refuses what makes no sense, and then changes nothing', async () => {
    const id = await make({ views: 999, tags: ['a'] });
    for (const [input, path] of [
      [{ $inc: { views: 2 } }, '$inc.views'],
      [{ $inc: { views: 'x' } }, '$inc.views'],
      [{ $inc: { title: 1 } }, '$inc.title'],
      [{ $inc: { 'seo.slug': 1 } }, '$inc.seo.slug'],
      [{ $inc: 3 }, '$inc'],
      [{ $push: { title: 'x' } }, '$push.title'],
      [{ $push: { tags: 3 } }, '$push.tags.0'],
      [{ $push: { tags: { $each: 3 } } }, '$push.tags.$each'],
      [{ $push: { links: newId() } }, '$push.links.0'],
      [{ $unset: { title: 1 } }, '$unset.title'],
      [{ $set: { title: 'x' } }, '$set'],
      [{ $where: '1' }, '$where'],
      [{ views: 1, $inc: { views: 1 } }, '$inc.views'],
      [{ $push: { tags: 'x' }, $pull: { tags: 'a' } }, '$pull.tags'],
      [{ $unset: { __proto__x: 1 } }, '$unset.__proto__x'],
    ] as const) {
      await expect(patch(id, input), JSON.stringify(input)).rejects.toMatchObject({
        status: 400,
        errors: [{ path }],
      });
    }
    expect(parse((await kernel.records.get(admin, 'Counted', id)).json)).toMatchObject({
      views: 999,
      tags: ['a'],
      __v: 0,
    });
    const full = await make({ stars: 2_147_483_647 });
    await expect(patch(full, { title: 'x', $inc: { stars: 1 } })).rejects.toMatchObject({
      status: 400,
      errors: [{ path: '$inc.stars', rule: 'range' }],
    });
    await expect(patch(newId(), { $inc: { views: 1 } })).rejects.toMatchObject({
      code: 'RECORD_NOT_FOUND',
    });
  });

  it('is off unless the schema says otherwise', async () => {
    const { id } = await kernel.records.create(anonymous, 'Plain', { views: 1 });
    const refused = { status: 400, errors: [{ path: '$inc', rule: 'operator' }] };
    await expect(
      kernel.records.update(anonymous, 'Plain', id, { $inc: { views: 1 } }),
    ).rejects.toMatchObject(refused);
    const many = { status: 400, errors: [{ path: 'docs.0.$inc', rule: 'operator' }] };
    await expect(
      kernel.records.updateMany(anonymous, 'Counted', [{ _id: id, $inc: { views: 1 } }]),
    ).rejects.toMatchObject(many);
    await expect(
      kernel.records.replaceMany(anonymous, 'Counted', [{ _id: id, $inc: { views: 1 } }]),
    ).rejects.toMatchObject(many);
    await expect(
      kernel.records.replace(anonymous, 'Plain', newId(), {}, { upsert: true }),
    ).rejects.toMatchObject({ status: 403 });
  });

  it('creates what is not there, once', async () => {
    const id = newId();
    const upsert = (title: string, options = {}) =>
      kernel.records.replace(anonymous, 'Counted', id, { title }, { upsert: true, ...options });
    await expect(upsert('x', { expectedVersion: 3 })).rejects.toMatchObject({ status: 412 });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => upsert(String(i))));
    expect(answers.map(({ version }) => version).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, i) => i),
    );
    expect(
      (await kernel.events('Counted')).filter((event) => event === `insert:${id}`),
    ).toHaveLength(1);
    await expect(
      kernel.records.replace(anonymous, 'Counted', 'x', {}, { upsert: true }),
    ).rejects.toMatchObject({ status: 400 });
    await expect(
      kernel.records.replace(anonymous, 'Counted', newId(), {}, { upsert: true }),
    ).rejects.toMatchObject({
      errors: [{ path: 'title' }],
    });
  });

  it('gives nobody the history of a destroyed record with its id', async () => {
    const id = await make({ title: 'private' });
    await kernel.records.remove(admin, 'Counted', id);
    const upsert = kernel.records.replace(
      anonymous,
      'Counted',
      id.toUpperCase(),
      { title: 'x' },
      { upsert: true },
    );
    await expect(upsert).rejects.toMatchObject({ status: 409, code: 'ID_IN_USE' });
    await expect(kernel.records.history.get(anonymous, 'Counted', id, 0)).rejects.toMatchObject({
      code: 'RECORD_NOT_FOUND',
    });
  });
});
