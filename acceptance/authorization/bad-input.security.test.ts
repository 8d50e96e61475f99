/**
 * Models, relations and questions that are made to cost, to lock out or to let in: a typed refusal or a right answer, and
 * never a time-out (CWE-400, CWE-674, CWE-770; API4:2023).
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Api, Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

const MANY = 100_000;

describe('hostile models, relations and questions', () => {
  let platform: TestPlatform;
  let admin: Api;
  let permissions: PermissionsApi;
  let database: pg.Client;
  let ada: TestUser;
  let bob: TestUser;

  beforeAll(async () => {
    platform = await createTestPlatform();
    ({ admin } = platform);
    await liftLimits(admin);
    permissions = permissionsApi(admin);
    ada = await platform.registerUser();
    bob = await platform.registerUser();
    database = new pg.Client({ connectionString: platform.databaseUrl });
    await database.connect();
  });
  afterAll(async () => {
    await database.end();
    await platform.close();
  });

  const define = (body: Json): Promise<Answer<Json>> =>
    admin.post('/authorization/resources', body);
  const problemOf = async (answer: Promise<Answer<Json>>): Promise<unknown> => {
    const { status, body } = await answer;
    return [status, body.errors?.[0]?.path ?? body.code];
  };
  /** A typed refusal or an answer. */
  const isAnswered = ({ status, body }: Answer<Json>): boolean =>
    status === 200 || (status >= 400 && status < 500 && typeof body.code === 'string');

  it('rules that have no type, or cost too much, are refused with their place', async () => {
    const rule = (text: string, params: object = {}) =>
      problemOf(
        define({
          name: 'Ruled',
          relations: { reader: ['User with c'] },
          permissions: { read: ['reader'] },
          conditions: { c: { params, rule: text } },
        }),
      );
    const place = (part = 'rule') => [400, `conditions.c.${part}`];
    expect(await rule('1 + "a" == 2')).toEqual(place());
    expect(await rule('unknown > 3')).toEqual(place());
    expect(await rule('a', { a: 'int' })).toEqual(place());
    expect(await rule('a.b.c == 1', { a: 'string' })).toEqual(place());
    expect(await rule('a == 1', { a: 'monster' })).toEqual(place('params.a'));
    expect(await rule(`${'('.repeat(200)}true${')'.repeat(200)}`)).toEqual(place());
    expect(await rule(Array.from({ length: 1_000 }, () => 'true').join('&&'))).toEqual(place());
    const within = 'l.all(a, l.all(b, l.all(c, a == b && b == c)))';
    expect(await rule(within, { l: 'list<int>' })).toEqual(place());
    expect(await rule('a.matches("(x+)+$")'.padEnd(5_000), { a: 'string' })).toEqual(place());
  });

  it('what a rule costs when it is asked is bounded as well', async () => {
    await permissions.define({
      name: 'Costly',
      relations: { reader: ['User with c'] },
      permissions: { read: ['reader'] },
      conditions: {
        c: {
          params: { l: 'list<int>' },
          rule: 'l.all(a, a in l && !(a + 1 in l)) && l.all(a, l.all(b, a == b))',
        },
      },
    });
    const written = await admin.post('/authorization/relations', {
      subject: 'User:x',
      relation: 'reader',
      resource: 'Costly:1',
      condition: 'c',
    });
    expectStatus(written, 200, 'relation');
    const question = { subject: 'User:x', permission: 'read', resource: 'Costly:1' };
    const ask = (length: number) =>
      admin.post('/authorization/permissions/check', {
        checks: [question],
        context: { l: Array.from({ length }, () => 1) },
      });
    expect((await ask(3)).body.results?.[0] ?? (await ask(3)).body).toMatchObject({
      allowed: true,
    });
    for (const length of [1_000, 20_000]) expect(isAnswered(await ask(length))).toBe(true);
  });

  it('cycles without a base answer no, at every size', async () => {
    await permissions.define({
      name: 'Loop',
      relations: { next: ['Loop'], holder: ['User'] },
      permissions: {
        a: ['b'],
        b: ['c'],
        c: ['next->a'],
        d: { exclusion: { base: ['holder', 'next->d'], subtract: ['a'] } },
      },
    });
    const steps = Array.from({ length: 30 }, (_, i) => `Loop:${i} next Loop:${(i + 1) % 30}`);
    await permissions.relate(...steps, 'Loop:0 next Loop:0', 'User:h holder Loop:7');
    for (const action of ['a', 'b', 'c'])
      expect(await permissions.can(`User:h ${action} Loop:3`)).toBe(false);
    expect(await permissions.can('User:h d Loop:3')).toBe(true);
    expect(await permissions.who('a Loop:3')).toEqual([]);
    expect(await permissions.list('User:h a Loop')).toEqual([]);
    expect(
      await problemOf(
        define({
          name: 'Circle',
          relations: { next: ['Circle'] },
          permissions: { a: ['b'], b: ['c'], c: ['a', 'next->a'] },
        }),
      ),
    ).toEqual([400, 'permissions.a']);
    // What hangs on its own denial has no answer, so it is no definition.
    expect(
      await problemOf(
        define({
          name: 'Paradox',
          relations: { holder: ['User'] },
          permissions: { a: { exclusion: { base: ['holder'], subtract: ['a'] } } },
        }),
      ),
    ).toEqual([400, 'permissions.a']);
  });

  describe('a definition that locks people out', () => {
    const base = {
      relations: { owner: ['User'], reader: ['User'], banned: ['User'] },
      permissions: { read: ['owner', 'reader'], edit: ['owner'], delete: ['owner'] },
    };
    let id: string;
    beforeAll(async () => {
      await platform.createSchema({
        name: 'Plan',
        fields: { text: 'String', stage: { type: 'String', enum: ['draft', 'published'] } },
        conduitOptions: { authorization: { enabled: true } },
      });
      ({ _id: id } = (await admin.get('/authorization/resources/Plan')).body);
      expectStatus(await admin.patch(`/authorization/resources/${id}`, base), 200, 'base');
      const docs = Array.from({ length: 5 }, () => ({ text: 'x' }));
      const made = expectStatus(await ada.api.post('/database/Plan/many', { docs }), 200, 'plans');
      for (const { _id } of made.body.docs.slice(0, 2))
        await permissions.relate(`User:${bob.userId} reader Plan:${_id}`);
    });
    const dryRun = async (permissionsOf: object, relationsOf = {}): Promise<Json> =>
      expectStatus(
        await admin.post('/authorization/resources/many', {
          definitions: [
            {
              name: 'Plan',
              relations: { ...base.relations, ...relationsOf },
              permissions: { ...base.permissions, ...permissionsOf },
            },
          ],
          dryRun: true,
        }),
        200,
        'dry run',
      ).body.plan[0].warnings;

    it('is warned about before, with the number of rows', async () => {
      expect(await dryRun({})).toEqual([]);
      // Who may share it says nothing about who stands in it.
      const reader = { types: ['User'], shareable: true };
      expect(await dryRun({ share: ['owner'] }, { reader })).toEqual([]);
      expect(await dryRun({ read: ['banned'] })).toMatchObject([
        { action: 'read', changed: 5, closed: 5, lockedOut: true },
      ]);
      expect(await dryRun({ read: ['reader'] })).toMatchObject([
        { action: 'read', changed: 5, closed: 3, lockedOut: false },
      ]);
      expect(await dryRun({ read: ['owner'] })).toMatchObject([
        { action: 'read', changed: 2, closed: 0, lockedOut: false },
      ]);
      expect(await dryRun({ read: [] })).toMatchObject([{ closed: 5, lockedOut: true }]);
      expect(await dryRun({ read: ['*'] })).toMatchObject([{ changed: 5, closed: 0 }]);
      const both = { intersection: ['owner', 'reader'] };
      expect(await dryRun({ read: both })).toMatchObject([{ action: 'read', changed: 5 }]);
      expect((await ada.api.get('/database/Plan')).body.count).toBe(5);
    });

    it('is told apart from one that says the same in other words', async () => {
      const { edit } = base.permissions;
      for (const read of [
        ['reader', 'owner', 'owner'],
        { union: ['reader', 'owner'] },
        ['reader', 'edit'],
        [{ union: ['owner'] }, { relation: 'reader' }],
      ])
        expect(await dryRun({ read, edit }), JSON.stringify(read)).toEqual([]);
      // The owner is there as before, and has it no longer by that alone.
      const rule = { rule: "record.text == 'y'" };
      for (const read of [
        { intersection: ['owner', rule] },
        { exclusion: { base: ['owner', 'reader'], subtract: ['banned'] } },
        ['reader', { intersection: ['owner', 'banned'] }],
        { union: ['reader', { exclusion: { base: ['owner'], subtract: [rule] } }] },
      ])
        expect(await dryRun({ read, edit }), JSON.stringify(read)).toMatchObject([
          { action: 'read', changed: 5 },
        ]);
    });

    it('is told where a rule holds for nobody', async () => {
      for (const rule of [
        'false',
        "record.text == 'x' && 1 > 2",
        // The field has no such value.
        "record.stage == 'publised'",
        "record.stage in ['done', 'over'] || record.stage == 'publised' && record.text == 'x'",
        "{'done': true}[record.stage]",
      ])
        for (const read of [[{ rule }], [{ intersection: [{ rule }, 'owner'] }]])
          expect(await dryRun({ read, edit: [] }), rule).toContainEqual(
            expect.objectContaining({ action: 'read', changed: 5, closed: 5, lockedOut: true }),
          );
      expect(await dryRun({ read: [...base.permissions.read, { rule: 'false' }] })).toEqual([]);
      for (const rule of [
        "record.stage != 'publised'",
        "!(record.stage in ['done'])",
        "record.stage in ['done', record.text]",
        "record.stage == 'publised' || record.text == 'x'",
      ])
        expect(await dryRun({ read: [{ rule }], edit: [] }), rule).toContainEqual(
          expect.objectContaining({ action: 'read', changed: 5, closed: 0, lockedOut: false }),
        );
    });

    it('is told with the values in rules that no record has', async () => {
      const slip = (column: number, value: string) => ({
        ...{ action: 'read', changed: 0, lockedOut: false },
        message: `permissions.read[2].rule: line 1, column ${column}: "${value}" is none of the values that the field has: "draft", "published"`,
      });
      const told = async (rule: string) =>
        (await dryRun({ read: [...base.permissions.read, { rule }] })).filter(
          ({ changed }: Json) => changed === 0,
        );
      const rule = "record.stage == 'publised'";
      expect(await told(rule)).toMatchObject([slip(17, 'publised')]);
      expect(await told("record.stage in ['draft', 'done']")).toMatchObject([slip(27, 'done')]);
      expect(await told("{'draft': 1, 'done': 2}[record.stage] == 1")).toMatchObject([
        slip(1, 'done'),
      ]);
      expect(await told("record.stage == 'published' || record.stage != null")).toEqual([]);
      const change = { ...base, permissions: { ...base.permissions, read: ['owner', { rule }] } };
      const path = `/authorization/resources/${id}`;
      const { body: done } = expectStatus(await admin.patch(path, change), 200, 'change');
      expect(JSON.stringify(done.warnings)).toContain('publised');
      expectStatus(await admin.patch(path, base), 200, 'as it was');
    });

    it('is told where a rule about records takes the place of another one', async () => {
      const path = `/authorization/resources/${id}`;
      const change = (read: Json) =>
        admin.patch(path, { ...base, permissions: { ...base.permissions, read } });
      const [was, is] = [{ rule: "record.text == 'x'" }, { rule: "record.text == 'y'" }];
      for (const [before, after] of [
        [[was], [is]],
        [
          ['owner', was],
          ['owner', is],
        ],
        [[was], ['*']],
      ] as const) {
        await change(before);
        expect(await dryRun({ read: after }), JSON.stringify(after)).toMatchObject([
          { action: 'read', changed: 5, closed: 0 },
        ]);
        expect(await dryRun({ read: [...before].reverse() })).toEqual([]);
      }
      expectStatus(await admin.patch(path, base), 200, 'as it was');
    });

    it('is told in the answer to the change, and in the plan of an import', async () => {
      const closed = { ...base, permissions: { ...base.permissions, edit: ['banned'] } };
      const exported = expectStatus(await admin.get('/state/export'), 200, 'export').body;
      const definition = { name: 'Plan', ...closed };
      const document = {
        ...exported,
        modules: { authorization: { resourceDefinitions: [definition] } },
      };
      const plan = await admin.post('/state/import', document, { query: { dryRun: true } });
      expect(JSON.stringify(expectStatus(plan, 200, 'plan').body)).toContain(
        'Nobody may edit any Plan any more: 5 of Plan change hands',
      );
      const path = `/authorization/resources/${id}`;
      const { body } = expectStatus(await admin.patch(path, closed), 200, 'change');
      expect(body.warnings).toEqual([
        {
          action: 'edit',
          changed: 5,
          closed: 5,
          lockedOut: true,
          message: 'Nobody may edit any Plan any more: 5 of Plan change hands for "edit"',
        },
      ]);
      expect((await admin.patch(path, closed)).body.warnings).toEqual([]);
    });

    it('is not one that takes its type away from its records', async () => {
      const answer = await admin.patch(`/authorization/resources/${id}`, {
        ...base,
        permissions: { edit: ['owner'] },
      });
      expect([answer.status, answer.body.code]).toEqual([409, 'RESOURCE_IN_USE']);
    });
  });

  it('a fan-out of 100,000 has an answer on every surface', async () => {
    await platform.createSchema({
      name: 'Wide',
      fields: { text: 'String', rank: { type: 'Number', index: { type: 1 } } },
      conduitOptions: { authorization: { enabled: true } },
    });
    await permissions.define({
      name: 'Crowd',
      relations: { member: ['User', 'Crowd#member'] },
      permissions: { read: ['member'] },
    });
    const { body: definition } = await admin.get('/authorization/resources/Wide');
    const relations = { ...definition.relations, reader: ['User', 'Crowd#member'] };
    const { permissions: actions } = definition;
    const path = `/authorization/resources/${definition._id}`;
    const changed = await admin.patch(path, {
      relations,
      permissions: { ...actions, read: ['owner', 'reader'] },
    });
    expectStatus(changed, 200, 'define');
    const { _id } = (await ada.api.post('/database/Wide', { text: 'x' })).body;
    await permissions.relate(
      `Crowd:all#member reader Wide:${_id}`,
      `User:${bob.userId} member Crowd:c${MANY}`,
    );
    // One document, 100,000 groups below it, and one person in the last of them.
    await database.query(
      `insert into penstock.tuples (id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id)
       select gen_random_uuid(), 'Crowd', 'c' || n, 'member', 'member', 'Crowd', 'all' from generate_series(1, ${MANY}) n`,
    );
    const stranger = await platform.registerUser();
    for (const [who, may] of [
      [bob, true],
      [stranger, false],
    ] as const) {
      const question = `User:${who.userId} read Wide:${_id}`;
      expect(await permissions.can(question)).toBe(may);
      const [subject, permission, resource] = question.split(' ');
      const told = await admin.get('/authorization/permissions/evaluate', {
        query: { subject: subject ?? '', permission: permission ?? '', resource: resource ?? '' },
      });
      expect(expectStatus(told, 200, 'explain').body.allowed).toBe(may);
      expect((await who.api.get(`/database/Wide/${_id}`)).status).toBe(may ? 200 : 404);
      const { body } = expectStatus(
        await who.api.get('/database/Wide', { query: { sort: '-rank' } }),
        200,
        'list',
      );
      expect([body.documents.length, body.count]).toEqual(may ? [1, 1] : [0, 0]);
      expect(await permissions.list(`User:${who.userId} read Wide`)).toEqual(
        may ? [`Wide:${_id}`] : [],
      );
    }
    expect(await everyoneWho(`Wide:${_id}`)).toEqual(
      [`User:${bob.userId}`, `User:${ada.userId}`].sort(),
    );
  });

  /** Who may read it, page by page: more stands below it than one page is made from. */
  async function everyoneWho(resource: string): Promise<string[]> {
    const found: string[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < 50; page += 1) {
      const { body } = expectStatus(
        await admin.get('/authorization/permissions/subjects', {
          query: { permission: 'read', resource, ...(cursor && { cursor }) },
        }),
        200,
        'who',
      );
      found.push(...body.subjects);
      cursor = body.cursor;
      if (!cursor) return found.sort();
    }
    throw new Error('The pages do not end');
  }

  it('what stands in a relation to itself says what it says, and no more', async () => {
    await permissions.define({
      name: 'Page',
      relations: { published: ['Page'], reader: ['User', 'Page#reader'] },
      permissions: { view: ['published', 'reader'], read: ['reader'] },
    });
    await permissions.relate(
      'Page:1 published Page:1',
      'Page:1#reader reader Page:1',
      'Page:2#reader reader Page:1',
      'Page:1#reader reader Page:2',
      'User:r reader Page:2',
    );
    expect(await permissions.can('Page:1 view Page:1')).toBe(true);
    expect(await permissions.can('User:r read Page:1')).toBe(true);
    expect(await permissions.can('User:x read Page:1')).toBe(false);
    expect(await permissions.who('read Page:1')).toEqual(['User:r']);
  });

  it('contexts that are made to burst are refused, or answered as if they were small', async () => {
    await permissions.define({
      name: 'Gate',
      relations: { guest: ['User', 'User with c'], parent: ['Gate'] },
      permissions: { pass: ['guest', 'parent->pass'] },
      conditions: { c: { params: { m: 'map<string>', l: 'list<string>' }, rule: 'm["a"] in l' } },
    });
    await permissions.relate('User:plain guest Gate:1');
    await admin.post('/authorization/relations', {
      subject: 'User:c',
      relation: 'guest',
      resource: 'Gate:1',
      condition: 'c',
    });
    let deep: unknown = 'x';
    for (let i = 0; i < 5_000; i += 1) deep = { a: deep };
    const wide = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`k${i}`, i]));
    const tuples = (count: number) =>
      Array.from({ length: count }, (_, i) => ({
        subject: `Gate:${i}`,
        relation: 'parent',
        resource: `Gate:${i + 1}`,
      }));
    const bombs: readonly Json[] = [
      { context: { m: deep, l: [] } },
      { context: wide },
      { context: { m: wide, l: Object.keys(wide) } },
      { context: { m: { a: 'x'.repeat(200_000) }, l: ['y'.repeat(200_000)] } },
      { context: { __proto__: { polluted: true }, constructor: { prototype: {} }, m: {}, l: [] } },
      { context: { m: { a: '\u0000' }, l: ['\u0000'] } },
      { contextualTuples: tuples(101) },
      { contextualTuples: tuples(100) },
    ];
    for (const [i, bomb] of bombs.entries())
      for (const subject of ['User:plain', 'User:c', 'User:none']) {
        const checks = [{ subject, permission: 'pass', resource: 'Gate:1' }];
        const single = await admin.post('/authorization/permissions/check', { checks, ...bomb });
        const listed = await admin.post('/authorization/permissions/resources', {
          subject,
          permission: 'pass',
          resourceType: 'Gate',
          ...bomb,
        });
        const who = await admin.post('/authorization/permissions/subjects', {
          permission: 'pass',
          resource: 'Gate:1',
          ...bomb,
        });
        const label = `${i} ${subject} ${single.status} ${listed.status} ${who.status}`;
        expect([label, [single, listed, who].every(isAnswered)]).toEqual([label, true]);
        expect([label, JSON.stringify(single.body).includes('"allowed":true')]).toEqual([
          label,
          single.status === 200 && subject === 'User:plain',
        ]);
      }
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});
