/**
 * What a module contributes to the state of the platform as a document (`GET /state/export`, `POST /state/import`):
 * the things that operators write and keep in version control, each type by one natural key. Never users,
 * records, ids, times or secrets.
 */
import type { TObject } from 'typebox';
import type { AuthorityObject } from './authority.ts';
import type { Caller } from './caller.ts';
import { PenstockError, type Problem } from './errors.ts';

/* Errors that name the place in the imported document. */

/**
 * Runs work on one document. What it refuses is refused with `place` in front of every path, and as a 400
 * where the work would say 404: within a document, a thing that is missing is a mistake of the document.
 */
export async function placed<T>(place: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof PenstockError && error.status < 500 ? withPlace(error, place) : error;
  }
}

function withPlace(error: PenstockError, place: string): PenstockError {
  const problems = error.errors ?? [{ path: '', rule: 'valid', message: error.message }];
  const errors = problems.map((problem) => ({
    ...problem,
    path: problem.path === '' ? place : `${place}.${problem.path}`,
  }));
  const { code, status, retryAfter, detail } = error;
  return new PenstockError(code, status === 404 ? 400 : status, error.message, {
    message: errors.map(({ path, message }) => `${path}: ${message}`).join('; '),
    errors,
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(detail === undefined ? {} : { detail }),
    cause: error,
  });
}

/** One thing, as it stands in the document. */
export type StateDocument = Readonly<Record<string, unknown>>;

/** A document of an import, and where it stands (`modules.database.schemas.3`), for whatever is wrong with it. */
export interface PlacedDocument {
  readonly document: StateDocument;
  readonly place: string;
}

export interface StateChange {
  readonly action: 'create' | 'update' | 'delete';
  readonly key: string;
  /** What is there; absent for what is new. */
  readonly before?: StateDocument;
  /** What there will be, whole; absent for what goes. */
  readonly after?: StateDocument;
  /** What was written: `after` is what that means. */
  readonly given?: StateDocument;
  /** Place in the import; of a type as a whole for what goes. */
  readonly place: string;
}

/** The whole of one import, for what hangs on other types. One object per import. */
export interface StateImport {
  /** What the import has of a type; nothing when it does not have the type. */
  documents(module: string, type: string): readonly PlacedDocument[];
  /** What will change of a type. Complete when `check` is asked, not before. */
  changes(module: string, type: string): readonly StateChange[];
}

/** What a change does to stored data that its difference alone does not tell. */
export interface StateEffects {
  /** Fields that get another name and keep their data. */
  readonly renames: readonly { readonly from: string; readonly to: string }[];
  /** Fields that are no longer shown; their data is kept. Counts as taken away. */
  readonly hides: readonly { readonly field: string; readonly records: number }[];
}

/** What is known about the changes of a type before they are made. */
export interface StateOutlook {
  /** By key. */
  readonly effects: ReadonlyMap<string, StateEffects>;
  /** Why the import would be refused as the stored data is now, with places. */
  readonly obstacles: readonly Problem[];
  readonly warnings: readonly string[];
}

export interface StateType {
  readonly module: string;
  readonly type: string;
  /** Types with lower numbers are written first, and taken away last. */
  readonly priority: number;
  /** The shape of a document; what it does not name is refused. */
  readonly document: TObject;
  keyOf(document: StateDocument): string;
  /**
   * What whoever brings, changes or takes away this document touches beside the module of the type. Every narrow
   * credential is asked for all of it, for what is there and for what comes, before anything is written.
   */
  touches(
    document: StateDocument,
  ): readonly AuthorityObject[] | Promise<readonly AuthorityObject[]>;
  /** All there is, in any order. */
  export(): Promise<readonly StateDocument[]>;
  /** The documents as they would be exported after their import, in the same order. Throws for what makes no sense. Writes nothing. */
  complete(
    caller: Caller,
    documents: readonly PlacedDocument[],
    whole: StateImport,
  ): Promise<readonly StateDocument[]>;
  /** Whether `/ready` tells of documents that are damaged: where there are few, and the module does not tell of them itself. */
  readonly reportDamaged?: true;
  /** False for what belongs to the platform itself: it is never pruned. */
  readonly isRemovable?: (document: StateDocument) => boolean;
  /** Throws for whatever would keep `apply` from succeeding, as far as it can be known. Writes nothing. */
  readonly check?: (
    caller: Caller,
    changes: readonly StateChange[],
    whole: StateImport,
  ) => Promise<void>;
  /** What the changes mean for stored data. Writes nothing. */
  readonly outlook?: (
    caller: Caller,
    changes: readonly StateChange[],
    whole: StateImport,
  ) => Promise<StateOutlook>;
  /**
   * Writes the changes of one kind: those that create and update, or those that delete. Doing it again changes
   * nothing more.
   */
  apply(caller: Caller, changes: readonly StateChange[]): Promise<void>;
}

/** Of a type whose documents are about nothing but its own module. */
export const touchesNothing = (): readonly AuthorityObject[] => [];

/** All types of the modules that run now. */
export interface StateRegistry {
  /** Answers how to take them away again. Throws when a type is there already. */
  register(types: readonly StateType[]): () => void;
  /** In the order in which they are written. */
  all(): readonly StateType[];
}

const inOrder = (a: StateType, b: StateType): number =>
  a.priority - b.priority ||
  (a.type < b.type ? -1 : a.type > b.type ? 1 : 0) ||
  (a.module < b.module ? -1 : 1);

export function createStateRegistry(): StateRegistry {
  let types: readonly StateType[] = [];
  return {
    register(added) {
      const twin = added.find(({ module, type }) =>
        types.some((one) => one.module === module && one.type === type),
      );
      if (twin) throw new Error(`Two parts keep the state ${twin.module}.${twin.type}`);
      types = [...types, ...added].sort(inOrder);
      return () => {
        types = types.filter((one) => !added.includes(one));
      };
    },
    all: () => types,
  };
}
