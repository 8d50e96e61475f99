/** Rules over fields of records in permissions: every way to records answers alike (decisions 065, 066). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

describe('rules about records', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let ada: TestUser;
  let bob: TestUser;
  const ids: Record<string, string> = {};
  const authorization = { authorization: { enabled: true } };
  const fields = {
    title: 'String',
    status: 'String',
    author: { type: 'Relation', model: 'User' },
    tags: ['String'],
    publishAt: 'Date',
    parts: [{ name: 'String' }],
  } as const;
  const rule =
    "record.status == 'published' || record.author == caller.id || (record.status == 'planned' && record.publishAt <= now)";

  const permissionsOf = async (name: string): Promise<Json> =>
    (await platform.admin.get(`/authorization/resources/${name}`)).body;
  const change = async (name: string, action: string, value: unknown) => {
    const { relations, permissions: actions, conditions } = await permissionsOf(name);
    return platform.admin.patch(`/authorization/resources/${name}`, {
      relations,
      conditions,
      permissions: { ...actions, [action]: value },
    });
  };
  const set = async (id: string | undefined, changedDocument: object) =>
    expectStatus(
      await platform.admin.put(`/database/schemas/Post/docs/${id}`, { changedDocument }),
      200,
      'change',
    );
  const titles = async (who: TestUser, query: Record<string, string | number> = {}) => {
    const { body } = expectStatus(await who.api.get('/database/Post', { query }), 200, 'list');
    return { titles: body.documents.map(({ title }: Json) => title).sort(), count: body.count };
  };

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [ada, bob] = [await platform.registerUser(), await platform.registerUser()];
    await platform.createSchema({ name: 'Post', fields, conduitOptions: authorization });
    const { permissions: actions } = await permissionsOf('Post');
    expectStatus(await change('Post', 'read', [...actions.read, { rule }]), 200, 'define');
    const posts = [
      { title: 'draft of ada', status: 'draft', author: ada.userId },
      { title: 'published', status: 'published', author: ada.userId },
      { title: 'nobody', status: 'draft' },
      { title: 'planned', status: 'planned', publishAt: '2020-01-01T00:00:00Z' },
      { title: 'later', status: 'planned', publishAt: '2999-01-01T00:00:00Z' },
      { title: 'shared', status: 'draft', tags: ['a'] },
    ];
    for (const post of posts) {
      const { body } = expectStatus(
        await platform.admin.post('/database/schemas/Post/docs', { inputDocument: post }),
        200,
        'create',
      );
      ids[post.title] = body._id;
    }
    await permissions.relate(`User:${bob.userId} reader Post:${ids.shared}`);
  });
  afterAll(() => platform.close());

  it('decide lists, counts, single reads and checks alike', async () => {
    const expected = {
      ada: ['draft of ada', 'planned', 'published'],
      bob: ['planned', 'published', 'shared'],
    };
    for (const [who, allowed] of [
      [ada, expected.ada],
      [bob, expected.bob],
    ] as const) {
      expect(await titles(who)).toEqual({ titles: allowed, count: 3 });
      expect((await titles(who, { sort: '-createdAt', limit: 2 })).count).toBe(3);
      for (const [title, id] of Object.entries(ids)) {
        const isAllowed = allowed.includes(title);
        expect([title, (await who.api.get(`/database/Post/${id}`)).status]).toEqual([
          title,
          isAllowed ? 200 : 404,
        ]);
        expect([title, await permissions.can(`User:${who.userId} read Post:${id}`)]).toEqual([
          title,
          isAllowed,
        ]);
      }
      const listed = await permissions.list(`User:${who.userId} read Post`);
      expect(listed.sort()).toEqual(allowed.map((title) => `Post:${ids[title]}`).sort());
    }
  });

  it('hold for the very next question when a field changes', async () => {
    const id = ids.nobody;
    expect((await bob.api.get(`/database/Post/${id}`)).status).toBe(404);
    await set(id, { author: bob.userId });
    expect((await bob.api.get(`/database/Post/${id}`)).status).toBe(200);
    expect(await permissions.can(`User:${bob.userId} read Post:${id}`)).toBe(true);
    await set(id, { author: ada.userId });
    expect((await bob.api.get(`/database/Post/${id}`)).status).toBe(404);
    await set(id, { author: null });
  });

  it('are kept by who asks, and asked anew where the time counts, or the schema has changed', async () => {
    const name = 'Kept';
    const author = { type: 'Relation', model: 'User' } as const;
    const kept = { title: 'String', author, at: 'Date' } as const;
    await platform.createSchema({
      name,
      fields: kept,
      conduitOptions: authorization,
    });
    const create = async (inputDocument: object): Promise<void> => {
      const path = `/database/schemas/${name}/docs`;
      expectStatus(await platform.admin.post(path, { inputDocument }), 200, 'create');
    };
    const seen = async (who: TestUser): Promise<string[]> => {
      const { body } = expectStatus(await who.api.get(`/database/${name}`), 200, 'list');
      return body.documents.map(({ title }: Json) => title).sort();
    };
    const { permissions: actions } = await permissionsOf(name);
    const read = [...actions.read, { rule: 'record.author == caller.id' }];
    expectStatus(await change(name, 'read', read), 200, 'define');
    await create({ title: 'of ada', author: ada.userId });
    await create({ title: 'of bob', author: bob.userId, at: new Date(Date.now() + 1_500) });
    for (let round = 0; round < 3; round += 1)
      expect([await seen(ada), await seen(bob)]).toEqual([['of ada'], ['of bob']]);
    const { _id } = (await platform.admin.get('/database/schemas', { query: { search: name } }))
      .body.schemas[0];
    const changed = { fields: { ...kept, more: 'String' } };
    expectStatus(await platform.admin.patch(`/database/schemas/${_id}`, changed), 200, 'schema');
    for (let round = 0; round < 2; round += 1)
      expect([await seen(ada), await seen(bob)]).toEqual([['of ada'], ['of bob']]);
    expectStatus(await change(name, 'read', [{ rule: 'record.at <= now' }]), 200, 'define');
    expect(await seen(ada)).toEqual([]);
    await waitFor(async () => (await seen(ada)).includes('of bob'));
  });

  it('say who may: by the fields that are compared with the caller', async () => {
    const who = async (title: string) =>
      (await permissions.who(`read Post:${ids[title]}`)).filter((one) => !one.startsWith('User:*'));
    expect(await who('draft of ada')).toEqual([`User:${ada.userId}`]);
    expect(await who('shared')).toEqual([`User:${bob.userId}`]);
    expect(await permissions.who(`read Post:${ids.published}`)).toContain('User:*');
    expect(await permissions.who(`read Post:${ids.nobody}`)).toEqual([]);
  });

  it('are told by explain', async () => {
    const explain = async (title: string) => {
      const query = {
        subject: `User:${bob.userId}`,
        permission: 'read',
        resource: `Post:${ids[title]}`,
      };
      return JSON.stringify(
        (await platform.admin.get('/authorization/permissions/evaluate', { query })).body,
      );
    };
    expect(await explain('published')).toContain('the record fits the rule');
    expect(await explain('draft of ada')).toContain('does not fit the rule');
  });

  it('count in exclusions and through arrows', async () => {
    await platform.createSchema({
      name: 'Remark',
      fields: { text: 'String' },
      conduitOptions: authorization,
    });
    const { relations, permissions: actions, conditions } = await permissionsOf('Remark');
    const body = {
      relations: { ...relations, post: ['Post'] },
      conditions,
      permissions: {
        ...actions,
        read: {
          exclusion: {
            base: ['post->read'],
            subtract: [{ rule: "record.text.contains('secret')" }],
          },
        },
      },
    };
    expectStatus(
      await platform.admin.patch('/authorization/resources/Remark', body),
      200,
      'define',
    );
    const made: Record<string, string> = {};
    for (const [text, post] of [
      ['open', 'published'],
      ['secret', 'published'],
      ['hidden', 'draft of ada'],
      [null, 'planned'],
    ] as const) {
      const { body: remark } = await platform.admin.post('/database/schemas/Remark/docs', {
        inputDocument: text === null ? {} : { text },
      });
      made[String(text)] = remark._id;
      await permissions.relate(`Post:${ids[post]} post Remark:${remark._id}`);
    }
    const listed = async (who: TestUser) =>
      (await who.api.get('/database/Remark')).body.documents.map(({ _id }: Json) => _id).sort();
    expect(await listed(bob)).toEqual([made.open, made.null].sort());
    expect(await listed(ada)).toEqual([made.open, made.hidden, made.null].sort());
    for (const [text, id] of Object.entries(made))
      expect([text, await permissions.can(`User:${bob.userId} read Remark:${id}`)]).toEqual([
        text,
        text === 'open' || text === 'null',
      ]);
  });

  it('are refused when they are declared, with the place', async () => {
    const refused = async (text: string, params?: object) => {
      const answer = await change('Post', 'read', [
        'owner',
        { rule: text, ...(params && { params }) },
      ]);
      expect(answer.status).toBe(400);
      return answer.body.errors[0];
    };
    expect(await refused('record.colour == "red"')).toMatchObject({
      path: 'permissions.read[1].rule',
      rule: 'field',
      message: 'line 1, column 7: "colour" is not a field that rules can use',
    });
    expect(await refused('record.status > 3')).toMatchObject({ rule: 'type' });
    expect(await refused('record.tags.map(t, t) == ["a"]')).toMatchObject({ rule: 'sql' });
    expect(await refused('record.status ==')).toMatchObject({ rule: 'syntax' });
    expect(await refused('a > 3', { a: 'whole' })).toMatchObject({
      path: 'permissions.read[1].params.a',
    });
    const { body } = await platform.admin.post('/authorization/resources', {
      name: 'Nowhere',
      relations: {},
      permissions: { read: [{ rule: 'record.a == 1' }] },
    });
    expect(body.errors[0]).toMatchObject({ rule: 'schema' });
  });

  it('keep their fields: a schema cannot lose one that a rule speaks of', async () => {
    const { body } = await platform.admin.get('/database/schemas', { query: { search: 'Post' } });
    const schema = body.schemas.find(({ name }: Json) => name === 'Post');
    const { publishAt: _, ...others } = fields;
    const dropped = await platform.admin.put(`/database/schemas/${schema._id}`, { fields: others });
    expect([dropped.status, dropped.body.message]).toEqual([
      409,
      expect.stringContaining('The resource definition Post has a rule about this field'),
    ]);
    const { parts: __, ...rest } = fields;
    const unused = await platform.admin.put(`/database/schemas/${schema._id}`, { fields: rest });
    expect(unused.status).toBe(200);
    expect((await titles(ada)).count).toBe(3);
  });

  it('count in GraphQL, and for what populate shows', async () => {
    const { body } = await bob.api.post('/graphql', {
      query: '{ getDatabasePost(limit: 10) { documents { title } count } }',
    });
    expect(body.errors).toBeUndefined();
    expect(body.data.getDatabasePost.count).toBe(3);
    await platform.createSchema({
      name: 'Link',
      fields: { post: { type: 'Relation', model: 'Post' } },
    });
    for (const title of ['published', 'draft of ada', 'later'])
      await platform.admin.post('/database/schemas/Link/docs', {
        inputDocument: { post: ids[title] },
      });
    const titlesOf = async (who: TestUser): Promise<string[]> => {
      const links = await who.api.get('/database/Link', { query: { populate: 'post' } });
      return links.body.documents.flatMap(({ post }: Json) => post?.title ?? []).sort();
    };
    expect(await titlesOf(bob)).toEqual(['published']);
    expect(await titlesOf(ada)).toEqual(['draft of ada', 'published']);
  });

  it('know the roles that callers hold and the teams on which they stand', async () => {
    const fields = { title: 'String', team: 'String', roles: ['String'] } as const;
    await platform.createSchema({ name: 'Memo', fields, conduitOptions: authorization });
    const [editors, others] = [
      '01900000-0000-7000-8000-0000000000e1',
      '01900000-0000-7000-8000-0000000000e2',
    ];
    const text = 'record.team in caller.teams || record.roles.exists(r, r in caller.roles)';
    expectStatus(await change('Memo', 'read', ['owner', { rule: text }]), 200, 'define');
    const create = async (inputDocument: object): Promise<string> =>
      expectStatus(
        await platform.admin.post('/database/schemas/Memo/docs', { inputDocument }),
        200,
        'memo',
      ).body._id;
    const [ofTeam, ofRole, ofUsers, ofNobody] = [
      await create({ title: 'team', team: editors }),
      await create({ title: 'role', roles: ['auditor'] }),
      await create({ title: 'users', roles: ['user'] }),
      await create({ title: 'nobody', team: others, roles: ['other'] }),
    ];
    const seen = async (who: TestUser): Promise<string[]> => {
      const { body } = expectStatus(await who.api.get('/database/Memo'), 200, 'list');
      const ids = body.documents.map(({ _id }: Json) => _id).sort();
      expect(body.count).toBe(ids.length);
      // A list of records, single checks and a list of resources are one answer.
      const checked: string[] = [];
      for (const id of [ofTeam, ofRole, ofUsers, ofNobody]) {
        if (await permissions.can(`User:${who.userId} read Memo:${id}`)) checked.push(id);
        expect((await who.api.get(`/database/Memo/${id}`)).status).toBe(
          ids.includes(id) ? 200 : 404,
        );
      }
      expect(checked.sort()).toEqual(ids);
      const listed = await permissions.list(`User:${who.userId} read Memo`);
      expect(listed).toEqual(ids.map((id: string) => `Memo:${id}`));
      return ids;
    };
    expect(await seen(bob)).toEqual([ofUsers]);
    await permissions.relate(`User:${bob.userId} member Team:${editors}`);
    expect(await seen(bob)).toEqual([ofTeam, ofUsers].sort());
    const role = await platform.admin.post('/authorization/roles', { name: 'auditor' });
    const assign = { role: expectStatus(role, 200, 'role').body.name };
    const path = `/authorization/users/${bob.userId}/roles`;
    expectStatus(await platform.admin.post(path, assign), 200, 'assign');
    expect(await seen(bob)).toEqual([ofTeam, ofRole, ofUsers].sort());
    expect(await seen(ada)).toEqual([ofUsers]);
    expectStatus(await platform.admin.delete(`${path}/${role.body._id}`), 200, 'take away');
    await permissions.unrelate(`User:${bob.userId} member Team:${editors}`);
    expect(await seen(bob)).toEqual([ofUsers]);
    const query = { permission: 'read', resource: `Memo:${ofTeam}` };
    const who = await platform.admin.get('/authorization/permissions/subjects', { query });
    expect(who.body).toMatchObject({ incomplete: true });
    // Of a set of people nobody can say which roles they hold.
    expect(await permissions.can(`Team:${editors}#member read Memo:${ofUsers}`)).toBe(false);
  });
});
