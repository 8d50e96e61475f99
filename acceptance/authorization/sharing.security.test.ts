/**
 * Sharing by users: exactly the relations that a definition marks, by those who may share, and nobody gains by it
 * (CWE-269, improper privilege management): https://cwe.mitre.org/data/definitions/269.html
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Json } from '../../test/support/api.ts';
import { openTestConnection } from '../../test/support/connection.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const shared = (...types: string[]) => ({ types, shareable: true });

/** Readers may pass on reading, editors editing; the owner alone deletes and makes managers. */
const note = {
  name: 'Note',
  relations: {
    owner: ['User', 'Team'],
    manager: ['User'],
    editor: shared('User', 'Team'),
    reader: shared('User', 'Team', 'Team#member', 'User:*', 'User with weekdays'),
    banned: ['User'],
  },
  permissions: {
    read: { exclusion: { base: ['reader', 'reader->read', 'edit'], subtract: ['banned'] } },
    edit: ['editor', 'editor->edit', 'owner', 'owner->edit', 'manager'],
    delete: ['owner', 'owner->delete'],
    share: ['read'],
  },
  conditions: { weekdays: { in: ['context.day', ['mo', 'tu']] } },
  version: 1,
};

let platform: TestPlatform;
let [anna, bob, cyd, dan]: TestUser[] = [];

const user = (who: TestUser | undefined): TestUser => who ?? expect.unreachable('no user');
const subjectOf = (who: TestUser | undefined): string => `User:${user(who).userId}`;
const create = async (): Promise<string> =>
  `Note:${expectStatus(await user(anna).api.post('/database/Note', { text: 'x' }), 200, 'create').body._id}`;
const give = (
  by: TestUser | undefined,
  resource: string,
  to: TestUser | string | undefined,
  relation: string,
): Promise<Answer<Json>> =>
  user(by).api.post(`/authorization/shares/${resource}`, {
    subject: typeof to === 'string' ? to : subjectOf(to),
    relation,
  });
const take = (
  by: TestUser | undefined,
  resource: string,
  from: TestUser | undefined,
  relation: string,
) =>
  user(by).api.delete(`/authorization/shares/${resource}`, {
    query: { subject: subjectOf(from), relation },
  });
const may = async (who: TestUser | undefined, action: string, resource: string) =>
  (await user(who).api.get('/authorization/check', { query: { action, resource } })).body.allowed;
/** Deletes notes by a condition. */
async function createDropEndpoint(): Promise<void> {
  const comparisonField = { type: 'Input', value: 'id' };
  const endpoint = {
    ...{ name: 'dropNote', operation: 3, selectedSchemaName: 'Note', authentication: true },
    inputs: [{ name: 'id', type: 'ObjectId', location: 1 }],
    query: { AND: [{ schemaField: '_id', operation: 0, comparisonField }] },
  };
  expectStatus(await platform.admin.post('/database/customEndpoints', endpoint), 200, 'dropNote');
}
const idOf = (resource: string): string => resource.slice(resource.indexOf(':') + 1);

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const operations = { 'authorization.shares.give': '100000/1' };
  expectStatus(
    await platform.admin.patch('/config/router', { config: { rateLimit: { operations } } }),
    200,
    'as many shares as the model gives in a minute',
  );
  await platform.admin.patch('/config/authentication', { config: { teams: { enabled: true } } });
  [anna, bob, cyd, dan] = [
    await platform.registerUser(),
    await platform.registerUser(),
    await platform.registerUser(),
    await platform.registerUser(),
  ];
  expectStatus(await platform.admin.post('/authorization/resources', note), 200, 'define Note');
  await platform.createSchema({
    name: 'Note',
    fields: { text: 'String' },
    conduitOptions: { authorization: { enabled: true } },
  });
});
afterAll(() => platform?.close());

describe('a definition', () => {
  const defined = (change: object) =>
    platform.admin.post('/authorization/resources', { ...note, name: 'Other', ...change });
  const relations = note.relations;
  const refused = (path: string, rule: string) => ({
    status: 400,
    body: { errors: [{ path, rule }] },
  });

  it('marks only relations by which nobody owns or loses anything, beside an action "share"', async () => {
    const { share: _, ...unshared } = note.permissions;
    expect(await defined({ permissions: unshared })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'relations.editor.shareable', rule: 'action' }, {}] },
    });
    expect(await defined({ relations: { ...relations, owner: shared('User') } })).toMatchObject(
      refused('relations.owner.shareable', 'relation'),
    );
    expect(await defined({ relations: { ...relations, banned: shared('User') } })).toMatchObject(
      refused('relations.banned.shareable', 'exclusion'),
    );
    expect(await defined({ relations: { ...relations, editor: shared('User:*') } })).toMatchObject(
      refused('relations.editor.shareable', 'subject'),
    );
    const mark = { types: ['User'], shareable: 'yes' };
    expect(await defined({ relations: { ...relations, editor: mark } })).toMatchObject(
      refused('relations.editor.shareable', 'type'),
    );
    const stray = { types: ['User'], sharable: true };
    expect(await defined({ relations: { ...relations, editor: stray } })).toMatchObject(
      refused('relations.editor.sharable', 'unknown'),
    );
    expect(
      await platform.admin.post('/authorization/resources', {
        name: 'Role',
        relations: { assignee: shared('User') },
        permissions: { hold: ['assignee'], share: ['assignee'] },
        version: 2,
      }),
    ).toMatchObject(refused('relations.assignee.shareable', 'type'));
  });

  it('is answered as it was written', async () => {
    const { body } = await platform.admin.get('/authorization/resources/Note');
    expect(body.relations).toEqual(note.relations);
  });
});

describe('sharing', () => {
  it('gives, lists and takes back what the relation says', async () => {
    const resource = await create();
    expect(await give(anna, resource, bob, 'reader')).toMatchObject({ status: 200 });
    expect(await give(anna, resource, bob, 'reader')).toMatchObject({ status: 200 });
    const path = `/database/Note/${idOf(resource)}`;
    expect((await user(bob).api.get(path)).status).toBe(200);
    expect((await user(bob).api.patch(path, { text: 'y' })).status).toBe(403);
    const { body } = await user(anna).api.get(`/authorization/shares/${resource}`);
    expect(body).toMatchObject({
      shares: [{ subject: subjectOf(bob), relation: 'reader' }],
      count: 1,
      relations: ['editor', 'reader'],
    });
    // Bob reads, so they may share reading alone.
    expect((await user(bob).api.get(`/authorization/shares/${resource}`)).body.relations).toEqual([
      'reader',
    ]);
    expect((await take(anna, resource, bob, 'reader')).status).toBe(200);
    expect((await user(bob).api.get(path)).status).toBe(404);
    expect((await take(anna, resource, bob, 'reader')).status).toBe(200);
  });

  it('ends when it was meant to', async () => {
    const resource = await create();
    const body = { subject: subjectOf(bob), relation: 'reader' };
    const path = `/authorization/shares/${resource}`;
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    expectStatus(await user(anna).api.post(path, { ...body, expiresAt }), 200, 'share');
    expect((await user(anna).api.get(path)).body.shares).toMatchObject([{ expiresAt }]);
    const past = new Date(Date.now() - 1000).toISOString();
    expect(await user(anna).api.post(path, { ...body, expiresAt: past })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'expiresAt', rule: 'range' }] },
    });
    const ended = { ...body, resource, expiresAt: past };
    expectStatus(await platform.admin.post('/authorization/relations', ended), 200, 'end');
    expect(await may(bob, 'read', resource)).toBe(false);
    expect((await user(anna).api.get(path)).body.count).toBe(0);
    const wrong = await user(anna).api.post(path, { ...body, expiresAt: '2016-12-31T23:59:60Z' });
    expect(wrong).toMatchObject({ status: 400, body: { errors: [{ path: 'expiresAt' }] } });
    const misspelt = await user(anna).api.post(path, { ...body, expiresAtt: expiresAt });
    expect(misspelt.status).toBe(400);
  });

  it('is with groups too, which the giver can read', async () => {
    const resource = await create();
    const team = (await user(anna).api.post('/authentication/teams', { name: randomUUID() })).body
      ._id;
    expect((await give(anna, resource, `Team:${team}#member`, 'reader')).status).toBe(200);
    await platform.admin.post('/authorization/relations', {
      subject: subjectOf(bob),
      relation: 'member',
      resource: `Team:${team}`,
    });
    expect(await may(bob, 'read', resource)).toBe(true);
    const foreign = (await user(cyd).api.post('/authentication/teams', { name: randomUUID() })).body
      ._id;
    for (const id of [foreign, randomUUID()])
      expect(await give(anna, resource, `Team:${id}`, 'reader')).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'subject', rule: 'unknown' }] },
      });
  });

  it('shows what is public of users', async () => {
    const resource = await create();
    await give(anna, resource, bob, 'reader');
    const config = { profiles: { fields: ['email'] } };
    await platform.admin.patch('/config/authentication', { config });
    const { shares } = (await user(anna).api.get(`/authorization/shares/${resource}`)).body;
    expect(shares[0].profile).toEqual({ _id: user(bob).userId, email: user(bob).email });
    await platform.admin.patch('/config/authentication', { config: { profiles: { fields: [] } } });
    const after = (await user(anna).api.get(`/authorization/shares/${resource}`)).body;
    expect(after.shares[0]).not.toHaveProperty('profile');
  });

  it('answers the same in GraphQL', async () => {
    const resource = await create();
    const ask = async (query: string) => (await user(anna).api.post('/graphql', { query })).body;
    const params = `{ subject: "${subjectOf(bob)}", relation: "reader" }`;
    const mutation = `mutation { postAuthorizationSharesResource(resource: "${resource}", params: ${params}) { result } }`;
    expect((await ask(mutation)).data).toEqual({
      postAuthorizationSharesResource: { result: 'Shared' },
    });
    const list = `{ getAuthorizationSharesResource(resource: "${resource}") { count relations } }`;
    expect((await ask(list)).data.getAuthorizationSharesResource).toEqual({
      count: 1,
      relations: ['editor', 'reader'],
    });
  });

  it('is in the audit log, with who gave what to whom', async () => {
    const resource = await create();
    await give(anna, resource, bob, 'reader');
    const { body } = await platform.admin.get('/audit-logs', {
      query: { action: 'authorization.shares.give', limit: 1 },
    });
    expect(JSON.stringify(body)).toContain(resource);
    expect(JSON.stringify(body)).toContain(user(bob).userId);
    expect(JSON.stringify(body)).toContain(user(anna).userId);
  });
});

describe('nobody', () => {
  it('shares what they may not, or learns by trying whether it is there', async () => {
    const resource = await create();
    const missing = `Note:${randomUUID()}`;
    for (const one of [resource, missing]) {
      const answers = [
        await give(bob, one, cyd, 'reader'),
        await take(bob, one, cyd, 'reader'),
        await user(bob).api.get(`/authorization/shares/${one}`),
      ];
      for (const answer of answers)
        expect(answer).toMatchObject({ status: 403, body: { code: 'SHARING_REFUSED' } });
    }
    expect((await platform.client.get(`/authorization/shares/${resource}`)).status).toBe(401);
  });

  it('gives or takes more than they have', async () => {
    const resource = await create();
    await give(anna, resource, bob, 'reader');
    await give(anna, resource, dan, 'editor');
    expect(await give(bob, resource, cyd, 'editor')).toMatchObject({
      status: 403,
      body: { code: 'SHARING_REFUSED' },
    });
    expect((await take(bob, resource, dan, 'editor')).status).toBe(403);
    expect(await may(dan, 'edit', resource)).toBe(true);
    expect((await give(bob, resource, cyd, 'reader')).status).toBe(200);
  });

  it('shares with themselves, with everybody or with nobody', async () => {
    const resource = await create();
    const refused = async (to: string, rule: string) =>
      expect(await give(anna, resource, to, 'reader'), to).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'subject', rule }] },
      });
    await refused(subjectOf(anna), 'self');
    await refused('User:*', 'wildcard');
    await refused(`User:${randomUUID()}`, 'unknown');
    await refused('User:nobody', 'unknown');
    await refused('nonsense', 'reference');
  });

  it('touches relations that are not marked', async () => {
    const resource = await create();
    for (const relation of ['owner', 'manager', 'banned', 'nothing'])
      expect(await give(anna, resource, bob, relation), relation).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'relation', rule: 'shareable' }] },
      });
    expect((await take(anna, resource, anna, 'owner')).status).toBe(400);
    expect(await give(anna, resource, bob, 'can:read')).toMatchObject({ status: 400 });
    expect(await give(anna, 'Nothing:1', bob, 'reader')).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'resource', rule: 'type' }] },
    });
    expect(await give(anna, `User:${user(bob).userId}`, bob, 'reader')).toMatchObject({
      status: 400,
      body: { errors: [{ rule: 'shareable' }] },
    });
  });

  it('changes what an operator gave under a condition', async () => {
    const resource = await create();
    const relation = { subject: subjectOf(bob), relation: 'reader', resource };
    const given = { ...relation, condition: 'weekdays' };
    expectStatus(await platform.admin.post('/authorization/relations', given), 200, 'give');
    const refused = { status: 403, body: { code: 'SHARING_REFUSED' } };
    expect(await give(anna, resource, bob, 'reader')).toMatchObject(refused);
    expect(await take(anna, resource, bob, 'reader')).toMatchObject(refused);
    const { body } = await platform.admin.get('/authorization/relations', {
      query: { resource, subject: subjectOf(bob) },
    });
    expect(body.relations).toMatchObject([{ condition: 'weekdays' }]);
    expect((await take(bob, resource, bob, 'reader')).status).toBe(200);
  });

  it('changes what an operator gives under a condition at the same moment', async () => {
    const resources = await Promise.all(Array.from({ length: 20 }, create));
    const [shared, unshared] = [resources.slice(0, 10), resources.slice(10)];
    for (const resource of shared) await give(anna, resource, bob, 'reader');
    const relation = { subject: subjectOf(bob), relation: 'reader', condition: 'weekdays' };
    const byOperator = resources.map((resource) =>
      platform.admin.post('/authorization/relations', { ...relation, resource }),
    );
    await Promise.all([
      ...unshared.map((resource) => give(anna, resource, bob, 'reader')),
      ...shared.map((resource) => take(anna, resource, bob, 'reader')),
    ]);
    const statuses = (await Promise.all(byOperator)).map(({ status }) => status);
    // A machine that is too busy refuses a few.
    const written = resources.filter((_, i) => statuses[i] !== 503);
    expect(new Set(statuses.filter((status) => status !== 503))).toEqual(new Set([200]));
    const conditions = await Promise.all(
      written.map(async (resource) => {
        const query = { resource, subject: subjectOf(bob) };
        const { body } = await platform.admin.get('/authorization/relations', { query });
        return body.relations.map(({ condition }: Json) => condition);
      }),
    );
    expect(conditions).toEqual(written.map(() => ['weekdays']));
  });

  it('leaves relations about records behind that are deleted at the same time', async () => {
    const left: { readonly query: { readonly resource: string } }[] = [];
    await createDropEndpoint();
    const drop = '/database/function/dropNote';
    for (let round = 0; round < 16; round += 1) {
      const resource = await create();
      const id = idOf(resource);
      await Promise.all([
        ...[bob, cyd, dan].map((one) => give(anna, resource, one, 'reader')),
        round % 2 === 0
          ? user(anna).api.delete(`/database/Note/${id}`)
          : user(anna).api.delete(drop, { query: { id } }),
      ]);
      await give(anna, resource, bob, 'reader');
      left.push({ query: { resource } });
    }
    const counts = async () =>
      Promise.all(
        left.map(
          async (asked) => (await platform.admin.get('/authorization/relations', asked)).body.count,
        ),
      );
    await waitFor(async () => (await counts()).every((count) => count === 0));
  });

  it('needs anybody to give up what was shared with them', async () => {
    const resource = await create();
    await give(anna, resource, bob, 'editor');
    await platform.admin.post('/authorization/relations', {
      subject: subjectOf(bob),
      relation: 'banned',
      resource,
    });
    expect(await may(bob, 'share', resource)).toBe(false);
    expect((await take(bob, resource, bob, 'editor')).status).toBe(200);
    expect(await may(bob, 'edit', resource)).toBe(false);
  });

  it('gets a right that the giver lacks, whatever is tried', async () => {
    const resource = await create();
    const users = [anna, bob, cyd, dan];
    const actions = ['read', 'edit', 'delete', 'share'];
    const matrix = async (): Promise<ReadonlyMap<string, boolean>> => {
      const pairs = users.flatMap((one) => actions.map((action) => ({ one, action })));
      const answers = await Promise.all(pairs.map(({ one, action }) => may(one, action, resource)));
      return new Map(
        pairs.map(({ one, action }, i) => [`${user(one).userId} ${action}`, answers[i]]),
      );
    };
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const attempt = () => {
      const [by, to] = [users[random(4)], users[random(4)]];
      const relation = ['reader', 'editor', 'owner', 'manager'][random(4)] ?? '';
      const act = random(3) > 0 ? give : take;
      return { by, to, answer: act(by, resource, to, relation) };
    };
    let before = await matrix();
    let [given, refused] = [0, 0];
    for (let n = 0; n < 60; n += 1) {
      const { by, to, answer } = attempt();
      const { status } = await answer;
      expect([200, 400, 403]).toContain(status);
      if (status === 200) given += 1;
      else refused += 1;
      const after = await matrix();
      // Whatever changed is the receiver's, and the giver has it too, unless somebody gave their own up.
      for (const [key] of [...after].filter(([one, allowed]) => allowed !== before.get(one))) {
        const [holder, action] = key.split(' ');
        expect(holder).toBe(user(to).userId);
        expect(before.get(`${user(by).userId} ${action}`)).toBe(true);
        if (by === to) expect(after.get(key)).toBe(false);
      }
      before = after;
      expect(before.get(`${user(anna).userId} delete`)).toBe(true);
    }
    expect(Math.min(given, refused)).toBeGreaterThan(5);
  });
});

it('is refused where the right to share is taken back while it is asked for', async () => {
  const resource = await create();
  expectStatus(await give(anna, resource, bob, 'reader'), 200, 'first');
  const sql = await openTestConnection(platform.databaseUrl ?? '');
  await sql.query('begin');
  // Whoever shares waits here, after the question for the right.
  await sql.query(`select pg_advisory_xact_lock(hashtextextended('penstock.definitions', 0))`);
  const answer = give(bob, resource, cyd, 'reader');
  await waitFor(async () => {
    const waiting = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    return (await sql.query(waiting)).length > 0;
  });
  const right = { subject: subjectOf(bob), relation: 'reader', resource };
  const taken = await platform.admin.delete('/authorization/relations', { query: right });
  expect(taken.body).toMatchObject({ deleted: 1 });
  await sql.query('commit');
  expect((await answer).status).toBe(403);
  expect(await may(cyd, 'read', resource)).toBe(false);
  await sql.close();
});
