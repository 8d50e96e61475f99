/** Explanations for people: one sentence first, names instead of ids, and what would have to be true. */
import { recordLabels } from '../../../data/records/read/public-records.ts';
import type { Kernel } from '../../../host/kernel.ts';
import { hasAuthority, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Explanation, Question, Reason, Suggestion } from '../engine/engine.ts';
import {
  formatObject,
  type ObjectRef,
  parseObject,
  parseSubject,
  type SubjectRef,
} from '../model/grammar.ts';
import { grantedAction } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';

/** Objects whose names are looked up for one answer. */
const MAX_NAMED = 100;

export interface ToldSuggestion extends Suggestion {
  readonly sentence: string;
}

export interface Told {
  readonly sentence: string;
  readonly wouldAllow: readonly ToldSuggestion[];
  /** `Type:id` to what people call it, as far as the caller may know it. */
  readonly names: ReadonlyMap<string, string>;
}

export type TellExplanation = (
  caller: Caller,
  question: Question,
  explanation: Explanation,
) => Promise<Told>;

export function createTellExplanation({
  database,
  schemas,
}: Pick<Kernel, 'database' | 'schemas'>): TellExplanation {
  const namesOf = async (
    caller: Caller,
    objects: readonly ObjectRef[],
  ): Promise<ReadonlyMap<string, string>> => {
    const names = new Map<string, string>();
    for (const [type, group] of Map.groupBy(objects, (object) => object.type)) {
      const schema = schemas.get(type);
      if (!schema || !schemaObject(schema).every((object) => hasAuthority(caller, object)))
        continue;
      const ids = [...new Set(group.map(({ id }) => id))];
      const first = schemas.publicViews.get(type)?.fields ?? [];
      for (const [id, label] of await recordLabels(database, schema, ids, first))
        names.set(`${type}:${id}`, label);
    }
    return names;
  };

  return async (caller, question, explanation) => {
    const deciding = decidingTuples(explanation);
    const tuples = [...deciding, ...explanation.wouldAllow.map(({ tuple }) => tuple)];
    const objects = [
      question.subject,
      question.resource,
      ...tuples.flatMap(({ subject, resource }) => [subject, resource]),
    ];
    const names = await namesOf(caller, objects.slice(0, MAX_NAMED));
    const wouldAllow = explanation.wouldAllow.map((one) => ({
      ...one,
      sentence: suggestionText(names, one),
    }));
    return {
      sentence: sentenceOf(names, { question, explanation, deciding, wouldAllow }),
      wouldAllow,
      names,
    };
  };
}

type Names = ReadonlyMap<string, string>;

/** The tuples on which an allowed answer rests, from the subject on. */
function decidingTuples(reason: Reason): readonly Tuple[] {
  const texts = (one: Reason): readonly string[] =>
    one.allowed
      ? [...(one.tuple === undefined ? [] : [one.tuple]), ...one.parts.flatMap(texts)]
      : [];
  return [...new Set(texts(reason))].reverse().map(tupleOf);
}

/** As `formatTuple` writes it: no name and no id holds `@` or `#`. */
function tupleOf(text: string): Tuple {
  const at = text.lastIndexOf('@');
  const hash = text.lastIndexOf('#', at);
  return {
    subject: parseSubject(text.slice(0, hash), 'subject'),
    relation: text.slice(hash + 1, at),
    resource: parseObject(text.slice(at + 1), 'resource'),
  };
}

const people: ReadonlySet<string> = new Set(['User']);

/** `Bob`, `Note "Plan"`, or `Note:1` where there is no name. */
function called(names: Names, object: ObjectRef): string {
  const name = names.get(formatObject(object));
  if (name === undefined) return formatObject(object);
  return people.has(object.type) ? name : `${object.type} "${name}"`;
}

function subjectText(names: Names, subject: SubjectRef): string {
  if (subject.relation !== '')
    return `whoever is ${subject.relation} of ${called(names, { type: subject.type, id: subject.id })}`;
  return subject.id === '*' ? `every ${subject.type}` : called(names, subject);
}

function tupleText(names: Names, { subject, relation, resource }: Tuple): string {
  const [who, what] = [subjectText(names, subject), called(names, resource)];
  const action = grantedAction(relation);
  return action === undefined
    ? `${who} is ${relation} of ${what}`
    : `${who} may directly ${action} ${what}`;
}

function suggestionText(names: Names, { kind, tuple, field }: Suggestion): string {
  const said = tupleText(names, tuple);
  switch (kind) {
    case 'write':
      return said;
    case 'delete':
      return `it no longer is so that ${said}`;
    case 'condition':
      return `${said}, and the condition "${tuple.condition}" holds`;
    case 'field':
      return `the field "${field}" of ${called(names, tuple.resource)} names ${called(names, tuple.subject)}`;
  }
}

interface Material {
  readonly question: Question;
  readonly explanation: Explanation;
  readonly deciding: readonly Tuple[];
  readonly wouldAllow: readonly ToldSuggestion[];
}

function sentenceOf(
  names: Names,
  { question, explanation, deciding, wouldAllow }: Material,
): string {
  const who = subjectText(names, question.subject);
  const what = called(names, question.resource);
  const { outcome, missing, because } = explanation;
  if (outcome === 'undecided')
    return `Whether ${who} may ${question.action} ${what} depends on values that were not given: ${missing.join(', ')}.`;
  if (outcome === 'allowed') {
    const why =
      deciding.length > 0 ? deciding.map((one) => tupleText(names, one)).join(', and ') : because;
    return `${who} may ${question.action} ${what}: ${why}.`;
  }
  const [nearest] = wouldAllow;
  const remedy = nearest === undefined ? '' : ` It would be enough if ${nearest.sentence}.`;
  return `${who} may not ${question.action} ${what}.${remedy}`;
}
