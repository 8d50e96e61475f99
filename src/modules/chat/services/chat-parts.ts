/** What the services of chat share. */
import type { Kernel } from '../../../host/kernel.ts';
import type { OptionalModule } from '../../../host/module.ts';
import type { UserCaller } from '../../../kernel/caller.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { readWhile } from '../../../kernel/read-while.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { CommunicationsService } from '../../communications/index.ts';
import type { StorageService } from '../../storage/index.ts';
import type { ChatConfig } from '../config.ts';
import { chatErrors } from '../errors.ts';
import { isBlockedIn, type MemberRow, memberOf, type PresentMember } from '../queries/members.ts';
import { type RoomRole, roomRoles } from '../schemas.ts';
import type { Hub } from './hub.ts';

export interface ChatParts
  extends Pick<
    Kernel,
    'database' | 'events' | 'limits' | 'metrics' | 'jobs' | 'schemas' | 'permissions'
  > {
  readonly config: () => ChatConfig;
  readonly hub: Hub;
  readonly communications: CommunicationsService;
  readonly storage: OptionalModule<StorageService>;
  /** Public address of the client surface. */
  readonly publicUrl: () => string;
  /** Counts a message that was refused. */
  readonly refused: (error: unknown) => void;
  readonly log: Logger;
}

/** The user of an operation with user access. */
export function userOf({ caller }: Pick<OperationContext, 'caller'>): UserCaller {
  if (caller.kind !== 'user') throw errors.UNAUTHORIZED();
  return caller;
}

/** The member that asks; throws CHAT_ROOM_NOT_FOUND for everybody else. */
export async function requireMember(
  { database }: Pick<ChatParts, 'database'>,
  roomId: string,
  userId: string,
): Promise<PresentMember> {
  const member = await memberOf(database, roomId, userId);
  if (!member) throw chatErrors.CHAT_ROOM_NOT_FOUND();
  return member;
}

/**
 * What a member reads of a room. Whoever leaves meanwhile is not shown what was said next; who has come back reads what
 * they may read since. Throws CHAT_ROOM_NOT_FOUND.
 */
export const readAsMember = <T>(
  parts: Pick<ChatParts, 'database'>,
  roomId: string,
  userId: string,
  read: (member: PresentMember) => Promise<T>,
): Promise<T> =>
  readWhile(
    () => requireMember(parts, roomId, userId),
    read,
    (before, now) => before.joinedSeq === now.joinedSeq,
  );

/**
 * The member that says something, in whatever way. Throws CHAT_ROOM_NOT_FOUND, and CHAT_WRITING_DENIED for who was
 * silenced, or is blocked by the other one of a direct room.
 */
export async function requireWriter(
  parts: Pick<ChatParts, 'database'>,
  roomId: string,
  userId: string,
): Promise<PresentMember> {
  const member = await requireMember(parts, roomId, userId);
  const { silencedUntil, isDirect } = member;
  if (silencedUntil && silencedUntil > new Date()) throw chatErrors.CHAT_WRITING_DENIED();
  if (isDirect && (await isBlockedIn(parts.database, roomId, userId)))
    throw chatErrors.CHAT_WRITING_DENIED();
  return member;
}

/** Whether the holder of one role can do what another can. */
export const reaches = (own: RoomRole, requested: RoomRole): boolean =>
  roomRoles.indexOf(own) >= roomRoles.indexOf(requested);

export function requireRole({ role }: Pick<MemberRow, 'role'>, requested: RoomRole): void {
  if (!reaches(role, requested)) throw chatErrors.ROOM_ROLE_REQUIRED();
}

const roleToAdd = { anyMember: 'member', admins: 'admin', creator: 'owner' } as const;

/** The least role of members who may bring others into a room. */
export const addingRole = ({ config }: Pick<ChatParts, 'config'>): RoomRole =>
  roleToAdd[config().permissions.addUsers];

/** Messages up to this one are not shown to the member. */
export const hiddenBefore = (
  { config }: Pick<ChatParts, 'config'>,
  { joinedSeq }: Pick<MemberRow, 'joinedSeq'>,
): number => (config().history === 'joined' ? joinedSeq : 0);

/** Ids in their canonical spelling, each once. */
export const distinct = (ids: readonly string[]): readonly string[] => [
  ...new Set(ids.map((id) => id.toLowerCase())),
];

/** Bytes of what an app keeps with a room, as JSON: it comes with each list of rooms of each member. */
const MAX_METADATA = 65_536;

/** Throws 400. */
export function requireSmallMetadata(metadata: unknown): void {
  if (metadata !== undefined && Buffer.byteLength(JSON.stringify(metadata)) > MAX_METADATA)
    throw invalid('metadata', 'maxLength', `takes at most ${MAX_METADATA} bytes as JSON`);
}
