/** What is stored about a type, by everything that definitions decide on. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import { ownerColumn, ownerRelation } from '../../model/grammar.ts';
import { formatTuple } from '../../model/tuple.ts';
import { clearOwners, ownerTypes } from '../../owner-columns.ts';
import type { TupleFilter } from '../../queries.ts';
import type { TupleShape } from '../../tuple-removals.ts';
import { fieldTuples, recordTuplesOf } from '../relation-list.ts';

export interface CountedShape extends TupleShape {
  readonly count: number;
  /** Records say it, and no stored tuple. */
  readonly inRecords?: true;
}

/** Shapes of the stored tuples whose fate a definition can decide, with their number: those on its type, and those of its subjects. */
export async function tupleShapes(
  database: Queryable,
  type: string,
): Promise<readonly CountedShape[]> {
  const { rows } = await database.query<CountedShape>(sql`
    select subject_type as "subjectType", subject_relation as "subjectRelation", subject_id = '*' as wildcard, relation,
      resource_type as "resourceType", condition, count(*)::int as count
    from penstock.tuples
    where resource_type = ${type} or subject_type = ${type}
    group by 1, 2, 3, 4, 5, 6`);
  return rows;
}

/** Shapes of what the records of a type say about their owners. */
export async function ownerShapes(
  database: Queryable,
  type: string,
): Promise<readonly CountedShape[]> {
  return (await ownerTypes(database, type)).map(({ subjectType, count }) => ({
    subjectType,
    subjectRelation: '',
    wildcard: false,
    relation: ownerRelation,
    resourceType: type,
    condition: null,
    count,
    inRecords: true,
  }));
}

const ownersOf = (type: string) => ({ type, relation: ownerRelation, field: ownerColumn });
const filterOf = ({ subjectType, relation, resourceType }: TupleShape): TupleFilter => ({
  subjectType,
  relation,
  resourceType,
});

/** Some of them, as they are written. */
export const ownerExamples = async (
  database: Queryable,
  shape: TupleShape,
  limit: number,
): Promise<readonly string[]> =>
  (await recordTuplesOf(database, ownersOf(shape.resourceType), filterOf(shape), limit)).map(
    formatTuple,
  );

/** Takes all of them out of their records; answers how many. */
export function clearAlike(database: Queryable, shape: TupleShape, actor: string): Promise<number> {
  const values: unknown[] = [];
  const { resourceType } = shape;
  const found = fieldTuples(
    ownersOf(resourceType),
    filterOf(shape),
    (value) => `$${values.push(value)}`,
  );
  return clearOwners(database, resourceType, found, { values, actor });
}
