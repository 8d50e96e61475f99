/** Definitions, relations, direct permissions, questions, the changelog and verification, as operators use them. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

describe('the administration of permissions', () => {
  let platform: TestPlatform;
  let admin: Api;
  let permissions: PermissionsApi;
  const project = {
    name: 'Project',
    relations: { lead: ['User'], guest: ['User', 'User:*', 'Team#member', 'User with office'] },
    permissions: { read: ['guest', 'lead'], edit: ['lead'] },
    conditions: { office: { in: [{ context: 'address' }, { attribute: 'addresses' }] } },
  };
  const relation = (subject: string, word: string, resource: string, rest: object = {}) =>
    admin.post('/authorization/relations', { subject, relation: word, resource, ...rest });
  const outcome = async (path: string, body: object, method: 'post' | 'patch' = 'post') => {
    const answer = await admin[method](path, body);
    return answer.status === 200 ? answer.body.status : answer.status;
  };

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    admin = platform.admin;
    permissions = permissionsApi(admin);
    await permissions.define(project);
  });
  afterAll(() => platform.close());

  describe('definitions', () => {
    it('ask nothing of hidden fields whose records their author does not reach (541)', async () => {
      const hidden = { type: 'String', select: false } as const;
      const operators = { read: 'admin' } as const;
      await platform.createSchema({
        name: 'Vault',
        fields: {
          title: 'String',
          pin: hidden,
          note: { type: 'String', access: operators },
          inside: { deep: hidden, open: 'String' },
          heir: { type: 'Relation', model: 'User', access: operators },
        },
        conduitOptions: { authorization: { enabled: true } },
      } as Json);
      const narrowed = async (...scopes: string[]) => {
        const { body } = await admin.post('/api-tokens', { name: scopes.join(), scopes });
        return platform.adminAnonymous.with({ credential: body.token });
      };
      const [own, both] = [
        await narrowed('authorization'),
        await narrowed('authorization', 'database'),
      ];
      let version = 10;
      const define = async (api: Api, rules: readonly string[], relations: object = {}) => {
        version += 1;
        const read = ['owner', ...rules.map((rule) => ({ rule }))];
        const permissions = { read, edit: ['owner'], delete: ['owner'] };
        const definition = { name: 'Vault', version, permissions };
        const { status } = await api.post('/authorization/resources', {
          ...{ ...definition, relations: { owner: ['User'], ...relations } },
        });
        return status;
      };
      const [pin, title] = ["record.pin.startsWith('1')", "record.title == 'open'"];
      for (const rule of [pin, "record.note == 'a'", "record.inside.deep == 'a'"])
        expect([rule, await define(own, [title, rule])]).toEqual([rule, 403]);
      expect(await define(own, [], { heir: { from: 'heir' } })).toBe(403);
      expect(await define(own, [title, "record.inside.open == 'a'"])).toBe(200);
      expect(await define(both, [pin], { heir: { from: 'heir' } })).toBe(200);
      // What is in force may stay.
      expect(await define(own, [title, pin], { heir: { from: 'heir' } })).toBe(200);
      const permissions = { read: ['owner', { rule: "record.pin == '2'" }], edit: ['owner'] };
      const changed = {
        name: 'Vault',
        relations: { owner: ['User'] },
        permissions: { ...permissions, delete: ['owner'] },
      };
      const many = { definitions: [changed] };
      const together = await own.post('/authorization/resources/many', many);
      expect(together).toMatchObject({ status: 403, body: { code: 'SCOPE_EXCEEDED' } });
    });

    it('follow their versions', async () => {
      const define = (version: number | undefined, read: string[]) =>
        outcome('/authorization/resources', {
          name: 'Versioned',
          relations: { a: ['User'] },
          permissions: { read },
          version,
        });
      expect(await define(2, ['a'])).toBe('processed');
      expect(await define(2, ['a'])).toBe('acknowledged');
      expect(await define(2, [])).toBe(409);
      expect(await define(1, [])).toBe('ignored');
      expect(await define(undefined, [])).toBe('ignored');
      const other = { name: 'Versioned', relations: {}, permissions: {} };
      const { body: ignored } = await admin.post('/authorization/resources', other);
      expect(ignored.message).toContain('send "version": 3, or PATCH');
      const { relations, permissions: stored } = ignored.resourceDefinition;
      const same = { name: 'Versioned', relations, permissions: stored };
      const again = await admin.post('/authorization/resources', same);
      expect(again.body).not.toHaveProperty('message');
      expect(await define(3, [])).toBe('processed');
      const path = '/authorization/resources/Versioned';
      const patch = { relations: { a: ['User'] }, permissions: { read: ['a'] } };
      expect(await outcome(path, patch, 'patch')).toBe('processed');
      expect(await outcome(path, patch, 'patch')).toBe('acknowledged');
      const { body } = await admin.get(path);
      expect(body).toMatchObject({ name: 'Versioned', version: 4, ...patch });
      expect((await admin.get(`/authorization/resources/${body._id}`)).body).toEqual(body);
      const { versions } = (await admin.get(`${path}/versions`)).body;
      expect(versions.map(({ definition }: Json) => definition.version)).toEqual([4, 3, 2]);
      expect((await admin.delete(path)).status).toBe(200);
      expect((await admin.get(path)).status).toBe(404);
      expect((await admin.get(`${path}/versions`)).body.versions[0].definition).toBeNull();
    });

    it.each([
      ['relations.a[0]', { relations: { a: ['Nobody'] }, permissions: {} }],
      ['relations.a', { relations: { a: 'User' }, permissions: {} }],
      ['relations.a[0]', { relations: { a: ['Team#nothing'] }, permissions: {} }],
      ['relations.a-b', { relations: { 'a-b': ['User'] }, permissions: {} }],
      ['permissions.read[0]', { relations: {}, permissions: { read: ['misspelt'] } }],
      [
        'permissions.read[1]',
        { relations: { a: ['User'] }, permissions: { read: ['a', 'b->read'] } },
      ],
      [
        'permissions.read[1]',
        { relations: { a: ['User'] }, permissions: { read: ['a', 'a->fly'] } },
      ],
      ['permissions.read', { relations: { a: ['User'] }, permissions: { read: 'a' } }],
      ['permissions.read', { relations: {}, permissions: { read: ['write'], write: ['read'] } }],
      ['actAs', { relations: {}, permissions: {}, actAs: 'nothing' }],
    ])('are refused with the place: %s', async (path, definition) => {
      const { status, body } = await admin.post('/authorization/resources', {
        name: 'Wrong',
        ...definition,
      });
      expect(status).toBe(400);
      expect(body.errors[0].path).toBe(path);
    });

    it('keep what is in use, with examples, unless forced', async () => {
      await permissions.define({
        name: 'Safe',
        relations: { a: ['User'], b: ['User'] },
        permissions: { read: ['a', 'b'] },
      });
      await permissions.define({
        name: 'Outer',
        relations: { in: ['Safe'] },
        permissions: { read: ['in', 'in->read'] },
      });
      await permissions.relate('User:x b Safe:1', 'User:y b Safe:2');
      const path = '/authorization/resources/Safe';
      const without = { relations: { a: ['User'] }, permissions: { read: ['a'] } };
      const refused = await admin.patch(path, without);
      expect([refused.status, refused.body.code]).toEqual([409, 'RESOURCE_IN_USE']);
      expect(refused.body.message).toContain('User:x#b@Safe:1');
      const needed = await admin.patch(path, {
        relations: { a: ['User'], b: ['User'] },
        permissions: {},
      });
      expect([needed.status, needed.body.errors[0].path]).toEqual([
        409,
        'Outer.permissions.read[1]',
      ]);
      const forced = await admin.patch(path, without, { query: { force: true } });
      expect([forced.status, forced.body.removedRelations]).toEqual([200, 2]);
      expect((await admin.delete(path)).status).toBe(409);
      expect((await admin.delete(path, { query: { force: true } })).status).toBe(200);
      await admin.delete('/authorization/resources/Outer', { query: { force: true } });
      expect((await admin.delete('/authorization/resources/User')).status).toBe(409);
    });

    it('take effect with the answer', async () => {
      await permissions.define({
        name: 'Quick',
        relations: { a: ['User'], b: ['User'] },
        permissions: { read: ['a'] },
      });
      await permissions.relate('User:x b Quick:1');
      const relations = { a: ['User'], b: ['User'] };
      for (const [read, allowed] of [
        [['a', 'b'], true],
        [['a'], false],
        [['b'], true],
      ] as const) {
        expectStatus(
          await admin.patch('/authorization/resources/Quick', { relations, permissions: { read } }),
          200,
          'patch',
        );
        expect(await permissions.can('User:x read Quick:1')).toBe(allowed);
      }
    });
  });

  describe('relations', () => {
    it('are one row, however many write them at once', async () => {
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => relation('User:par', 'lead', 'Project:par')),
      );
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
      expect(new Set(answers.map(({ body }) => body._id)).size).toBe(1);
      expect(
        (await admin.get('/authorization/relations', { query: { subject: 'User:par' } })).body
          .count,
      ).toBe(1);
    });

    it('are written all or not at all', async () => {
      const many = (resources: string[]) =>
        admin.post('/authorization/relations/many', {
          subject: 'User:bulk',
          relation: 'lead',
          resources,
        });
      const refused = await many(['Project:1', 'Project:2', 'Ghost:3']);
      expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'resources.2']);
      expect((await many(Array.from({ length: 10_000 }, (_, i) => `Project:${i}`))).status).toBe(
        400,
      );
      expect((await many([])).status).toBe(400);
      expect(
        (await admin.get('/authorization/relations', { query: { subject: 'User:bulk' } })).body
          .count,
      ).toBe(0);
      expect(
        (await many(['Project:1', 'Project:1', 'Project:2'])).body.map(
          ({ resource }: Json) => resource,
        ),
      ).toEqual(['Project:1', 'Project:1', 'Project:2']);
    });

    it('are found, read and deleted', async () => {
      const [one] = await permissions.relate(
        'User:find_me lead Project:100%',
        'User:findXme lead Project:100x',
      );
      const search = async (text: string) =>
        (await admin.get('/authorization/relations', { query: { search: text } })).body.count;
      expect(await search('find_me')).toBe(1);
      expect(await search('100%')).toBe(1);
      expect(await search('FIND')).toBe(2);
      expect(await search('.*')).toBe(0);
      const path = `/authorization/relations/${one?._id}`;
      expect((await admin.get(path)).body).toEqual(one);
      expect((await admin.delete(path)).body).toEqual({ result: 'Relation deleted' });
      expect((await admin.get(path)).status).toBe(404);
      expect((await admin.delete(path)).status).toBe(404);
      expect(
        (await admin.delete('/authorization/relations', { query: { relation: 'lead' } })).status,
      ).toBe(400);
      const sorted = (
        await admin.get('/authorization/relations', { query: { sort: '-createdAt', limit: 2 } })
      ).body.relations;
      expect(sorted[0].createdAt >= sorted[1].createdAt).toBe(true);
    });

    it('expire, and are as the last write says', async () => {
      const past = new Date(Date.now() - 1000).toISOString();
      const future = new Date(Date.now() + 3_600_000).toISOString();
      const first = (await relation('User:temp', 'lead', 'Project:temp', { expiresAt: past })).body;
      expect(first.expiresAt).toBe(past);
      expect(await permissions.can('User:temp edit Project:temp')).toBe(false);
      const second = (await relation('User:temp', 'lead', 'Project:temp', { expiresAt: future }))
        .body;
      expect([second._id, second.expiresAt]).toEqual([first._id, future]);
      expect(await permissions.can('User:temp edit Project:temp')).toBe(true);
      expect((await relation('User:temp', 'lead', 'Project:temp')).body).not.toHaveProperty(
        'expiresAt',
      );
      expect(
        (await relation('User:temp', 'lead', 'Project:temp', { expiresAt: 'tomorrow' })).status,
      ).toBe(400);
    });

    it('name everybody, sets and conditions', async () => {
      await permissions.relate(
        'User:* guest Project:open',
        'Team:t#member guest Project:team',
        'User:m member Team:t',
      );
      expect(await permissions.can('User:anyone read Project:open')).toBe(true);
      expect(await permissions.can('User:m read Project:team')).toBe(true);
      expect(await permissions.can('User:n read Project:team')).toBe(false);
      const attributes = { addresses: ['10.0.0.1'] };
      expectStatus(
        await relation('User:o', 'guest', 'Project:office', { condition: 'office', attributes }),
        200,
        'conditional',
      );
      const question = { subject: 'User:o', permission: 'read', resource: 'Project:office' };
      const ask = async (context?: object) =>
        admin.post('/authorization/permissions/can', { ...question, ...(context && { context }) });
      expect((await ask({ address: '10.0.0.1' })).body).toEqual({ allowed: true });
      expect((await ask({ address: '10.0.0.2' })).body).toEqual({ allowed: false });
      const open = await ask();
      expect([open.status, open.body.code, open.body.errors[0].path]).toEqual([
        400,
        'CONTEXT_MISSING',
        'context.address',
      ]);
    });

    it('go with an Idempotency-Key, and answer a consistency token that questions take', async () => {
      const headers = { 'idempotency-key': randomUUID() };
      const body = { subject: 'User:idem', relation: 'lead', resource: 'Project:idem' };
      const [first, second] = [
        await admin.post('/authorization/relations', body, { headers }),
        await admin.post('/authorization/relations', body, { headers }),
      ];
      expect(second.body).toEqual(first.body);
      const token = first.headers.get('consistency-token') ?? '';
      const query = { subject: 'User:idem', permission: 'edit', resource: 'Project:idem' };
      const ask = (consistencyToken: string) =>
        admin.get('/authorization/permissions/can', { query: { ...query, consistencyToken } });
      expect((await ask(token)).body).toEqual({ allowed: true });
      expect((await ask(`${token}x`)).status).toBe(400);
      expect((await ask('made.up')).status).toBe(400);
    });

    it('of definitions, roles and rules answer such a token as well', async () => {
      const name = `Token${randomUUID().slice(0, 8)}`;
      const answers = [
        await admin.post('/authorization/resources', { name, relations: {}, permissions: {} }),
        await admin.post('/authorization/roles', { name, permissions: [] }),
        await admin.post('/authorization/rules', { resource: name, action: 'read', role: name }),
      ];
      for (const { status, headers, body } of answers) {
        expect([status, body.code]).toEqual([200, undefined]);
        const query = {
          subject: 'User:x',
          permission: 'edit',
          resource: 'Project:x',
          consistencyToken: headers.get('consistency-token') ?? '',
        };
        expect(query.consistencyToken).not.toBe('');
        expect((await admin.get('/authorization/permissions/can', { query })).status).toBe(200);
      }
    });
  });

  it('grants single actions directly', async () => {
    const grant = { subject: 'User:granted', permission: 'edit', resource: 'Project:g' };
    const { body } = expectStatus(
      await admin.post('/authorization/permissions', grant),
      200,
      'grant',
    );
    expect(body).toMatchObject({ ...grant, computedTuple: 'User:granted#edit@Project:g' });
    expect(await permissions.can('User:granted edit Project:g')).toBe(true);
    expect(await permissions.can('User:granted read Project:g')).toBe(false);
    expect(
      (await admin.get('/authorization/permissions', { query: { subject: 'User:granted' } })).body
        .count,
    ).toBe(1);
    expect(
      (await admin.get('/authorization/relations', { query: { subject: 'User:granted' } })).body
        .count,
    ).toBe(0);
    expect(
      (await admin.post('/authorization/permissions', { ...grant, permission: 'fly' })).status,
    ).toBe(400);
    expect((await admin.delete('/authorization/permissions', { query: grant })).status).toBe(200);
    expect((await admin.delete('/authorization/permissions', { query: grant })).status).toBe(404);
    expect(await permissions.can('User:granted edit Project:g')).toBe(false);
  });

  describe('questions', () => {
    it('can be many, with relations that count for them only', async () => {
      await permissions.relate('User:q lead Project:q');
      const ask = (checks: object[], contextualTuples: object[] = []) =>
        admin.post('/authorization/permissions/check', { checks, contextualTuples });
      const checks = ['q', 'r'].map((id) => ({
        subject: `User:${id}`,
        permission: 'read',
        resource: 'Project:q',
      }));
      expect((await ask(checks)).body.results).toEqual([{ allowed: true }, { allowed: false }]);
      const guest = { subject: 'User:r', relation: 'guest', resource: 'Project:q' };
      expect((await ask(checks, [guest])).body.results).toEqual([
        { allowed: true },
        { allowed: true },
      ]);
      expect((await ask(checks)).body.results[1]).toEqual({ allowed: false });
      const wrong = await ask(checks, [guest, { ...guest, relation: 'boss' }]);
      expect([wrong.status, wrong.body.errors[0].path]).toEqual([
        400,
        'contextualTuples.1.relation',
      ]);
      expect((await ask(Array.from({ length: 51 }, () => checks[0] ?? {}))).status).toBe(400);
      const bad = await ask([
        ...checks,
        { subject: 'User', permission: 'read', resource: 'Project:q' },
      ]);
      expect(bad.body.errors[0].path).toBe('checks.2.subject');
    });

    it('explain themselves, also for "no"', async () => {
      await permissions.relate('Team:e#member guest Project:e', 'User:e member Team:e');
      const evaluate = async (subject: string, permission = 'read') =>
        (
          await admin.get('/authorization/permissions/evaluate', {
            query: { subject, permission, resource: 'Project:e' },
          })
        ).body;
      const yes = await evaluate('User:e');
      expect(yes).toMatchObject({ allowed: true, assigned: false });
      expect(yes.paths).toEqual(['Team:e#member#guest@Project:e', 'User:e#member@Team:e']);
      const no = await evaluate('User:f');
      expect(no.allowed).toBe(false);
      expect(JSON.stringify(no.reason)).toContain('does not stand in');
      expect(await evaluate('Project:e')).toMatchObject({
        allowed: true,
        assigned: true,
        paths: [],
      });
    });

    it('find who may', async () => {
      await permissions.relate(
        'User:w1 lead Project:who',
        'Team:who#member guest Project:who',
        'User:w2 member Team:who',
      );
      expect(await permissions.who('read Project:who')).toEqual(['User:w1', 'User:w2']);
      expect(await permissions.who('edit Project:who')).toEqual(['User:w1']);
    });

    it('refuse forged cursors', async () => {
      const query = {
        subject: 'User:a',
        permission: 'read',
        resourceType: 'Project',
        cursor: 'Zm9yZ2Vk',
      };
      expect((await admin.get('/authorization/permissions/resources', { query })).status).toBe(400);
    });
  });

  it('keeps a changelog that can be watched', async () => {
    const position = async (): Promise<number> =>
      (await admin.get('/authorization/changes')).body.next;
    let next = -1;
    // What was written before may still be on its way.
    await waitFor(async () => {
      const before = next;
      next = await position();
      return before === next;
    });
    await permissions.relate('User:log lead Project:log');
    await admin.post('/authorization/permissions', {
      subject: 'User:log',
      permission: 'read',
      resource: 'Project:log',
    });
    await permissions.unrelate('User:log lead Project:log');
    const watch = async () =>
      (await admin.get('/authorization/changes', { query: { after: next } })).body.changes;
    await waitFor(async () => (await watch()).length >= 3);
    const changes = await watch();
    expect(changes.map(({ topic }: Json) => topic)).toEqual([
      'authorization:create:relation',
      'authorization:create:permission',
      'authorization:delete:relation',
    ]);
    expect(changes[0].payload).toMatchObject({
      subject: 'User:log',
      relation: 'lead',
      resource: 'Project:log',
    });
    const page = (await admin.get('/authorization/changes', { query: { after: next, limit: 1 } }))
      .body;
    expect(page).toMatchObject({ changes: [changes[0]], more: true, next: changes[0].sequence });
    expect((await admin.get('/authorization/changes', { query: { after: 1e12 } })).status).toBe(
      409,
    );
  });

  it('tells who owns new records, in the event that is about the records', async () => {
    await platform.createSchema({
      name: 'Told',
      fields: { text: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    const user = await platform.registerUser();
    const after = (await admin.get('/authorization/changes')).body.next;
    const { _id } = expectStatus(
      await user.api.post('/database/Told', { text: 'one' }),
      200,
      'create',
    ).body;
    const docs = Array.from({ length: 3 }, (_, i) => ({ text: String(i) }));
    const { docs: many } = expectStatus(
      await user.api.post('/database/Told/many', { docs }),
      200,
      'create many',
    ).body;
    const ids: string[] = [_id, ...many.map((record: Json) => record._id)];
    const told = async (limit: number) =>
      (await admin.get('/authorization/changes', { query: { after, limit } })).body;
    const about = ({ payload }: Json) => String(payload.resource).startsWith('Told:');
    await waitFor(async () => (await told(1000)).changes.filter(about).length >= 4);
    const changes: Json[] = (await told(1000)).changes.filter(about);
    expect(changes).toMatchObject(
      ids.map((id) => ({
        topic: 'authorization:create:relation',
        ids: [id],
        payload: {
          ...{ subject: `User:${user.userId}`, relation: 'owner', resource: `Told:${id}` },
          source: 'record',
        },
      })),
    );
    // One event for a call: what it did is not divided over pages, and none of it is left out between them.
    expect(new Set(changes.map(({ sequence }) => sequence)).size).toBe(2);
    const second = await admin.get('/authorization/changes', {
      query: { after: changes[0]!.sequence, limit: 1 },
    });
    expect(second.body.changes.filter(about)).toHaveLength(3);
    const database = new pg.Client(platform.databaseUrl);
    await database.connect();
    const rows = await database.query(
      `select topic, cardinality(ids) as count from penstock.outbox where ids && $1::text[] order by seq`,
      [ids],
    );
    await database.end();
    expect(rows.rows).toEqual([1, 3].map((count) => ({ topic: 'database:create:Told', count })));
  });

  it('verifies in the background, and is right all the time', async () => {
    await permissions.relate('User:v lead Project:v');
    await admin.post('/authorization/relations', {
      subject: `User:${randomUUID()}`,
      relation: 'lead',
      resource: 'Project:orphan',
    });
    for (const body of [{}, { soft: true }, undefined]) {
      expect((await admin.post('/authorization/indexer/reconstruct', body)).body).toEqual({
        result: 'ok',
      });
      for (let i = 0; i < 10; i += 1) {
        expect(await permissions.can('User:v edit Project:v')).toBe(true);
        expect(await permissions.can('User:nobody edit Project:v')).toBe(false);
      }
    }
    const runs = async (): Promise<Json[]> =>
      (await admin.get('/authorization/indexer/status')).body.runs;
    await waitFor(async () => (await runs()).every(({ state }) => state === 'done'));
    const hard = (await runs()).find(({ soft }) => !soft);
    expect(hard).toMatchObject({ invalid: 0, checked: hard.total });
    expect(hard.orphaned).toBeGreaterThan(0);
    const { orphans } = (await admin.get('/authorization/orphans')).body;
    expect(orphans.map(({ tuple }: Json) => tuple)).toContainEqual(
      expect.stringContaining('#lead@Project:orphan'),
    );
  });
});
