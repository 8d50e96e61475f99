/** What other backends answer to the moves of the guides: a public note with a photo, and a private one. */
import type { Json } from '../../test/support/api.ts';
import type { TestPlatform } from '../../test/support/platform.ts';
import type { Fetch, Names } from './code.ts';

export const createdAt = '2024-01-31T12:00:00.000Z';
export const picture = 'the picture';
const rows = [
  { id: 'first', title: 'Public', isPublic: true, author: 'u1', photo: 'a.jpg' },
  { id: 'second', title: 'Private', isPublic: false, author: 'u1', photo: '' },
];

/** The names that a move finds, where the other backend has one user with this address. */
export type OtherBackend = (platform: TestPlatform, email: string) => Names;

/** `fetch`, with answers for addresses that are not of the platform. */
function played({ addresses }: TestPlatform, answer: (url: URL) => unknown): Names {
  const fetchOrPlay: Fetch = async (url, init) => {
    const address = new URL(url);
    if (address.href.startsWith(addresses.admin)) return fetch(url, init);
    const found = answer(address);
    return found instanceof Blob ? new Response(found) : Response.json(found);
  };
  return { fetch: fetchOrPlay };
}

export const pocketBase: OtherBackend = (platform, email) =>
  played(platform, ({ pathname }) => {
    if (pathname.endsWith('/auth-with-password')) return { token: 'theirs' };
    if (pathname.startsWith('/api/files/notes/first/')) return new Blob([picture]);
    const created = createdAt.replace('T', ' ');
    const notes = rows.map((row) => ({ ...row, created }));
    return { items: pathname.includes('/users/') ? [{ id: 'u1', email }] : notes };
  });

export const supabase: OtherBackend = (platform, email) =>
  played(platform, ({ pathname, searchParams }) => {
    if (pathname.startsWith('/storage/')) return new Blob([picture]);
    const isFirst = searchParams.get('page') === '1' || searchParams.get('offset') === '0';
    if (pathname.startsWith('/auth/')) return { users: isFirst ? [{ id: 'u1', email }] : [] };
    return isFirst ? rows.map(supabaseRow) : [];
  });

const supabaseRow = ({ title, isPublic, author, photo }: (typeof rows)[number], at: number) => ({
  id: `6d0c3c1e-8c57-4f0e-9d52-0000000000a${at}`,
  title,
  is_public: isPublic,
  author,
  photo_path: photo && `u1/${photo}`,
  created_at: '2024-01-31T12:00:00+00:00',
});

export const firebase: OtherBackend = (_platform, email) => {
  const docs = rows.map(({ id, photo, ...row }) => ({
    id,
    data: () => ({
      ...row,
      photoPath: photo && `u1/${photo}`,
      createdAt: { toDate: () => new Date(createdAt) },
    }),
  }));
  const query = (found: readonly unknown[]): Json => ({
    orderBy: () => query(found),
    limit: () => query(found),
    startAfter: () => query([]),
    get: async () => ({ docs: found }),
  });
  return {
    initializeApp: () => undefined,
    getAuth: () => ({ listUsers: async () => ({ users: [{ uid: 'u1', email }] }) }),
    FieldPath: { documentId: () => '__name__' },
    getFirestore: () => ({ collection: () => query(docs) }),
    getStorage: () => ({
      bucket: () => ({ file: () => ({ download: async () => [Buffer.from(picture)] }) }),
    }),
  };
};
