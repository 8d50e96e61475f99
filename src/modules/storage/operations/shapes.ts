/** What requests and answers about files look like. */
import Type from 'typebox';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { maxReferenceLength } from '../../../kernel/permissions.ts';
import type { StorageConfig } from '../config.ts';
import { sortedBy } from '../schemas.ts';

export const FileParams = Type.Object({
  id: Type.String({ format: 'uuid', description: 'Its id' }),
});
export const LegacyFileParams = Type.Object({ fileId: Type.String({ format: 'uuid' }) });

const text = (description: string, maxLength = 1_024) => Type.String({ maxLength, description });
/** What may be said about any file, new or not. */
export const fileFields = {
  name: Type.Optional(text('Without it a new file gets a random one')),
  alias: Type.Optional(text('Name for people, used for downloads')),
  folder: Type.Optional(text('Path from the root of the container: `a/b`', 2_048)),
  container: Type.Optional(text('The default one unless given', 100)),
  mimeType: Type.Optional(text('A hint: the content decides', 255)),
  metadata: Type.Optional(
    Type.Record(Type.String({ maxLength: 100 }), Type.Unknown(), {
      description: 'What the app wants to keep with it: at most 4,096 bytes of JSON',
    }),
  ),
};

/** For whom the caller acts, where relations decide (`authorization.enabled`); else it says nothing. */
export const scopeField = {
  scope: Type.Optional(
    text(
      '`Type:id` for which you act, such as a team; needs authorization.enabled',
      maxReferenceLength,
    ),
  ),
};

/** When a file is deleted by itself. */
const expiresAt = Type.String({
  format: 'date-time',
  description: 'When the file is deleted by itself',
});

/** What may be said about a file that is there. */
export const changedFields = {
  ...fileFields,
  expiresAt: Type.Optional(Type.Union([expiresAt, Type.Null()])),
};

/** The time of a request as the services take it. */
export const patchOf = <T extends { readonly expiresAt?: string | null }>({
  expiresAt: at,
  ...rest
}: T) => ({
  ...rest,
  ...(at !== undefined && { expiresAt: at === null ? null : new Date(at) }),
});

/** The same of a new file, which needs no word to have no end. */
export const requestOf = <T extends { readonly expiresAt?: string }>({
  expiresAt: at,
  ...rest
}: T) => ({ ...rest, ...(at !== undefined && { expiresAt: new Date(at) }) });

export const newFileFields = {
  expiresAt: Type.Optional(expiresAt),
  ...fileFields,
  isPublic: Type.Optional(Type.Boolean({ description: 'Everybody may read it' })),
  upsert: Type.Optional(
    Type.Boolean({ description: 'A file of that name gets the new content, if it is yours' }),
  ),
};

/** What the bytes of a request are, so that others are refused (CHECKSUM_MISMATCH). */
export const checksumField = {
  checksum: Type.Optional(
    Type.String({
      pattern: '^[0-9a-fA-F]{64}$',
      description: 'SHA-256 of the content in hex: anything else is refused',
    }),
  ),
};

/** `Prefer: handling=overwrite` means the same as `upsert`. */
export const preferHeaders = Type.Object({ prefer: Type.Optional(text('handling=overwrite')) });

export const wantsOverwrite = (
  upsert: boolean | undefined,
  { prefer }: { readonly prefer?: string },
): boolean => upsert ?? /(?:^|[,;\s])handling="?overwrite"?(?:$|[,;\s])/i.test(prefer ?? '');

/** Of work that goes on in the background: GET /storage/tasks/:id on the admin surface. */
export const taskId = Type.String({ format: 'uuid', description: 'The task that does it' });

export const Success = Type.Object({ success: Type.Literal(true), message: Type.String() });

/** A page of a list; a larger one than is allowed is cut. */
export const pageOf = ({ config }: { config: () => StorageConfig }) => ({
  ...pagingQuery(),
  limit: Type.Integer({
    default: 25,
    minimum: 1,
    maximum: 1_000,
    description: `At most ${config().listing.maxPage} are answered`,
  }),
});

/** Lists of files: pages by place, and how they are counted. */
export const cursorFields = {
  cursor: Type.Optional(
    Type.String({
      maxLength: 8_192,
      description:
        'Pages by place instead of by number: "start" first, then the `nextCursor` of the page before. As fast at any depth; not together with skip',
    }),
  ),
  count: Type.Optional(
    Type.Enum(['exact', 'estimated', 'none'], {
      description:
        'How `filesCount` is made; exact unless given. The others stay fast among many files',
    }),
  ),
};

export const filterFields = {
  container: Type.Optional(text('Name of a container', 100)),
  folder: Type.Optional(text('Files directly in it; `/`: those in none', 2_048)),
  search: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: 'A part of the name, in any case' }),
  ),
  sort: Type.Optional(
    Type.Array(Type.Enum(sortedBy.flatMap((name) => [name, `-${name}`])), {
      maxItems: 4,
      description: 'What to order by; - in front: descending',
    }),
  ),
};
