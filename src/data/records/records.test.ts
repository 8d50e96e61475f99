import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestServer } from '../../../test/support/database.ts';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { describeWithPostgres15 } from '../../../test/support/servers/fixtures.ts';
import { anonymous, type Caller, system } from '../../kernel/caller.ts';
import { newId } from '../../kernel/ids.ts';
import type { PermissionEngine } from '../../kernel/permissions.ts';

const admin = system('test');
const user: Caller = {
  kind: 'user',
  userId: newId(),
  sessionId: 's',
  authenticatedAt: 0,
  complete: true,
  clientId: 'web',
};
const parse = (json: string) => JSON.parse(json) as Record<string, unknown>;

const suite = (server: TestServer) => () => {
  let kernel: RecordKernel;
  const create = async (schema: string, input: Record<string, unknown>) =>
    parse((await kernel.records.create(admin, schema, input)).json);
  const list = async (schema: string, options = {}, caller: Caller = admin) =>
    parse(await kernel.records.list(caller, schema, options)) as {
      documents: Record<string, unknown>[];
      count: number;
    };

  beforeAll(async () => {
    kernel = await openRecordKernel(server);
    await kernel.schemas.create(admin, {
      name: 'Company',
      fields: { name: { type: 'String', required: true } },
    });
    await kernel.schemas.create(admin, {
      name: 'Author',
      fields: {
        name: { type: 'String', required: true },
        secret: { type: 'String', select: false },
        company: { type: 'Relation', model: 'Company' },
      },
    });
    await kernel.schemas.create(admin, {
      name: 'Post',
      fields: {
        title: { type: 'String', required: true, validate: { minLength: 2 } },
        slug: { type: 'String', required: true, unique: true },
        views: { type: 'Number', default: 0 },
        price: 'Number',
        published: { type: 'Boolean', default: false },
        at: 'Date',
        author: { type: 'Relation', model: 'Author' },
        related: [{ type: 'Relation', model: 'Author' }],
        tags: ['String'],
        extra: 'JSON',
        seo: {
          slug: 'String',
          note: { type: 'String', select: false },
          deep: { level: { type: 'Number', default: 1 } },
        },
        lines: [
          {
            sku: { type: 'String', required: true },
            amount: { type: 'Number', validate: { min: 1 } },
          },
        ],
        big: { type: 'Number', sqlType: 'BIGINT' },
        exact: { type: 'Number', sqlType: 'DECIMAL' },
        state: { type: 'String', enum: ['draft', 'live'] },
      },
    });
  });
  afterAll(() => kernel.close());

  it('answers a record the same from create, get and list', async () => {
    const company = await create('Company', { name: 'ACME' });
    const author = await create('Author', { name: 'Eva', secret: 'x', company: company._id });
    expect(author).not.toHaveProperty('secret');
    const post = await create('Post', {
      _id: newId(),
      __v: 9,
      createdAt: '1999-01-01',
      unknown: 1,
      title: 'Hällo "quoted" \u{1f600}',
      slug: 'one',
      price: 1.25,
      at: '2026-01-31',
      author: author._id,
      related: [author._id],
      tags: ['a', 'b,c'],
      extra: { redirect: 'http://evil', n: null, list: [1, 'x'] },
      seo: { slug: 's', note: 'hidden' },
      lines: [{ sku: 'k', amount: 2, other: true }],
      big: '9007199254740993',
      exact: '0.10',
      state: 'live',
    });
    expect(post).toEqual({
      _id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      title: 'Hällo "quoted" \u{1f600}',
      slug: 'one',
      views: 0,
      price: 1.25,
      published: false,
      at: '2026-01-31T00:00:00.000Z',
      author: author._id,
      related: [author._id],
      tags: ['a', 'b,c'],
      extra: { redirect: 'http://evil', n: null, list: [1, 'x'] },
      seo: { slug: 's', deep: { level: 1 } },
      lines: [{ sku: 'k', amount: 2 }],
      big: '9007199254740993',
      exact: 0.1,
      state: 'live',
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updatedAt: post.createdAt,
      __v: 0,
    });
    expect(parse((await kernel.records.get(admin, 'Post', String(post._id))).json)).toEqual(post);
    expect((await list('Post')).documents).toEqual([post]);

    const populate = ['author.company', 'related'];
    const full = parse(
      (await kernel.records.get(admin, 'Post', String(post._id), { populate })).json,
    );
    expect(full.author).toEqual({ ...author, company });
    expect(full.related).toEqual([author]);
  });

  it('names every problem at once', async () => {
    const bad = {
      title: 'x',
      slug: 5,
      views: 'many',
      at: '2026-02-31',
      lines: [{ amount: 0 }],
      author: 'nope',
      state: 'other',
      tags: 'a',
    };
    const failure = await kernel.records
      .create(admin, 'Post', bad)
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ status: 400 });
    const paths = (failure as { errors: { path: string }[] }).errors.map(({ path }) => path).sort();
    expect(paths).toEqual([
      'at',
      'author',
      'lines.0.amount',
      'lines.0.sku',
      'slug',
      'state',
      'tags',
      'title',
      'views',
    ]);
  });

  it('changes what a PATCH names, clears with null, and replaces with PUT', async () => {
    const post = await create('Post', {
      title: 'patch',
      slug: 'patch',
      price: 3,
      seo: { slug: 'a', note: 'kept' },
    });
    const id = String(post._id);
    const patched = await kernel.records.update(admin, 'Post', id, {
      price: null,
      seo: { deep: { level: 4 } },
    });
    expect(parse(patched.json)).toMatchObject({
      title: 'patch',
      price: null,
      seo: { slug: 'a', deep: { level: 4 } },
      __v: 1,
    });
    expect(patched.version).toBe(1);
    await expect(kernel.records.update(admin, 'Post', id, { title: null })).rejects.toMatchObject({
      status: 400,
    });
    const replaced = await kernel.records.replace(admin, 'Post', id, {
      title: 'new',
      slug: 'patch',
    });
    expect(parse(replaced.json)).toMatchObject({
      title: 'new',
      views: 0,
      seo: { deep: { level: 1 } },
      __v: 2,
    });
    await kernel.records.remove(admin, 'Post', id);
    await expect(kernel.records.get(admin, 'Post', id)).rejects.toMatchObject({ status: 404 });
    await expect(kernel.records.remove(admin, 'Post', id)).rejects.toMatchObject({ status: 404 });
    expect((await kernel.events('Post')).filter((event) => event.endsWith(id))).toEqual([
      `insert:${id}`,
      `update:${id}`,
      `update:${id}`,
      `delete:${id}`,
    ]);
  });

  it('lets one of fifty writers with the same version win', async () => {
    const { _id } = await create('Post', { title: 'race', slug: 'race' });
    const tries = Array.from({ length: 50 }, (_, i) =>
      kernel.records.update(admin, 'Post', String(_id), { views: i }, { expectedVersion: 0 }).then(
        () => 200,
        (error: { status: number }) => error.status,
      ),
    );
    const outcomes = await Promise.all(tries);
    expect(outcomes.filter((status) => status === 200)).toHaveLength(1);
    expect(outcomes.filter((status) => status === 412)).toHaveLength(49);
    await expect(
      kernel.records.update(admin, 'Post', newId(), {}, { expectedVersion: 0 }),
    ).rejects.toMatchObject({ status: 404 });
  });

  it('keeps unique values unique in a race, and names the field', async () => {
    const tries = Array.from({ length: 50 }, () =>
      kernel.records.create(admin, 'Post', { title: 'twin', slug: 'twin' }),
    );
    const outcomes = await Promise.allSettled(tries);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const [refused] = outcomes.filter(
      ({ status }) => status === 'rejected',
    ) as PromiseRejectedResult[];
    expect(refused?.reason).toMatchObject({
      status: 409,
      errors: [{ path: 'slug', rule: 'unique' }],
    });
  });

  it('sorts and pages without overlap, and refuses what it cannot sort by', async () => {
    await kernel.schemas.create(admin, {
      name: 'Row',
      fields: { group: 'Number', hidden: { type: 'String', select: false }, blob: 'JSON' },
    });
    await kernel.records.createMany(
      admin,
      'Row',
      Array.from({ length: 30 }, (_, i) => ({ group: i % 3 })),
    );
    const all = await list('Row', { limit: 30, sort: ['-group'] });
    expect(all.count).toBe(30);
    const pages = await Promise.all(
      [0, 10, 20].map((skip) => list('Row', { skip, limit: 10, sort: ['-group'] })),
    );
    expect(pages.flatMap(({ documents }) => documents)).toEqual(all.documents);
    expect((await list('Row')).documents).toHaveLength(25);
    for (const sort of [
      ['hidden'],
      ['blob'],
      ['nothing'],
      ['__proto__'],
      ['"group"'],
      ['group;drop table x'],
    ]) {
      await expect(list('Row', { sort })).rejects.toMatchObject({ status: 400 });
    }
    for (const page of [
      { skip: -1 },
      { limit: 0 },
      { limit: 1001 },
      { limit: 1.5 },
      { skip: Number.NaN },
    ]) {
      await expect(list('Row', page)).rejects.toMatchObject({ status: 400 });
    }
  });

  it('counts exactly, by estimate, or not at all', async () => {
    await kernel.schemas.create(admin, { name: 'Counted', fields: { n: 'Number' } });
    const answers = async (options: object) => {
      const { documents, ...rest } = await list('Counted', { limit: 1, ...options });
      return rest;
    };
    await create('Counted', { n: 1 });
    await create('Counted', { n: 2 });
    expect(await answers({})).toEqual({ count: 2 });
    expect(await answers({ count: 'none' })).toEqual({});
    expect(await answers({ count: 'estimated' })).toEqual({ count: 2, estimated: false });
    const many = Array.from({ length: 1_000 }, (_, n) => ({ n }));
    for (let i = 0; i < 11; i += 1) await kernel.records.createMany(admin, 'Counted', many);
    await kernel.database.query({ text: 'analyze app."Counted"' });
    expect(await answers({ count: 'estimated', skip: 3 })).toEqual({
      count: 11_002,
      estimated: true,
    });
    expect(await answers({})).toEqual({ count: 11_002 });
  });

  it('writes many records as one: all or none, in the order given', async () => {
    const docs = await kernel.records.createMany(admin, 'Company', [
      { name: 'a' },
      { name: 'b' },
      { name: 'c' },
    ]);
    expect(docs.map(({ json }) => parse(json).name)).toEqual(['a', 'b', 'c']);
    const count = (await list('Company')).count;
    const failure = await kernel.records
      .createMany(admin, 'Company', [{ name: 'd' }, {}, { name: 1 }])
      .catch((e: unknown) => e);
    expect(failure).toMatchObject({
      status: 400,
      errors: [{ path: 'docs.1.name' }, { path: 'docs.2.name' }],
    });
    const [one, two, three] = docs.map(({ id }) => id);
    await expect(
      kernel.records.updateMany(admin, 'Company', [
        { _id: one, name: 'x' },
        { _id: newId(), name: 'y' },
      ]),
    ).rejects.toMatchObject({ status: 404, errors: [{ path: 'docs.1._id' }] });
    expect(parse((await kernel.records.get(admin, 'Company', String(one))).json).name).toBe('a');
    const [company, nowhere] = [String(one), newId()];
    const atPlace = { status: 400, errors: [{ path: 'docs.1.company', rule: 'relation' }] };
    const authors = [company, nowhere, nowhere].map((to) => ({ name: 'n', company: to }));
    await expect(kernel.records.createMany(admin, 'Author', authors)).rejects.toMatchObject(
      atPlace,
    );
    const updated = await kernel.records.updateMany(admin, 'Company', [
      { _id: three },
      { _id: one, name: 'x' },
      { _id: two, name: 'y' },
    ]);
    expect(updated.map(({ id, version }) => [id, version])).toEqual([
      [three, 1],
      [one, 1],
      [two, 1],
    ]);
    const replaced = await kernel.records.replaceMany(admin, 'Company', [{ _id: two, name: 'z' }]);
    expect(parse(replaced[0]?.json ?? '{}').name).toBe('z');
    expect((await list('Company')).count).toBe(count);
    for (const id of [one, two, three])
      expect((await kernel.events('Company')).filter((e) => e === `insert:${id}`)).toHaveLength(1);
  });

  it('merges nested parts in a bulk PATCH too', async () => {
    const post = await create('Post', { title: 'bulk', slug: 'bulk', seo: { slug: 'a' } });
    const [doc] = await kernel.records.updateMany(admin, 'Post', [
      { _id: post._id, seo: { deep: { level: 7 } }, tags: ['q'], extra: 'text' },
    ]);
    expect(parse(doc?.json ?? '{}')).toMatchObject({
      seo: { slug: 'a', deep: { level: 7 } },
      tags: ['q'],
      extra: 'text',
    });
  });

  it('holds relations: a missing target is 400, a used one cannot go', async () => {
    await expect(create('Author', { name: 'x', company: newId() })).rejects.toMatchObject({
      status: 400,
      errors: [{ path: 'company' }],
    });
    const known = await create('Author', { name: 'known' });
    const [one, two] = [
      { title: 'links', slug: 'links-1', related: [known._id, newId()] },
      { title: 'links', slug: 'links-2' },
    ];
    await expect(create('Post', one)).rejects.toMatchObject({
      status: 400,
      errors: [{ path: 'related.1', rule: 'relation' }],
    });
    const bulk = kernel.records.createMany(admin, 'Post', [two, one]);
    await expect(bulk).rejects.toMatchObject({
      status: 400,
      errors: [{ path: 'docs.1.related.1' }],
    });
    const { _id } = await create('Post', { ...two, related: [known._id] });
    const patch = kernel.records.update(admin, 'Post', String(_id), { related: [newId()] });
    await expect(patch).rejects.toMatchObject({ status: 400, errors: [{ path: 'related.0' }] });
    const many = kernel.records.updateMany(admin, 'Post', [{ _id, related: [newId()] }]);
    await expect(many).rejects.toMatchObject({
      status: 400,
      errors: [{ path: 'docs.0.related.0' }],
    });
    const company = await create('Company', { name: 'used' });
    await create('Author', { name: 'x', company: company._id });
    await expect(
      kernel.records.remove(admin, 'Company', String(company._id)),
    ).rejects.toMatchObject({
      status: 409,
      message: expect.stringContaining('Author'),
    });
  });

  it('cascades and unlinks with one event per record', async () => {
    const relation = (onDelete: 'cascade' | 'setNull') => ({
      parent: { type: 'Relation', model: 'Parent', onDelete } as const,
    });
    await kernel.schemas.create(admin, { name: 'Parent', fields: { name: 'String' } });
    await kernel.schemas.create(admin, { name: 'Child', fields: relation('cascade') });
    await kernel.schemas.create(admin, { name: 'Friend', fields: relation('setNull') });
    const parent = await create('Parent', {});
    const child = await create('Child', { parent: parent._id });
    const friend = await create('Friend', { parent: parent._id });
    await kernel.records.remove(admin, 'Parent', String(parent._id));
    expect((await list('Child')).count).toBe(0);
    expect((await list('Friend')).documents[0]).toMatchObject({
      _id: friend._id,
      parent: null,
      __v: 1,
    });
    expect(await kernel.events('Child')).toEqual([`insert:${child._id}`, `delete:${child._id}`]);
    expect(await kernel.events('Friend')).toEqual([`insert:${friend._id}`, `update:${friend._id}`]);
    expect(await kernel.events('Parent')).toEqual([`insert:${parent._id}`, `delete:${parent._id}`]);
  });

  it('keeps clients to what a schema offers', async () => {
    const switches = {
      create: { enabled: true, authenticated: true },
      read: { enabled: true },
      update: { enabled: false },
    };
    const closed = await kernel.schemas.create(admin, {
      name: 'Closed',
      fields: { a: 'String' },
      options: { cms: { enabled: false } },
    });
    await kernel.schemas.create(admin, {
      name: 'Shop',
      fields: { a: 'String', closed: { type: 'Relation', model: 'Closed' } },
      options: { cms: { crudOperations: switches } },
    });
    await expect(kernel.records.create(anonymous, 'Shop', { a: 'x' })).rejects.toMatchObject({
      status: 401,
    });
    const { id } = await kernel.records.create(user, 'Shop', { a: 'x' });
    expect((await list('Shop', {}, anonymous)).count).toBe(1);
    await expect(kernel.records.update(user, 'Shop', id, {})).rejects.toMatchObject({
      status: 404,
    });
    await expect(list('Closed', {}, user)).rejects.toMatchObject({ status: 404 });
    await expect(list('Shop', { populate: ['closed'] }, user)).rejects.toMatchObject({
      status: 403,
    });
    for (const populate of [
      ['nope'],
      ['a'],
      ['closed.a'],
      ['closed.x.y.z'],
      Array.from({ length: 11 }, () => 'closed'),
    ]) {
      await expect(list('Shop', { populate })).rejects.toMatchObject({ status: 400 });
    }
    await kernel.schemas.update(admin, closed._id, {
      options: { cms: { enabled: true }, authorization: { enabled: true } },
    });
    await expect(list('Closed', {}, user)).rejects.toMatchObject({ status: 503 });
    await expect(kernel.records.create(user, 'Closed', {})).rejects.toMatchObject({ status: 503 });
    // What visitors may read, the permissions say: nobody answers for them here.
    await expect(list('Closed', {}, anonymous)).rejects.toMatchObject({ status: 503 });
    await expect(kernel.records.create(anonymous, 'Closed', {})).rejects.toMatchObject({
      status: 401,
    });
  });

  it('limits rows, counts and populated records to a permission predicate', async () => {
    await kernel.schemas.create(admin, {
      name: 'Secret',
      fields: { n: 'Number' },
      options: { authorization: { enabled: true } },
    });
    await kernel.schemas.create(admin, {
      name: 'Holder',
      fields: { s: { type: 'Relation', model: 'Secret' } },
    });
    const [a, b] = await kernel.records.createMany(admin, 'Secret', [{ n: 1 }, { n: 2 }]);
    await kernel.records.createMany(admin, 'Holder', [{ s: a?.id }, { s: b?.id }]);
    // Reads and updates ask for nothing else.
    const engine: Partial<PermissionEngine> = {
      includes: async () => true,
      predicate: async () => ({
        shape: 'only',
        compile: (id, next) => `${id} = ${next(a?.id)}::uuid`,
      }),
    };
    kernel.permissions.engine = engine as PermissionEngine;
    try {
      for (let i = 0; i < 5; i++) {
        expect(await list('Secret', {}, user)).toMatchObject({ count: 1, documents: [{ n: 1 }] });
        expect(await list('Secret', { count: 'estimated' }, user)).toMatchObject({
          count: 1,
          estimated: false,
        });
        const held = await list('Holder', { populate: ['s'] }, user);
        expect(held.documents.map(({ s }) => s)).toEqual([
          expect.objectContaining({ n: 1 }),
          b?.id,
        ]);
      }
      await expect(kernel.records.get(user, 'Secret', b?.id ?? '')).rejects.toMatchObject({
        status: 404,
      });
      await expect(
        kernel.records.update(user, 'Secret', b?.id ?? '', { n: 3 }),
      ).rejects.toMatchObject({ status: 404 });
      expect((await kernel.records.update(user, 'Secret', a?.id ?? '', { n: 3 })).version).toBe(1);
    } finally {
      kernel.permissions.engine = undefined;
    }
  });

  it('changes the same many records from several sides, whatever order they are named in', async () => {
    await kernel.schemas.create(admin, { name: 'Crowd', fields: { n: 'Number' } });
    const ids = (
      await kernel.records.createMany(
        admin,
        'Crowd',
        Array.from({ length: 1_000 }, () => ({})),
      )
    ).map(({ id }) => id);
    const turned = (by: number) => [...ids.slice(by), ...ids.slice(0, by)].reverse();
    for (let round = 0; round < 3; round++) {
      const changes = Array.from({ length: 6 }, (_, i) =>
        turned(i * 150 + round * 7).map((_id) => ({ _id, n: i })),
      );
      await Promise.all(
        changes.map((change, i) =>
          kernel.records.updateMany(admin, 'Crowd', i % 2 ? change : change.toReversed()),
        ),
      );
    }
    expect(await list('Crowd', { sort: ['-__v'], limit: 1 })).toMatchObject({
      count: 1_000,
      documents: [{ __v: 18 }],
    });
    const everything = { filter: { kind: 'all', of: [] } } as const;
    const increment = { field: 'n', action: 'increment', value: 1, place: '' } as const;
    const removals = await Promise.all([
      kernel.records.removeWhere(admin, 'Crowd', everything),
      kernel.records.updateWhere(admin, 'Crowd', [increment], everything).then(() => 0),
      kernel.records.removeWhere(admin, 'Crowd', everything),
    ]);
    expect(removals[0] + removals[2]).toBe(1_000);
  });
};

describe('the record engine', suite('embedded'));
await describeWithPostgres15('the record engine on PostgreSQL 15', suite('external15'));
