/** What a change of a definition means for the tuples that are stored: which of them would not fit any more. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { tupleShapes } from '../definition-queries.ts';
import { authorizationErrors } from '../errors.ts';
import type { Definition } from '../model/definition.ts';
import { buildModel, type Model } from '../model/model.ts';
import { fits } from '../model/validity.ts';
import { deleteAlike, examplesOf, type TupleShape } from '../queries.ts';

export interface MisfitSearch {
  readonly database: Queryable;
  /** All definitions as they would be. */
  readonly definitions: readonly Definition[];
  /** The type whose definition changes. */
  readonly type: string;
  readonly actor: string;
}

/** Shapes that fit no definition, whatever their ids are. */
async function misfitsOf({ database, definitions, type }: MisfitSearch): ReturnType<typeof tupleShapes> {
  const model = buildModel(definitions, 0);
  return (await tupleShapes(database, type)).filter((shape) => !fitsShape(model, shape));
}

function fitsShape(model: Model, shape: TupleShape): boolean {
  return fits(model, {
    subject: { type: shape.subjectType, id: shape.wildcard ? '*' : 'any', relation: shape.subjectRelation },
    relation: shape.relation,
    resource: { type: shape.resourceType, id: 'any' },
    condition: shape.condition ?? undefined,
  });
}

/** Throws 409 with examples when there are tuples that would count for nothing. */
export async function requireNoMisfits(search: MisfitSearch): Promise<void> {
  const misfits = await misfitsOf(search);
  if (misfits.length === 0) return;
  const problems = await Promise.all(
    misfits.slice(0, 10).map(async (shape) => ({
      path: `relations.${shape.relation}`,
      rule: 'inUse',
      message: `${shape.count} stored: ${(await examplesOf(search.database, shape, 5)).join(', ')} (on ${shape.resourceType})`,
    })),
  );
  const total = misfits.reduce((sum, { count }) => sum + count, 0);
  throw authorizationErrors.RESOURCE_IN_USE({
    message: `${total} stored relations would not be valid any more, such as ${problems[0]?.message}; force=true deletes them`,
    errors: problems,
  });
}

/** Deletes what does not fit, so that no right sleeps until the definition is changed back; answers how many. */
export async function removeMisfits(search: MisfitSearch): Promise<number> {
  let removed = 0;
  for (const shape of await misfitsOf(search)) removed += await deleteAlike(search.database, shape, search.actor);
  return removed;
}
