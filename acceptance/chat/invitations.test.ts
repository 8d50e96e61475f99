import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, configure, connectChat, makeRoom } from './clients.ts';

describe('explicit joins', () => {
  let platform: TestPlatform;
  let ann: TestUser;
  let bob: TestUser;
  let eve: TestUser;
  const redirect = (values: Json) =>
    configure(platform, { explicit_room_joins: { redirect: values } });

  beforeAll(async () => {
    platform = await createTestPlatform();
    [ann, bob, eve] = await Promise.all([
      platform.registerUser(),
      platform.registerUser(),
      platform.registerUser(),
    ]);
    await configure(platform, { explicit_room_joins: { enabled: true, send_email: true } });
  });
  afterEach(closeClients);
  afterAll(() => platform?.close());

  const received = async (user: TestUser): Promise<Json[]> =>
    (await user.api.get('/chat/invitations/received')).body.invitations;
  const memberCount = async (room: string): Promise<number> =>
    (await platform.admin.get(`/chat/rooms/${room}`)).body.participantCount;
  /** Path of the link in the last mail to the user. */
  const linkOf = async (user: TestUser, answer: 'accept' | 'decline'): Promise<string> =>
    waitFor(async () => {
      const { body } = await platform.admin.get('/communications/messages', {
        query: { recipient: user.email, limit: 1 },
      });
      const [message] = body.messages ?? [];
      const whole =
        message && (await platform.admin.get(`/communications/messages/${message._id}`)).text;
      return new RegExp(`/hook/chat/invitations/${answer}/[A-Za-z0-9_-]{43}`).exec(
        whole ?? '',
      )?.[0];
    }) as Promise<string>;

  it('invite instead of adding; many answers at once count once', async () => {
    const room = await makeRoom(ann, [bob, eve], 'By invitation');
    expect(await memberCount(room)).toBe(1);
    const b = await connectChat(platform, bob);
    const [invitation] = await received(bob);
    expect(invitation).toMatchObject({ room, roomName: 'By invitation', sender: ann.userId });
    expect(invitation).not.toHaveProperty('token');
    expect((await ann.api.get('/chat/invitations/sent')).body.count).toBe(2);
    expect((await eve.api.post(`/chat/invitations/${invitation!._id}/accept`)).status).toBe(404);
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => bob.api.post(`/chat/invitations/${invitation!._id}/accept`)),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.find(({ status }) => status === 200)!.body).toEqual({
      result: 'Invitation accepted',
    });
    await waitFor(() => b.of('room-joined').length === 1);
    expect(await b.ask('message', room, 'here I am')).toMatchObject({ ok: true });
    const [second] = await received(eve);
    const declined = await eve.api.get(`/chat/invitations/decline/${second!._id}`);
    expect(declined.body).toEqual({ result: 'Invitation declined' });
    expect(await memberCount(room)).toBe(2);
    const invite = { users: [eve.userId] };
    const again = await ann.api.put(`/chat/rooms/${room}/addUsers`, invite);
    expect(again.body).toEqual({ result: 'Invitations sent' });
    expect((await ann.api.put(`/chat/rooms/${room}/addUsers`, invite)).body.code).toBe(
      'CHAT_INVITATION_EXISTS',
    );
    const [third] = await received(eve);
    expect((await eve.api.get(`/chat/invitations/maybe/${third!._id}`)).status).toBe(400);
    expect((await eve.api.delete(`/chat/invitations/cancel/${third!._id}`)).status).toBe(403);
    const open = await platform.admin.get(`/chat/invitations/${room}`);
    expect(open.body).toMatchObject({ count: 1, invitations: [{ receiver: eve.userId }] });
    expect(open.text).not.toContain('token');
    expect((await ann.api.delete(`/chat/invitations/cancel/${third!._id}`)).body).toEqual({
      result: 'Invitation canceled successfully',
    });
    expect(await received(eve)).toEqual([]);
  });

  it('answer by the link of the mail: nothing changes without a token', async () => {
    const room = await makeRoom(ann, [bob]);
    const path = await linkOf(bob, 'accept');
    expect((await platform.client.get(path)).status).toBe(400);
    await redirect({
      login_uri: 'https://app.example/login?x=1',
      accept_uri: 'https://app.example/rooms/{roomId}',
    });
    const asked = await platform.client.get(path);
    expect(asked.status).toBe(302);
    const target = new URL(asked.headers.get('location') ?? '');
    expect(target.origin + target.pathname).toBe('https://app.example/login');
    expect(target.searchParams.get('redirectUri')).toBe(`${platform.addresses.client}${path}`);
    expect(await memberCount(room)).toBe(1);
    expect((await eve.api.get(path)).status).toBe(403);
    const done = await bob.api.get(path);
    expect([done.status, done.headers.get('location')]).toEqual([
      302,
      `https://app.example/rooms/${room}`,
    ]);
    expect(await memberCount(room)).toBe(2);
    expect((await bob.api.get(path)).status).toBe(404);
    await redirect({ login_uri: '', accept_uri: '' });
    await makeRoom(ann, [eve]);
    const declined = await eve.api.get(await linkOf(eve, 'decline'));
    expect(declined.body).toEqual({ result: 'Invitation declined' });
  });

  it('lead to the page for a refusal; a second one takes the place of the first', async () => {
    await redirect({ decline_uri: 'https://app.example/left/{roomId}' });
    const room = await makeRoom(ann, [bob, eve], 'pushed');
    const [first] = await received(eve);
    await bob.api.get(await linkOf(bob, 'accept'));
    const again = await bob.api.put(`/chat/rooms/${room}/addUsers`, { users: [eve.userId] });
    expect(again.body).toEqual({ result: 'Invitations sent' });
    const [second] = await received(eve);
    expect(second).toMatchObject({ _id: first!._id, sender: bob.userId });
    const declined = await eve.api.get(await linkOf(eve, 'decline'));
    expect([declined.status, declined.headers.get('location')]).toEqual([
      302,
      `https://app.example/left/${room}`,
    ]);
    await redirect({ decline_uri: '' });
  });

  it('end with the right of whoever sent them', async () => {
    const room = await makeRoom(ann, [bob], 'Left behind');
    const [toBob] = await received(bob);
    expect((await bob.api.post(`/chat/invitations/${toBob!._id}/accept`)).status).toBe(200);
    await bob.api.put(`/chat/rooms/${room}/addUsers`, { users: [eve.userId] });
    const [invitation] = await received(eve);
    const path = await linkOf(eve, 'accept');
    const accept = () => eve.api.post(`/chat/invitations/${invitation!._id}/accept`);
    const lapsed = async () => {
      expect(await received(eve)).toEqual([]);
      expect((await accept()).body.code).toBe('CHAT_INVITATION_NOT_FOUND');
      expect((await eve.api.get(path)).status).toBe(404);
    };
    await configure(platform, { permissions: { addUsers: 'admins' } });
    await lapsed();
    await configure(platform, { permissions: { addUsers: 'anyMember' } });
    const toggle = (how: string) =>
      platform.admin.post(`/authentication/users/${bob.userId}/${how}`);
    expect((await toggle('block')).status).toBe(200);
    await lapsed();
    expect((await toggle('unblock')).status).toBe(200);
    expect(await received(eve)).toHaveLength(1);
    const removed = await ann.api.put(`/chat/rooms/${room}/removeUsers`, { users: [bob.userId] });
    expect(removed.status, removed.text).toBe(200);
    await lapsed();
    expect(await memberCount(room)).toBe(1);
    bob = await platform.registerUser();
  });

  it('are pushed to devices, where that is set, with names of people', async () => {
    await configure(platform, {
      explicit_room_joins: { send_email: false, send_notification: true },
    });
    await eve.api.post('/token', { token: `phone-${eve.userId}`, platform: 'IOS' });
    const e = await connectChat(platform, eve);
    const room = await makeRoom(ann, [eve], 'By push');
    await waitFor(() => e.of('room-invitation').length === 1);
    expect(e.of('room-invitation')).toEqual([{ room, roomName: 'By push', sender: ann.userId }]);
    const captured = await waitFor(async () => {
      const query = { recipient: eve.userId, limit: 1 };
      const { messages } = (await platform.admin.get('/communications/messages', { query })).body;
      const path = `/communications/messages/${messages[0]?._id}`;
      return (await platform.admin.get(path)).body.content?.push;
    });
    expect(captured).toMatchObject({ title: 'Invitation', data: { room } });
    expect(captured.body).toContain('invites you to By push');
    expect(captured.body).not.toContain(ann.userId);
    await configure(platform, {
      explicit_room_joins: { send_email: true, send_notification: false },
    });
  });

  it('are not there while users are added at once', async () => {
    await configure(platform, { explicit_room_joins: { enabled: false } });
    expect((await bob.api.get('/chat/invitations/received')).status).toBe(404);
    await configure(platform, { explicit_room_joins: { enabled: true } });
    expect((await bob.api.get('/chat/invitations/received')).status).toBe(200);
  });

  it('are not guessed: an address asks for fifty links in an hour, for each person behind it', async () => {
    await platform.admin.patch('/config/router', {
      config: { rateLimit: { peoplePerAddress: 1 } },
    });
    const path = `/hook/chat/invitations/accept/${'x'.repeat(43)}`;
    expect((await platform.client.get('/hook/chat/invitations/maybe/x')).status).toBe(400);
    const statuses = await Promise.all(
      Array.from({ length: 60 }, async () => (await platform.client.get(path)).status),
    );
    expect(new Set(statuses)).toEqual(new Set([404, 429]));
  });
});
