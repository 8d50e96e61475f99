/**
 * Looks at the container of a new file. For a small body it is taken as it was found for another one a moment ago: the
 * statement that makes the file says whether it is still the same (`SeenVersion`), and if not, it is looked at anew.
 */
import type { Caller } from '../../../kernel/caller.ts';
import { containerOf, fileNameOf, folderOf } from '../names.ts';
import { containerWith, type SeenContainer } from '../queries/containers.ts';
import { boundedOwner } from './quotas.ts';
import type { StorageParts } from './storage-parts.ts';

/** Where a new file shall stand, and what else decides whether it may. */
interface AskedPlace {
  readonly container?: string | undefined;
  readonly folder?: string | undefined;
  readonly name?: string | undefined;
  readonly overwrite?: boolean | undefined;
  readonly scope?: string | undefined;
}

export interface ContainerLook {
  /** As it was found before; nothing where that is too long ago, or something else has to be asked as well. `atMost`: bytes. */
  before(request: AskedPlace, atMost: number): SeenContainer | undefined;
  /** As it is, and whether a file stands where one was asked for. Throws INVALID_NAME. */
  now(caller: Caller, request: AskedPlace): Promise<SeenContainer | undefined>;
  /** One of that name is found anew. */
  forget(container: string): void;
}

/** Bytes of a body for which nothing is asked before it is there. */
const SMALL_BYTES = 2 * 1_048_576;
/** Milliseconds for which a container is taken as it was found. */
const REMEMBERED_MS = 5_000;
const MAX_REMEMBERED = 200;

export function createContainerLook(
  parts: Pick<StorageParts, 'database' | 'config'>,
): ContainerLook {
  const { database, config } = parts;
  const remembered = new Map<string, { readonly row: SeenContainer; readonly until: number }>();
  const nameOf = ({ container }: AskedPlace): string => container || config().defaultContainer;

  /** Only what bounds nothing: a container that was changed can have become stricter then, and not the other way round. */
  const remember = (row: SeenContainer): void => {
    remembered.delete(row.name);
    if (remembered.size >= MAX_REMEMBERED) remembered.clear();
    if (!row.isPublic && row.maxFileSize === null && row.allowedMimeTypes === null)
      remembered.set(row.name, { row, until: performance.now() + REMEMBERED_MS });
  };

  return {
    before(request, atMost) {
      // What its owner has left is asked by the statement that makes it, too.
      const isSmall = atMost <= SMALL_BYTES && !request.overwrite;
      if (!isSmall || config().suffixOnNameConflict || database.inTransaction()) return undefined;
      const one = remembered.get(nameOf(request));
      return one && one.until > performance.now() ? one.row : undefined;
    },
    async now(caller, request) {
      const { name, overwrite = false } = request;
      const matters = name && (overwrite || !config().suffixOnNameConflict);
      const place = {
        container: containerOf(nameOf(request)),
        folder: folderOf(request.folder ?? ''),
        name: matters ? fileNameOf(name) : null,
      };
      const owner = boundedOwner(parts, caller, request.scope);
      const seen = await containerWith(database, place, owner);
      if (seen) remember(seen);
      return seen;
    },
    forget: (container) => void remembered.delete(container),
  };
}
