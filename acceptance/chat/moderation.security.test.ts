/** What moderation must not leave open, and what nobody may moderate. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { closeClients, configure, connectChat, makeRoom } from './clients.ts';

let platform: TestPlatform;
let ann: TestUser;
let bob: TestUser;

beforeAll(async () => {
  platform = await createTestPlatform();
  [ann, bob] = await Promise.all([platform.registerUser(), platform.registerUser()]);
});
afterEach(closeClients);
afterAll(() => platform?.close());

const until = () => new Date(Date.now() + 3_600_000).toISOString();

it('a member who was silenced says nothing by an edit or a sign either', async () => {
  const room = await makeRoom(ann, [bob]);
  const b = await connectChat(platform, bob);
  const { _id } = await b.ask('message', room, 'before');
  const silence = `/chat/rooms/${room}/members/${bob.userId}/silence`;
  expectStatus(await ann.api.put(silence, { until: until() }), 200, 'silence');
  const refused = { error: { code: 'CHAT_WRITING_DENIED' } };
  expect(await b.ask('editMessage', { messageId: _id, message: 'after' })).toMatchObject(refused);
  expect(await b.ask('react', { messageId: _id, emoji: '👍' })).toMatchObject(refused);
  const edit = await bob.api.patch(`/chat/messages/${_id}`, { newMessage: 'after' });
  expect([edit.status, edit.body.code]).toEqual([403, 'CHAT_WRITING_DENIED']);
  const react = await bob.api.put(`/chat/messages/${_id}/reactions`, { emoji: '👍' });
  expect([react.status, react.body.code]).toEqual([403, 'CHAT_WRITING_DENIED']);
  const read = await ann.api.get(`/chat/messages/${_id}`);
  expect(read.body).toMatchObject({ message: 'before', reactions: [] });
  expectStatus(await ann.api.put(silence, { until: null }), 200, 'voice');
  expect((await bob.api.patch(`/chat/messages/${_id}`, { newMessage: 'after' })).status).toBe(200);
});

it('an invitation that is older than a ban lets nobody in', async () => {
  await configure(platform, { explicit_room_joins: { enabled: true } });
  const room = await makeRoom(ann, [bob]);
  const { body } = await bob.api.get('/chat/invitations/received');
  const invitation = body.invitations.find((one: { room: string }) => one.room === room);
  const bans = `/chat/rooms/${room}/bans`;
  expectStatus(await ann.api.post(bans, { user: bob.userId }), 200, 'the ban');
  const accept = `/chat/invitations/${invitation._id}/accept`;
  const answer = await bob.api.post(accept);
  expect([answer.status, answer.body.code]).toEqual([404, 'CHAT_INVITATION_NOT_FOUND']);
  expect((await bob.api.get(`/chat/rooms/${room}`)).status).toBe(404);
  // The ban took the invitation back, and its end does not bring it again.
  expectStatus(await ann.api.delete(`${bans}/${bob.userId}`), 200, 'the end of the ban');
  expect((await bob.api.post(accept)).status).toBe(404);
  await configure(platform, { explicit_room_joins: { enabled: false } });
});

it('in a direct room nobody is above the other, whoever opened it', async () => {
  const { body } = await ann.api.post('/chat/rooms/direct', { user: bob.userId });
  const room = body.roomId ?? body._id;
  const b = await connectChat(platform, bob);
  const { _id } = await b.ask('message', room, 'mine');
  const member = `/chat/rooms/${room}/members/${bob.userId}`;
  const answers = [
    await ann.api.put(`${member}/silence`, { until: until() }),
    await ann.api.post(`/chat/rooms/${room}/bans`, { user: bob.userId }),
    await ann.api.put(`/chat/rooms/${room}/removeUsers`, { users: [bob.userId] }),
  ];
  for (const { status, body } of answers)
    expect([status, body.code]).toEqual([409, 'DIRECT_ROOM_PROTECTED']);
  expect((await ann.api.delete(`/chat/messages/${_id}`)).status).toBe(404);
  expect((await bob.api.get(`/chat/messages/${_id}`)).body.message).toBe('mine');
});

it('signs on a message are bounded: they come with every answer about it', async () => {
  const room = await makeRoom(ann, [bob]);
  const b = await connectChat(platform, bob);
  const { _id } = await b.ask('message', room, 'look');
  for (let n = 0; n < 20; n += 1)
    expect(await b.ask('react', { messageId: _id, emoji: `s${n}` })).not.toHaveProperty('error');
  const full = { error: { code: 'REACTIONS_FULL' } };
  expect(await b.ask('react', { messageId: _id, emoji: 's20' })).toMatchObject(full);
  expect(await b.ask('react', { messageId: _id, emoji: 's19' })).not.toHaveProperty('error');
  await b.ask('react', { messageId: _id, emoji: 's0', remove: true });
  expect(await b.ask('react', { messageId: _id, emoji: 's20' })).not.toHaveProperty('error');
  const answer = await ann.api.put(`/chat/messages/${_id}/reactions`, { emoji: 's20' });
  expect(answer.body.reactions).toHaveLength(20);
});

it('what was written before somebody joined has no signs of theirs either', async () => {
  await configure(platform, { history: 'joined' });
  const room = await makeRoom(ann, []);
  const a = await connectChat(platform, ann);
  const { _id } = await a.ask('message', room, 'before');
  const add = await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [bob.userId] });
  expectStatus(add, 200, 'bob');
  const react = await bob.api.put(`/chat/messages/${_id}/reactions`, { emoji: '👍' });
  expect([react.status, react.body.code]).toEqual([404, 'CHAT_MESSAGE_NOT_FOUND']);
  await configure(platform, { history: 'shared' });
});
