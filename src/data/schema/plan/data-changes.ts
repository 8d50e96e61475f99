/**
 * What changes of a schema did to stored records beyond what its fields say: new names, and values for records that
 * had none. They are remembered by id, so that another platform can do the same to its own records when the schema
 * comes to it as a file. A widened type needs no note: it follows from the two types.
 */
import { createHash } from 'node:crypto';
import type { DataChange } from '../compile/compiled.ts';
import type { Declaration } from '../compile/declaration.ts';
import { invalidSchema } from '../errors.ts';
import type { FieldMap } from '../language/definition.ts';
import type { Renames } from './column-steps.ts';
import { renamed, requireFreeName, requireRenames } from './field-changes.ts';
import type { ArrivingSchema } from './schema-request.ts';

/** What a draft does to the records that are there. */
export interface Replay {
  /** New names, one set after the other. */
  readonly renames: readonly Renames[];
  readonly backfill: Readonly<Record<string, unknown>>;
  /** All changes of the schema from now on. */
  readonly changes: readonly DataChange[];
}

const isEmpty = (value: object | undefined): boolean =>
  value === undefined || Object.keys(value).length === 0;

/** The changes so far, and what is done now under an id of its own. */
export function withChange(
  changes: readonly DataChange[],
  { id, renames, backfill }: DataChange,
): readonly DataChange[] {
  if (isEmpty(renames) && isEmpty(backfill)) return changes;
  return [
    ...changes,
    { id, ...(!isEmpty(renames) && { renames }), ...(!isEmpty(backfill) && { backfill }) },
  ];
}

/**
 * What is still to be done here of the changes that come with a schema: those that are not known by their id, in their
 * order. A rename of a field that is not here has no effect: the field has its new name already, or never was. Throws
 * 400 where the new name is taken.
 */
export function replayOf(current: Declaration | undefined, input: Arriving): Replay {
  const known = new Set((current?.changes ?? []).map(({ id }) => id));
  const arriving = (input.migrations ?? []).filter(({ id }) => !known.has(id));
  const run = startRun(current, input.fields);
  for (const change of arriving) run.replay(change);
  const own = writtenChange(input);
  const isNoted =
    own === undefined || known.has(own.id) || arriving.some(({ id }) => id === own.id);
  if (own) run.written(own, isNoted);
  const changes = [...(current?.changes ?? []), ...arriving];
  return { ...run.result(), changes: isNoted ? changes : [...changes, own] };
}

type Arriving = Pick<ArrivingSchema, 'name' | 'fields' | 'migrations' | 'renames' | 'backfill'>;

/** What somebody wrote into the file by hand. Its id follows from what it says, so that it is one change however often it is applied. */
function writtenChange({ name, renames, backfill }: Arriving): DataChange | undefined {
  const text = JSON.stringify([
    name,
    Object.entries(renames ?? {}).sort(),
    Object.entries(backfill ?? {}).sort(),
  ]);
  const id = `file-${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
  const [change] = withChange([], {
    id,
    ...(renames && { renames }),
    ...(backfill && { backfill }),
  });
  return change;
}

function startRun(current: Declaration | undefined, requested: FieldMap) {
  let at = current;
  const renames: Renames[] = [];
  /** Values of recorded changes, under the names that their fields have by now. */
  const fill = new Map<string, unknown>();
  let own: DataChange['backfill'] = {};
  const take = (before: Declaration, here: Renames): void => {
    const problems = [...here].flatMap(([from, to]) => requireFreeName(before, from, to) ?? []);
    if (problems.length > 0) throw invalidSchema(problems);
    at = renamed(before, here);
    renames.push(here);
  };
  const rename = (step: Renames): void => {
    for (const [from, to] of step) {
      if (fill.has(from)) fill.set(to, fill.get(from));
      fill.delete(from);
    }
  };
  const note = (backfill: DataChange['backfill']): void => {
    for (const [name, value] of Object.entries(backfill ?? {}))
      if (!fill.has(name)) fill.set(name, value);
  };
  return {
    replay(change: DataChange): void {
      const all: Renames = new Map(Object.entries(change.renames ?? {}));
      rename(all);
      const here: Renames = new Map([...all].filter(([from]) => at && isHere(at, from)));
      if (at && here.size > 0) take(at, here);
      note(change.backfill);
    },
    /** Asked of every platform that has the old name and not the new one; its values are given once. */
    written(change: DataChange, isDone: boolean): void {
      const here: Renames = new Map(
        Object.entries(change.renames ?? {}).filter(
          ([from, to]) =>
            at && isHere(at, from) && !(isHere(at, to) && Object.hasOwn(requested, from)),
        ),
      );
      if (at && here.size > 0) {
        if (!at.removed) requireRenames(at, here, requested);
        take(at, here);
      }
      if (!isDone) own = change.backfill;
    },
    result: () => ({
      renames,
      backfill: current
        ? {
            ...Object.fromEntries([...fill].filter(([name]) => Object.hasOwn(requested, name))),
            ...own,
          }
        : {},
    }),
  };
}

/** A field, or the column of a schema that was removed and left its table. */
const isHere = ({ removed, fields, layout }: Declaration, name: string): boolean =>
  Object.hasOwn(removed ? layout.columns : fields, name);
