/** Random models with tuples: everything that the language knows, on few objects, so that cycles and coincidences are common. */
import fc from 'fast-check';
import type { Problem } from '../../../src/kernel/errors.ts';
import {
  type AllowedSubject,
  type Definition,
  type DefinitionInput,
  parseDefinition,
  type RecordField,
} from '../../../src/modules/authorization/model/definition.ts';
import { everybody, type ObjectRef } from '../../../src/modules/authorization/model/grammar.ts';
import { buildModel, type Model } from '../../../src/modules/authorization/model/model.ts';
import { checkAgainst } from '../../../src/modules/authorization/model/reference-check.ts';
import type { Tuple } from '../../../src/modules/authorization/model/tuple.ts';

/** A tuple with what the table needs to know and the engine does not. */
export interface WrittenTuple extends Tuple {
  readonly deleted: boolean;
  /** It stands in columns of its resource, and not among the stored ones. */
  readonly inColumns?: true;
}

export interface RandomDataSet {
  readonly model: Model;
  readonly definitions: ReadonlyMap<string, Definition>;
  readonly tuples: readonly WrittenTuple[];
}

const kinds = ['Group', 'Folder', 'Doc'] as const;
const words = [0, 1, 2];
/** Objects per type. Ids of documents are row ids. */
export const objectCount = 3;

const uuidOf = (dataSet: number, n: number): string =>
  `00000000-0000-7000-8000-${(dataSet * 16 + n).toString(16).padStart(12, '0')}`;

/** Every third data set keeps one subject of the relations r0 and r1 of each folder and document in columns of its record. */
export const hasColumns = (dataSet: number): boolean => dataSet % 3 === 1;

/** Data sets whose folders and documents are records. */
export const hasRecords = (dataSet: number): boolean => hasFields(dataSet) || hasColumns(dataSet);

/** Every third data set takes the relations r1 and r2 of folders and documents from fields of their records. */
export const hasFields = (dataSet: number): boolean => dataSet % 3 === 2;

/** The objects of a type of a data set; types carry the number of the data set, so that many data sets share a table. */
export const objectsOf = (dataSet: number, kind: string): readonly ObjectRef[] =>
  words.map((n) => ({
    type: `${kind}${dataSet}`,
    id:
      kind === 'Doc' || hasRecords(dataSet)
        ? uuidOf(dataSet, 3 * ['Doc', 'Folder', 'Group', 'User'].indexOf(kind) + n)
        : `${kind.toLowerCase()}${n}`,
  }));

/** `r0` holds mostly people, the other relations mostly objects: arrows go along those. */
const role = fc.oneof(
  { weight: 5, arbitrary: fc.nat(2).map((n) => `r${n}`) },
  { weight: 2, arbitrary: fc.nat(2).map((n) => `a${n}`) },
  {
    weight: 6,
    arbitrary: fc.tuple(fc.integer({ min: 1, max: 2 }), fc.nat(2)).map(([r, a]) => `r${r}->a${a}`),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.integer({ min: 1, max: 2 }), fc.nat(2)).map(([r, t]) => `r${r}->r${t}`),
  },
  { weight: 1, arbitrary: fc.constant('*') },
);

const { expression } = fc.letrec<{ expression: unknown; list: unknown }>((tie) => ({
  list: fc.array(
    fc.oneof({ weight: 4, arbitrary: role }, { weight: 1, arbitrary: tie('expression') }),
    { maxLength: 3 },
  ),
  expression: fc.oneof(
    { maxDepth: 2, withCrossShrink: true },
    { weight: 6, arbitrary: fc.array(role, { minLength: 1, maxLength: 4, size: 'max' }) },
    { weight: 1, arbitrary: tie('list') },
    {
      weight: 1,
      arbitrary: fc.record({
        intersection: fc.array(fc.oneof(role, tie('expression')), { minLength: 1, maxLength: 3 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        exclusion: fc.record({ base: tie('expression'), subtract: tie('expression') }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.integer({ min: 1, max: 2 }), fc.nat(2))
        .map(([r, a]) => ({ every: `r${r}->a${a}` })),
    },
  ),
}));

const person = fc.oneof(
  { weight: 8, arbitrary: fc.constant('User') },
  { weight: 2, arbitrary: fc.constantFrom('User:*', 'User with mark', 'User:* with place') },
);
const object = fc.constantFrom('Group', 'Folder', 'Doc');
const special = fc.oneof(
  { weight: 1, arbitrary: fc.constant('Group:*') },
  {
    weight: 4,
    arbitrary: fc.constantFrom('Group#r0', 'Group#r1', 'Group#a0', 'Folder#a1', 'Doc#r0'),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom('Group with past', 'Folder with place', 'Group#r0 with mark'),
  },
  { weight: 1, arbitrary: fc.constant('*') },
);
const listOf = (...weights: [person: number, object: number, special: number]) =>
  fc.uniqueArray(
    fc.oneof(
      { weight: weights[0], arbitrary: person },
      { weight: weights[1], arbitrary: object },
      { weight: weights[2], arbitrary: special },
    ),
    { minLength: 1, maxLength: 3, size: 'max' },
  );

const conditions = {
  mark: { eq: [{ attribute: 'mark' }, 1] },
  past: { lt: [{ attribute: 'since' }, { now: true }] },
  place: { eq: [{ context: 'place' }, { attribute: 'place' }] },
};

const threeOf = <T>(arbitrary: fc.Arbitrary<T>) => fc.tuple(arbitrary, arbitrary, arbitrary);
const shape = fc.record({
  relations: fc.tuple(listOf(6, 1, 2), listOf(1, 6, 2), listOf(1, 6, 1)),
  actions: threeOf(expression),
});

const attributes = fc.record({
  mark: fc.nat(1),
  // The last is no time: nobody can say whether it is over.
  since: fc.constantFrom('2001-01-01T00:00:00.000Z', '2999-01-01T00:00:00.000Z', 'soon'),
  place: fc.constantFrom('home', 'work'),
});

const tupleSeed = fc.record({
  kind: fc.nat(2),
  relation: fc.nat(5),
  entry: fc.nat(2),
  subject: fc.nat(objectCount - 1),
  resource: fc.nat(objectCount - 1),
  attributes,
  expired: fc.constantFrom(undefined, undefined, undefined, undefined, false, true),
  deleted: fc.boolean(),
  /** Has a condition that its relation does not ask for. */
  stray: fc.nat(9).map((n) => n === 0),
});

/** What a random data set is made of; `buildDataSet` gives it a number. */
export const dataSetSeed = fc.record({
  shapes: threeOf(shape),
  tuples: fc.array(tupleSeed, { minLength: 3, maxLength: 20, size: 'max' }),
});
export type DataSetSeed = typeof dataSetSeed extends fc.Arbitrary<infer T> ? T : never;

export function buildDataSet(seed: DataSetSeed, dataSet: number): RandomDataSet {
  const inputs = kinds.map((kind, i) => inputOf(kind, seed.shapes[i] ?? seed.shapes[0], dataSet));
  const definitions = repair([
    { name: `User${dataSet}`, relations: {}, permissions: {} },
    ...inputs,
  ]);
  const byName = new Map(
    definitions.map((d) => [d.name, { ...d, columns: columnsOf(d.name, dataSet) }]),
  );
  const tuples = new Map<string, WrittenTuple>();
  const model = buildModel([...byName.values()], 0);
  for (const part of seed.tuples) {
    const tuple = tupleFrom(part, byName, dataSet);
    const field = model.fieldOf(tuple.resource.type, tuple.relation);
    if (!field) tuples.set(JSON.stringify([tuple.subject, tuple.relation, tuple.resource]), tuple);
    else if (tuple.subject.relation === '' && tuple.subject.id !== '*') {
      // A field that is no list holds the last that was said, and knows neither conditions nor times.
      const { subject, relation, resource, deleted } = tuple;
      const key = [relation, resource, ...(field.many ? [subject] : [])];
      tuples.set(JSON.stringify(key), { subject, relation, resource, deleted });
    }
  }
  return { model, definitions: byName, tuples: withColumns(model, [...tuples.values()]) };
}

const noColumns: ReadonlyMap<string, RecordField> = new Map();

const columnsOf = (name: string, dataSet: number): ReadonlyMap<string, RecordField> =>
  hasColumns(dataSet) && /^(Folder|Doc)/.test(name)
    ? new Map(
        ['r0', 'r1'].map((relation, n) => [
          relation,
          { field: `c${n}`, many: false, type: `User${dataSet}`, typeColumn: `c${n}Type` },
        ]),
      )
    : noColumns;

/** The first of each resource and relation that columns can say stands there, whether it fits or not. */
function withColumns(model: Model, tuples: readonly WrittenTuple[]): readonly WrittenTuple[] {
  const taken = new Set<string>();
  return tuples.map((tuple) => {
    const { subject, relation, resource, condition, expired } = tuple;
    const key = `${resource.type}:${resource.id}#${relation}`;
    const isPlain = subject.relation === '' && subject.id !== '*' && subject.type !== '*';
    const isSaid = isPlain && condition === undefined && expired === undefined;
    if (!isSaid || taken.has(key) || !model.columnOf(resource.type, relation)) return tuple;
    taken.add(key);
    return { ...tuple, inColumns: true };
  });
}

const numbered = (entry: string, dataSet: number): string =>
  entry.replace(/^(User|Group|Folder|Doc)/, `$1${dataSet}`);

function inputOf(
  kind: string,
  { relations, actions }: DataSetSeed['shapes'][0],
  dataSet: number,
): DefinitionInput {
  const fields = hasFields(dataSet) && kind !== 'Group' ? fieldsOf(relations, dataSet) : {};
  return {
    name: `${kind}${dataSet}`,
    relations: {
      ...Object.fromEntries(
        relations.map((entries, n) => [
          `r${n}`,
          relationOf(
            entries.map((entry) => numbered(entry, dataSet)),
            dataSet,
          ),
        ]),
      ),
      ...Object.fromEntries(Object.keys(fields).map((relation) => [relation, { from: relation }])),
    },
    fields,
    permissions: Object.fromEntries(actions.map((e, n) => [`a${n}`, e])),
    conditions,
  };
}

/** In every second data set relations take just what they name, and arrows go through their sets. */
const relationOf = (types: readonly string[], dataSet: number): unknown =>
  dataSet % 2 === 1 ? { types, strict: true } : types;

/** Of what a relation would have named first: r1 as a field, r2 as a list. */
const fieldsOf = (
  relations: DataSetSeed['shapes'][0]['relations'],
  dataSet: number,
): Record<string, RecordField> =>
  Object.fromEntries(
    ['r1', 'r2'].map((relation, i) => {
      const kind = /^(User|Group|Folder|Doc)/.exec(relations[i + 1]?.[0] ?? '')?.[1] ?? 'User';
      return [relation, { field: relation, many: relation === 'r2', type: `${kind}${dataSet}` }];
    }),
  );

/** Replaces what the static checks refuse by nothing, until they are content. */
function repair(inputs: readonly DefinitionInput[]): readonly Definition[] {
  let current = inputs;
  for (;;) {
    const problems = firstProblems(current);
    if (!problems) return current.map(parseDefinition);
    current = current.map((input) =>
      input.name === problems.name ? without(input, problems.places) : input,
    );
  }
}

function firstProblems(
  inputs: readonly DefinitionInput[],
): { name: string; places: readonly string[] } | undefined {
  const definitions: Definition[] = [];
  for (const input of inputs) {
    try {
      definitions.push(parseDefinition(input));
    } catch (error) {
      return {
        name: input.name,
        places: placesOf((error as { errors?: readonly Problem[] }).errors ?? []),
      };
    }
  }
  for (const definition of definitions) {
    const problems = checkAgainst(definition, definitions);
    if (problems.length > 0) return { name: definition.name, places: placesOf(problems) };
  }
  return undefined;
}

const placesOf = (problems: readonly Problem[]): readonly string[] =>
  problems.map((p) => /^(\w+\.\w+)/.exec(p.path)?.[1] ?? '');

const without = (input: DefinitionInput, places: readonly string[]): DefinitionInput => ({
  ...input,
  relations: Object.fromEntries(
    Object.entries(input.relations).map(([k, v]) => [
      k,
      places.includes(`relations.${k}`) ? [] : v,
    ]),
  ),
  permissions: Object.fromEntries(
    Object.entries(input.permissions).map(([k, v]) => [
      k,
      places.includes(`permissions.${k}`) ? [] : v,
    ]),
  ),
});

type TupleSeed = DataSetSeed['tuples'][number];

interface TuplePlace {
  readonly resource: ObjectRef;
  readonly dataSet: number;
}

/** An object that the entry takes; where it takes everything, sometimes everybody. */
function subjectFrom(
  entry: AllowedSubject | undefined,
  seed: TupleSeed,
  { resource, dataSet }: TuplePlace,
): ObjectRef {
  const subjectKind =
    !entry || entry.type === '*' ? (kinds[seed.entry] ?? 'Doc') : entry.type.replace(/\d+$/, '');
  const object = objectsOf(dataSet, subjectKind)[seed.subject] ?? resource;
  return entry?.type === '*' && seed.subject === 0 ? everybody : object;
}

/** Mostly a tuple that fits; where the relation allows nobody, one that does not. */
function tupleFrom(
  seed: TupleSeed,
  definitions: ReadonlyMap<string, Definition>,
  dataSet: number,
): WrittenTuple {
  const kind = kinds[seed.kind] ?? 'Doc';
  const resource = objectsOf(dataSet, kind)[seed.resource] ?? { type: '', id: '' };
  const common = { resource, expired: seed.expired, deleted: seed.deleted };
  if (seed.relation === 3) {
    const id = seed.subject === 0 ? '*' : (objectsOf(dataSet, 'User')[seed.subject]?.id ?? '');
    return {
      ...common,
      subject: { type: `User${dataSet}`, id, relation: '' },
      relation: `can:a${seed.entry}`,
    };
  }
  const relation = `r${seed.relation % 3}`;
  const entries = definitions.get(resource.type)?.relations.get(relation) ?? [];
  const entry = entries[seed.entry % Math.max(1, entries.length)];
  const subject = subjectFrom(entry, seed, { resource, dataSet });
  return {
    ...common,
    relation,
    subject: {
      ...subject,
      id: entry?.wildcard ? '*' : subject.id,
      relation: entry?.relation ?? '',
    },
    ...conditionOf(entry?.condition ?? (seed.stray ? 'mark' : undefined), seed),
  };
}

const conditionOf = (
  condition: string | undefined,
  { attributes }: TupleSeed,
): Pick<WrittenTuple, 'condition' | 'attributes'> =>
  condition === undefined ? {} : { condition, attributes };
