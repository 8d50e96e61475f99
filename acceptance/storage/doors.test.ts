/** Files by every door: GraphQL, MCP, sockets, fields of records, custom endpoints. Who may read is the same at each. */
import { randomUUID } from 'node:crypto';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, openSocket } from '../chat/clients.ts';
import { upload as storeFunction } from '../functions/requests.ts';
import { bearer, readContent, sendForm } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let ben: TestUser;
let eve: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  [ann, ben, eve] = await Promise.all([
    platform.registerUser(),
    platform.registerUser(),
    platform.registerUser(),
  ]);
  await platform.admin.patch('/config/storage', { access: { privateRead: 'owner' } });
});
afterEach(closeClients);
afterAll(() => platform?.close());

const upload = async (user: TestUser, fields: Record<string, string> = {}): Promise<string> =>
  (await sendForm(platform, user, [`${randomUUID()}.txt`, 'content'], { fields })).body.id;
const ask = async (user: TestUser, query: string, variables: Json = {}): Promise<Json> =>
  (await user.api.post('/graphql', { query, variables })).body;
const codeOf = ({ errors }: Json): unknown => errors?.[0]?.extensions.conduitCode;

describe('GraphQL', () => {
  it('makes, reads, lists, changes and deletes files with the rights of every door', async () => {
    const made = await ask(
      ann,
      'mutation ($params: postStorageFileRequest) { postStorageFile(params: $params) { _id name size checksum uri } }',
      {
        params: { data: Buffer.from('by graphql').toString('base64'), name: 'g.txt', folder: 'g' },
      },
    );
    expect(made.errors, JSON.stringify(made)).toBeUndefined();
    const { _id: id, size, uri } = made.data.postStorageFile;
    expect([size, uri]).toEqual([10, `/storage/getFileUrl/${id}`]);
    const read = 'query ($id: ID) { getStorageFileId(id: $id) { name state } }';
    expect((await ask(ann, read, { id })).data.getStorageFileId).toEqual({
      name: 'g.txt',
      state: 'ready',
    });
    expect(codeOf(await ask(ben, read, { id }))).toBe('FILE_ACCESS_DENIED');
    const url = 'query ($id: ID) { getStorageGetFileUrlId(id: $id) { result } }';
    const { result } = (await ask(ann, url, { id })).data.getStorageGetFileUrlId;
    expect((await readContent(platform, result)).bytes.toString()).toBe('by graphql');
    expect(codeOf(await ask(ben, url, { id }))).toBe('FILE_ACCESS_DENIED');
    const list =
      '{ getStorageFiles(limit: 1, cursor: "start", sort: ["-size"]) { files { _id } filesCount nextCursor } }';
    expect((await ask(ann, list)).data.getStorageFiles).toMatchObject({
      files: [{ _id: id }],
      filesCount: 1,
      nextCursor: null,
    });
    expect((await ask(ben, list)).data.getStorageFiles.files).toEqual([]);
    const remove = 'mutation ($id: ID) { deleteStorageFileId(id: $id) { success } }';
    expect(codeOf(await ask(ben, remove, { id }))).toBe('FILE_ACCESS_DENIED');
    expect((await ask(ann, remove, { id })).data.deleteStorageFileId.success).toBe(true);
    expect(codeOf(await ask(ann, read, { id }))).toBe('FILE_NOT_FOUND');
  });
});

describe('functions and GraphQL', () => {
  const code = (work: string) =>
    `try { ${work} } catch ({ status, code }) { return { status, code } }`;
  const store = (name: string, functionCode: string, more: object = {}) =>
    storeFunction(platform.admin, {
      ...{ name, functionCode, ...more },
      inputs: { method: 'POST', bodyParams: { input: 'JSON' } },
    });
  const run = async (user: TestUser, name: string, input: Json): Promise<Json> =>
    (await user.api.post(`/functions/${name}`, { input })).body.result;
  const make =
    'mutation ($params: postStorageFileRequest) { postStorageFile(params: $params) { _id } }';
  const data = Buffer.from('0123456789').toString('base64');
  beforeAll(async () => {
    await platform.admin.patch('/config/storage', {
      limits: { maxJsonDataSize: 2_000, perUserQuota: 100 },
    });
    await store('make', code('return await ctx.files.create(req.params.input)'));
    await store(
      'call',
      code('const { name, ...rest } = req.params.input; return await ctx.call(name, rest)'),
    );
    const all = `Promise.allSettled(Array.from({ length: 20 }, (_, i) =>
      ctx.files.create({ name: req.params.input.tag + i, data: '${data}' })))`;
    await store('many', `return (await ${all}).map(({ reason }) => reason?.code ?? 200)`);
    await store('leaves', `${all}; return 'left'`);
    await store('hangs', `await ${all}; for (;;) {}`, { timeout: 500 });
  });
  afterAll(async () => {
    const limits = { maxJsonDataSize: 10_000_000, perUserQuota: 0 };
    await platform.admin.patch('/config/storage', { limits });
  });

  it('keep to sizes, types and containers', async () => {
    const name = `pictures-${randomUUID()}`;
    const { _id } = (await platform.admin.post('/storage/containers', { name })).body;
    await platform.admin.patch(`/storage/containers/${_id}`, { allowedMimeTypes: ['image/png'] });
    const html = Buffer.from('<b>').toString('base64');
    for (const [params, refusal] of [
      [{ name: 'large', data: 'A'.repeat(4_000) }, 'FILE_TOO_LARGE'],
      [{ name: 'broken', data: '***' }, 'INVALID_BASE64'],
      [{ name: '../up', data }, 'INVALID_NAME'],
      [{ name: 'a.txt', data, container: name }, 'UNSUPPORTED_TYPE'],
      [{ name: 'a.png', data: html, mimeType: 'image/png', container: name }, 'UNSUPPORTED_TYPE'],
      [{ name: 'own', data, container: 'module-forms' }, 'CONTAINER_CREATION_DENIED'],
    ] as const) {
      expect((await run(ann, 'make', params)).code, refusal).toBe(refusal);
      expect(codeOf(await ask(ann, make, { params })), refusal).toBe(refusal);
    }
  });

  it('leave files of others alone', async () => {
    const { _id: id } = await run(ann, 'make', { name: 'mine.txt', data: 'eA==' });
    for (const input of [
      { name: 'PATCH /storage/file/:id', params: { id }, body: { data } },
      { name: 'storage.file.remove', params: { id } },
      { name: 'storage.file.data', params: { id } },
      { name: 'storage.file.copy', params: { id }, body: {} },
      { name: 'storage.file.create', body: { name: 'mine.txt', data, upsert: true } },
    ])
      expect((await run(eve, 'call', input)).code, input.name).toBe('FILE_ACCESS_DENIED');
    for (const name of ['storage.files.remove', 'storage.files.update', 'POST /storage/upload'])
      expect((await run(eve, 'call', { name, params: { id } })).status, name).toBe(403);
    expect((await run(ann, 'call', { name: 'storage.file.data', params: { id } })).data).toBe(
      'eA==',
    );
  });

  it('keep to the quota exactly, whoever waits for the answer', async () => {
    const users = await Promise.all(Array.from({ length: 4 }, () => platform.registerUser()));
    const [many, leaves, hangs, graph] = users as [TestUser, TestUser, TestUser, TestUser];
    const codes = (await run(many, 'many', { tag: 'a' })) as unknown[];
    expect(codes.filter((one) => one === 200)).toHaveLength(10);
    expect(new Set(codes)).toEqual(new Set([200, 'QUOTA_EXCEEDED']));
    await run(leaves, 'leaves', { tag: 'b' });
    await run(hangs, 'hangs', { tag: 'c' });
    const fields = Array.from(
      { length: 20 },
      (_, i) => `a${i}: postStorageFile(params: { name: "d${i}", data: "${data}" }) { _id }`,
    );
    const made = await ask(graph, `mutation { ${fields.join(' ')} }`);
    expect(Object.values(made.data).filter(Boolean)).toHaveLength(10);
    for (const user of users) {
      const { files, size } = (await user.api.get('/storage/usage')).body;
      expect(size).toBe(10 * files);
      expect(size).toBeLessThanOrEqual(100);
    }
    const { progress } = (await platform.admin.post('/storage/reconcile', { dryRun: true })).body;
    expect(progress).toMatchObject({ wrongCounters: 0, orphanObjects: 0, missingObjects: 0 });
  });
});

describe('MCP', () => {
  it('gives agents the operations of operators, and tokens of other modules nothing', async () => {
    const connect = async (headers: Record<string, string>): Promise<Client> => {
      const client = new Client({ name: 'test', version: '1.0.0' });
      const url = new URL('/mcp?modules=storage', platform.addresses.admin);
      await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
      return client;
    };
    const client = await connect({ masterkey: platform.masterKey });
    const call = async (name: string, args: Json = {}): Promise<Json> => {
      const { content } = (await client.callTool({ name, arguments: args })) as Json;
      return JSON.parse(content[0].text).data;
    };
    const name = `mcp-${randomUUID()}`;
    expect(await call('post_storage_containers', { name })).toMatchObject({ name });
    const data = Buffer.from('by an agent').toString('base64');
    const file = await call('post_storage_files', { data, name: 'a.txt', container: name });
    expect(file).toMatchObject({ size: 11, container: name });
    expect((await call('get_storage_files', { container: name })).files).toHaveLength(1);
    expect(await call('get_storage_files_id_data', { id: file._id })).toEqual({ data });
    const insights = await call('get_storage_insights', { limit: 1 });
    expect(insights.largest).toHaveLength(1);
    const { token } = (
      await platform.admin.post('/api-tokens', { name: 'agent', scopes: ['read', 'chat'] })
    ).body;
    const narrow = await connect({ authorization: `Bearer ${token}` });
    expect(
      (await narrow.listTools()).tools.filter((tool) => tool.name.includes('storage')),
    ).toEqual([]);
    await Promise.all([client.close(), narrow.close()]);
  });
});

describe('sockets', () => {
  const listen = async (user: TestUser) => {
    const socket = openSocket(platform, { auth: { token: user.accessToken } }, '/storage/');
    const heard: [string, Json][] = [];
    socket.onAny((event: string, data: Json) => heard.push([event, data]));
    await waitFor(() => socket.connected);
    return {
      ask: (event: string, data: Json): Promise<Json> =>
        socket.timeout(10_000).emitWithAck(event, data),
      of: (id: string) => heard.filter(([, { fileId }]) => fileId === id).map(([event]) => event),
    };
  };

  it('tell users of their files, and of those that they named and may read', async () => {
    const [other, owner, stranger] = await Promise.all([listen(ben), listen(ann), listen(eve)]);
    const id = await upload(ann);
    await waitFor(() => owner.of(id).length === 2);
    expect(owner.of(id)).toEqual(['storage:create', 'storage:ready']);
    expect(await stranger.ask('subscribe', { fileId: id })).toMatchObject({
      error: { status: 403 },
    });
    expect(await other.ask('subscribe', { fileId: 'x' })).toMatchObject({ error: { status: 400 } });
    await ann.api.patch(`/storage/file/${id}/visibility`, { isPublic: true });
    expect((await other.ask('subscribe', { fileId: id })).error).toBeUndefined();
    await ann.api.patch(`/storage/file/${id}`, { alias: 'open' });
    await waitFor(() => other.of(id).includes('storage:update'));
    // Hidden again, it is not told any more, though they asked for it when it was open.
    await ann.api.patch(`/storage/file/${id}/visibility`, { isPublic: false });
    const before = other.of(id).length;
    await ann.api.patch(`/storage/file/${id}`, { alias: 'closed' });
    await ann.api.delete(`/storage/file/${id}`);
    await waitFor(() => owner.of(id).includes('storage:delete'));
    expect(other.of(id).length - before).toBeLessThanOrEqual(0);
    expect(stranger.of(id)).toEqual([]);
  });

  it('tell of each file of a folder that goes, and end with unsubscribe', async () => {
    const owner = await listen(ann);
    const folder = `f-${randomUUID()}`;
    const ids = await Promise.all([upload(ann, { folder }), upload(ann, { folder })]);
    const { folders } = (
      await platform.admin.get('/storage/folders', { query: { search: folder } })
    ).body;
    await platform.admin.delete(`/storage/folders/${folders[0]._id}`);
    await waitFor(() => ids.every((id) => owner.of(id).includes('storage:delete')));
    const open = await upload(ben, { isPublic: 'true' });
    await owner.ask('subscribe', { fileId: open });
    await owner.ask('unsubscribe', { fileId: open });
    await ben.api.patch(`/storage/file/${open}`, { alias: 'x' });
    const last = await upload(ann);
    await waitFor(() => owner.of(last).length === 2);
    // That it was made may be told after they subscribed.
    expect(owner.of(open)).not.toContain('storage:update');
  });
});

describe('a file in a record that is shared', () => {
  const schema = `Diary${randomUUID().slice(0, 8)}`;
  let file: string;
  let record: string;
  beforeAll(async () => {
    await platform.createSchema({
      name: schema,
      fields: { title: 'String', photo: { type: 'File' } },
      conduitOptions: { authorization: { enabled: true } },
    });
    const endpoint = await platform.admin.post('/database/customEndpoints', {
      name: `of${schema}`,
      operation: 0,
      selectedSchemaName: schema,
      authentication: true,
      inputs: [{ name: 'title', type: 'String', location: 1 }],
      query: {
        AND: [
          {
            schemaField: 'title',
            operation: 0,
            comparisonField: { type: 'Input', value: 'title' },
          },
        ],
      },
    });
    expect(endpoint.status, endpoint.text).toBe(200);
    file = await upload(ann);
    const made = await ann.api.post(`/database/${schema}`, { title: 'May', photo: file });
    expect(made.status, made.text).toBe(200);
    record = made.body._id;
    const related = await platform.admin.post('/authorization/relations', {
      subject: `User:${ben.userId}`,
      relation: 'reader',
      resource: `${schema}:${record}`,
    });
    expect(related.status, related.text).toBeLessThan(300);
  });

  /** What of the file somebody gets, by each door. */
  const doors: Record<string, (user: TestUser) => Promise<unknown>> = {
    record: async (user) =>
      (await user.api.get(`/database/${schema}/${record}?populate=photo`)).body.photo?.uri,
    list: async (user) =>
      (await user.api.get(`/database/${schema}?populate=photo`)).body.documents[0]?.photo.uri,
    'custom endpoint': async (user) =>
      (await user.api.get(`/database/function/of${schema}?title=May&populate=photo`)).body[0]?.photo
        .uri,
    graphql: async (user) =>
      (
        await ask(user, `query ($id: ID) { getDatabase${schema}Id(id: $id) { photo { uri } } }`, {
          id: record,
        })
      ).data?.[`getDatabase${schema}Id`]?.photo?.uri,
    address: async (user) =>
      (await user.api.get(`/storage/getFileUrl/${file}`)).status === 200 ? uriOf() : undefined,
    'several files': async (user) =>
      (await user.api.get(`/storage/files/many?ids=${file}`)).body.documents[0]?.uri,
    document: async (user) => (await user.api.get(`/storage/file/${file}`)).body.uri,
    download: async (user) =>
      (
        await readContent(platform, `/storage/download/${file}`, { headers: bearer(user) })
      ).bytes.toString() === 'content'
        ? uriOf()
        : undefined,
    data: async (user) =>
      (await user.api.get(`/storage/file/data/${file}`)).status === 200 ? uriOf() : undefined,
    copy: async (user) =>
      (await user.api.post(`/storage/file/${file}/copy`, { name: randomUUID() })).status === 200
        ? uriOf()
        : undefined,
  };
  const uriOf = (): string => `/storage/getFileUrl/${file}`;

  it.each(Object.keys(doors))(
    'is read by readers of the record and by nobody else: %s',
    async (door) => {
      expect(await doors[door]?.(ann), 'the owner').toBe(uriOf());
      expect(await doors[door]?.(ben), 'a reader').toBe(uriOf());
      expect(await doors[door]?.(eve), 'a stranger').toBeUndefined();
    },
  );
});
