/** What explanations say beside relations: rules of records, records and users that are not there, scopes, everybody. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
let ada: TestUser;
let bob: TestUser;
let post: string;

const who = (user: TestUser): string => `User:${user.userId}`;
const explain = async (subject: string, permission: string, more: object = {}): Promise<Json> =>
  expectStatus(
    await platform.admin.post('/authorization/permissions/evaluate', {
      subject,
      permission,
      resource: post,
      ...more,
    }),
    200,
    'evaluate',
  ).body;
const patch = async (fields: object): Promise<void> => {
  const address = `/database/Post/${post.slice('Post:'.length)}`;
  expectStatus(await ada.api.patch(address, fields), 200, 'change');
};

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  [ada, bob] = [await platform.registerUser(), await platform.registerUser()];
  await platform.createSchema({
    name: 'Post',
    fields: {
      title: 'String',
      status: 'String',
      isLocked: 'Boolean',
      editors: { type: [{ type: 'Relation', model: 'User' }] },
    },
    conduitOptions: { authorization: { enabled: true }, softDelete: true },
  });
  await permissionsApi(platform.admin).define({
    name: 'Post',
    version: 1,
    relations: { owner: ['User'], editor: { from: 'editors' } },
    permissions: {
      read: ['owner', 'editor', { rule: "record.status == 'published'" }],
      edit: { exclusion: { base: ['editor', 'owner'], subtract: [{ rule: 'record.isLocked' }] } },
      delete: ['owner'],
    },
  });
  const made = await ada.api.post('/database/Post', { title: 'Hello', status: 'draft' });
  post = `Post:${expectStatus(made, 200, 'post').body._id}`;
});
afterAll(() => platform?.close());

describe('an explanation', () => {
  it('names rules that the record would have to fit, or not to fit', async () => {
    const rule = "record.status == 'published'";
    const denied = await explain(who(bob), 'read');
    expect(denied.wouldAllow).toContainEqual({
      sentence: `Post "Hello" fits the rule "${rule}"`,
      change: 'rule',
      resource: post,
      rule,
      fits: true,
    });
    await patch({ status: 'published', isLocked: true });
    expect((await explain(who(bob), 'read')).sentence).toBe(
      `${bob.email} may read Post "Hello": the record fits the rule "${rule}".`,
    );
    const locked = await explain(who(ada), 'edit');
    expect(locked.sentence).toContain(
      'may not edit Post "Hello". It would be enough if it no longer is so that Post "Hello" fits the rule "record.isLocked".',
    );
    expect(locked.wouldAllow[0]).toMatchObject({ change: 'rule', fits: false });
    expect(locked.wouldAllow[0]).not.toHaveProperty('tuple');
    expectStatus(
      await platform.admin.put(`/database/schemas/Post/docs/${post.slice('Post:'.length)}`, {
        changedDocument: { isLocked: false },
      }),
      200,
      'unlock',
    );
    expect((await explain(who(ada), 'edit')).outcome).toBe('allowed');
    await patch({ status: 'draft' });
  });

  it('names fields that would have to name somebody, or no longer to', async () => {
    await platform.createSchema({
      name: 'Chore',
      fields: {
        title: 'String',
        doer: { type: 'Relation', model: 'User' },
        excused: [{ type: 'Relation', model: 'User' }],
      },
      conduitOptions: { authorization: { enabled: true } },
    });
    await permissionsApi(platform.admin).define({
      name: 'Chore',
      version: 5,
      relations: { owner: ['User'], doer: { from: 'doer' }, excused: { from: 'excused' } },
      permissions: {
        read: { exclusion: { base: ['doer'], subtract: ['excused'] } },
        edit: ['owner'],
        delete: ['owner'],
      },
    });
    const made = await ada.api.post('/database/Chore', { title: 'Dishes' });
    const { _id } = expectStatus(made, 200, 'chore').body;
    const change = (changedDocument: object) =>
      platform.admin.put(`/database/schemas/Chore/docs/${_id}`, { changedDocument });
    const told = async () => {
      const { outcome, wouldAllow } = await explain(who(bob), 'read', {
        resource: `Chore:${_id}`,
      });
      return [outcome, ...(wouldAllow ?? []).map(({ field, fits }: Json) => ({ field, fits }))];
    };
    const grant = { field: undefined, fits: undefined };
    expect(await told()).toEqual(['denied', { field: 'doer', fits: true }, grant]);
    await change({ doer: bob.userId, excused: [bob.userId] });
    expect(await told()).toEqual(['denied', { field: 'excused', fits: false }, grant]);
    await change({ excused: [] });
    expect(await told()).toEqual(['allowed']);
  });

  it('asks nothing of records in the trash, which nobody can change', async () => {
    await platform.createSchema({
      name: 'Errand',
      fields: { title: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    await permissionsApi(platform.admin).define({
      name: 'Errand',
      version: 5,
      relations: { owner: ['User'], post: ['Post'] },
      permissions: { read: ['owner', 'post->read'], edit: ['owner'], delete: ['owner'] },
    });
    const above = expectStatus(
      await ada.api.post('/database/Post', { title: 'Gone' }),
      200,
      'post',
    );
    const errand = { title: 'x' };
    const { body } = expectStatus(await ada.api.post('/database/Errand', errand), 200, 'errand');
    await permissionsApi(platform.admin).relate(`Post:${above.body._id} post Errand:${body._id}`);
    const told = async () => {
      const { wouldAllow } = await explain(who(bob), 'read', { resource: `Errand:${body._id}` });
      return wouldAllow.map(({ change, resource, tuple }: Json) => [change, resource ?? tuple]);
    };
    const changes = (all: string[][]) => all.map(([change]) => change);
    expect(changes(await told())).toEqual(expect.arrayContaining(['field', 'rule']));
    expectStatus(await ada.api.delete(`/database/Post/${above.body._id}`), 200, 'to the trash');
    const left = changes(await told());
    expect(left).not.toContain('field');
    expect(left).not.toContain('rule');
    expect(left).toContain('write');
  });

  it('says that the record or the user is not there, and suggests nothing that they would have to say', async () => {
    for (const resource of [`Post:${randomUUID()}`, 'Post:nothing']) {
      const gone = await explain(who(bob), 'read', { resource });
      expect(gone.sentence).toBe(
        `${bob.email} may not read ${resource}: there is no such record, or it is in the trash.`,
      );
      expect(gone.wouldAllow.map(({ change }: Json) => change)).not.toContain('field');
      expect(gone.wouldAllow.map(({ change }: Json) => change)).not.toContain('rule');
    }
    const ghost = `User:${randomUUID()}`;
    const told = await explain(ghost, 'read');
    expect(told.sentence).toBe(`${ghost} may not read Post "Hello": there is no such user.`);
    expect(told.wouldAllow.map(({ change }: Json) => change)).not.toContain('field');
    // Teams may exist in relations alone.
    expect((await explain('Team:crew#member', 'read')).sentence).not.toContain('no such');
  });

  it('tells a token for other modules nothing about what is there', async () => {
    const scopes = ['authorization', 'write'];
    const { token } = (await platform.admin.post('/api-tokens', { name: 'x', scopes })).body;
    const narrowed = platform.adminAnonymous.with({ credential: token });
    for (const resource of [post, `Post:${randomUUID()}`]) {
      const query = { subject: `User:${randomUUID()}`, permission: 'read', resource };
      const { body } = await narrowed.get('/authorization/permissions/evaluate', { query });
      expect(body.sentence).toContain('It would be enough');
    }
  });

  it('names the scope for which somebody may not act', async () => {
    const scope = who(ada);
    const { sentence } = await explain(who(bob), 'read', { scope });
    expect(sentence).toBe(
      `${bob.email} may not read Post "Hello" for ${ada.email}: that takes the action "read" on ${ada.email}, or the one that the definition of its type names under actAs.`,
    );
  });

  it('speaks of everybody, and of relations, in plain sentences', async () => {
    expect((await explain('*', 'read')).sentence).toMatch(/^Not everybody may read Post "Hello"\./);
    const every = await explain('User:*', 'read');
    expect(every.sentence).toMatch(/^Not every User may read Post "Hello"\./);
    // A field names one after the other.
    expect(every.wouldAllow.map(({ change }: Json) => change)).not.toContain('field');
    expect((await explain(who(bob), 'owner')).sentence).toMatch(/ is not owner of Post "Hello"\./);
    expect((await explain(who(ada), 'owner')).sentence).toBe(
      `${ada.email} is owner of Post "Hello": ${ada.email} is owner of Post "Hello".`,
    );
  });
});
