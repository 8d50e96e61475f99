/** Explanations for people: one sentence first, names, what would have to be true, and no more than was asked for. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
let permissions: ReturnType<typeof permissionsApi>;
let bob: TestUser;
let plan: string;

const explain = async (body: object): Promise<Json> =>
  expectStatus(
    await platform.admin.post('/authorization/permissions/evaluate', body),
    200,
    'evaluate',
  ).body;
const subject = () => `User:${bob.userId}`;

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  permissions = permissionsApi(platform.admin);
  const { schemas } = (await platform.admin.get('/database/schemas', { query: { limit: 100 } }))
    .body;
  const userSchema = schemas.find(({ name }: Json) => name === 'User')._id;
  const fields = { displayName: { type: 'String', access: { write: 'user' } } };
  await platform.admin.post(`/database/schemas/${userSchema}/extensions`, { fields });
  const profiles = { fields: ['displayName'] };
  await platform.admin.patch('/config/authentication', { config: { profiles } });
  bob = await platform.registerUser();
  const anna = await platform.registerUser();
  await bob.api.patch('/authentication/user', { userData: { displayName: 'Bob B.' } });
  await permissions.define({
    name: 'Note',
    relations: {
      owner: ['User', 'Team'],
      reader: ['User', 'Team#member', 'User with office'],
      banned: ['User'],
    },
    permissions: {
      read: { exclusion: { base: ['reader', 'edit'], subtract: ['banned'] } },
      edit: ['owner'],
      delete: ['owner'],
    },
    conditions: { office: { eq: [{ context: 'place' }, 'office'] } },
  });
  await platform.createSchema({
    name: 'Note',
    fields: { title: 'String' },
    conduitOptions: { authorization: { enabled: true } },
  });
  const made = await anna.api.post('/database/Note', { title: 'Plan' });
  plan = `Note:${made.body._id}`;
});
afterAll(() => platform?.close());

describe('an explanation', () => {
  it('says for a denial what would have to be true, so that doing it allows it', async () => {
    const question = { subject: subject(), permission: 'read', resource: plan };
    const told = await explain(question);
    expect(told).toMatchObject({
      outcome: 'denied',
      allowed: false,
      sentence:
        'Bob B. may not read Note "Plan". It would be enough if Bob B. is reader of Note "Plan".',
      names: { [subject()]: 'Bob B.', [plan]: 'Plan' },
    });
    expect(told.wouldAllow.length).toBeGreaterThan(1);
    expect(told.wouldAllow.length).toBeLessThanOrEqual(5);
    for (const { change, tuple } of told.wouldAllow) {
      expect(change).toBe('write');
      await platform.admin.post('/authorization/relations/write', { writes: [tuple] });
      expect((await explain(question)).outcome).toBe('allowed');
      await platform.admin.post('/authorization/relations/write', { deletes: [tuple] });
    }
    expect((await explain(question)).outcome).toBe('denied');
  });

  it('says by which way somebody may', async () => {
    await permissions.relate(`Team:t1#member reader ${plan}`);
    await permissions.relate(`${subject()} member Team:t1`);
    const told = await explain({ subject: subject(), permission: 'read', resource: plan });
    expect(told).toMatchObject({
      outcome: 'allowed',
      sentence:
        'Bob B. may read Note "Plan": Bob B. is member of Team:t1, and whoever is member of Team:t1 is reader of Note "Plan".',
      paths: [`Team:t1#member#reader@${plan}`, `${subject()}#member@Team:t1`],
    });
    expect(told).not.toHaveProperty('wouldAllow');
  });

  it('finds what is in the way', async () => {
    await permissions.relate(`${subject()} banned ${plan}`);
    const told = await explain({ subject: subject(), permission: 'read', resource: plan });
    expect(told.wouldAllow).toContainEqual({
      sentence: 'it no longer is so that Bob B. is banned of Note "Plan"',
      change: 'delete',
      tuple: { subject: subject(), relation: 'banned', resource: plan },
    });
    await permissions.unrelate(`${subject()} banned ${plan}`);
    await permissions.unrelate(`${subject()} member Team:t1`);
  });

  it('finds the set that is in the way, and a grant however many ways there are', async () => {
    const at = (relation: string, resource: string) => ({ relation, resource });
    const groups = Array.from({ length: 50 }, (_, i) => `Crew:${i}`);
    await permissions.define({
      name: 'Crew',
      relations: { member: ['User', 'Crew#member'] },
      permissions: { see: ['member'] },
    });
    await permissions.define({
      name: 'Gate',
      relations: { guest: ['Crew#member'], barred: ['Crew#member'] },
      permissions: { pass: { exclusion: { base: ['guest'], subtract: ['barred'] } } },
    });
    const chain = groups.slice(1).map((group, i) => ({
      subject: `${groups[i]}#member`,
      ...at('member', group),
    }));
    const everyCrew = (relation: string) => ({
      subject: 'Crew:49#member',
      ...at(relation, 'Gate:1'),
    });
    // In two ways: to leave one of the crews is not enough.
    const twice = [at('member', 'Crew:0'), at('member', 'Crew:1')];
    await platform.admin.post('/authorization/relations/write', {
      writes: [
        ...chain,
        ...twice.map((place) => ({ subject: subject(), ...place })),
        everyCrew('guest'),
        everyCrew('barred'),
      ],
    });
    const question = { subject: subject(), permission: 'pass', resource: 'Gate:1' };
    const { wouldAllow } = await explain(question);
    expect(wouldAllow.map(({ change, tuple }: Json) => ({ change, tuple }))).toEqual([
      { change: 'delete', tuple: everyCrew('barred') },
      { change: 'write', tuple: question },
    ]);
    const deletes = [everyCrew('barred')];
    await platform.admin.post('/authorization/relations/write', { deletes });
    const { outcome, sentence, paths } = await explain(question);
    expect(outcome).toBe('allowed');
    expect(paths.length).toBeGreaterThan(40);
    expect(sentence).toMatch(
      /is member of Crew:\d+, and .* and so on over \d+ more relations, and /,
    );
    expect(sentence.length).toBeLessThan(600);
  });

  it('is undecided exactly where a check has no answer, and names the values', async () => {
    await platform.admin.post('/authorization/relations', {
      subject: subject(),
      relation: 'reader',
      resource: plan,
      condition: 'office',
    });
    const question = { subject: subject(), permission: 'read', resource: plan };
    const told = await explain(question);
    expect(told).toMatchObject({
      outcome: 'undecided',
      allowed: false,
      missing: ['place'],
      sentence: 'Whether Bob B. may read Note "Plan" depends on values that were not given: place.',
    });
    expect(await platform.admin.post('/authorization/permissions/can', question)).toMatchObject({
      status: 400,
      body: { code: 'CONTEXT_MISSING' },
    });
    const elsewhere = await explain({ ...question, context: { place: 'home' } });
    expect(elsewhere.wouldAllow).toContainEqual(
      expect.objectContaining({ change: 'condition', condition: 'office' }),
    );
    expect((await explain({ ...question, context: { place: 'office' } })).outcome).toBe('allowed');
  });

  it('is bounded, and says what it leaves out', async () => {
    const many = Array.from({ length: 60 }, (_, i) => `Team:m${i}#member reader Note:many`);
    await platform.admin.post('/authorization/relations/write', {
      writes: many.map((text) => {
        const [who = '', relation = '', resource = ''] = text.split(' ');
        return { subject: who, relation, resource };
      }),
    });
    const question = { subject: subject(), permission: 'read', resource: 'Note:many' };
    const count = (line: Json): number =>
      1 + line.parts.reduce((sum: number, part: Json) => sum + count(part), 0);
    const leftIn = (line: Json): number =>
      (line.left ?? 0) + line.parts.reduce((sum: number, part: Json) => sum + leftIn(part), 0);
    const short = await explain({ ...question, limit: 10 });
    expect(count(short.reason)).toBeLessThanOrEqual(10);
    expect(leftIn(short.reason)).toBeGreaterThan(0);
    const whole = await explain({ ...question, limit: 500 });
    expect(leftIn(whole.reason)).toBe(0);
    for (const limit of [0, 501])
      expect(
        (await platform.admin.post('/authorization/permissions/evaluate', { ...question, limit }))
          .status,
      ).toBe(400);
  });

  it('names nobody to a token that is for other modules', async () => {
    const scopes = ['authorization', 'write'];
    const { token } = (await platform.admin.post('/api-tokens', { name: 'x', scopes })).body;
    const narrowed = await platform.adminAnonymous
      .with({ credential: token })
      .get('/authorization/permissions/evaluate', {
        query: { subject: subject(), permission: 'read', resource: plan },
      });
    expect(narrowed.status).toBe(200);
    expect(narrowed.body.names).not.toHaveProperty(subject());
    expect(narrowed.text).not.toContain('Bob B.');
  });
});
