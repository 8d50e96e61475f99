/**
 * A permission test file: a model, tuples, and what must follow from them
 * (docs/guides/permission-tests.md). Everything that is wrong is told at once, with its place.
 */
import Type, { type Static } from 'typebox';
import { Compile } from 'typebox/compile';
import { PenstockError, type Problem } from '../../../kernel/errors.ts';
import { jsonSchema } from '../../../kernel/operations/json-schema.ts';
import { problemsOf, type ValidatorError } from '../../../kernel/operations/problems.ts';
import { rulesIn } from '../engine/record-rules.ts';
import {
  type Definition,
  isFromField,
  parseDefinition,
  type RecordField,
} from '../model/definition.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { buildModel, grantRelation, type Model } from '../model/model.ts';
import { checkAgainst } from '../model/reference-check.ts';
import { tupleProblem } from '../model/tuple.ts';
import type { TimedTuple } from '../queries.ts';

const closed = { additionalProperties: false } as const;
const Names = Type.Record(Type.String(), Type.Unknown());

const TypeDefinition = Type.Object(
  {
    relations: Type.Optional(Names),
    permissions: Type.Optional(Names),
    conditions: Type.Optional(Names),
    actAs: Type.Optional(Type.String()),
  },
  closed,
);

/** `Subject relation Resource`, or its parts with what else a tuple may carry. */
const TupleEntry = Type.Union([
  Type.String(),
  Type.Object(
    {
      subject: Type.String(),
      relation: Type.String(),
      resource: Type.String(),
      condition: Type.Optional(Type.String()),
      attributes: Type.Optional(Names),
      expiresAt: Type.Optional(Type.String({ format: 'date-time' })),
    },
    closed,
  ),
]);

const Questions = Type.Array(Type.String());
const Answers = Type.Record(Type.String(), Type.Array(Type.String()));

const Test = Type.Object(
  {
    name: Type.String(),
    context: Type.Optional(Names),
    /** What rules about records say here, by their text: a test has no records. */
    rules: Type.Optional(Type.Record(Type.String(), Type.Boolean())),
    /** Beside those of the file. */
    tuples: Type.Optional(Type.Array(TupleEntry)),
    grants: Type.Optional(Questions),
    /** `Subject action Resource`. */
    allowed: Type.Optional(Questions),
    denied: Type.Optional(Questions),
    /** `Subject action Type`: the resources, in any order. */
    list: Type.Optional(Answers),
    /** `action Resource`: the users, in any order. */
    who: Type.Optional(Answers),
  },
  closed,
);

const FileShape = Type.Object(
  {
    name: Type.Optional(Type.String()),
    model: Type.Record(Type.String(), Type.Union([TypeDefinition, Type.Null()])),
    tuples: Type.Optional(Type.Array(TupleEntry)),
    /** Direct grants: `Subject action Resource`. */
    grants: Type.Optional(Questions),
    tests: Type.Array(Test, { minItems: 1 }),
  },
  closed,
);
const shape = Compile(FileShape);

export type PermissionTest = Static<typeof Test>;

/** A file that makes sense. */
export interface PermissionTestFile {
  readonly name: string | undefined;
  readonly model: Model;
  readonly tuples: readonly TimedTuple[];
  readonly tests: readonly {
    readonly test: PermissionTest;
    readonly tuples: readonly TimedTuple[];
  }[];
}

/** Reads what YAML or JSON gave. Answers every problem with its place instead when it makes no sense. */
export function readPermissionTests(document: unknown): PermissionTestFile | readonly Problem[] {
  if (!shape.Check(document)) {
    return problemsOf(
      jsonSchema(FileShape),
      shape.Errors(document) as readonly ValidatorError[],
      'the file',
    );
  }
  const problems: Problem[] = [];
  const model = readModel(document.model, problems);
  if (!model) return problems;
  const tuples = readTuples(model, document, { place: '', problems });
  problems.push(...emptyTests(document.tests), ...unknownRules(model, document.tests));
  const tests = document.tests.map((test, i) => ({
    test,
    tuples: readTuples(model, test, { place: `tests.${i}.`, problems }),
  }));
  return problems.length > 0 ? problems : { name: document.name, model, tuples, tests };
}

/** A test that asserts nothing holds whatever the model says: it is a mistake. */
const emptyTests = (tests: readonly PermissionTest[]): readonly Problem[] =>
  tests.flatMap(({ allowed = [], denied = [], list = {}, who = {} }, i) =>
    [...allowed, ...denied, ...Object.keys(list), ...Object.keys(who)].length > 0
      ? []
      : [
          {
            path: `tests.${i}`,
            rule: 'required',
            message: 'asserts nothing: it needs allowed, denied, list or who',
          },
        ],
  );

/** A misspelt rule would say nothing about the one that is meant. */
function unknownRules(model: Model, tests: readonly PermissionTest[]): readonly Problem[] {
  const known = new Set(
    model
      .types()
      .flatMap((type) =>
        [...(model.get(type)?.actions.values() ?? [])].flatMap(rulesIn).map(({ text }) => text),
      ),
  );
  return tests.flatMap(({ rules = {} }, i) =>
    Object.keys(rules)
      .filter((text) => !known.has(text))
      .map((text) => ({
        path: `tests.${i}.rules`,
        rule: 'rule',
        message: `no permission of the model has the rule "${text}"`,
      })),
  );
}

/** What the work threw, as problems. */
function collect<T>(problems: Problem[], place: string, work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof PenstockError)) throw error;
    problems.push(
      ...(error.errors ?? []).map((problem) => ({ ...problem, path: `${place}${problem.path}` })),
    );
    return undefined;
  }
}

function readModel(
  types: Static<typeof FileShape>['model'],
  problems: Problem[],
): Model | undefined {
  const definitions = Object.entries(types).flatMap(
    ([name, content]): Definition | readonly Definition[] => {
      const { relations = {}, permissions = {}, conditions = {}, actAs } = content ?? {};
      const input = {
        name,
        relations,
        fields: fieldsIn(relations),
        permissions,
        conditions,
        ...(actAs === undefined ? {} : { actAs }),
      };
      return collect(problems, `model.${name}.`, () => parseDefinition(input)) ?? [];
    },
  );
  if (problems.length > 0) return undefined;
  for (const definition of definitions) {
    const refused = checkAgainst(definition, definitions);
    problems.push(
      ...refused.map((refusal) => ({
        ...refusal,
        path: `model.${definition.name}.${refusal.path}`,
      })),
    );
  }
  return problems.length > 0 ? undefined : buildModel(definitions, 0);
}

type Entries = Pick<Static<typeof FileShape>, 'tuples' | 'grants'>;

function readTuples(
  model: Model,
  { tuples = [], grants = [] }: Entries,
  { place, problems }: { readonly place: string; readonly problems: Problem[] },
): readonly TimedTuple[] {
  const given = tuples.map((entry, i) => ({
    at: `${place}tuples.${i}`,
    entry: typeof entry === 'string' ? tupleOfWords(entry) : entry,
  }));
  const granted = grants.map((entry, i) => ({
    at: `${place}grants.${i}`,
    entry: grantOfWords(entry),
  }));
  return [...given, ...granted].flatMap(({ at, entry }) => {
    const tuple = collect(problems, `${at}.`, () => ({
      ...entry,
      subject: parseSubject(entry.subject, 'subject'),
      resource: parseObject(entry.resource, 'resource'),
    }));
    const refusal = tuple && tupleProblem(model, tuple);
    if (refusal)
      problems.push(
        ...(refusal.errors ?? []).map((problem) => ({ ...problem, path: `${at}.${problem.path}` })),
      );
    return tuple && !refusal ? [tuple] : [];
  });
}

/** The three words of a tuple; missing ones are empty, which the grammar refuses with their place. */
export function tupleOfWords(text: string) {
  const [subject = '', relation = '', resource = '', ...rest] = text.trim().split(/\s+/);
  return { subject, relation, resource: [resource, ...rest].join(' ') };
}

function grantOfWords(text: string) {
  const { relation, ...rest } = tupleOfWords(text);
  return { ...rest, relation: grantRelation(relation) };
}

/** There are no schemas here: what a field names is what the tuples of the file say. */
const fieldsIn = (relations: Readonly<Record<string, unknown>>): Record<string, RecordField> =>
  Object.fromEntries(
    Object.entries(relations).flatMap(([relation, value]) =>
      isFromField(value) ? [[relation, { field: value.from, many: true, type: '*' }]] : [],
    ),
  );
