/** What moderation must not leave open, and what nobody may moderate. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
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

it('who is blocked says nothing in a direct room by an edit, a sign or a name either', async () => {
  const eve = await platform.registerUser();
  const { roomId } = (await ann.api.post('/chat/rooms/direct', { user: eve.userId })).body;
  const a = await connectChat(platform, ann);
  const e = await connectChat(platform, eve);
  const { _id } = await a.ask('message', roomId, 'before');
  expectStatus(await eve.api.put(`/chat/blocks/${ann.userId}`), 200, 'the block');
  const refused = { error: { code: 'CHAT_WRITING_DENIED' } };
  expect(await a.ask('editMessage', { messageId: _id, message: 'after' })).toMatchObject(refused);
  expect(await a.ask('react', { messageId: _id, emoji: 'again' })).toMatchObject(refused);
  expect(await a.ask('typing', { roomId, state: 'start' })).toMatchObject(refused);
  const answers = [
    await ann.api.patch(`/chat/messages/${_id}`, { newMessage: 'after' }),
    await ann.api.put(`/chat/messages/${_id}/reactions`, { emoji: 'again' }),
    await ann.api.patch(`/chat/rooms/${roomId}`, { name: 'after', metadata: { words: 'after' } }),
  ];
  for (const { status, body } of answers)
    expect([status, body.code]).toEqual([403, 'CHAT_WRITING_DENIED']);
  // What was said may be taken back.
  expectStatus(await ann.api.delete(`/chat/messages/${_id}`), 200, 'the deletion');
  await waitFor(() => e.of('message-deleted').length === 1);
  const heard = ['message-edited', 'message-reaction', 'room-updated', 'typing'];
  expect(heard.flatMap((event) => e.of(event))).toEqual([]);
});

it('a message that is reported anew is open again: it may say something else now', async () => {
  const room = await makeRoom(ann, [bob]);
  const b = await connectChat(platform, bob);
  const { _id } = await b.ask('message', room, 'harmless');
  const report = (reason: string) => ann.api.post(`/chat/messages/${_id}/report`, { reason });
  const open = async () =>
    (await platform.admin.get('/chat/reports', { query: { state: 'open' } })).body.reports.filter(
      ({ message }: { message: string }) => message === _id,
    );
  expectStatus(await report('first'), 200, 'a report');
  const [{ _id: reportId }] = await open();
  expectStatus(await platform.admin.put(`/chat/reports/${reportId}/resolve`), 200, 'the end');
  expect(await open()).toEqual([]);
  await b.ask('editMessage', { messageId: _id, message: 'rude' });
  expectStatus(await report('second'), 200, 'another report');
  const again = { _id: reportId, reason: 'second', content: 'rude', resolvedAt: null };
  expect(await open()).toMatchObject([{ ...again, resolvedBy: null }]);
});

it('a room that is gone lets nobody see who is there', async () => {
  const eve = await platform.registerUser();
  await configure(platform, { auditMode: true });
  const room = await makeRoom(ann, [eve]);
  const a = await connectChat(platform, ann);
  const asked = async () => (await a.ask('presenceSubscribe', { userIds: [eve.userId] })).users;
  expect(await asked()).toHaveLength(1);
  const gone = await platform.admin.delete('/chat/rooms', { query: { ids: room } });
  expectStatus(gone, 200, 'the deletion');
  expect(await asked()).toEqual([]);
  await configure(platform, { auditMode: false });
});

it('who says again and again that they have read a room is heard once', async () => {
  const room = await makeRoom(ann, [bob]);
  const a = await connectChat(platform, ann);
  const b = await connectChat(platform, bob);
  await a.ask('message', room, 'read me');
  for (let n = 0; n < 3; n += 1)
    expect(await b.ask('messagesRead', room)).toMatchObject({ unreadCount: 0 });
  await a.ask('message', room, 'end');
  await waitFor(() => a.of('message').some(({ content }) => content === 'end'));
  const told = { room, readBy: bob.userId };
  expect(a.of('messagesRead')).toEqual([told]);
  expect(b.of('messagesRead')).toEqual([told, told, told]);
});

it('who was silenced has no voice after they have left and come back either', async () => {
  const eve = await platform.registerUser();
  const room = await makeRoom(ann, [bob, eve]);
  const say = () =>
    eve.api.post(`/chat/rooms/${room}/messages`, { contentType: 'text', content: 'here' });
  const comeBack = async () => {
    expectStatus(await eve.api.put(`/chat/leave/${room}`), 200, 'leaving');
    const add = await bob.api.put(`/chat/rooms/${room}/addUsers`, { users: [eve.userId] });
    expectStatus(add, 200, 'coming back');
  };
  const silence = `/chat/rooms/${room}/members/${eve.userId}/silence`;
  expectStatus(await ann.api.put(silence, { until: until() }), 200, 'silence');
  await comeBack();
  expect((await say()).body.code).toBe('CHAT_WRITING_DENIED');
  expectStatus(await ann.api.put(silence, { until: null }), 200, 'voice');
  expectStatus(await say(), 200, 'a message');
  await comeBack();
  expectStatus(await say(), 200, 'a message');
});

it('nobody blocks themselves: they could make no room any more', async () => {
  const answer = await ann.api.put(`/chat/blocks/${ann.userId}`, {});
  expect(answer).toMatchObject({ status: 400, body: { errors: [{ path: 'userId' }] } });
});

it('what is kept with a room is bounded: it comes with every list of the rooms of its members', async () => {
  const refused = { status: 400, body: { errors: [{ path: 'metadata', rule: 'maxLength' }] } };
  const metadata = { text: 'x'.repeat(65_536) };
  const room = { roomName: 'large', users: [bob.userId], metadata };
  expect(await ann.api.post('/chat/rooms', room)).toMatchObject(refused);
  const id = await makeRoom(ann, [bob]);
  expect(await ann.api.patch(`/chat/rooms/${id}`, { metadata })).toMatchObject(refused);
  expect((await ann.api.patch(`/chat/rooms/${id}`, { metadata: null })).status).toBe(200);
});
