/** Explanations for people: one sentence first, names instead of ids, and what would have to be true. */
import { recordLabels } from '../../../data/records/read/public-records.ts';
import type { Kernel } from '../../../host/kernel.ts';
import { hasAuthority, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Explanation, Question, Reason, Suggestion } from '../engine/engine.ts';
import { format } from '../model/expression.ts';
import {
  formatObject,
  isEverybody,
  type ObjectRef,
  parseObject,
  parseSubject,
  type SubjectRef,
} from '../model/grammar.ts';
import { grantedAction } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import { existingObjects } from '../share-queries.ts';

/** Objects whose names are looked up for one answer. */
const MAX_NAMED = 100;
/** Relations of a long way that its sentence tells from the subject on, and up to the resource. */
const TOLD_AT_EACH_END = 4;

export type ToldSuggestion = Suggestion & { readonly sentence: string };

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
    const deciding = shortened(decidingGrounds(explanation));
    const { subject, resource } = question;
    const saying = explanation.wouldAllow.flatMap(recordsOf);
    const absent = await absentAmong({ database, schemas }, caller, {
      objects: [subject, resource],
      saying,
    });
    const possible = explanation.wouldAllow.filter((one) => isPossible(absent, one));
    const objects = [
      subject,
      resource,
      ...(explanation.refusedScope ? [explanation.refusedScope] : []),
      ...deciding.flatMap((one) => (typeof one === 'string' ? [] : objectsOfTuple(one))),
      ...possible.flatMap((one) =>
        one.kind === 'rule' ? [one.record] : objectsOfTuple(one.tuple),
      ),
    ];
    const names = await namesOf(caller, objects.slice(0, MAX_NAMED));
    const wouldAllow = possible.map((one) => ({
      ...one,
      sentence: suggestionText(names, one),
    }));
    return {
      sentence: sentenceOf(names, { question, explanation, deciding, wouldAllow, absent }),
      wouldAllow,
      names,
    };
  };
}

/**
 * Accounts, records of schemas that ask relations, and those that say something (`saying`), are there or not; other
 * objects may exist in relations alone.
 */
async function absentAmong(
  { database, schemas }: Pick<Kernel, 'database' | 'schemas'>,
  caller: Caller,
  { objects, saying }: Record<'objects' | 'saying', readonly ObjectRef[]>,
): Promise<ReadonlySet<string>> {
  const isKnown = ({ type, id }: ObjectRef): boolean => {
    const schema = id === '*' ? undefined : schemas.get(type);
    return schema !== undefined && schemaObject(schema).every((one) => hasAuthority(caller, one));
  };
  const isRecord = ({ type }: ObjectRef): boolean =>
    type === 'User' || schemas.get(type)?.modelOptions.conduit.authorization.enabled === true;
  const known = [...objects.filter(isRecord), ...saying].filter(isKnown);
  const there = await existingObjects(database, schemas, known);
  return new Set(known.map(formatObject).filter((object) => !there.has(object)));
}

type Names = ReadonlyMap<string, string>;

const objectsOfTuple = ({ subject, resource }: Tuple): readonly ObjectRef[] => [subject, resource];

/** Those that a suggestion changes, or whose name is to stand in them. */
function recordsOf(one: Suggestion): readonly ObjectRef[] {
  if (one.kind === 'rule') return [one.record];
  if (one.kind !== 'field') return [];
  return one.fits === false ? [one.tuple.resource] : objectsOfTuple(one.tuple);
}

/** A record that is not there, or lies in the trash, is changed by nobody, and no field names somebody who is not there. */
const isPossible = (absent: ReadonlySet<string>, one: Suggestion): boolean =>
  !recordsOf(one).some((object) => absent.has(formatObject(object)));

/** On what an allowed answer rests: a tuple, or in words what is none. */
type Ground = Tuple | string;

/** The grounds of an allowed answer, from the subject on. */
function decidingGrounds(reason: Reason): readonly Ground[] {
  const found = new Map<string, Ground>();
  const collect = ({ allowed, tuple, because, parts }: Reason): void => {
    if (!allowed) return;
    if (tuple !== undefined) found.set(tuple, tupleOf(tuple));
    else if (!parts.some((part) => part.allowed)) found.set(because, because);
    for (const part of parts) collect(part);
  };
  collect(reason);
  return [...found.values()].reverse();
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

/** Of a long way its beginning and its end; `paths` and the reasoning have all of it. */
function shortened(grounds: readonly Ground[]): readonly Ground[] {
  const left = grounds.length - 2 * TOLD_AT_EACH_END;
  return left <= 1
    ? grounds
    : [
        ...grounds.slice(0, TOLD_AT_EACH_END),
        `so on over ${left} more relations`,
        ...grounds.slice(-TOLD_AT_EACH_END),
      ];
}

/** `Bob`, `Note "Plan"`, or `Note:1` where there is no name. */
function called(names: Names, object: ObjectRef): string {
  const name = names.get(formatObject(object));
  if (name === undefined) return formatObject(object);
  return people.has(object.type) ? name : `${object.type} "${name}"`;
}

function subjectText(names: Names, subject: SubjectRef): string {
  if (subject.relation !== '')
    return `whoever is ${subject.relation} of ${called(names, { type: subject.type, id: subject.id })}`;
  if (isEverybody(subject)) return 'everybody';
  return subject.id === '*' ? `every ${subject.type}` : called(names, subject);
}

function tupleText(names: Names, { subject, relation, resource }: Tuple): string {
  const [who, what] = [subjectText(names, subject), called(names, resource)];
  const action = grantedAction(relation);
  return action === undefined
    ? `${who} is ${relation} of ${what}`
    : `${who} may directly ${action} ${what}`;
}

function suggestionText(names: Names, suggestion: Suggestion): string {
  if (suggestion.kind === 'rule') {
    const fits = `${called(names, suggestion.record)} fits the rule ${format(suggestion.rule)}`;
    return suggestion.fits ? fits : `it no longer is so that ${fits}`;
  }
  const { kind, tuple, field, fits } = suggestion;
  const said = tupleText(names, tuple);
  switch (kind) {
    case 'write':
      return said;
    case 'delete':
      return `it no longer is so that ${said}`;
    case 'condition':
      return `${said}, and the condition "${tuple.condition}" holds`;
    case 'field':
      return `the field "${field}" of ${called(names, tuple.resource)} ${fits === false ? 'no longer ' : ''}names ${called(names, tuple.subject)}`;
  }
}

interface Material {
  readonly question: Question;
  readonly explanation: Explanation;
  readonly deciding: readonly Ground[];
  readonly wouldAllow: readonly ToldSuggestion[];
  /** Of subject and resource: those that are not there. */
  readonly absent: ReadonlySet<string>;
}

function sentenceOf(names: Names, material: Material): string {
  const { question, explanation, deciding } = material;
  const who = subjectText(names, question.subject);
  const what = called(names, question.resource);
  const { outcome, missing, kind } = explanation;
  const said =
    kind === 'relation' ? `is ${question.action} of ${what}` : `may ${question.action} ${what}`;
  if (outcome === 'undecided')
    return `Whether ${who} ${said} depends on values that were not given: ${missing.join(', ')}.`;
  if (outcome === 'allowed') {
    const why = deciding.map((one) => (typeof one === 'string' ? one : tupleText(names, one)));
    return `${capital(who, question.subject)} ${said}: ${why.join(', and ')}.`;
  }
  const isAll = question.subject.id === '*';
  const denial = isAll ? `Not ${who} ${said}` : `${who} ${said.replace(/^(is|may) /, '$1 not ')}`;
  return `${denial}${causeOf(names, material)}`;
}

/** Sentences begin with a capital; names are left as they are. */
const capital = (who: string, { id }: SubjectRef): string =>
  id === '*' ? `${who.charAt(0).toUpperCase()}${who.slice(1)}` : who;

/** How the sentence of a denial ends: with what is not there, or with what would be enough. */
function causeOf(
  names: Names,
  { question: { action, subject, resource }, explanation, wouldAllow, absent }: Material,
): string {
  if (explanation.refusedScope) {
    const scope = called(names, explanation.refusedScope);
    return ` for ${scope}: that takes the action "${action}" on ${scope}, or the one that the definition of its type names under actAs.`;
  }
  if (absent.has(formatObject(subject))) return ': there is no such user.';
  if (absent.has(formatObject(resource)))
    return ': there is no such record, or it is in the trash.';
  const [nearest] = wouldAllow;
  return nearest === undefined ? '.' : `. It would be enough if ${nearest.sentence}.`;
}
