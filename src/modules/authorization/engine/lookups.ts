/** The tuples that give a subject rows of a type, as lookups of an index: one per form of the subject, principal and relation. */
import { rulesTo } from '../model/ascent.ts';
import type { SubjectRef } from '../model/grammar.ts';
import type { Model, Name } from '../model/model.ts';
import { arrayText } from './array-text.ts';
import { type Lookup, lookupsOf } from './ascend.ts';
import type { Principal } from './principals.ts';
import { liveTuple } from './tuple-row.ts';

/** Whose rows are sought, and the objects through which he acts. */
export interface RowSearch {
  readonly subject: SubjectRef;
  readonly goal: Name;
  readonly principals: readonly Principal[];
}

/** The lookups that give every resource on which the subject may have the goal; those of public names are not among them. */
export function lookupsTo(model: Model, { subject, goal, principals }: RowSearch): readonly Lookup[] {
  const rules = rulesTo(model, goal);
  const byName = Map.groupBy(principals, (p) => p.name);
  return [
    ...lookupsOf(model, subject, rules.direct),
    ...rules.steps.flatMap((rule) =>
      (byName.get(rule.fromName) ?? []).map(({ type, id }) => ({ rule, subject: { type, id, relation: rule.setRelation } })),
    ),
  ];
}

/** Lookups as the columns of `unnest`, in the order of `lookupRows`. */
export const lookupColumns = (lookups: readonly Lookup[]): readonly string[] => [
  arrayText(lookups.map((l) => l.subject.type)),
  arrayText(lookups.map((l) => l.subject.id)),
  arrayText(lookups.map((l) => l.subject.relation)),
  arrayText(lookups.map((l) => l.rule.relation)),
  arrayText(lookups.map((l) => l.rule.exact)),
];

const columnTypes = ['text', 'text', 'text', 'text', 'boolean'];

/** `l(...)`: lookups as a relation, if wanted with their number `n` from 1; in sub-selects, so that one plan fits all (load.ts). */
export function lookupRows(next: (i: number) => string, numbered = false): string {
  const rows = `unnest(${columnTypes.map((type, i) => `(select ${next(i)}::${type}[])`).join(', ')})`;
  return numbered
    ? `${rows} with ordinality l(s_type, s_id, s_relation, relation, exact, n)`
    : `${rows} l(s_type, s_id, s_relation, relation, exact)`;
}

/** Tuples `t` of a lookup `l` that count, of resources of a type (SQL). */
export const lookupCondition = (type: string): string =>
  `t.subject_type = l.s_type and t.subject_id = l.s_id and t.subject_relation = l.s_relation
   and t.resource_type = ${type} and t.relation = l.relation and ${liveTuple('t')} and (t.condition is null or not l.exact)`;

/** Distinguishes the lookups of one subject and goal. */
export const lookupKey = ({ rule, subject }: Lookup): string => `${subject.type}:${subject.id}#${subject.relation} ${rule.relation}`;
