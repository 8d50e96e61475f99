import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

const missing = '00000000-0000-4000-8000-000000000000';

describe('links to records that somebody else may read', () => {
  let platform: TestPlatform;
  type User = Awaited<ReturnType<TestPlatform['registerUser']>>;
  let ann: User;
  let bob: User;
  let secret: Json;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await platform.createSchema({
      name: 'Secret',
      fields: { title: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    await platform.createSchema({
      name: 'Mention',
      fields: {
        of: { type: 'Relation', model: 'Secret' },
        also: [{ type: 'Relation', model: 'Secret' }],
        own: { type: 'Relation', model: 'Diary' },
        box: { type: 'Relation', model: 'Box', onDelete: 'setNull' },
        text: 'String',
      },
      conduitOptions: { cms: { crudOperations: { update: { operators: true } } } },
    });
    await platform.createSchema({
      name: 'Diary',
      fields: { who: { type: 'Relation', model: 'User' } },
      conduitOptions: { owner: { field: 'who', limit: ['read'] } },
    });
    await platform.createSchema({
      name: 'Box',
      fields: { title: 'String' },
      conduitOptions: { softDelete: true },
    });
    [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
    secret = (await ann.api.post('/database/Secret', { title: 's' })).body;
  });
  afterAll(() => platform.close());

  const refused = (path: string, model = 'Secret') => ({
    status: 400,
    body: {
      code: 'RECORD_INVALID',
      errors: [{ path, rule: 'relation', message: `there is no such record of ${model}` }],
    },
  });

  it('are refused like links to nothing, on every way in, so that its owner can still delete it', async () => {
    const { api } = bob;
    const { body: mention } = await api.post('/database/Mention', { text: 't' });
    const path = `/database/Mention/${mention._id}`;
    for (const id of [secret._id, missing]) {
      expect(await api.post('/database/Mention', { of: id })).toMatchObject(refused('of'));
      expect(await api.post('/database/Mention', { also: [id] })).toMatchObject(refused('also.0'));
      expect(await platform.client.post('/database/Mention', { of: id })).toMatchObject(
        refused('of'),
      );
      expect(
        await api.post('/database/Mention/many', { docs: [{ text: 'a' }, { of: id }] }),
      ).toMatchObject(refused('docs.1.of'));
      expect(await api.patch(path, { of: id })).toMatchObject(refused('of'));
      expect(await api.put(path, { of: id })).toMatchObject(refused('of'));
      expect(
        await api.patch('/database/Mention/many', { docs: [{ _id: mention._id, of: id }] }),
      ).toMatchObject(refused('docs.0.of'));
      expect((await api.patch(path, { $push: { also: id } })).status).toBe(400);
      const operations = [{ op: 'create', schema: 'Mention', data: { of: id } }];
      expect(await api.post('/database/batch', { operations })).toMatchObject(
        refused('operations.0.of'),
      );
    }
    expect((await ann.api.delete(`/database/Secret/${secret._id}`)).status).toBe(200);
    secret = (await ann.api.post('/database/Secret', { title: 's' })).body;
  });

  it('are for those who may read it, and stay when somebody else changes the record', async () => {
    const { body: mention } = await ann.api.post('/database/Mention', {
      of: secret._id,
      also: [secret._id],
    });
    const path = `/database/Mention/${mention._id}`;
    const links = { of: secret._id, also: [secret._id] };
    expect(await bob.api.put(path, { ...links, text: 'new' })).toMatchObject({
      status: 200,
      body: { ...links, text: 'new' },
    });
    expect(
      (await bob.api.patch('/database/Mention/many', { docs: [{ _id: mention._id, ...links }] }))
        .status,
    ).toBe(200);
    expect(await bob.api.patch(path, { also: [secret._id, missing] })).toMatchObject(
      refused('also.1'),
    );
    const { body: other } = await bob.api.post('/database/Mention', { text: 't' });
    const docs = [
      { _id: mention._id, of: secret._id },
      { _id: other._id, of: secret._id },
    ];
    expect(await bob.api.patch('/database/Mention/many', { docs })).toMatchObject(
      refused('docs.1.of'),
    );
    expect(
      (await platform.admin.post('/database/schemas/Mention/docs', { inputDocument: links }))
        .status,
    ).toBe(200);
  });

  it('stay where they lead nowhere by now: what was read can be written again', async () => {
    const create = async (title: string) =>
      (await ann.api.post('/database/Secret', { title })).body._id as string;
    const [gone, archived] = [
      await create('gone'),
      (await ann.api.post('/database/Box', {})).body._id,
    ];
    const links = { also: [gone, secret._id], box: archived };
    const { body: mention } = await ann.api.post('/database/Mention', links);
    await ann.api.delete(`/database/Secret/${gone}`);
    await ann.api.delete(`/database/Box/${archived}`);
    const path = `/database/Mention/${mention._id}`;
    const later = await create('later');
    const more = { ...links, also: [...links.also, later] };
    expect(await ann.api.put(path, more)).toMatchObject({ status: 200, body: more });
    const docs = [{ _id: mention._id, ...more, text: 'new' }];
    expect((await ann.api.patch('/database/Mention/many', { docs })).status).toBe(200);
    const input = { changedDocument: { also: [gone] } };
    const asOperator = `/database/schemas/Mention/docs/${mention._id}`;
    expect((await platform.admin.put(asOperator, input)).status).toBe(200);
    // Of another record, or once it is taken out, it is a new one.
    expect(await ann.api.post('/database/Mention', links)).toMatchObject({ status: 400 });
    expect((await ann.api.patch(path, { $pull: { also: gone }, box: null })).status).toBe(200);
    expect(await ann.api.patch(path, { also: [gone] })).toMatchObject(refused('also.0'));
    expect(await ann.api.patch(path, { box: archived })).toMatchObject(refused('box', 'Box'));
  });

  it('stay for whoever owns the record by the field that says so now', async () => {
    const to = { type: 'Relation', model: 'User' } as const;
    const fields = { by: to, keeper: to, boxes: [{ type: 'Relation', model: 'Box' }] } as const;
    const ownedBy = (field: string) => ({ owner: { field, limit: ['update'] as const } });
    const conduitOptions = ownedBy('by');
    const { _id: schema } = await platform.createSchema({ name: 'Shelf', fields, conduitOptions });
    const { body: box } = await platform.client.post('/database/Box', { title: 'b' });
    const { body: shelf } = await ann.api.post('/database/Shelf', { boxes: [box._id] });
    const docs = '/database/schemas/Shelf/docs';
    const changedDocument = { keeper: bob.userId };
    expect((await platform.admin.put(`${docs}/${shelf._id}`, { changedDocument })).status).toBe(
      200,
    );
    expect((await platform.client.delete(`/database/Box/${box._id}`)).status).toBe(200);
    const change = ({ api }: User) =>
      api.patch(`/database/Shelf/${shelf._id}`, { boxes: [box._id] });
    expect([await change(ann), await change(bob)].map(({ status }) => status)).toEqual([200, 400]);
    const moved = { fields, conduitOptions: ownedBy('keeper') };
    expect((await platform.admin.patch(`/database/schemas/${schema}`, moved)).status).toBe(200);
    expect([await change(ann), await change(bob)].map(({ status }) => status)).toEqual([400, 200]);
  });

  it('depend on the owner too where only that one may read', async () => {
    const { body: diary } = await ann.api.post('/database/Diary', {});
    expect(await bob.api.post('/database/Mention', { own: diary._id })).toMatchObject(
      refused('own', 'Diary'),
    );
    expect((await ann.api.post('/database/Mention', { own: diary._id })).status).toBe(200);
  });

  it('may be given by the author of an endpoint, but not through an input', async () => {
    const endpoint = (name: string, of: Json, inputs: Json[] = []) =>
      platform.admin.post('/database/customEndpoints', {
        name,
        operation: 1,
        selectedSchemaName: 'Mention',
        inputs,
        assignments: [{ schemaField: 'of', action: 0, assignmentField: of }],
      });
    expect((await endpoint('mentionIt', { type: 'Custom', value: secret._id })).status).toBe(200);
    await endpoint('mentionAny', { type: 'Input', value: 'id' }, [
      { name: 'id', type: 'ObjectId', location: 0 },
    ]);
    expect((await bob.api.post('/database/function/mentionIt', {})).body).toMatchObject([
      { of: secret._id },
    ]);
    expect((await bob.api.post('/database/function/mentionAny', { id: secret._id })).status).toBe(
      400,
    );
    expect((await ann.api.post('/database/function/mentionAny', { id: secret._id })).status).toBe(
      200,
    );
  });

  it('are not made by changes of a schema whose author does not reach what they lead to (539)', async () => {
    const { body: file } = await platform.admin.post('/storage/files', {
      ...{ name: 'private.txt', data: btoa('private') },
    });
    const exceeded = { status: 403, body: { code: 'SCOPE_EXCEEDED' } };
    const narrowed = async (...scopes: string[]) => {
      const { body } = await platform.admin.post('/api-tokens', { name: scopes.join(), scopes });
      return platform.adminAnonymous.with({ credential: body.token });
    };
    const database = await narrowed('database');
    const both = await narrowed('database', 'storage');
    const made = { name: 'Badge2', fields: { title: 'String', plain: 'ObjectId' } };
    const { _id } = (await database.post('/database/schemas', made)).body;
    const doc = { title: 'a', plain: file._id };
    const documents = '/database/schemas/Badge2/docs';
    expect((await database.post(documents, { inputDocument: doc })).status).toBe(200);
    const path = `/database/schemas/${_id}`;
    const link = { type: 'File' };
    const { fields } = made;
    const changes: Json[] = [
      { fields: { ...fields, plain: link } },
      { fields: { ...fields, file: link }, backfill: { file: file._id } },
      { fields: { ...fields, file: { ...link, default: file._id } } },
      { fields: { ...fields, files: [link] }, backfill: { files: [file._id] } },
    ];
    for (const change of changes) {
      expect(await database.patch(path, change)).toMatchObject(exceeded);
      expect(await database.post(`${path}/plan`, change)).toMatchObject(exceeded);
    }
    // A field that was taken out comes back as what it is declared as, and so does a schema whose table is kept.
    expect((await database.patch(path, { fields: { title: 'String' } })).status).toBe(200);
    expect(await database.patch(path, changes[0])).toMatchObject(exceeded);
    expect((await database.delete(`${path}?deleteData=false`)).status).toBe(200);
    const again = { ...made, ...changes[0] };
    expect(await database.post('/database/schemas', again)).toMatchObject(exceeded);
    const state = { schemas: [{ ...again, modelOptions: {} }] };
    expect(await database.post('/database/schemas/import', state)).toMatchObject(exceeded);
    // New links lead to nothing by themselves, and are asked about where somebody writes them.
    const fresh = { ...made, fields: { ...fields, file: link } };
    const back = await database.post('/database/schemas', fresh);
    expect(back.status, back.text).toBe(200);
    const linked = await both.patch(`/database/schemas/${back.body._id}`, changes[0]);
    expect(linked.status, linked.text).toBe(200);
  });
});
