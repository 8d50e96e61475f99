/**
 * Who may hear is who may read (CWE-863): over sockets and HTTP, with the steps of the security review of 2026-11-22
 * (F12), and the switch `realtime.enabled` of a schema.
 */
import { io, type Socket } from 'socket.io-client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { PlatformOptions } from '../src/data/schema/language/definition.ts';
import type { Json } from '../test/support/api.ts';
import type { TestUser } from '../test/support/node.ts';
import { liftLimits, permissionsApi } from '../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { waitFor } from '../test/support/wait-for.ts';

describe('changes of records', () => {
  let platform: TestPlatform;
  let owner: TestUser;
  let reader: TestUser;
  const sockets: Socket[] = [];

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    [owner, reader] = await Promise.all([platform.registerUser(), platform.registerUser()]);
    const readable = { enabled: true, authenticated: true };
    const cms = {
      enabled: true,
      crudOperations: { create: readable, read: readable, update: readable, delete: readable },
    };
    const fields = {
      title: { type: 'String' },
      secret: { type: 'String', select: false },
    } as const;
    await platform.createSchema({
      name: 'Private',
      fields,
      conduitOptions: { cms, authorization: { enabled: true } },
    });
    await platform.createSchema({
      name: 'Silent',
      fields,
      conduitOptions: { cms, realtime: { enabled: false } },
    });
    await platform.createSchema({ name: 'Loud', fields, conduitOptions: { cms } });
  });
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.disconnect();
  });
  afterAll(() => platform.close());

  const listener = async ({ accessToken }: TestUser) => {
    const socket = io(`${platform.addresses.realtime}/database/`, {
      path: '/realtime',
      transports: ['websocket'],
      forceNew: true,
      auth: { token: accessToken },
    });
    sockets.push(socket);
    const heard: string[] = [];
    socket.on('change', ({ operation, documentId }: Json) =>
      heard.push(`${operation}:${documentId}`),
    );
    socket.on('conduit_error', ({ status, documentId, schema }: Json) =>
      heard.push(`${status}:${documentId ?? schema}`),
    );
    await waitFor(() => socket.connected);
    return {
      heard,
      ask: (input: object): Promise<Json> => socket.timeout(20_000).emitWithAck('subscribe', input),
    };
  };
  const shared = async (): Promise<{ id: string; grant: string }> => {
    const { _id: id } = (await owner.api.post('/database/Private', { title: 'mine' })).body;
    const relation = {
      subject: `User:${reader.userId}`,
      relation: 'reader',
      resource: `Private:${id}`,
    };
    return {
      id,
      grant: (await platform.admin.post('/authorization/relations', relation)).body._id,
    };
  };

  it('end for a reader whose permission was revoked, the deletion included (F12)', async () => {
    const [revoked, kept] = [await shared(), await shared()];
    const { heard, ask } = await listener(reader);
    for (const { id } of [revoked, kept])
      expect(await ask({ schema: 'Private', documentId: id })).toMatchObject({ ok: true });
    expect((await platform.admin.delete(`/authorization/relations/${revoked.grant}`)).status).toBe(
      200,
    );
    expect((await reader.api.get(`/database/Private/${revoked.id}`)).status).toBe(404);
    for (const { id } of [revoked, kept])
      expect((await owner.api.delete(`/database/Private/${id}`)).status).toBe(200);
    await waitFor(() => heard.length >= 2);
    expect(heard).toEqual([`403:${revoked.id}`, `delete:${kept.id}`]);
  });

  it('are told to the owner until the end', async () => {
    const { id } = await shared();
    const { heard, ask } = await listener(owner);
    await ask({ schema: 'Private', documentId: id });
    await owner.api.patch(`/database/Private/${id}`, { title: 'changed' });
    await waitFor(() => heard.length === 1);
    await owner.api.delete(`/database/Private/${id}`);
    await waitFor(() => heard.length === 2);
    expect(heard).toEqual([`update:${id}`, `delete:${id}`]);
  });

  const schemasOf = async (owners: object): Promise<readonly string[]> => {
    const author = { type: 'Relation', model: 'User', onDelete: 'cascade' } as const;
    const post = { type: 'Relation', model: 'Loud', onDelete: 'cascade' } as const;
    const authorization = { enabled: true };
    const options = {
      Own: { owner: owners },
      OwnTrash: { owner: owners, softDelete: {} },
      Both: { owner: owners, authorization },
      Either: { owner: { ...owners, combine: 'or' }, authorization },
    };
    for (const [name, some] of Object.entries(options))
      await platform.createSchema({
        name,
        fields: { author, post },
        conduitOptions: some as PlatformOptions,
      });
    return Object.keys(options);
  };

  it('end of records is told to their owner alone where none else reads, and to whom permissions name', async () => {
    const names = await schemasOf({ field: 'author', limit: ['read', 'update', 'delete'] });
    const [own, others] = [await listener(owner), await listener(reader)];
    const asked = [...names, 'Loud'].flatMap((schema) => [
      own.ask({ schema }),
      others.ask({ schema }),
    ]);
    expect((await Promise.all(asked)).filter(({ ok }) => !ok)).toEqual([]);
    const newOne = async (schema: string, body: object = {}): Promise<string> =>
      (await owner.api.post(`/database/${schema}`, body)).body._id;
    const parent = await newOne('Loud');
    const along = await newOne('Own', { post: parent });
    const gone: Record<string, string> = {};
    for (const schema of names) gone[schema] = await newOne(schema);
    for (const schema of ['Both', 'Either'])
      await platform.admin.post('/authorization/relations', {
        subject: `User:${reader.userId}`,
        relation: 'reader',
        resource: `${schema}:${gone[schema]}`,
      });
    for (const [schema, id] of [...Object.entries(gone), ['Loud', parent]])
      expect((await owner.api.delete(`/database/${schema}/${id}`)).status).toBe(200);
    const ends = async ({ heard }: { readonly heard: readonly string[] }): Promise<string[]> => {
      await waitFor(() => heard.includes(`delete:${parent}`));
      return heard.filter((one) => one.startsWith('delete:')).sort();
    };
    const ended = (...ids: readonly unknown[]): string[] => ids.map((id) => `delete:${id}`).sort();
    expect(await ends(own)).toEqual(ended(...Object.values(gone), along, parent));
    expect(await ends(others)).toEqual(ended(gone.Either, parent));
  });

  it('end of records destroyed at once is told by all that went with them, and to nobody whom a rule may have kept away', async () => {
    const authorization = { enabled: true };
    const book = { type: 'Relation', model: 'Book', onDelete: 'cascade' } as const;
    const fields = {
      Veiled: { hidden: 'Boolean' },
      Book: { title: 'String' },
      Page: { book },
    } as const;
    for (const [name, own] of Object.entries(fields))
      await platform.createSchema({ name, fields: own, conduitOptions: { authorization } });
    const { define, relate } = permissionsApi(platform.admin);
    const [version, relations] = [9, { owner: ['User'], reader: ['User'] }];
    const permissions = { read: ['owner', 'reader'], edit: ['owner'], delete: ['owner'] };
    const veil = { base: permissions.read, subtract: [{ rule: 'record.hidden == true' }] };
    const veiled = { ...permissions, read: { exclusion: veil } };
    await define({ name: 'Veiled', version, relations, permissions: veiled });
    await define({ name: 'Book', version, relations, permissions });
    await define({
      ...{ name: 'Page', version, relations: { ...relations, book: { from: 'book' } } },
      permissions: { ...permissions, read: ['owner', 'book->read'] },
    });
    const [own, theirs] = [await listener(owner), await listener(reader)];
    for (const schema of [...Object.keys(fields), 'Loud'])
      for (const { ask } of [own, theirs])
        expect(await ask({ schema })).toMatchObject({ ok: true });
    const newOne = async (schema: string, body: object = {}): Promise<string> =>
      (await owner.api.post(`/database/${schema}`, body)).body._id;
    const hidden = await newOne('Veiled', { hidden: true });
    const [granted, shared, fence] = [
      await newOne('Book'),
      await newOne('Book'),
      await newOne('Loud'),
    ];
    const page = await newOne('Page', { book: shared });
    await relate(`User:${reader.userId} reader Veiled:${hidden}`);
    await relate(`User:${reader.userId} reader Book:${shared}`);
    const grant = { subject: `User:${reader.userId}`, permission: 'read' };
    const path = '/authorization/permissions';
    const given = await platform.admin.post(path, { ...grant, resource: `Book:${granted}` });
    expect(given.status).toBe(200);
    const gone = { Veiled: hidden, Book: granted };
    for (const [schema, id] of [...Object.entries(gone), ['Book', shared], ['Loud', fence]])
      expect((await owner.api.delete(`/database/${schema}/${id}`)).status).toBe(200);
    await waitFor(() => [own, theirs].every(({ heard }) => heard.includes(`delete:${fence}`)));
    const ends = (heard: readonly string[]) => heard.filter((one) => !/^insert|^update/.test(one));
    const all = [granted, shared, page, fence].map((id) => `delete:${id}`).sort();
    expect([...ends(theirs.heard)].sort()).toEqual(all);
    // Nor is it told to the owner: what the rule said of it is not known any more.
    expect([...ends(own.heard)].sort()).toEqual(all);
  });

  it('channels of editors are for who may change the record, while it is there', async () => {
    await platform.createSchema({
      name: 'Desk',
      fields: { author: { type: 'Relation', model: 'User' } },
      conduitOptions: {
        authorization: { enabled: true },
        softDelete: {},
        owner: { field: 'author', limit: ['update'] },
      },
    });
    const desks = { pattern: 'desk:{id}', join: 'editors', send: 'editors', schema: 'Desk' };
    const config = { channels: [desks] };
    expect((await platform.admin.patch('/config/router', { config })).status).toBe(200);
    const { _id: id } = (await owner.api.post('/database/Desk', {})).body;
    await platform.admin.post('/authorization/relations', {
      subject: `User:${reader.userId}`,
      relation: 'editor',
      resource: `Desk:${id}`,
    });
    const ended: string[] = [];
    const member = async ({ accessToken }: TestUser): Promise<() => Promise<Json>> => {
      const socket = io(`${platform.addresses.realtime}/channels/`, {
        path: '/realtime',
        transports: ['websocket'],
        forceNew: true,
        auth: { token: accessToken },
      });
      sockets.push(socket);
      socket.on('ended', ({ channel }: Json) => ended.push(channel));
      await waitFor(() => socket.connected);
      return () => socket.timeout(20_000).emitWithAck('join', { channel: `desk:${id}` });
    };
    const refused = { ok: false, error: { code: 'CHANNEL_FORBIDDEN' } };
    const [join, joinOther] = [await member(owner), await member(reader)];
    expect((await reader.api.patch(`/database/Desk/${id}`, {})).status).toBe(403);
    expect(await joinOther()).toMatchObject(refused);
    expect(await join()).toMatchObject({ ok: true });
    expect((await owner.api.delete(`/database/Desk/${id}`)).status).toBe(200);
    await waitFor(() => ended.length === 1);
    expect(await join()).toMatchObject(refused);
  });

  it('are not offered by a schema that says so', async () => {
    const { heard, ask } = await listener(reader);
    expect(await ask({ schema: 'Silent' })).toMatchObject({ ok: false, error: { status: 404 } });
    expect(await ask({ schema: 'Loud' })).toMatchObject({ ok: true });
    const found = (await platform.admin.get('/database/schemas?search=Loud')).body.schemas.find(
      ({ name }: Json) => name === 'Loud',
    );
    const switched = await platform.admin.patch(`/database/schemas/${found._id}`, {
      conduitOptions: { realtime: { enabled: false } },
    });
    expect(switched.status).toBe(200);
    await waitFor(() => heard.length === 1);
    await owner.api.post('/database/Loud', { title: 'unheard' });
    expect(await ask({ schema: 'Loud' })).toMatchObject({ ok: false, error: { status: 404 } });
    expect(heard).toEqual(['404:Loud']);
  });
});
