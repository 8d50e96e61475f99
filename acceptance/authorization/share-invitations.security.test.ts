/**
 * Invitations to what users share: they tell nobody who has an account, work once for the right address, and give
 * only what the inviter still may give (CWE-204, observable response discrepancy):
 * https://cwe.mitre.org/data/definitions/204.html
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { openTestConnection } from '../../test/support/connection.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const path = '/authentication/invitations';
let platform: TestPlatform;
let anna: TestUser;

const address = (): string => `guest-${randomUUID()}@invited.example`;
const create = async (): Promise<string> =>
  `Note:${expectStatus(await anna.api.post('/database/Note', { text: 'x' }), 200, 'create').body._id}`;
const invite = (by: TestUser, body: object) => by.api.post(path, { relation: 'reader', ...body });
const invited = async (resource: string, email: string, more: object = {}): Promise<Json> =>
  expectStatus(await invite(anna, { resource, email, ...more }), 200, 'invite').body;
const accept = (user: TestUser, invitationToken: string) =>
  user.api.post(`${path}/accept`, { invitationToken });
const may = async (who: TestUser, action: string, resource: string): Promise<boolean> =>
  (await who.api.get('/authorization/check', { query: { action, resource } })).body.allowed;
const mailsTo = async (recipient: string): Promise<Json[]> =>
  (await platform.admin.get('/communications/messages', { query: { recipient } })).body.messages;
/** The token in the newest mail to an address. */
const tokenTo = async (recipient: string): Promise<string> => {
  const links = await waitFor(async () => {
    const [mail] = await mailsTo(recipient);
    return (
      mail && (await platform.admin.get(`/communications/messages/${mail._id}`)).body.content?.links
    );
  });
  return new URL(String(links[0])).searchParams.get('invitationToken') ?? '';
};
const verify = (user: TestUser) =>
  platform.admin.patch(`/authentication/users/${user.userId}`, { isVerified: true });
const refusal = { status: 403, body: { code: 'INVALID_INVITATION' } };

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const shareInvitations = { enabled: true, inviteUrl: 'https://app.example.com/join?from=mail' };
  const config = { shareInvitations };
  expectStatus(await platform.admin.patch('/config/authentication', { config }), 200, 'config');
  const shared = { types: ['User'], shareable: true };
  const definition = {
    name: 'Note',
    relations: {
      owner: ['User'],
      editor: shared,
      reader: shared,
      crew: { types: ['Team#member'], shareable: true },
    },
    permissions: {
      read: ['reader', 'crew', 'edit'],
      edit: ['editor', 'owner'],
      delete: ['owner'],
      share: ['read'],
    },
  };
  expectStatus(await platform.admin.post('/authorization/resources', definition), 200, 'define');
  await platform.createSchema({
    name: 'Note',
    fields: { text: 'String' },
    conduitOptions: { authorization: { enabled: true }, softDelete: true },
  });
  anna = await platform.registerUser();
});
afterAll(() => platform?.close());

describe('an invitation', () => {
  it('lets somebody without an account in, once there is one, and proves the address', async () => {
    const [resource, email] = [await create(), address()];
    const made = await invited(resource, email);
    expect(made).toMatchObject({ email, resource, relation: 'reader', invitedBy: anna.userId });
    const guest = await platform.registerUser({ email });
    expect(await may(guest, 'read', resource)).toBe(false);
    expect(await accept(guest, await tokenTo(email))).toMatchObject({
      status: 200,
      body: { resource, relation: 'reader' },
    });
    expect(await may(guest, 'read', resource)).toBe(true);
    expect((await guest.api.get('/authentication/user')).body.isVerified).toBe(true);
    expect((await anna.api.get(path, { query: { resource } })).body.count).toBe(0);
    expect(await accept(guest, await tokenTo(email))).toMatchObject(refusal);
  });

  it('is answered, mailed and listed in the same way whether or not there is an account', async () => {
    const known = await platform.registerUser();
    await verify(known);
    const resource = await create();
    const [one, other] = [await invited(resource, known.email), await invited(resource, address())];
    expect(Object.keys(one)).toEqual(Object.keys(other));
    for (const { email } of [one, other])
      expect(await mailsTo(String(email))).toMatchObject([{ template: 'ShareInvite' }]);
    expect((await anna.api.get(path, { query: { resource } })).body).toMatchObject({
      invitations: [{ email: other.email }, { email: one.email }],
      count: 2,
    });
    // Nothing is given before they take it, so the list of shares tells nothing either.
    expect((await anna.api.get(`/authorization/shares/${resource}`)).body.count).toBe(0);
    expect(await may(known, 'read', resource)).toBe(false);
    const [mine] = (await known.api.get(`${path}/received`)).body.invitations;
    expect(mine).toMatchObject({ resource, relation: 'reader', invitedBy: anna.userId });
    expect((await accept(known, mine._id)).status).toBe(200);
    expect(await may(known, 'read', resource)).toBe(true);
  });

  it('keeps its token to the mail, and only the hash of it', async () => {
    const [resource, email] = [await create(), address()];
    const made = JSON.stringify(await invited(resource, email));
    const token = await tokenTo(email);
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(made).not.toContain(token);
    const listed = await anna.api.get(path, { query: { resource } });
    expect(listed.text).not.toContain(token);
    expect((await platform.admin.get('/audit-logs?limit=100')).text).not.toContain(token);
    const connection = await openTestConnection(platform.databaseUrl ?? '');
    const rows = await connection.query('select i::text as row from penstock.share_invitations i');
    await connection.close();
    expect(rows.length).toBeGreaterThan(0);
    expect(JSON.stringify(rows)).not.toContain(token);
  });

  it('works for one of 50 that use it at once', async () => {
    const [resource, email] = [await create(), address()];
    await invited(resource, email);
    const guest = await platform.registerUser({ email });
    const token = await tokenTo(email);
    const answers = await Promise.all(Array.from({ length: 50 }, () => accept(guest, token)));
    const won = answers.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    for (const { status } of answers) expect([200, 403, 429, 503]).toContain(status);
  });

  it('is made and accepted once by calls that are sent again with the same key', async () => {
    const [resource, email] = [await create(), address()];
    const again = async (
      call: (headers: Record<string, string>) => Promise<{ status: number }>,
    ) => {
      const headers = { 'idempotency-key': randomUUID() };
      return [await call(headers), await call(headers)];
    };
    const body = { resource, email, relation: 'reader' };
    const made = await again((headers) => anna.api.post(path, body, { headers }));
    expect(made).toMatchObject([{ status: 200 }, { status: 200, body: (made[0] as Json).body }]);
    const guest = await platform.registerUser({ email });
    const invitationToken = await tokenTo(email);
    expect(await mailsTo(email)).toHaveLength(1);
    const taken = await again((headers) =>
      guest.api.post(`${path}/accept`, { invitationToken }, { headers }),
    );
    for (const answer of taken)
      expect(answer).toMatchObject({ status: 200, body: { resource, relation: 'reader' } });
  });

  it('is for its address alone, and by its id only where that is proven', async () => {
    const [resource, email] = [await create(), address()];
    const made = await invited(resource, email);
    const [stranger, guest] = [
      await platform.registerUser(),
      await platform.registerUser({ email }),
    ];
    await verify(stranger);
    expect(await accept(stranger, await tokenTo(email))).toMatchObject(refusal);
    expect(await accept(stranger, made._id)).toMatchObject(refusal);
    // Anna knows the id; they could make an account with an address that is not theirs.
    expect(await accept(guest, made._id)).toMatchObject(refusal);
    expect((await guest.api.get(`${path}/received`)).body.invitations).toEqual([]);
    await verify(guest);
    expect((await accept(guest, made._id)).status).toBe(200);
  });

  it('gives nothing that its maker may not give any more', async () => {
    const [resource, email] = [await create(), address()];
    const bob = await platform.registerUser();
    const share = { subject: `User:${bob.userId}`, relation: 'reader' };
    await anna.api.post(`/authorization/shares/${resource}`, share);
    expect((await invite(bob, { resource, email })).status).toBe(200);
    await anna.api.delete(`/authorization/shares/${resource}`, { query: share });
    const guest = await platform.registerUser({ email });
    const token = await tokenTo(email);
    expect(await accept(guest, token)).toMatchObject(refusal);
    // With the right the invitation comes back, unless its maker is blocked.
    await anna.api.post(`/authorization/shares/${resource}`, share);
    await platform.admin.post(`/authentication/users/${bob.userId}/block`);
    expect(await accept(guest, token)).toMatchObject(refusal);
    await platform.admin.post(`/authentication/users/${bob.userId}/unblock`);
    expect((await accept(guest, token)).status).toBe(200);
    expect(await may(guest, 'read', resource)).toBe(true);
  });

  it('expires, and can be withdrawn or declined', async () => {
    const resource = await create();
    const [late, gone, refusing] = [address(), address(), address()];
    await invited(resource, late);
    const connection = await openTestConnection(platform.databaseUrl ?? '');
    await connection.query(
      `update penstock.share_invitations set expires_at = now() - interval '1 second' where email = '${late}'`,
    );
    await connection.close();
    const lateGuest = await platform.registerUser({ email: late });
    expect(await accept(lateGuest, await tokenTo(late))).toMatchObject(refusal);

    const { _id } = await invited(resource, gone);
    const goneGuest = await platform.registerUser({ email: gone });
    expect((await lateGuest.api.delete(`${path}/${_id}`)).status).toBe(404);
    expect((await anna.api.delete(`${path}/${_id}`)).status).toBe(200);
    expect((await anna.api.delete(`${path}/${_id}`)).status).toBe(404);
    expect(await accept(goneGuest, await tokenTo(gone))).toMatchObject(refusal);

    const declined = await invited(resource, refusing);
    const guest = await platform.registerUser({ email: refusing });
    expect((await guest.api.delete(`${path}/${declined._id}`)).status).toBe(404);
    await verify(guest);
    expect((await guest.api.delete(`${path}/${declined._id}`)).status).toBe(200);
  });

  it('takes the place of an earlier one, and goes with its maker and with its address', async () => {
    const [resource, email] = [await create(), address()];
    await invited(resource, email);
    const first = await tokenTo(email);
    await invited(resource, email);
    expect((await anna.api.get(path, { query: { resource } })).body.count).toBe(1);
    const guest = await platform.registerUser({ email });
    expect(await accept(guest, first)).toMatchObject(refusal);
    await platform.admin.delete(`/authentication/users/${guest.userId}`);
    expect((await anna.api.get(path, { query: { resource } })).body.count).toBe(0);
  });
});

describe('an invitation to a record that is gone', () => {
  it('is neither made nor shown to the invited, until the record is back', async () => {
    const [resource, guest] = [await create(), await platform.registerUser()];
    await verify(guest);
    await invited(resource, guest.email);
    const received = async () => (await guest.api.get(`${path}/received`)).body.invitations;
    expect(await received()).toMatchObject([{ resource }]);
    const address = `/database/Note/${resource.slice('Note:'.length)}`;
    expectStatus(await anna.api.delete(address), 200, 'into the trash');
    expect(await received()).toEqual([]);
    const email = `late-${randomUUID()}@invited.example`;
    expect(await invite(anna, { resource, email })).toMatchObject({
      status: 403,
      body: { code: 'SHARING_REFUSED' },
    });
    expect(await mailsTo(email)).toEqual([]);
    expectStatus(await anna.api.post(`${address}/restore`, {}), 200, 'back');
    const [offered] = await received();
    expect((await accept(guest, offered._id)).status).toBe(200);
  });
});

describe('an invitation by somebody who may not share any more', () => {
  it('is not shown to the invited, until they may again', async () => {
    const [resource, bert, guest] = [
      await create(),
      await platform.registerUser(),
      await platform.registerUser(),
    ];
    await verify(guest);
    const shares = `/authorization/shares/${resource}`;
    const editor = { subject: `User:${bert.userId}`, relation: 'editor' };
    const received = async () => (await guest.api.get(`${path}/received`)).body.invitations;
    expectStatus(await anna.api.post(shares, editor), 200, 'bert edits');
    const offer = { resource, email: guest.email, relation: 'editor' };
    expectStatus(await invite(bert, offer), 200, 'invite');
    expect(await received()).toMatchObject([{ resource, invitedBy: bert.userId }]);
    // Who reads may share, but not what lets others edit.
    expectStatus(await anna.api.post(shares, { ...editor, relation: 'reader' }), 200, 'reads');
    expectStatus(await anna.api.delete(shares, { query: editor }), 200, 'edits no more');
    expect(await received()).toEqual([]);
    expectStatus(await anna.api.post(shares, editor), 200, 'edits again');
    expect(await received()).toMatchObject([{ resource }]);
  });
});

describe('what is accepted', () => {
  const soon = (): string => new Date(Date.now() + 3_600_000).toISOString();

  it('takes nothing from who has it for longer', async () => {
    const [resource, email] = [await create(), address()];
    const guest = await platform.registerUser({ email });
    const subject = `User:${guest.userId}`;
    const path = `/authorization/shares/${resource}`;
    const shares = async (): Promise<Json[]> => (await anna.api.get(path)).body.shares;
    await anna.api.post(path, { subject, relation: 'reader' });
    await invited(resource, email, { expiresAt: soon() });
    expectStatus(await accept(guest, await tokenTo(email)), 200, 'accept');
    expect(await shares()).toMatchObject([{ subject, relation: 'reader' }]);
    expect((await shares())[0]).not.toHaveProperty('expiresAt');
    // What ends earlier goes on for as long as was offered.
    const later = new Date(Date.now() + 7_200_000).toISOString();
    await anna.api.post(path, { subject, relation: 'editor', expiresAt: soon() });
    await invited(resource, email, { relation: 'editor', expiresAt: later });
    const [mine] = (await guest.api.get('/authentication/invitations/received')).body.invitations;
    expectStatus(await accept(guest, mine._id), 200, 'accept by id');
    expect(await shares()).toContainEqual(
      expect.objectContaining({ relation: 'editor', expiresAt: later }),
    );
  });

  it('is no offer any more once it has ended itself', async () => {
    const [resource, email] = [await create(), address()];
    await invited(resource, email, { expiresAt: soon() });
    const connection = await openTestConnection(platform.databaseUrl ?? '');
    await connection.query(
      `update penstock.share_invitations set share_ends_at = now() - interval '1 second' where email = '${email}'`,
    );
    await connection.close();
    const guest = await platform.registerUser({ email });
    expect(await accept(guest, await tokenTo(email))).toMatchObject(refusal);
    expect((await anna.api.get(path, { query: { resource } })).body.count).toBe(0);
  });
});

describe('inviting', () => {
  it('needs what sharing needs', async () => {
    const resource = await create();
    const bob = await platform.registerUser();
    for (const one of [resource, `Note:${randomUUID()}`])
      expect(await invite(bob, { resource: one, email: address() })).toMatchObject({
        status: 403,
        body: { code: 'SHARING_REFUSED' },
      });
    await anna.api.post(`/authorization/shares/${resource}`, {
      subject: `User:${bob.userId}`,
      relation: 'reader',
    });
    expect((await invite(bob, { resource, email: address(), relation: 'editor' })).status).toBe(
      403,
    );
    expect((await bob.api.get(path, { query: { resource } })).status).toBe(200);
    const dan = await platform.registerUser();
    expect((await dan.api.get(path, { query: { resource } })).status).toBe(403);
  });

  it('refuses what makes no sense, by name', async () => {
    const resource = await create();
    const refused = async (body: object, name: string) =>
      expect(await invite(anna, { resource, email: address(), ...body }), name).toMatchObject({
        status: 400,
        body: { errors: [{ path: name }] },
      });
    await refused({ email: anna.email }, 'email');
    await refused({ relation: 'owner' }, 'relation');
    // It takes groups alone: nobody could accept.
    await refused({ relation: 'crew' }, 'relation');
    await refused({ resource: 'Note' }, 'resource');
    await refused({ resource: 'Nothing:1' }, 'resource');
    await refused({ expiresAt: '2001-01-01T00:00:00Z' }, 'expiresAt');
    expect((await invite(anna, { resource, email: 'nobody' })).status).toBe(400);
    expect(
      (await invite(anna, { resource, email: address(), redirectUri: 'https://evil.example' }))
        .status,
    ).toBe(403);
  });

  it('ends at 500 open ones, however many are made at once, and renews one of them then too', async () => {
    const [resource, maker] = [await create(), await platform.registerUser()];
    const share = { subject: `User:${maker.userId}`, relation: 'reader' };
    expectStatus(await anna.api.post(`/authorization/shares/${resource}`, share), 200, 'share');
    const renewed = address();
    expectStatus(await invite(maker, { resource, email: renewed }), 200, 'the first');
    const connection = await openTestConnection(platform.databaseUrl ?? '');
    await connection.query(`insert into penstock.share_invitations (id, hash, email, resource_type, resource_id, relation, invited_by, expires_at)
      select gen_random_uuid(), 'hash ' || n, n || '@bulk.example', resource_type, resource_id, relation, invited_by, expires_at
      from penstock.share_invitations, generate_series(1, 497) n where email = '${renewed}'`);
    await connection.close();
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => invite(maker, { resource, email: address() })),
    );
    const statuses = answers.map(({ status }) => status).sort((a, b) => a - b);
    expect(statuses).toEqual([200, 200, 409, 409, 409, 409, 409, 409]);
    expect((await invite(maker, { resource, email: renewed })).status).toBe(200);
  });

  it('refuses an end that is no moment', async () => {
    const resource = await create();
    for (const expiresAt of ['9999-12-31T23:59:59-12:00', '2099-01-31T12:00:00Z[Europe/Berlin]'])
      expect(await invite(anna, { resource, email: address(), expiresAt })).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'expiresAt' }] },
      });
  });

  it('is limited for each address', async () => {
    const [resource, email] = [await create(), address()];
    const answers = [];
    for (let n = 0; n < 9; n += 1) answers.push((await invite(anna, { resource, email })).status);
    expect(answers.filter((status) => status === 200)).toHaveLength(8);
    expect(answers.at(-1)).toBe(429);
  });

  it('has no routes while it is off', async () => {
    const config = (enabled: boolean) =>
      platform.admin.patch('/config/authentication', { config: { shareInvitations: { enabled } } });
    await config(false);
    expect((await anna.api.get(`${path}/received`)).status).toBe(404);
    await config(true);
    expect((await anna.api.get(`${path}/received`)).status).toBe(200);
  });
});
