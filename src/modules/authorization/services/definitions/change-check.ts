/** What speaks against a change of resource definitions, found without changing anything. */
import { isDeepStrictEqual } from 'node:util';
import type { ActionUse, ActionUses } from '../../../../kernel/action-uses.ts';
import type { Queryable } from '../../../../kernel/database/database.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { placed } from '../../../../kernel/state.ts';
import { authorizationErrors } from '../../errors.ts';
import { type Definition, invalidDefinition } from '../../model/definition.ts';
import { ownerRelation } from '../../model/grammar.ts';
import { buildModel, type Model } from '../../model/model.ts';
import { checkAgainst } from '../../model/reference-check.ts';
import { fits } from '../../model/tuple.ts';
import { missingForRecords } from '../../record-tuples.ts';
import { deleteAlike, examplesOf, type TupleShape } from '../../tuple-removals.ts';
import {
  type DefinitionContent,
  parsedDefinition,
  type StoredDefinition,
  validDefinitions,
} from './stored-definition.ts';
import {
  type CountedShape,
  clearAlike,
  ownerExamples,
  ownerShapes,
  tupleShapes,
} from './tuple-shapes.ts';

/* What a change of a definition means for the tuples that are stored: which of them would not fit any more. */

interface InvalidTupleSearch {
  readonly database: Queryable;
  /** The definition of the type as it is. Absent: what records say about their owners is not looked at. */
  readonly before?: StoredDefinition | undefined;
  /** All definitions as they would be. */
  readonly definitions: readonly Definition[];
  /** The type whose definition changes. */
  readonly type: string;
  readonly actor: string;
}

/** Shapes that fit no definition, whatever their ids are. */
async function invalidTuplesOf({
  database,
  before,
  definitions,
  type,
}: InvalidTupleSearch): Promise<readonly CountedShape[]> {
  const model = buildModel(definitions, 0);
  const shapes = [
    ...(await tupleShapes(database, type)),
    ...(before && changesOwners(before, model) ? await ownerShapes(database, type) : []),
  ];
  return shapes.filter((shape) => !fitsShape(model, shape));
}

/** Counting what all records say is worth it only where it may count for nothing from now on. */
function changesOwners(before: StoredDefinition, next: Model): boolean {
  const owners = parsedDefinition(before).columns.has(ownerRelation);
  const list = (definition: Definition | undefined) => definition?.relations.get(ownerRelation);
  return owners && !isDeepStrictEqual(list(parsedDefinition(before)), list(next.get(before.name)));
}

function fitsShape(model: Model, shape: TupleShape): boolean {
  // What a field says, no tuple says.
  if (model.fieldOf(shape.resourceType, shape.relation)) return false;
  return fits(model, {
    subject: {
      type: shape.subjectType,
      id: shape.wildcard ? '*' : 'any',
      relation: shape.subjectRelation,
    },
    relation: shape.relation,
    resource: { type: shape.resourceType, id: 'any' },
    condition: shape.condition ?? undefined,
  });
}

/** Throws 409 with examples when there are tuples that would count for nothing. */
export async function requireValidTuples(search: InvalidTupleSearch): Promise<void> {
  const invalid = await invalidTuplesOf(search);
  if (invalid.length === 0) return;
  const problems = await Promise.all(
    invalid.slice(0, 10).map(async (shape) => ({
      path: `relations.${shape.relation}`,
      rule: 'inUse',
      message: `${shape.count} stored on ${shape.resourceType} would not fit any more, such as ${(await examplesIn(search.database, shape)).join(', ')}: delete them first, or change this definition alone with force=true`,
    })),
  );
  const total = invalid.reduce((sum, { count }) => sum + count, 0);
  throw authorizationErrors.RESOURCE_IN_USE({
    message: `${total} stored relations would not be valid any more; force=true deletes them. ${problems[0]?.path}: ${problems[0]?.message}`,
    errors: problems,
  });
}

const examplesIn = (database: Queryable, shape: CountedShape): Promise<readonly string[]> =>
  shape.inRecords ? ownerExamples(database, shape, 5) : examplesOf(database, shape, 5);

/** Deletes what does not fit, so that no right sleeps until the definition is changed back; answers how many. */
export async function removeInvalidTuples(search: InvalidTupleSearch): Promise<number> {
  let removed = 0;
  for (const shape of await invalidTuplesOf(search))
    removed += shape.inRecords
      ? await clearAlike(search.database, shape, search.actor)
      : await deleteAlike(search.database, shape, search.actor);
  return removed;
}

export type Stored = ReadonlyMap<string, StoredDefinition>;

export const parsed = (stored: Stored): readonly Definition[] => validDefinitions(stored.values());

export interface DefinitionsChange {
  readonly defined: readonly DefinitionContent[];
  readonly removed: readonly string[];
  /** Schemas that will be gone by then: their records need no definition. */
  readonly withoutSchema: ReadonlySet<string>;
  /** Schemas whose records will be a matter of permission by then. */
  readonly withRecords: ReadonlySet<string>;
  /** Schemas that come with the change: fields of theirs may not be there yet. */
  readonly withSchema: ReadonlySet<string>;
  /** Things that come or go with the change themselves, and are looked at by their owners. */
  readonly comes: (use: ActionUse) => boolean;
}

/** The stored definitions as they will be when these are in force. */
export const withContents = (stored: Stored, contents: readonly DefinitionContent[]): Stored =>
  new Map([
    ...stored,
    ...contents.map((content) => {
      const before = stored.get(content.name) ?? {
        id: '',
        version: 0,
        createdAt: '',
        updatedAt: '',
      };
      return [content.name, { ...before, ...content }] as const;
    }),
  ]);

interface Situation {
  readonly database: Queryable;
  readonly stored: Stored;
  /** True for a schema whose records are a matter of permission now. */
  readonly hasRecords: (name: string) => boolean;
  readonly uses: ActionUses;
}

/** Throws 400 for what makes no sense and 409 for what would break, with `place(name)` before the paths. */
export async function checkDefinitions(
  { database, stored, hasRecords, uses }: Situation,
  { defined, removed, withoutSchema, withRecords, comes }: DefinitionsChange,
  place: (name: string) => string,
): Promise<void> {
  const next = parsed(
    new Map([...withContents(stored, defined)].filter(([name]) => !removed.includes(name))),
  );
  const willServe = (name: string): boolean =>
    withRecords.has(name) || (hasRecords(name) && !withoutSchema.has(name));
  for (const content of defined) {
    await placed(place(content.name), async () => {
      const definition = parsedDefinition(content);
      const problems = checkAgainst(definition, next);
      if (problems.length > 0) throw invalidDefinition(problems);
      if (willServe(content.name)) requireServesRecords(definition);
      if (stored.has(content.name))
        await requireValidTuples({
          database,
          before: stored.get(content.name),
          definitions: next,
          type: content.name,
          actor: '',
        });
    });
  }
  const needed = removed.find(willServe);
  if (needed !== undefined) throw neededByRecords(needed);
  requireUnbroken(
    next,
    parsed(stored),
    defined.map(({ name }) => name),
  );
  requireUsed(next, parsed(stored), {
    uses: uses().filter((use) => !comes(use)),
    place: (name) => `${place(name)}.`,
  });
}

/** The type of records that are there goes. */
export const neededByRecords = (name: string) =>
  authorizationErrors.RESOURCE_IN_USE({
    message: `Records of ${name} are served by this type; force=true takes it away all the same`,
  });

/** Throws 409 for a type of records without what these are served by, and names it. */
export function requireServesRecords(definition: Definition): void {
  const missing = missingForRecords(definition);
  if (missing.length === 0) return;
  const message =
    'records are served by the actions read, edit and delete and a relation "owner" for User';
  throw authorizationErrors.RESOURCE_IN_USE({
    message: `${missing.join(', ')}: ${message}; force=true leaves this out all the same`,
    errors: missing.map((path): Problem => ({ path, rule: 'inUse', message })),
  });
}

/** Throws 409 where something stored asks its callers for an action that would be gone. `place`: before the paths. */
export function requireUsed(
  next: readonly Definition[],
  before: readonly Definition[],
  {
    uses,
    place,
  }: { readonly uses: readonly ActionUse[]; readonly place: (name: string) => string },
): void {
  const [now, then] = [wordsOf(before), wordsOf(next)];
  const lost = uses.filter(
    ({ schema, action }) => now.get(schema)?.has(action) && !then.get(schema)?.has(action),
  );
  if (lost.length === 0) return;
  const actions = new Map(before.map((one) => [one.name, one.actions]));
  const problems = lost.slice(0, 10).map(({ schema, action, title }): Problem => {
    const isAction = actions.get(schema)?.has(action);
    const message = `${title} needs the ${isAction ? 'action' : 'relation'} "${action}" of ${schema}`;
    const path = `${place(schema)}${isAction ? 'permissions' : 'relations'}.${action}`;
    return { path, rule: 'inUse', message };
  });
  throw authorizationErrors.RESOURCE_IN_USE({
    message: `${problems[0]?.message}; force=true takes it away all the same`,
    errors: problems,
  });
}

const wordsOf = (definitions: readonly Definition[]): ReadonlyMap<string, ReadonlySet<string>> =>
  new Map(
    definitions.map(({ name, actions, relations }) => [
      name,
      new Set([...actions.keys(), ...relations.keys()]),
    ]),
  );

/** Throws 409 when other definitions, sound until now, would hang in the air. */
export function requireUnbroken(
  next: readonly Definition[],
  before: readonly Definition[],
  changed: readonly string[],
): void {
  const problems = next
    .filter(({ name }) => !changed.includes(name))
    .filter((definition) => checkAgainst(definition, before).length === 0)
    .flatMap((definition) =>
      checkAgainst(definition, next).map(
        (problem): Problem => ({ ...problem, path: `${definition.name}.${problem.path}` }),
      ),
    );
  if (problems.length === 0) return;
  const [first] = problems;
  throw authorizationErrors.RESOURCE_IN_USE({
    message: `Other definitions need what this would take away, such as ${first?.path}: ${first?.message}; force=true does it all the same`,
    errors: problems,
  });
}
