/** Pages of files, folders and containers. */
import {
  all,
  any,
  type Condition,
  contains,
  equals,
  fieldTest,
  literal,
  not,
} from '../../../data/conditions/condition.ts';
import type { CountMode } from '../../../data/records/store.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import { containerOf, folderOf } from '../names.ts';
import { addGrowth } from '../queries/counters.ts';
import type { FileRow } from '../queries/files.ts';
import { containerSchema, fileSchema, folderSchema } from '../schemas.ts';
import { authorOf, moduleContainersOf, modulePrefix } from './access.ts';
import type { StorageParts } from './storage-parts.ts';

export interface ListPage {
  readonly skip: number;
  readonly limit: number;
  readonly sort?: readonly string[] | undefined;
  /** Instead of `skip`: where the page before ended, `start` for the first one. */
  readonly cursor?: string | undefined;
  /** How the answer's `count` is made; exact unless set. */
  readonly count?: CountMode | undefined;
}

export interface FileFilter extends ListPage {
  readonly container?: string | undefined;
  /** Files directly in it. */
  readonly folder?: string | undefined;
  /** A part of the name. */
  readonly search?: string | undefined;
  /** `Type:id`; null: nobody. */
  readonly owner?: string | null | undefined;
  /** `Type:id` for which the caller asks. */
  readonly scope?: string | undefined;
}

export interface FolderFilter extends ListPage {
  readonly container?: string | undefined;
  /** Folders directly in it; empty: the first level; absent: all levels. */
  readonly parent?: string | undefined;
  readonly search?: string | undefined;
  /** Only public ones, and those that this user made. */
  readonly openTo?: Caller | undefined;
}

interface Listed<T> {
  /** Absent where none was asked for. */
  readonly count?: number;
  /** Only with `cursor`; null on the last page. */
  readonly nextCursor?: string | null;
  readonly rows: readonly T[];
}

interface Counted {
  readonly count: number;
  readonly rows: readonly Record<string, unknown>[];
}

/** A file as lists have it: nothing of the store, times as texts. */
export type ListedFile = Omit<
  FileRow,
  'bucket' | 'objectKey' | 'pendingUpload' | 'createdAt' | 'updatedAt' | 'expiresAt'
> & {
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly expiresAt: string | null;
};

export interface Listing {
  /** Files that the caller may read. */
  files(caller: Caller, filter: FileFilter): Promise<Listed<ListedFile>>;
  /** Files that the caller owns, or the scope that they act for. */
  own(caller: Caller, filter: FileFilter): Promise<Listed<ListedFile>>;
  /** Those of modules that a narrowed credential does not reach are left out. */
  folders(caller: Caller, filter: FolderFilter): Promise<Counted>;
  containers(page: ListPage): Promise<Counted>;
}

/** What is found was narrowed to what the caller may see. */
const asModule = system('storage');

export function createListing({ records, config, database }: StorageParts): Listing {
  /** What is said about a scope counts only where relations do. */
  const withScope = (filter: FileFilter): FileFilter =>
    config().authorization.enabled ? filter : { ...filter, scope: undefined };
  const page = async <T>(
    [caller, schema]: readonly [Caller, string],
    filter: Condition,
    { skip, limit, sort, cursor, count: mode, scope }: ListPage & Pick<FileFilter, 'scope'>,
  ): Promise<Listed<T>> => {
    const text = await records.select(caller, schema, {
      filter,
      granted: true,
      ...(scope !== undefined && { scope }),
      ...(cursor === undefined || skip > 0 ? { skip } : {}),
      ...(cursor !== undefined && { cursor }),
      ...(mode !== undefined && { count: mode }),
      limit: Math.min(limit, config().listing.maxPage),
      ...(sort?.length && { sort: [...sort, idLike(sort.at(-1))] }),
    });
    const { documents, ...facts } = JSON.parse(text) as { documents: T[] } & Listed<T>;
    return { ...facts, rows: documents };
  };
  const counted = async (...question: Parameters<typeof page>): Promise<Counted> => {
    const { rows, count = 0 } = await page<Record<string, unknown>>(...question);
    return { rows, count };
  };
  const listFiles = (caller: Caller, filter: FileFilter, ...conditions: readonly Condition[]) =>
    page<ListedFile>(
      [caller, fileSchema.name],
      all(...conditions, ...ofModulesOf(caller), ...conditionsOf(filter)),
      filter,
    );
  return {
    files: (caller, filter) => listFiles(caller, withScope(filter)),
    own: (caller, filter) => {
      const owned = withScope(filter);
      return listFiles(caller, owned, equals('owner', owned.scope ?? authorOf(caller)));
    },
    folders: (caller, { container, parent, search, openTo, ...rest }) =>
      counted(
        [asModule, folderSchema.name],
        all(
          ...(container === undefined ? [] : [equals('container', containerOf(container))]),
          ...(parent === undefined ? [] : [equals('parent', folderOf(parent, 'parent'))]),
          ...ofModulesOf(caller),
          ...(openTo ? [any(equals('isPublic', true), equals('createdBy', authorOf(openTo)))] : []),
          ...named(search),
        ),
        { sort: ['name'], ...rest },
      ),
    async containers(rest) {
      await addGrowth(database);
      return counted([asModule, containerSchema.name], all(), { sort: ['name'], ...rest });
    },
  };
}

/** Files that are alike otherwise, by id, in the direction that one index has in either direction. */
const idLike = (last: string | undefined): string => (last?.startsWith('-') ? '-_id' : '_id');

/** The text as it is, anywhere in the name. */
const named = (search: string | undefined): readonly Condition[] =>
  search === undefined || search === '' ? [] : [contains('name', search, 'search')];

/** Files that no module keeps for itself. */
export const ofNoModule: Condition = not(
  fieldTest('container', {
    kind: 'like',
    right: literal(`${modulePrefix}%`),
    wildcards: true,
    ignoreCase: false,
  }),
);

/** A credential that is narrowed sees nothing that other modules keep here. */
export function ofModulesOf(caller: Caller): readonly Condition[] {
  const containers = moduleContainersOf(caller);
  if (containers === undefined) return [];
  const own = containers.map((one) => equals('container', one));
  return [any(ofNoModule, ...own)];
}

const conditionsOf = ({ container, folder, search, owner }: FileFilter): readonly Condition[] => [
  ...(container === undefined ? [] : [equals('container', containerOf(container))]),
  ...(folder === undefined ? [] : [equals('folder', folderOf(folder))]),
  ...(owner === undefined ? [] : [equals('owner', owner)]),
  ...named(search),
];
