import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../../../../test/support/log.ts';
import { openRecordKernel, type RecordKernel } from '../../../../../test/support/record-kernel.ts';
import { anonymous, system } from '../../../../kernel/caller.ts';
import { migrate } from '../../../../kernel/database/migrate.ts';
import { PenstockError } from '../../../../kernel/errors.ts';
import { migrations } from '../../migrations.ts';
import { createViews, type Views } from './create.ts';

describe('views', () => {
  let kernel: RecordKernel;
  let views: Views;
  const me = system('test');
  beforeAll(async () => {
    kernel = await openRecordKernel();
    await migrate(kernel.database, [{ owner: 'database', migrations }]);
    views = createViews({ ...kernel, log: silentLog });
    await kernel.schemas.create(me, { name: 'Author', fields: { name: 'String' } });
    await kernel.schemas.create(me, {
      name: 'Post',
      fields: {
        title: { type: 'String', required: true, unique: true },
        views: { type: 'Number', default: 0 },
        big: { type: 'Number', sqlType: 'BIGINT' },
        tags: ['String'],
        seo: { slug: 'String' },
        day: 'Date',
        author: { type: 'Relation', model: 'Author' },
        secret: { type: 'String', select: false },
        staff: { type: 'String', access: { read: 'admin' } },
      },
    });
    const author = await kernel.records.create(me, 'Author', { name: 'Ada' });
    await kernel.records.createMany(
      me,
      'Post',
      Array.from({ length: 6 }, (_, i) => ({
        title: `it's "${i}"\\`,
        views: i,
        big: '9007199254740993',
        tags: i % 2 ? ['odd', 'a,"b'] : ['even'],
        seo: { slug: `s${i}` },
        day: '2026-01-31',
        author: author.id,
        secret: 's',
        staff: 'x',
      })),
    );
  });
  afterAll(() => kernel.close());

  const list = async (name: string, options = {}) => JSON.parse(await kernel.records.list(me, name, options));
  const refusal = async (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => 'nothing was refused',
      (error: unknown) => (error instanceof PenstockError ? [error.status, error.errors?.[0]?.path] : error),
    );

  it('show the records that fit, under the ids that they have, and follow them', async () => {
    const view = await views.create(me, { name: 'Popular', schema: 'Post', query: { views: { $gte: 4 } } });
    expect([...view.tree.fields.keys()]).toEqual(['title', 'views', 'big', 'tags', 'seo', 'day', 'author']);
    const { documents, count } = await list('Popular', { sort: ['-views'], populate: ['author'] });
    expect(count).toBe(2);
    const [source] = (await list('Post', { sort: ['-views'], limit: 1, populate: ['author'] })).documents;
    const { secret: _s, staff: _f, __v, ...shown } = source;
    expect(documents[0]).toEqual({ ...shown, __v: expect.any(Number) });
    await kernel.records.update(me, 'Post', source._id, { views: 1 });
    expect((await list('Popular')).documents.map(({ views: n }: { views: number }) => n)).toEqual([4]);
    expect(JSON.parse((await kernel.records.get(me, 'Popular', documents[1]._id)).json).title).toBe(documents[1].title);
    const page = await list('Popular', { cursor: 'start', limit: 1, sort: ['title'] });
    expect(page.documents).toHaveLength(1);
  });

  it('show nothing that is hidden or was taken out inside a field', async () => {
    const fields = {
      seo: { slug: 'String', key: { type: 'String', select: false }, gone: 'String' },
      rows: [{ a: 'String', gone: 'String' }],
    } as const;
    const { _id } = await kernel.schemas.create(me, { name: 'Deep', fields });
    await kernel.records.create(me, 'Deep', { seo: { slug: 's', key: 'SECRET', gone: 'g' }, rows: [{ a: 'a', gone: 'g' }] });
    await views.create(me, { name: 'DeepView', schema: 'Deep' });
    const { gone: _, ...seo } = fields.seo;
    await kernel.schemas.update(me, _id, { fields: { seo, rows: [{ a: 'String' }] } });
    await views.renew(['Deep']);
    expect((await list('DeepView')).documents).toMatchObject([{ seo: { slug: 's' }, rows: [{ a: 'a' }] }]);
    const { rows } = await kernel.database.query({ text: 'select seo, rows from penstock_views."DeepView"' });
    expect(rows).toEqual([{ seo: { slug: 's' }, rows: [{ a: 'a' }] }]);
  });

  it.each([
    [{ title: `it's "2"\\` }, 1],
    [{ title: { $like: `%'s%` } }, 6],
    [{ title: { $in: [`it's "1"\\`, `it's "3"\\`, null] } }, 2],
    [{ tags: 'a,"b' }, 3],
    [{ 'seo.slug': 's4' }, 1],
    [{ day: { $gt: '2026-01-01' } }, 6],
    [{ big: { $gt: 9_007_199_254_740_991 } }, 6],
    [{ $or: [{ views: null }, { $not: { tags: 'odd' } }] }, 3],
    [{ 'author.name': 'Ada' }, 6],
    [{ title: `'; drop table app."Post"; --` }, 0],
    [{ title: { $search: 'it' } }, 6],
  ])('take every condition: %j', async (query, count) => {
    await views.create(me, { name: 'Any', schema: 'Post', select: ['title'], query });
    expect((await list('Any')).count).toBe(count);
  });

  it('can be made anew, are listed, and go without a trace', async () => {
    await views.create(me, { name: 'Short', schema: 'Post', select: ['title', 'views'] });
    const again = await views.create(me, { name: 'Short', schema: 'Post', select: ['views'], query: { views: 1 } });
    expect([...again.tree.fields.keys()]).toEqual(['views']);
    expect(await views.list()).toContainEqual({ name: 'Short', schema: 'Post', select: ['views'], query: { views: 1 } });
    await views.remove(me, 'Short');
    expect(kernel.schemas.get('Short')).toBeUndefined();
    expect((await views.list()).map(({ name }) => name)).not.toContain('Short');
    expect((await list('Post')).count).toBe(6);
    expect(await refusal(views.remove(me, 'Short'))).toEqual([404, undefined]);
    expect(await refusal(views.remove(me, 'Post'))).toEqual([404, undefined]);
  });

  it('are read-only, with all exposure off, and made by the platform alone', async () => {
    await views.create(me, { name: 'Closed', schema: 'Post' });
    const [first] = (await list('Closed')).documents;
    expect(await refusal(kernel.records.create(me, 'Closed', { title: 'x' }))).toEqual([expect.any(Number), undefined]);
    expect(await refusal(kernel.records.update(me, 'Closed', first._id, { title: 'x' }))).toEqual([expect.any(Number), undefined]);
    expect(await refusal(kernel.records.remove(me, 'Closed', first._id))).toEqual([expect.any(Number), undefined]);
    expect(await refusal(kernel.records.list(anonymous, 'Closed'))).toEqual([404, undefined]);
    expect(await refusal(views.create(anonymous, { name: 'Mine', schema: 'Post' }))).toEqual([403, undefined]);
    expect(await refusal(views.remove(anonymous, 'Closed'))).toEqual([403, undefined]);
  });

  it.each([
    [{ name: 'Bad', schema: 'None' }, [404, undefined]],
    [{ name: 'Post', schema: 'Post' }, [409, undefined]],
    [{ name: 'a"b', schema: 'Post' }, [400, 'name']],
    [{ name: 'Bad', schema: 'Popular' }, [400, 'schema']],
    [{ name: 'Bad', schema: 'Post', select: ['secret'] }, [400, 'select']],
    [{ name: 'Bad', schema: 'Post', select: ['staff'] }, [400, 'select']],
    [{ name: 'Bad', schema: 'Post', select: ['nonsense'] }, [400, 'select']],
    [{ name: 'Bad', schema: 'Post', query: { $where: '1' } }, [400, 'query.$where']],
  ])('are refused: %j', async (view, expected) => {
    expect(await refusal(views.create(me, view))).toEqual(expected);
    expect(kernel.schemas.get('Bad')).toBeUndefined();
  });

  it('come back where they are missing', async () => {
    await kernel.database.query({ text: 'drop schema penstock_views cascade' });
    await views.renew();
    expect((await list('Popular')).count).toBe(1);
  });

  it('follow their source into having a trash', async () => {
    await kernel.schemas.create(me, { name: 'Note', fields: { text: 'String' } });
    await kernel.records.createMany(me, 'Note', [{ text: 'a' }, { text: 'b' }]);
    await views.create(me, { name: 'Notes', schema: 'Note' });
    const { _id } = kernel.schemas.get('Note') ?? { _id: '' };
    await kernel.schemas.update(me, _id, { options: { softDelete: true } });
    await views.renew(['Note']);
    const [first] = (await list('Notes')).documents;
    await kernel.records.remove(me, 'Note', first._id);
    expect((await list('Notes')).count).toBe(1);
  });

  it('stand in the way of what would break them, and say so', async () => {
    const { _id } = kernel.schemas.get('Post') ?? { _id: '' };
    const removal = kernel.schemas.remove(me, [_id], { deleteData: true });
    await expect(removal).rejects.toMatchObject({ status: 409 });
    expect((await list('Post')).count).toBe(6);
  });
});
