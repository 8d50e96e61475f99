/** Puts documents in the place of ids: of users what is public of them, and nothing else. */
import { publicRecords } from '../../../data/records/read/public-records.ts';
import { hasAuthority } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { findRooms } from '../queries/rooms.ts';
import type { ChatParts } from './chat-parts.ts';
import { roomDocument } from './wire.ts';

/** Fields of chat that name users, by one id or several. */
const userFields = [
  'senderUser',
  'readBy',
  'participants',
  'creator',
  'sender',
  'receiver',
  'user',
  'bannedBy',
  'users',
] as const;

type UserField = (typeof userFields)[number];
export type Populate = UserField | 'room' | 'files';

type Document = Readonly<Record<string, unknown>>;

/** The documents with `fields` replaced; an id that leads to nothing that the caller may see stays an id. */
export async function populated<D extends Document>(
  parts: ChatParts,
  caller: Caller,
  documents: readonly D[],
  fields: readonly Populate[],
): Promise<readonly D[]> {
  if (documents.length === 0 || fields.length === 0) return documents;
  const idsOf = (names: readonly Populate[]): readonly string[] => [
    ...new Set(
      documents.flatMap((document) =>
        names.flatMap((name) => [document[name]].flat()).filter((id) => typeof id === 'string'),
      ),
    ),
  ];
  const requestedUsers = fields.filter((field) => userFields.some((name) => name === field));
  const [users, rooms, files] = await Promise.all([
    usersOf(parts, caller, idsOf(requestedUsers)),
    fields.includes('room') ? roomsById(parts, idsOf(['room'])) : none,
    fields.includes('files') ? filesOf(parts, caller, idsOf(['files'])) : none,
  ]);
  const known = new Map([...users, ...rooms, ...files]);
  const filled = (value: unknown): unknown =>
    Array.isArray(value) ? value.map(filled) : (known.get(value as string) ?? value);
  return documents.map((document) => ({
    ...document,
    ...Object.fromEntries(
      fields.flatMap((field) =>
        document[field] === undefined ? [] : [[field, filled(document[field])]],
      ),
    ),
  }));
}

const none: ReadonlyMap<string, unknown> = new Map();

const accounts = { kind: 'module', module: 'authentication' } as const;

/** Operators see accounts, as their lists show them, where their credential reaches these; users see what is public. */
async function usersOf(
  parts: ChatParts,
  caller: Caller,
  ids: readonly string[],
): Promise<ReadonlyMap<string, unknown>> {
  if (ids.length === 0) return none;
  if (caller.kind === 'admin') {
    if (!hasAuthority(caller, accounts)) return none;
    const { rows } = await parts.database.query<{ _id: string }>(sql`
      select "_id", "email", "username", "active", "isVerified", "createdAt" from "app"."User" where "_id" = any(${ids}::uuid[])`);
    return new Map(rows.map((row) => [row._id, row]));
  }
  const records = await publicRecords(parts, caller, 'User', ids);
  return new Map(records.map(({ id, json }) => [id, JSON.parse(json) as unknown]));
}

/** Rooms of messages that the caller was shown. */
async function roomsById(
  { database }: ChatParts,
  ids: readonly string[],
): Promise<ReadonlyMap<string, unknown>> {
  const page = { order: 'r."_id"', skip: 0, limit: ids.length };
  const { rows } = await findRooms(database, { ids, ...page });
  return new Map(rows.map((row) => [row.id, roomDocument(row)]));
}

async function filesOf(
  { storage }: ChatParts,
  caller: Caller,
  ids: readonly string[],
): Promise<ReadonlyMap<string, unknown>> {
  return ids.length === 0 ? none : ((await storage.current()?.readable(caller, ids)) ?? none);
}
