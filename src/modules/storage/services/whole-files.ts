/**
 * New files whose bytes have arrived, made by few statements: those that come while one is on its way go together with the
 * next. Nobody waits for who is held up: a statement that takes longer does not keep the next from being sent.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { codeOf } from '../../../kernel/database/failures.ts';
import { offAccount } from '../../../kernel/request-account/request-account.ts';
import type { FileRow } from '../queries/files.ts';
import { insertWholeFile, type WholeFile } from '../queries/new-file.ts';
import { insertWholeFiles } from '../queries/new-files.ts';
import type { StorageParts } from './storage-parts.ts';

export interface WholeFiles {
  /**
   * Makes a file with all that its transaction says; nothing when anything stands in the way. `alone`: in a statement of
   * its own, whatever comes beside it.
   */
  insert(file: WholeFile, alone: boolean): Promise<FileRow | undefined>;
}

/** Files of one statement. */
const MAX_FILES = 32;
/** Milliseconds that those who come later wait for a statement at most. */
const PATIENCE_MS = 20;
const UNIQUE_VIOLATION = '23505';

interface Waiting extends PromiseWithResolvers<FileRow | undefined> {
  readonly file: WholeFile;
}

const placeOf = ({ file }: WholeFile): string =>
  JSON.stringify([file.container, file.folder, file.name]);

/**
 * Those that are sent together, and those that are left: of two that want one place the second may only come later, as what
 * rests on another state of permissions.
 */
function together(waiting: readonly Waiting[]): [some: Waiting[], rest: Waiting[]] {
  const places = new Set<string>();
  const [some, rest]: [Waiting[], Waiting[]] = [[], []];
  let permissions: unknown;
  for (const one of waiting) {
    const place = placeOf(one.file);
    const known = one.file.inRecord?.holds.value;
    permissions ??= known;
    const isOfThese = known === undefined || known === permissions;
    const goes = places.size < MAX_FILES && !places.has(place) && isOfThese;
    if (goes) places.add(place);
    (goes ? some : rest).push(one);
  }
  return [some, rest];
}

export function createWholeFiles({
  database,
  permissions,
}: Pick<StorageParts, 'database' | 'permissions'>): WholeFiles {
  const outside = AsyncLocalStorage.snapshot();
  const single = (file: WholeFile) => insertWholeFile(database, file, permissions.tuples);
  let waiting: Waiting[] = [];
  /** Statements for which the next one is kept back. */
  let ahead = 0;

  const send = async (some: readonly Waiting[]): Promise<void> => {
    try {
      const files = some.map(({ file }) => file);
      const made = await insertWholeFiles(database, files, permissions.tuples);
      for (const { file, resolve } of some) resolve(made.get(file.file.id));
    } catch (error) {
      // The place of one is taken: each is told by itself whether it is theirs.
      for (const { file, resolve, reject } of some)
        if (codeOf(error) === UNIQUE_VIOLATION) resolve(single(file));
        else reject(error);
    }
  };

  /** Those of one turn of the loop go together: what waits for the disk often ends at once. */
  const soon = (): void => void setImmediate(() => void (ahead === 0 && next()));
  const next = (): void => {
    const [some, rest] = together(waiting);
    waiting = rest;
    if (some.length === 0) return;
    ahead += 1;
    let isAhead = true;
    const goOn = (): void => {
      if (!isAhead) return;
      isAhead = false;
      ahead -= 1;
      clearTimeout(timer);
      if (waiting.length > 0) soon();
    };
    const timer = setTimeout(goOn, PATIENCE_MS);
    void send(some).finally(goOn);
  };

  return {
    insert(file, alone) {
      if (alone) return single(file);
      const one: Waiting = { ...Promise.withResolvers<FileRow | undefined>(), file };
      if (waiting.push(one) === 1 && ahead === 0) outside(() => offAccount(soon));
      return one.promise;
    },
  };
}
