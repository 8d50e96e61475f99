/**
 * The meaning of definitions and tuples, as directly as it can be written: a
 * recursive search for a reason. It shares nothing with the engine but the
 * parsed definitions, and is what the engine is compared with.
 */

import type { Operand } from '../../../src/data/conditions/condition.ts';
import type { Condition } from '../../../src/modules/authorization/model/condition.ts';
import type {
  AllowedSubject,
  Definition,
} from '../../../src/modules/authorization/model/definition.ts';
import type { Expression } from '../../../src/modules/authorization/model/expression.ts';
import type { ObjectRef, SubjectRef } from '../../../src/modules/authorization/model/grammar.ts';
import type { Tuple } from '../../../src/modules/authorization/model/tuple.ts';

export interface NaiveDataSet {
  readonly definitions: ReadonlyMap<string, Definition>;
  readonly tuples: readonly Tuple[];
  readonly context: Readonly<Record<string, unknown>>;
  readonly now: string;
}

/** Answers "may `subject` do `action` on `object`?". */
export function naiveCheck(
  dataSet: NaiveDataSet,
  subject: SubjectRef,
  action: string,
  object: ObjectRef,
): boolean {
  if (subject.relation === '' && subject.type === object.type && subject.id === object.id)
    return true;
  return has(searchOf(dataSet, subject), object, `action ${action}`, []);
}

/** What gives needs tuples that hold; what takes away counts unless a tuple certainly does not. */
function searchOf(dataSet: NaiveDataSet, subject: SubjectRef): Search {
  const fitting = dataSet.tuples.filter((t) => fits(dataSet, t));
  const among = (counts: (holds: boolean | undefined) => boolean) => ({
    ...dataSet,
    tuples: fitting.filter((t) => counts(holds(dataSet, t))),
    subject,
    found: new Set<string>(),
  });
  const search: Search = { ...among((holds) => holds === true), against: () => against };
  const against: Search = { ...among((holds) => holds !== false), against: () => search };
  return search;
}

interface Search extends NaiveDataSet {
  readonly subject: SubjectRef;
  /** The search for what is taken away by what this one is for. */
  readonly against: () => Search;
  /** What was found to be true; that stays true wherever it is asked again. */
  readonly found: Set<string>;
}

function has(search: Search, object: ObjectRef, name: string, path: readonly string[]): boolean {
  const key = `${object.type}:${object.id} ${name}`;
  if (search.found.has(key)) return true;
  if (path.includes(key)) return false;
  const [kind, word = ''] = name.split(' ');
  const deeper = [...path, key];
  const { subject } = search;
  const isOwn =
    subject.relation === word &&
    subject.type === object.type &&
    subject.id === object.id &&
    name === memberOf(search, subject);
  const expression = search.definitions.get(object.type)?.actions.get(word);
  const relation = kind === 'relation' ? word : `can:${word}`;
  const result =
    isOwn ||
    stands(search, object, relation, deeper) ||
    (kind === 'action' && expression !== undefined && means(search, object, expression, deeper));
  if (result) search.found.add(key);
  return result;
}

function stands(
  search: Search,
  object: ObjectRef,
  relation: string,
  path: readonly string[],
): boolean {
  const { subject } = search;
  return tuplesOf(search, object, relation).some(({ subject: s }) => {
    if (s.type === '*') return subject.relation === '';
    if (
      s.type === subject.type &&
      s.relation === subject.relation &&
      (s.id === subject.id || (s.id === '*' && s.relation === ''))
    )
      return true;
    return s.relation !== '' && has(search, s, memberOf(search, s), path);
  });
}

function means(search: Search, object: ObjectRef, e: Expression, path: readonly string[]): boolean {
  switch (e.kind) {
    case 'none':
      return false;
    case 'everyone':
      return true;
    case 'rule':
      // Data sets have no records.
      return false;
    case 'relation':
      return has(search, object, `relation ${e.relation}`, path);
    case 'action':
      return has(search, object, `action ${e.action}`, path);
    case 'union':
      return e.of.some((part) => means(search, object, part, path));
    case 'intersection':
      return e.of.every((part) => means(search, object, part, path));
    case 'exclusion':
      // What is excluded cannot hang on what is being asked: definitions where it would are refused.
      return (
        means(search, object, e.base, path) && !means(search.against(), object, e.subtract, [])
      );
    case 'arrow': {
      const strict = search.definitions.get(object.type)?.relations.get(e.relation)?.[0]?.strict;
      const leading = (from: Search) =>
        tuplesOf(from, object, e.relation).filter((t) =>
          t.subject.relation === '' ? t.subject.id !== '*' : strict === true,
        );
      const one = (t: Tuple) => {
        const name = actionOf(search, t.subject.type, e.target);
        return name !== undefined && has(search, t.subject, name, path);
      };
      if (!e.all) return leading(search).some(one);
      // Also what only may lead there takes the answer away; what has nothing gives it in no case.
      return leading(search).some(one) && leading(search.against()).every(one);
    }
  }
}

const tuplesOf = (
  dataSet: NaiveDataSet,
  { type, id }: ObjectRef,
  relation: string,
): readonly Tuple[] =>
  dataSet.tuples.filter(
    (t) => t.resource.type === type && t.resource.id === id && t.relation === relation,
  );

function memberOf({ definitions }: NaiveDataSet, { type, relation }: SubjectRef): string {
  return definitions.get(type)?.relations.has(relation)
    ? `relation ${relation}`
    : `action ${relation}`;
}

function actionOf({ definitions }: NaiveDataSet, type: string, word: string): string | undefined {
  const definition = definitions.get(type);
  if (definition?.actions.has(word)) return `action ${word}`;
  return definition?.relations.has(word) ? `relation ${word}` : undefined;
}

function fits(
  { definitions }: NaiveDataSet,
  { subject, relation, resource, condition }: Tuple,
): boolean {
  const definition = definitions.get(resource.type);
  if (!definition || (subject.type !== '*' && !definitions.has(subject.type))) return false;
  if (relation.startsWith('can:'))
    return (
      subject.relation === '' &&
      subject.type !== '*' &&
      condition === undefined &&
      definition.actions.has(relation.slice(4))
    );
  return (definition.relations.get(relation) ?? []).some(
    (entry) => entry.condition === condition && meansSubject(entry, subject),
  );
}

function meansSubject(entry: AllowedSubject, subject: SubjectRef): boolean {
  const type = entry.type === '*' || entry.type === subject.type;
  if (!type || entry.relation !== subject.relation) return false;
  if (subject.id !== '*') return !entry.wildcard;
  return entry.wildcard || !entry.strict || subject.type === '*';
}

function holds(
  { definitions, context, now }: NaiveDataSet,
  { expired, condition: name, resource, attributes = {} }: Tuple,
): boolean | undefined {
  if (expired) return false;
  if (name === undefined) return true;
  const condition = definitions.get(resource.type)?.conditions.get(name);
  return condition !== undefined && truthOf(condition, { context, attributes, now });
}

/** The few kinds of condition that the generated models use; nothing where it cannot be decided. */
function truthOf(
  condition: Condition,
  values: {
    context: Readonly<Record<string, unknown>>;
    attributes: Readonly<Record<string, unknown>>;
    now: string;
  },
): boolean | undefined {
  if (condition.kind !== 'test' || condition.test.kind === 'exists')
    throw new Error('not generated');
  const { left: one, test } = condition;
  const value = (o: Operand) =>
    o.kind === 'literal'
      ? o.value
      : o.kind === 'now'
        ? values.now
        : o.kind === 'context'
          ? values.context[o.name]
          : o.kind === 'attribute'
            ? values.attributes[o.name]
            : undefined;
  const [left, right] = [value(one), value(test.right)];
  if (left === undefined || right === undefined) return undefined;
  if (test.kind === 'equal') return left === right;
  return Number.isNaN(Date.parse(String(left))) ? undefined : String(left) < String(right);
}
