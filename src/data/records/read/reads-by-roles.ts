/**
 * Reads of records with fields that only some roles see. Which roles the caller holds is asked before the read, and once
 * more after it: what was written to such a field meanwhile is not for whoever had lost the role by then
 * (docs/decisions/555-what-was-looked-up-is-looked-up-again.md).
 */
import { isDeepStrictEqual } from 'node:util';
import type { Caller } from '../../../kernel/caller.ts';
import type { OpenRequestScope, RequestScope } from '../access/request-scope.ts';
import { MAX_ATTEMPTS } from './optimistic-read.ts';
import { createReads, type RecordReads } from './record-reads.ts';
import type { RecordDependencies } from './record-view.ts';

type Open = OpenRequestScope<RecordDependencies>;
type Read<T> = (reads: RecordReads) => Promise<T>;

export function createReadsByRoles(open: Open): RecordReads {
  const reads = createReads(open);
  const confirmed = <T>([caller, name]: Asked, read: Read<T>): Promise<T> => {
    const scope = open(caller, name);
    // Only roles take time.
    return scope instanceof Promise
      ? readByRoles(open, { asked: [caller, name], scope }, read)
      : read(reads);
  };
  return {
    list: (...input) => confirmed(input, (by) => by.list(...input)),
    get: (...input) => confirmed(input, (by) => by.get(...input)),
    select: (...input) => confirmed(input, (by) => by.select(...input)),
    find: (...input) => confirmed(input, (by) => by.find(...input)),
    nearest: (...input) => confirmed(input, (by) => by.nearest(...input)),
    ranked: (...input) => confirmed(input, (by) => by.ranked(...input)),
    matching: (...input) => confirmed(input, (by) => by.matching(...input)),
    aggregate: (...input) => confirmed(input, (by) => by.aggregate(...input)),
    shows: (...input) => confirmed(input, (by) => by.shows(...input)),
    stream: reads.stream,
  };
}

type Asked = readonly [caller: Caller, name: string, ...unknown[]];

interface RoleRead {
  readonly asked: readonly [caller: Caller, name: string];
  readonly scope: Promise<RequestScope<RecordDependencies>>;
}

/** Roles that change again and again are those of a moment before the read. */
async function readByRoles<T>(open: Open, { asked, scope }: RoleRead, read: Read<T>): Promise<T> {
  let current = await scope;
  for (let n = 0; n < MAX_ATTEMPTS; n += 1) {
    const before = current;
    const answer = await read(createReads(() => before));
    current = await open(...asked);
    if (isDeepStrictEqual(current.viewer?.roles, before.viewer?.roles)) return answer;
  }
  return read(createReads(() => current));
}
