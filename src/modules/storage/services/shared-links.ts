/**
 * Links that somebody gives to others: each has a secret of its own, an end, a number of uses if requested, and can be taken
 * back. It gives what its maker may still give. Signed addresses (links.ts) are for a moment and are not kept; these are rows, and the row counts.
 */
import type { Caller } from '../../../kernel/caller.ts';
import { newId } from '../../../kernel/ids.ts';
import { readWhile } from '../../../kernel/read-while.ts';
import { randomToken, sha256 } from '../../../kernel/security/tokens.ts';
import { storageErrors } from '../errors.ts';
import type { FileRow } from '../queries/files.ts';
import {
  deleteLink,
  insertLink,
  type LinkRow,
  listLinks,
  type UsableLink,
  usableLink,
  useLink,
} from '../queries/links.ts';
import { authorOf } from './access.ts';
import { confirmedFile } from './confirmed-reads.ts';
import type { Files } from './files.ts';
import type { ListPage } from './listing.ts';
import { makerMay } from './makers.ts';
import type { SignedUploads } from './signed-uploads.ts';
import { existing, type StorageParts } from './storage-parts.ts';

export interface NewLink {
  readonly expiresInSeconds: number;
  readonly maxUses?: number | undefined;
  readonly download?: boolean | undefined;
  readonly scope?: string | undefined;
}

export interface SharedLinks {
  /** The secret is shown here and never again. Throws 403 for who may not share the file. */
  create(caller: Caller, fileId: string, request: NewLink): Promise<{ link: LinkRow; url: string }>;
  /** Those that still have time. */
  list(
    caller: Caller,
    fileId: string,
    page: ListPage & { readonly scope?: string | undefined },
  ): Promise<{ readonly rows: readonly LinkRow[]; readonly count: number }>;
  /** Of all files, for operators. */
  listAll(page: ListPage): Promise<{ readonly rows: readonly LinkRow[]; readonly count: number }>;
  /** Takes a link back: the next who uses it is refused. Throws LINK_NOT_FOUND. */
  revoke(caller: Caller, fileId: string, linkId: string, scope?: string): Promise<void>;
  /** The same for operators. */
  revokeAny(linkId: string): Promise<void>;
  /**
   * What it leads to; counts nothing. Throws LINK_NOT_FOUND for a link that is none, over, used up or taken back, or whose
   * maker may not share the file any more.
   */
  open(token: string): Promise<{ readonly link: LinkRow; readonly file: FileRow }>;
  /** Counts one use, when the answer is certain. Throws LINK_NOT_FOUND. */
  use(token: string): Promise<void>;
}

interface Dependencies {
  readonly files: Pick<Files, 'find'>;
  readonly signedUploads: Pick<SignedUploads, 'confirmed'>;
}

export function createSharedLinks(
  parts: StorageParts,
  { files, signedUploads }: Dependencies,
): SharedLinks {
  const { database, access, links } = parts;
  const shareable = async (caller: Caller, id: string, scope?: string): Promise<FileRow> => {
    const file = await files.find(id);
    await access.require(caller, 'share', file, scope);
    return file;
  };
  const removed = (was: boolean): void => {
    if (!was) throw storageErrors.LINK_NOT_FOUND();
  };
  return {
    async create(caller, fileId, { expiresInSeconds, maxUses = null, download = false, scope }) {
      const file = await shareable(caller, fileId, scope);
      await access.require(caller, 'content', file, scope);
      const token = randomToken();
      const made = await insertLink(database, {
        _id: newId(),
        fileId,
        tokenHash: sha256(token),
        download,
        maxUses,
        createdBy: authorOf(caller),
        expiresInSeconds,
        scope,
      });
      return { link: existing(made, storageErrors.LINK_NOT_FOUND), url: links.sharedUrl(token) };
    },
    async list(caller, fileId, { scope, ...page }) {
      const ask = () => shareable(caller, fileId, scope);
      return readWhile(ask, () => listLinks(database, { ...page, fileId }));
    },
    listAll: (page) => listLinks(database, page),
    async revoke(caller, fileId, linkId, scope) {
      await shareable(caller, fileId, scope);
      removed(await deleteLink(database, linkId, fileId));
    },
    revokeAny: async (linkId) => removed(await deleteLink(database, linkId)),
    async open(token) {
      const found = await usableLink(database, sha256(token));
      const link = existing(found, storageErrors.LINK_NOT_FOUND);
      const file = await confirmedFile({
        find: () => files.find(link.fileId),
        settle: signedUploads.confirmed,
        async ask(seen) {
          if (!(await isStillGiven(parts, link, seen))) throw storageErrors.LINK_NOT_FOUND();
        },
        saysItself: () => !link.createdBy.startsWith(USER),
      });
      return { link, file };
    },
    async use(token) {
      existing(await useLink(database, sha256(token)), storageErrors.LINK_NOT_FOUND);
    },
  };
}

/** Operators' links are theirs to take back. */
async function isStillGiven(
  parts: StorageParts,
  { createdBy, scope }: UsableLink,
  file: FileRow,
): Promise<boolean> {
  if (!createdBy.startsWith(USER)) return true;
  const maker = { userId: createdBy.slice(USER.length), scope };
  return makerMay(parts, maker, file, ['share', 'content']);
}

const USER = 'User:';
