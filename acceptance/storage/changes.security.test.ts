/**
 * What a container takes holds for every way into it, and a change of a file leaves alone what it does not say
 * (CWE-367: what was read before the bytes came is not what is there when they have).
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { system } from '../../src/kernel/caller.ts';
import type { StorageProvider } from '../../src/modules/storage/providers/provider.ts';
import { createStorageServices } from '../../src/modules/storage/services/storage-services.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { bytesOf, openTestStorage, type TestStorage } from '../../test/support/storage-services.ts';
import { sendForm } from './requests.ts';

describe('a container with limits', () => {
  let platform: TestPlatform;
  let ann: TestUser;
  beforeAll(async () => {
    platform = await createTestPlatform();
    ann = await platform.registerUser();
  });
  afterAll(() => platform?.close());

  const newContainer = async (change: object): Promise<string> => {
    const { body } = await platform.admin.post('/storage/containers', {
      name: `c-${randomUUID()}`,
    });
    expect((await platform.admin.patch(`/storage/containers/${body._id}`, change)).status).toBe(
      200,
    );
    return body.name;
  };
  const upload = async (container?: string): Promise<string> => {
    const fields: Record<string, string> = container === undefined ? {} : { container };
    const sent = await sendForm(platform, ann, [`${randomUUID()}.txt`, '0123456789'], { fields });
    expect(sent.status).toBe(200);
    return sent.body.id;
  };
  const ways: readonly (readonly [
    string,
    (id: string, container: string) => Promise<{ status: number; body: { code?: string } }>,
  ])[] = [
    ['a move', (id, container) => ann.api.post(`/storage/file/${id}/move`, { container })],
    ['a copy', (id, container) => ann.api.post(`/storage/file/${id}/copy`, { container })],
    ['a change', (id, container) => ann.api.patch(`/storage/file/${id}`, { container })],
    ['an address', (id, container) => ann.api.patch(`/storage/upload/${id}`, { container })],
    [
      'a form that names it behind the file',
      (_id, container) =>
        sendForm(platform, ann, [randomUUID(), '0123456789'], { fieldsAfter: { container } }),
    ],
  ];
  it.each(ways)('takes nothing else by %s', async (_, go) => {
    const small = await newContainer({ maxFileSize: 5 });
    const pictures = await newContainer({ allowedMimeTypes: ['image/*'] });
    const id = await upload();
    expect((await go(id, small)).body.code).toBe('FILE_TOO_LARGE');
    expect((await go(id, pictures)).body.code).toBe('UNSUPPORTED_TYPE');
    for (const container of [small, pictures]) {
      const list = await platform.admin.get(`/storage/files?container=${container}`);
      expect(list.body.files).toEqual([]);
    }
    expect((await go(id, await newContainer({ maxFileSize: 10 }))).status).toBe(200);
  });

  it('takes no other type by its name, and leaves alone what is in it', async () => {
    const texts = await newContainer({ allowedMimeTypes: ['text/plain'] });
    const id = await upload(texts);
    const change = (said: object) => ann.api.patch(`/storage/file/${id}`, said);
    expect((await change({ mimeType: 'image/png' })).body.code).toBe('UNSUPPORTED_TYPE');
    const { containers } = (await platform.admin.get('/storage/containers?limit=200')).body;
    const { _id } = containers.find(({ name }: { name: string }) => name === texts);
    await platform.admin.patch(`/storage/containers/${_id}`, { allowedMimeTypes: ['image/*'] });
    expect((await change({ alias: 'still there' })).status).toBe(200);
  });

  it('of a module is made by no user, whatever becomes of the request that names it', async () => {
    await platform.admin.patch('/config/storage', { allowContainerCreation: true });
    const container = `module-${randomUUID()}`;
    const id = await upload();
    for (const refused of [
      await sendForm(platform, ann, ['x.txt', 'x'], { fields: { container, isPublic: 'true' } }),
      await ann.api.patch(`/storage/file/${id}`, { container }),
      await ann.api.post('/storage/folder', { name: 'a', container, isPublic: true }),
    ])
      expect(refused).toMatchObject({ status: 403, body: { code: 'FILE_ACCESS_DENIED' } });
    const { containers } = (await platform.admin.get('/storage/containers?limit=200')).body;
    expect(containers.map(({ name }: { name: string }) => name)).not.toContain(container);
    await platform.admin.patch('/config/storage', { allowContainerCreation: false });
  });
});

describe('a change whose bytes take their time', () => {
  let storage: TestStorage;
  beforeAll(async () => {
    storage = await openTestStorage('changes');
  });
  afterAll(() => storage?.close());

  const begin = async () => {
    const { files } = createStorageServices(
      storage.partsOf(storage.platform.kernel.database, storage.provider),
    );
    const { caller } = storage;
    const said = { name: randomUUID(), isPublic: true };
    const { _id } = await files.create(caller, said, bytesOf('first'));
    const meanwhile = (patch: Parameters<typeof files.update>[2]) => ({
      source: (async function* () {
        await files.update(caller, _id, patch);
        yield Buffer.from('second');
      })(),
      size: 6,
    });
    return { files, caller, _id, meanwhile };
  };

  it('leaves a file private that was made private meanwhile', async () => {
    const { files, caller, _id, meanwhile } = await begin();
    const body = meanwhile({ isPublic: false, folder: 'kept', metadata: { kept: true } });
    const changed = await files.update(caller, _id, { alias: 'new' }, body);
    expect(changed).toMatchObject({ isPublic: false, folder: 'kept/', alias: 'new', size: 6 });
    expect(await files.find(_id)).toMatchObject({ isPublic: false, metadata: { kept: true } });
  });

  it('is 409 where the content that is copied goes just then, and not a failure of the store', async () => {
    const { files, caller, _id } = await begin();
    const gone = Object.assign(Object.create(storage.provider) as StorageProvider, {
      async copy(...given: Parameters<StorageProvider['copy']>) {
        await files.remove(caller, _id);
        await storage.provider.delete(given[0]);
        return storage.provider.copy(...given);
      },
    });
    const copying = createStorageServices(
      storage.partsOf(storage.platform.kernel.database, gone),
    ).files;
    await expect(copying.copy(caller, _id, { name: randomUUID() })).rejects.toMatchObject({
      status: 409,
      code: 'UPLOAD_CLOSED',
    });
  });

  it('is refused where the file went into another container', async () => {
    const { files, caller, _id, meanwhile } = await begin();
    const container = `c-${randomUUID()}`;
    const { containers } = createStorageServices(
      storage.partsOf(storage.platform.kernel.database, storage.provider),
    );
    await containers.create(system('test'), container, false);
    const change = files.update(caller, _id, { alias: 'new' }, meanwhile({ container }));
    await expect(change).rejects.toMatchObject({ code: 'UPLOAD_CLOSED' });
    expect(await files.find(_id)).toMatchObject({ container, alias: null, size: 5 });
  });

  it('brings no private file into a container that is made public meanwhile', async () => {
    const { containers, containerAdmin, files } = createStorageServices(
      storage.partsOf(storage.platform.kernel.database, storage.provider),
    );
    const { caller } = storage;
    const container = `c-${randomUUID()}`;
    const { _id } = await containers.create(system('test'), container, false);
    const turned = (isPublic: boolean) => ({
      source: (async function* () {
        await containerAdmin.update(system('test'), _id, { isPublic });
        yield Buffer.from('secret');
      })(),
      size: 6,
    });
    const refused = { code: 'PRIVATE_IN_PUBLIC' };
    const said = { name: randomUUID(), container };
    await expect(files.create(caller, said, turned(true))).rejects.toMatchObject(refused);
    await containerAdmin.update(system('test'), _id, { isPublic: false });
    await expect(
      files.create(caller, { ...said, folder: 'a/b' }, turned(true)),
    ).rejects.toMatchObject(refused);
    await containerAdmin.update(system('test'), _id, { isPublic: false });
    expect((await files.create(caller, said, turned(false))).isPublic).toBe(false);
  });
});
