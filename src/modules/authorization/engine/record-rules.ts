/**
 * Rules about records in permissions: asked of the rows themselves, in one statement for each subject and type, by the
 * same condition that stands in the statement of a list.
 */
import { LRUCache } from 'lru-cache';
import { allRows } from '../../../data/records/sql/row-id.ts';
import { recordEnvironment } from '../../../data/rules/environment.ts';
import { type CompiledRule, compileRule, type Inputs } from '../../../data/rules/rule.ts';
import { RuleError } from '../../../data/rules/syntax.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { mayBeEverybodys, namesOfObject } from '../model/expansion-rules.ts';
import { childrenOf, type Expression, type RecordRule } from '../model/expression.ts';
import { formatSubject, isEverybody, type ObjectRef, type SubjectRef } from '../model/grammar.ts';
import { type Model, type Name, reachable } from '../model/model.ts';
import { inputsOf } from '../model/typed-rule.ts';
import { type Bounds, no, unknown, yes } from './graph.ts';
import type { SizeLimits } from './limits.ts';

/** Rules that are kept typed, for each state of a schema. */
const typed = new WeakMap<CompiledSchema, LRUCache<string, CompiledRule>>();

/** A model, and the database that is asked. */
export interface RuleScope {
  readonly model: Model;
  readonly database: Queryable;
  /** Absent: roles and teams of callers are not known. */
  readonly callers?: CallerLookup;
  /** Those of limits.ts unless set. */
  readonly sizes?: SizeLimits;
  /** What rules say, where there are no records: for a permission test. `undefined` is not known. */
  readonly told?: (rule: RecordRule) => boolean | undefined;
}

/** What rules may ask of a caller beside the id. */
export interface CallerFacts {
  /** Names. */
  readonly roles: readonly string[];
  /** Ids. */
  readonly teams: readonly string[];
}

export type CallerLookup = (
  scope: Omit<RuleScope, 'callers'>,
  subject: SubjectRef,
) => Promise<CallerFacts>;

const factNames: ReadonlyMap<string, keyof CallerFacts> = new Map([
  ['caller.roles', 'roles'],
  ['caller.teams', 'teams'],
]);

/** True for a rule that has to know roles or teams. */
export const asksFacts = ({ inputs }: CompiledRule): boolean =>
  [...inputs].some((name) => factNames.has(name));

/** What the rules of a type need to know of the subject; of everybody, and of a set, there is nothing to know. */
export async function factsFor(
  { callers, ...scope }: RuleScope,
  subject: SubjectRef,
  type: string,
  rules: Iterable<RecordRule>,
): Promise<CallerFacts | undefined> {
  if (!callers || subject.id === '*' || subject.relation !== '') return undefined;
  for (const rule of rules) {
    const record = recordRule(scope.model, type, rule);
    if (record && asksFacts(record.rule)) return callers(scope, subject);
  }
  return undefined;
}

/** Throws `RuleError` for a rule that is none over these fields. */
export const typedRule = (schema: CompiledSchema, { text, parameters }: RecordRule): CompiledRule =>
  compileRule(text, recordEnvironment(schema, parameters));

/** The rule over the records of its type; nothing when they lack what it speaks of: then it holds for nobody. */
export function recordRule(
  model: Model,
  type: string,
  rule: RecordRule,
): { readonly schema: CompiledSchema; readonly rule: CompiledRule } | undefined {
  const schema = model.schemaOf(type);
  if (!schema) return undefined;
  const known = typed.get(schema) ?? new LRUCache<string, CompiledRule>({ max: 200 });
  typed.set(schema, known);
  const key = JSON.stringify([rule.text, [...rule.parameters]]);
  const found = known.get(key) ?? compiled(schema, rule);
  if (found) known.set(key, found);
  return found && { schema, rule: found };
}

function compiled(schema: CompiledSchema, rule: RecordRule): CompiledRule | undefined {
  try {
    return typedRule(schema, rule);
  } catch (error) {
    if (error instanceof RuleError) return undefined;
    throw error;
  }
}

interface RuleValues {
  readonly subject: SubjectRef;
  readonly context: Readonly<Record<string, unknown>>;
  /** ISO 8601. */
  readonly now: string;
  /** Roles and teams of the subject, where a rule asks for them (`factsFor`). */
  readonly facts?: CallerFacts | undefined;
  /** `EvaluationContext.unnamed`. */
  readonly unnamed?: true | undefined;
  /** `EvaluationContext.gone`. */
  readonly gone?: true | undefined;
}

/** The id of somebody whom no record names. */
const nobody = newId();

/** What a rule knows beside the record. Of everybody of a type it is not known who asks; a visitor and a set are nobody. */
export function ruleInputs(
  rule: RecordRule,
  { subject, context, now, facts, unnamed }: RuleValues,
): Inputs {
  const inputs = inputsOf(rule, { context, attributes: {}, now });
  return (name) => {
    if (name === 'caller.type') return { value: subject.type };
    const fact = factNames.get(name);
    if (name !== 'caller.id' && fact === undefined) return inputs(name);
    if (subject.relation !== '' || isEverybody(subject)) return 'error';
    if (fact !== undefined) return facts && { value: facts[fact] };
    if (subject.id === '*') return unnamed && { value: nobody };
    return { value: subject.id };
  };
}

/** Rules of one expression. */
export const rulesIn = (expression: Expression): readonly RecordRule[] =>
  expression.kind === 'rule' ? [expression] : childrenOf(expression).flatMap(rulesIn);

/** Rules of the rows of a goal, whichever way they count. */
export const rulesOf = (model: Model, goal: Name): readonly RecordRule[] =>
  model.derived(`rules of ${goal.type} ${goal.kind} ${goal.name}`, () =>
    namesOfObject(model, goal, true).flatMap((name) =>
      rulesIn(model.expression(name) ?? { kind: 'none' }),
    ),
  );

/** Rules that an answer about a name can hang on, by type. */
export const rulesBelow = (
  model: Model,
  goal: Name,
): ReadonlyMap<string, ReadonlySet<RecordRule>> =>
  model.derived(`rules below ${goal.type} ${goal.kind} ${goal.name}`, () => {
    const found = new Map<string, Set<RecordRule>>();
    for (const name of [goal, ...reachable(goal, model.dependencies).edges.map(({ on }) => on)]) {
      const rules = rulesIn(model.expression(name) ?? { kind: 'none' });
      if (rules.length > 0)
        found.set(name.type, new Set([...(found.get(name.type) ?? []), ...rules]));
    }
    return found;
  });

/** The same for all rules that an answer about a name can hang on. */
export async function factsBelow(
  scope: RuleScope,
  subject: SubjectRef,
  goal: Name,
): Promise<CallerFacts | undefined> {
  for (const [type, rules] of rulesBelow(scope.model, goal)) {
    const facts = await factsFor(scope, subject, type, rules);
    if (facts) return facts;
  }
  return undefined;
}

export interface RuleAnswer {
  readonly bounds: Bounds;
  /** Values that it hangs on. */
  readonly missing: readonly string[];
}

/** Answers of rules about records that were asked. */
export interface RuleAnswers {
  of(subject: SubjectRef, object: ObjectRef, rule: RecordRule): RuleAnswer;
}

const denied: RuleAnswer = { bounds: no, missing: [] };
/** It neither gives nor leaves a right: who asks cannot tell more. */
const notKnown: RuleAnswer = { bounds: unknown, missing: [] };

/** In front of a rule among missing values: nobody told what it says. */
export const untoldRule = 'rule ';

function toldAnswer(holds: boolean | undefined, { text }: RecordRule): RuleAnswer {
  if (holds === undefined) return { bounds: unknown, missing: [untoldRule + text] };
  return holds ? { bounds: yes, missing: [] } : denied;
}

export const noRules: RuleAnswers = { of: () => denied };

export interface RuleQuestion {
  readonly subject: SubjectRef;
  readonly goal: Name;
}

/** Asks all rules below the goals about the objects, for each subject. */
export async function askRules(
  scope: RuleScope,
  questions: readonly RuleQuestion[],
  objects: readonly ObjectRef[],
  values: Omit<RuleValues, 'subject'>,
): Promise<RuleAnswers> {
  const { told } = scope;
  if (told) return { of: (_subject, _object, rule) => toldAnswer(told(rule), rule) };
  const bySubject = Map.groupBy(questions, ({ subject }) => formatSubject(subject));
  const answers = new Map<string, RuleAnswer>();
  for (const [subjectText, [first, ...more]] of bySubject) {
    if (!first) continue;
    const rules = new Map<string, ReadonlySet<RecordRule>>();
    for (const { goal } of [first, ...more])
      for (const [type, found] of rulesBelow(scope.model, goal))
        rules.set(type, new Set([...(rules.get(type) ?? []), ...found]));
    for (const [type, found] of rules) {
      const ids = [...new Set(objects.filter((o) => o.type === type).map((o) => o.id))];
      const question = { type, ids, rules: [...found] };
      const asked = await askRows(scope, question, { ...values, subject: first.subject });
      for (const [key, answer] of asked) answers.set(`${subjectText} ${key}`, answer);
    }
  }
  return {
    of: (subject, { type, id }, rule) =>
      answers.get(`${formatSubject(subject)} ${keyOfAnswer(type, id, rule)}`) ??
      (values.gone ? notKnown : denied),
  };
}

const keyOfAnswer = (type: string, id: string, { text, parameters }: RecordRule): string =>
  `${type}:${id} ${text} ${JSON.stringify([...parameters])}`;

interface RowsQuestion {
  readonly type: string;
  readonly ids: readonly string[];
  readonly rules: readonly RecordRule[];
}

const isUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

async function askRows(
  scope: RuleScope,
  { type, ids, rules }: RowsQuestion,
  given: RuleValues,
): Promise<ReadonlyMap<string, RuleAnswer>> {
  const found = new Map<string, RuleAnswer>();
  const { model, database } = scope;
  const usable = rules.flatMap((of) => {
    const record = recordRule(model, type, of);
    return record ? [{ of, ...record }] : [];
  });
  const schema = usable[0]?.schema;
  if (!schema || ids.length === 0) return found;
  const values = { ...given, facts: await factsFor(scope, given.subject, type, rules) };
  const parameters: unknown[] = [];
  const next = (value: unknown): string => `$${parameters.push(value)}`;
  const tests = usable.map(({ of, rule }) =>
    rule.predicate(ruleInputs(of, values), { alias: 'r', next }),
  );
  const known = schema.mapping
    ? `r."_id"::text = any(${next(ids)}::text[])`
    : `r."_id" = any(${next(ids.filter((id) => isUuid.test(id)))}::uuid[])`;
  const { rows } = await database.query<{ id: string; answers: readonly (boolean | null)[] }>({
    text: `select r."_id"::text as id, array[${tests.map(({ sql }) => sql).join(', ')}]::boolean[] as answers from ${allRows(schema)} r where ${known}`,
    values: parameters,
  });
  for (const { id, answers } of rows)
    for (const [i, { of }] of usable.entries())
      found.set(keyOfAnswer(type, id, of), answerOf(answers[i], tests[i]?.missing ?? []));
  return found;
}

function answerOf(holds: boolean | null | undefined, missing: readonly string[]): RuleAnswer {
  if (holds === true) return { bounds: yes, missing: [] };
  return holds === false || missing.length === 0 ? denied : { bounds: unknown, missing };
}

/* What lists start from. */

/** Rules that count towards a name on its own object. */
const rulesTowards = (model: Model, goal: Name): readonly RecordRule[] =>
  model.derived(`rules towards ${goal.type} ${goal.kind} ${goal.name}`, () =>
    namesOfObject(model, goal).flatMap((name) =>
      rulesIn(model.expression(name) ?? { kind: 'none' }),
    ),
  );

/** Ids of records that no tuple need give to the subject, in byte order, after one of them: all have the name, or a rule may give it. */
export async function openRows(
  scope: RuleScope,
  goal: Name,
  given: RuleValues,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<readonly string[]> {
  const schema = scope.model.schemaOf(goal.type);
  const parameters: unknown[] = [];
  const next = (value: unknown): string => `$${parameters.push(value)}`;
  const test = schema && (await openTest(scope, schema, { goal, given, next }));
  if (!schema || test === undefined) return [];
  // Ids of one form have the order of their characters.
  const isPlain = schema.mapping === undefined && (after === '' || isUuid.test(after));
  const id = isPlain ? 'r."_id"' : 'r."_id"::text collate "C"';
  const beyond = after === '' ? '' : `${id} > ${next(after)}::${isPlain ? 'uuid' : 'text'} and `;
  const { rows } = await scope.database.query<{ id: string }>({
    text: `select r."_id"::text as id from ${allRows(schema)} r where ${beyond}(${test}) order by ${id} limit ${next(limit)}::bigint`,
    values: parameters,
  });
  return rows.map((row) => row.id);
}

interface OpenQuestion {
  readonly goal: Name;
  readonly given: RuleValues;
  readonly next: (value: unknown) => string;
}

/** What holds of such records `r`; nothing where there are none. */
async function openTest(
  scope: RuleScope,
  schema: CompiledSchema,
  { goal, given, next }: OpenQuestion,
): Promise<string | undefined> {
  if (areServed(schema) && mayBeEverybodys(scope.model, goal)) return 'true';
  const rules = rulesTowards(scope.model, goal).flatMap((of) => {
    const record = recordRule(scope.model, goal.type, of);
    return record ? [{ of, rule: record.rule }] : [];
  });
  if (rules.length === 0) return undefined;
  const asked = rules.map(({ of }) => of);
  const values = { ...given, facts: await factsFor(scope, given.subject, goal.type, asked) };
  const tests = rules.map(({ of, rule }) => {
    const { sql, missing } = rule.predicate(ruleInputs(of, values), { alias: 'r', next });
    return missing.length > 0 ? `(${sql} is not false)` : sql;
  });
  return tests.join(' or ');
}

/** Records of other schemas are nobody's business here: a type of permissions may only have their name. */
const areServed = ({ modelOptions, key }: CompiledSchema): boolean =>
  modelOptions.conduit.authorization.enabled && key.length > 0;
