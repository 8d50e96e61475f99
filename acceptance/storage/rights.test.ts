/** Files as a type of the permission engine: owners, teams, sharing, folders and containers, lists, explanations. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { bearer, readContent, sendForm, sendTo } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let ben: TestUser;
let eve: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  [ann, ben, eve] = await Promise.all([
    platform.registerUser(),
    platform.registerUser(),
    platform.registerUser(),
  ]);
  const on = await platform.admin.patch('/config/storage', { authorization: { enabled: true } });
  expect(on.status).toBe(200);
});
afterAll(() => platform.close());

const upload = async (user: TestUser, fields: Record<string, string> = {}): Promise<string> => {
  const sent = await sendForm(platform, user, [`${randomUUID()}.txt`, 'secret'], { fields });
  expect(sent.status).toBe(200);
  return sent.body.id;
};
const statusFor = async (user: TestUser, id: string): Promise<number> =>
  (await user.api.get(`/storage/file/${id}`)).status;
const relate = async (subject: string, relation: string, resource: string) => {
  const made = await platform.admin.post('/authorization/relations', {
    subject,
    relation,
    resource,
  });
  expect(made.status, made.text).toBeLessThan(300);
};
const mine = async (user: TestUser, query = ''): Promise<readonly string[]> => {
  const list = await user.api.get(`/storage/files?limit=200&of=readable${query}`);
  expect(list.status, list.text).toBe(200);
  return list.body.files.map(({ _id }: { _id: string }) => _id);
};

describe('files with relations', () => {
  it('belong to their owner, and to nobody else', async () => {
    const id = await upload(ann);
    expect(await statusFor(ann, id)).toBe(200);
    expect(await statusFor(ben, id)).toBe(403);
    expect(
      (await readContent(platform, `/storage/download/${id}`, { headers: bearer(ben) })).status,
    ).toBe(403);
    expect((await platform.client.get(`/storage/file/${id}`)).status).toBe(403);
    expect((await ben.api.delete(`/storage/file/${id}`)).status).toBe(403);
    expect((await ben.api.patch(`/storage/file/${id}`, { name: 'mine.txt' })).status).toBe(403);
    expect(await mine(ann)).toContain(id);
    expect(await mine(ben)).not.toContain(id);
    const check = await platform.admin.post('/authorization/permissions/can', {
      subject: `User:${ann.userId}`,
      permission: 'edit',
      resource: `File:${id}`,
    });
    expect(check.body).toMatchObject({ allowed: true });
  });

  it('are shared by their owner, and lists say so at once', async () => {
    const id = await upload(ann);
    const given = await ann.api.post(`/authorization/shares/File:${id}`, {
      subject: `User:${ben.userId}`,
      relation: 'reader',
    });
    expect([given.status, given.text]).toEqual([200, expect.anything()]);
    expect(await statusFor(ben, id)).toBe(200);
    expect(await mine(ben)).toContain(id);
    const who = await platform.admin.get(
      `/authorization/permissions/subjects?resource=File:${id}&permission=read`,
    );
    expect(who.body.subjects, who.text).toEqual(
      expect.arrayContaining([`User:${ann.userId}`, `User:${ben.userId}`]),
    );
    expect(who.body.subjects).not.toContain(`User:${eve.userId}`);
    expect((await ben.api.delete(`/storage/file/${id}`)).status).toBe(403);
    expect(await statusFor(eve, id)).toBe(403);
  });

  it('get rights from their folder and their container', async () => {
    const folder = `plans-${randomUUID()}`;
    const deep = await upload(ann, { folder: `${folder}/2026/may` });
    const beside = await upload(ann, { folder: `${folder}-other` });
    const folders = await platform.admin.get(`/storage/folders?search=${folder}&limit=50`);
    const [top] = folders.body.folders.filter(
      ({ name }: { name: string }) => name === `${folder}/`,
    );
    await relate(`User:${ben.userId}`, 'reader', `Folder:${top._id}`);
    expect(await statusFor(ben, deep)).toBe(200);
    expect(await statusFor(ben, beside)).toBe(403);
    expect(await mine(ben)).toContain(deep);
    const containers = await platform.admin.get('/storage/containers');
    const { _id: container } = containers.body.containers.find(
      ({ name }: { name: string }) => name === 'penstock',
    );
    await relate(`User:${eve.userId}`, 'editor', `Container:${container}`);
    expect(await statusFor(eve, beside)).toBe(200);
    expect(await mine(eve)).toEqual(expect.arrayContaining([deep, beside]));
    const moved = await eve.api.post(`/storage/file/${beside}/move`, { folder: `${folder}/in` });
    expect(moved.status).toBe(200);
    expect(await statusFor(ben, beside)).toBe(200);
    const explained = await platform.admin.post('/authorization/permissions/evaluate', {
      subject: `User:${ben.userId}`,
      permission: 'read',
      resource: `File:${beside}`,
    });
    expect(explained.body).toMatchObject({ allowed: true });
    expect(explained.text).toContain('Folder');
  });

  it('are given by a link as long as its maker may give them', async () => {
    const [maker, team] = [await platform.registerUser(), `Team:${randomUUID()}`];
    const linkTo = async (file: string, more: object = {}): Promise<string> => {
      const made = await maker.api.post(`/storage/file/${file}/links`, more);
      expect(made.status, made.text).toBe(200);
      return made.body.url;
    };
    const read = async (url: string) => (await readContent(platform, url)).status;
    await relate(`User:${maker.userId}`, 'owner', team);
    const ours = await maker.api.post(`/storage/file?scope=${team}`, {
      ...{ name: `${randomUUID()}.txt`, data: Buffer.from('ours').toString('base64') },
    });
    const ofTeam = await linkTo(ours.body._id);
    const own = await linkTo(await upload(maker));
    expect([await read(ofTeam), await read(own)]).toEqual([200, 200]);
    const relation = { subject: `User:${maker.userId}`, relation: 'owner', resource: team };
    await platform.admin.delete('/authorization/relations', { query: relation });
    expect([await read(ofTeam), await read(own)]).toEqual([404, 200]);
    const users = '/authentication/users';
    await platform.admin.post(`${users}/${maker.userId}/block`, {});
    expect(await read(own)).toBe(404);
    await platform.admin.post(`${users}/${maker.userId}/unblock`, {});
    expect(await read(own)).toBe(200);
    expect((await platform.admin.delete(`${users}/${maker.userId}`)).status).toBe(200);
    expect(await read(own)).toBe(404);
  });

  it('belong to a team when they are made for it', async () => {
    const teamId = randomUUID();
    await relate(`User:${ann.userId}`, 'owner', `Team:${teamId}`);
    await relate(`User:${ben.userId}`, 'editAll', `Team:${teamId}`);
    const made = await ann.api.post(`/storage/file?scope=Team:${teamId}`, {
      name: `${randomUUID()}.txt`,
      data: Buffer.from('ours').toString('base64'),
    });
    expect(made.status, made.text).toBe(200);
    expect(made.body.owner).toBe(`Team:${teamId}`);
    expect(await statusFor(ben, made.body._id)).toBe(200);
    const refused = await eve.api.post(`/storage/file?scope=Team:${teamId}`, {
      data: Buffer.from('x').toString('base64'),
    });
    expect(refused.status).toBe(403);
    const address = (scope: string) =>
      ann.api.patch(`/storage/upload/${made.body._id}?scope=${scope}`, {});
    expect((await address(`Team:${teamId}`)).status).toBe(200);
    expect((await address('nobody')).status).toBe(400);
    expect(await mine(ben, `&scope=Team:${teamId}`)).toContain(made.body._id);
    const own = await ann.api.get(`/storage/files?scope=Team:${teamId}`);
    expect(own.body.files.map(({ _id }: { _id: string }) => _id)).toEqual([made.body._id]);
    await platform.admin.patch('/config/storage', { trash: { days: 1 } });
    const gone = await ben.api.delete(`/storage/file/${made.body._id}`);
    expect(gone.status, gone.text).toBe(200);
    // Whoever may bring it back finds it.
    for (const [user, found] of [
      [ben, 1],
      [eve, 0],
    ] as const)
      expect((await user.api.get('/storage/trash')).body).toMatchObject({ filesCount: found });
    await platform.admin.patch('/config/storage', { trash: { days: 0 } });
    const left = await platform.admin.get(
      `/authorization/relations?resource=File:${made.body._id}`,
    );
    expect(left.body).toMatchObject({ count: 0 });
  });

  it("give out their content to those who have an action of one's own, where that is set", async () => {
    const id = await upload(ann);
    await relate(`User:${ben.userId}`, 'reader', `File:${id}`);
    const contentStatus = async (user: TestUser): Promise<readonly number[]> => [
      await statusFor(user, id),
      (await readContent(platform, `/storage/download/${id}`, { headers: bearer(user) })).status,
      (await user.api.get(`/storage/file/data/${id}`)).status,
      (await user.api.get(`/storage/getFileUrl/${id}`)).status,
      (await user.api.post(`/storage/file/${id}/copy`, { name: `${randomUUID()}.txt` })).status,
    ];
    const set = (contentAction: string) =>
      platform.admin.patch('/config/storage', { authorization: { contentAction } });
    const { body: current } = await platform.admin.get('/authorization/resources/File');
    const { name, relations, permissions } = current;
    const define = (actions: object) =>
      platform.admin.patch('/authorization/resources/File', {
        name,
        relations,
        permissions: actions,
      });
    expect(await contentStatus(ben)).toEqual([200, 200, 200, 200, 200]);
    const unknown = await set('download');
    expect([unknown.status, unknown.body.errors[0].path]).toEqual([
      400,
      'authorization.contentAction',
    ]);
    expect((await define({ ...permissions, download: ['owner', 'editor'] })).status).toBe(200);
    expect((await set('download')).status).toBe(200);
    expect(await contentStatus(ben)).toEqual([200, 403, 403, 403, 403]);
    expect(await contentStatus(ann)).toEqual([200, 200, 200, 200, 200]);
    // Nor do they get it by way of something that holds the file, or of a link.
    await platform.createSchema({
      name: 'Holding',
      fields: { file: { type: 'File' }, files: ['File'] },
    });
    const room = await ben.api.post('/chat/rooms', { roomName: 'files', users: [] });
    const message = { contentType: 'file', files: [id] };
    const refused = [
      await ben.api.post('/database/Holding', { file: id }),
      await ben.api.post('/database/Holding', { files: [id] }),
      await ben.api.post(`/chat/rooms/${room.body.roomId}/messages`, message),
      await ben.api.post(`/storage/file/${id}/links`, {}),
    ];
    expect(refused.map(({ status }) => status)).toEqual([400, 400, 400, 403]);
    expect(await contentStatus(ben)).toEqual([200, 403, 403, 403, 403]);
    expect((await ann.api.post('/database/Holding', { file: id })).status).toBe(200);
    const lost = await define(permissions);
    expect([lost.status, lost.body.code]).toEqual([409, 'RESOURCE_IN_USE']);
    expect(lost.body.errors[0].message).toContain('authorization.contentAction');
    await relate(`User:${ben.userId}`, 'editor', `File:${id}`);
    expect(await contentStatus(ben)).toEqual([200, 200, 200, 200, 200]);
    expect((await set('')).status).toBe(200);
    expect((await define(permissions)).status).toBe(200);
  });

  it('are made public by those who may share them, not by all who may edit them', async () => {
    const id = await upload(ann);
    await relate(`User:${ben.userId}`, 'editor', `File:${id}`);
    const visible = () => ben.api.patch(`/storage/file/${id}/visibility`, { isPublic: true });
    expect((await visible()).status).toBe(403);
    expect((await platform.client.get(`/storage/file/${id}`)).status).toBe(403);
    expect((await ben.api.patch(`/storage/file/${id}`, { alias: 'ours.txt' })).status).toBe(200);
    const shown = await ann.api.patch(`/storage/file/${id}/visibility`, { isPublic: true });
    expect(shown.status).toBe(200);
    // What is public already stays so when it is edited.
    expect((await ben.api.patch(`/storage/file/${id}`, { alias: 'all.txt' })).status).toBe(200);
  });

  it('are moved by those who may delete them, not by all who may edit them', async () => {
    const folderOf = async (user: TestUser): Promise<string> => {
      const folder = `own-${randomUUID()}`;
      await upload(user, { folder });
      return folder;
    };
    const id = await upload(ann);
    await relate(`User:${ben.userId}`, 'editor', `File:${id}`);
    const folder = await folderOf(ben);
    const moved = [
      await ben.api.post(`/storage/file/${id}/move`, { folder }),
      await ben.api.patch(`/storage/file/${id}`, { folder }),
    ];
    expect(moved.map(({ status, body }) => [status, body.code])).toEqual([
      [403, 'FILE_ACCESS_DENIED'],
      [403, 'FILE_ACCESS_DENIED'],
    ]);
    expect(await ben.api.delete(`/storage/file/${id}`)).toMatchObject({
      status: 403,
      body: { message: 'You may not delete this file' },
    });
    // Another name in the same place takes nothing from anybody.
    const name = `${randomUUID()}.txt`;
    expect((await ben.api.patch(`/storage/file/${id}`, { name })).status).toBe(200);
    expect((await ann.api.post(`/storage/file/${id}/move`, { folder })).status).toBe(200);
  });

  it('are sent by no token that is for messages alone', async () => {
    const fileId = await upload(ann);
    const sent = async (scopes: readonly string[]) => {
      const made = await platform.admin.post('/api-tokens', { name: randomUUID(), scopes });
      const mail = { email: 'eve@example.com', subject: 'x', body: 'x', attachments: [{ fileId }] };
      const { body } = made;
      const headers = { credential: body.token };
      return (await platform.adminAnonymous.post('/email/send', mail, { headers })).status;
    };
    expect(await sent(['communications', 'storage', 'write'])).toBe(200);
    expect(await sent(['communications', 'write'])).toBe(400);
  });

  it('of the public are read by everybody and changed by nobody else', async () => {
    const id = await upload(ann, { isPublic: 'true' });
    expect((await platform.client.get(`/storage/file/${id}`)).status).toBe(200);
    expect(await statusFor(ben, id)).toBe(200);
    expect((await ben.api.delete(`/storage/file/${id}`)).status).toBe(403);
    expect(await mine(ben)).toContain(id);
  });
});

/** An address needs no credential: it takes what whoever asked for it may still send (decision 547). */
describe('the address of an upload', () => {
  const addressFor = async (user: TestUser, id?: string): Promise<{ url: string; id: string }> => {
    const begun =
      id === undefined
        ? await user.api.post('/storage/upload', { name: `${randomUUID()}.txt` })
        : await user.api.patch(`/storage/upload/${id}`, {});
    expect(begun.status, begun.text).toBe(200);
    return begun.body;
  };

  it.each<[string, (user: TestUser) => Promise<{ status: number; text: string }>]>([
    ['a logout', ({ api }) => api.post('/authentication/logout')],
    [
      'a new password',
      async ({ email, password }) =>
        (await platform.login(email, password)).api.post('/authentication/local/change-password', {
          oldPassword: password,
          newPassword: 'Another-Horse-99',
        }),
    ],
    [
      'the end of sessions by an operator',
      ({ userId }) => platform.admin.delete(`/authentication/users/${userId}/sessions`),
    ],
    ['a block', ({ userId }) => platform.admin.post(`/authentication/users/${userId}/block`)],
    ['the deletion of the account', ({ api }) => api.delete('/authentication/user')],
  ])('ends with %s', async (_what, end) => {
    const user = await platform.registerUser();
    const kept = await upload(user);
    const addresses = [await addressFor(user), await addressFor(user, kept)];
    const ended = await end(user);
    expect(ended.status, ended.text).toBe(200);
    for (const { url } of addresses) {
      const sent = await sendTo(url, 'afterwards');
      expect([404, 409], JSON.stringify(sent.body)).toContain(sent.status);
    }
    const { body } = await platform.admin.get(`/storage/files/${kept}`);
    expect(body.size ?? 'secret'.length).toBe('secret'.length);
  });

  it('ends with the right to change the file, and works again with it', async () => {
    const id = await upload(ann);
    const editor = { subject: `User:${ben.userId}`, relation: 'editor', resource: `File:${id}` };
    await relate(editor.subject, editor.relation, editor.resource);
    const { url } = await addressFor(ben, id);
    const taken = await platform.admin.delete('/authorization/relations', { query: editor });
    expect(taken.status, taken.text).toBe(200);
    expect(await sendTo(url, 'from ben')).toMatchObject({
      status: 409,
      body: { code: 'UPLOAD_CLOSED' },
    });
    const content = async () => {
      const { bytes } = await readContent(platform, `/storage/download/${id}`, {
        headers: bearer(ann),
      });
      return bytes.toString();
    };
    expect(await content()).toBe('secret');
    await relate(editor.subject, editor.relation, editor.resource);
    expect(await sendTo(url, 'from ben')).toMatchObject({ status: 200 });
    expect(await content()).toBe('from ben');
  });

  it('outlives a renewal of the session', async () => {
    const user = await platform.registerUser();
    const { url, id } = await addressFor(user);
    const renewed = await platform.client.post('/authentication/renew', undefined, {
      token: user.refreshToken,
    });
    expect(renewed.status, renewed.text).toBe(200);
    expect(await sendTo(url, 'renewed')).toMatchObject({ status: 200 });
    expect((await platform.admin.get(`/storage/files/${id}`)).body.size).toBe(7);
  });
});
