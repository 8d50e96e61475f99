/** How rooms, messages, invitations, files and what belongs to them are named in calls. */
import type { TestUser } from '../../test/support/node.ts';
import { mark, type World } from './world.ts';

/** Method and path as in `/swagger.json`, query and body. */
export interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Only strangers make it: the owner has nothing left that it works with. */
  readonly onlyRefused?: true;
  /** Whose call it is, where that is not Anna. */
  readonly by?: (world: World) => TestUser;
}

export type Calls = (world: World) => readonly Call[];

export const get = (path: string): Call => ({ method: 'GET', path });
export const post = (path: string, body: unknown = {}): Call => ({ method: 'POST', path, body });
export const put = (path: string, body: unknown = {}): Call => ({ method: 'PUT', path, body });
export const patch = (path: string, body: unknown = {}): Call => ({ method: 'PATCH', path, body });
export const remove = (path: string): Call => ({ method: 'DELETE', path });

const tus = { 'tus-resumable': '1.0.0' };
const bytes = { 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' };

export function chatCalls(): Readonly<Record<string, Calls>> {
  return {
    'chat.rooms.get': ({ ids }) => [get(`/chat/rooms/${ids.room}`)],
    'chat.rooms.members': ({ ids }) => [get(`/chat/rooms/${ids.room}/members`)],
    'chat.rooms.messages': ({ ids }) => [get(`/chat/rooms/${ids.room}/messages`)],
    'chat.messages.list': ({ ids }) => [get(`/chat/messages?roomId=${ids.room}`)],
    'chat.messages.get': ({ ids }) => [get(`/chat/messages/${ids.message}`)],
    'chat.messages.edits': ({ ids }) => [get(`/chat/messages/${ids.message}/edits`)],
    'chat.messages.edit': ({ ids }) => [
      patch(`/chat/messages/${ids.message}`, { newMessage: `${mark} 1` }),
      put(`/chat/messages/${ids.message}`, { newMessage: `${mark} 2` }),
    ],
    'chat.messages.react': ({ ids }) => [
      put(`/chat/messages/${ids.message}/reactions`, { emoji: '👍' }),
    ],
    'chat.messages.unreact': ({ ids }) => [
      remove(`/chat/messages/${ids.message}/reactions?emoji=${encodeURIComponent('👍')}`),
    ],
    'chat.messages.send': ({ ids }) => [
      post(`/chat/rooms/${ids.room}/messages`, { contentType: 'text', content: 'hello' }),
    ],
    'chat.rooms.read': ({ ids }) => [put(`/chat/rooms/${ids.room}/read`, { upTo: ids.message })],
    'chat.rooms.mute': ({ ids }) => [put(`/chat/rooms/${ids.room}/mute`, { muted: true })],
    'chat.rooms.update': ({ ids }) => [patch(`/chat/rooms/${ids.room}`, { name: `${mark} 2` })],
    'chat.rooms.addUsers': ({ ids, eve }) => [
      put(`/chat/rooms/${ids.room}/addUsers`, { users: [eve.userId] }),
    ],
    'chat.invitations.accept': ({ ids }) => [
      { ...post(`/chat/invitations/${ids.invitation}/accept`), by: ({ carl }) => carl },
    ],
    'chat.rooms.setRoles': ({ ids, carl }) => [
      put(`/chat/rooms/${ids.room}/roles`, { users: [carl.userId], role: 'admin' }),
    ],
    'chat.members.silence': ({ ids, carl }) => [
      put(`/chat/rooms/${ids.room}/members/${carl.userId}/silence`, { until: null }),
    ],
    'chat.rooms.removeUsers': ({ ids, carl }) => [
      put(`/chat/rooms/${ids.room}/removeUsers`, { users: [carl.userId] }),
    ],
    'chat.bans.add': ({ ids, carl }) => [
      post(`/chat/rooms/${ids.room}/bans`, { user: carl.userId }),
    ],
    'chat.bans.list': ({ ids }) => [get(`/chat/rooms/${ids.room}/bans`)],
    'chat.bans.remove': ({ ids, carl }) => [remove(`/chat/rooms/${ids.room}/bans/${carl.userId}`)],
    'chat.messages.report': ({ ids }) => [
      post(`/chat/messages/${ids.message}/report`, { reason: 'spam' }),
    ],
    'chat.invitations.cancel': ({ ids }) => [
      { ...remove(`/chat/invitations/cancel/${ids.invitation}`), onlyRefused: true },
    ],
    'chat.invitations.answer': ({ ids }) => [
      { ...get(`/chat/invitations/accept/${ids.invitation}`), onlyRefused: true },
    ],
    'chat.invitations.decline': ({ ids }) => [
      { ...post(`/chat/invitations/${ids.invitation}/decline`), onlyRefused: true },
    ],
    'chat.messages.delete': ({ ids }) => [remove(`/chat/messages/${ids.message}`)],
    'chat.rooms.leave': ({ ids }) => [put(`/chat/leave/${ids.room}`)],
  };
}

export function fileCalls(): Readonly<Record<string, Calls>> {
  const scopes = ({ ids, anna }: World) => [`Team:${ids.team}`, `User:${anna.userId}`];
  const name = `${mark}.txt`;
  return {
    'storage.file.get': ({ ids }) => [get(`/storage/file/${ids.file}`)],
    'storage.file.many': ({ ids }) => [get(`/storage/files/many?ids=${ids.file}`)],
    'storage.file.data': ({ ids }) => [get(`/storage/file/data/${ids.file}`)],
    'storage.file.download': ({ ids }) => [get(`/storage/download/${ids.file}`)],
    'storage.file.url': ({ ids }) => [get(`/storage/getFileUrl/${ids.file}?redirect=false`)],
    'storage.file.image': ({ ids }) => [
      { ...get(`/storage/file/${ids.file}/image?w=10`), onlyRefused: true },
    ],
    'storage.file.list': (world) =>
      scopes(world).map((scope) => get(`/storage/files?scope=${scope}&of=readable`)),
    'storage.usage.get': (world) =>
      scopes(world).map((scope) => get(`/storage/usage?scope=${scope}`)),
    'storage.file.copy': ({ ids }) => [
      post(`/storage/file/${ids.file}/copy`, { name: `${mark}-2.txt` }),
    ],
    'storage.file.update': ({ ids }) => [
      patch(`/storage/file/${ids.file}`, { metadata: { of: mark } }),
    ],
    'storage.file.create': () => [
      post('/storage/file', { data: btoa('mine'), name, folder: mark, upsert: true }),
    ],
    'storage.upload.create': () => [
      post('/storage/upload', {
        name,
        folder: mark,
        size: 4,
        mimeType: 'text/plain',
        upsert: true,
      }),
    ],
    'storage.upload.update': ({ ids }) => [
      patch(`/storage/upload/${ids.file}`, { name, folder: mark, size: 4 }),
    ],
    'storage.upload.complete': ({ ids }) => [
      { ...post(`/storage/upload/${ids.upload}/complete`), onlyRefused: true },
    ],
    'storage.file.move': ({ ids }) => [post(`/storage/file/${ids.file}/move`, { name })],
    'storage.link.create': ({ ids }) => [post(`/storage/file/${ids.file}/links`)],
    'storage.link.list': ({ ids }) => [get(`/storage/file/${ids.file}/links`)],
    'storage.link.revoke': ({ ids }) => [remove(`/storage/file/${ids.file}/links/${ids.link}`)],
    'storage.folder.contents': ({ ids }) => [get(`/storage/folder/${ids.folder}`)],
    'storage.folder.remove': ({ ids }) => [remove(`/storage/folder/${ids.folder}`)],
    'storage.resumable.get': ({ ids }) => [
      { ...get(`/storage/resumable/${ids.resumable}`), headers: tus },
    ],
    'storage.resumable.append': ({ ids }) => [
      { ...patch(`/storage/resumable/${ids.resumable}`, 'hel'), headers: { ...tus, ...bytes } },
    ],
    'storage.resumable.remove': ({ ids }) => [
      { ...remove(`/storage/resumable/${ids.resumable}`), headers: tus },
    ],
    'storage.trash.restore': ({ ids }) => [post(`/storage/trash/${ids.trashed}/restore`)],
    'storage.trash.remove': ({ ids }) => [
      { ...remove(`/storage/trash/${ids.trashed}`), onlyRefused: true },
    ],
    'storage.file.visibility': ({ ids }) => [
      patch(`/storage/file/${ids.file}/visibility`, { isPublic: true }),
    ],
    'storage.file.remove': ({ ids }) => [remove(`/storage/file/${ids.file}`)],
  };
}
