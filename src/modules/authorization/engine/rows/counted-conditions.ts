/** Which tuples of a lookup count by the conditions that they have, and how a statement says so. */
import { listValue } from '../../tuple-sql.ts';
import type { SeenTuples } from './conditional-tuples.ts';

export interface CountedConditions {
  /** Tuples without a condition count. */
  readonly unconditional: boolean;
  /** Tuples with a condition that count, by the id of the tuple. */
  readonly conditional: readonly string[];
  /** Instead: all of them but these, which are known to fail. */
  readonly failing?: SeenTuples | undefined;
  /** Instead: those that count by what their conditions and attributes are. */
  readonly satisfied?: ConditionTest | undefined;
}

/** A condition of SQL on a tuple `t` that has a condition. */
export type ConditionTest = (next: (value: unknown) => string) => string;

/** `and ...`: what the condition of a tuple `t` must be. */
export function conditionText(
  { unconditional, conditional, failing, satisfied }: CountedConditions,
  next: (value: unknown) => string,
): string {
  if (failing) {
    const others = unconditional ? '' : ' and t.condition is not null';
    if (failing.ids.length === 0) return others;
    const seen = `select f.id, f.written from unnest((select ${next(failing.ids)}::uuid[]), (select ${next(failing.written)}::text[])) f(id, written)`;
    return `${others} and (t.condition is null or ((t.id, t.xmin::text) in (${seen})) is not true)`;
  }
  if (satisfied)
    return ` and (${unconditional ? 't.condition is null or ' : ''}${satisfied(next)})`;
  // `num_nulls` instead of `is null`: a partial index on unconditional tuples does not hold the text of the resource's
  // id. Taken for these lookups, it would be read through for each row: all denials of somebody, row after row.
  if (conditional.length === 0) return ' and num_nulls(t.condition) = 1';
  const listed = `t.id = any(${next(listValue(conditional, 'uuid'))}::uuid[])`;
  return unconditional ? ` and (t.condition is null or ${listed})` : ` and ${listed}`;
}
